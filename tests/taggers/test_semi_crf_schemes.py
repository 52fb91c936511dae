"""Labels of every scheme as segments and back, and where rows and arcs of segments lie."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from segmentations import SCHEMES, TEMPLATE, X, labelled

import labelwright
from labelwright import SemiCRF, Span
from labelwright.corpus import labels_of, spans_of
from labelwright.corpus.schemes import convert, pairs_of_codes
from labelwright.kernels import segments as kernels
from labelwright.structures.segments import (
    Segments,
    arcs_of,
    read_segments,
    row_offsets,
    rows_of,
    segment_space,
)


@st.composite
def segmentations(draw, kinds="XYO"):
    """Sentences as segments: O stands alone, and others have up to four tokens."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        own, at = [], 0
        for kind, length in draw(
            st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 4)), min_size=1, max_size=5)
        ):
            end = at + (1 if kind == "O" else length)
            own.append(Span(at, end, kind))
            at = end
        found.append(own)
    return found


@given(segmentations(), st.sampled_from([s for s in SCHEMES if s]))
def test_labels_become_segments_and_segments_labels(sentences, scheme):
    y = [labels_of([s for s in own if s.type != "O"], own[-1].end, scheme) for own in sentences]
    labels = sorted({label for own in y for label in own})
    codes, offsets = flat(y, labels)
    types, found = read_segments(labels, codes, offsets, scheme)
    cut_into = [[Span(*s) for s in in_sentence(found, types, offsets, n)] for n in range(len(y))]
    for own, read in zip(y, cut_into, strict=True):
        assert [s for s in read if s.type != "O"] == spans_of(own)
        assert [t for s in read for t in range(s.start, s.end)] == list(range(len(own)))
    if len(types) > 1:
        pairs = pairs_of_codes(labels, codes, offsets)
        space, found = segment_space(labels, codes, offsets, pairs, None)
        # Of few labels it may not be known which scheme they follow; then they are read as they
        # stand.
        for n, own in enumerate(y):
            kind = np.array(
                [space.types.index(s[2]) for s in in_sentence(found, space.types, offsets, n)]
            )
            bounds = np.array([s[:2] for s in in_sentence(found, space.types, offsets, n)]).reshape(
                -1, 2
            )
            written = space.labels_of(Segments(bounds[:, 0], bounds[:, 1], kind))
            assert written == (convert([own], None, space.scheme)[0] if space.scheme else own)


SPELLINGS = {
    "bilou": ("bilou", {}),
    "bmes": ("bmes", {}),
    "both": ("bioes", {"I": "M", "E": "L", "S": "U"}),
    "iob1 with M": ("iob1", {"I": "M"}),
    "iob2 with M": ("iob2", {"I": "M"}),
    "ioe1 with L": ("ioe1", {"E": "L"}),
    "ioe2 with L and M": ("ioe2", {"E": "L", "I": "M"}),
    "io with M": ("io", {"I": "M"}),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("spelt", SPELLINGS)
@pytest.mark.parametrize("typed", [True, False])
def test_answers_have_the_letters_of_the_training_labels(spelt, typed, tmp_path):
    scheme, letters = SPELLINGS[spelt]
    y = [[letters.get(label[0], label[0]) + label[1:] for label in own] for own in labelled(scheme)]
    if not typed:
        y = [[label[0] for label in own] for own in y]
    model = SemiCRF(TEMPLATE, l2=0.001, n_jobs=1).fit(X, y)
    assert model.scheme_ == scheme
    seen = {label[0] for own in y for label in own}
    assert {label[0] for label in model.classes_} <= seen
    assert np.isfinite(model.sequence_log_probabilities(X, y)).all()
    if typed or scheme != "io":  # where touching chunks are one
        assert model.predict(X) == y
    model.save(tmp_path / "model")
    for found in (model, labelwright.load(tmp_path / "model")):
        assert found.predict_nbest(X, n=3) == model.predict_nbest(X, n=3)
        assert {
            label for own in found.predict_nbest(X, n=9) for row, _ in own for label in row
        } <= set(model.classes_)
        assert found.decode(X, forced=y, probabilities=False) == model.decode(
            X, forced=y, probabilities=False
        )
        for sentence in found.predict_marginals(X):
            for row in sentence:
                assert sum(row.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["U-X", "O"], {"U-X", "O", "B-X", "I-X", "L-X"}),
        (["S-X", "O"], {"S-X", "O", "B-X", "I-X", "E-X"}),
        (["B-X", "L-X", "O"], {"B-X", "L-X", "O", "I-X", "U-X"}),
        (
            ["B-X", "M-X", "E-X", "S-Y", "O"],
            {f"{letter}-{kind}" for letter in "BMES" for kind in "XY"} | {"O"},
        ),
        (
            ["B-X", "L-X", "B-Y", "E-Y", "O"],
            {"B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "E-Y", "U-Y", "O"},
        ),
        (["B-", "I-", "O"], {"B-", "I-", "O"}),
    ],
)
def test_labels_that_training_has_not_are_spelt_like_those_it_has(y, expected):
    model = SemiCRF("U:%x[0,0]", max_length=4, max_iter=5, n_jobs=1).fit(
        [[str(t) for t in range(len(y))]], [y]
    )
    assert set(model.classes_) == expected


def test_a_type_may_be_called_o():
    y = [["B-O", "I-O", "O", "B-X"], ["O", "B-O"]]
    model = SemiCRF("U:%x[0,0]", l2=0.001, n_jobs=1).fit([["a", "b", "c", "d"], ["c", "e"]], y)
    assert model.predict([["a", "b", "c", "d"], ["c", "e"]]) == y
    assert np.isfinite(
        model.sequence_log_probabilities([["a", "b", "c", "d"], ["c", "e"]], y)
    ).all()


def flat(y, labels):
    codes = np.array([labels.index(label) for own in y for label in own])
    return codes, np.concatenate([[0], np.cumsum([len(own) for own in y])])


def in_sentence(found, types, offsets, n):
    own = (found.start >= offsets[n]) & (found.start < offsets[n + 1])
    bounds = zip(
        found.start[own] - offsets[n], found.end[own] - offsets[n], found.kind[own], strict=True
    )
    return [(int(a), int(b), types[x]) for a, b, x in bounds]


@given(st.lists(st.sampled_from("NVP"), min_size=1, max_size=9))
def test_runs_of_labels_that_follow_no_scheme(labels):
    codes, offsets = flat([labels], ["N", "V", "P"])
    types, found = read_segments(["N", "V", "P"], codes, offsets, None)
    expected, at = [], 0
    for kind, run in itertools.groupby(labels):
        length = len(list(run))
        expected.append((at, at + length, kind))
        at += length
    assert in_sentence(found, types, offsets, 0) == expected


@given(st.integers(1, 9), st.integers(1, 6), st.sampled_from(["iob2", None]))
def test_rows_and_arcs_are_where_they_are_said_to_be(T, longest, scheme):
    y = [["B-X", *["I-X"] * (longest - 1), "O", "B-Y"]] if scheme else [["N"] * longest + ["V"]]
    labels = list(dict.fromkeys(y[0]))
    codes, offsets = flat(y, labels)
    space, _ = segment_space(labels, codes, offsets, pairs_of_codes(labels, codes, offsets), None)
    assert (space.scheme, space.max_length) == (scheme, longest)
    arcs = arcs_of(space, T)
    rows = [(end - d, end) for end in range(1, T + 1) for d in range(1, min(end, longest) + 1)]
    assert row_offsets(np.array([0, T, T, 2 * T]), longest).tolist() == [
        0,
        len(rows),
        len(rows),
        2 * len(rows),
    ]
    assert kernels.n_rows(longest, T) == len(rows)
    start, end = np.array(rows).T
    asked = Segments(start + T, end + T, start * 0)
    assert rows_of(asked, np.array([0, T, 2 * T]), longest).tolist() == list(
        range(len(rows), 2 * len(rows))
    )
    # A checked graph with the same arcs says that they are in order, and which nodes are sources
    # and sinks.
    checked = labelwright.structures.dag.dag(arcs.dag.source, arcs.dag.target, arcs.dag.n_nodes)
    assert checked.sources.tolist() == [0] == arcs.dag.sources.tolist()
    assert checked.sinks.tolist() == arcs.dag.sinks.tolist()
    own = arcs.length > 0
    expected = [
        (a, b, x) for a, b in rows for x in range(space.n_types if b - a == 1 else space.n_long)
    ]
    found = zip(arcs.first[own], (arcs.first + arcs.length)[own], arcs.kind[own], strict=True)
    assert [tuple(map(int, one)) for one in found] == expected
    for shorter in range(1, T):
        made, part = arcs_of(space, shorter), arcs.of(shorter)
        for one, other in zip((*made.dag, *made.reading), (*part.dag, *part.reading), strict=True):
            np.testing.assert_array_equal(one, other)
        for name in ("first", "length", "kind", "before"):
            np.testing.assert_array_equal(getattr(made, name), getattr(part, name))
