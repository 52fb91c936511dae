"""Labels that are numbers: they come back as what they were, from every tagger and every answer."""

import numpy as np
import pytest

from labelwright import CRF, Cascade, LatentCRF, load
from labelwright.cli.files import load_model
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.interchange import formats
from labelwright.taggers.packing import with_text_labels
from labelwright.taggers.registry import tagger_names
from taggers import Case

X = [["the", "dog", "barks"], ["a", "bird", "sings"], ["it"]]
Y = [[0, 1, 2], [0, 1, 2], [1]]
# labels of arcs are strings
NAMES = [name for name in tagger_names() if name not in ("cascade", "lattice")]


def types_in(answer):
    """The types of all labels in a nested answer."""
    if isinstance(answer, list | tuple):
        return set().union(*map(types_in, answer)) if answer else set()
    return {type(answer)}


@pytest.mark.parametrize("name", NAMES)
def test_every_tagger_gives_numbers_back(name, tmp_path):
    tagger = Case(name).make().fit(X, Y)
    assert tagger.predict(X) == Y
    assert types_in(tagger.predict(X)) == {int}
    assert sorted(tagger.classes_) == [0, 1, 2]
    assert tagger.decode(X)[0].labels == Y[0]
    assert tagger.score(X, Y) == 1.0
    assert tagger.predict_nbest(X, 1)[0][0][0] == Y[0]
    if "probability" in tagger.can:
        assert set(tagger.predict_marginals(X)[0][0]) == {0, 1, 2}
        assert np.exp(tagger.sequence_log_probabilities(X, Y)).min() > 0.1
        assert types_in([labels for labels, _ in tagger.sample(X, 2)[0]]) == {int}
    if "forced" in tagger.can:
        assert tagger.decode(X, forced=[[2, None, [0, 1]], [None] * 3, [np.int64(0)]])[
            2
        ].labels == [0]
        with pytest.raises(OptionError, match="no label '0'"):
            tagger.decode(X, forced=[["0", None, None], [None] * 3, [None]])
    if name != "ngram":
        copy = load(tagger.save(tmp_path / "model") and tmp_path / "model")
        assert copy.predict(X) == Y
        assert types_in(copy.predict(X)) == {int}
        assert load_model(str(tmp_path / "model")).predict(X) == with_text_labels(copy).predict(X)
        assert with_text_labels(copy).predict(X) == [
            [str(label) for label in labels] for labels in Y
        ]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([[True, False, True], [True, False, True], [False]], bool),
        ([[0.5, 1.0, 2.0], [0.5, 1.0, 2.0], [1.0]], float),
        ([np.array(labels) for labels in Y], int),
        ([np.array(labels, np.int8) for labels in Y], int),
    ],
)
def test_types_are_kept_in_files(labels, kind, tmp_path):
    model = CRF(n_jobs=1).fit(X, labels)
    copy = load(model.save(tmp_path / "model") and tmp_path / "model")
    assert copy.predict(X) == [list(sentence) for sentence in labels]
    assert types_in(copy.predict(X)) == {kind}


def test_files_with_strings_have_no_mark_and_wrong_marks_are_refused():
    assert "label_type" not in CRF(n_jobs=1, max_iter=1).fit([["a"]], [["B"]]).pack()[1]
    tensors, header = CRF(n_jobs=1, max_iter=1).fit(X, Y).pack()
    assert header["label_type"] == "int"
    for wrong in ("complex", 3):
        with pytest.raises(
            ModelFileError, match="label_type: expected one of str, int, float, bool"
        ):
            CRF.unpack(tensors, header | {"label_type": wrong})
    text = CRF(n_jobs=1, max_iter=1).fit([["a"]], [["B"]]).pack()
    with pytest.raises(ModelFileError, match="tensor labels: invalid literal for int"):
        CRF.unpack(text[0], text[1] | {"label_type": "int"})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [[0, "1", 2], [0, 1, 2], [1]],
            "sentence 0, token 1: expected a label of type int, as those before it, got '1'",
        ),
        (
            [[0, 1, 2], [0, True, 2], [1]],
            "sentence 1, token 1: expected a label of type int, .* got True",
        ),
        (
            [[0.0, float("nan"), 2.0], [0.0] * 3, [1.0]],
            "sentence 0, token 1: no label, but nan; give None where it is unknown",
        ),
        ([["0", 1, "2"], ["0"] * 3, ["1"]], "sentence 0, token 1: expected a string, got 1"),
        ([[(0, 1)] * 3, [(0, 1)] * 3, [(0, 1)]], "sentence 0, token 0: expected a label, got"),
    ],
)
def test_mixed_and_other_types_are_refused(labels, message):
    with pytest.raises(CorpusError, match=rf"^y: {message}"):
        CRF(n_jobs=1).fit(X, labels)


def test_layers_may_differ_and_latent_states_are_counted_by_number(tmp_path):
    words = [["D", "N", "V"], ["D", "N", "V"], ["N"]]
    cascade = Cascade([("pos", CRF()), ("n", CRF())], n_jobs=1, passing="best").fit(
        X, {"pos": words, "n": Y}
    )
    copy = load(cascade.save(tmp_path / "model") and tmp_path / "model")
    assert copy.predict(X) == cascade.predict(X) == {"pos": words, "n": Y}
    assert with_text_labels(copy).predict(X)["n"][0] == ["0", "1", "2"]
    latent = LatentCRF(n_latent={0: 1, 1: 2, 2: 1}, n_jobs=1, random_state=0).fit(X, Y)
    assert latent._space.n_states == 4
    assert latent.predict(X) == Y


def test_models_of_other_programs_hold_them_as_text(tmp_path):
    formats.save(CRF(n_jobs=1, max_iter=1).fit(X, Y), tmp_path / "model.crfsuite")
    assert load(tmp_path / "model.crfsuite").classes_ == ["0", "1", "2"]
