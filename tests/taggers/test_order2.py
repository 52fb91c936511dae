"""Models of second order as users meet them: answers by definition, what they learn, files, and the
command line."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from problems import Truth
from tiny import ARCS, NEW, X, Y

import labelwright
from labelwright import CRF, LatentCRF
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, validate, write_columns
from labelwright.decode import DECODERS
from labelwright.inspection import use as inspection
from labelwright.structures.states import state_names
from labelwright.taggers.crf import Likelihood
from labelwright.taggers.linear import Noise

TRIPLES = ARCS + "\nT:%x[-1,0]\nT2:%x[0,0]"


def crf(**words):
    return CRF(**{"template": TRIPLES, "order": 2, "n_jobs": 1, "l2": 0.3} | words)


def latent(**words):
    return LatentCRF(
        **{
            "n_latent": 2,
            "template": TRIPLES,
            "order": 2,
            "n_jobs": 1,
            "l2": 0.3,
            "random_state": 0,
        }
        | words
    )


@pytest.fixture(scope="module", params=["crf", "latent"])
def model(request):
    make = (
        crf(cells="all")
        if request.param == "crf"
        else latent(n_latent={"B-NP": 2, "I-NP": 1, "O": 3}, l1=0.1)
    )
    return make.fit(X, Y)


# --- learning -------------------------------------------------------------------------------------


def test_the_second_order_sees_what_the_first_cannot():
    """Every third label is B, and no word tells: one label before is not enough, two are."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    settings = {"template": "U:%x[0,0]\nB", "l2": 0.01, "n_jobs": 1}
    first, second = (CRF(order=order, **settings).fit(x, y) for order in (1, 2))
    assert second.predict(x[:1]) == y[:1]
    assert np.exp(second.sequence_log_probabilities(x[:1], y[:1])[0]) > 0.9
    assert np.exp(first.sequence_log_probabilities(x[:1], y[:1])[0]) < 0.2


def test_features_on_three_labels_see_what_features_on_two_cannot():
    """After a or b, whichever stood two places before: the word says if the label of two places
    before comes again."""
    random = np.random.default_rng(0)
    x, y = [], []
    for _ in range(80):
        words, labels = [str(w) for w in random.choice(["same", "other"], 8)], ["A", "B"]
        for word in words[2:]:
            labels.append(labels[-2] if word == "same" else "AB".replace(labels[-2], ""))
        x.append(words)
        y.append(labels)
    settings = {"order": 2, "l2": 0.01, "n_jobs": 1}
    with_triples = CRF(template="U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]", **settings).fit(x, y)
    without = CRF(template="U:%x[0,0]\nB:%x[0,0]", **settings).fit(x, y)
    forced = [[*labels[:2], *[None] * 6] for labels in y]
    assert [d.labels for d in with_triples.decode(x, forced=forced)] == y
    wrong = sum(
        d.labels != labels for d, labels in zip(without.decode(x, forced=forced), y, strict=True)
    )
    assert wrong > 20


@pytest.mark.cases(1)
@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
@pytest.mark.parametrize("way", ["init", "warm_start"])
def test_starting_from_the_first_order(make, way, monkeypatch):
    """All old weights are carried over and triples begin at zero, so training goes on from the old
    loss."""
    old = make(order=1, template=ARCS, warm_start=way == "warm_start").fit(X, Y)
    loss = old.training_["loss"]
    monkeypatch.setattr(Likelihood, "noise", Noise(0.01, 0.0))
    new = (
        make().fit(X, Y, init=old)
        if way == "init"
        else old.set_params(order=2, template=TRIPLES).fit(X, Y)
    )
    assert new._space.graph.order == 2
    assert new.history_[0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert new.training_["loss"] < loss
    if make is crf:
        cold = crf(tol=1e-8).fit(X, Y)
        assert new.training_["loss"] == pytest.approx(cold.training_["loss"], rel=1e-3)
    back = make(order=1, template=ARCS).fit(X, Y, init=new)
    assert back._space.graph.order == 1
    assert back.predict(X) == Y


@pytest.mark.parametrize("order", [1, 2])
def test_latent_states_grow_by_splitting_those_of_a_trained_model(monkeypatch, order):
    settings = {"order": order, "template": ARCS if order == 1 else TRIPLES}
    plain = crf(**settings).fit(X, Y)
    monkeypatch.setattr(Likelihood, "noise", Noise(0.01, 0.0))
    copies = latent(n_latent=3, max_iter=1, share=False, **settings).fit(X, Y, init=plain)
    # Equal copies give every path of a labelling its old score, so a labelling of T tokens weighs
    # 3^T times as much.
    penalty = 0.0
    for name, part in plain._parameters.slices.items():
        n_labels = {"state": 1, "edge": 2, "transitions": 2, "triple": 3, "triples": 3}[name]
        penalty += (
            0.5 * 0.3 * (3**n_labels - 1) * float(plain.weights_[part] @ plain.weights_[part])
        )
    assert copies.history_[0]["loss"] == pytest.approx(plain.training_["loss"] + penalty, rel=1e-5)
    monkeypatch.undo()
    grown = latent(n_latent=3, **settings).fit(X, Y, init=plain)
    assert grown.predict(X) == Y
    assert grown.training_["loss"] < grown.history_[0]["loss"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
@pytest.mark.parametrize("constraints", [None, "scheme"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_data_with_few_tokens_or_labels(make, constraints, optimizer):
    words = {
        "constraints": constraints,
        "optimizer": optimizer,
        "template": "U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]",
    }
    single = make(**words).fit([["a"], ["b"]], [["B-X"], ["O"]])
    assert single.predict([["a"], ["b"], ["a", "b", "a"]]) == [["B-X"], ["O"], ["B-X", "O", "B-X"]]
    double = make(**words).fit([["a", "b"], ["b"], []], [["B-X", "I-X"], ["O"], []])
    assert double.predict([["a", "b"], ["b"]]) == [["B-X", "I-X"], ["O"]]
    alone = make(**words).fit([["a", "b", "c"], ["b"]], [["B-X", "B-X", "B-X"], ["B-X"]])
    assert alone.sequence_log_probabilities([["c", "a"]], [["B-X", "B-X"]]) == pytest.approx(
        [0.0], abs=1e-12
    )


# --- files and copies -----------------------------------------------------------------------------


def test_a_look_inside(model):
    facts = model.describe(4)
    names = state_names(model._space)
    weights = model.weights_[model._parameters.slices["triples"]].reshape((len(names),) * 3)
    assert [row["weight"] for row in facts["triples"]] == pytest.approx(
        sorted(weights.reshape(-1).tolist(), key=lambda w: -abs(w))[:4]
    )
    for row in facts["triples"]:
        assert weights[
            tuple(names.index(row[k]) for k in ("first", "second", "third"))
        ] == pytest.approx(row["weight"])
    assert list(facts["features"]) == list(model._parameters.cells)
    if "triple" in facts["features"]:
        assert all(triple.count(" → ") == 2 for triple in facts["features"]["triple"])
    use = inspection.expected_use(model, [[NEW]])
    truth, S = Truth(model, NEW), len(names)
    transitions = np.zeros((S + 1, S + 1))
    for path, p in zip(truth.paths.tolist(), truth.p, strict=True):
        for r, s in itertools.pairwise([S, *path, S]):
            transitions[r, s] += p
    assert use.after.table() == pytest.approx(transitions, abs=1e-12)
    assert use.states == pytest.approx(transitions[:S].sum(axis=1))
    mass = inspection.path_mass(model, [NEW], 10)
    assert mass == pytest.approx(np.cumsum(np.sort(truth.p)[::-1][:10]))


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with train.txt and test.txt (word, pos, chunk), a template, and two models of second
    order."""
    folder = tmp_path_factory.mktemp("order2")
    corpus = builtin_corpus(120, random_state=5, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 100)), folder / "train.txt")
    write_columns(corpus.take(slice(100, 120)), folder / "test.txt")
    (folder / "triples.tpl").write_text("U1:%x[0,0]\nU2:%x[0,1]\nB1:%x[0,1]\nT1:%x[0,1]\n")
    common = [
        "train",
        folder / "train.txt",
        "--columns",
        "word,pos,chunk",
        "--order",
        2,
        "--threads",
        1,
        "-q",
    ]
    plain = [
        *common,
        "-o",
        folder / "crf",
        "--template",
        folder / "triples.tpl",
        "--iterations",
        30,
    ]
    latent = [
        *common,
        "-o",
        folder / "lat",
        "--model",
        "latent-crf",
        "--latent",
        2,
        "--template",
        "words",
    ]
    for arguments in (plain, [*latent, "--iterations", 20, "--seed", 1, "--constraints", "scheme"]):
        assert main([str(a) for a in arguments]) == 0
    return folder


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["crf", "lat"])
def test_tag_eval_and_inspect(run, folder: Path, name: str) -> None:
    model = labelwright.load(folder / name)
    assert (model.order, model._space.graph.order) == (2, 2)
    test = read_columns(folder / "test.txt", ["word", "pos", "chunk"], "chunk")
    code, out, err = run("tag", folder / name, folder / "test.txt", "--threads", 1)
    assert (code, err) == (0, "")
    tagged = [
        [line.split()[-1] for line in block.splitlines()] for block in out.strip().split("\n\n")
    ]
    assert tagged == model.predict(test)
    for decoder in DECODERS:
        options = ["--decoder", decoder, "--constraints", "scheme", "--threads", 1]
        code, out, err = run("tag", folder / name, folder / "test.txt", *options)
        assert code == 0, err
        labels = [
            [line.split()[-1] for line in block.splitlines()] for block in out.strip().split("\n\n")
        ]
        if decoder != "marginal":
            assert not validate(labels, model.scheme_)
    code, out, err = run("eval", folder / "test.txt", folder / name, "--json")
    assert code == 0, err
    assert json.loads(out)
    code, out, err = run("inspect", folder / name, "--top", 3)
    assert (code, err) == (0, "")
    assert "strongest triples\n" in out
    assert out.count(" → ") >= 6
    if name == "crf":
        assert "strongest features of triples" in out
    facts = json.loads(
        run("inspect", folder / name, "--top", 3, "--data", folder / "test.txt", "--json")[1]
    )
    assert len(facts["triples"]) == 3
    assert facts["parameters"]["order"] == 2
