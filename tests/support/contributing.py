"""The worked examples of CONTRIBUTING.md: what they add to the source, and the commands that they
run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SECTIONS: dict[str, str] = dict(re.findall(r"^## (A new .*?)\n(.*?)(?=^## )", TEXT, re.M | re.S))
BLOCK = re.compile(r"^```(python|diff|sh)\n(?:# (src/\S+)\n)?(.*?)^```$", re.M | re.S)


def changed(text: str, diff: str) -> str:
    """A text with the lines of a diff, whose last line may be only the beginning of one."""
    old, new = (
        "\n".join(line[1:] for line in diff.splitlines() if line[:1] in kept)
        for kept in (("-", " "), ("+", " "))
    )
    assert text.count(old) == 1, f"not once in the file:\n{old}"
    return text.replace(old, new)


def sources(under: str = "src/") -> dict[str, str]:
    """The files that the examples add or change, with all that is in them then."""
    files: dict[str, str] = {}
    for language, name, text in BLOCK.findall(TEXT):
        if not name.startswith(under):
            continue
        known = files.get(name) or ((ROOT / name).read_text("utf-8") if language == "diff" else "")
        files[name] = changed(known, text) if language == "diff" else text
    return files


def commands(section: str) -> list[str]:
    """What a section runs in a shell."""
    return [text for language, _, text in BLOCK.findall(SECTIONS[section]) if language == "sh"]
