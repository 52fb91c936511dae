"""JSON lines: one object per line, read with its place, and written again with further fields."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from labelwright.errors import CorpusError

BOM = b"\xef\xbb\xbf"


class JsonLines(NamedTuple):
    """A file of JSON lines: its objects, and the lines that they stand in."""

    source: str
    lines: list[bytes]
    numbers: list[int]  # [N]  the line of each object, from 0
    objects: list[dict[str, Any]]  # [N]
    first_line: int = 1  # of these lines in the file

    def place(self, n: int) -> str:
        """Where an object stands, for messages."""
        return f"{self.source}:{self.numbers[n] + self.first_line}"

    def extended(self, additions: Sequence[Mapping[str, Any]]) -> bytes:
        """The file with further fields [N] at the end of each object; all else stays as it is, byte for byte."""
        lines = list(self.lines)
        for number, item, added in zip(self.numbers, self.objects, additions, strict=True):
            lines[number] = _extended(lines[number], item, added)
        return b"\n".join(lines)


def _extended(line: bytes, item: Mapping[str, Any], added: Mapping[str, Any]) -> bytes:
    body = line.rstrip()
    end = line[len(body) :]
    if not item or set(item) & set(added):
        return dumped({**item, **added}) + end
    return body[:-1].rstrip() + b", " + dumped(added)[1:] + end


def dumped(value: Any, indent: int | None = None) -> bytes:
    """A value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def parse_json_lines(text: bytes, source: str, first_line: int = 1) -> JsonLines:
    """The objects of a file of JSON lines, or of a piece of it; blank lines are skipped."""
    lines = text.split(b"\n")
    numbers, objects = [], []
    for number, line in enumerate(lines):
        stripped = (line.removeprefix(BOM) if number + first_line == 1 else line).strip()
        if stripped:
            item = parsed(stripped, f"{source}:{number + first_line}")
            if not isinstance(item, dict):
                got = "an array" if isinstance(item, list) else f"{item!r:.40}"
                raise CorpusError(f"{source}:{number + first_line}: expected one JSON object per line, got {got}")
            numbers.append(number)
            objects.append(item)
    return JsonLines(source, lines, numbers, objects, first_line)


def parsed(text: bytes, place: str) -> Any:
    """The value that a JSON text holds."""
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{place}: byte {error.start + 1} (0x{text[error.start]:02x}) is not UTF-8; convert the file first"
        ) from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise CorpusError(f"{place}: not JSON: {error.msg.lower()} at {at} {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: not JSON that can be read: {str(error).splitlines()[0].lower()}") from None


def first_object(text: bytes) -> dict[str, Any] | None:
    """The JSON object in the first line that is not blank, if there is one."""
    start = len(text) - len(text.removeprefix(BOM).lstrip())
    if text[start : start + 1] != b"{":
        return None
    end = text.find(b"\n", start)
    try:
        item = parsed(text[start : end if end >= 0 else len(text)], "")
    except CorpusError:
        return None
    return item if isinstance(item, dict) else None
