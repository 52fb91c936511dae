"""Segment models on the command line, alone and as a layer of a cascade."""

import json
from pathlib import Path

import pytest
from cascades import LAYER, rows

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


@pytest.mark.slow
@pytest.mark.parametrize("passing", ["marginal", "joint"])
def test_a_segment_layer_on_top(run, trained, folder: Path, tmp_path: Path, passing: str) -> None:
    layers = (
        f'[[layers]]\nname = "pos"\n{LAYER}[[layers]]\nname = "chunk"\nmodel = "semi-crf"\n{LAYER}'
    )
    options = [
        "--columns",
        "word,pos,chunk",
        "--threads",
        1,
        "--iterations",
        2,
        "--passing",
        passing,
    ]
    model = trained(f'model = "cascade"\n{layers}', *options)
    assert isinstance(model.layers_["chunk"], labelwright.SemiCRF)
    _, out, err = run("tag", tmp_path / "m", folder / "words.txt", "--probabilities")
    assert err == ""
    assert all(len(row) == 5 for row in rows(out))
