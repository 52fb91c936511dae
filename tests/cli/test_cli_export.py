"""labelwright export: sizes and scores before and after; what cannot be exported is said in one
line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import labelwright


def test_export_shows_what_it_saves(run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    code, text, err = run(
        "export", data / "crf", out, "--prune", 0.02, "--bits", 8, "--data", data / "test.txt"
    )
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        "", "size", "features", "weights", "F1", "token accuracy", (
            "labels that "
            "agree"
        ), "sentences that agree",
    ]  # fmt: skip
    code, text, _ = run(
        "export", data / "crf", out, "--bits", 16, "--data", data / "test.txt", "--json"
    )
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


def test_programs_of_one_file(run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "tagger.py"
    code, text, err = run("export", data / "crf", out, "--data", data / "test.txt", "--json")
    assert (code, err) == (0, "")
    assert json.loads(text)["bytes"][1] == out.stat().st_size
    _, tagged, _ = run("tag", data / "crf", data / "words.txt")
    done = subprocess.run(
        [sys.executable, "-I", out, data / "words.txt"], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1:] for line in done.stdout.splitlines()] == [
        line.split()[-1:] for line in tagged.splitlines()
    ]
    assert run("export", data / "crf", out, "--bits", 8, "-q") == (0, "", "")  # written again
    (code, text, err) = run("export", data / "crf", data / "test.txt.py", "--bits", 7)
    assert code == 2
    assert "bits: expected 32, 16 or 8" in err


def test_what_no_program_holds(run, folder: Path, tmp_path: Path) -> None:
    code, out, err = run("export", folder / "two", tmp_path / "tagger.js")
    assert (code, out) == (2, "")
    assert "tagger.js: a Cascade: an exported tagger cannot hold this" in err
    assert not (tmp_path / "tagger.js").exists()
