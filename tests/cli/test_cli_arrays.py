"""Numbers beside tokens from the command line: train, tag, eval, errors and explain with
--arrays."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import one_line

import labelwright
from labelwright.corpus import file_formats, read_columns

LABELS = ["A", "B"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words that say nothing of their labels, and rows that say all; a model of both."""
    from labelwright.cli import main

    folder = tmp_path_factory.mktemp("arrays")
    rng = np.random.default_rng(0)
    for name, n in (("train", 30), ("dev", 20)):
        lines, rows = [], []
        for _ in range(n):
            for code in rng.integers(2, size=rng.integers(1, 5)).tolist():
                lines.append(f"w {LABELS[code]}")
                rows.append([code, 5.0, rng.normal()])
            lines.append("")
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        np.save(folder / f"{name}.npy", np.array(rows, np.float32))
    np.savez(folder / "dev.npz", numbers=np.load(folder / "dev.npy"))
    np.savez(folder / "two.npz", a=np.ones((2, 2)), b=np.ones(2))
    np.save(folder / "flat.npy", np.ones(4))
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "model",
        "--arrays",
        folder / "train.npy",
        "-q",
    ]
    assert main([*map(str, arguments), "--threads", "1"]) == 0
    return folder


@pytest.mark.parametrize("name", ["dev.npy", "dev.npz"])
def test_a_model_reads_rows_beside_tokens(run, folder: Path, name: str) -> None:
    ask = [folder / "model", folder / "dev.txt", "--arrays", folder / name]
    assert json.loads(run("eval", *ask, "--json")[1])["token_accuracy"] == 1.0
    assert json.loads(run("errors", *ask, "--json")[1])["errors"] == []
    assert all(
        line.split()[1] == line.split()[2] for line in run("tag", *ask)[1].splitlines() if line
    )
    facts = json.loads(run("explain", *ask, "--json")[1])["sentences"][0]["layers"][""][0]
    assert facts["contributions"][0]["name"] == "Ua[0]:0"
    gold = read_columns(folder / "dev.txt")
    rows = np.split(np.load(folder / "dev.npy"), gold.offsets[1:-1])
    assert labelwright.load(folder / "model").predict(gold.X, arrays=rows) == gold.y


def test_pieces_of_a_file_have_their_rows(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats.pieces_of, "__defaults__", (None, False, 50))
    code, out, _ = run("tag", folder / "model", folder / "dev.txt", "--arrays", folder / "dev.npy")
    assert code == 0
    assert all(line.split()[1] == line.split()[2] for line in out.splitlines() if line)


def test_development_data_searches_and_folds(run, folder: Path, tmp_path: Path) -> None:
    train = [
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        "--arrays",
        folder / "train.npy",
        "--threads",
        1,
    ]
    dev = ["--dev", folder / "dev.txt"]
    both = [*train, *dev, "--dev-arrays", folder / "dev.npz"]
    assert run(*both, "--search", "l2=0.1,1", "--folds", 2, "-q")[0] == 0
    record = labelwright.load(tmp_path / "m").training_
    assert record["best_dev"] == 1.0
    assert record["folds"]["mean"] > 0.95
    stdin = (folder / "dev.txt").read_bytes()
    one_line(
        run("tag", folder / "model", "--arrays", folder / "dev.npy", stdin=stdin)[2],
        "--arrays: not for a stream",
    )


@pytest.mark.slow
def test_damaged_files_are_refused_in_one_line(run, folder: Path, tmp_path: Path) -> None:
    ask = ["eval", folder / "model", folder / "dev.txt", "--arrays"]
    rng = np.random.default_rng(0)
    for name in ("dev.npy", "dev.npz"):
        whole = (folder / name).read_bytes()
        for _ in range(150):
            data = bytearray(whole)
            data[rng.integers(min(len(data), 200))] = rng.integers(256)
            (tmp_path / name).write_bytes(data)
            code, _, err = run(*ask, tmp_path / name)
            assert code in (0, 2)
            if code:
                one_line(err, "--arrays: ")
