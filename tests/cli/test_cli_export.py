"""labelwright export: sizes and scores before and after; what cannot be exported is said in one line."""

import json
from pathlib import Path

import pytest

import labelwright


def test_export_shows_what_it_saves(run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    code, text, err = run("export", data / "crf", out, "--prune", 0.02, "--bits", 8, "--data", data / "test.txt")
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        "", "size", "features", "weights", "F1", "token accuracy", "labels that agree", "sentences that agree",
    ]  # fmt: skip
    code, text, _ = run("export", data / "crf", out, "--bits", 16, "--data", data / "test.txt", "--json")
    facts = json.loads(text)
    assert facts["bytes"] == [(data / "crf").stat().st_size, out.stat().st_size]
    assert facts["bytes"][1] < 0.6 * facts["bytes"][0]
    assert facts["data"][""]["agreement"]["tokens"] > 0.99
    _, report, _ = run("eval", out, data / "test.txt", "--json")
    assert facts["data"][""]["f1"][1] == pytest.approx(json.loads(report)["f1"])
    assert labelwright.load(out).classes_ == labelwright.load(data / "crf").classes_
    assert run("tag", out, data / "words.txt")[0] == 0
    assert run("inspect", out)[0] == 0


def test_every_layer_of_a_cascade(run, folder: Path, tmp_path: Path) -> None:
    options = ["--bits", 8, "--data", folder / "test.txt"]
    code, text, err = run("export", folder / "two", tmp_path / "small", *options, "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(text)["data"]) == {"pos", "chunk"}
    assert run("export", folder / "two", tmp_path / "small", *options, "-q") == (0, "", "")
