"""Limits on inputs: time, size, length, and what files can hold."""

import bz2
import gzip
import io
import lzma
import os
from contextlib import nullcontext

import numpy as np
import pytest

import labelwright
from labelwright.corpus import (
    Corpus,
    binary_records,
    columns,
    file_formats,
    limits,
    max_input,
    read_brat,
    read_columns,
    read_conllu,
    read_jsonl,
    read_parquet,
    stream_columns,
    write_columns,
    write_conllu,
)
from labelwright.corpus.compressed import written
from labelwright.corpus.file_formats import is_running_text, pieces_of
from labelwright.errors import (
    CorpusError,
    LabelwrightError,
    ModelFileError,
    OptionError,
    TemplateError,
)
from labelwright.features.template import parse_template

X, Y = [["He", "ran"], ["Go"]], [["N", "V"], ["V"]]


class Pipe(io.BytesIO):
    """A stream that gives little at a time, as a pipe does."""

    def read1(self, size=-1, /):
        return super().read(4096)

    def fileno(self):
        raise OSError


# -- time ------------------------------------------------------------------------------------------


@pytest.fixture
def searched(monkeypatch):
    """The bytes that were searched for tokens and for ends of sentences."""
    lengths = []

    def counted(function, length):
        def call(*given):
            lengths.append(length(*given))
            return function(*given)

        return call

    for module in (columns, file_formats):
        monkeypatch.setattr(module, "first_token_line", counted(columns.first_token_line, len))
    monkeypatch.setattr(
        columns,
        "last_match",
        counted(columns.last_match, lambda ends, text, begin: len(text) - begin),
    )
    return lengths


@pytest.mark.parametrize(
    "tail", [b"\n" * 300_000, (b" " * 99 + b"\n") * 3000, b"-DOCSTART- O\n\n" * 20_000]
)
def test_blank_lines_are_searched_once(tail, tmp_path, searched):
    text = b"a b\n\n" + tail
    assert sum(len(piece) for piece in stream_columns(Pipe(text))) == 1
    assert sum(searched) < 6 * len(text)
    searched.clear()
    (tmp_path / "blank.txt").write_bytes(text)
    assert (
        b"".join(piece.getvalue() for piece in pieces_of(str(tmp_path / "blank.txt"), size=4096))
        == text
    )
    assert sum(searched) < 6 * len(text)


def test_a_long_sentence_in_a_pipe_is_searched_once(searched):
    [piece] = stream_columns(Pipe(b"a b\n" * 50_000), size=4096)
    assert piece.n_tokens == 50_000
    assert sum(searched) < 6 * 200_000


@pytest.mark.parametrize("line", [b"x" * 400_000, b"a b\n\n" + b" " * 400_000])
def test_a_line_without_an_end_is_searched_once(line, searched):
    with (
        pytest.raises(CorpusError, match="a value of 400,000 characters")
        if line[0] == ord("x")
        else nullcontext()
    ):
        list(stream_columns(Pipe(line)))
    assert sum(searched) < 6 * len(line)


def test_blank_lines_before_and_between_sentences_are_kept():
    text = b"\n\n" + b"a b\n\n" + b"\n" * 9000 + b"c d\n\n"
    out = io.BytesIO()
    for piece in stream_columns(Pipe(text)):
        write_columns(piece, out)
    assert out.getvalue() == text


def test_lines_of_spaces_are_no_text():
    assert not is_running_text(b" " * 200_000 + b"\na b\nc d\n")


# -- size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squeeze", [gzip.compress, bz2.compress, lzma.compress])
def test_decompressed_data_have_a_limit(squeeze, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_HELD", 1 << 20)
    squeezed = squeeze(b"a b\n" * (1 << 19))
    path = tmp_path / "bomb"
    path.write_bytes(squeezed)
    for source in (path, io.BytesIO(squeezed)):
        with pytest.raises(
            CorpusError, match=r"decompressed, more than 1M; if that is right.*--max-input 2M"
        ):
            read_columns(source)
        with max_input("3M"):
            assert (
                read_columns(source if source is path else io.BytesIO(squeezed)).n_tokens == 1 << 19
            )
    with pytest.raises(CorpusError, match=r"no sentence ends within 1M"):
        list(pieces_of(str(path), "columns", size=4096))


def test_plain_inputs_have_the_limit_that_is_asked_for(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_bytes(b"a b\n\n" * 1000)
    with max_input("1K"):
        for read in (read_columns, lambda source: list(pieces_of(str(source)))):
            with pytest.raises(CorpusError, match=r"plain.txt: more than 1K"):
                read(path)
        with pytest.raises(CorpusError, match=r"more than 1K"):
            list(stream_columns(Pipe(path.read_bytes())))
    assert len(read_columns(path)) == 1000


def test_a_folder_has_the_limit_that_is_asked_for(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("A dog ran. " * 50)
        (tmp_path / f"{name}.ann").write_text("T1\tANIMAL 2 5\tdog\n")
    for size, source in (("500", r"a.txt"), ("1K", tmp_path.name)):  # one file, all of them
        with (
            max_input(size),
            pytest.raises(CorpusError, match=rf"{source}: more than {size}; if that is right"),
        ):
            read_brat(tmp_path)
    with max_input("2K"):
        assert len(read_brat(tmp_path)) == 100


def parquet_file(columns, **options):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(arrow.table(columns), out, **options)
    out.seek(0)
    return out


def test_parquet_files_have_a_limit(monkeypatch):
    message = (
        r"<stream>: decompressed, more than 100K; if that is right, raise the limit with "
        r"--max-input 200K"
    )
    small = parquet_file({"tokens": [["a"] * 200_000]})
    assert len(small.getbuffer()) < 2000  # a dictionary of one word, and how often it is repeated
    unlike = parquet_file({"tokens": [[f"{n}" * 20] for n in range(5000)]}, row_group_size=100)
    monkeypatch.setattr(limits, "MOST_HELD", 100 << 10)
    for file in (small, unlike):
        with pytest.raises(CorpusError, match=message):
            read_parquet(file)
        file.seek(0)
        with max_input("10M"):
            assert read_parquet(file).n_tokens in (200_000, 5000)


def test_the_limit_of_parquet_is_for_what_is_read(monkeypatch):
    # one word in each dictionary
    file = parquet_file({"tokens": [["a" * 100] * 10] * 500}, row_group_size=10)
    groups = []
    check = binary_records.check_size
    monkeypatch.setattr(
        binary_records, "check_size", lambda n, *given: (groups.append(n), check(n, *given))
    )
    with max_input("60K"), pytest.raises(CorpusError, match="decompressed, more than 60K"):
        read_parquet(file)
    assert 2 <= len(groups) < 10


@pytest.mark.parametrize("text", [b"\n", b"# text\n\n", b"-DOCSTART- O\n\n"])
@pytest.mark.parametrize("before", [b"", b"a b\n\n"])
def test_text_without_tokens_has_a_limit(text, before, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_HELD", 1 << 16)
    text, path = before + text * (1 << 17), tmp_path / "blank.txt.gz"
    path.write_bytes(gzip.compress(text))
    is_comment = b"#" in text
    message = (
        r"blank.txt.gz: (no token|fewer than two whole lines of text) within 64K.*--max-input 128K"
    )
    with pytest.raises(CorpusError, match=message):
        list(pieces_of(str(path), "conllu" if is_comment else "columns", size=4096))
    if not is_comment:
        with pytest.raises(CorpusError, match=r"<stream>: no token within 64K"):
            list(stream_columns(Pipe(text), size=4096))
        with max_input("4M"):
            assert sum(map(len, stream_columns(Pipe(text)))) == len(before) // 5


def test_hardly_more_is_read_than_may_be_held(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_HELD", 1 << 20)
    path, sizes = tmp_path / "a.txt.gz", []
    path.write_bytes(gzip.compress(b"a" * (1 << 23)))
    read = file_formats.ByteStream.read

    def counted(stream, size):
        sizes.append(size)
        return read(stream, size)

    monkeypatch.setattr(file_formats.ByteStream, "read", counted)
    with pytest.raises(CorpusError, match="fewer than two whole lines of text within 1M"):
        list(pieces_of(str(path), "text", size=3000))
    assert sum(sizes) == (1 << 20) + 1


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="has no such device")
def test_devices_have_no_end_and_are_refused(monkeypatch):
    monkeypatch.setattr(limits, "MOST_HELD", 1 << 21)
    with pytest.raises(
        CorpusError, match=r"^/dev/zero: more than 2M; if that is right, raise the limit"
    ):
        read_jsonl("/dev/zero")
    with pytest.raises(
        ModelFileError, match=r"^/dev/zero: cannot read: is a device, expected a file$"
    ):
        labelwright.load("/dev/zero")
    with pytest.raises(TemplateError, match=r"^/dev/zero: cannot read: file too large$"):
        labelwright.CRF(template="/dev/zero").fit([["a"]], [["X"]])


@pytest.mark.parametrize("size", ["", "0", "many", "-1", "1X", "1" * 40, 0, True, None, 2.5])
def test_a_wrong_limit_is_refused(size):
    with pytest.raises(OptionError, match="max_input: expected a number of bytes"), max_input(size):
        pass


def test_a_limit_as_messages_write_it_can_be_given_back():
    assert all(limits.size_of(limits.shown_size(1 << n)) == 1 << n for n in range(50))
    assert limits.size_of("1.5K") == 1536


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_an_error_of_reading_is_none_of_writing(name, tmp_path):
    def copy(target):
        with written(target) as write:
            write(b"half")
            raise OSError(5, "no cable", "in.txt")

    with pytest.raises(OSError, match="no cable"):
        copy(tmp_path / name)
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        CorpusError, match=rf"{name}: cannot write: the folder .*none does not exist"
    ):
        copy(tmp_path / "none" / name)


def test_zstd_is_refused_by_name(tmp_path):
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd1234")
    with pytest.raises(CorpusError, match=r"a.zst: compressed by zstd.*unzstd"):
        read_columns(tmp_path / "a.zst")


# -- length ----------------------------------------------------------------------------------------


def test_words_of_absurd_length_are_refused_with_their_place():
    long = "x" * (limits.LONGEST_VALUE + 1)
    with pytest.raises(
        CorpusError, match=r"<stream>:3: a value of 65,537 characters, expected at most 65,536"
    ):
        read_columns(io.BytesIO(f"a b\n\n{long} b\n".encode()))
    with pytest.raises(CorpusError, match=r"X: sentence 1, token 1: a value of 65,537 characters"):
        Corpus.from_sequences([["a"], ["b", long]])
    assert Corpus.from_sequences([["a"], ["b", long[1:]]]).n_tokens == 3


def test_labels_and_features_of_absurd_length_are_refused():
    long = "x" * (limits.LONGEST_VALUE + 1)
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    for sentences in (X, dicts):
        for label in (long, {"N", long}, "\u00e9" * 40_000):
            with pytest.raises(CorpusError, match=r"^y: sentence 1, token 0: .*65,53"):
                labelwright.CRF().fit(sentences, [["N", "V"], [label]])
    for token in ({"w": long}, {long: "w"}, {long: True}, {"w": {"v": [long]}}, {long: 2}):
        with pytest.raises(
            CorpusError, match=r"X: sentence 1: a value of 65,5\d\d characters, expected"
        ):
            labelwright.CRF().fit([dicts[0], [token]], Y)
    fitted = labelwright.CRF(max_iter=1).fit(dicts, Y)
    assert fitted.predict([[{"w": long}]]) == fitted.predict([[{"w": "unknown"}]])


def test_a_value_that_would_not_be_read_again_is_not_written():
    with pytest.raises(
        CorpusError, match=r"sentence 0, token 0: cannot write .* has more than 65,536 bytes"
    ):
        write_columns(Corpus.from_sequences([["\u00e9" * 40_000]]), io.BytesIO())


def test_columns_of_absurd_number_are_refused():
    with pytest.raises(CorpusError, match=r"<stream>:2: 50,000 columns, expected at most 4,096"):
        read_columns(io.BytesIO(b"\n" + b"a " * 50_000 + b"\n"), label=False)


def test_lines_of_absurd_length_are_refused_before_all_is_read(tmp_path, monkeypatch):
    for module in (columns, file_formats):
        monkeypatch.setattr(module, "LONGEST_LINE", 1 << 14)
    message = (
        r":3: a line of more than 16M, expected one token in each line; plain text needs --text"
    )
    text, path = b"a b\n\n" + b"x" * (1 << 20), tmp_path / "long.txt"
    stream = Pipe(text)
    with pytest.raises(CorpusError, match=rf"<stream>{message}"):
        list(stream_columns(stream, size=4096))
    assert stream.tell() < 1 << 15
    path.write_bytes(text)
    for format in ("columns", "conllu", "crfsuite", None):
        with pytest.raises(CorpusError, match=rf"long.txt{message}"):
            list(pieces_of(str(path), format, size=4096))
    path.write_bytes(b"x" * (1 << 20))
    with pytest.raises(CorpusError, match=r"long.txt:1: a line of more than"):
        list(pieces_of(str(path), size=4096))
    assert len(list(pieces_of(str(path), "text", size=4096))) == 1
    path.write_bytes(b'{"tokens": ["%s"]}' % (b"x" * (1 << 20)))
    assert [piece.format for piece in pieces_of(str(path), size=4096)] == ["jsonl"]


# -- line ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_columns, read_conllu])
def test_carriage_returns_alone_are_refused(read):
    with pytest.raises(CorpusError, match=r"<stream>:1: a carriage return within the line.*tr "):
        read(io.BytesIO(b"He PRP\rran VBD\r\rGo VB\r"))


def test_templates_read_every_kind_of_line_end():
    parse = parse_template
    texts = ["B\nU:%x[0,0]\n\nU:%x[1,0]\n".replace("\n", end) for end in ("\n", "\r\n", "\r")]
    assert len({parse(text).patterns for text in texts}) == 1


# -- what files can hold ---------------------------------------------------------------------------

UNWRITABLE = {
    "": "is empty",
    "a\tb": "a tab",
    "V\n": "a newline",
    "V\r": "a carriage return",
    " ": "a space",
    "\ud800": "surrogate",
}


@pytest.mark.parametrize(("label", "reason"), UNWRITABLE.items())
def test_labels_that_no_file_can_hold_are_refused(label, reason):
    y = [["N", "V"], [label]]
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    for sentences in (X, dicts):
        with pytest.raises(CorpusError, match=rf"y: sentence 1, token 0: the label .*{reason}"):
            labelwright.CRF().fit(sentences, y)
    with pytest.raises(CorpusError, match=rf"y: sentence 1, token 0: the label .*{reason}"):
        labelwright.CRF().fit(X, [["N", "V"], [{"N", label}]])
    for write in (write_columns, write_conllu):
        corpus = Corpus.from_sequences(X, Y, names=["form", "upos"])
        with pytest.raises(CorpusError, match=rf"X: sentence 1, token 0: cannot write .*{reason}"):
            write(corpus, io.BytesIO(), extra=y)


def test_a_label_with_a_space_goes_where_tabs_separate_columns():
    labels = [["N P", "V"], ["V"]]
    out = io.BytesIO()
    write_columns(Corpus.from_sequences(X), out, extra=labels)
    assert read_columns(io.BytesIO(out.getvalue())).y == labels
    spaced = read_columns(io.BytesIO(b"He N\nran V\n\nGo V\n"))
    with pytest.raises(
        CorpusError, match=r"sentence 0, token 0: cannot write 'N P': it holds a space.*use tabs"
    ):
        write_columns(spaced, io.BytesIO(), extra=labels)


@pytest.mark.parametrize(
    ("X", "reason"),
    [
        ([["a b"]], "holds a space"),
        ([[("a", "b ")]], "ends with a space"),
        ([["a", "b"], ["-DOCSTART-"]], "marks a document"),
        ([["\ufeffa"]], "byte order mark"),
        ([["a\rb"]], "a carriage return"),
    ],
)
def test_what_would_be_read_back_otherwise_is_not_written(X, reason):
    with pytest.raises(CorpusError, match=rf"sentence \d, token 0: cannot write .*{reason}"):
        write_columns(Corpus.from_sequences(X), io.BytesIO())


@pytest.mark.parametrize("write", [write_columns, write_conllu])
def test_a_sentence_without_tokens_is_not_written(write):
    empty = Corpus.from_sequences([["a"], [], ["b"]], names=["form"])
    with pytest.raises(
        CorpusError, match="X: sentence 1 has no tokens, and would not be read back; leave it out"
    ):
        write(empty, io.BytesIO())
    fitted = labelwright.CRF(max_iter=1).fit([["a"], [], ["b"]], [["A"], [], ["B"]])
    assert list(map(len, fitted.predict([["a"], [], ["b"]]))) == [1, 0, 1]


@pytest.mark.parametrize(("extra", "n_columns"), [(None, 0), ([], 1), ([[]], 1), ([[], []], 2)])
def test_columns_of_no_sentences(extra, n_columns):
    corpus = Corpus.from_sequences([["a"]]).take([])
    assert columns.flat_columns(corpus, extra) == [[]] * n_columns
    with pytest.raises(CorpusError, match="extra: 1 sentences, but X has 0"):
        columns.flat_columns(corpus, [["A"]])


def test_numbers_are_no_labels_of_files():
    with pytest.raises(CorpusError, match="sentence 0, token 0: cannot write 1: it is of type int"):
        write_columns(Corpus.from_sequences(X), io.BytesIO(), extra=[[1, 2], [3]])


# -- objects of Python -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd", [None, 3, [None, None], [1, 2], np.array(3), [np.array(3)], [True, False]]
)
def test_what_is_no_sentence_is_refused(odd):
    fitted = labelwright.CRF(max_iter=1).fit(X, Y)
    near = labelwright.MemoryTagger().fit(X, Y)
    for ask in (
        lambda: labelwright.CRF().fit(odd, Y),
        lambda: fitted.predict(odd),
        lambda: near.predict(odd),
    ):
        with pytest.raises(LabelwrightError) as refused:
            ask()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "token",
    [{1: "a"}, {None: "a"}, {(1, 2): "a"}, {"w": 10**5000}, {"w": object()}, {10**5000: "a"}],
)
def test_dicts_that_hold_no_features_are_refused(token):
    for tagger in (labelwright.CRF(), labelwright.Perceptron()):
        with pytest.raises(CorpusError, match="X: sentence 0, token 1"):
            tagger.fit([[{"w": "a"}, token], [{"w": "b"}]], Y)


def test_labels_of_odd_types_are_refused():
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    for sentences in (X, dicts):
        for y in ([None, None], [1, 2], [[10**5000, 1], [2]], ["NV", "V"]):
            with pytest.raises(LabelwrightError, match=r"^y: sentence 0"):
                labelwright.CRF().fit(sentences, y)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_paths_that_none_can_have_are_refused(path):
    model = labelwright.CRF(max_iter=1).fit(X, Y)
    corpus = Corpus.from_sequences(X)
    for call in (read_columns, read_conllu, read_jsonl, lambda name: write_columns(corpus, name)):
        with pytest.raises(CorpusError, match="no path"):
            call(path)
    for call in (labelwright.load, model.save):
        with pytest.raises(ModelFileError, match="no path"):
            call(path)
    with pytest.raises(LabelwrightError):
        labelwright.CRF(template=path).fit(X, Y)
