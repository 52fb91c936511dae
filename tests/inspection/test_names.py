"""Readable names of features, and weights as tables."""

import io

import numpy as np
import pytest
import small_models

from labelwright import CRF, Cascade, SemiCRF, read_columns
from labelwright.inspection.names import feature_names

X = [[("The", "DT"), ("dogs", "NNS")], [("It", "PRP")]]
Y = [["B", "I"], ["B"]]
CORPUS = read_columns(io.BytesIO(b"The DT B\ndogs NNS I\n\nIt PRP B\n\n"), names="word,pos,label")


def names(template: str) -> set[str]:
    model = CRF(template, max_iter=1, n_jobs=1).fit(CORPUS)
    return {feature_names(model._extractor)(f) for f in range(model._extractor.n_features)}


@pytest.mark.parametrize(
    ("line", "expected"),
    {
        "U08:%x[0,1]": "pos[0]=NNS",
        "U:%x[-1,1]/%x[0,1]": "pos[-1]=DT & pos[0]=NNS",
        "U:%x[1,0]": "word[1]=(end)",
        "U:%x[-2,0]": "word[-2]=(begin-1)",
        'U:%m[0,0,"^.?.?"]': "prefix(word[0],2)=do",
        "U:%suffix[0,0,3]": "suffix(word[0],3)=ogs",
        "U:%X[0,0]": "lower(word[0])=the",
        r'U:%t[0,0,"\d"]': r'test(word[0],"\d")=false',
        "U:%x[@1,0]": "word[@1]=The",
        "U\nB": "bias",
    }.items(),
)
def test_cells_are_written_as_column_and_row(line: str, expected: str) -> None:
    assert expected in names(line)


def test_lines_that_make_the_same_features_show_all_rows() -> None:
    made = names("U:%x[-1,0]\nU:%x[1,0]")
    assert any(name.endswith("[-1|1]=The") for name in made)


def test_labels_below_have_names() -> None:
    two = Cascade(
        [("low", CRF("U:%x[0,0]", max_iter=2)), ("high", CRF("U:%y[0]", max_iter=2))],
        n_jobs=1,
        max_iter=1,
    )
    two.fit(X, {"low": Y, "high": Y})
    assert {row.feature for row in two.layers_["high"].state_features_} == {"y[0]=B", "y[0]=I"}


@pytest.mark.parametrize("name", ["crf", "crf-order2", "latent-crf", "semi-crf", "perceptron"])
def test_tables_hold_every_weight(name: str) -> None:
    model = small_models.trained(name)
    states, transitions = model.state_features_, model.transition_features_
    weights = np.concatenate([[row.weight for row in rows] for rows in (states, transitions)])
    assert sorted(weights) == pytest.approx(
        sorted(model.weights_[model.weights_ != 0].astype(float))
    )
    for rows in (states, transitions):
        sizes = [abs(row.weight) for row in rows]
        assert sizes == sorted(sizes, reverse=True)


def test_a_segment_model_shows_all_lengths_dictionaries_and_transitions() -> None:
    model = small_models.trained("semi-crf")
    assert isinstance(model, SemiCRF)
    shown = model.describe()["segments"]
    types = set(model.segments_.types)
    assert list(shown["lengths"]) == [str(n) for n in range(1, model.segments_.max_length + 1)]
    assert set(shown["dictionaries"]) == {"people", "places"}
    for rows in (shown["lengths"], shown["dictionaries"], shown["transitions"]):
        assert all(set(row) == types for row in rows.values())
    table = {(row.feature, row.label): row.weight for row in model.state_features_}
    assert shown["lengths"]["1"]["PER"] == table["length=1", "PER"]
    assert shown["dictionaries"]["places"]["LOC"] == pytest.approx(
        table.get(("dictionary=places", "LOC"), 0.0)
    )


@pytest.mark.parametrize("setting", ["vectors", "dictionaries", "clusters", "arrays", "numbers"])
def test_features_of_ones_own_have_names(setting):
    rng = np.random.default_rng(0)
    words = ["Ada", "ran", "to", "Rome"]
    X, y = [[(word, str(i)) for i, word in enumerate(words)]] * 3, [["P", "O", "O", "L"]] * 3
    given = {
        "vectors": {"vectors": {word: rng.normal(size=3).tolist() for word in words}},
        "dictionaries": {
            "dictionaries": {"city": ["Rome"]},
            "template": "U:%x[0,0]\nU1:%d[0,city]",
        },
        "clusters": {
            "clusters": {"brown": dict.fromkeys(words, "0110")},
            "template": "U:%x[0,0]\nU1:%c[0,brown]",
        },
        "numbers": {"template": "U:%x[0,0]\nU1:%n[0,1]"},
    }
    arrays = {"arrays": [rng.normal(size=(4, 2)) for _ in X]} if setting == "arrays" else {}
    tagger = CRF(max_iter=3, **given.get(setting, {})).fit(X, y, **arrays)
    shown = {row.feature for row in tagger.state_features_}
    assert not any(name.startswith("column") for name in shown if setting != "numbers")
    expected = {
        "dictionaries": "city[0]=",
        "clusters": "brown[0]=",
        "vectors": "v[",
        "arrays": "a[",
        "numbers": "U1",
    }
    assert any(expected[setting] in name for name in shown), sorted(shown)
