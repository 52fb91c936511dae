"""A SemiCRF in terms of another one, and in its file."""

import json
import pickle

import numpy as np
import pytest
from segmentations import DICTIONARIES, SCHEMES, TEMPLATE, X, labelled, random_model

import labelwright
from labelwright import SemiCRF
from labelwright.errors import ModelFileError, NotFittedError, OptionError
from labelwright.structures.passing import Layered, certain


@pytest.fixture(scope="module", params=SCHEMES)
def model(request):
    return random_model(request.param)


# --- one model in terms of another ----------------------------------------------------------------


def test_a_model_like_another_has_its_segments(tmp_path):
    y = labelled("iob1")
    whole = SemiCRF(TEMPLATE, max_iter=30, n_jobs=1).fit(X, y)
    own = SemiCRF(TEMPLATE, max_iter=30, n_jobs=1).fit([X[0]], [y[0]])
    assert own.segments_ != whole.segments_
    for part in ([0], [1], [3], [0, 1, 2, 3]):
        fold = whole._like()
        assert not hasattr(fold, "weights_")
        assert fold.get_params() == whole.get_params()
        fold.fit([X[n] for n in part], [y[n] for n in part])
        assert (fold.segments_, fold.scheme_, fold.classes_) == (
            whole.segments_,
            whole.scheme_,
            whole.classes_,
        )
        assert fold.predict([X[n] for n in part]) == [y[n] for n in part]
    outside = whole._like().fit([["c", "a"]], [["O", "O"]])  # one type only
    assert outside.predict([["c", "a"]]) == [["O", "O"]]
    outside.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model").fit([X[0]], [y[0]])
    assert again.segments_ == own.segments_
    with pytest.warns(RuntimeWarning, match=r"^max_length=3: 1 longer segment"):
        assert whole._like().fit([["a"] * 4], [["I-X"] * 4]).segments_ == whole.segments_
    with pytest.raises(
        OptionError, match=r"^labels: no label 'I-Z' in this model, expected one of I-X, B-X, O, "
    ):
        whole._like().fit([["a"]], [["I-Z"]])
    with pytest.raises(NotFittedError):
        SemiCRF()._like()


def test_the_weights_of_a_model_in_its_own_terms_are_its_weights(model):
    np.testing.assert_array_equal(model._weights_of(model), model.weights_)


@pytest.mark.parametrize("kind", ["words", "dicts", "arrays", "layered"])
def test_the_weights_of_another_model_give_its_scores(kind):
    y = labelled("bioes")
    below = certain(("p", "q", "r"), [["pqr"["abc".index(w)] for w in x] for x in X])
    data = {
        "words": X,
        "dicts": [[{f"w={w}": 1.0, "x": 0.5} for w in x] for x in X],
        "arrays": [np.array([[w == "a", w == "b", 1.0] for w in x], float) for x in X],
        "layered": Layered(X, {"pos": below}),
    }[kind]
    lists = {"dictionaries": DICTIONARIES} if kind in ("words", "layered") else {}
    template = {"words": TEMPLATE, "layered": TEMPLATE + "\nUy:%y[0]\nUyw:%y[0]/%x[0,0]"}.get(
        kind, "default"
    )
    whole = SemiCRF(template, max_iter=5, n_jobs=1, **lists).fit(data, y)
    if lists:  # in another order, and one more
        lists = {"dictionaries": {"other": ["zzz"], **dict(reversed(DICTIONARIES.items()))}}
    fold = whole._like().set_params(**lists)
    some = Layered(
        X[1:4], {"pos": certain(below.labels, [["pqr"["abc".index(w)] for w in x] for x in X[1:4]])}
    )
    fold.fit(some if kind == "layered" else data[1:4], y[1:4])
    fold.weights_ = np.random.default_rng(4).normal(size=len(fold.weights_)).astype(np.float32)
    carried = pickle.loads(pickle.dumps(whole))
    carried.weights_ = whole._weights_of(fold)
    for found, expected in zip(
        carried.predict_nbest(data, n=6), fold.predict_nbest(data, n=6), strict=True
    ):
        assert [labels for labels, _ in found] == [labels for labels, _ in expected]
        np.testing.assert_allclose([p for _, p in found], [p for _, p in expected], rtol=1e-5)
    scores = [[d.score for d in each.decode(data)] for each in (carried, fold)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    # Back again, nothing is lost: the whole model has every feature of its part.
    kept = fold._weights_of(carried)
    named = {fold._extractor.name(f) for f in range(fold._extractor.n_features)}
    lost = named - {whole._extractor.name(f) for f in range(whole._extractor.n_features)}
    assert lost == ({"dictionary=other"} if lists else set())
    assert (kept == fold.weights_).sum() >= len(kept) - 3 * len(lost)


def test_the_weights_of_other_segments_are_none_of_ours():
    models = [
        SemiCRF(max_iter=1, n_jobs=1).fit(X, labelled(scheme)) for scheme in ("iob2", "bioes")
    ]
    with pytest.raises(
        OptionError, match=r"^weights_of: the other model has other types of segments; train it by "
    ):
        models[0]._weights_of(models[1])
    with pytest.raises(NotFittedError):
        models[0]._weights_of(SemiCRF())


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 65537, 1 << 31])
def test_a_file_has_no_segments_of_any_length(number):
    model = random_model("iob2")
    for part in (lambda header: header["features"]["segments"], lambda header: header["segments"]):
        tensors, header = model.pack()
        header = json.loads(json.dumps(header))
        part(header)["max_length"] = number
        with pytest.raises(ModelFileError, match=r"max_length.*a whole number from 1 to 65536"):
            SemiCRF.unpack(tensors, header)


def test_dictionaries_may_be_absent_and_words_may_have_blanks(tmp_path):
    model = SemiCRF("U:%x[0,0]", n_jobs=1).fit(
        [["New York", "now"], ["New", "York"]], [["B-C", "O"], ["B-D", "I-D"]]
    )
    model.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model")
    assert again.dictionaries is None
    assert again.predict([["New York"], ["New", "York"]]) == [["B-C"], ["B-D", "I-D"]]
