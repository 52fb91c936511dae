"""What `Tagger.info()` returns, and a parser of the text that `Tagger.dump()` writes."""

import re
from typing import Any

HEADING = re.compile(r"(FILEHEADER|LABELS|ATTRIBUTES|TRANSITIONS|STATE_FEATURES) = {$")
FIELD = re.compile(r"(\w+): (.*)$")
FEATURE = re.compile(r"\(\d+\) (.+) --> (.+): ([+-]?\d+\.\d+)$")


class ParsedDump:
    """The contents of a model.

    header : facts about the file, as strings
    labels, attributes : {name: number}, the numbers as strings
    transitions : {(label before, label): weight}
    state_features : {(attribute, label): weight}
    """

    def __init__(self) -> None:
        self.header: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.transitions: dict[tuple[str, str], float] = {}
        self.state_features: dict[tuple[str, str], float] = {}


class CRFsuiteDumpParser:
    """Reads a dump line by line into `result`."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.result = ParsedDump()

    def feed(self, line: str) -> None:
        line = line.lstrip().rstrip("\r\n")  # names may end with spaces
        heading = HEADING.match(line)
        if heading:
            self.state = heading[1]
        elif line == "}":
            self.state = None
        elif line and self.state is not None:
            self._read(self.state, line)

    def _read(self, section: str, line: str) -> None:
        parsed: Any = (FEATURE if section in ("TRANSITIONS", "STATE_FEATURES") else FIELD).match(line)
        if parsed is None:
            raise ValueError(f"not a line of {section}: {line!r}")
        if section == "FILEHEADER":
            self.result.header[parsed[1]] = parsed[2]
        elif section in ("LABELS", "ATTRIBUTES"):
            names = self.result.labels if section == "LABELS" else self.result.attributes
            names[parsed[2]] = parsed[1]
        else:
            features = self.result.transitions if section == "TRANSITIONS" else self.result.state_features
            features[parsed[1], parsed[2]] = float(parsed[3])
