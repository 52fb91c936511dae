"""Every experiment runs from its corpora to its report: here on small made-up corpora with the same
columns."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labelwright.cli import main
from labelwright.reproduce import PAPERS, experiment, measured

PHRASES = [  # word, POS tag, and the kind of chunk that it is in
    [("The", "DT", "NP"), ("Board", "NN", "NP")],
    [("the", "DT", "NP"), ("kinase", "NN", "NP")],
    [("IL-2", "NN", "NP")],
    [("IBM", "NNP", "NP")],
    [("rose", "VBD", "VP")],
    [("will", "MD", "VP"), ("bind", "VB", "VP")],
    [("in", "IN", "PP")],
    [("1,204", "CD", "NP"), ("cells", "NNS", "NP")],
    [(",", ",", "O")],
]
WORDS = {"cat": "KAT", "can": "KAN", "tan": "TAN", "nap": "NAP", "pact": "PAKT", "cant": "KANT"}


def phrases(columns: int, rng: np.random.Generator) -> str:
    """A sentence of a column file, of words with their POS tags, chunks as far as there are
    columns, and labels."""
    lines = []
    for number in rng.integers(0, len(PHRASES), 5):
        for i, (word, pos, kind) in enumerate(PHRASES[number]):
            label = "O" if kind == "O" else f"{'I' if i else 'B'}-{kind}"
            lines.append(" ".join([*[word, pos, label, label][: columns - 1], label]))
    return "\n".join([*lines, ". . O O"[: 2 * columns - 3] + " O"]) + "\n\n"


def letters(columns: int, rng: np.random.Generator) -> str:
    word = list(WORDS)[rng.integers(0, len(WORDS))]
    return "".join(f"{a} {b}\n" for a, b in zip(word, WORDS[word], strict=True)) + "\n"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("corpora"), np.random.default_rng(0)
    for name, facts in experiment("csi").task.corpora.items():
        names = facts["columns"].split(",")
        sentence: Callable[[int, np.random.Generator], str] = (
            letters if names[0] == "letter" else phrases
        )
        (folder / name).mkdir()
        for part, n in (("train", 90), ("test", 30)):
            text = "".join(sentence(len(names), rng) for _ in range(n))
            (folder / name / f"{part}.txt").write_text(text)
    return folder


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", PAPERS)
def test_a_quick_run_ends_with_a_report(
    name: str, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "ABSTRACTS", 70)
    # has steps that need those of earlier rounds
    beside = ["--jobs", "2"] if name == "latperc-np" else []
    assert (
        main(
            ["reproduce", name, "--corpora", str(corpora), "-o", str(tmp_path), "--quick", *beside]
        )
        == 0
    )
    found = json.loads((tmp_path / f"{name}.quick.results.json").read_text())
    assert found["experiment"] == name
    assert found["quick"] is True
    rows = found["rows"]
    assert {row["variant"] for row in rows} >= {"as published", "ours"}
    assert all(row["ours"] is not None and np.isfinite(row["ours"]) for row in rows)
    percent = [
        row["ours"]
        for row in rows
        if row["metric"] in ("F1", "P", "R", "S.A.", "accuracy", "chunk F1")
    ]
    assert percent
    assert all(0 <= value <= 100 for value in percent)
    assert max(percent) > 50, "no system has learnt anything"
    assert any(row["paper"] is not None for row in rows)
    assert found["claims"]
    page = (tmp_path / f"{name}.quick.md").read_text()
    assert all(f"| {row['system']} |" in page for row in rows)
