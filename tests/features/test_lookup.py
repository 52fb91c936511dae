"""A few tokens, looked up one by one, against the way of long input: the same features and the same
scores."""

import pickle
import threading
from itertools import pairwise

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright import CRF
from labelwright.corpus import Corpus
from labelwright.errors import CorpusError
from labelwright.features import attributes as dict_features
from labelwright.features import extract, lookup, vocabulary
from labelwright.features.attributes import Collected, DictFeatures, attributes_of
from labelwright.features.extract import ColumnFeatures

LINES = [
    "U",
    "U1:%x[0,0]",
    "U2:%x[-1,0]/%x[2,1]",
    "U3:%x[-2,1]/%x[-1,1]/%x[0,1]",
    "U4:%suffix[1,0,2]-%X[0,0]",
    "U5:%x[@1,0]",
    "U6:%x[@-1,1]/%x[0,0]",
    "U7:%x[@4,0]",
    "U8:%each[0,1]",
    "U9:%each[-1,1]/%x[0,0]",
    'Ua:%t[0,0,"^\\u"]/%shape[1,0]',
    'Ub:%m[0,0,"\\a*$"]',
    "B1:%x[0,1]",
    "*2:%x[-1,0]/%x[0,0]",
    "T1:%x[0,1]",
]
words = st.sampled_from(["a", "b", "ab", "Ab", "é", "Éa", "日本", "x-1"])
tags = st.sampled_from(["n", "v", "n|v", "v|n|x", "|", "n|n"])
sentences = st.lists(st.lists(st.tuples(words, tags), max_size=6), min_size=1, max_size=5).filter(
    any
)
templates = st.lists(st.sampled_from(LINES), min_size=1, max_size=6, unique=True).filter(
    lambda x: x[0][0] in "U*"
)


def features_of(incidence):
    """The numbers of the features of each token, sorted."""
    keys, key_ptr, key_feature, ptr, feature, _ = incidence
    rows = []
    for t in range(len(ptr) - 1):
        parts = [
            feature[ptr[t] : ptr[t + 1]],
            *(key_feature[key_ptr[k] : key_ptr[k + 1]] for k in keys[t]),
        ]
        rows.append(sorted(np.concatenate(parts).tolist()))
    return rows


def encoded(extractor, X, few, monkeypatch):
    monkeypatch.setattr(vocabulary, "FEW", few)
    monkeypatch.setattr(extract, "FEW", few)
    incidences, offsets = extractor.encode(X)
    return {name: features_of(x) for name, x in incidences.items()}, offsets.tolist()


@drawn(150)
@given(sentences, sentences, templates, st.sampled_from([lookup.NEAR, 0]))
def test_few_tokens_have_the_features_of_many(training, X, lines, near):
    extractor, _, _ = ColumnFeatures.learn(training, "\n".join(lines) + "\n", 1, may_be_empty=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "NEAR", near)
        many = encoded(extractor, X, 0, patch)
        assert encoded(extractor, X, 256, patch) == many
        assert encoded(extractor, Corpus.from_sequences(X), 256, patch) == many


@pytest.mark.parametrize("order", [1, 2])
def test_few_tokens_have_the_scores_of_many(chunks, order, monkeypatch):
    part = chunks.take(slice(0, 40))
    lines = (
        "B\nU1:%x[0,0]\nU2:%x[-1,1]/%x[0,1]\nB1:%x[0,1]\nU3:%suffix[0,0,2]\n"
        + "T1:%x[0,1]\n" * (order == 2)
    )
    model = CRF(lines, order=order, max_iter=5).fit(part)
    X = [chunks.X[50]]
    few = model.decode(X)[0]
    monkeypatch.setattr(vocabulary, "FEW", 0)
    monkeypatch.setattr(extract, "FEW", 0)
    many = model.decode(X)[0]
    assert few.labels == many.labels
    np.testing.assert_allclose(
        [few.score, few.log_probability], [many.score, many.log_probability], rtol=1e-9
    )


def test_it_forgets_when_it_is_full(monkeypatch):
    monkeypatch.setattr(lookup, "REMEMBERED", 10)
    extractor, _, _ = ColumnFeatures.learn([["a", "b"]], "U:%x[0,0]\n", 1)
    for n in range(50):
        incidences, _ = extractor.encode([["a", f"w{n}", "b"]])
        assert features_of(incidences["state"]) == [[0], [], [1]]
    assert extractor.vocabulary._lookup._n_values <= 13


def test_it_forgets_when_it_has_seen_too_much_of_few_values(monkeypatch):
    monkeypatch.setattr(lookup, "MOST_NUMBERS", 100)
    lines = "".join(f"U{n}:%prefix[0,0,{n}]\n" for n in range(1, 11))
    extractor, _, _ = ColumnFeatures.learn([["a", "b"]], lines, 1)
    for n in range(20):
        extractor.encode([["a", f"w{n}", "b"]])
        assert extractor.vocabulary._lookup._n <= 160


def test_memory_does_not_grow_with_columns_and_rows_that_lines_do_not_read_together():
    lines = [f"U{n}:%prefix[0,0,{n}]" for n in range(1, 61)] + [
        f"Uc{n}:%x[0,{n}]" for n in range(1, 30)
    ]
    extractor, _, _ = ColumnFeatures.learn(
        [[["a"] * 30]], "\n".join([*lines, "Ufar:%x[9999,0]", "Ub:%x[-1,0]"]), 1
    )
    incidences, _ = extractor.encode([[["a"] * 30, ["b"] * 30]])
    names = [[extractor.name(f) for f in features] for features in features_of(incidences["state"])]
    assert len(names[0]) == 60 + 29 + 1
    assert names[1] == ["Ufar:_B+9999"]
    assert extractor.vocabulary._lookup._remembered.nbytes < 10_000


def test_values_with_many_parts(monkeypatch):
    extractor, _, _ = ColumnFeatures.learn([["a|b", "b"]], "U:%each[0,0]\n", 1)
    many = "|".join(["a"] * (lookup.MOST_PARTS + 1))
    incidences, _ = extractor.encode([[many, "b|a|z"]])
    assert features_of(incidences["state"]) == [[0] * (lookup.MOST_PARTS + 1), [0, 1]]


def test_threads_share_what_is_remembered():
    words = [f"w{n}" for n in range(300)]
    extractor, _, _ = ColumnFeatures.learn([words], "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\n", 1)
    wrong = []

    def ask(begin):
        for n in range(200):
            pair = [words[(begin + 7 * n) % 300], words[(begin + 7 * n + 1) % 300]]
            incidences, _ = extractor.encode([pair])
            names = [extractor.name(f) for f in incidences["state"].token_feature.tolist()]
            if f"U1:{pair[0]}" not in names or f"U1:{pair[1]}" not in names:
                wrong.append(pair)

    threads = [threading.Thread(target=ask, args=(n * 40,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_quickly_made_again_is_not_pickled():
    extractor, _, _ = ColumnFeatures.learn([["a", "b"]], "U:%x[0,0]\n", 1)
    extractor.encode([["a"]])
    copied = pickle.loads(pickle.dumps(extractor))
    made = set(vars(extractor.vocabulary)) & {"_known", "_tables", "_index", "_firsts"}
    assert made
    assert not made & set(vars(copied.vocabulary))
    assert features_of(copied.encode([["b", "a"]])[0]["state"]) == [[1], [0]]


values_of_dicts = st.one_of(
    st.sampled_from(["a", "b", "=", ""]),
    st.booleans(),
    st.sampled_from([1.0, 0.5, 0, 1, 7, -2]),
    st.none(),
)
dicts = st.lists(
    st.lists(
        st.dictionaries(st.sampled_from(["w", "t", "n", "w=a"]), values_of_dicts, max_size=4),
        max_size=4,
    ),
    min_size=1,
    max_size=4,
)


@drawn(100)
@given(dicts, st.sampled_from(["=", ":"]))
def test_plain_dicts_are_read_as_collected_ones_are(X, separator):
    names = ["w=a", "w:a", "w:b", "t", "n", "w=", "n=a", "w=="]
    extractor = DictFeatures(names, separator)
    if any(value is None for sentence in X for token in sentence for value in token.values()):
        with pytest.raises(CorpusError, match="got NoneType"):
            extractor.encode(X)
        return
    incidences, offsets = extractor.encode(X)
    converted = [[attributes_of(token, separator) for token in sentence] for sentence in X]
    collected = Collected.of(converted, separator, extractor._index)
    assert offsets.tolist() == collected.offsets.tolist()
    assert rows_with_values(incidences["state"]) == rows_with_values(collected.incidence)


@drawn(100)
@given(dicts, st.sampled_from(["=", ":"]))
def test_plain_dicts_are_learnt_as_converted_ones_are(X, separator):
    X = [
        [{name: x for name, x in token.items() if x is not None} for token in sentence]
        for sentence in X
    ]
    learnt = Collected.of(X, separator)
    converted = Collected.of(
        [[attributes_of(token, separator) for token in sentence] for sentence in X], separator
    )
    names = list(learnt.names)
    number = [converted.names[name] for name in names]  # zeros beside False may have no feature
    rows = [[(number[f], value) for f, value in row] for row in rows_with_values(learnt.incidence)]
    assert list(map(sorted, rows)) == rows_with_values(converted.incidence)
    assert names == [name for name in converted.names if name in learnt.names]


def test_dicts_may_be_appended_beside_nested_ones_and_pickled_meanwhile():
    X = [[{"w": "a", "n": 2.5}, {"t": False}], [{"next": {"w": "b"}}], [], [{"n": 0.5, "t": True}]]
    one_by_one = Collected(":")
    for sentence in X:
        one_by_one.append(sentence)
        one_by_one = pickle.loads(pickle.dumps(one_by_one))
    with pytest.raises(CorpusError, match="sentence 4, token 0"):
        one_by_one.append([{"new": None}])
    together = Collected.of(X, ":")
    assert list(one_by_one.names) == list(together.names) == ["w:a", "n", "t", "next:w:b"]
    assert rows_with_values(one_by_one.incidence) == rows_with_values(together.incidence)
    assert rows_with_values(together.incidence) == [
        [(0, 1.0), (1, 2.5)],
        [],
        [(3, 1.0)],
        [(1, 0.5), (2, 1.0)],
    ]
    assert one_by_one.offsets.tolist() == together.offsets.tolist() == [0, 2, 3, 3, 4]


def rows_with_values(incidence):
    """The features of each token with their values; those that are 0 do not count."""
    ptr, feature = incidence.token_ptr, incidence.token_feature.tolist()
    value = incidence.token_value.tolist() or [1.0] * len(feature)
    pairs = list(zip(feature, value, strict=True))
    return [sorted(p for p in pairs[a:b] if p[1]) for a, b in pairwise(ptr.tolist())]


def test_numbers_of_dict_features_are_forgotten_and_not_pickled(monkeypatch):
    monkeypatch.setattr(dict_features, "REMEMBERED", 5)
    extractor = DictFeatures(["w=a", "w=b"])
    for n in range(30):
        incidences, _ = extractor.encode([[{"w": "a"}, {"w": f"x{n}"}]])
        assert features_of(incidences["state"]) == [[0], []]
        assert len(extractor._known) < 10
    assert not pickle.loads(pickle.dumps(extractor))._known


@pytest.mark.parametrize(
    "token", [{1: "a"}, {2: True}, {3: False}, {"w": float("nan")}, {"w": 10**400}, {"w": object()}]
)
def test_what_cannot_be_read_is_refused_as_ever(token):
    with pytest.raises(CorpusError, match="sentence 0, token 1"):
        DictFeatures(["w=a"]).encode([[{"w": "a"}, token]])
