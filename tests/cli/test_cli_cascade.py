"""Cascades trained on the command line: recipes, progress, what is drawn, and what is refused."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from cascades import LAYER, RECIPE
from command import Terminal, interrupted_at_once, one_line, refused

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, write_columns


def test_a_recipe_becomes_a_cascade(folder: Path) -> None:
    model = labelwright.load(folder / "two")
    assert isinstance(model, labelwright.Cascade)
    assert list(model.layers_) == ["pos", "chunk"]
    assert model.inputs_ == ("word",)
    assert model.training_["columns"] == ["word", "pos", "chunk"]
    assert model.training_["joint"]["iterations"] == 6
    assert {when: set(scores) for when, scores in model.training_["dev"].items()} == {
        "before": {"pos", "chunk"},
        "after": {"pos", "chunk"},
    }
    for part in (model, *model.layers_.values()):  # what belongs to the run stays out of the file
        assert (part.n_jobs, part.verbose) == (None, 0)
    assert [type(layer) for layer in model.layers_.values()] == [labelwright.CRF] * 2


def test_the_summary_is_one_line(run, folder: Path, tmp_path: Path) -> None:
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        "--recipe",
        folder / "two.toml",
    ]
    code, out, err = run(*arguments, "--iterations", 2, "--dev", folder / "dev.txt", "--seed", 7)
    warning, _ = err.splitlines()
    assert (code, out) == (0, "")
    assert "dev.txt: column chunk: labels that the training data lack" in warning
    assert re.search(
        r"m: [\d,]+ weights, [\d,]+ features, 2 layers \(pos \d+ labels, chunk \d+ labels\).*; 35 "
        r"sentences, "
        r"2 iterations together, [\d.]+ s, on the development data pos accuracy [\d.]+ -> [\d.]+, "
        r"chunk F1 [\d.]+ -> [\d.]+ "
        r"\(reached the limit of iterations\)\n$",
        err,
    )
    model = labelwright.load(tmp_path / "m")
    assert (model.max_iter, model.random_state) == (2, 7)
    weights = sum(len(layer.weights_) for layer in model.layers_.values())
    assert f"{weights:,} weights" in err


def test_options_win_over_the_recipe(trained) -> None:
    model = trained(
        f"jackknife = true\ncut = 0.01\n{RECIPE}[shares]\npos = 0.5\n",
        "--passing",
        "marginal",
        "--no-jackknife",
    )
    assert (model.passing, model.jackknife, model.cut, model.shares) == (
        "marginal",
        False,
        0.01,
        {"pos": 0.5},
    )
    assert "joint" not in model.training_


def test_layers_of_other_kinds(run, trained, folder: Path, tmp_path: Path) -> None:
    layers = [
        'name = "pos"\nmodel = "perceptron"\nmargin = "auto"',
        # many paths of nearly the same probability
        'name = "chunk"\nmodel = "latent-crf"\nn_latent = 4\nl2 = 10.0',
    ]
    tables = "".join(f"[[layers]]\n{layer}\n{LAYER}" for layer in layers)
    model = trained(
        f'model = "cascade"\npassing = "best"\nlexicon = "pos"\n{tables}',
        "--columns",
        "word,pos,chunk",
    )
    assert [type(layer).__name__ for layer in model.layers_.values()] == ["Perceptron", "LatentCRF"]
    code, out, _ = run("inspect", tmp_path / "m")
    assert code == 0
    assert re.search(r"passes, [\d.]+ % separable|passes, 100 % separable", out)
    assert re.search(r"lexicon +\d+ words with labels of pos", out)
    assert "latent states of each label" in run("inspect", tmp_path / "m", "--layer", "chunk")[1]
    found = json.loads(
        run("tag", tmp_path / "m", folder / "words.txt", "--json")[1].splitlines()[0]
    )["layers"]
    assert ("score" in found["pos"], "probability" in found["chunk"]) == (True, True)
    refused(
        run("tag", tmp_path / "m", folder / "words.txt", "--probabilities"),
        "--probabilities: layer pos: a Perceptron has scores, not probabilities",
    )
    refused(
        run("tag", tmp_path / "m", folder / "words.txt", "--decoder", "ldi"),
        (
            "--decoder: layer pos: got 'ldi', but a Perceptron has scores, not probabilities; use "
            "'viterbi'"
        ),
    )
    code, out, _ = run(
        "tag", tmp_path / "m", folder / "words.txt", "--json", "--max-expansions", 0, "--verbose"
    )
    assert code == 0  # taken by the one layer whose own decoder knows it
    assert not all(json.loads(line)["layers"]["chunk"]["exact"] for line in out.splitlines())


def test_labels_of_a_layer_in_another_scheme(trained) -> None:
    model = trained(RECIPE + 'scheme = "bioes"\n', "--passing", "best")
    assert "S-NP" in model.layers_["chunk"].classes_
    assert model.layers_["chunk"].scheme_ == "bioes"


def test_three_layers_and_the_order_of_columns(run, trained, folder: Path, tmp_path: Path) -> None:
    rows_of = builtin_corpus(20, random_state=1, columns=["pos", "word", "chunk", "entity"])
    write_columns(rows_of, tmp_path / "t.txt")
    layers = "".join(f'[[layers]]\nname = "{name}"\n{LAYER}' for name in ("pos", "chunk", "entity"))
    (tmp_path / "r.toml").write_text(
        f'model = "cascade"\npassing = "best"\ncolumns = "pos,word,chunk,entity"\n{layers}'
    )
    place = ["-o", tmp_path / "m", "--recipe", tmp_path / "r.toml", "--threads", 1, "-q"]
    assert run("train", tmp_path / "t.txt", *place) == (0, "", "")
    _, out, _ = run("tag", tmp_path / "m", tmp_path / "t.txt")
    found = labelwright.load(tmp_path / "m").predict(rows_of.select(["word"]))
    tagged = read_columns(io.BytesIO(out.encode()), names="pos,word,chunk,entity,p,c,e")
    assert [tagged.column(name) for name in "pce"] == [
        found[name] for name in ("pos", "chunk", "entity")
    ]


@pytest.mark.slow
def test_a_bar_for_each_layer_and_one_for_all(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    place = [
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        "--recipe",
        folder / "two.toml",
        "--iterations",
        2,
    ]
    assert main([str(a) for a in place]) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())  # type: ignore[attr-defined]
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    last = list(dict.fromkeys(line.split("━")[0].strip() for line in lines[:-1]))
    assert last == ["pos", "chunk", "all layers"]
    assert lines[-1].startswith(str(tmp_path / "m"))


@pytest.mark.slow
def test_verbose_names_the_parts_of_the_jackknife(run, folder: Path, tmp_path: Path) -> None:
    place = [
        "-o",
        tmp_path / "m",
        "--recipe",
        folder / "two.toml",
        "--jackknife",
        "--iterations",
        1,
        "--verbose",
    ]
    code, _, err = run("train", folder / "train.txt", *place)
    assert code == 0
    titles = [line for line in err.splitlines()[:-1] if not line.startswith("  ")]
    assert titles == ["pos", *(f"pos without part {k}" for k in range(1, 6)), "chunk", "all layers"]


def test_ctrl_c_leaves_a_usable_cascade(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("labelwright.learn.monitor.Monitor.__enter__", interrupted_at_once)
        code, _, err = run(
            "train", folder / "train.txt", "-o", tmp_path / "m", "--recipe", folder / "two.toml"
        )
    assert code == 130
    one_line(err, "interrupted", "holds the model so far")
    assert run("tag", tmp_path / "m", folder / "words.txt")[0] == 0


# -- the picture -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_plot(run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = ["-o", tmp_path / "m", "--recipe", folder / "two.toml", "--dev", folder / "dev.txt"]
    code, out, err = run("train", folder / "train.txt", *place, "--plot", tmp_path / "changes.png")
    assert (code, out) == (0, "")
    assert (tmp_path / "changes.png").read_bytes().startswith(b"\x89PNG")
    _, *lines = err.splitlines()
    number, right, wrong, neither = map(
        int,
        re.fullmatch(  # type: ignore[union-attr]
            r".*dev.txt: joint training changed (\d+) labels? of pos; near them, labels of chunk "
            r"became right at "
            r"(\d+), wrong at (\d+), neither at (\d+)",
            lines[1],
        ).groups(),
    )
    assert number == right + wrong + neither > 0
    assert len(lines) <= 3 + 5
    assert lines[-1] == f"{tmp_path / 'changes.png'}: drawn"
    change = re.compile(
        r"  \S+ -> \S+ +\d+: \d+ right, \d+ wrong, \d+ neither \(\d+ corrected in pos, \d+ broken\)"
    )
    assert all(change.fullmatch(line) for line in lines[2:-1])


@pytest.mark.slow
def test_a_plot_without_changes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from labelwright.cli.plots import draw_changes

    scores = {"pos": 0.5, "chunk": 0.25, "entity": 1.0}
    draw_changes(
        scores, scores, {("pos", "chunk"): [], ("chunk", "entity"): []}, str(tmp_path / "m.svg")
    )
    assert "<svg" in (tmp_path / "m.svg").read_text()


def test_a_missing_matplotlib_is_one_line(
    trained, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labelwright.cli.plots.find_spec", lambda name: None)
    err = trained(RECIPE, "--plot", "m.png", "--dev", folder / "dev.txt", code=2)
    one_line(err, "--plot: needs matplotlib; install it with: pip install 'labelwright[plots]'")
