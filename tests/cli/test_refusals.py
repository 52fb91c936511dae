"""What commands refuse: refusals.txt, one plain line for each, exit code 2, and nothing lost."""

import shlex
from pathlib import Path

import pytest
from command import refused

SECTIONS = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").split("\n## ")[1:]


def unescaped(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_one_line_and_nothing_is_written(
    run, zoo: Path, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    monkeypatch.chdir(zoo)
    around = "{}"
    for line in section.splitlines()[1:]:
        mark, _, rest = line.partition(" ")
        if mark == "=":
            name, _, content = rest.partition(" ")
            Path(name).write_bytes(unescaped(content))
        elif mark == "@":
            around = rest if "{}" in rest else f"{rest} {{}}".strip()
        elif line:
            words, _, parts = line.partition(" =>")
            if words.startswith("<"):
                Path("r.toml").write_bytes(unescaped(words[1:-1]))
                words = "r.toml"
            before = {path.name: path.stat().st_mtime_ns for path in zoo.iterdir()}
            arguments = shlex.split(around.replace("{}", words if words != "{}" else ""))
            refused(run(*arguments), *parts.strip().split(" & "))
            assert {path.name: path.stat().st_mtime_ns for path in zoo.iterdir()} == before, line
