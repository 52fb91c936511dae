"""Models that several tests of the command line share: a cascade and a segment model."""

from pathlib import Path
from typing import Any

import pytest
from cascades import RECIPE

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, dev.txt and test.txt (word, pos, chunk), words.txt, a recipe, and the cascade `two`."""
    folder = tmp_path_factory.mktemp("cascade")
    corpus = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])
    for name, part in {"train": slice(0, 35), "dev": slice(35, 50), "test": slice(50, 60)}.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    write_columns(corpus.take(slice(50, 60)).select(["word"]), folder / "words.txt")
    write_columns(corpus.take(slice(0, 3)).select(["word", "chunk"]), folder / "one-label.txt")
    (folder / "two.toml").write_text(RECIPE)
    arguments = ["train", folder / "train.txt", "-o", folder / "two", "--recipe", folder / "two.toml", "-q"]
    assert main([str(a) for a in [*arguments, "--dev", folder / "dev.txt"]]) == 0
    return folder


@pytest.fixture
def trained(run, folder: Path, tmp_path: Path):
    """Train with a recipe of one's own: the model, or with `code` the message."""

    def train(recipe: str, *options: object, code: int = 0) -> Any:
        (tmp_path / "r.toml").write_text(recipe)
        place = ["--recipe", tmp_path / "r.toml"]
        status, out, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *place, *options)
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
        'model = "semi-crf"\ntemplate = "words"\nmax_iter = 5\nn_jobs = 1\ncolumns = "word,pos,chunk"\n'
        '[dictionaries]\nnames = "phrases.txt"\nmore = ["her brother"]\n'
    )
    arguments = ["train", folder / "train.txt", "-o", folder / "semi", "--recipe", folder / "semi.toml", "-q"]
    assert main([str(a) for a in [*arguments, "--max-length", 8]]) == 0
    return folder / "semi"
