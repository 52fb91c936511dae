"""The worked examples of CONTRIBUTING.md, made in a copy of the package: their commands run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from contributing import ROOT, SECTIONS, commands, sources


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with all examples made in it, and data."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in sources().items():
        (folder / name).write_text(text, "utf-8")
    run(folder, "labelwright demo --write .")
    return folder


def run(folder: Path, text: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHON": sys.executable}
    shell = f'labelwright() {{ "$PYTHON" -m labelwright "$@"; }}\n{text}'
    done = subprocess.run(
        ["bash", "-e", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize("section", SECTIONS)
def test_an_example_works(section: str, checkout: Path) -> None:
    for text in commands(section):
        run(checkout, text)


def test_there_are_four_short_ones() -> None:
    assert [section.rpartition(" ")[2] for section in SECTIONS] == [
        "tagger",
        "decoder",
        "format",
        "option",
    ]
    for section, text in SECTIONS.items():
        assert text.count("\n") < 60
        assert commands(section)
