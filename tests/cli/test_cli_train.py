"""`labelwright train`: its options and recipes, what it says and writes, and what survives
interruptions."""

import os
import re
import signal
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command import Terminal, interrupted_at_once, one_line, process, refused

import labelwright
from labelwright.cli import main
from labelwright.cli.recipe import read_recipe
from labelwright.errors import OptionError
from labelwright.learn.monitor import ProgressBar

LONG_RUN = [
    "--template",
    "words",
    "--iterations",
    "150",
    "--tol",
    "0",
    "--l2",
    "0.001",
    "--checkpoint-every",
    "0",
]


def test_train_says_one_line_and_leaves_no_checkpoint(run, data: Path, tmp_path: Path) -> None:
    code, out, err = run(
        "train",
        data / "train.txt",
        "-o",
        tmp_path / "m",
        "--iterations",
        5,
        "--checkpoint-every",
        0,
    )
    assert (code, out) == (0, "")
    assert re.search(r"m: [\d,]+ weights, .* 200 sentences, 5 iterations", err)
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["m"]


def test_train_with_dev_keeps_the_best(run, data: Path, tmp_path: Path) -> None:
    code, _, err = run(
        "train",
        data / "train.txt",
        "-o",
        tmp_path / "m",
        "--dev",
        data / "dev.txt",
        "--iterations",
        15,
    )
    assert code == 0
    assert "best F1 on the development data" in err
    assert max(record.get("dev", 0) for record in labelwright.load(tmp_path / "m").history_) > 0.8


def test_data_that_were_trained_on_are_named(run, data: Path, tmp_path: Path) -> None:
    train = [
        "train",
        data / "train.txt",
        "-o",
        tmp_path / "m",
        "--columns",
        "word,pos,chunk",
        "--iterations",
        2,
    ]
    half = tmp_path / "half.txt"
    half.write_bytes(
        b"\n\n".join(
            sentence
            for name in ("train.txt", "dev.txt")
            for sentence in (data / name).read_bytes().strip().split(b"\n\n")[:30]
        )
        + b"\n\n"
    )
    line = (
        r"labelwright: \S+: about (\d+) % of its sentences of 5 tokens or more are in the training "
        r"data; scores on "
    )
    for dev, share in (
        (data / "train.txt", (100, 100)),
        (half, (35, 65)),
        (data / "dev.txt", None),
    ):
        trained, tested = run(*train, "--dev", dev)[2], run("eval", tmp_path / "m", dev)[2]
        for err in (trained, tested):
            said = re.match(line, err)
            assert (said is None) == (share is None), err
            assert share is None or share[0] <= int(said[1]) <= share[1]  # type: ignore[index]
    assert run(*train, "--dev", data / "train.txt", "--quiet") == (0, "", "")
    model = labelwright.load(tmp_path / "m")
    del model.training_["seen"]  # as in files of earlier versions
    model.save(tmp_path / "old")
    assert run("eval", tmp_path / "old", data / "train.txt")[2] == ""
    run("train", data / "dev.txt", "-o", tmp_path / "more", "--continue", tmp_path / "m", "-q")
    for name in ("train.txt", "dev.txt"):
        assert "about 100 % " in run("eval", tmp_path / "more", data / name)[2]


def test_verbose_and_quiet(run, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "m"
    assert run("train", data / "train.txt", "-o", target, "--iterations", 3, "--quiet") == (
        0,
        "",
        "",
    )
    _, _, err = run("train", data / "train.txt", "-o", target, "--iterations", 3, "--verbose")
    assert [line.split()[0] for line in err.splitlines()[:-1]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("total", "more", "shown"),
    [
        (None, {}, "training 12 loss 1,988.0 (-0.5 % in 10, stops below 0.001 %)"),
        (100, {}, "12/100 loss 1,988.0 (-0.5 % in 10, stops below 0.001 %)"),
        (
            20,
            {"mistakes": 1234, "separable": 0.7, "dev": 0.9},
            "12/20 mistakes 1,234 (70.0 % separable)  dev 90.00",
        ),
    ],
)
def test_the_progress_bar_leaves_its_last_line(
    monkeypatch, total: int | None, more: dict, shown: str
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    bar = ProgressBar(total, tol=1e-5)
    for iteration in range(13):
        bar({"iteration": iteration, "loss": 2000.0 - iteration, "seconds": 1.0, **more}, 1000)
    bar.close()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue()).rstrip().splitlines()[-1]  # type: ignore[attr-defined]
    assert shown in text
    assert re.search(r"0:00:00 and at most \d:\d\d:\d\d more$" if total else "0:00:00$", text)
    assert "1000" not in text


def test_options_reach_the_model(run, data: Path, tmp_path: Path) -> None:
    options = {
        "--l1": 0.5,
        "--l2": 2,
        "--min-count": 2,
        "--cells": "all",
        "--iterations": 3,
        "--constraints": "scheme",
    }
    flat = [word for pair in options.items() for word in pair]
    code, _, _ = run(
        "train", data / "train.txt", "-o", tmp_path / "m", "--scheme", "bioes", "--seed", 7, *flat
    )
    assert code == 0
    model = labelwright.load(tmp_path / "m")
    words = {"l1": 0.5, "l2": 2.0, "min_count": 2, "cells": "all", "max_iter": 3, "random_state": 7}
    assert words.items() <= model.get_params().items()
    assert model.scheme_ == "bioes"
    assert model.training_["iterations"] == 3


def test_threads_do_not_change_the_file(run, data: Path, tmp_path: Path) -> None:
    for n in (1, 2):
        run(
            "train", data / "train.txt", "-o", tmp_path / f"m{n}", "--iterations", 5, "--threads", n
        )
    one, two = (labelwright.load(tmp_path / f"m{n}") for n in (1, 2))
    assert np.array_equal(one.weights_, two.weights_)
    assert one.get_params() == two.get_params()


def test_recipe(run, data: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'columns = ["word", "pos", "chunk"]\nlabel = "chunk"\nmax_iter = 4\nl2 = 3\n'
        'template = """\nU:%x[0,0]\nU:%x[0,1]\nB\n"""\n'
    )
    code, _, err = run(
        "train", data / "train.txt", "-o", tmp_path / "m", "--recipe", recipe, "--l2", 0.5
    )
    assert code == 0, err
    model = labelwright.load(tmp_path / "m")
    assert (model.l2, model.max_iter) == (0.5, 4)
    assert len(model._extractor.vocabulary.template.patterns) == 3
    assert model._extractor.names == ("word", "pos")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x" * 1000 + " = 1", [f"recipe.toml: unknown key '{'x' * 37}...'"]),
        (
            f"model = 0x{'f' * 5000}",
            ["recipe.toml: model: expected one of crf,", "got a value of type int"],
        ),
        (
            f"l2 = 0x{'f' * 5000}",
            ["recipe.toml: l2: expected a number of 0 or more, got a value of type int"],
        ),
        (
            f"l1 = 1\nl2{'.a' * 20_000} = 1",
            ["recipe.toml: line 2: a key of more than 20 parts; shorten it"],
        ),
        ("[l2" + ' . "a"' * 20 + "]", ["recipe.toml: line 1: a key of more than 20 parts"]),
        (f"l2 = {{a{'.b' * 20} = 1}}", ["recipe.toml: line 1: a key of more than 20 parts"]),
        (
            f"l2 = {'[' * 50}{']' * 50}",
            ["recipe.toml: l2: more than 20 levels of tables and lists"],
        ),
        (f"l2 = {'[' * 50_000}", ["recipe.toml: not TOML"]),
        (f"[l2{'.a' * 15}]\nb{'.c' * 15} = 1", ["recipe.toml: l2: more than 20 levels"]),
        (
            f"l2 = 1 # {'-' * (1 << 20)}",
            ["recipe.toml: a recipe of more than 1 MB; move tables to files of their own"],
        ),
    ],
)
def test_bad_recipes(run, data: Path, tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    refused(
        run(
            "train", data / "train.txt", "-o", tmp_path / "m", "--recipe", tmp_path / "recipe.toml"
        ),
        *parts,
    )
    assert not (tmp_path / "m").exists()


def test_dots_in_strings_comments_and_numbers_of_recipes_are_no_parts_of_keys(
    tmp_path: Path,
) -> None:
    dots = ".".join("a" * 50)
    text = "\n".join(
        [
            f"# {dots} it's",
            f'one = "{dots}" # {dots}',
            f"two = '{dots}'",
            f'three = """\n{dots} \\""" {dots}""""" # " {dots}',
            f"four = '''{dots}' {dots}'''",
            f'five = ["", "\\"{dots}", 1.5, ]',
            f'"{dots}".b.c = 1.25',
        ]
    )
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    assert read_recipe(str(path)) == tomllib.loads(text)
    path.write_text(f'{text}\n"{dots}".{dots} = 1')
    with pytest.raises(OptionError, match=r"recipe.toml: line 9: a key of more than 20 parts"):
        read_recipe(str(path))


def test_start_from_another_model(run, data: Path, tmp_path: Path) -> None:
    arguments = ["train", data / "train.txt", "-o", tmp_path / "m", "--columns", "word,pos,chunk"]
    code, _, err = run(*arguments, "--start-from", data / "crf", "--iterations", 30)
    assert code == 0, err
    old, new = labelwright.load(data / "crf"), labelwright.load(tmp_path / "m")
    assert new.history_[0]["loss"] == pytest.approx(old.training_["loss"], rel=1e-4)
    assert new.warm_start is False


def test_start_from_keeps_the_settings(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.tpl").write_text("U:%x[0,0]\nU:%x[0,1]\n")
    train = ["train", data / "train.txt", "-q", "--iterations", 5]
    settings = ["--template", "own.tpl", "--l2", 0.3, "--constraints", "scheme", "--min-count", 2]
    assert run(*train, "-o", "m", *settings) == (0, "", "")
    Path("own.tpl").unlink()
    # in its own place, too
    assert run(*train, "-o", "m", "--start-from", "m", "--min-count", 1) == (0, "", "")
    model = labelwright.load("m")
    assert (model.l2, model.constraints, model.min_count, model.warm_start) == (
        0.3,
        "scheme",
        1,
        False,
    )
    assert model.template.text == "U:%x[0,0]\nU:%x[0,1]\n"


def test_resume_without_a_checkpoint_says_so(run, data: Path, tmp_path: Path) -> None:
    code, _, err = run(
        "train", data / "train.txt", "-o", tmp_path / "m", "--iterations", 3, "--resume"
    )
    assert code == 0
    assert "nothing to resume: starting anew" in err.splitlines()[0]


@pytest.fixture(scope="session")
def undisturbed(data: Path) -> np.ndarray:
    """The weights of the long run."""
    assert (
        main(["train", str(data / "train.txt"), "-o", str(data / "undisturbed"), "-q", *LONG_RUN])
        == 0
    )
    weights: np.ndarray = labelwright.load(data / "undisturbed").weights_
    return weights


def start_and_disturb(data: Path, target: Path, sent: signal.Signals) -> tuple[int, str]:
    """Start the long run, and send it a signal after its first checkpoint."""
    checkpoint = target.with_name(f"{target.name}.checkpoint")
    child = process("train", data / "train.txt", "-o", target, *LONG_RUN)
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(sent)
    _, err = child.communicate(timeout=60)
    assert checkpoint.exists(), "the run ended before it could be disturbed"
    return child.returncode, err.decode()


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(
    run, data: Path, tmp_path: Path, undisturbed: np.ndarray
) -> None:
    target = tmp_path / "m"
    code, _ = start_and_disturb(data, target, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not target.exists()
    assert run("train", data / "train.txt", "-o", target, *LONG_RUN, "--resume", "-q") == (
        0,
        "",
        "",
    )
    assert np.array_equal(labelwright.load(target).weights_, undisturbed)
    assert not (tmp_path / "m.checkpoint").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_a_usable_model(
    run, data: Path, tmp_path: Path, undisturbed: np.ndarray
) -> None:
    target = tmp_path / "m"
    code, err = start_and_disturb(data, target, signal.SIGINT)
    assert code == 130
    one_line(
        err,
        "interrupted after",
        "holds the model so far",
        "go on with: labelwright train",
        "--resume",
    )
    model = labelwright.load(target)
    assert 0 < model.training_["iterations"] < 150
    assert run("tag", target, data / "words.txt")[0] == 0
    assert run("train", data / "train.txt", "-o", target, *LONG_RUN, "--resume", "-q") == (
        0,
        "",
        "",
    )
    assert np.array_equal(labelwright.load(target).weights_, undisturbed)


def test_ctrl_c_before_the_first_iteration_writes_nothing(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").write_bytes(b"precious")
    monkeypatch.setattr("labelwright.learn.monitor.Monitor.__enter__", interrupted_at_once)
    code, _, err = run("train", data / "train.txt", "-o", tmp_path / "m", "--iterations", 3)
    assert code == 130
    one_line(err, "interrupted before the first iteration")
    assert (tmp_path / "m").read_bytes() == b"precious"


@pytest.mark.slow
def test_resume_with_other_settings_is_refused(run, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "m"
    start_and_disturb(data, target, signal.SIGKILL)
    refused(
        run("train", data / "train.txt", "-o", target, *LONG_RUN, "--l2", 9, "--resume"),
        "m.checkpoint: made with other data or other settings",
    )
