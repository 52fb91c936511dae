"""Files to be tagged in any format: the pieces that a model reads, of a stream as they come, and
how they are written with its labels."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from glob import glob, has_magic
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.files import (
    Data,
    TokenRows,
    has_attributes,
    input_names,
    named_for,
    open_for,
    read_for,
)
from labelwright.cli.show import say
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import SplitTexts, Tokenizer
    from labelwright.scale.partitions import Bad

HEADLINE = 100  # tokens
# by output: its labels [N][T], and perhaps their probabilities; or the entities of texts
Added = dict[str, list[Any]]


class ToTag(NamedTuple):
    """Sentences to be tagged: a file, or a piece of it."""

    data: Data
    # the file with labels; None: as columns or CoNLL-U
    write: Callable[[Added], bytes] | None = None
    more: bool = False  # further pieces follow
    split: "SplitTexts | None" = None  # of texts: where their tokens are
    begin: int = 0  # where a piece of a text begins, in characters

    @property
    def corpus(self) -> "Corpus | None":
        """The sentences as columns, where they are such."""
        return None if has_attributes(self.data) else self.data


class Source(NamedTuple):
    """Where sentences are read from, and how."""

    path: str  # - for standard input
    format: str | None
    columns: str | None = None  # their names
    known: str | None = None  # the column of known labels
    # of texts, where it is another one than that of the training data
    tokenizer: "Tokenizer | None" = None
    rows: TokenRows | None = None  # arrays beside the tokens
    bad: "list[Bad] | None" = None  # where sentences go that cannot be read; None: they are errors

    def pieces(self, model: Any) -> Iterator[ToTag]:
        """The sentences, piece by piece; what a user should know about a file is told by the first,
        if that is no headline."""
        if os.path.isfile(self.path) and os.path.getsize(self.path) == 0:
            return  # nothing is to be labelled, whatever its format
        is_stream = (
            self.path == "-" and self.format in (None, "columns") and model.reads().kind != "dicts"
        )
        for n, piece in enumerate(self._stream(model) if is_stream else self.file_pieces(model)):
            if (
                n == 0
                and piece.corpus is not None
                and not (piece.more and piece.corpus.n_tokens < HEADLINE)
            ):
                how.warn_about(model, piece.corpus, piece.more)
            yield (
                piece
                if self.rows is None
                else piece._replace(data=self.rows.beside(piece.data, not piece.more))
            )
            del piece

    def file_pieces(self, model: Any) -> Iterator[ToTag]:
        """A file, piece by piece; texts are split as those of the training data were, or by a
        tokenizer."""
        from labelwright.corpus.file_formats import pieces_of

        format = self.format or ("crfsuite" if model.reads().kind == "dicts" else None)
        begin = 0
        for file in pieces_of(self.path, format, named=self.columns is not None):
            if file.head is None:
                open_for(model, file, None, self.columns)
            for part in self._readable(model, file):
                piece = to_tag(model, part, self.columns, self.known, self.tokenizer, begin)
                begin += sum(map(len, piece.split.texts)) if piece.split is not None else 0
                yield piece

    def _readable(self, model: Any, file: "OpenFile") -> "Iterator[OpenFile]":
        """A piece of a file; with `bad`, only the sentences that can be read, in one piece or
        several."""
        from labelwright.corpus.file_formats import FORMATS, OpenFile

        def part(text: bytes, line: int) -> OpenFile:
            head = file if file.head is None and line > file.first_line else file.head
            return OpenFile(text, file.name, file.format, line, head, file.more)

        def read(text: bytes, line: int) -> None:
            to_tag(model, part(text, line), self.columns, self.known, self.tokenizer)

        ends = FORMATS[file.format].ends
        if self.bad is None or ends is None:
            yield file
            return
        from labelwright.scale.partitions import readable

        for text, line in readable(file.getvalue(), file.first_line, ends, read, self.bad):
            yield part(text, line)

    def _stream(self, model: Any) -> Iterator[ToTag]:
        from labelwright.corpus import stream_columns
        from labelwright.corpus.file_formats import format_of

        if self.tokenizer is not None:
            raise OptionError(
                "<stdin>: read as columns, which has tokens; for plain text add --text"
            )
        if self.rows is not None:
            raise OptionError(
                "--arrays: not for a stream, which is answered sentence by sentence; name INPUT"
            )
        if sys.stdin.isatty():
            say(
                "reading from the terminal: one token per line, a blank line after each sentence, "
                "Ctrl-D at the end"
            )
        with _perhaps_text(model, self.columns):
            for n, piece in enumerate(
                stream_columns(sys.stdin.buffer, names=self.columns, label=False)
            ):
                if (
                    n == 0
                    and self.columns is None
                    and self.format is None
                    and piece.raw is not None
                ):
                    format = format_of(piece.source, piece.raw.text)
                    if format != "columns":
                        told = f"looks like {format}, not like columns; add --format {format}"
                        raise CorpusError(f"{piece.source}: {told}")
                yield ToTag(piece if self.columns else named_for(model, piece), more=True)


def with_targets(
    inputs: list[str], output: str, format: str | None, to: str | None
) -> list[tuple[str, str]]:
    """The files to be read, each with where its answer goes: in a folder, under its own name."""
    files = [file for path in inputs for each in matches(path) for file in _files_of(each, format)]
    if (
        len(inputs) == 1
        and files == inputs
        and (files == ["-"] or not (os.path.isdir(output) or output[-1:] == "/"))
    ):
        return [(files[0], output)]
    if output == "-" or os.path.isfile(output) or "-" in files:
        raise OptionError(
            "-o: several inputs, or a folder, are written file by file; name a folder with -o DIR"
        )
    sources: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file)
        target = os.path.join(output, f"{os.path.splitext(name)[0]}.ann" if to == "brat" else name)
        if target in sources:
            raise OptionError(
                f"-o: {sources[target]} and {file} would both be written to {target}; rename one "
                "of them"
            )
        sources[target] = file
    return [(file, target) for target, file in sources.items()]


def matches(path: str) -> list[str]:
    """The files that a pattern such as in/*.xz stands for; a path as it is."""
    if not is_pattern(path):
        return [path]
    paths = sorted(glob(path))
    if not paths:
        raise CorpusError(f"{path}: no such files")
    return paths


def is_pattern(path: str) -> bool:
    return has_magic(path) and not os.path.exists(path)


def _files_of(path: str, format: str | None) -> list[str]:
    """A file, or the files of a folder; one with annotations of BRAT is read as a whole, unless its
    texts are meant."""
    names = sorted(os.listdir(path)) if os.path.isdir(path) and format != "brat" else []
    if format is None and any(name.endswith(".ann") for name in names):
        return [path]
    files = [
        os.path.join(path, name) for name in names if name[0] != "." and not name.endswith(".ann")
    ]
    return [file for file in files if os.path.isfile(file)] or [path]


def to_tag(
    model: Any,
    file: "OpenFile",
    columns: str | None,
    known: str | None,
    tokenizer: "Tokenizer | None",
    begin: int = 0,
) -> ToTag:
    """The sentences of a file, or of a piece of it that begins at this character; texts are split
    into tokens."""
    from labelwright.corpus.file_formats import TEXTS, texts_of
    from labelwright.taggers.arguments import split_for

    split, data = None, None  # type: SplitTexts | None, Data
    if file.format in TEXTS:
        if columns or known:
            raise OptionError(f"--columns, --known: {file.name}: texts have words, and no columns")
        tokenizer = tokenizer or model.tokenizer()
        split = split_for(model, [item.text for item in texts_of(file)], tokenizer)
        data = split.corpus(file.name, tokenizer).renamed(input_names(model) or ["word"], None)
    elif tokenizer is not None:
        raise OptionError(
            f"{file.name}: read as {file.format}, which has tokens; for plain text add --text"
        )
    elif file.format == "crfsuite":
        from labelwright.features.attributes import read_crfsuite

        if known is not None:
            raise OptionError("--known: CRFsuite's data have no columns")
        data = read_crfsuite(file)
    else:
        with _perhaps_text(model, columns) if file.format == "columns" else nullcontext():
            data = read_for(model, file, columns, [known] if known else [])
    plain = file.format in ("columns", "conllu", "text")
    return ToTag(
        data, None if plain else lambda added: _written(file, split, added), file.more, split, begin
    )


@contextmanager
def _perhaps_text(model: Any, columns: str | None) -> Iterator[None]:
    """Errors about columns say what plain text needs, which may have been given."""
    try:
        yield
    except CorpusError as error:
        if columns is not None or "column" not in str(error):
            raise
        others = ",".join(input_names(model)[1:])
        needs = (
            f"train on words and labels alone, or a cascade that predicts {others}"
            if others
            else "add --text"
        )
        raise CorpusError(f"{error}; for plain text {needs}") from None


def tokenizer_given(before: "Tokenizer", o: Any) -> "Tokenizer | None":
    """The tokenizer that options ask for, where they ask for another one than that of the model."""
    if o.tokenizer is None and not o.characters and o.token_pattern is None:
        return None if o.sentences is None else before._replace(sentences=o.sentences).check()
    changed = before._replace(
        characters=bool(o.characters), pattern=o.token_pattern, name=o.tokenizer or "words"
    )
    return changed._replace(sentences=o.sentences or before.sentences).check()


# -- writing ---------------------------------------------------------------------------------------

READ_ONLY = {
    "spacy": "DocBin files are read, not written; add --json, or use the spaCy component",
    "brat": "annotations of BRAT are read, not written; tag the texts with --text --to brat -o DIR",
}


def _written(file: "OpenFile", split: "SplitTexts | None", added: Added) -> bytes:
    """A file in its own format with what is added to it."""
    from labelwright.corpus.annotations import tasks_of, with_predictions
    from labelwright.corpus.token_records import json_lines, without_header

    if file.format in READ_ONLY:
        raise OptionError(f"{file.name}: {READ_ONLY[file.format]}")
    if file.format == "crfsuite":
        return _label_lines(file, next(iter(added.values())))
    if file.format == "label-studio":
        if list(added) != [""]:
            why = "Label Studio has one list of predictions, and a cascade several; add --json"
            raise OptionError(f"{file.name}: {why}")
        assert split is not None
        return with_predictions(tasks_of(file), zip(split.texts, added[""][0], strict=True))
    if file.format == "doccano":
        for name, (texts,) in list(added.items()):
            added[name] = [[[list(each[:3]) for each in text] for text in texts]]
            if all(each.probability is not None for text in texts for each in text):
                added[name].append([[each.probability for each in text] for text in texts])
        return json_lines(file).extended(_fields(added))
    if file.format == "parquet":
        from labelwright.corpus.binary_records import extended, read_table

        return extended(read_table(file), _fields(added))
    return without_header(json_lines(file))[0].extended(_fields(added))


def _label_lines(file: "OpenFile", columns: list[Any]) -> bytes:
    """One label in each line, a blank line after each sentence; a probability follows after a
    colon, as in CRFsuite."""
    from labelwright.corpus.labels import check_written

    check_written((label for sentence in columns[0] for label in sentence), file.name)
    lines: list[str] = []
    for sentence in zip(*columns, strict=True):
        lines += [*(":".join(parts) for parts in zip(*sentence, strict=True)), ""]
    return "".join(f"{line}\n" for line in lines).encode()


def _fields(added: Added) -> list[dict[str, Any]]:
    from labelwright.corpus.file_formats import PREDICTED

    fields: dict[str, Sequence[Any]] = {}
    for name, columns in added.items():
        field = f"{PREDICTED}_{name}" if name else PREDICTED
        fields[field] = columns[0]
        if len(columns) > 1:
            fields[f"{field}_probabilities"] = [
                [round(float(p), 6) for p in row] for row in columns[1]
            ]
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
