"""Training by PyTorch against the CPU's objective, optimum and refusals."""

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from problems import ARCS, LABELS, ORDERS, STATES, TRIPLES, Problem, bioes, dicts, words

from labelwright import CRF, LatentCRF, load
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.errors import LabelwrightError, OptionError
from labelwright.scale import Partitions
from labelwright.scoring.parameters import Trained
from labelwright.structures.supervision import PLAIN, Supervision

torch = pytest.importorskip("torch")

from labelwright.device import layout, likelihood, place  # noqa: E402
from labelwright.device.likelihood import TorchLikelihood  # noqa: E402
from labelwright.device.place import Place  # noqa: E402

WHERE = "cuda" if torch.cuda.is_available() else "torch"


def on_device(problem, dtype=torch.float64):
    """The objective of a problem on a device."""
    trained = Trained(problem.extractor, problem.space, problem.parameters, np.empty(0))
    data = problem.incidences, problem.offsets, problem.gold, problem.supervision, None
    return TorchLikelihood(Place(WHERE), trained, data, dtype)


def evaluated(objective, weights):
    at = objective.vectors.of(weights).to(objective.dtype)
    gradient = torch.empty_like(at)
    return objective(at, gradient), objective.vectors.numpy(gradient)


def agree(problem, objective, weights, rel=1e-9):
    loss, gradient = problem(weights)
    got, slopes = evaluated(objective, weights)
    assert got == pytest.approx(loss, rel=rel, abs=rel)
    np.testing.assert_allclose(slopes, gradient, atol=rel * max(1.0, float(np.abs(gradient).max())))


@st.composite
def problems(draw):
    """Small data with a model: orders, features, latent states, sets of labels, weights,
    constraints."""
    template, order = draw(st.sampled_from(ORDERS))
    make, labels, scheme = draw(
        st.sampled_from(
            [
                (words, LABELS, None),
                (words, LABELS, "iob2"),
                (bioes, None, "bioes"),
                (dicts, LABELS, None),
            ]
        )
    )
    X, y = make(
        draw(st.integers(1, 7)),
        seed=draw(st.integers(0, 99)),
        longest=draw(st.sampled_from([1, 3, 12])),
    )
    labels = labels or ["O", "B-X", "I-X", "E-X", "S-X"]
    rng, L = np.random.default_rng(draw(st.integers(0, 99))), len(labels)
    sets, often, costs = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    said = Supervision(
        np.concatenate([np.ones((1, L), np.bool_), np.arange(L)[None] > 0]) if sets else PLAIN.sets,
        rng.uniform(0, 3, len(y)) if often else None,
        rng.uniform(0.1, 4, sum(map(len, y))) if costs else None,
    )
    codes = [[labels.index(label) for label in s] for s in y]
    if sets:  # any label, or any but the first
        codes = [
            [c if rng.random() < 0.5 else L + int(c > 0 and rng.random() < 0.5) for c in s]
            for s in codes
        ]
    sizes = draw(st.sampled_from([1, 2, [1 + k % 3 for k in range(L)]]))
    cells = draw(st.sampled_from(["observed", "all"]))
    if make is dicts:
        template, order = "default", min(order, 2)
    settings = {"labels": labels, "sizes": sizes, "order": order, "supervision": said}
    return Problem(X, codes, template, cells, scheme, **settings)


@drawn(100)
@given(problems(), st.sampled_from([0.5, 5.0, 300.0]), st.sampled_from([(128, 64), (4, 2), (1, 1)]))
def test_loss_and_gradient_are_those_of_the_cpu(problem, scale, long):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "LONG", long[0])
        patch.setattr(layout, "BLOCK", long[1])
        objective = on_device(problem)
    weights = problem.random_weights(scale)
    agree(problem, objective, weights)
    agree(
        problem,
        on_device(problem, torch.float32),
        weights.astype(np.float32).astype(np.float64),
        2e-5,
    )


@pytest.mark.parametrize(("template", "order"), [(STATES, 1), (ARCS, 1), (TRIPLES, 2)])
def test_a_sentence_of_a_thousand_tokens(template, order):
    X, y = words(600, seed=7)
    X, y = (
        [[w for s in X for w in s][:1000], *X[:50]],
        [[label for s in y for label in s][:1000], *y[:50]],
    )
    problem = Problem(X, y, template, order=order)
    objective = on_device(problem, torch.float32)
    assert len(objective.shards[0][0].layout.steps) < 150
    agree(problem, objective, problem.random_weights().astype(np.float32).astype(np.float64), 1e-5)
    assert not objective.failed.any()


def test_shards_that_come_in_turn_count_the_same(monkeypatch):
    X, y = words(200, seed=3, longest=12)
    problem = Problem(X, y, ARCS, sizes=[1, 2, 3])
    monkeypatch.setattr(place, "SHARD_BYTES", {"cpu": 1, "cuda": 1})
    monkeypatch.setattr(likelihood, "FEW_TOKENS", 100)
    objective = on_device(problem)
    assert len(objective.shards) > 5
    agree(problem, objective, problem.random_weights())

    def laid(self, records):
        sizes = list(map(place._room, records))
        stage = self.zeros(max(sizes), dtype=torch.uint8)
        return [
            self._staged(record, size, stage) for record, size in zip(records, sizes, strict=True)
        ]

    monkeypatch.setattr(Place, "laid", laid)
    streamed = on_device(problem)
    assert all(bring is not None for _, bring in streamed.shards)
    weights = problem.random_weights()
    for (loss, gradient), (again, slopes) in [
        (evaluated(objective, weights), evaluated(streamed, weights))
    ] * 2:
        assert again == loss
        assert slopes.tobytes() == gradient.tobytes()


def test_the_precise_objective_is_the_one_made_in_float64():
    problem = Problem(*words(30, seed=3), ARCS, sizes=2)
    weights = problem.random_weights()
    agree(problem, on_device(problem, torch.float32).precise(), weights)
    assert on_device(problem).precise() is None


def test_without_memory_shards_become_smaller(monkeypatch):
    """A device whose memory is full takes shards of half the size, until there is nothing left to
    halve."""
    X, y = words(2000, seed=3, longest=6)
    problem, tries, enough = Problem(X, y, ARCS), [], 3

    def recorded(self, stages):
        tries.append(len(stages))
        if len(tries) < enough:
            raise torch.cuda.OutOfMemoryError("full")
        return stages

    monkeypatch.setattr(Place, "recorded", recorded)
    monkeypatch.setattr(place, "SHARD_BYTES", {"cpu": 1 << 20, "cuda": 1 << 20})
    monkeypatch.setattr(likelihood, "FEW_TOKENS", 64)
    agree(problem, on_device(problem), problem.random_weights())
    assert tries[0] < tries[1] < tries[2]
    enough = 10**9
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1e9, 2e9))
    with pytest.raises(
        OptionError,
        match=r"out of memory: the features need .* 1\.0 of 2\.0 GB are free; end other programs",
    ):
        on_device(problem)


MODELS = {
    "crf": CRF(template=ARCS, tol=1e-7),
    "owl-qn": CRF(template=STATES, l1=0.3, tol=1e-9),
    "order 2": CRF(template=TRIPLES, order=2, tol=1e-7),
    "latent": LatentCRF(2, template=STATES, random_state=1, tol=1e-6),
    "by label": LatentCRF({"O": 1, "B-X": 2, "I-X": 3}, template=ARCS, random_state=1, max_iter=20),
    "not shared": LatentCRF(2, template=STATES, random_state=1, share=False, l1=0.1, max_iter=20),
}


def twins(name):
    """The same model on the CPU, and by PyTorch."""
    model = MODELS[name]
    return [
        type(model)(**model.get_params() | {"device": device, "n_jobs": 1})
        for device in ("cpu", WHERE)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_optimum_is_that_of_the_cpu(name):
    X, y = words(60, seed=1, longest=9)
    one, two = (model.fit(X, y) for model in twins(name))
    assert two.training_["loss"] == pytest.approx(one.training_["loss"], rel=1e-5)
    same = [
        a == b
        for s, t in zip(one.predict(X), two.predict(X), strict=True)
        for a, b in zip(s, t, strict=True)
    ]
    assert np.mean(same) >= 0.99
    assert two.weights_.dtype == np.float32


def test_development_data_stop_a_run():
    X, y = words(60, seed=1, longest=9)
    one, two = (model.fit(X, y, dev=words(20, seed=2)) for model in twins("crf"))
    assert two.training_["best_dev"] == pytest.approx(one.training_["best_dev"], abs=0.02)
    assert two.training_["stopped"] == one.training_["stopped"]


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_a_run_that_is_resumed_ends_with_the_same_bits(tmp_path, l1):
    X, y = words(60, seed=1, longest=9)
    made = {"template": ARCS, "l1": l1, "device": WHERE, "tol": 1e-9}
    whole = CRF(**made, max_iter=25).fit(X, y)
    path = tmp_path / "run.checkpoint"
    CRF(**made, max_iter=9).fit(X, y, checkpoint=path, checkpoint_every=0)
    resumed = CRF(**made, max_iter=25).fit(X, y, checkpoint=path, resume=True)
    assert resumed.weights_.tobytes() == whole.weights_.tobytes()
    CRF(**made, max_iter=9).fit(X, y, checkpoint=path, checkpoint_every=0)
    with pytest.raises(LabelwrightError, match="made with other data or other settings"):
        CRF(**made | {"device": "cpu"}, max_iter=25).fit(X, y, checkpoint=path, resume=True)


def test_further_sentences():
    models = [
        CRF(template=STATES, device=d, tol=1e-8).fit(*words(40, seed=1)) for d in ("cpu", WHERE)
    ]
    for model in models:
        model.partial_fit(*words(20, seed=2))
    np.testing.assert_allclose(models[1].weights_, models[0].weights_, atol=2e-3)


def test_a_model_file_does_not_know_the_device(tmp_path):
    X, y = words(20, seed=1)
    CRF(device="torch", max_iter=3).fit(X, y).save(tmp_path / "model")
    assert load(tmp_path / "model").device == "cpu"
    assert b"torch" not in (tmp_path / "model").read_bytes()


def test_refusals(monkeypatch):
    X, y = words(6, seed=1)
    for settings, message in [
        ({"device": "gpu"}, r"device: expected cpu, cuda, cuda:1, mps, or torch"),
        (
            {"device": "torch", "optimizer": "sgd"},
            r"device='torch': optimizer='sgd' is trained on the CPU alone",
        ),
        (
            {"device": "torch", "entity_rate": 0.1},
            r"device='torch': entity_rate is trained on the CPU alone",
        ),
        (
            {"device": "torch", "prune_labels": 0.99},
            r"prune_labels: candidates are trained on the CPU, got device='torch'",
        ),
    ]:
        with pytest.raises(OptionError, match=message):
            CRF(**settings).fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(
            OptionError, match=r"device='cuda': PyTorch finds no such device; use device='cpu'"
        ):
            CRF(device="cuda").fit(X, y)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(OptionError, match=r"device='cuda:1': PyTorch finds 1 of this kind"):
        CRF(device="cuda:1").fit(X, y)
    monkeypatch.setattr(place, "torch", None)
    with pytest.raises(
        OptionError,
        match=r"PyTorch is missing; pip install 'labelwright\[gpu\]', or use device='cpu'",
    ):
        CRF(device="cuda").fit(X, y)


def test_workers_of_a_cluster_train_on_theirs(tmp_path):
    distributed = pytest.importorskip("distributed")
    corpus = builtin_corpus(40, random_state=3, columns=["word", "pos", "chunk"])
    write_columns(corpus, tmp_path / "train.txt")
    settings = {"max_iter": 300, "tol": 0, "l2": 10.0, "n_jobs": 1}
    here = CRF(**settings).fit(corpus)
    quiet = {"dashboard_address": None, "memory_limit": 0, "processes": False}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster,
        cluster.get_client() as c,
    ):
        parts = Partitions(str(tmp_path / "train.txt"), "word,pos,chunk", size=1000)
        there = CRF(device=WHERE, **settings).fit(parts, client=c)
    assert len(parts.parts()) > 2
    assert there.training_["loss"] == pytest.approx(here.training_["loss"], rel=1e-8)
