"""Label schemes and spans against plain enumerations."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus.schemes import (
    SCHEMES,
    allowed,
    boundaries,
    check_scheme,
    convert,
    convert_codes,
    detect_scheme,
    repair,
    same_rules,
    split_label,
    validate,
)
from labelwright.corpus.spans import Span, labels_of, spans_of
from labelwright.errors import CorpusError, OptionError

LETTERS = {
    "iob1": "BI",
    "iob2": "BI",
    "ioe1": "IE",
    "ioe2": "IE",
    "bioes": "BIES",
    "bilou": "BILU",
    "bmes": "BMES",
    "io": "I",
}


def labels_in(scheme, types=("X", "Y")):
    return ["O", *(f"{letter}-{kind}" for letter in LETTERS[scheme] for kind in types)]


MIXED = st.lists(st.sampled_from(["O", *(f"{a}-{b}" for a in "BIES" for b in "XY")]), max_size=7)


def chunks_by_the_book(labels):
    """The chunks of any B I O E S sequence, token by token: an oracle that shares nothing with the
    tables."""
    chunks, open_chunk = [], None
    for position, label in enumerate([*labels, "O"]):
        letter, _, kind = label.partition("-")
        goes_on = open_chunk is not None and letter in "IE" and kind == open_chunk[1]
        if open_chunk is not None and not goes_on:
            chunks.append((open_chunk[0], position, open_chunk[1]))
            open_chunk = None
        if letter != "O" and open_chunk is None:
            open_chunk = (position, kind)
        if open_chunk is not None and letter in "ES":
            chunks.append((open_chunk[0], position + 1, open_chunk[1]))
            open_chunk = None
    return chunks


def layouts(length):
    """Every way to lay chunks of types X and Y over a few tokens."""
    if length == 0:
        yield []
        return
    for rest in layouts(length - 1):
        yield rest
    for size in range(1, length + 1):
        for rest in layouts(length - size):
            for kind in "XY":
                yield [*rest, Span(length - size, length, kind)]


def test_split_label_parts_at_the_first_hyphen():
    assert split_label("B-NP") == ("B", "NP")
    assert split_label("I-NP-SBJ") == ("I", "NP-SBJ")
    assert split_label("O") == ("O", "")


@given(MIXED)
def test_spans_follow_the_oracle(labels):
    assert [tuple(span[:3]) for span in spans_of(labels)] == chunks_by_the_book(labels)


@given(MIXED)
def test_boundaries_follow_the_oracle(labels):
    names = sorted(set(labels))
    table = boundaries(names)
    codes = [len(names), *map(names.index, labels), len(names)]
    starts = [t for t in range(len(labels)) if table.starts[codes[t], codes[t + 1]]]
    ends = [t + 1 for t in range(len(labels)) if table.ends[codes[t + 1], codes[t + 2]]]
    assert [(a, b) for a, b, _ in chunks_by_the_book(labels)] == list(
        zip(starts, ends, strict=True)
    )
    assert [table.types[table.type_of[codes[t + 1]]] for t in starts] == [
        kind for *_, kind in chunks_by_the_book(labels)
    ]


def test_spans_of_many_labels_take_memory_linear_in_them():
    labels = [f"B-{n}" for n in range(4000)]  # a table of all pairs would take 16 MB
    tracemalloc.start()
    spans = spans_of(labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert spans == [Span(n, n + 1, str(n)) for n in range(4000)]
    assert peak < 8 << 20


def test_boundaries_read_brackets_as_chunks_of_one_token_and_bare_letters_as_untyped_chunks():
    assert spans_of(["[-NP", "]-NP"]) == [Span(0, 1, "NP"), Span(1, 2, "NP")]
    assert spans_of(["B", "I", "O"]) == [Span(0, 2, "")]
    assert spans_of(["B", "AE", "I"]) == []  # phonemes, not chunks
    table = boundaries(["NN", "B", "VB"])
    assert table.types == []
    assert table.type_of.tolist() == [-1, -1, -1, -1]


def test_bilou_letters_mean_the_same_as_bioes():
    assert spans_of(["B-X", "L-X", "U-X"]) == spans_of(["B-X", "E-X", "S-X"])
    assert convert([["B-X", "L-X", "U-X"]], "bilou", "iob2") == [["B-X", "I-X", "B-X"]]
    assert convert([["B-X", "L-X", "U-X"]], "bioes", "iob2") == [["B-X", "I-X", "B-X"]]


@pytest.mark.parametrize(
    ("scheme", "written"),
    [
        ("bilou", ["B-X", "I-X", "L-X", "O", "U-X", "U-X"]),
        ("bmes", ["B-X", "M-X", "E-X", "O", "S-X", "S-X"]),
        ("bioes", ["B-X", "I-X", "E-X", "O", "S-X", "S-X"]),
    ],
)
def test_schemes_that_differ_in_their_letters_alone_write_their_own(scheme, written):
    labels = ["B-X", "I-X", "I-X", "O", "B-X", "B-X"]
    assert convert([labels], "iob2", scheme) == [written]
    assert convert([labels], "iob2", scheme.upper()) == [written]
    assert convert([written], scheme, "iob2") == [labels]
    assert detect_scheme(set(written)) == scheme
    assert validate([written], scheme) == []
    assert len(validate([written[:2]], scheme)) == 1
    assert spans_of(written, scheme) == spans_of(labels)
    assert all(same_rules(scheme, other) for other in ("bioes", "bilou", "bmes"))
    assert not same_rules(scheme, "iob2")


def test_mixed_letters_are_read_as_bioes_and_refused_by_the_others():
    assert detect_scheme({"B-X", "L-X", "S-Y"}) == "bioes"
    assert validate([["B-X", "L-X", "S-Y"]], "bioes") == []
    with pytest.raises(
        OptionError, match=r"scheme bilou: label 'E-X' is not one it writes \(letters B I L U O\)"
    ):
        validate([["B-X", "E-X"]], "bilou")


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "io"])
def test_every_layout_survives_writing_and_reading(scheme):
    for length in range(1, 5):
        for spans in layouts(length):
            labels = labels_of(spans, length, scheme)
            assert spans_of(labels) == spans
            assert spans_of(labels, scheme) == spans
            assert validate([labels], scheme) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_valid_means_written_just_so(scheme):
    """The pairs a scheme permits are exactly those that writing its own chunks produces."""
    names = labels_in(scheme)
    rules = allowed(names, scheme)
    for length in range(1, 5):
        for codes in itertools.product(range(len(names)), repeat=length):
            labels = [names[code] for code in codes]
            by_table = (
                rules.start[codes[0]]
                and rules.end[codes[-1]]
                and all(rules.arc[i, j] for i, j in itertools.pairwise(codes))
            )
            assert (
                by_table
                == (repair([labels], scheme) == [labels])
                == (not validate([labels], scheme))
            )


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "io"])
@given(labels=MIXED)
def test_repair_keeps_chunks_and_makes_labels_valid(scheme, labels):
    (repaired,) = repair([labels], scheme)
    assert spans_of(repaired) == spans_of(labels)
    assert validate([repaired], scheme) == []


@given(st.lists(MIXED, min_size=1, max_size=4), st.sampled_from(SCHEMES))
def test_convert_codes_is_convert(sentences, target):
    flat = [label for sentence in sentences for label in sentence]
    values = sorted(set(flat))
    codes = np.array([values.index(label) for label in flat], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, sentences)])
    names, converted = convert_codes(values, codes, offsets, None, target)
    assert [names[code] for code in converted] == [
        label for s in convert(sentences, None, target) for label in s
    ]


def test_validate_names_the_place():
    assert validate([["O"], ["O", "I-X", "B-Y"]], "iob2")[0] == (
        1,
        1,
        "I-X cannot follow O in iob2",
    )
    assert validate([["I-X", "I-X"]], "ioe2") == [(0, 1, "I-X cannot end a sentence in ioe2")]
    assert validate([["B-X"]], "iob1") == [(0, 0, "B-X cannot start a sentence in iob1")]
    assert validate([[]], "iob2") == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_detect_names_the_scheme_that_wrote_the_labels(scheme):
    sentences = convert(
        [["B-X", "I-X", "I-X", "B-X", "O", "B-Y"], ["O", "B-X", "B-Y", "I-Y"]], "iob2", scheme
    )
    assert (
        detect_scheme({label for sentence in sentences for label in sentence}, sentences) == scheme
    )


def test_detect_says_none_for_other_labels():
    assert detect_scheme(["NN", "VB", "O"]) is None
    assert detect_scheme(["O"]) is None
    assert detect_scheme(["B", "S", "AE", "-"]) is None


def test_errors_say_what_was_expected():
    with pytest.raises(OptionError, match="expected one of iob1, iob2"):
        check_scheme("iob3")
    with pytest.raises(OptionError, match="label 'E-X'"):
        allowed(["O", "E-X"], "iob2")
    with pytest.raises(OptionError, match="label 'NN' is no chunk label"):
        repair([["NN"]], "iob2")
    with pytest.raises(CorpusError, match="overlaps"):
        labels_of([Span(0, 2, "X"), Span(1, 3, "X")], 3)
    with pytest.raises(CorpusError, match="within 0:3"):
        labels_of([Span(2, 4, "X")], 3)


def test_strict_reading_leaves_out_what_the_scheme_would_not_write():
    labels = ["I-X", "O", "B-Y", "I-Y"]
    assert spans_of(labels) == [Span(0, 1, "X"), Span(2, 4, "Y")]
    assert spans_of(labels, "iob2") == [Span(2, 4, "Y")]
