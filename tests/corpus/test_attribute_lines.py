"""CRFsuite's data files: fields and escapes, damaged files, and how a file is recognised."""

import gzip
import io
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labelwright
from labelwright.corpus import attribute_lines, read_columns
from labelwright.corpus.attribute_lines import attribute_of, evidence_of, parse_attribute_lines
from labelwright.errors import CorpusError
from labelwright.features.attributes import Collected

TEXT = (
    "B-NP\tw=He\tlength:2\tBOS\nB-VP\tw=ran\tlength:3\n\n\n"
    "B-NP\tw=Ärzte\tlength:5\tBOS\nO\tw=.\n"
)  # fmt: skip
WINDOWS = "".join(
    f"{label}\tw[0]={word}\tw[1]=x{word}\n"
    for label, word in [("A", "a"), ("B", "b"), ("A", "c")] * 4
)


def read(text):
    return labelwright.read_crfsuite(io.BytesIO(text.encode() if isinstance(text, str) else text))


def rows(X):
    """The attributes of every token, by name."""
    names, incidence = list(X.names), X.incidence
    value = (
        incidence.token_value
        if len(incidence.token_value)
        else [1.0] * len(incidence.token_feature)
    )
    pairs = [(names[f], float(v)) for f, v in zip(incidence.token_feature, value, strict=True)]
    ends = incidence.token_ptr.tolist()
    return [pairs[a:b] for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize(
    "change", [lambda s: s, lambda s: s.replace("\n", "\r\n"), lambda s: "\ufeff" + s + "\n\n \t\n"]
)
def test_labels_attributes_and_values(change):
    X, y = read(change(TEXT))
    assert y == [["B-NP", "B-VP"], ["B-NP", "O"]]
    assert X.offsets.tolist() == [0, 2, 4]
    assert rows(X) == [
        [("w=He", 1), ("length", 2), ("BOS", 1)],
        [("w=ran", 1), ("length", 3)],
        [("w=Ärzte", 1), ("length", 5), ("BOS", 1)],
        [("w=.", 1)],
    ]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a", "a", 1),
        ("a:2.5", "a", 2.5),
        ("a:-1e-3", "a", -0.001),
        ("a:.5", "a", 0.5),
        ("a:", "a", 1),  # as in CRFsuite
        ("a:b", "a:b", 1),
        ("a:b:2", "a:b", 2),
        (r"a\:2", "a:2", 1),
        (r"a\:b:2", "a:b", 2),
        (r"a\\:2", "a\\", 2),
        (r"a\\\:2", "a\\:2", 1),
        (r"a\b\\", "a\\b\\", 1),
        ("a:nan", "a:nan", 1),
        ("a:1_0", "a:1_0", 1),
        ("a:٣", "a:٣", 1),
        (":3", "", 3),
    ],
)
def test_escapes_and_values(text, name, value):
    assert attribute_of(text) == (name, value)


NAME = st.text(
    st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=4
)


@given(
    st.lists(
        st.lists(st.tuples(NAME, st.sampled_from([None, 2.0, -0.25])), max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_escaped_is_read_back(tokens):
    def field(name, value):
        escaped = name.replace("\\", "\\\\").replace(":", "\\:")
        return escaped if value is None else f"{escaped}:{value}"

    tokens = [[("x", None)], *tokens]
    lines = ["\t".join(["L", *(field(name, value) for name, value in token)]) for token in tokens]
    X, y = read("\n".join(lines))
    assert y == [["L"] * len(tokens)]
    assert rows(X) == [
        [(name, 1.0 if value is None else value) for name, value in token] for token in tokens
    ]


def test_escaped_labels_and_empty_fields():
    X, y = read("a\\:b\tx\t\ty\t\nc\n")
    assert y == [["a:b", "c"]]
    assert rows(X) == [[("x", 1), ("y", 1)], []]


def test_a_large_file_is_read_in_blocks(monkeypatch):
    monkeypatch.setattr(attribute_lines, "MOST_VALUED", 3)
    text = "".join(f"L{i % 3}\tw=a{i % 5}\tx:{i / 7}\n" + "\n" * (i % 4 == 0) for i in range(60))
    whole = parse_attribute_lines(text.encode(), "x")
    blocks = attribute_lines._blocks
    monkeypatch.setattr(
        attribute_lines, "_blocks", lambda text, source, first: blocks(text, source, first, 50)
    )
    parts = parse_attribute_lines(text.encode(), "x")
    assert parts.names == whole.names
    assert parts.attribute.tolist() == whole.attribute.tolist()
    assert parts.value.tolist() == whole.value.tolist()
    assert parts.labels.y == whole.labels.y
    assert parts.labels.y[1] == ["L1", "L2", "L0", "L1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "<stream>: no tokens"),
        ("\n \n\t\n", "<stream>: no tokens"),
        ("He PRP\nran VBD\n", "<stream>: no attributes, expected some after the label"),
        ("A\tx\n\tx\n", "<stream>:2: begins with a tab, expected the label"),
        ("A\tx\n\n@weight:2.0\nA\tx\n", "<stream>:3: weights of sentences"),
        ("A\tx\nA:2\tx\n", "<stream>:2: label 'A:2': write a colon as"),
        ("A\tx\nA\tx:1e99\n", "<stream>:2: attribute 'x:1e99': expected a number up to 3.4e38"),
        (b"A\tx\nA\t\xff\n", "<stream>:2: byte 3 of the line .0xff. is not UTF-8"),
    ],
)
def test_errors_name_the_line(text, message):
    with pytest.raises(CorpusError, match=message):
        read(text)


def test_long_runs_of_digits_are_matched_in_linear_time():
    digits = "1" * 30_000
    started = time.process_time()
    for field in (f"a:{digits}x", f"a:{digits}.{digits}x", f"a:1e{digits}x"):
        assert attribute_of(field) == (field, 1.0)
        assert not evidence_of(f"A\t{field}\tb\n".encode() * 3).is_attributes
    assert time.process_time() - started < 5  # minutes, where each split of the digits is tried


def test_fields_of_absurd_length_are_refused():
    long = "x" * 65_537
    for line in (f"A\ta\t{long}\n", f"{long}\ta\n"):
        with pytest.raises(
            CorpusError, match=r"<stream>:3: a value of 65,537 characters, expected at most 65,536"
        ):
            read("A\ta\n\n" + line)
    assert len(read("A\ta\tb" + "\tc" * 40_000 + "\n").y) == 1  # a long line of short fields


def test_compressed_and_damaged_files(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert labelwright.read_crfsuite(path).y == read(TEXT).y
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(CorpusError, match=r"a.gz: damaged or truncated"):
        labelwright.read_crfsuite(path)
    with pytest.raises(CorpusError, match="no such file"):
        labelwright.read_crfsuite(tmp_path / "b")


def test_a_model_reads_it_like_dicts():
    X, y = read(TEXT)
    dicts = [[dict(token) for token in rows(X)[a:b]] for a, b in ((0, 2), (2, 4))]
    ours = labelwright.CRF(n_jobs=1, max_iter=10).fit(X, y, dev=read(TEXT))
    theirs = labelwright.CRF(n_jobs=1, max_iter=10).fit(dicts, y)
    assert sorted(ours._extractor.names) == sorted(theirs._extractor.names)
    assert ours.predict(X) == y == ours.predict(dicts)
    unknown = read("A\tw=He\tnew\tlength:2\n").X
    assert ours.predict_marginals(unknown) == ours.predict_marginals([[{"w": "He", "length": 2}]])
    assert (
        Collected.of(dicts).incidence.token_feature.tolist() == X.incidence.token_feature.tolist()
    )


@pytest.mark.parametrize(
    ("text", "is_attributes", "may_be"),
    [
        (TEXT * 2, True, True),
        ("A\tHe\tran\nB\tran\nA\tx\n", False, True),
        (WINDOWS, True, True),
        ("A\tw=a\tx=b\nB\tw=b\nA\tw=c\tx=c\n", True, True),
        ("He\tPRP\tB-NP\nran\tVBD\tB-VP\n" * 4, False, False),
        ("He\tCase=Nom\tB-NP\nran\tTense=Past\tB-VP\n" * 4, False, False),
        # the first field is a word
        ("he\tw=a\tx=b\n" + "".join(f"w{i}\tw=a\tx=b\n" for i in range(50)), False, False),
        ("a=b c=d e=f\n" * 4, False, False),
        ("He\tPRP\nran\n" * 4, False, False),
        ("", False, False),
    ],
)
def test_how_a_file_is_recognised(text, is_attributes, may_be):
    assert evidence_of(text.encode())[:2] == (is_attributes, may_be)
    assert evidence_of(text.replace("\n", "\r\n").encode())[:2] == (is_attributes, may_be)


@pytest.mark.parametrize(
    ("text", "in_doubt"),
    [
        ("B-NP\tw=He\nB-VP\tw=ran\nO\tw=.\n\n" * 5, True),
        ("B\tw:He\nI\tw:ran\nO\tBOS\n" + "I\tn:1\n" * 9, True),
        ("He\tB-NP\nran\tB-VP\n.\tO\n\n" * 5, False),
        ("He\tCase=Nom\nran\tTense=Past\n\n" * 5, False),  # words
        ("O\tB-a=b\nI\tI-a=b\n" * 5, False),  # labels
        ("-DOCSTART-\tO\n\n" + "O\tw=a\n" * 9, False),
        ("".join(f"B-{i}\tw={i}\n" for i in range(20)), False),  # the first field does not repeat
        ("B-NP w=He\nB-VP w=ran\n" * 5, False),
    ],
)
def test_a_label_and_one_attribute_are_not_guessed(text, in_doubt):
    assert evidence_of(text.encode()) == (False, in_doubt, in_doubt)
    if in_doubt:
        with pytest.raises(
            CorpusError,
            match=r"<stream>: looks like CRFsuite's data, .*--format crfsuite or --format col",
        ):
            read_columns(io.BytesIO(text.encode()))
    assert len(read_columns(io.BytesIO(text.encode()), label="label")) > 0


def test_column_files_are_not_misread():
    with pytest.raises(
        CorpusError, match=r"<stream>: looks like CRFsuite's data.*--format crfsuite"
    ):
        read_columns(io.BytesIO(WINDOWS.encode()))
    assert read_columns(io.BytesIO(WINDOWS.encode()), label=False).names == ("word", "pos", "c2")
    assert read_columns(io.BytesIO(WINDOWS.encode()), names="label,w0,w1").label == "w1"
    with pytest.raises(
        CorpusError, match=r"<stream>:2: expected 3 columns, got 2; if these are CRFsuite's data"
    ):
        read_columns(io.BytesIO(b"A\tHe\tran\nB\tran\n"))
