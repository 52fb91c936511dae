"""Memory-based models on the command line: training, search, tagging by inference, a look inside,
what is refused."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from command import SENTENCE, one_line

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, write_columns
from labelwright.evaluate import evaluate
from labelwright.taggers.memory import MemoryBased

COLUMNS = ["--columns", "word,pos,chunk"]
FAST = ["--model", "memory", *COLUMNS, "--threads", 1, "--seed", 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files (word, pos, chunk), a plain memory, one of distributions, a tree, and a CRF."""
    folder = tmp_path_factory.mktemp("memory")
    corpus = builtin_corpus(120, random_state=5, columns=["word", "pos", "chunk"])
    for name, part in {
        "train": slice(0, 80),
        "dev": slice(80, 100),
        "test": slice(100, 120),
    }.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    runs: list[list[Any]] = [
        ["-o", folder / "near", *FAST],
        ["-o", folder / "mvdm", *FAST, "--k", 3, "--metric", "mvdm", "--votes", "inverse-distance"],
        ["-o", folder / "tree", *FAST, "--algorithm", "igtree", "--inference", "vote"],
        ["-o", folder / "crf", *COLUMNS, "--template", "words", "--iterations", 3],
    ]
    for options in runs:
        assert main([str(word) for word in ("train", folder / "train.txt", *options, "-q")]) == 0
    return folder


def gold(folder: Path) -> Any:
    return read_columns(folder / "test.txt", names="word,pos,chunk")


def answers(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


# -- training --------------------------------------------------------------------------------------


def test_options_reach_the_model(run, folder: Path, tmp_path: Path) -> None:
    options = {
        "--k": 5,
        "--metric": "mvdm",
        "--mvdm-threshold": 2,
        "--weights": "chi-squared",
        "--ngram": 1,
    }
    options |= {
        "--votes": "exponential-decay",
        "--decay": "0.5,2",
        "--inference": "none",
        "--weighting": "log",
    }
    flat = [word for pair in options.items() for word in pair]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *FAST, *flat, "-q") == (
        0,
        "",
        "",
    )
    model = labelwright.load(tmp_path / "m")
    words = {
        "k": 5,
        "metric": "mvdm",
        "mvdm_threshold": 2,
        "weights": "chi-squared",
        "votes": "exponential-decay",
    }
    words |= {
        "decay": (0.5, 2.0),
        "ngram": 1,
        "inference": "none",
        "weighting": "log",
        "template": "window",
    }
    assert words.items() <= model.get_params().items()
    assert (model.n_jobs, model.verbose) == (None, 0)
    direct = labelwright.MemoryTagger(**words, n_jobs=1).fit(
        read_columns(folder / "train.txt", names="word,pos,chunk")
    )
    assert model.predict(gold(folder).X) == direct.predict(gold(folder).X)
    assert os.listdir(tmp_path) == ["m"]


def test_the_last_line_and_the_record(run, folder: Path, tmp_path: Path) -> None:
    code, out, err = run(
        "train", folder / "train.txt", "-o", tmp_path / "m", *FAST, "--dev", folder / "dev.txt"
    )
    assert (code, out) == (0, "")
    model = labelwright.load(tmp_path / "m")
    dev = read_columns(folder / "dev.txt", names="word,pos,chunk")
    score = evaluate(dev.y, model.predict(dev)).f1
    n = int(model.memory_["instances"])
    assert err.count("\n") == 1
    assert f"m: {n:,} instances, 14 columns, {len(model.grams_)} classes (trigrams), " in err
    assert re.search(
        rf"; 80 sentences, [\d.]+ s, [\d,]+ bytes an instance, F1 {100 * score:.2f} on the dev", err
    )
    record = model.training_
    facts = {"sentences": 80, "tokens": n, "columns": ["word", "pos", "chunk"], "label": "chunk"}
    assert facts.items() <= record.items()
    assert (record["dev"], record["stopped"], record["labelwright"]) == (
        score,
        "done",
        labelwright.__version__,
    )


def test_words_by_column(run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("Uw:%x[0,0]\nUp:%x[0,1]\n")
    options = ["--template", tmp_path / "t", "--metric", "overlap,mvdm", "--weights", "0.5,1"]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *FAST, *options, "-q") == (
        0,
        "",
        "",
    )
    model = labelwright.load(tmp_path / "m")
    assert (model.metric, model.weights) == (["overlap", "mvdm"], [0.5, 1.0])
    assert model.feature_weights_ == {"w": 0.5, "p": 1.0}


def test_a_recipe(run, folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        'model = "memory"\nk = 3\nmetric = "jeffrey"\nmvdm_threshold = 2\n'
        'votes = "exponential-decay"\ndecay = 0.5\n'
        'weights = "none"\nalgorithm = "ib1"\nngram = 3\ninference = "vote"\nweighting = "count"\n'
        "lengths = [1, 3]\n"
        'template = "window"\nn_jobs = 1\nrandom_state = 4\ncolumns = ["word", "pos", "chunk"]\n'
    )
    arguments = ["train", folder / "train.txt", "--recipe", recipe, "-q"]
    assert run(*arguments, "-o", tmp_path / "m") == (0, "", "")
    model = labelwright.load(tmp_path / "m")
    kept = model.k, model.metric, model.decay, model.inference, model.lengths
    assert kept == (3, "jeffrey", (0.5, 1.0), "vote", [1, 3])
    # what is given here wins
    assert run(*arguments, "-o", tmp_path / "m", "--inference", "none") == (0, "", "")
    assert labelwright.load(tmp_path / "m").inference == "none"


# -- search ----------------------------------------------------------------------------------------


def test_search(run, folder: Path, tmp_path: Path) -> None:
    options = [
        *FAST,
        "--search",
        "--weights",
        "none",
        "--votes",
        "inverse-distance",
        "--k",
        2,
        "--ngram",
        1,
    ]
    code, out, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert (code, out) == (0, "")
    head, *rows, how_many, last = err.splitlines()
    assert head.split() == ["k", "metric", "weights", "votes", "mvdm_threshold", "n=80"]
    assert how_many == "5 settings; all data have been used"
    model = labelwright.load(tmp_path / "m")
    assert (model.k, model.weights, model.votes, model.ngram) == (2, "none", "inverse-distance", 1)
    assert [row.split()[0] for row in rows] == ["2"] * 5
    assert rows[0].split()[1] == model.metric
    assert max(len(line) for line in [head, *rows]) <= 80
    assert "(the best of 5 settings; all data have been used)" in last
    search = model.training_["search"]
    assert (search["settings"], search["best"]["metric"]) == (5, model.metric)
    assert f"{100 * search['score']:.2f}" == rows[0].split()[-1]
    assert "the best of 5 settings" in run("inspect", tmp_path / "m")[1]
    _, _, err = run("train", folder / "train.txt", "-o", tmp_path / "v", *options, "--verbose")
    assert sum(" s  k 2, metric " in line for line in err.splitlines()) == 5
    assert run("train", folder / "train.txt", "-o", tmp_path / "q", *options, "-q") == (0, "", "")
    assert labelwright.load(tmp_path / "q").metric == model.metric


def test_a_search_of_trees_and_of_values_it_does_not_know(
    run, folder: Path, tmp_path: Path
) -> None:
    options = [*FAST, "--search", "--algorithm", "igtree", "--ngram", 1]
    code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert (code, "the best of 5 settings" in err) == (0, True)


def test_an_interrupted_search_leaves_the_best_so_far(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labelwright.learn.monitor import Monitor

    monkeypatch.setattr(
        Monitor, "__enter__", lambda monitor: setattr(monitor, "interrupted", True) or monitor
    )
    options = [*FAST, "--search", "--k", 2, "--weights", "none", "--votes", "none", "-q"]
    code, out, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert (code, out) == (130, "")
    one_line(err, "interrupted; ", "m holds the model so far")
    assert run("tag", tmp_path / "m", folder / "test.txt")[0] == 0


# -- tagging ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["near", "mvdm", "tree"])
def test_tag_eval_and_compare(run, folder: Path, tmp_path: Path, name: str) -> None:
    model = labelwright.load(folder / name).set_params(n_jobs=1)
    code, out, err = run("tag", folder / name, folder / "test.txt", "--threads", 1)
    assert (code, err) == (0, "")
    best = model.predict(gold(folder).X)
    assert [line.split()[-1] for line in out.splitlines() if line] == [
        label for row in best for label in row
    ]
    assert run("tag", folder / name, "-", stdin=(folder / "test.txt").read_bytes())[:2] == (0, out)
    (tmp_path / "tagged").write_text(out)
    code, out, err = run("eval", folder / name, folder / "test.txt", "--json", "--verbose")
    assert (code, err.count("\n")) == (0, 1)
    report = json.loads(out)
    assert report["f1"] == evaluate(gold(folder).y, best).f1 > 0.6
    proven = 20 if model.inference == "csi" else 0
    facts = {
        "inference": model.inference,
        "sentences": 20,
        "exact": proven,
        "gap": 0.0 if proven else None,
    }
    assert facts.items() <= report["decoding"].items()
    text = run("eval", folder / name, folder / "test.txt")[1]
    assert text == run("eval", folder / "test.txt", tmp_path / "tagged")[1]
    code, out, _ = run(
        "compare", folder / "test.txt", folder / name, tmp_path / "tagged", "--samples", 50
    )
    assert (code, "right only in" in out) == (0, True)


@pytest.mark.parametrize("inference", ["none", "vote", "csi"])
def test_inference(run, folder: Path, inference: str) -> None:
    model = labelwright.load(folder / "near").set_params(n_jobs=1)
    found = model.decode(gold(folder).X, inference)
    code, out, _ = run(
        "tag", folder / "near", folder / "test.txt", "--inference", inference, "--json"
    )
    assert code == 0
    for answer, decoding in zip(answers(out), found, strict=True):
        assert set(answer) == {"tokens", "labels", "score", "exact", "gap", "spans"}
        assert (answer["labels"], answer["exact"]) == (decoding.labels, inference == "csi")
        assert answer["score"] == pytest.approx(decoding.score, abs=1e-5)
    _, out, _ = run(
        "eval", folder / "near", folder / "test.txt", "--inference", inference, "--json"
    )
    assert json.loads(out)["f1"] == evaluate(gold(folder).y, [d.labels for d in found]).f1


def test_the_oracle_asks_the_memory_once(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, answers = [], MemoryBased.answers
    monkeypatch.setattr(
        MemoryBased, "answers", lambda memory, X: calls.append(X) or answers(memory, X)
    )
    assert run("eval", folder / "near", folder / "test.txt", "--oracle")[0] == 0
    assert len(calls) == 1


def test_the_oracle(run, folder: Path) -> None:
    model = labelwright.load(folder / "near").set_params(n_jobs=1)
    best = evaluate(gold(folder).y, model.predict_oracle(gold(folder).X, gold(folder).y))
    _, out, _ = run("eval", folder / "near", folder / "test.txt", "--oracle", "--json")
    facts = json.loads(out)
    assert facts["oracle"]["f1"] == best.f1 > facts["f1"]
    out = run("eval", folder / "near", folder / "test.txt", "--oracle")[1]
    last = out.splitlines()[-1]
    assert last.startswith(
        f"oracle: f1 {100 * best.f1:.2f}, token accuracy {100 * best.token_accuracy:.2f} ("
    )


def test_nbest_gives_scores(run, folder: Path) -> None:
    code, out, err = run("tag", folder / "mvdm", "--nbest", 3, stdin=SENTENCE)
    assert (code, err) == (0, "")
    model = labelwright.load(folder / "mvdm").set_params(n_jobs=1)
    (best,) = model.predict_nbest(
        [[("He", "PRP"), ("saw", "VBD"), ("her", "PRP$"), ("brother", "NN")]], 3
    )
    ranks = [line.split() for line in out.splitlines() if line.startswith("#")]
    assert [row[2:] for row in ranks] == [
        [str(k), f"{score:.4f}"] for k, (_, score) in enumerate(best, 1)
    ]
    labels = [line.split()[2] for line in out.splitlines() if line and not line.startswith("#")]
    assert labels == [label for row, _ in best for label in row]
    _, out, _ = run(
        "tag", folder / "mvdm", "--nbest", 3, "--json", "--inference", "vote", stdin=SENTENCE
    )
    (found,) = answers(out)
    assert [row["labels"] for row in found["nbest"]] == [row for row, _ in best]


def test_constraints(run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a B-X\nb I-X\n\nc O\n\n" * 3)
    (tmp_path / "words").write_text("U:%x[0,0]\n")
    options = ["--model", "memory", "--template", tmp_path / "words", "--ngram", 1, "-q"]
    assert run("train", tmp_path / "t", "-o", tmp_path / "m", *options) == (0, "", "")
    text = b"a\nb\n\nb\nb\n\nc\n\n"
    labels = ["B-X", "I-X", "I-X", "I-X", "O"]
    assert [
        line.split()[1] for line in run("tag", tmp_path / "m", stdin=text)[1].splitlines() if line
    ] == labels
    (tmp_path / "u").write_bytes(text)
    code, out, err = run("tag", tmp_path / "m", tmp_path / "u", "--constraints", "scheme")
    assert (code, out.split()[4:]) == (0, ["b", "B-X", "b", "I-X", "c", "O"])
    assert err == ""
    _, out, _ = run(
        "tag", tmp_path / "m", tmp_path / "u", "--constraints", "scheme", "--json", "--nbest", 2
    )
    found = answers(out)
    assert [answer["exact"] for answer in found] == [True, True, True]
    # of two constraints one is satisfied
    assert (found[1]["labels"], found[1]["score"]) == (["B-X", "I-X"], 1.0)
    assert found[1]["nbest"] == [
        {"labels": ["B-X", "I-X"], "score": 1.0},
        {"labels": ["B-X", "B-X"], "score": 0.0},
    ]
    assert run("eval", folder / "near", folder / "test.txt", "--constraints", "scheme")[0] == 0


def test_models_made_in_python(run, folder: Path, tmp_path: Path) -> None:
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk")
    labelwright.MemoryTagger(n_jobs=1).fit(corpus).save(tmp_path / "m")
    assert (
        run("tag", tmp_path / "m", folder / "test.txt")[1]
        == run("tag", folder / "near", folder / "test.txt")[1]
    )
    assert "14 columns" not in run("inspect", tmp_path / "m")[1]
    labelwright.MemoryTagger(n_jobs=1).fit([[{"w": "a"}], [{"w": "b"}]], [["X"], ["Y"]]).save(
        tmp_path / "d"
    )
    code, out, _ = run("inspect", tmp_path / "d")
    assert (code, "(no columns: trained in Python on dicts, arrays or rows)" in out) == (0, True)
    labelwright.MemoryBased().fit([["a", "x"], ["b", "y"]], ["one", "two"]).save(tmp_path / "rows")
    code, out, _ = run("inspect", tmp_path / "rows")
    assert (code, "rows: memorybased|" in out, "column 1" in out) == (0, True, True)


# -- a look inside ---------------------------------------------------------------------------------


def test_inspect(run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = labelwright.load(folder / "mvdm")
    facts = json.loads(run("inspect", folder / "mvdm", "--json")[1])
    assert facts["memory"] == model.memory_
    assert facts["classes"] == len(model.grams_)
    assert facts["labels"] == model.classes_
    assert facts["parameters"]["votes"] == "inverse-distance"
    assert [row["weight"] for row in facts["feature_weights"]] == list(
        model.feature_weights_.values()
    )
    assert facts["feature_weights"][3]["column"] == "word[0]"
    assert facts["feature_weights"][-1]["column"] == "pos[3]"
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        code, out, err = run("inspect", folder / "mvdm")
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines()[1:])) <= width  # the first line names a file
        assert (
            "|k:3|metric:mvdm|mvdm_threshold:1|weights:gain-ratio|votes:inverse-distance|"
            in out.splitlines()[0]
        )
        assert "label       chunk, column 3 of word,pos,chunk\n" in out
        shown = re.findall(r"^  ((?:word|pos)\[-?\d\]) +([\d.]+)  (█+)$", out, re.M)
        ranked = sorted(facts["feature_weights"], key=lambda row: -row["weight"])
        assert [(name, weight) for name, weight, _ in shown] == [
            (r["column"], f"{r['weight']:.4f}") for r in ranked
        ]
        assert [len(bar) for *_, bar in shown] == [
            round(24 * r["weight"] / ranked[0]["weight"]) for r in ranked
        ]
    assert run("inspect", folder / "mvdm", "--template")[1].startswith("B\nU")
    assert "a tree of" in run("inspect", folder / "tree")[1]


def test_inspect_on_data_shows_labels_and_explain_shows_tokens(run, folder: Path) -> None:
    facts = json.loads(run("inspect", folder / "mvdm", "--data", folder / "test.txt", "--json")[1])
    predicted = [
        label
        for labels in labelwright.load(folder / "mvdm").predict(gold(folder).X)
        for label in labels
    ]
    shares = {view["label"]: view["share"] for view in facts["use"]}
    assert shares == pytest.approx(
        {label: predicted.count(label) / len(predicted) for label in shares}
    )
    assert (
        "labels by their share" in run("inspect", folder / "mvdm", "--data", "-", stdin=SENTENCE)[1]
    )
    assert "labelwright explain MODEL FILE" in run("inspect", folder / "mvdm")[1]


def test_explain_a_token(run, folder: Path) -> None:
    model = labelwright.load(folder / "mvdm").set_params(n_jobs=1)
    X = gold(folder).X
    options = [
        "explain",
        folder / "mvdm",
        folder / "test.txt",
        "--sentence",
        2,
        "--token",
        1,
        "--json",
    ]
    facts = json.loads(run(*options)[1])["sentences"][0]["layers"][""][0]["details"]
    assert (facts["values"]["word[0]"], facts["values"]["pos[-1]"]) == (X[2][1][0], X[2][0][1])
    wanted = model.neighbours(X)[2][1]
    rows = [
        (i, row["distance"], tuple(row["labels"]))
        for row in facts["neighbours"]
        for i in row["instances"]
    ]
    assert sorted(rows) == sorted((n.instance, n.distance, n.label) for n in wanted)
    for row in facts["neighbours"]:
        unlike = [name for name in row["values"] if row["values"][name] != facts["values"][name]]
        assert list(row["differs"]) == sorted(
            unlike, key=lambda name: -model.feature_weights_[name]
        )
    out = run("explain", folder / "tree", folder / "test.txt", "--token", 0)[1]
    assert "an igtree answers by classes, not by instances" in out
