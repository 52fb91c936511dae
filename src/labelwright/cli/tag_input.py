"""What is to be tagged: the pieces of a file, or of a stream as they come."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.arrays import TokenRows
from labelwright.cli.common import named_for, say
from labelwright.cli.reading import ToTag, perhaps_text, pieces_to_tag, reads_attributes
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer

HEADLINE = 100  # tokens


class Source(NamedTuple):
    """Where sentences are read from, and how."""

    path: str  # - for standard input
    format: str | None
    columns: str | None  # their names
    known: str | None  # the column of known labels
    tokenizer: "Tokenizer | None"
    rows: TokenRows | None  # arrays beside the tokens

    def pieces(self, model: Any) -> Iterator[ToTag]:
        """The sentences, piece by piece."""
        pieces = self._pieces(model)
        return pieces if self.rows is None else self.rows.pieces(pieces, self.path)

    def _pieces(self, model: Any) -> Iterator[ToTag]:
        if os.path.isfile(self.path) and os.path.getsize(self.path) == 0:  # nothing to label, whatever its format
            return iter(())
        if self.path != "-" or self.format not in (None, "columns") or reads_attributes(model):
            pieces = pieces_to_tag(model, self.path, self.format, self.columns, self.known, self.tokenizer)
            return _warned(model, pieces)
        if self.tokenizer is not None:
            raise OptionError("<stdin>: read as columns, which has tokens; for plain text add --text")
        if self.rows is not None:
            raise OptionError("--arrays: not for a stream, which is answered sentence by sentence; name INPUT")
        return _warned(model, _stream(model, self.columns, self.format))


def with_targets(inputs: list[str], output: str, format: str | None, to: str | None) -> list[tuple[str, str]]:
    """The files to be read, each with where its answer goes: in a folder, under its own name."""
    files = [file for path in inputs for file in _files_of(path, format)]
    if len(inputs) == 1 and files == inputs and (files == ["-"] or not (os.path.isdir(output) or output[-1:] == "/")):
        return [(files[0], output)]
    if output == "-" or os.path.isfile(output) or "-" in files:
        raise OptionError("-o: several inputs, or a folder, are written file by file; name a folder with -o DIR")
    sources: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file)
        target = os.path.join(output, f"{os.path.splitext(name)[0]}.ann" if to == "brat" else name)
        if target in sources:
            raise OptionError(f"-o: {sources[target]} and {file} would both be written to {target}; rename one of them")
        sources[target] = file
    return [(file, target) for target, file in sources.items()]


def _files_of(path: str, format: str | None) -> list[str]:
    """A file, or the files of a folder; one with annotations of BRAT is read as a whole, unless its texts are meant."""
    names = sorted(os.listdir(path)) if os.path.isdir(path) and format != "brat" else []
    if format is None and any(name.endswith(".ann") for name in names):
        return [path]
    files = [os.path.join(path, name) for name in names if name[0] != "." and not name.endswith(".ann")]
    return [file for file in files if os.path.isfile(file)] or [path]


def _warned(model: Any, pieces: Iterator[ToTag]) -> Iterator[ToTag]:
    """The pieces of a file; what a user should know about it is told by the first, if that is no headline."""
    for n, piece in enumerate(pieces):
        if n == 0 and piece.corpus is not None and not (piece.more and piece.corpus.n_tokens < HEADLINE):
            how.warn(model, piece.corpus, piece.more)
        yield piece
        del piece


def _stream(model: Any, columns: str | None, format: str | None) -> Iterator[ToTag]:
    """Pieces of standard input as they come."""
    from labelwright.corpus import stream_columns
    from labelwright.corpus.file_formats import format_of

    if sys.stdin.isatty():
        say("reading from the terminal: one token per line, a blank line after each sentence, Ctrl-D at the end")
    with perhaps_text(model, columns):
        for n, piece in enumerate(stream_columns(sys.stdin.buffer, names=columns, label=False)):
            if n == 0 and columns is None and format is None and piece.raw is not None:
                likely = format_of(piece.source, piece.raw.text)
                if likely != "columns":
                    raise CorpusError(f"{piece.source}: looks like {likely}, not like columns; add --format {likely}")
            yield ToTag(piece if columns else named_for(model, piece), more=True)
