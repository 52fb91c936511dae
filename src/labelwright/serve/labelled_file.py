"""The file that an annotator writes: a line for each sentence, as doccano has it and as
`labelwright train` reads it.

    {"text": "Ada ran home.", "label": [[0, 3, "PER"]], "unknown": [[8, 12]]}

A first answer is appended; one that takes the place of another, or takes it back, replaces the file
as a whole.  Both are on the disk before they are acknowledged: at any moment, whatever is killed,
the file has each sentence once, and every answer that was acknowledged.  The open file is locked:
one process at a time writes it."""

import hashlib
import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from labelwright.corpus.annotations import AnnotatedText, doccano_texts, sound
from labelwright.corpus.token_records import JsonLines, dumped, parse_json_lines
from labelwright.errors import CorpusError, OptionError, reason_of
from labelwright.serve.bodies import RequestError
from labelwright.storage import open_regular, replace_file, replacing
from labelwright.wording import counted

try:
    import fcntl
except ImportError:  # Windows, where files are not locked
    fcntl = None  # type: ignore[assignment]

HEAD = b'{"text": "'  # of every line that is appended


class Answer(NamedTuple):
    """What is known of a sentence, in characters of its text."""

    label: list[list[Any]]  # [start, end, type]
    unknown: list[list[int]]  # [start, end]  what is left open

    @property
    def tag(self) -> str:
        """A name for just this content: who answers says by it which answer they have seen."""
        content = json.dumps([sorted(self.label), sorted(self.unknown)])
        return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def read(self, text: str) -> AnnotatedText:
        """The sentence as training reads it; an answer of another shape is refused."""
        (read,) = doccano_texts(JsonLines("answer", [], [0], [{"text": text, **self._asdict()}]))
        return read


def answer_in(read: AnnotatedText) -> Answer:
    """The answer that a line of the file holds."""
    return Answer(
        [list(each) for each in read.annotations or ()], [list(each) for each in read.unknown]
    )


def _line_of(fields: dict[str, Any], answer: Answer) -> bytes:
    """The line of the file for an answer, with other fields that it has."""
    record = {name: value for name, value in fields.items() if name != "unknown"}
    record["label"] = answer.label
    if answer.unknown:
        record["unknown"] = answer.unknown
    return dumped(record)


class LabelledFile:
    """The answers of a file by the text of their sentence; the file is ours until `close`."""

    def __init__(self, path: str):
        self.path = Path(os.path.realpath(path))
        self.shown = path
        self.notes: list[str] = []
        try:
            if not os.path.lexists(self.path):
                replace_file(self.path, b"")
            self._file = self._locked()
            content = self._file.read()
        except OSError as error:
            raise OptionError(f"{path}: {reason_of(error)}") from None
        try:
            self._read(content)
        except OSError as error:
            self.close()
            raise OptionError(f"{path}: cannot be written: {reason_of(error)}") from None
        except BaseException:
            self.close()
            raise

    def _read(self, content: bytes) -> None:
        kept = self._whole_lines(content)
        lines = parse_json_lines(kept, self.shown)
        texts = doccano_texts(lines)
        missing = next((read.place for read in texts if read.annotations is None), None)
        if missing is not None:
            raise CorpusError(
                f"{missing}: no label, expected answers of labelwright annotate; name another file"
            )
        for read in texts:
            problems = sound(read, skip_bad_spans=True)[1]
            if problems:
                raise CorpusError(f"{problems[0]}; correct it, or name another file")
        last = {read.text: n for n, read in enumerate(texts)}
        if twice := len(texts) - len(last):
            dropped = counted(twice, "line")
            self.notes.append(
                f"{self.shown}: dropped {dropped} whose sentence is there again further on"
            )
        self._lines = [lines.lines[lines.numbers[n]] for n in sorted(last.values())]
        self._place = {text: place for place, text in enumerate(sorted(last, key=last.__getitem__))}
        self.answers = {text: answer_in(texts[last[text]]) for text in self._place}
        self._size = len(content)
        self._hash = hashlib.blake2b(content)
        if twice or kept != content:
            self._replace(self._lines)

    def _locked(self) -> BinaryIO:
        """The open file, which no other process has; one that has been replaced meanwhile is opened
        anew."""
        while True:
            file = open_regular(self.path, "r+b")
            if fcntl is None:
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                what = (
                    "another labelwright annotate is writing to it; open the page of that one, or "
                    "end it first"
                )
                raise OptionError(f"{self.shown}: {what}") from None
            except OSError:  # files are not locked on this disk
                return file
            if self._is_there(file):
                return file
            file.close()

    def _is_there(self, file: BinaryIO) -> bool:
        """Is the open file still that of the path?"""
        with suppress(OSError):
            return os.path.samestat(os.stat(self.path), os.fstat(file.fileno()))
        return False

    def _is_unchanged(self) -> bool:
        """Whether the file of the path is ours and has the content that was read or written last.
        Times of change do not tell: two changes within a few milliseconds can have the same."""
        if not self._is_there(self._file) or os.fstat(self._file.fileno()).st_size != self._size:
            return False
        with open_regular(self.path) as file:  # ours may be open for writing only
            return hashlib.file_digest(file, "blake2b").digest() == self._hash.digest()

    def _whole_lines(self, content: bytes) -> bytes:
        """The file without a last line that was not written to its end; such a line was never
        acknowledged."""
        begin = content.rfind(b"\n") + 1
        last = content[begin:]
        if not last.strip():
            return content[:begin]
        try:
            json.loads(last)
        except ValueError:
            torn = last.rstrip(b"\0")  # a disk may have room for a line, but not yet the line
            if not (torn.startswith(HEAD) or HEAD.startswith(torn)):
                raise CorpusError(
                    f"{self.shown}: the last line is not JSON; name another file"
                ) from None
            self.notes.append(
                f"{self.shown}: cut the last line, an answer that was not written to its end"
            )
            return content[:begin]
        return content + b"\n"

    def write(self, text: str, answer: Answer | None) -> None:
        """Put the answer for a sentence on the disk; None takes it back."""
        try:
            if not self._is_unchanged():
                line = "the file was changed by another program; start labelwright annotate again"
                raise RequestError(409, f"{self.shown}: {line}")
            self._write(text, answer)
        except OSError as error:
            raise RequestError(
                507, f"{self.shown}: cannot be written: {reason_of(error)}"
            ) from None
        if answer is None:
            del self.answers[text]
        else:
            self.answers[text] = answer

    def _write(self, text: str, answer: Answer | None) -> None:
        place = self._place.get(text)
        if place is None:
            assert answer is not None
            line = _line_of({"text": text}, answer)
            self._append(line + b"\n")
            self._place[text] = len(self._lines)
            self._lines.append(line)
            return
        lines = list(self._lines)
        places = dict(self._place)
        if answer is None:
            del lines[place], places[text]
            places = {each: n - (n > place) for each, n in places.items()}
        else:
            fields = json.loads(lines[place])  # also those of other programs
            lines[place] = _line_of(fields, answer)
        self._replace(lines)
        self._lines = lines
        self._place = places

    def _append(self, line: bytes) -> None:
        try:
            self._file.seek(self._size)
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # what could be written is no answer
                self._file.truncate(self._size)
            raise
        self._size += len(line)
        self._hash.update(line)

    def _replace(self, lines: list[bytes]) -> None:
        """Write these lines alone; the lock passes to the new file before it takes the place of the
        old one."""
        content = b"".join(line + b"\n" for line in lines)
        if fcntl is None:
            self._file.close()
            replace_file(self.path, content)
            self._file = open_regular(self.path, "r+b")
        else:
            with ExitStack() as on_error:
                with replacing(self.path) as file:
                    file.write(content)
                    # shares the lock of `file`
                    fresh = os.fdopen(os.dup(file.fileno()), "r+b", buffering=0)
                    on_error.callback(fresh.close)
                on_error.pop_all()
            self._file.close()
            self._file = fresh
        self._size = len(content)
        self._hash = hashlib.blake2b(content)

    def close(self) -> None:
        self._file.close()
