"""A CRF with pruned labels answers every question over its candidates, and knows what it has
missed."""

import itertools

import numpy as np
import pytest
from contract import CHECKS

from labelwright import CRF, Cascade
from labelwright.answers.pruned_sentences import PrunedChains
from labelwright.corpus import validate
from labelwright.errors import ModelFileError, OptionError
from labelwright.scoring.candidate_scores import CandidateScores
from taggers import CHUNKS, SENTENCES, Case

TEMPLATE = "U:%x[0,0]\nU:%x[-1,0]\nU:%x[1,0]/%x[0,0]\nB"
LABELS = [f"l{k}" for k in range(5)]
SMALL = {"template": TEMPLATE, "n_jobs": 1, "max_iter": 20, "random_state": 0}


def random_sentences(rng, n):
    return [[f"w{rng.integers(8)}" for _ in range(rng.integers(1, 6))] for _ in range(n)]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    X = random_sentences(rng, 25)
    y = [[LABELS[rng.integers(5)] for _ in x] for x in X]
    model = CRF(prune_labels=0.5, l2=0.1, **SMALL).fit(X, y)
    model.weights_ = (model.weights_ + rng.normal(0, 0.5, len(model.weights_))).astype(np.float32)
    return model


@pytest.fixture(scope="module")
def sentences():
    return random_sentences(np.random.default_rng(7), 20)


class Enumerated:
    """Every labelling of a sentence with its score, and whether all its labels are candidates."""

    def __init__(self, model, sentence):
        trained, data = model._trained, model.encode([sentence])
        scores = CandidateScores(trained, trained.space, data)
        self.chain = PrunedChains.of(scores, 0, 1).sentences[0]
        L, T = trained.space.n_labels, len(sentence)
        rows, sparse, parts = (
            scores.rows(0, T),
            trained.parameters.sparse,
            trained.parameters.slices,
        )
        pairs = np.zeros((L, L))
        pairs.reshape(-1)[sparse.codes] = model.weights_[parts["transitions"]]
        self.paths = np.array(list(itertools.product(range(L), repeat=T)))
        self.scores = rows[np.arange(T), self.paths].sum(axis=1)
        self.scores += sum(
            (pairs[self.paths[:, t - 1], self.paths[:, t]] for t in range(1, T)), 0.0
        )
        self.candidate = np.zeros((T, L), bool)
        lists = self.chain.lists
        self.candidate[np.repeat(np.arange(T), np.diff(lists.ptr)), lists.label] = True
        self.inside = self.candidate[np.arange(T), self.paths].all(axis=1)

    @property
    def log_z(self):
        return np.logaddexp.reduce(self.scores)

    @property
    def log_z_of_candidates(self):
        return np.logaddexp.reduce(self.scores[self.inside])


def test_sums_and_best_labellings_are_those_of_candidates(model, sentences):
    for sentence in sentences:
        every = Enumerated(model, sentence)
        inside, log_z = every.scores[every.inside], every.log_z_of_candidates
        assert every.chain.log_z() == pytest.approx(log_z)
        expected = np.zeros_like(every.candidate, float)
        for t in range(len(sentence)):
            expected[t] = np.bincount(
                every.paths[every.inside, t], np.exp(inside - log_z), expected.shape[1]
            )
        np.testing.assert_allclose(every.chain.marginals(), expected, atol=1e-12)
        ranked = model.predict_nbest([sentence], 4)[0]
        best = np.sort(inside)[::-1][: len(ranked)]
        np.testing.assert_allclose([p for _, p in ranked], np.exp(best - log_z))


def test_pairs_of_neighbouring_labels(model, sentences):
    """What a layer above reads: P(first, then second) among the candidates."""
    for sentence in sentences:
        chain, token = Enumerated(model, sentence).chain, np.repeat(np.arange(1, len(sentence)), 25)
        first, second = np.tile(np.indices((5, 5)).reshape(2, -1), len(sentence) - 1)
        pairs = chain.pair_marginals(token, first, second).reshape(-1, 5, 5)
        marginals = np.array([list(row.values()) for row in model.predict_marginals([sentence])[0]])
        np.testing.assert_allclose(pairs.sum(axis=2), marginals[:-1], atol=1e-9)
        np.testing.assert_allclose(pairs.sum(axis=1), marginals[1:], atol=1e-9)


def test_bounds_hold_for_all_that_was_missed(model, sentences):
    for sentence in sentences:
        every = Enumerated(model, sentence)
        proof = every.chain._proof
        for t, y in np.argwhere(~every.candidate):
            assert proof.missed.scores[t, y] >= every.scores[every.paths[:, t] == y].max() - 1e-9
        assert 0 < proof.mass <= np.exp(every.log_z_of_candidates - every.log_z) + 1e-12


def test_proofs_are_right(model, sentences):
    fast, exact = model.decode(sentences), model.decode(sentences, "exact")
    for sentence, found, proven in zip(sentences, fast, exact, strict=True):
        every = Enumerated(model, sentence)
        assert found.score == pytest.approx(every.scores[every.inside].max())
        if found.exact:
            assert found.score == pytest.approx(every.scores.max())
        else:
            assert (
                found.gap
                >= np.exp(every.scores.max() - every.log_z)
                - np.exp(found.score - every.log_z)
                - 1e-12
            )
        assert proven.exact  # candidates were added until it is
        assert proven.score == pytest.approx(every.scores.max())
    assert 0 < sum(record.exact for record in fast) < len(fast)


def test_a_labelling_outside_the_candidates_has_a_probability(model, sentences):
    sentence = max(sentences, key=len)
    every = Enumerated(model, sentence)
    outside = every.paths[~every.inside][0]
    labels = [[model.classes_[y] for y in outside]]
    candidate = every.candidate.copy()
    candidate[np.arange(len(outside)), outside] = True
    among = candidate[np.arange(len(outside)), every.paths].all(axis=1)
    expected = every.scores[~every.inside][0] - np.logaddexp.reduce(every.scores[among])
    assert model.sequence_log_probabilities([sentence], labels)[0] == pytest.approx(expected)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_label_left_is_one_clear_error(model, place):
    forced = [[LABELS, LABELS, LABELS]]
    forced[0][place] = []
    with pytest.raises(OptionError, match="no labelling satisfies"):
        model.decode([["w1", "w2", "w3"]], forced=forced)


def test_the_zero_order_model_is_part_of_the_scores(model, sentences):
    trained, sentence = model._trained, max(sentences, key=len)
    data, zero = model.encode([sentence]), trained.pruning
    x, (ptr, column) = data.incidences["state"], trained.parameters.cells["state"]
    expected = np.tile(zero.bias.astype(np.float64), (len(sentence), 1))
    for t in range(len(sentence)):
        shared = [
            f for k in x.keys[t] if k >= 0 for f in x.key_feature[x.key_ptr[k] : x.key_ptr[k + 1]]
        ]
        for f in [*shared, *x.token_feature[x.token_ptr[t] : x.token_ptr[t + 1]]]:
            for c in range(ptr[f], ptr[f + 1]):
                expected[t, column[c]] += float(trained.weights[c]) + float(zero.weights[c])
    np.testing.assert_allclose(
        CandidateScores(trained, trained.space, data).rows(0, len(sentence)), expected
    )


def test_labels_that_were_pruned_stay_improbable():
    X, y = many_labels(80)
    X, y = X * 3, y * 3
    model = CRF(prune_labels=0.9, **SMALL).fit(X, y)
    fast, exact = model.decode(X), model.decode(X, "exact")
    assert np.mean([record.exact for record in fast]) > 0.9
    assert [record.labels for record in fast] == [record.labels for record in exact]


def test_a_file_of_order_2_is_refused(model):
    tensors, header = model.pack()
    with pytest.raises(
        ModelFileError, match="pruned labels of order 2 are gone; train again with order=1"
    ):
        CRF.unpack(tensors, header | {"order": 2})


def test_a_file_of_before_has_no_zero_order_scores(model, sentences):
    tensors, header = model.pack()
    del header["pruning"]["prior"]
    old = CRF.unpack(tensors, header)
    assert old._trained.pruning.prior == 0.0
    data = old.encode(sentences)
    slots = PrunedChains.of(
        CandidateScores(old._trained, old._trained.space, data), 0, 1
    ).scored.slots
    plain = model._trained._replace(pruning=model._trained.pruning._replace(prior=0.0))
    np.testing.assert_array_equal(
        slots, PrunedChains.of(CandidateScores(plain, plain.space, data), 0, 1).scored.slots
    )


def test_with_all_labels_it_is_the_plain_crf(monkeypatch):
    monkeypatch.setattr("labelwright.learn.pruned._cutoff", lambda *_: (1e9, 1.0))
    monkeypatch.setattr("labelwright.learn.pruned.PRIOR", 0.0)
    X, y = SENTENCES, CHUNKS
    settings = {**SMALL, "max_iter": 60, "tol": 0.0}
    plain = CRF(prune_labels="off", **settings).fit(X, y)
    pruned = CRF(prune_labels=1.0, **settings).fit(X, y)
    assert pruned.training_["loss"] == pytest.approx(plain.training_["loss"], rel=1e-3)
    for ours, theirs in zip(pruned.decode(X), plain.decode(X), strict=True):
        assert ours.labels == theirs.labels
        assert ours.exact


def test_a_label_scheme_is_kept():
    model = CRF(prune_labels=0.9, constraints="scheme", **SMALL).fit(SENTENCES, CHUNKS)
    free = CRF(prune_labels=0.9, **SMALL).fit(SENTENCES, CHUNKS)
    for predicted in (
        model.predict(SENTENCES),
        [d.labels for d in free.decode(SENTENCES, constraints="scheme")],
    ):
        assert not validate(predicted, "iob2")
    spans = model.predict_spans(SENTENCES)
    assert all(0 < span.probability <= 1 for sentence in spans for span in sentence)
    assert any(spans)


@pytest.mark.cases(10)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, tmp_path):
    check(
        Case("crf", lambda: CRF(prune_labels=0.9, max_iter=4, n_jobs=1, random_state=0)), tmp_path
    )


# --- settings -------------------------------------------------------------------------------------


def many_labels(n):
    return [["w", f"x{k}"] for k in range(n)], [["a", f"l{k}"] for k in range(n)]


def test_auto_prunes_where_there_are_many_labels():
    few, many = CRF(**SMALL).fit(*many_labels(20)), CRF(**SMALL).fit(*many_labels(220))
    assert "pruning" not in few.training_
    record = many.training_["pruning"]
    assert record["candidates"] < 220
    assert any("labels per token" in phrase for phrase in many._summary().run)
    assert "pruning" not in CRF(prune_labels="off", **SMALL).fit(*many_labels(220)).training_


def test_a_model_with_pruned_labels_can_be_made_smaller():
    X, y = many_labels(60)
    model = CRF(prune_labels=0.5, l1=0.01, **SMALL).fit(X, y)
    assert (model.weights_ == 0).any()
    for prune, bits in ((0.0, 32), (0.01, 16), (2.0, 8)):
        small = model.compressed(prune, bits)
        assert len(small.weights_) < len(model.weights_) or prune < 2
        assert len(small._trained.pruning.weights) == len(small._parameters.cells["state"].column)
        assert [len(labels) for labels in small.predict(X)] == [len(x) for x in X]
    assert model.compressed(0.0, 32).predict(X) == model.predict(X)


def test_layers_that_learn_together_are_not_pruned(monkeypatch):
    monkeypatch.setattr("labelwright.taggers.chain_structure.MANY", 2)
    X, y = many_labels(12)
    layers = [("a", CRF(**SMALL)), ("b", CRF(**SMALL))]
    model = Cascade(layers, max_iter=2).fit(X, {"a": y, "b": y})
    assert all(layer._trained.pruning is None for layer in model.layers_.values())
    layers[0][1].set_params(prune_labels=0.9)
    with pytest.raises(OptionError, match="layers: a: joint training has no pruned labels"):
        Cascade(layers, max_iter=2).fit(X, {"a": y, "b": y})


def test_a_share_that_is_too_much_to_ask_for_is_announced(monkeypatch):
    monkeypatch.setattr("labelwright.learn.pruned.MEAN_CANDIDATES", 1)
    with pytest.warns(
        RuntimeWarning, match=r"prune_labels=1.0: candidates have .* % of held-out gold labels"
    ):
        CRF(prune_labels=1.0, **SMALL).fit(*many_labels(60))


def test_an_unpruned_model_of_absurd_size_is_announced(monkeypatch):
    monkeypatch.setattr("labelwright.taggers.chain_structure.PATIENCE", 1e-6)
    with pytest.warns(
        RuntimeWarning, match="labels without pruning: about .* s for each iteration.*prune_labels="
    ):
        CRF(prune_labels="off", **SMALL).fit(SENTENCES, CHUNKS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prune_labels": 0.0}, "prune_labels: expected a share"),
        ({"prune_labels": "some"}, "prune_labels: expected a share"),
        ({"prune_labels": 0.9, "optimizer": "sgd"}, "optimizer"),
        ({"prune_labels": 0.9, "order": 2}, "candidates are pairs of labels, got order=2"),
        ({"prune_labels": 0.9, "template": "U:%x[0,0]\nB:%x[0,0]"}, "pairs or triples"),
    ],
)
def test_what_cannot_be_pruned_is_refused(settings, message):
    with pytest.raises(OptionError, match=message):
        CRF(**{**SMALL, **settings}).fit(SENTENCES, CHUNKS)


def test_training_again_starts_from_the_weights():
    model = CRF(prune_labels=0.9, **{**SMALL, "max_iter": 200}).fit(SENTENCES, CHUNKS)
    again = CRF(prune_labels=0.9, **{**SMALL, "max_iter": 1}).fit(SENTENCES, CHUNKS, init=model)
    assert again.history_[0]["loss"] == pytest.approx(model.training_["loss"], rel=1e-3)
