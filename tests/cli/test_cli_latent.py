"""Latent models on the command line: training, every decoder, a look inside, and what is
refused."""

import json
import math
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SENTENCE, one_line

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, write_columns
from labelwright.decode import DECODERS
from labelwright.decode.paths import best_paths
from labelwright.inspection import use as inspection
from labelwright.learn.monitor import Monitor
from labelwright.structures.lattice import posterior
from labelwright.structures.states import state_names
from labelwright.taggers.declared import StatesByLabel

FAST = ["--model", "latent-crf", "--template", "words", "--threads", 1, "--seed", 1]
COUNTERS = {
    "viterbi": set(),
    "marginal": set(),
    "ldi": {"latent_paths", "label_paths", "mass"},
    "exact": {"label_paths", "mass", "expansions"},
    "mbr": {"label_paths", "mass"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt and test.txt (word, pos, chunk), a latent model `lat` and a CRF."""
    folder = tmp_path_factory.mktemp("latent")
    corpus = builtin_corpus(120, random_state=5, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 100)), folder / "train.txt")
    write_columns(corpus.take(slice(100, 120)), folder / "test.txt")
    common = ["train", folder / "train.txt", "--columns", "word,pos,chunk", "-q"]
    latent = [*common, "-o", folder / "lat", *FAST, "--latent", 2, "--iterations", 25]
    plain = [
        *common,
        "-o",
        folder / "crf",
        "--template",
        "words",
        "--iterations",
        5,
        "--threads",
        1,
    ]
    for arguments in (latent, plain):
        assert main([str(a) for a in arguments]) == 0
    return folder


def answers(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


# -- training --------------------------------------------------------------------------------------


def test_restarts_are_reported_and_leave_no_checkpoints(run, folder: Path, tmp_path: Path) -> None:
    options = ["--latent", 2, "--restarts", 3, "--iterations", 3, "--checkpoint-every", 0]
    code, out, err = run(
        "train", folder / "train.txt", "-o", tmp_path / "m", *FAST, *options, "--verbose"
    )
    assert (code, out) == (0, "")
    assert err.count("start 2\n") == err.count("start 3\n") == 1
    assert re.search(
        r"labels, \d+ latent states[;,] .* best of 3 starts with losses of [\d,.]+ to",
        err.splitlines()[-1],
    )
    assert os.listdir(tmp_path) == ["m"]
    model = labelwright.load(tmp_path / "m")
    assert (model.n_latent, model.n_restarts) == (2, 3)
    losses = [start["loss"] for start in model.training_["restarts"]]
    assert len(set(losses)) == 3
    assert model.training_["loss"] == min(losses)
    assert "starts      3, losses" in run("inspect", tmp_path / "m")[1]


def test_a_number_for_each_label(run, folder: Path, tmp_path: Path) -> None:
    labels = labelwright.load(folder / "lat").classes_
    wanted = {label: 1 + k % 3 for k, label in enumerate(labels)}
    text = ",".join(f"{label}={number}" for label, number in wanted.items())
    options = [*FAST, "--iterations", 2, "-q"]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options, "--latent", text) == (
        0,
        "",
        "",
    )
    model = labelwright.load(tmp_path / "m")
    assert model.n_latent == wanted
    assert np.diff(model._space.first).tolist() == list(wanted.values())
    recipe = tmp_path / "recipe.toml"
    table = "\n".join(f'"{label}" = {number}' for label, number in wanted.items())
    recipe.write_text(
        'model = "latent-crf"\nn_restarts = 1\nmax_iter = 2\ntemplate = "words"\n[n_latent]\n'
        f"{table}\n"
    )
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        tmp_path / "r",
        "--recipe",
        recipe,
        "--seed",
        1,
        "-q",
    ]
    assert run(*arguments) == (0, "", "")
    assert np.array_equal(labelwright.load(tmp_path / "r").weights_, model.weights_)


def test_start_from_keeps_the_kind_of_model(run, folder: Path, tmp_path: Path) -> None:
    options = ["--start-from", folder / "lat", "--iterations", 2, "-q"]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options) == (0, "", "")
    old, new = labelwright.load(folder / "lat"), labelwright.load(tmp_path / "m")
    assert (type(new), new.n_latent, new.template, new.random_state) == (
        labelwright.LatentCRF,
        2,
        "words",
        1,
    )
    assert new.history_[0]["loss"] == pytest.approx(old.training_["loss"], rel=1e-4)


def test_a_latent_model_starts_from_a_crf_whose_states_it_splits(
    run, folder: Path, tmp_path: Path
) -> None:
    options = [
        "--model",
        "latent-crf",
        "--start-from",
        folder / "crf",
        "--latent",
        2,
        "--iterations",
        3,
        "-q",
    ]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options) == (0, "", "")
    old, new = labelwright.load(folder / "crf"), labelwright.load(tmp_path / "m")
    assert (type(new), new.n_latent, new.template) == (labelwright.LatentCRF, 2, "words")
    options[options.index("--start-from") : options.index("--latent")] = ["--template", "words"]
    assert run("train", folder / "train.txt", "-o", tmp_path / "cold", *options) == (0, "", "")
    cold = labelwright.load(tmp_path / "cold")
    assert new.training_["loss"] < cold.training_["loss"]
    part, old_part = (m._parameters.slices["transitions"] for m in (new, old))
    S, L = new._space.n_states, len(old.classes_)
    means = new.weights_[part].reshape(S, S)[np.ix_(range(0, S, 2), range(0, S, 2))]
    assert (
        np.corrcoef(means.reshape(-1), old.weights_[old_part].reshape(L, L).reshape(-1))[0, 1] > 0.8
    )


def test_labels_with_commas_can_be_numbered() -> None:
    assert StatesByLabel().from_text(",=2,.=1,a=b=3") == {",": 2, ".": 1, "a=b": 3}


def test_interrupted_in_the_second_start(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [
        *FAST,
        "--latent",
        2,
        "--restarts",
        2,
        "--iterations",
        4,
        "--checkpoint-every",
        0,
        "-q",
    ]
    assert run("train", folder / "train.txt", "-o", tmp_path / "whole", *options)[0] == 0
    seen: list[Monitor] = []
    report = Monitor.report

    def interrupted_in_the_second(monitor: Monitor, **facts: Any) -> None:
        if monitor not in seen:
            seen.append(monitor)
        monitor.interrupted = len(seen) == 2 and len(monitor.history) == 2
        report(monitor, **facts)

    with monkeypatch.context() as patch:
        patch.setattr("labelwright.learn.monitor.Monitor.report", interrupted_in_the_second)
        code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *options)
    assert code == 130
    one_line(err, "holds the model so far")
    assert sorted(os.listdir(tmp_path)) == ["m", "m.checkpoint", "m.checkpoint.2", "whole"]
    assert run("train", folder / "train.txt", "-o", tmp_path / "m", *options, "--resume") == (
        0,
        "",
        "",
    )
    assert sorted(os.listdir(tmp_path)) == ["m", "whole"]
    whole, resumed = (labelwright.load(tmp_path / name) for name in ("whole", "m"))
    assert np.array_equal(whole.weights_, resumed.weights_)


# -- decoders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_says_what_it_knows(run, folder: Path, decoder: str) -> None:
    code, out, err = run(
        "tag", folder / "lat", folder / "test.txt", "--decoder", decoder, "--json", "--threads", 1
    )
    assert (code, err) == (0, "")
    model = labelwright.load(folder / "lat").set_params(n_jobs=1)
    X = read_columns(folder / "test.txt", names="word,pos,chunk").X
    best = model.decode(X)
    assert all(d.exact for d in best)
    for found, expected, proven in zip(answers(out), model.decode(X, decoder), best, strict=True):
        assert found["labels"] == expected.labels
        assert (found["exact"], found["gap"]) == (expected.exact, expected.gap)
        assert COUNTERS[decoder] == {"latent_paths", "label_paths", "mass", "expansions"} & set(
            found
        )
        missed = math.exp(proven.log_probability) - math.exp(expected.log_probability)
        assert missed >= -1e-9
        if found["gap"] is not None:
            assert missed <= found["gap"] + 1e-9
        if found["exact"]:
            assert missed == pytest.approx(0, abs=1e-9)
    _, columns, _ = run(
        "tag", folder / "lat", folder / "test.txt", "--decoder", decoder, "--threads", 1
    )
    labels = [line.split()[-1] for line in columns.splitlines() if line]
    assert labels == [label for found in answers(out) for label in found["labels"]]


def test_options_reach_the_decoder(run, folder: Path) -> None:
    def decoded(*options: object) -> list[dict]:
        code, out, err = run(
            "tag", folder / "lat", folder / "test.txt", "--json", "--threads", 1, *options
        )
        assert (code, err) == (0, "")
        return answers(out)

    assert all(a["latent_paths"] <= 3 for a in decoded("--decoder", "ldi", "--n", 3))
    strict, loose = (
        decoded("--decoder", "ldi", "--n", 200, "--alpha", alpha) for alpha in (1, 0.05)
    )
    assert sum(a["latent_paths"] for a in loose) < sum(a["latent_paths"] for a in strict)
    _, out, _ = run(
        "tag", folder / "lat", "--json", "--decoder", "ldi", "--n", 0, stdin=b"He PRP\nsaw VBD\n\n"
    )
    assert [(a["exact"], a["gap"]) for a in answers(out)] == [(True, 0)]
    assert all(
        a["label_paths"] <= 4 for a in decoded("--decoder", "mbr", "--n", 4, "--gain", "accuracy")
    )
    assert all(
        "latent_paths" in a for a in decoded("--decoder", "mbr", "--candidates", "ldi", "--n", 4)
    )
    assert all(a["exact"] for a in decoded("--time-limit", 60))


def test_no_expansions_give_an_answer_with_a_true_gap(run, folder: Path) -> None:
    _, out, _ = run("tag", folder / "lat", folder / "test.txt", "--json", "--max-expansions", 0)
    _, proven, _ = run("tag", folder / "lat", folder / "test.txt", "--json")
    unproven = 0
    for found, best in zip(answers(out), answers(proven), strict=True):
        assert len(found["labels"]) == len(found["tokens"])
        assert best["probability"] - found["probability"] <= found["gap"] + 2e-6
        assert found["exact"] is (found["gap"] == 0)
        unproven += not found["exact"]
    assert unproven > 0


@pytest.mark.parametrize("length", [1, 1000])
@pytest.mark.parametrize("decoder", DECODERS)
def test_short_and_long_sentences(run, folder: Path, decoder: str, length: int) -> None:
    words = [b"He PRP\n", b"saw VBD\n", b"qzx XX\n", b"her PRP$\n"]
    text = b"".join(words[k * k % 4] for k in range(length)) + b"\n"
    options = ["--decoder", decoder, "--json", "--threads", 1]
    if decoder in ("exact", "mbr"):
        options += ["--max-expansions", 20_000]
    code, out, err = run("tag", folder / "lat", *options, stdin=text)
    assert (code, err) == (0, "")
    (found,) = answers(out.replace("NaN", "not JSON").replace("Infinity", "not JSON"))
    assert len(found["labels"]) == length
    assert 0 <= found["probability"] <= 1
    assert found["gap"] is None or 0 <= found["gap"] <= 1
    if length == 1:
        assert found["exact"] or found["gap"] is None or found["gap"] > 0


def test_nbest_of_a_latent_model(run, folder: Path) -> None:
    model = labelwright.load(folder / "lat").set_params(n_jobs=1)
    (expected,) = model.predict_nbest(
        [[("He", "PRP"), ("saw", "VBD"), ("her", "PRP$"), ("brother", "NN")]], 3
    )
    _, out, _ = run("tag", folder / "lat", "--nbest", 3, "--probabilities", stdin=SENTENCE)
    assert [line for line in out.splitlines() if line.startswith("#")] == [
        f"# nbest {rank} {probability:.4g}" for rank, (_, probability) in enumerate(expected, 1)
    ]
    _, out, _ = run(
        "tag", folder / "lat", "--nbest", 3, "--json", "--decoder", "ldi", "--n", 2, stdin=SENTENCE
    )
    (found,) = answers(out)
    assert [row["labels"] for row in found["nbest"]] == [labels for labels, _ in expected]
    assert found["latent_paths"] <= 2


def test_a_summary_only_when_asked(run, folder: Path) -> None:
    code, out, err = run("tag", folder / "lat", folder / "test.txt")
    assert (code, err) == (0, "")
    code, same, err = run("tag", folder / "lat", folder / "test.txt", "--verbose")
    assert (code, same) == (0, out)
    assert re.fullmatch(
        r"20 sentences, 20 proven exact \(100 %\), largest gap 0, [\d.]+ seconds\n", err
    )
    _, _, err = run("tag", folder / "lat", folder / "test.txt", "-v", "--max-expansions", 0)
    proven, gap = re.match(
        r"20 sentences, (\d+) proven exact \([\d.]+ %\), largest gap ([\d.e-]+),", err
    ).groups()
    assert int(proven) < 20
    assert 0 < float(gap) <= 1
    _, _, err = run("eval", folder / "lat", folder / "test.txt", "-v", "--decoder", "mbr", "--n", 5)
    assert re.match(r"20 sentences, \d+ proven exact", err)


def test_eval_says_how_far_ldi_searched(run, folder: Path) -> None:
    where = folder / "lat", folder / "test.txt", "--threads", 1
    X = read_columns(folder / "test.txt", names="word,pos,chunk").X
    decodings = labelwright.load(folder / "lat").set_params(n_jobs=1).decode(X, "ldi", n=5)
    facts = json.loads(run("eval", *where, "--json", "--decoder", "ldi", "--n", 5)[1])["decoding"]
    for name in ("latent_paths", "label_paths", "mass"):
        assert facts[f"mean_{name}"] == pytest.approx(
            np.mean([getattr(d, name) for d in decodings])
        )
    _, out, _ = run("eval", *where, "--decoder", "ldi", "--n", 5)
    shown = (
        r"^ldi: ([\d.]+) % proven exact; on average ([\d.]+) latent paths, ([\d.]+) % of the "
        r"probability$"
    )
    share, paths, mass = re.search(shown, out, re.MULTILINE).groups()
    assert float(share) == pytest.approx(100 * np.mean([d.exact for d in decodings]), abs=0.01)
    assert float(paths) == pytest.approx(facts["mean_latent_paths"], abs=0.1)
    assert float(mass) == pytest.approx(100 * facts["mean_mass"], abs=0.01)
    assert "mean_mass" not in json.loads(run("eval", *where, "--json")[1])["decoding"]
    assert "latent paths" not in run("eval", *where)[1]


# -- a look inside ---------------------------------------------------------------------------------


def test_inspect_shows_the_latent_states(run, folder: Path) -> None:
    code, out, _ = run("inspect", folder / "lat", "--top", 3)
    assert code == 0
    assert "by their weights alone" in out
    for part in ("  B-NP\n", "    #1 ", "    #2 ", "features ", "before it ", "after it "):
        assert part in out
    assert "words  " not in out
    code, out, _ = run(
        "inspect", folder / "lat", "--top", 3, "--data", folder / "test.txt", "--threads", 1
    )
    assert code == 0
    assert "by their use on the data" in out
    assert "words  " in out
    assert "(outside)" in out
    assert "latent states" not in run("inspect", folder / "crf")[1]


def test_shares_are_those_of_the_marginals(run, folder: Path) -> None:
    model = labelwright.load(folder / "lat").set_params(n_jobs=1)
    counts: dict[str, float] = defaultdict(float)
    for sentence in model.predict_marginals(
        read_columns(folder / "test.txt", names="word,pos,chunk").X, latent=True
    ):
        for token in sentence:
            for state, probability in token.items():
                counts[state] += probability
    _, out, _ = run("inspect", folder / "lat", "--json", "--data", folder / "test.txt")
    facts = json.loads(out)
    by_label = defaultdict(list)
    for view in facts["latent"]:
        by_label[view["label"]].append(view)
    assert list(by_label) == facts["labels"]
    for label, views in by_label.items():
        total = sum(counts[f"{label}#{k}"] for k in (1, 2))
        assert [view["share"] for view in views] == pytest.approx(
            [counts[v["state"]] / total for v in views]
        )
        assert views[0]["share"] >= views[1]["share"]
    weights_alone = json.loads(run("inspect", folder / "lat", "--json")[1])["latent"]
    assert sum(view["share"] for view in weights_alone) == pytest.approx(len(by_label))
    assert all(view["words"] == [] for view in weights_alone)


@pytest.fixture(scope="module", params=[1, 2], ids=["order 1", "order 2"])
def tiny(request: pytest.FixtureRequest) -> labelwright.LatentCRF:
    X, y = [["a", "b", "a"], ["b", "b"], ["a"]], [["A", "B", "A"], ["B", "A"], ["A"]]
    words = {"template": "words-arcs", "order": request.param, "n_jobs": 1, "max_iter": 8}
    return labelwright.LatentCRF(n_latent={"A": 2, "B": 1}, **words).fit(X, y)


def test_expected_counts_against_enumeration(tiny) -> None:
    X = [["a", "b", "b", "a"], ["b"], ["a", "c"]]
    S = tiny._space.n_states
    moves = np.zeros((S + 1, S + 1))

    def question(lattice) -> float:
        paths, scores = best_paths(lattice, S ** len(lattice.node) + 5)
        p = np.exp(scores - posterior(lattice).log_z)
        for path, weight in zip(lattice.graph.state[paths], p, strict=True):
            for r, s in zip([S, *path], [*path, S], strict=True):
                moves[r, s] += weight
        return float(p.sum())

    assert [question(sentence.lattice) for sentence in tiny.scored(X)] == pytest.approx([1.0] * 3)
    use = inspection.expected_use(tiny, [X])
    assert use.after.table() == pytest.approx(moves)
    assert use.states == pytest.approx(moves[:S].sum(axis=1))
    assert use.states.sum() == pytest.approx(7)
    corpus = labelwright.corpus.Corpus.from_sequences(X)
    words = inspection.expected_use(tiny, [corpus, corpus])
    assert words.values == ["a", "b", "c"]
    assert words.words_of(0, tiny._space.n_states) == pytest.approx([6, 6, 2])
    assert words.states == pytest.approx(2 * use.states)
    views = inspection.latent_states(tiny, words)
    assert {view.state for view in views} == set(state_names(tiny._space))
    for view in views:
        assert sum(value for _, value in view.before) == pytest.approx(1)


def test_no_way_leads_on_from_a_forbidden_state(tiny) -> None:
    X, y = [["a", "b", "c"], ["b", "c", "a"]], [["B-X", "I-X", "O"], ["B-X", "O", "O"]]
    model = labelwright.LatentCRF(n_latent=2, n_jobs=1, max_iter=5, constraints="scheme").fit(X, y)
    use = inspection.expected_use(model, [X])
    assert use.after.table().sum() == pytest.approx(8)
    names = state_names(model._space)
    assert use.after.table()[names.index("O#1"), names.index("I-X#1")] == 0
    views = inspection.latent_states(model)
    assert all(
        name.startswith(("B-X", "I-X")) for v in views if v.label == "I-X" for name, _ in v.before
    )


def test_path_mass(tiny) -> None:
    X = [["a", "b"], ["b"], []]
    mass = inspection.path_mass(tiny, X, 12)
    assert (np.diff(mass) >= 0).all()
    assert mass[8:] == pytest.approx([1.0] * 4)
    assert mass[7] < 1
    plain = labelwright.CRF(n_jobs=1, max_iter=5).fit([["a", "b"], ["b"]], [["A", "B"], ["B"]])
    expected = [sum(p for _, p in plain.predict_nbest([["a", "b"]], n)[0]) for n in (1, 2, 3)]
    assert inspection.path_mass(plain, [["a", "b"]], 3) == pytest.approx(expected)


def test_the_plot(run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "mass.png"
    files = ["--data", folder / "test.txt", "--data", folder / "train.txt"]
    arguments = ["inspect", folder / "lat", *files, "--plot", target, "--paths", 20, "--threads", 1]
    code, out, err = run(*arguments)
    assert (code, err) == (0, f"{target}: drawn\n")
    assert "probability of the n best latent paths" in out
    assert target.read_bytes().startswith(b"\x89PNG")
    _, out, _ = run(*arguments, "--json")
    masses = json.loads(out)["path_mass"]
    assert list(masses) == [str(folder / "test.txt"), str(folder / "train.txt")]
    for row in masses.values():
        assert list(row) == ["1", "2", "5", "10", "20"]
        assert list(row.values()) == sorted(row.values())
