"""Models of second order as users meet them: answers by definition, what they learn, files, and the command line."""

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from command import one_line
from problems import Truth
from tiny import ARCS, LABELS, NEW, STATES, X, Y

import labelwright
from labelwright import CRF, LatentCRF, Span
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, convert, read_columns, spans_of, validate, write_columns
from labelwright.decode import DECODERS
from labelwright.errors import OptionError
from labelwright.inspection import use as inspection
from labelwright.kernels import compiled
from labelwright.scoring import assembly
from labelwright.structures import states
from labelwright.structures.states import state_names
from labelwright.taggers.crf import Likelihood
from labelwright.taggers.linear import Noise

TRIPLES = ARCS + "\nT:%x[-1,0]\nT2:%x[0,0]"


def crf(**words):
    return CRF(**{"template": TRIPLES, "order": 2, "n_jobs": 1, "l2": 0.3} | words)


def latent(**words):
    return LatentCRF(
        **{"n_latent": 2, "template": TRIPLES, "order": 2, "n_jobs": 1, "l2": 0.3, "random_state": 0} | words
    )


MODELS = {
    "plain": lambda: crf(template=STATES),
    "arcs": lambda: crf(template=ARCS, cells="all"),
    "triples": lambda: crf(),
    "triples, all cells": lambda: crf(cells="all"),
    "constrained": lambda: crf(template=STATES, constraints="scheme"),
    "constrained triples": lambda: crf(constraints="scheme", cells="all"),
    "latent": lambda: latent(template=STATES),
    "latent triples": lambda: latent(n_latent={"B-NP": 2, "I-NP": 1, "O": 3}),
    "latent constrained": lambda: latent(constraints="scheme"),
    "latent constrained, all cells": lambda: latent(constraints="scheme", cells="all", template=ARCS),
    "sgd": lambda: crf(optimizer="sgd", max_iter=10),
    "owlqn": lambda: latent(l1=0.2),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]().fit(X, Y)


# --- answers ----------------------------------------------------------------------------------------------------------

RESTRICTIONS = {
    "free": {},
    "scheme": {"constraints": "scheme"},
    "forced": {"forced": [[None, "O", ["B-NP", "O"], None]]},
    "both": {"forced": [["B-NP", None, ["B-NP", "O"], None]], "constraints": "iob2"},
}


@pytest.mark.cases(12)
@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_every_answer_agrees_with_the_definition(model, restriction):
    words = RESTRICTIONS[restriction]
    forced, scheme = words.get("forced", [None])[0], "iob2" if "constraints" in words else None
    whole = Truth(model, NEW, forced, scheme)
    truth = whole.labellings
    ranked = sorted(truth.values(), reverse=True)
    assert max(whole.p) < 0.999  # there is something to decide

    for name in DECODERS:
        (found,) = model.decode([NEW], name, **({"n": 0} if name == "ldi" else {}), **words)
        p = truth.get(tuple(found.labels), 0.0)
        assert np.exp(found.log_probability) == pytest.approx(p, abs=1e-12)
        assert not found.exact or p == pytest.approx(ranked[0])
        assert found.gap is None or ranked[0] <= p + found.gap + 1e-12
        if name in ("exact", "ldi") or (name == "viterbi" and not model._space.latent):
            assert found.exact
    (nbest,) = model.predict_nbest([NEW], n=1000, **words)
    assert [p for _, p in nbest] == pytest.approx(ranked)
    assert {tuple(y): p for y, p in nbest} == pytest.approx(truth)
    assert sum(p for _, p in nbest) == pytest.approx(1)
    assert model.predict_nbest([NEW], n=3, **words)[0] == nbest[:3]

    (marginals,), (states,) = (model.predict_marginals([NEW], latent=latent, **words) for latent in (False, True))
    for t in range(len(NEW)):
        assert (list(marginals[t]), list(states[t])) == (model.classes_, state_names(model._space))
        for label, p in marginals[t].items():
            assert p == pytest.approx(sum(q for y, q in truth.items() if y[t] == label), abs=1e-12)
        for s, p in enumerate(states[t].values()):
            assert p == pytest.approx(whole.p[whole.paths[:, t] == s].sum(), abs=1e-12)

    (spans,) = model.predict_spans([NEW], **words)
    assert [s[:3] for s in spans] == [s[:3] for s in spans_of(nbest[0][0])]
    places = [Span(a, b, "NP") for a, b in itertools.combinations(range(len(NEW) + 1), 2)]
    (every,) = model.span_probabilities([NEW], [places], **words)
    for span in [*every, *spans]:
        having = sum(q for y, q in truth.items() if any(s[:3] == span[:3] for s in spans_of(list(y))))
        assert span.probability == pytest.approx(having, abs=1e-12)


def test_probabilities_of_all_labellings(model):
    labellings = [list(y) for y in itertools.product(LABELS, repeat=4)]
    p = np.exp(model.sequence_log_probabilities([NEW] * len(labellings), labellings))
    truth = Truth(model, NEW).labellings
    assert p == pytest.approx([truth.get(tuple(y), 0.0) for y in labellings], abs=1e-12)
    assert p.sum() == pytest.approx(1)
    if model.constraints:
        broken = [bool(validate([y], "iob2")) for y in labellings]
        assert (p[broken] == 0).all()
        assert model.sequence_log_probabilities([["the", "dog"]], [["O", "I-NP"]]) == [-np.inf]
    assert model.sequence_log_probabilities([["a"]], [["unheard-of"]]) == [-np.inf]


@pytest.mark.parametrize("constraints", [None, "scheme"])
@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
def test_labels_that_cannot_end_a_sentence(make, constraints):
    """With BIOES labels one token alone, too, may not begin a chunk that does not end."""
    y = convert(Y, "iob2", "bioes")
    model = make(constraints=constraints).fit([*X, ["x", "y", "z"]], [*y, ["B-NP", "I-NP", "E-NP"]])
    assert model.scheme_ == "bioes"
    for sentence in (["the"], ["the", "dog"], ["the", "zzz", "dog"]):
        truth = Truth(model, sentence, scheme="bioes").labellings
        (nbest,) = model.predict_nbest([sentence], n=200, constraints="scheme")
        assert {tuple(y): p for y, p in nbest} == pytest.approx(truth)
        (row,) = model.predict_marginals([sentence], constraints="scheme")
        assert row[-1]["B-NP"] == row[-1]["I-NP"] == row[0]["E-NP"] == row[0]["I-NP"] == 0


@pytest.mark.cases(2)
def test_short_long_and_no_sentences(model):
    data = [[], ["dog"], ["the", "dog"], NEW * 75, []]
    assert [len(y) for y in model.predict(data)] == [0, 1, 2, 300, 0]
    for name in DECODERS:
        found = model.decode(data, name)
        p = model.sequence_log_probabilities(data, [d.labels for d in found])
        assert [d.log_probability for d in found] == pytest.approx(p, abs=1e-8)
        assert all(d.exact == (d.gap == 0) for d in found)
    (one,) = model.predict_nbest([["dog"]], n=9)
    assert {tuple(y): p for y, p in one} == pytest.approx(Truth(model, ["dog"]).labellings)
    (two,) = model.predict_nbest([["the", "dog"]], n=99)
    assert {tuple(y): p for y, p in two} == pytest.approx(Truth(model, ["the", "dog"]).labellings)
    for row in model.predict_marginals(data)[3]:
        assert sum(row.values()) == pytest.approx(1)
    assert all(0 < span.probability <= 1 for span in model.predict_spans(data)[3])


def test_what_cannot_be_satisfied_is_said(model):
    impossible = {"forced": [["O", "I-NP"]], "constraints": "scheme"}
    asks = [model.predict_nbest, model.predict_marginals, model.predict_spans]
    asks += [lambda x, d=d, **words: model.decode(x, d, **words) for d in DECODERS]
    for ask in asks:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            ask([["the", "dog"]], **impossible)


def test_without_tables_of_keys_the_answers_are_the_same(model, monkeypatch):
    data = [*X, NEW, ["zzz"]]
    before = model.predict_marginals(data)
    monkeypatch.setattr(assembly, "WIDE", 0)
    for frequent in (2, 10**9):
        monkeypatch.setattr(assembly, "FREQUENT", frequent)
        for row, other in zip(itertools.chain(*before), itertools.chain(*model.predict_marginals(data)), strict=True):
            assert other == pytest.approx(row)


@pytest.mark.cases(4)
def test_threads_and_pieces_change_no_answer(model, monkeypatch):
    data = [[*s, *NEW] for s in X] * 40
    one = model.decode(data)
    monkeypatch.setattr("labelwright.scoring.assembly.BLOCK_NUMBERS", 1 << 10)
    other = copy.copy(model).set_params(n_jobs=2).decode(data)
    assert other == one if compiled() else same_to_rounding(other, one)  # NumPy sums whole blocks


def same_to_rounding(decodings, others):
    """The same labels, and the same numbers but for their last digits."""
    numbers = [[(d.score, d.log_probability) for d in both] for both in (decodings, others)]
    return [d.labels for d in decodings] == [d.labels for d in others] and np.allclose(*numbers, rtol=1e-12, atol=1e-12)


# --- learning ---------------------------------------------------------------------------------------------------------


def test_the_second_order_sees_what_the_first_cannot():
    """Every third label is B, and no word tells: one label before is not enough, two are."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    settings = {"template": "U:%x[0,0]\nB", "l2": 0.01, "n_jobs": 1}
    first, second = (CRF(order=order, **settings).fit(x, y) for order in (1, 2))
    assert second.predict(x[:1]) == y[:1]
    assert np.exp(second.sequence_log_probabilities(x[:1], y[:1])[0]) > 0.9
    assert np.exp(first.sequence_log_probabilities(x[:1], y[:1])[0]) < 0.2


def test_features_on_three_labels_see_what_features_on_two_cannot():
    """After a or b, whichever stood two places before: the word says if the label of two places before comes again."""
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
    wrong = sum(d.labels != labels for d, labels in zip(without.decode(x, forced=forced), y, strict=True))
    assert wrong > 20


@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
def test_without_weights_of_triples_it_is_the_first_order(make):
    one = make(template=ARCS, order=1).fit(X, Y)
    two = make(template=ARCS, max_iter=1).fit(X, Y)
    n = one._parameters.n_weights
    two.weights_ = np.concatenate([one.weights_, np.zeros(len(two.weights_) - n, np.float32)])
    assert two.sequence_log_probabilities(X, Y) == pytest.approx(one.sequence_log_probabilities(X, Y), abs=1e-12)
    (a,), (b,) = (m.predict_nbest([NEW], n=81) for m in (one, two))
    assert {tuple(y): p for y, p in a} == pytest.approx({tuple(y): p for y, p in b})


@pytest.mark.cases(1)
@pytest.mark.parametrize("template", [STATES, TRIPLES])
@pytest.mark.parametrize("constraints", [None, "scheme"])
def test_sgd_comes_near_the_optimum(template, constraints):
    words = {"template": template, "constraints": constraints, "l2": 0.1}
    best = crf(**words, tol=1e-9).fit(X * 20, Y * 20)
    quick = crf(**words, optimizer="sgd", max_iter=200, tol=0, random_state=0).fit(X * 20, Y * 20)
    assert quick.training_["loss"] == pytest.approx(best.training_["loss"], rel=0.02)
    (a,), (b,) = (m.predict_marginals([NEW]) for m in (best, quick))
    for t in range(len(NEW)):
        assert b[t] == pytest.approx(a[t], abs=0.03)


def test_warm_start():
    model = crf(warm_start=True, tol=1e-7).fit(X, Y)
    first = model.training_["loss"]
    model.fit(X, Y)
    assert model.history_[0]["loss"] == pytest.approx(first, rel=1e-5)


@pytest.mark.cases(1)
@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
@pytest.mark.parametrize("way", ["init", "warm_start"])
def test_starting_from_the_first_order(make, way, monkeypatch):
    """All old weights are carried over and triples begin at zero, so training goes on from the old loss."""
    old = make(order=1, template=ARCS, warm_start=way == "warm_start").fit(X, Y)
    loss = old.training_["loss"]
    monkeypatch.setattr(Likelihood, "noise", Noise(0.01, 0.0))
    new = make().fit(X, Y, init=old) if way == "init" else old.set_params(order=2, template=TRIPLES).fit(X, Y)
    assert new._space.graph.order == 2
    assert new.history_[0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert new.training_["loss"] < loss
    if make is crf:
        cold = crf(tol=1e-8).fit(X, Y)
        assert new.training_["loss"] == pytest.approx(cold.training_["loss"], rel=1e-3)
    back = make(order=1, template=ARCS).fit(X, Y, init=new)
    assert back._space.graph.order == 1
    assert back.predict(X) == Y


def test_latent_states_grow_by_splitting_those_of_a_trained_model(monkeypatch):
    plain = crf().fit(X, Y)
    monkeypatch.setattr(Likelihood, "noise", Noise(0.01, 0.0))
    copies = latent(n_latent=3, max_iter=1).fit(X, Y, init=plain)
    # Equal copies give every path of a labelling its old score, so a labelling of T tokens weighs 3^T times as much.
    penalty = 0.0
    for name, part in plain._parameters.slices.items():
        n_labels = {"state": 1, "edge": 2, "transitions": 2, "triple": 3, "triples": 3}[name]
        penalty += 0.5 * 0.3 * (3**n_labels - 1) * float(plain.weights_[part] @ plain.weights_[part])
    assert copies.history_[0]["loss"] == pytest.approx(plain.training_["loss"] + penalty, rel=1e-5)
    monkeypatch.undo()
    grown = latent(n_latent=3).fit(X, Y, init=plain)
    assert grown.predict(X) == Y
    assert grown.training_["loss"] < grown.history_[0]["loss"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("make", [crf, latent], ids=["plain", "latent"])
@pytest.mark.parametrize("constraints", [None, "scheme"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_data_with_few_tokens_or_labels(make, constraints, optimizer):
    words = {"constraints": constraints, "optimizer": optimizer, "template": "U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]"}
    single = make(**words).fit([["a"], ["b"]], [["B-X"], ["O"]])
    assert single.predict([["a"], ["b"], ["a", "b", "a"]]) == [["B-X"], ["O"], ["B-X", "O", "B-X"]]
    double = make(**words).fit([["a", "b"], ["b"], []], [["B-X", "I-X"], ["O"], []])
    assert double.predict([["a", "b"], ["b"]]) == [["B-X", "I-X"], ["O"]]
    alone = make(**words).fit([["a", "b", "c"], ["b"]], [["B-X", "B-X", "B-X"], ["B-X"]])
    assert alone.sequence_log_probabilities([["c", "a"]], [["B-X", "B-X"]]) == pytest.approx([0.0], abs=1e-12)


def test_dicts_and_arrays():
    tokens = [[{"w": w, "length": len(w) / 5} for w in s] for s in X]
    index = {w: i for i, w in enumerate(sorted({w for s in X for w in s}))}
    rows = [np.array([[float(index[w] == i) for i in range(len(index))] for w in s]) for s in X]
    for data in (tokens, rows):
        for make in (crf, latent):
            model = make(l2=0.05).fit(data, Y)
            assert model.predict(data) == Y
            labellings = [list(y) for y in itertools.product(LABELS, repeat=3)]
            p = np.exp(model.sequence_log_probabilities([data[0]] * 27, labellings))
            assert p.sum() == pytest.approx(1)
            assert max(p) == pytest.approx(np.exp(model.decode(data[:1])[0].log_probability))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [TRIPLES, "U:%x[0,0]\nT", "T:%x[0,0]"])
def test_lines_for_three_labels_need_the_second_order(template):
    with pytest.raises(OptionError, match=r"^template: T lines are features on three labels; use order=2$"):
        crf(order=1, template=template).fit(X, Y)


def test_too_many_triples_are_refused_before_training(monkeypatch):
    monkeypatch.setattr(states, "MAX_ARCS", 100)
    assert crf().fit(X, Y).predict(X) == Y
    with pytest.raises(OptionError, match=r"^6 states make 216 triples of states, more than 100; ") as caught:
        latent().fit(X, Y)
    assert "\n" not in str(caught.value)
    assert latent(order=1, template=ARCS).fit(X, Y).predict(X) == Y


# --- files and copies -------------------------------------------------------------------------------------------------


def test_a_look_inside(model):
    facts = model.describe(4)
    names = state_names(model._space)
    weights = model.weights_[model._parameters.slices["triples"]].reshape((len(names),) * 3)
    assert [row["weight"] for row in facts["triples"]] == pytest.approx(
        sorted(weights.reshape(-1).tolist(), key=lambda w: -abs(w))[:4]
    )
    for row in facts["triples"]:
        assert weights[tuple(names.index(row[k]) for k in ("first", "second", "third"))] == pytest.approx(row["weight"])
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


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with train.txt and test.txt (word, pos, chunk), a template, and two models of second order."""
    folder = tmp_path_factory.mktemp("order2")
    corpus = builtin_corpus(120, random_state=5, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 100)), folder / "train.txt")
    write_columns(corpus.take(slice(100, 120)), folder / "test.txt")
    (folder / "triples.tpl").write_text("U1:%x[0,0]\nU2:%x[0,1]\nB1:%x[0,1]\nT1:%x[0,1]\n")
    common = ["train", folder / "train.txt", "--columns", "word,pos,chunk", "--order", 2, "--threads", 1, "-q"]
    plain = [*common, "-o", folder / "crf", "--template", folder / "triples.tpl", "--iterations", 30]
    latent = [*common, "-o", folder / "lat", "--model", "latent-crf", "--latent", 2, "--template", "words"]
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
    tagged = [[line.split()[-1] for line in block.splitlines()] for block in out.strip().split("\n\n")]
    assert tagged == model.predict(test)
    for decoder in DECODERS:
        options = ["--decoder", decoder, "--constraints", "scheme", "--threads", 1]
        code, out, err = run("tag", folder / name, folder / "test.txt", *options)
        assert code == 0, err
        labels = [[line.split()[-1] for line in block.splitlines()] for block in out.strip().split("\n\n")]
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
    facts = json.loads(run("inspect", folder / name, "--top", 3, "--data", folder / "test.txt", "--json")[1])
    assert len(facts["triples"]) == 3
    assert facts["parameters"]["order"] == 2


def test_start_from_a_model_of_first_order(run, folder: Path, tmp_path: Path) -> None:
    common = ["train", folder / "train.txt", "--columns", "word,pos,chunk", "--template", "words", "--threads", 1, "-q"]
    assert run(*common, "-o", tmp_path / "one", "--iterations", 40)[0] == 0
    options = ["--start-from", tmp_path / "one", "--order", 2, "--iterations", 5]
    assert run(*common, "-o", tmp_path / "two", *options) == (0, "", "")
    one, two = (labelwright.load(tmp_path / name) for name in ("one", "two"))
    assert (one.order, two.order) == (1, 2)
    assert two.history_[0]["loss"] == pytest.approx(one.training_["loss"], rel=1e-4)
    assert two.training_["loss"] < one.training_["loss"]


def test_the_command_line_says_in_one_line_what_it_refuses(run, folder: Path, tmp_path: Path) -> None:
    common = ["train", folder / "train.txt", "-o", tmp_path / "m", "--columns", "word,pos,chunk", "-q"]
    code, out, err = run(*common, "--template", folder / "triples.tpl")
    assert (code, out) == (2, "")
    one_line(err, "template: T lines are features on three labels")
    code, out, err = run(*common, "--order", 3)
    assert (code, out) == (2, "")
    one_line(err, "order: expected 1 or 2, got 3")
    assert not (tmp_path / "m").exists()
