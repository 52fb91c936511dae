"""Every Python and shell block of README.md and docs/ runs, in the order of its page, in an empty
folder.

Pages that need data make them: `labelwright demo --write .`.  Blocks fenced as ```text, and
indented ones, only show something.  All Python blocks of a page share their names.  Where a block
that prints is followed by one that shows something, the page must show what is printed: all that
Python prints, a part of what commands print.  There `...` stands for what is left out, and seconds
may differ.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import labelwright
from labelwright import compat
from labelwright.cli import main

ROOT = Path(__file__).parent.parent
MADE = ("docs/gallery", "docs/reference/commands")  # by `make docs`
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not page.relative_to(ROOT).as_posix().startswith(tuple(f"{folder}/" for folder in MADE))
]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
LONGEST_EXAMPLE = 60  # lines
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FENCE = re.compile(
    r"^```(python|sh|bash)\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$|\n((?: {4}[^\n]*\n)+))?",
    re.M | re.S,
)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    shown: str  # by the block after it


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            match[1],
            match[2],
            text[: match.start(2)].count("\n"),
            match[3] or textwrap.dedent(match[4] or ""),
        )
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: empty but for the command."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command = bin_folder / "labelwright"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m labelwright "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def statements(text: str) -> Iterator[str]:
    """A shell block statement by statement: lines that go on, and lines with the document that
    follows them."""
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


def run_shell(text: str, place: str) -> str:
    """Run commands of labelwright in this process, which is faster, and all others by the shell;
    what they print."""
    printed = ""
    for statement in statements(text):
        if re.fullmatch(r"labelwright [^|<>;&$`\n]*(\\\n[^|<>;&$`\n]*)*", statement.split(" #")[0]):
            output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = main(shlex.split(statement.replace("\\\n", " "), comments=True)[1:])
            said = output.buffer.getvalue().decode()
        else:
            done = subprocess.run(
                ["bash", "-e", "-c", statement], capture_output=True, text=True, check=False
            )
            code, said = done.returncode, done.stdout + done.stderr
        assert code == 0, f"{place}: {statement}\n{said}"
        printed += said
    return printed


def is_part(shown: str, printed: str) -> bool:
    """Whether a page shows what commands print, but for `...` and for seconds."""
    pattern = re.escape(shown.strip("\n")).replace(re.escape("..."), ".*?")
    return (
        re.search(re.sub(r"\d+\\\.\d+\\ s", r"\\d+\\.\\d+\\ s", pattern), printed, re.S) is not None
    )


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
# ner.md tells of it
@pytest.mark.filterwarnings("default::labelwright.features.sources.DictionaryWarning")
@pytest.mark.usefixtures("folder", "originals")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks_of(page)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_blocks_of_a_page_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks_of(page):
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            printed = run_python("\n" * block.line + block.text, str(page), names)
            assert not printed or not block.shown or printed == block.shown, place
        else:
            printed = run_shell(block.text, place)
            assert is_part(block.shown, printed), (
                f"{place}: the page shows\n{block.shown}\nprinted was\n{printed}"
            )


def test_containers_install_the_wheel_that_they_copy() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    images = re.findall(r"^```dockerfile\n(.*?)^```$", text, re.M | re.S)
    assert images
    for image in images:
        copied = re.search(r"^COPY dist/(\S+\.whl) (\S+)$", image, re.M)
        installed = re.search(r"pip install --no-cache-dir (.+?)(?= \\$|$)", image, re.M)
        assert copied is not None
        assert installed is not None
        assert copied[2] + copied[1] in installed[1]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_of_the_gallery_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    drawn = list[int]()
    monkeypatch.setattr(pyplot, "show", lambda: drawn.extend(pyplot.get_fignums()))
    text = example.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_EXAMPLE
    try:
        run_python(text, str(example), {"__name__": example.stem})
    finally:
        pyplot.close("all")
    assert drawn


def test_the_coloured_sentence_of_the_first_page_is_what_its_block_prints() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    marks = re.findall(
        r'<mark class="(\w+)[^"]*">([^<]*) <small>(\w+) (\d+) %</small></mark>', page
    )
    (printed,) = [
        block.shown for block in blocks_of(ROOT / "docs" / "index.md") if block.language == "python"
    ]
    assert all(style == kind for style, _, kind, _ in marks)
    assert printed == "".join(f"{words} {kind} {percent} %\n" for _, words, kind, percent in marks)


def test_an_index_shows_the_readme_without_links_to_files_beside_it() -> None:
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert not re.findall(r"\]\((?!https?://)", text)


def test_the_version_to_cite_is_that_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {labelwright.__version__}\n" in citation


def test_every_dependency_has_a_lowest_version_and_no_upper_bound() -> None:
    for group in (
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    ):
        assert all(">=" in needed and "<" not in needed.partition(";")[0] for needed in group), (
            group
        )


def test_the_readme_has_blocks_to_run() -> None:
    assert any(block.language == "python" for block in blocks_of(ROOT / "README.md"))


def test_what_a_page_may_show_of_the_output_of_commands() -> None:
    printed = "a.crf: 11 labels, 0.3 s\nF1 86.44\nlast (12.0 s)\n"
    for shown in (
        "a.crf: 11 labels, 1.25 s\n",
        "F1 86.44\n...\n",
        "a.crf: ... s\n...\nlast (9.9 s)\n",
        "",
    ):
        assert is_part(shown, printed)
    for shown in ("a.crf: 12 labels, 0.3 s\n", "F1 86,44\n", "last (12.0 s)\nF1 86.44\n"):
        assert not is_part(shown, printed)


def test_statements_of_the_shell() -> None:
    text = "# no command\nlabelwright tag m \\\n  new.txt\ncat > a <<'EOF'\nx = 1\nEOF\n\nls | wc\n"
    assert list(statements(text)) == [
        "labelwright tag m \\\n  new.txt",
        "cat > a <<'EOF'\nx = 1\nEOF",
        "ls | wc",
    ]
