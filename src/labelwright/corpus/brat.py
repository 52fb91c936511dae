"""BRAT stand-off: texts in .txt files, and their annotations in .ann files of the same name.

    T1<tab>PER 0 12<tab>Ada Lovelace

Relations, events, attributes and notes are skipped when a folder is read.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from labelwright.corpus.annotations import WORDS, AnnotatedText, Annotation, corpus_of, with_warnings
from labelwright.corpus.compressed import read_bytes
from labelwright.corpus.limits import check_size
from labelwright.corpus.split_texts import Entity
from labelwright.corpus.table import Corpus
from labelwright.corpus.tokenizer import Tokenizer
from labelwright.errors import CorpusError

_ENTITY = re.compile(r"T\S*\t(\S+) (\d{1,15} \d{1,15}(?:;\d{1,15} \d{1,15})*)(?:\t|$)")


def read_brat(path: str | Path, skip_bad_spans: bool = False, tokenizer: Tokenizer = WORDS) -> Corpus:
    """Read a folder of BRAT stand-off (.txt and .ann files), or one text of it.

    Annotations that do not fit are treated as `read_doccano` does. One in several parts is read as one, from the
    first part to the last.

    path : a folder, or a .txt or .ann file
    skip_bad_spans : leave out annotations that do not fit
    tokenizer : how texts are split into tokens and sentences
    """
    return with_warnings(corpus_of(brat_texts(path), str(path), skip_bad_spans, tokenizer))


def brat_texts(path: str | Path) -> list[AnnotatedText]:
    """The texts of a folder in the order of their names, or one text; without an .ann file a text has no
    annotations."""
    if not isinstance(path, str | Path):
        raise CorpusError(f"expected the path of a folder or of a text, got {type(path).__name__}")
    place = Path(path)
    files = sorted(place.rglob("*.txt")) if place.is_dir() else [place.with_suffix(".txt")]
    if not files:
        raise CorpusError(f"{place}: is a folder, expected a file, or a folder with .txt and .ann files of BRAT")
    folder = _Folder(place)
    return [_annotated(file, folder) for file in files]


class _Folder:
    """The files of a folder, which are one input: its limit is for all of them together."""

    def __init__(self, place: Path):
        self._name, self._n_read = str(place), 0

    def read(self, file: Path) -> str:
        """The characters of a file, as BRAT counts them: line ends stay as they are."""
        data = read_bytes(file)
        self._n_read += len(data)
        check_size(self._n_read, self._name, held=False)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"{file}: byte {error.start + 1} is not UTF-8; convert the file first") from None


def _annotated(file: Path, folder: _Folder) -> AnnotatedText:
    ann = file.with_suffix(".ann")
    text = folder.read(file)
    if not ann.exists():
        return AnnotatedText(str(file), text, None)
    return AnnotatedText(str(ann), text, list(_annotations(ann, folder.read(ann))))


def _annotations(file: Path, lines: str) -> Iterator[Annotation]:
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.startswith("T"):
            continue
        match = _ENTITY.match(line)
        if match is None:
            raise CorpusError(f"{file}:{number}: expected `T1<tab>TYPE START END<tab>TEXT`, got {line!r:.60}")
        offsets = [int(offset) for offset in re.findall(r"\d+", match[2])]
        yield Annotation(min(offsets), max(offsets), match[1])


def brat_lines(entities: Iterable[Entity], first: int = 1) -> str:
    """Entities as the lines of an .ann file, numbered from `first`; a probability becomes a note."""
    lines = list[str]()
    for number, entity in enumerate(entities, first):
        kind = re.sub(r"\s+", "_", entity.type) or "_"
        shown = " ".join(entity.text.split("\n")).replace("\t", " ").replace("\r", " ")
        lines.append(f"T{number}\t{kind} {_fragments(entity)}\t{shown}\n")
        if entity.probability is not None:
            lines.append(f"#{number}\tAnnotatorNotes T{number}\t{entity.probability:.4f}\n")
    return "".join(lines)


def _fragments(entity: Entity) -> str:
    """The place of an entity; one that goes on in the next line is in several parts."""
    parts, begin = [], entity.start
    for line in entity.text.split("\n"):
        parts.append(f"{begin} {begin + len(line)}")
        begin += len(line) + 1
    return ";".join(parts)
