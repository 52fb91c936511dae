"""A tagger that another package registers: train, its help, recipes and corrections without a line elsewhere."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from command import one_line, refused

from labelwright import modelfile
from labelwright.settings import AtLeast, Help, Signed
from labelwright.taggers import registry
from labelwright.taggers.estimator import Estimator


class MostFrequent(Estimator):
    """The most frequent label of each word."""

    def __init__(
        self,
        at_least: Annotated[int, AtLeast(1), Signed(), Help("Words that occur less often get the first label.")] = 1,
        lower: Annotated[bool, Help("Words in lower case.")] = False,
    ):
        self.at_least = at_least
        self.lower = lower

    def fit(self, X, y=None):
        self._check_parameters()
        counts = defaultdict(Counter)
        for word, label in zip(self._words(X), X.y, strict=True):
            for each, its in zip(word, label, strict=True):
                counts[each][its] += 1
        self.first_ = Counter(label for row in X.y for label in row).most_common(1)[0][0]
        self.labels_ = {w: c.most_common(1)[0][0] for w, c in counts.items() if c.total() >= self.at_least}
        return self

    def predict(self, X):
        return [[self.labels_.get(word, self.first_) for word in row] for row in self._words(X)]

    def _words(self, X):
        return [[word.lower() if self.lower else word for word in row] for row in X.column("word")]

    def _check_fitted(self):
        assert self.labels_

    def save(self, path):
        header = {"kind": "MostFrequent", "parameters": self.get_params(), "training": self.training_}
        modelfile.write(path, {"words": np.array([len(self.labels_)])}, header)
        return self


@pytest.fixture(autouse=True)
def registered():
    registry.register("frequent", f"{__name__}:MostFrequent")
    yield
    del registry.TAGGERS["frequent"]


def train(run, data: Path, tmp_path: Path, *options: object) -> tuple[int, str, str]:
    columns = ["--columns", "word,pos,chunk"]
    return run("train", data / "train.txt", "-o", tmp_path / "m", "--model", "frequent", *columns, *options)


def test_train_with_options(run, data: Path, tmp_path: Path) -> None:
    code, out, err = train(run, data, tmp_path, "--at-least", 2, "--lower", "--dev", data / "dev.txt")
    assert (code, out) == (0, "")
    one = err.removeprefix(f"{tmp_path / 'm'}: ")
    assert one.startswith("MostFrequent; F1 ")
    assert one.endswith(" on the development data\n")
    _, header = modelfile.read(tmp_path / "m")
    assert header["parameters"] == {"at_least": 2, "lower": True}
    assert header["training"]["columns"] == ["word", "pos", "chunk"]
    assert 0 < header["training"]["dev"] < 1


def test_a_recipe(run, data: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('model = "frequent"\nat_least = 3\nlower = true\ncolumns = ["word", "pos", "chunk"]\n')
    arguments = ["train", data / "train.txt", "-o", tmp_path / "m", "--recipe", recipe, "-q"]
    assert run(*arguments, "--no-lower") == (0, "", "")
    assert modelfile.read(tmp_path / "m")[1]["parameters"] == {"at_least": 3, "lower": False}
    recipe.write_text('model = "frequent"\nat_least = 0\n')
    refused(run(*arguments), "r.toml: at_least: expected a whole number of 1 or more, got 0")
    recipe.write_text('model = "frequent"\nat_lest = 1\n')
    one_line(run(*arguments)[2], "r.toml: unknown key 'at_lest'; did you mean 'at_least'?")


def test_help(run) -> None:
    assert "cascade, frequent." in " ".join(run("train", "--help")[1].split())
    code, out, _ = run("train", "--model", "frequent", "--help")
    assert code == 0
    shown = " ".join(out.split())
    assert "Settings of frequent: --at-least N Words that occur less often get the first label. [default: 1]" in shown
    assert "--lower / --no-lower Words in lower case. [default: no]" in shown
    assert "--resume" not in shown


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--at-least", "0"], "--at-least: expected a whole number of 1 or more, got 0"),
        (["--at-least", "x"], "--at-least: expected a whole number of 1 or more, got 'x'"),
        (["--atleast", "1"], "no such option --atleast; did you mean --at-least?"),
        (["--l2", "1"], "--l2: not for --model frequent, only for crf, latent-crf or semi-crf"),
        (["--resume"], "--resume: not for --model frequent, only for crf, "),
        (["--model", "crf", "--at-least", "1"], "--at-least: not for --model crf, only for frequent"),
        (["--model", "frequnt"], "got 'frequnt'; did you mean 'frequent'?"),
    ],
)
def test_refusals_and_corrections(run, data: Path, tmp_path: Path, options: list[str], part: str) -> None:
    code, out, err = train(run, data, tmp_path, *options)
    assert (code, out) == (2, "")
    one_line(err, part)
