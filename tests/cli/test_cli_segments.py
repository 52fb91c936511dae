"""Segment models on the command line, alone and as a layer of a cascade."""

import json
from pathlib import Path

import pytest
from cascades import LAYER, rows
from command import one_line, refused

import labelwright


def test_a_segment_model(run, folder: Path, segments: Path) -> None:
    model = labelwright.load(segments)
    assert isinstance(model, labelwright.SemiCRF)
    assert model.max_length == 8
    assert set(model.dictionaries) == {"names", "more"}
    assert sorted(map(" ".join, model.dictionaries["names"])) == ["New York", "the small question"]
    _, out, err = run("tag", segments, folder / "test.txt", "--probabilities")
    assert err == ""
    assert all(len(row) == 5 and 0 <= float(row[4]) <= 1 for row in rows(out))
    _, out, _ = run("tag", segments, folder / "test.txt", "--json", "--nbest", 2)
    assert all(json.loads(line)["exact"] for line in out.splitlines())
    assert json.loads(run("eval", segments, folder / "test.txt", "--json")[1])["f1"] > 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            ["tag", "semi", "test.txt", "--decoder", "ldi"],
            "--decoder: got 'ldi', but a SemiCRF decodes exactly; use 'viterbi'",
        ),
        (["tag", "semi", "test.txt", "--max-expansions", 3], "--max-expansions: not an option of viterbi"),
        (["train", "train.txt", "-o", "x", "--start-from", "semi"], "--start-from: semi is a semi-crf, from which no"),
        (["train", "train.txt", "-o", "x", "--model", "semi-crf", "--max-length", 0], "--max-length: expected"),
        (
            ["train", "train.txt", "-o", "phrases.txt", "--recipe", "semi.toml"],
            "phrases.txt: would replace phrases.txt",
        ),
        (["train", "train.txt", "-o", "x", "--model", "semi-crf", "--order", 2], "--order: not for --model semi-crf"),
    ],
)
def test_what_a_segment_model_refuses(
    run, folder: Path, segments: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], part: str
) -> None:
    monkeypatch.chdir(folder)
    refused(run(*arguments), part)
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('"no.txt"', "no.txt: cannot read: no such file"),
        ("3", "dictionaries: a: expected a file, or a list of phrases, got 3"),
        ('["x", 3]', "dictionaries: a: expected a file, or a list of phrases, got ['x', 3]"),
    ],
)
def test_bad_dictionaries(trained, value: str, part: str) -> None:
    one_line(trained(f'model = "semi-crf"\n[dictionaries]\na = {value}\n', code=2), part)


@pytest.mark.slow
@pytest.mark.parametrize("passing", ["marginal", "joint"])
def test_a_segment_layer_on_top(run, trained, folder: Path, tmp_path: Path, passing: str) -> None:
    layers = f'[[layers]]\nname = "pos"\n{LAYER}[[layers]]\nname = "chunk"\nmodel = "semi-crf"\n{LAYER}'
    options = ["--columns", "word,pos,chunk", "--threads", 1, "--iterations", 2, "--passing", passing]
    model = trained(f'model = "cascade"\n{layers}', *options)
    assert isinstance(model.layers_["chunk"], labelwright.SemiCRF)
    _, out, err = run("tag", tmp_path / "m", folder / "words.txt", "--probabilities")
    assert err == ""
    assert all(len(row) == 5 for row in rows(out))
