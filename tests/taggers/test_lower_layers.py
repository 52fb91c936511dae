"""Cascades whose upper layers read any lower layer."""

import re
from functools import partial

import pytest

import labelwright
from labelwright import CRF, Cascade, Perceptron, SemiCRF
from labelwright.errors import ModelFileError, TemplateError

X = [["a", "b", "c"], ["b", "c"], ["c", "a", "b", "b"], ["a"], ["b", "a"], ["c", "c", "a"]] * 2
POS = [[{"a": "N", "b": "V", "c": "D"}[word] for word in x] for x in X]
MID = [["p" if t % 2 else "q" for t in range(len(x))] for x in X]
TOP = [["S" if label == "N" else "T" for label in labels] for labels in POS]  # depends on pos alone
Y = {"pos": POS, "mid": MID, "top": TOP}
NEW = [["a", "c", "b"], [], ["zzz", "a"]]
LOWER = "U1:%x[0,0]\nU2:%x[-1,0]\nB"
FROM_POS = "U:%y[0,pos]\nU2:%y[-1,pos]/%y[0,pos]\nB"

COMBINED = (
    "U:%y[0,pos]/%y[0]\nU:%log_y[0,pos]\nU:%y[-1]/%y[0]/%y[1]\n*:%y[-2,pos]/%x[0,0]/%y[0,pos]\nB"
)


def cascade(top=FROM_POS, passing="joint", kind=CRF, **settings):
    layers = [
        ("pos", kind(template=LOWER, max_iter=20)),
        ("mid", kind(template="U:%x[-1,0]\nU:%y[0]\nB", max_iter=20)),
        ("top", kind(template=top, max_iter=20)),
    ]
    return Cascade(
        layers, passing=passing, n_jobs=1, random_state=0, **({"max_iter": 5} | settings)
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("jackknife", [False, True])
@pytest.mark.parametrize("passing", ["best", "marginal", "joint", "sample", "nbest"])
def test_a_layer_learns_from_a_layer_two_below(passing, jackknife):
    model = cascade(passing=passing, jackknife=jackknife).fit(X, Y)
    assert model.predict(X)["top"] == TOP
    assert [len(row) for row in model.predict(NEW)["top"]] == [3, 0, 2]


def test_perceptrons_read_any_lower_layer():
    model = cascade(passing="best", kind=partial(Perceptron, averaging="none"))
    assert model.fit(X, Y).predict(X)["top"] == TOP


def test_the_name_of_the_layer_directly_below_means_that_layer():
    named = cascade("U:%y[0,mid]\nU:%x[0,0]\nB", "marginal").fit(X, Y)
    unnamed = cascade("U:%y[0]\nU:%x[0,0]\nB", "marginal").fit(X, Y)
    assert (named.layers_["top"].weights_ == unnamed.layers_["top"].weights_).all()
    assert named.predict_marginals(NEW) == unnamed.predict_marginals(NEW)


@pytest.mark.cases(1)
@pytest.mark.parametrize("top", [FROM_POS, COMBINED])
def test_files_and_copies_give_the_same_answers(tmp_path, top):
    model = cascade(top).fit(X, Y)
    model.save(tmp_path / "three.model")
    again = labelwright.load(tmp_path / "three.model")
    assert again.predict_marginals(NEW) == model.predict_marginals(NEW)
    assert set(again.layers[2][1].template.text.split("\n")) == set(top.split("\n"))
    assert again.set_params(passing="marginal").fit(X, Y).predict(X)["top"] == TOP
    assert (
        model.partial_fit(X[:2], {name: rows[:2] for name, rows in Y.items()}).predict(X)["top"]
        == TOP
    )


def test_a_file_whose_layers_were_renamed_is_refused():
    tensors, header = cascade(passing="marginal").fit(X, Y).pack()
    header["layers"][0]["name"] = "other"
    with pytest.raises(
        ModelFileError, match=r"layer 3: .* reads the labels of 'pos', expected a lower layer"
    ):
        Cascade.unpack(tensors, header)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        (
            "U:%y[0,poss]",
            r"layers: top: .*:1: U:%y\[0,poss\] reads .*, one of pos, mid; did you mean 'pos'\?",
        ),
        (
            "U:%y[0]\nU:%y[0,top]",
            r"layers: top: .*:2: .* 'top', which is not below this layer; expected one",
        ),
        ("U:%y[0,]", "expected the name of a lower layer, as in %y"),
        ("U:%y[@1,pos]", "%y reads labels near the token"),
        ("U:%y[0,pos,2]", "expected ] to close %y"),
    ],
)
def test_names_of_other_layers_are_refused_before_training(top, message):
    with pytest.raises(TemplateError, match=message):
        cascade(top).fit(X, Y)


def test_a_layer_may_not_read_a_higher_one():
    model = cascade()
    model.layers[1][1].template = "U:%y[0,top]"
    with pytest.raises(
        TemplateError, match=r"layers: mid: .* 'top', which is not below this layer; expected one"
    ):
        model.fit(X, Y)


def test_explanations_name_the_layer_and_add_up():
    model = cascade("U:%y[0,pos]\nU:%y[0]\nU:%log_y[0,pos]\nU:%y[0]/%y[1,pos]\nB").fit(X, Y)
    names = set()
    for each in model.explain(X[2])["top"]:
        assert sum(c.value for c in each.contributions) == pytest.approx(each.log_odds, abs=1e-4)
        names |= {re.sub("=[^ ]*", "", c.name) for c in each.contributions if c.below}
    assert names == {"y[0,pos]", "y[0]", "log_y[0,pos]", "y[0] & y[1,pos]"}


def test_segments_read_any_lower_layer():
    y = {**Y, "top": [["B-X" if label == "S" else "O" for label in row] for row in TOP]}
    layers = [
        ("pos", CRF(template=LOWER)),
        ("mid", CRF(template=LOWER)),
        ("top", SemiCRF(template="U:%y[0,pos]\nB")),
    ]
    model = Cascade(layers, max_iter=3, n_jobs=1).fit(X, y)
    assert model.predict(X)["top"] == y["top"]
