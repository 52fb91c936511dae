"""Perceptrons on the command line: training, tagging by score, confidences, a look inside, and what
is refused."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SENTENCE, one_line, refused

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, write_columns
from labelwright.inspection import use as inspection
from labelwright.learn.monitor import Monitor
from labelwright.structures.lattice import best_path
from labelwright.taggers import registry

KINDS = ["perceptron", "latent-perceptron"]
EXTRA = {"perceptron": [], "latent-perceptron": ["--latent", 2]}
FAST = ["--template", "words", "--threads", 1, "--seed", 1]
COLUMNS = ["--columns", "word,pos,chunk"]


def fast(kind: str) -> list[object]:
    return ["--model", kind, *EXTRA[kind], *FAST, *COLUMNS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files (word, pos, chunk), each kind of perceptron plain and, as NAME.sure, with --dev,
    and a CRF."""
    folder = tmp_path_factory.mktemp("perceptron")
    corpus = builtin_corpus(200, random_state=5, columns=["word", "pos", "chunk"])
    for name, part in {
        "train": slice(0, 120),
        "dev": slice(120, 160),
        "test": slice(160, 200),
    }.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    runs = [["-o", folder / "crf", *FAST, *COLUMNS, "--iterations", 3]]
    for kind in KINDS:
        runs.append(["-o", folder / kind, *fast(kind)])
        runs.append(["-o", folder / f"{kind}.sure", *fast(kind), "--dev", folder / "dev.txt"])
    for options in runs:
        assert main([str(word) for word in ("train", folder / "train.txt", *options, "-q")]) == 0
    return folder


def answers(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


# -- training --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_options_reach_the_model(run, folder: Path, tmp_path: Path, kind: str) -> None:
    options = {
        "--averaging": "mavg",
        "--reset-every": 3,
        "--update": "passive-aggressive",
        "--margin": 2.5,
    }
    options |= {
        "--aggressiveness": 0.5,
        "--order": 2,
        "--iterations": 2,
        "--min-count": 2,
        "--constraints": "scheme",
    }
    options |= {"--cost": "labels", "--slack": "quadratic", "--epsilon": 0.001}
    flat = [word for pair in options.items() for word in pair]
    code, out, err = run(
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        *fast(kind),
        *flat,
        "--no-shuffle",
        "-q",
    )
    assert (code, out, err) == (0, "", "")
    model = labelwright.load(tmp_path / "m")
    words = {
        "averaging": "mavg",
        "reset_every": 3,
        "update": "passive-aggressive",
        "margin": 2.5,
        "shuffle": False,
    }
    words |= {
        "aggressiveness": 0.5,
        "order": 2,
        "max_iter": 2,
        "min_count": 2,
        "constraints": "scheme",
    }
    words |= {"cost": "labels", "slack": "quadratic", "epsilon": 0.001}
    assert words.items() <= model.get_params().items()
    assert type(model) is registry.model_class(kind)
    direct = type(model)(**model.get_params()).set_params(n_jobs=1)
    direct.fit(read_columns(folder / "train.txt", names="word,pos,chunk"))
    X = read_columns(folder / "test.txt", names="word,pos,chunk").X
    assert model.predict(X) == direct.predict(X)


@pytest.mark.parametrize("kind", KINDS)
def test_lines_and_the_summary_count_mistakes(run, folder: Path, tmp_path: Path, kind: str) -> None:
    options = [*fast(kind), "--dev", folder / "dev.txt", "--iterations", 3, "--verbose"]
    code, out, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert (code, out) == (0, "")
    *lines, last = err.splitlines()
    model = labelwright.load(tmp_path / "m")
    assert len(lines) == 3
    for line, record in zip(lines, model.history_, strict=True):
        found = re.fullmatch(
            r" +(\d+)  mistakes +([\d,]+)  separable +([\d.]+) %  +[\d.]+ s  dev ([\d.]+)", line
        )
        assert [int(word) for word in found.groups()[:2]] == [
            record["iteration"],
            record["mistakes"],
        ]
        assert float(found[3]) == pytest.approx(100 * (1 - record["mistakes"] / 120), abs=0.01)
    assert f"120 sentences, 3 passes, {model.training_['mistakes']:,} mistakes, " in last
    times = r"[\d.]+ s of calibration, [\d.]+ s"
    assert re.search(
        rf", (100|[\d.]+) % separable, {times}, best F1 on the development data [\d.]+ ", last
    )
    assert last.endswith("(reached the limit of passes)")
    assert "iteration" not in err
    assert "loss" not in last


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_resumes_to_the_same_model(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    options = [
        *fast(kind),
        "--dev",
        folder / "dev.txt",
        "--averaging",
        "mavg",
        "--reset-every",
        2,
        "--iterations",
        6,
    ]
    options += [
        "--checkpoint-every",
        0,
        "-q",
        *(["--start", "random"] if kind == "latent-perceptron" else []),
    ]
    assert run("train", folder / "train.txt", "-o", tmp_path / "whole", *options)[0] == 0
    report = Monitor.report

    def interrupted(monitor: Monitor, **facts: Any) -> None:
        monitor.interrupted = len(monitor.history) == 2
        report(monitor, **facts)

    with monkeypatch.context() as patch:
        patch.setattr("labelwright.learn.monitor.Monitor.report", interrupted)
        code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert code == 130
    one_line(err, "interrupted after 3 passes", "holds the model so far", "--resume")
    code, out, _ = run("inspect", tmp_path / "m", "--top", 1)
    assert (code, "3 passes" in out, "interrupted" in out) == (0, True, True)
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options, "--resume") == (
        0,
        "",
        "",
    )
    assert sorted(os.listdir(tmp_path)) == ["m", "whole"]
    whole, resumed = (labelwright.load(tmp_path / name) for name in ("whole", "m"))
    assert np.array_equal(whole.weights_, resumed.weights_)
    assert [r["mistakes"] for r in whole.history_] == [r["mistakes"] for r in resumed.history_]
    for name in ("mistakes", "convergence"):
        assert whole.training_[name] == resumed.training_[name]
    calibrated = [model.training_["calibration"] | {"seconds": None} for model in (whole, resumed)]
    assert calibrated[0] == calibrated[1]


def test_a_signal_in_the_training_of_the_first_model_leaves_a_model(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*fast("latent-perceptron"), "--checkpoint-every", 0, "-q"]
    report = Monitor.report

    def interrupted(monitor: Monitor, **facts: Any) -> None:
        monitor.interrupted = True
        report(monitor, **facts)

    with monkeypatch.context() as patch:
        patch.setattr("labelwright.learn.monitor.Monitor.report", interrupted)
        code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert code == 130
    one_line(err, "interrupted after 1 pass", "holds the model so far", "--resume")
    assert sorted(os.listdir(tmp_path)) == ["m", "m.checkpoint.first1"]
    code, out, _ = run("inspect", tmp_path / "m", "--top", 1)
    assert (code, "1 pass" in out, "interrupted" in out) == (0, True, True)
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options, "--resume") == (
        0,
        "",
        "",
    )
    assert os.listdir(tmp_path) == ["m"]


def test_start_from(run, folder: Path, tmp_path: Path) -> None:
    arguments = [
        "train",
        folder / "train.txt",
        "--start-from",
        folder / "perceptron",
        "--iterations",
        1,
        "-q",
    ]
    assert run(*arguments, "-o", tmp_path / "again") == (0, "", "")
    old, again = labelwright.load(folder / "perceptron"), labelwright.load(tmp_path / "again")
    assert (type(again), again.template, again.averaging) == (
        labelwright.Perceptron,
        "words",
        "avg",
    )
    assert again.history_[0]["mistakes"] < old.history_[0]["mistakes"] / 4
    split = ["--model", "latent-perceptron", "--latent", 2, "--margin", 0]
    assert run(*arguments, "-o", tmp_path / "l", *split) == (0, "", "")
    latent = labelwright.load(tmp_path / "l")
    assert (type(latent), latent.n_latent, latent.template) == (
        labelwright.LatentPerceptron,
        2,
        "words",
    )
    assert latent.averaging == "mavg"  # the one was left at its default, so the other has its own
    assert latent.history_[0]["mistakes"] < old.history_[0]["mistakes"] / 4


@pytest.mark.slow
@pytest.mark.parametrize("start", ["split", "likelihood", "random", "auto"])
def test_the_start_of_latent_states(run, folder: Path, tmp_path: Path, start: str) -> None:
    options = ["train", folder / "train.txt", *fast("latent-perceptron"), "--iterations", 2, "-q"]
    assert run(*options, "-o", tmp_path / "m", "--start", start) == (0, "", "")
    (tmp_path / "r.toml").write_text(f'start = "{start}"\n')
    assert run(*options, "-o", tmp_path / "r", "--recipe", tmp_path / "r.toml") == (0, "", "")
    one, two = (labelwright.load(tmp_path / name) for name in "mr")
    assert one.start == two.start == start
    assert np.array_equal(one.weights_, two.weights_)
    assert one.training_.get("start") == two.training_.get("start")
    assert ("start" in one.training_) is (start != "random")
    assert start in ("auto", "random") or one.training_["start"]["of"] == start


# -- tagging ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_tag_and_eval(run, folder: Path, kind: str) -> None:
    gold = read_columns(folder / "test.txt", names="word,pos,chunk")
    model = labelwright.load(folder / kind).set_params(n_jobs=1)
    code, out, err = run("tag", folder / kind, folder / "test.txt", "--threads", 1)
    assert (code, err) == (0, "")
    best = model.predict(gold.X)
    assert [line.split()[-1] for line in out.splitlines() if line] == [
        label for row in best for label in row
    ]
    assert run("tag", folder / kind, folder / "test.txt", "--decoder", "viterbi")[1] == out
    assert run("tag", folder / kind, "-", stdin=(folder / "test.txt").read_bytes())[:2] == (0, out)
    code, _, err = run("tag", folder / kind, folder / "test.txt", "--verbose")
    assert (code, err.startswith("40 sentences, 40 proven exact (100 %), largest gap 0, ")) == (
        0,
        True,
    )
    code, out, err = run("eval", folder / kind, folder / "test.txt", "--json", "--verbose")
    assert (code, err.count("\n")) == (0, 1)
    report = json.loads(out)
    assert report["f1"] > 0.6
    assert report["decoding"]["decoder"] == "viterbi"
    assert report["decoding"]["exact"] == report["decoding"]["sentences"] == 40
    assert report["f1"] == pytest.approx(model.score(gold))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sure", [False, True])
def test_json(run, folder: Path, kind: str, sure: bool) -> None:
    path = folder / (f"{kind}.sure" if sure else kind)
    model = labelwright.load(path).set_params(n_jobs=1)
    X = read_columns(folder / "test.txt", names="word,pos,chunk").X
    code, out, err = run("tag", path, folder / "test.txt", "--json", "--nbest", 2, "--threads", 1)
    assert (code, err) == (0, "")
    decodings, nbest = model.decode(X), model.predict_nbest(X, 2)
    spans = model.span_confidences(X, model.predict_spans(X)) if sure else model.predict_spans(X)
    keys = {
        "tokens",
        "labels",
        "score",
        "exact",
        "gap",
        "spans",
        "nbest",
        *(["confidence"] if sure else []),
    }
    for n, found in enumerate(answers(out)):
        assert set(found) == keys
        assert found["labels"] == decodings[n].labels
        assert found["score"] == pytest.approx(decodings[n].score, abs=1e-5)
        assert [row["labels"] for row in found["nbest"]] == [labels for labels, _ in nbest[n]]
        assert [row["score"] for row in found["nbest"]] == pytest.approx(
            [score for _, score in nbest[n]], abs=1e-5
        )
        assert found["nbest"][0]["score"] == found["score"]
        assert [(s["start"], s["end"], s["type"]) for s in found["spans"]] == [
            s[:3] for s in spans[n]
        ]
        assert all(("confidence" in s) is sure and "probability" not in s for s in found["spans"])
        if sure:
            assert found["confidence"] == pytest.approx(decodings[n].confidence, abs=1e-5)
            confidences = [s["confidence"] for s in found["spans"]]
            assert confidences == pytest.approx([s.probability for s in spans[n]], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_confidences_of_a_calibrated_model(run, folder: Path, kind: str) -> None:
    path = folder / f"{kind}.sure"
    model = labelwright.load(path).set_params(n_jobs=1)
    (row,) = model.predict_confidences(
        [[("He", "PRP"), ("saw", "VBD"), ("her", "PRP$"), ("brother", "NN")]]
    )
    code, out, err = run("tag", path, "-", "--probabilities", stdin=SENTENCE)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line]
    assert [line[-1] for line in lines] == [
        f"{token[line[-2]]:.4f}" for token, line in zip(row, lines, strict=True)
    ]
    _, out, _ = run("tag", path, "--probabilities", "--json", stdin=SENTENCE)
    (found,) = answers(out)
    assert "probabilities" not in found
    assert found["confidences"] == pytest.approx([float(line[-1]) for line in lines], abs=1e-4)
    _, out, _ = run("tag", path, "--probabilities", "--nbest", 2, stdin=SENTENCE)
    assert [line.split() for line in out.splitlines()[1:5]] == lines
    for how in (["--json"], ["--nbest", 2], []):
        refused(
            run("tag", folder / kind, "--probabilities", *how, stdin=SENTENCE),
            "--probabilities: a ",
            "has scores, not probabilities; train it with --dev FILE",
        )


# -- a look inside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_shows_the_diagnostics(run, folder: Path, kind: str) -> None:
    model = labelwright.load(folder / f"{kind}.sure")
    code, out, err = run("inspect", folder / f"{kind}.sure", "--top", 2)
    assert (code, err) == (0, "")
    made = [record["mistakes"] for record in model.history_]
    passes = re.search(r"\n  mistakes +([\d,]+); by pass ([\d .,]+)\n", out)
    assert int(passes[1].replace(",", "")) == sum(made) == model.training_["mistakes"]
    shown = passes[2].split()
    assert (int(shown[0]), int(shown[-1])) == (made[0], made[-1])
    assert re.search(r"\n  separable +(100|[\d.]+) % of the training sentences", out)
    one_paragraph = " ".join(out.split())
    assert ("strictly (by every path of their labels)" in one_paragraph) is (
        kind == "latent-perceptron"
    )
    temperature = model.training_["calibration"]["temperature"]
    assert f"temperature {temperature:.4g}, on 40 sentences" in out
    assert "best pass" in out
    assert "  loss " not in out
    assert "not calibrated; train with --dev FILE" in run("inspect", folder / kind)[1]
    facts = json.loads(run("inspect", folder / f"{kind}.sure", "--json")[1])
    assert facts["training"]["convergence"] == model.training_["convergence"]
    assert facts["training"]["calibration"]["temperature"] == temperature
    assert [record["mistakes"] for record in facts["history"]] == made


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (
            ["--averaging", "none"],
            r"[\d,]+ mistakes at most, by theorem [23] of Sun et al. \(2009\)",
        ),
        (
            ["--averaging", "mavg"],
            "none: the theorems are about one sequence of updates, and with mavg passes begin",
        ),
        (
            ["--margin", 1],
            "none: the theorems are about mistakes alone, and with a margin right answers lead to",
        ),
        (
            ["--update", "arow"],
            "none: the theorems are about whole steps, which arow updates are not",
        ),
        (
            ["--update", "passive-aggressive"],
            "none: the theorems are about whole steps, which passive-aggressive",
        ),
    ],
)
def test_the_bound_or_why_there_is_none(
    run, folder: Path, tmp_path: Path, options: list[object], part: str
) -> None:
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        *fast("perceptron"),
        *options,
        "-q",
    ]
    assert run(*arguments) == (0, "", "")
    assert re.search(f" bound {part}", " ".join(run("inspect", tmp_path / "m")[1].split()))


def test_many_passes_are_cut_short(run, folder: Path, tmp_path: Path) -> None:
    model = labelwright.load(folder / "perceptron")
    model.history_ = [
        {**model.history_[0], "iteration": k, "mistakes": 100 - k} for k in range(1, 51)
    ]
    model.save(tmp_path / "m")
    out = run("inspect", tmp_path / "m")[1]
    assert "by pass 99 98 97 96 95 94 93 92 ... 57 56 55 54 53 52 51 50\n" in out


def test_inspect_a_model_of_partial_fit(run, folder: Path, tmp_path: Path) -> None:
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk")
    model = labelwright.LatentPerceptron(n_latent=2, template="words", n_jobs=1).partial_fit(corpus)
    model.partial_fit(corpus).save(tmp_path / "m")
    code, out, err = run("inspect", tmp_path / "m", "--data", folder / "test.txt")
    assert (code, err) == (0, "")
    assert "2 passes of partial_fit" in out
    assert run("tag", tmp_path / "m", folder / "test.txt", "--json")[0] == 0


def test_states_are_counted_on_best_paths(run, folder: Path) -> None:
    code, out, _ = run(
        "inspect", folder / "latent-perceptron", "--data", folder / "test.txt", "--top", 3
    )
    assert code == 0
    assert "latent states of each label (by their use on the data, counted on best paths)" in out
    facts = json.loads(
        run("inspect", folder / "latent-perceptron", "--data", folder / "test.txt", "--json")[1]
    )
    model = labelwright.load(folder / "latent-perceptron").set_params(n_jobs=1)
    X = read_columns(folder / "test.txt", names="word,pos,chunk").X
    lattices = [sentence.lattice for sentence in model.scored(X)]
    paths = [lattice.graph.state[best_path(lattice)[0]].tolist() for lattice in lattices]
    states = [state for path in paths for state in path]
    names = facts["states"]
    for view in facts["latent"]:
        of_label = sum(names[s].startswith(f"{view['label']}#") for s in states)
        share = sum(names[s] == view["state"] for s in states) / of_label if of_label else 0.0
        assert view["share"] == pytest.approx(share)
        assert bool(view["before"]) is bool(view["after"]) is (share > 0)
    assert "by their weights alone" in run("inspect", folder / "latent-perceptron")[1]


@pytest.mark.parametrize("order", [1, 2])
def test_counts_of_best_paths(order: int) -> None:
    X, y = [["a", "b", "a"], ["b", "b"], ["a"]], [["A", "B", "A"], ["B", "A"], ["A"]]
    model = labelwright.LatentPerceptron(
        n_latent={"A": 2, "B": 1}, template="words", order=order, n_jobs=1
    ).fit(X, y)
    corpus = labelwright.corpus.Corpus.from_sequences(X)
    use = inspection.expected_use(model, [corpus])
    assert use.states.sum() == 6
    assert use.after.table().sum() == 9
    assert use.after.table()[-1].sum() == use.after.table()[:, -1].sum() == 3
    assert use.after.table()[:, :-1].sum(axis=0).tolist() == use.states.tolist()
    assert use.words_of(0, 3).tolist() == [3, 3]
    with pytest.raises(
        labelwright.LabelwrightError, match="has scores, not probabilities: its paths have none"
    ):
        inspection.path_mass(model, X)
