"""What the README and the page on memory-based tagging show in Python runs, from the first block to the last."""

import re
from pathlib import Path

import pytest

from labelwright.corpus import builtin_corpus, write_columns

README = Path(__file__).parent.parent / "README.md"


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 6
    monkeypatch.chdir(tmp_path)
    write_columns(builtin_corpus(20, random_state=0, columns=["word", "pos", "chunk"]), "train.txt")
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, README.name, "exec"), names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.crf", "train.txt"]


def test_the_python_of_memory_based_tagging_runs() -> None:
    page = README.parent / "docs" / "memory.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert names["memory"].predict([["b", 7.5]]).tolist() == ["y"]  # type: ignore[attr-defined]
