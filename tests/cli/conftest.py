"""Models that several tests of the command line share: a cascade and a segment model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cascades import RECIPE

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, dev.txt and test.txt (word, pos, chunk), words.txt, a recipe, and
    the cascade `two`."""
    folder = tmp_path_factory.mktemp("cascade")
    corpus = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])
    for name, part in {"train": slice(0, 35), "dev": slice(35, 50), "test": slice(50, 60)}.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    write_columns(corpus.take(slice(50, 60)).select(["word"]), folder / "words.txt")
    write_columns(corpus.take(slice(0, 3)).select(["word", "chunk"]), folder / "one-label.txt")
    (folder / "two.toml").write_text(RECIPE)
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "two",
        "--recipe",
        folder / "two.toml",
        "-q",
    ]
    assert main([str(a) for a in [*arguments, "--dev", folder / "dev.txt"]]) == 0
    return folder


@pytest.fixture
def trained(run, folder: Path, tmp_path: Path):
    """Train with a recipe of one's own: the model, or with `code` the message."""

    def train(recipe: str, *options: object, code: int = 0) -> Any:
        (tmp_path / "r.toml").write_text(recipe)
        place = ["--recipe", tmp_path / "r.toml"]
        status, out, err = run(
            "train", folder / "train.txt", "-o", tmp_path / "m", *place, *options
        )
        assert (status, out) == (code, ""), err
        assert (tmp_path / "m").exists() == (code == 0)
        assert not (tmp_path / "m.checkpoint").exists()
        return err if code else labelwright.load(tmp_path / "m")

    return train


@pytest.fixture(scope="session")
def segments(folder: Path) -> Path:
    """A segment model with two dictionaries, of a file and of a list."""
    (folder / "phrases.txt").write_text("New York\n\nthe small question\n")
    (folder / "semi.toml").write_text(
        'model = "semi-crf"\ntemplate = "words"\nmax_iter = 5\nn_jobs = 1\n'
        'columns = "word,pos,chunk"\n'
        '[dictionaries]\nnames = "phrases.txt"\nmore = ["her brother"]\n'
    )
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "semi",
        "--recipe",
        folder / "semi.toml",
        "-q",
    ]
    assert main([str(a) for a in [*arguments, "--max-length", 8]]) == 0
    return folder / "semi"


TEXT = {
    "text": "Ada Lovelace saw Paris. She met Alan.",
    "spans": [[0, 12, "PER"], [17, 22, "LOC"], [32, 36, "PER"]],
}
QUICK = ["--template", "words", "--iterations", "3", "--columns", "word,pos,chunk"]
MODELS = {  # options of `train`
    "crf": ["train.txt", *QUICK],
    "lat": ["train.txt", "--model", "latent-crf", "--latent", "2", *QUICK],
    "perceptron": ["train.txt", "--model", "perceptron", *QUICK],
    "latent-perceptron": ["train.txt", "--model", "latent-perceptron", "--latent", "2", *QUICK],
    "near": ["train.txt", "--model", "memory", "--columns", "word,pos,chunk"],
    "attributes": ["attributes.txt", "--iterations", "3"],
    "names": ["texts.jsonl", "--iterations", "3"],
    "arrays": ["numbers.txt", "--arrays", "numbers.npy", "--iterations", "3"],
}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory, folder: Path, segments: Path) -> Path:
    """A folder with small files of many formats, and a model of every kind."""
    zoo = tmp_path_factory.mktemp("zoo")
    for path in folder.iterdir():
        (zoo / path.name).write_bytes(path.read_bytes())
    (zoo / "empty").mkdir()
    (zoo / "attributes.txt").write_text("B-X\tw=a\tp:1\nO\tw=b\tp:2\n\n" * 5)
    (zoo / "a.jsonl").write_text(
        json.dumps({"tokens": ["Ada", "ran"], "n_tags": [0, 1], "tags": ["B-NP", "O"]}) + "\n"
    )
    (zoo / "texts.jsonl").write_text(json.dumps(TEXT) + "\n")
    (zoo / "letter.txt").write_text("Ada Lovelace saw London. He left.")
    (zoo / "numbers.txt").write_text("w A\nw B\n\n" * 20)
    for name, rows in {"numbers": 40, "short": 5, "long": 50, "dev": 3}.items():
        np.save(zoo / f"{name}.npy", np.arange(2.0 * rows).reshape(rows, 2) % 7)
    np.save(zoo / "flat.npy", np.ones(4))
    np.savez(zoo / "two.npz", a=np.ones((2, 2)), b=np.ones(2))
    np.savez_compressed(zoo / "zeros.npz", np.zeros((100_000, 3)))
    labelwright.MemoryBased().fit([["a", "x"], ["b", "y"]], ["one", "two"]).save(zoo / "rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(zoo)
        for name, options in MODELS.items():
            assert main(["train", *options, "-o", name, "-q", "--threads", "1"]) == 0
    return zoo
