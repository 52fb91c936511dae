"""Reading and writing files, and corpora made from lists."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus import (
    Corpus,
    read_columns,
    read_conllu,
    stream_columns,
    validate,
    write_columns,
    write_conllu,
)
from labelwright.errors import CorpusError

TEXT = b"He PRP B-NP\nran VBD B-VP\n\nDogs NNS B-NP\n. . O\n\n"
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def read(text, **options):
    return read_columns(io.BytesIO(text), **options)


def written(corpus, extra=None, write=write_columns):
    out = io.BytesIO()
    write(corpus, out, extra)
    return out.getvalue()


def test_columns_become_sentences():
    corpus = read(TEXT, names="word,pos,chunk")
    assert corpus.names == ("word", "pos", "chunk")
    assert corpus.label == "chunk"
    assert corpus.X == [[("He", "PRP"), ("ran", "VBD")], [("Dogs", "NNS"), (".", ".")]]
    assert corpus.y == [["B-NP", "B-VP"], ["B-NP", "O"]]
    assert corpus.values("chunk") == ["B-NP", "B-VP", "O"]
    assert corpus.codes("chunk").tolist() == [0, 1, 0, 2]
    assert corpus.codes("chunk").dtype == np.int32
    assert corpus.offsets.tolist() == [0, 2, 4]


def test_default_names_and_labels():
    assert read(b"a\n").names == ("word",)
    assert read(b"a\n").label is None
    assert read(b"a b\n").names == ("word", "label")
    assert read(b"a b c d\n").names == ("word", "pos", "c2", "label")
    bare = read(b"a b\n", label=False)
    assert bare.label is None
    assert bare.X == [[("a", "b")]]
    assert read(TEXT, names=["w", "p", "c"], label="p").input_names == ("w", "c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a  x\nb\tx\n", [["a", "b"]]),  # runs of blanks, and tabs among them
        (b"a\tx\r\n\r\nb\tx\r\n", [["a"], ["b"]]),
        # blank lines, blanks at the ends, no last newline
        (b"\n\n a x\n \t \nb x", [["a"], ["b"]]),
        # tabs in the first line: blanks are data
        (b"New York\tx \nb c\tx\n", [["New York", "b c"]]),
        (b"\xef\xbb\xbfa x\n", [["a"]]),
        ("\u00a0\u2028 x\né x\n".encode(), [["\u00a0\u2028", "é"]]),
        (b"\x00 x\na\rb x\n\x0b x\n", [["\x00", "a\rb", "\x0b"]]),
    ],
)
def test_separators_line_ends_and_odd_characters(text, expected):
    corpus = read(text)
    assert expected == corpus.X
    assert written(corpus) == text


def test_more_distinct_values_than_the_first_table_holds():
    words = [f"w{number % 30011}" for number in range(50000)]
    corpus = read("".join(f"{word} {word}\n" for word in words).encode())
    assert corpus.tokens("word") == corpus.tokens("label") == words
    assert len(corpus.values("word")) == 30011


VALUE = st.text(
    st.characters(exclude_characters="\t\n\r ", exclude_categories=["Cs"]), min_size=1, max_size=3
)
ROWS = st.lists(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=4), min_size=1, max_size=4)


@given(ROWS, st.sampled_from([" ", "\t", "  "]), st.sampled_from(["\n", "\r\n"]))
def test_what_is_read_is_what_stands_there(rows, separator, newline):
    rows = [[("w" + a, b) for a, b in sentence] for sentence in rows]
    text = (
        (newline + newline)
        .join(newline.join(separator.join(row) for row in s) for s in rows)
        .encode()
    )
    corpus = read(text, label=False)
    assert rows == corpus.X
    assert written(corpus) == text
    extended = read(written(corpus, extra=[[b for _, b in s] for s in rows]))
    assert extended.y == [[b for _, b in s] for s in rows]
    assert rows == read(written(corpus.take(slice(None))), label=False).X


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT))
    corpus = read_columns(path)
    assert corpus.y == read(TEXT).y == read(COMPRESS[suffix](TEXT)).y
    write_columns(corpus, path)
    assert read_columns(path).raw.text == TEXT
    path.write_bytes(COMPRESS[suffix](TEXT)[:-9])
    with pytest.raises(CorpusError, match=f"a.txt{suffix}: damaged or truncated"):
        read_columns(path)
    path.write_bytes(TEXT)
    with pytest.raises(CorpusError, match="damaged or truncated"):
        read_columns(path)


def test_document_marks_are_no_sentences():
    text = (
        b"-DOCSTART- -X- O\n\na x O\n\nb x O\n\n-DOCSTART-\n\n-DOCSTART- -X- O\n\nc x O\n\n"
        b"-DOCSTART- x O\nd x O\n"
    )
    corpus = read(text)
    # the last is no sentence of its own
    assert corpus.column("word") == [["a"], ["b"], ["c"], ["-DOCSTART-", "d"]]
    assert corpus.documents.tolist() == [0, 2]
    assert written(corpus) == text
    assert written(corpus, extra=corpus.y).count(b"-DOCSTART- -X- O O\n") == 2
    part = corpus.take([1, 2])
    assert part.documents.tolist() == [0, 1]
    assert read(written(part)).documents.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"a DT B-NP\nb\n\n", {}, "<stream>:2: expected 3 columns, got 1"),
        (b"a DT\nb DT X\n", {"names": "word,pos"}, "<stream>:2: expected 2 columns, got 3"),
        (
            b"\na DT\n",
            {"names": "word,pos,chunk"},
            r"<stream>:2: expected 3 columns \(word,pos,chunk\), got 2",
        ),
        (
            b"a\tx\nb x\n",
            {},
            "<stream>:2: expected 2 columns, got 1; columns are separated by tabs",
        ),
        (b"a x\n\nb\xff x\n", {}, r"<stream>:3: byte 2 of the line \(0xff\) is not UTF-8"),
        (b"", {}, "<stream>: no tokens"),
        (b" \n\n", {}, "<stream>: no tokens"),
        (b"a x\n", {"label": "y"}, "no column 'y' to be the label, expected one of word, label"),
        (b"a x\n", {"names": "w,w"}, "expected each name once"),
        (
            b"a NN\n",
            {"scheme": "iob2"},
            "<stream>: column label: scheme: label 'NN' is no chunk label",
        ),
    ],
)
def test_errors_name_the_line(text, options, message):
    with pytest.raises(CorpusError, match=message) as caught:
        read(text, **options)
    assert "\n" not in str(caught.value)


def test_unreadable_paths(tmp_path):
    with pytest.raises(CorpusError, match=r"missing\.txt: cannot read: no such file"):
        read_columns(tmp_path / "missing.txt")
    with pytest.raises(CorpusError, match="is a folder"):
        read_columns(str(tmp_path))


def test_scheme_is_converted_on_reading_and_follows_into_the_raw_text():
    text = b"-DOCSTART- O\n\na I-X\nb  B-X\n\n-DOCSTART- O\n\nc O\nd I-Y\n"
    corpus = read(text, scheme="bioes")
    assert corpus.y == [["S-X", "S-X"], ["O", "S-Y"]]
    assert written(corpus) == text.replace(b"I-", b"S-").replace(b"B-", b"S-")
    assert read(b"a I-X\nb O\n", scheme="bioes").values("label") == ["S-X", "O"]
    longer = read(b"-DOCSTART- O\n\na U-XX\n\n-DOCSTART- O\n\nb O\n", scheme="iob2")
    assert (
        written(longer, extra=[["1"], ["2"]])
        == b"-DOCSTART- O O\n\na B-XX 1\n\n-DOCSTART- O O\n\nb O 2\n"
    )


def test_extra_columns_take_the_separator_of_the_file():
    assert written(read(b"a\tx\r\n\r\nb\tx\r\n"), [["1"], ["2"]]) == b"a\tx\t1\r\n\r\nb\tx\t2\r\n"
    assert written(read(b"a x \nb x\n"), [[["1", "2"]], [["3", "4"]]]) == b"a x 1 3 \nb x 2 4\n"
    with pytest.raises(
        CorpusError, match="extra: sentence 0 has 1 labels, but <stream> has 2 tokens there"
    ):
        written(read(b"a x\nb x\n"), [["1"]])


def test_writing_without_raw_text():
    corpus = Corpus.from_sequences([[("New York", "NNP")], [("b", "x")]])
    assert written(corpus, [["B"], ["O"]]) == b"New York\tNNP\tB\n\nb\tx\tO\n\n"
    with pytest.raises(CorpusError, match=r"cannot write 'a\\nb'"):
        written(Corpus.from_sequences([["a\nb"]]))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("labelwright.storage.os.replace", fail)
        with pytest.raises(CorpusError, match=r"out\.txt: cannot write: no space left on device"):
            write_columns(read(TEXT), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.txt"]
    write_columns(read(TEXT), path)
    assert path.read_bytes() == TEXT
    assert sys.platform == "win32" or path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(CorpusError, match=r"cannot write: the folder .*none does not exist"):
        write_columns(read(TEXT), tmp_path / "none" / "out.txt")


@pytest.mark.skipif(sys.platform == "win32", reason="select needs sockets on Windows")
def test_a_stream_answers_before_it_ends():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as feed:
        pieces = stream_columns(stream)
        feed.write(b"-DOCSTART- O\n\na x\nb x\n\nc")
        first = next(pieces)
        assert first.X == [["a", "b"]]
        feed.write(b" x\n\nd\n")
        assert next(pieces).X == [["c"]]
        feed.close()
        with pytest.raises(CorpusError, match=":8: expected 2 columns, got 1"):
            next(pieces)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_pieces_of_a_stream_make_up_the_whole(size):
    text = TEXT * 5
    pieces = list(stream_columns(io.BytesIO(text), size=size))
    assert [sentence for piece in pieces for sentence in piece.X] == read(text).X
    assert b"".join(map(written, pieces)).rstrip() == text.rstrip()
    assert list(stream_columns(io.BytesIO(b"\n"))) == []
    squeezed = list(stream_columns(io.BytesIO(gzip.compress(text)), size=size))
    assert [sentence for piece in squeezed for sentence in piece.X] == read(text).X


CONLLU = "\r\n".join(
    [
        "# newdoc id = 1",
        "# text = Vámonos 1-2",
        "1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tVamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_",
        "2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_",
        "2.1\tx\tx\tX\t_\t_\t_\t_\t1:dep\t_",
        "3\ta b\ta b\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No",
        "",
        "# newdoc",
        "1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_",
        "",
        "",
    ]
).encode()


def test_conllu_round_trip():
    corpus = read_conllu(io.BytesIO(CONLLU))
    assert corpus.column("form") == [["Vamos", "nos", "a b"], ["#"]]
    assert corpus.y == [["VERB", "PRON", "NOUN"], ["SYM"]]
    assert corpus.documents.tolist() == [0, 1]
    assert written(corpus, write=write_conllu) == CONLLU
    changed = written(corpus, [["V", "P", "N"], ["S"]], write_conllu)
    assert changed == CONLLU.replace(b"VERB", b"V").replace(b"PRON", b"P").replace(
        b"NOUN", b"N"
    ).replace(b"SYM", b"S")
    heads = read_conllu(io.BytesIO(CONLLU), label="head")
    assert heads.y == [["0", "1", "1"], ["0"]]
    part = written(corpus.take([1]), write=write_conllu)
    assert part == b"# newdoc\n1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n\n"
    with pytest.raises(CorpusError, match=":2: expected 10 columns, got 3"):
        read_conllu(io.BytesIO(b"# c\n1\ta\tb\n"))
    with pytest.raises(CorpusError, match="expected one of id, form"):
        read_conllu(io.BytesIO(CONLLU), label="pos")


def test_from_sequences_and_back():
    X = [[("a", "1"), ("b", "2")], [], [("a", "3")]]
    corpus = Corpus.from_sequences(X, [["x", "y"], [], ["x"]])
    assert corpus.X == X
    assert corpus.y == [["x", "y"], [], ["x"]]
    assert corpus.names == ("word", "pos", "label")
    assert Corpus.from_sequences([[]]).X == [[]]
    again = pickle.loads(pickle.dumps(corpus))
    assert again.X == X


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], None, "X: got no sentences"),
        (["the dog"], None, "sentence 0 is one string"),
        (
            [["a"], ["b", 3]],
            None,
            "sentence 1, token 1: expected a string, or a tuple of strings at every token, got int",
        ),
        ([["a", ("b", "c")]], None, "sentence 0, token 1: expected a string"),
        (
            [[("a", "b")], [("c", "d"), ("e",)]],
            None,
            "sentence 1, token 1: expected 2 columns, got 1",
        ),
        (
            [[("a", "b")], [], [("c", None)]],
            None,
            "sentence 2, token 0: expected a string, got None",
        ),
        ([["a"]], [["x"], ["y"]], "y: 2 sentences, but X has 1"),
        ([["a"], ["b"]], [["x"], ["y", "z"]], "y: sentence 1 has 2 labels, but X has 1 tokens"),
        ([["a", "b"]], [["x", 1]], "y: sentence 0, token 1: expected a string, got 1"),
        (
            [["a", "b"]],
            [[1, "x"]],
            "y: sentence 0, token 1: expected a label of type int, as those before it, got 'x'",
        ),
        (7, None, "got int, expected a list of sentences"),
        ([7], None, "sentence 0 is of type int"),
    ],
)
def test_bad_sequences_are_named(X, y, message):
    with pytest.raises(CorpusError, match=message):
        Corpus.from_sequences(X, y)


def test_take_split_select_and_rename():
    corpus = read(TEXT * 10, names="word,pos,chunk")
    taken = corpus.take([3, 1])
    assert [corpus.X[3], corpus.X[1]] == taken.X
    assert taken.values("word") == ["Dogs", "."]  # only what occurs
    left, right = corpus.split(0.3, random_state=1)
    assert (len(left), len(right)) == (6, 14)
    assert left.X == corpus.split(0.3, random_state=1)[0].X
    assert corpus.X[10:] == corpus.split(0.5, None)[1].X
    selected, written = corpus.select(["word", "chunk"]), io.BytesIO()
    assert selected.X[0] == ["He", "ran"]
    write_columns(selected, written)  # no longer the text of the file, with all its columns
    assert written.getvalue().startswith(b"He B-NP\nran B-VP\n")
    assert corpus.renamed(["a", "b", "c"], label="b").y[0] == ["PRP", "VBD"]
    with pytest.raises(CorpusError, match="no column 'lemma', expected one of word, pos, chunk"):
        corpus.column("lemma")


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("name", "sentences", "tokens"),
    [
        ("conll2000/train.txt", 8936, 211727),
        ("conll2003/train.txt", 14041, 203621),
        ("nettalk/train.txt", 16036, 117732),
    ],
)
def test_real_files_come_back_byte_for_byte(corpora, name, sentences, tokens):
    corpus = read_columns(corpora / name)
    assert (len(corpus), corpus.n_tokens) == (sentences, tokens)
    assert written(corpus) == (corpora / name).read_bytes()
    lines = (corpora / name).read_text(encoding="utf-8").split("\n")
    rows = [tuple(line.split()) for line in lines if line.strip()]
    assert list(zip(*map(corpus.tokens, corpus.names), strict=True)) == rows


@pytest.mark.corpora
def test_iob1_names_become_iob2(corpora):
    corpus = read_columns(corpora / "conll2003" / "test.txt", scheme="iob2")
    assert validate(corpus.y, "iob2") == []
