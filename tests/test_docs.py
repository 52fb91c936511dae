"""Every Python and shell block of README.md and docs/ runs, in the order of its page, in a folder with small data.

Blocks fenced as ```text, and indented ones, only show something.  All Python blocks of a page share their names.  Where
a block that prints is followed by one that shows something, the page must show what is printed.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from labelwright import compat
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|sh|bash)\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$|\n((?: {4}[^\n]*\n)+))?", re.M | re.S)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    shown: str  # by the block after it


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text[: match.start(2)].count("\n"), match[3] or textwrap.dedent(match[4] or ""))
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: train.txt, dev.txt, test.txt and new.txt, each with the columns word, pos and chunk."""
    corpus = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])
    parts = {"train": slice(0, 35), "dev": slice(35, 45), "test": slice(45, 55), "new": slice(55, 60)}
    for name, part in parts.items():
        write_columns(corpus.take(part), tmp_path / f"{name}.txt")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command = bin_folder / "labelwright"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m labelwright "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def statements(text: str) -> Iterator[str]:
    """A shell block statement by statement: lines that go on, and lines with the document that follows them."""
    lines = iter(text.splitlines())
    for line in lines:
        statement = line
        while statement.endswith("\\"):
            statement = f"{statement}\n{next(lines)}"
        document = re.search(r"<<-?\s*'?(\w+)'?", statement)
        while document and not statement.endswith(f"\n{document[1]}"):
            statement = f"{statement}\n{next(lines)}"
        if statement.strip() and not statement.lstrip().startswith("#"):
            yield statement


def run_shell(text: str, place: str) -> None:
    """Run commands of labelwright in this process, which is faster, and all others by the shell."""
    for statement in statements(text):
        if re.fullmatch(r"labelwright [^|<>;&$`\n]*(\\\n[^|<>;&$`\n]*)*", statement.split(" #")[0]):
            output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = main(shlex.split(statement.replace("\\\n", " "), comments=True)[1:])
            assert code == 0, f"{place}: {statement}\n{output.buffer.getvalue().decode()}"
        else:
            done = subprocess.run(["bash", "-e", "-c", statement], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{place}: {statement}\n{done.stdout}{done.stderr}"


def run_python(text: str, place: str, names: dict[str, object]) -> str:
    """Run a block with the names of its page, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, place, "exec"), names)
    return printed.getvalue()


@pytest.fixture
def originals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page may put labelwright in the place of CRFsuite: only for itself."""
    for name in [name for name in sys.modules if name.partition(".")[0] in compat.REPLACED]:
        monkeypatch.delitem(sys.modules, name)
    yield
    compat.restore()


@pytest.mark.slow
@pytest.mark.usefixtures("folder", "originals")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_the_blocks_of_a_page_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks_of(page):
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            printed = run_python("\n" * block.line + block.text, str(page), names)
            assert not printed or not block.shown or printed == block.shown, place
        else:
            run_shell(block.text, place)


def test_the_readme_has_blocks_to_run() -> None:
    assert any(block.language == "python" for block in blocks_of(ROOT / "README.md"))


def test_statements_of_the_shell() -> None:
    text = "# no command\nlabelwright tag m \\\n  new.txt\ncat > a <<'EOF'\nx = 1\nEOF\n\nls | wc\n"
    assert list(statements(text)) == [
        "labelwright tag m \\\n  new.txt",
        "cat > a <<'EOF'\nx = 1\nEOF",
        "ls | wc",
    ]
