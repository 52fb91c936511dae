"""A tagger that another package registers (that of CONTRIBUTING.md): train, help, recipes,
corrections, answers."""

import json
from pathlib import Path

import pytest
from command import one_line

from labelwright import modelfile
from labelwright.taggers import registry

COLUMNS = ["--columns", "word,pos,chunk"]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry.TAGGERS, "frequent", "most_frequent:MostFrequent")


def test_commands(run, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    options = ["--model", "frequent", "--smoothing", 0.5, "--dev", data / "dev.txt"]
    code, out, err = run("train", data / "train.txt", "-o", model, *COLUMNS, *options)
    assert (code, out) == (0, "")
    assert err.removeprefix(f"{model}: ").startswith("MostFrequent; F1 ")
    assert err.endswith(" on the development data\n")
    _, header = modelfile.read(model)
    assert header["parameters"] == {"smoothing": 0.5}
    assert header["training"]["columns"] == ["word", "pos", "chunk"]
    assert 0 < header["training"]["dev"] < 1
    code, out, err = run("tag", model, data / "test.txt", "--json", "--nbest", 2, "--probabilities")
    assert (code, err) == (0, "")
    answer = json.loads(out.splitlines()[0])
    assert {"tokens", "labels", "probability", "exact", "spans", "nbest", "probabilities"} <= set(
        answer
    )
    code, out, err = run("eval", model, data / "test.txt")
    assert (code, err) == (0, "")
    assert "f1" in out
    assert run("inspect", model)[0] == 0
    assert "NP" in run("inspect", model, "--data", data / "test.txt")[1]


def test_a_recipe(run, data: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('model = "frequent"\nsmoothing = 3.0\ncolumns = ["word", "pos", "chunk"]\n')
    arguments = ["train", data / "train.txt", "-o", tmp_path / "m", "--recipe", recipe, "-q"]
    assert run(*arguments) == (0, "", "")
    assert modelfile.read(tmp_path / "m")[1]["parameters"] == {"smoothing": 3.0}
    recipe.write_text('model = "frequent"\nsmoothing = 0\n')
    code, _, err = run(*arguments)
    assert code == 2
    one_line(err, "r.toml: smoothing: expected a number above 0, got 0")
    recipe.write_text('model = "frequent"\nsmothing = 1\n')
    one_line(run(*arguments)[2], "r.toml: unknown key 'smothing'; did you mean 'smoothing'?")


def test_help(run) -> None:
    assert "cascade, frequent." in " ".join(run("train", "--help")[1].split())
    code, out, _ = run("train", "--model", "frequent", "--help")
    assert code == 0
    shown = " ".join(out.split())
    assert (
        "Settings of frequent: --smoothing X Count of a label never seen. [default: 0.1]" in shown
    )
    assert "--resume" not in shown


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--smoothing", "0"], "--smoothing: expected a number above 0, got 0"),
        (["--smoothing", "x"], "--smoothing: expected a number above 0, got 'x'"),
        (["--smothing", "1"], "no such option --smothing; did you mean --smoothing?"),
        (["--l2", "1"], "--l2: not for --model frequent, only for crf, latent-crf or semi-crf"),
        (["--resume"], "--resume: not for --model frequent, only for crf, "),
        (
            ["--model", "crf", "--smoothing", "1"],
            "--smoothing: not for --model crf, only for frequent",
        ),
        (["--model", "frequnt"], "got 'frequnt'; did you mean 'frequent'?"),
    ],
)
def test_refusals_and_corrections(
    run, data: Path, tmp_path: Path, options: list[str], part: str
) -> None:
    arguments = [
        "train",
        data / "train.txt",
        "-o",
        tmp_path / "m",
        "--model",
        "frequent",
        *COLUMNS,
        *options,
    ]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    one_line(err, part)
