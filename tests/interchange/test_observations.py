"""Random models over patterns, against all labellings enumerated by the definition of the model."""

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from pattern_models import PatternModel, as_crfpp, as_wapiti

from labelwright.errors import ModelFileError
from labelwright.interchange import crfpp, observations, wapiti

LABELS = ["O", "B-X"]
WORDS = ["a", "/", "a/", "a/a", "A", "É", "éa", "_y"]
SHARED = [
    "%x[0,0]",
    "%x[-1,0]",
    "%x[0,0]/%x[1,0]",
    "%x[-1,0]%x[0,0]",
    "/%x[0,0]/",
    "%x[-2,0]/%x[-1,0]/%x[0,0]",
    "",
]
WAPITI = [
    *(kind + rest for kind in "ub*" for rest in SHARED),
    "u%X[0,0]",
    "u%x[-6,0]/%x[6,0]",
    "u%x[@2,0]%x[@-2,0]",
    'u%t[-1,0,"a"]%t[1,0,"x"]',
    '*%m[0,0,"^.?"]',
    'u%M[1,0,"^.?"]/%x[0,0]',
    'b%T[0,0,"/"]',
]
CRFPP = [*(kind + rest for kind in "UB" for rest in SHARED), "U%x[-8,0]/%x[8,0]", "U%x[0,0]"]
PROGRAMS = {
    "wapiti": (WAPITI, "_x", 5, as_wapiti, wapiti),
    "crfpp": (CRFPP, "_B", 99, as_crfpp, crfpp),
}


@pytest.mark.parametrize("program", PROGRAMS)
@drawn(25)
@given(data=st.data())
def test_probabilities_are_those_of_the_definition(program, data):
    pool, mark, alike, written, reader = PROGRAMS[program]
    sentences = st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=3
    )
    patterns = data.draw(st.lists(st.sampled_from(pool), min_size=2, max_size=9))
    empty = PatternModel(patterns, LABELS, {}, mark, alike)
    known = [
        text
        for s in data.draw(sentences)
        for t in range(len(s))
        for text in empty.observations(s, t)
    ]
    rng = np.random.default_rng(len(known))
    weights = {text: np.float32(rng.normal(0, 2, empty.size(text))).tolist() for text in known}
    model = empty._replace(weights=weights)
    crf = reader.read(written(model), "model")
    rows = crf._extractor.vocabulary.rows.values()
    assert all(len(set(map(tuple, features.tolist()))) == len(features) for features in rows)
    crf = type(crf).unpack(*crf.pack())
    for sentence in data.draw(sentences):
        (rows,) = crf.predict_marginals([sentence])
        assert np.allclose(
            [list(row.values()) for row in rows], model.marginals(sentence), rtol=0, atol=1e-9
        )


def read_wapiti(patterns, texts):
    """The model of these observations, all with the same weights."""
    weights = {text: [1.0, 0.0] for text in texts}
    return wapiti.read(as_wapiti(PatternModel(patterns, LABELS, weights, "_x", 5)), "model")


def test_a_long_text_is_not_kept_in_all_its_parts():
    pieces = "/".join(f"{i:040}" for i in range(250)).encode()
    with pytest.raises(
        ModelFileError, match=r"^model: 'u:0+/0+'? and others .* separators between cells$"
    ):
        read_wapiti(["u:%x[-1,0]/%x[0,0]/%x[1,0]"], [b"u:" + pieces])


def test_all_readings_of_a_model_have_one_limit(monkeypatch):
    texts = [b"u:a/b/c/%d" % i for i in range(10)]
    # three readings of one text take about 390
    monkeypatch.setattr(observations, "MOST_WORK", (1800, 0))
    assert read_wapiti(["u:%x[-1,0]/%x[0,0]"], texts[:4])._extractor.n_features == 12
    with pytest.raises(ModelFileError, match="'u:a/b/c/4' and others can be read in too many ways"):
        read_wapiti(["u:%x[-1,0]/%x[0,0]"], texts)


def test_texts_that_are_cut_in_vain_take_work_too(monkeypatch):
    patterns = ["u:%x[-2,0]/%x[-1,0]/%x[0,0]+%x[1,0]", "u:%x[0,0]"]
    texts = [b"u:" + b"/" * 20 + b"%d" % i for i in range(10)]
    monkeypatch.setattr(observations, "MOST_WORK", (30_000, 0))
    assert read_wapiti(patterns, texts[:2])._extractor.n_features == 2
    with pytest.raises(ModelFileError, match="and others can be read in too many ways"):
        read_wapiti(patterns, texts)


def test_long_texts_take_more_work(monkeypatch):
    monkeypatch.setattr(observations, "MOST_WORK", (20_000, 0))
    assert (
        read_wapiti(["u:%x[-1,0]/%x[0,0]"], [b"u:" + b"/".join([b"a"] * 50)])._extractor.n_features
        == 49
    )
    with pytest.raises(ModelFileError, match="and others can be read in too many ways"):
        read_wapiti(["u:%x[-1,0]/%x[0,0]"], [b"u:" + b"/".join([b"a" * 1000] * 50)])
