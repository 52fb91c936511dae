"""Training that is killed, interrupted or prolonged and resumed, or done by several threads: to the
very same model."""

import signal
from functools import partial

import pytest
from problems import ARCS, NOISY, STATES, TRIPLES, words

import labelwright
from labelwright import CRF, Cascade, LatentCRF, LatentPerceptron, Perceptron, SemiCRF
from labelwright.corpus import builtin_corpus
from labelwright.errors import ModelFileError
from labelwright.learn import objective
from labelwright.learn.monitor import Monitor

CORPUS = builtin_corpus(20, random_state=3, columns=["word", "pos", "chunk"])
LOW, HIGH = "U1:%x[0,0]\nB", "U1:%x[0,0]\nUy:%y[0]\nB"
DEV, FEW = words(10, 6), words(6, 1)
SEED = {"n_jobs": 1, "random_state": 1}
QUICK = {"template": ARCS, "tol": 0, "max_iter": 8, **SEED}
SHORT = {"template": STATES, "max_iter": 4, **SEED}


def joint(dev=None, **settings):
    layers = [
        ("pos", CRF(LOW, max_iter=4)),
        ("chunk", LatentCRF(2, HIGH, max_iter=3, n_restarts=2)),
    ]
    return Cascade(layers, **{"max_iter": 4, "n_jobs": 1, "random_state": 0} | settings)


def perceptrons():
    layers = [("pos", Perceptron(LOW, max_iter=2)), ("chunk", Perceptron(HIGH, max_iter=3))]
    return Cascade(layers, passing="best", n_jobs=1, random_state=0)


RUNS = {  # what makes an untrained model, and whether it has development data
    "lbfgs": (partial(CRF, **QUICK), False),
    "lbfgs, dev": (partial(CRF, **QUICK | {"l2": 0.01, "max_iter": 24}), True),
    "lbfgs in both precisions": (
        partial(CRF, **QUICK | {"l2": 1e-4, "tol": 1e-10, "max_iter": 400}),
        False,
    ),
    "owlqn in both precisions": (
        partial(CRF, l1=1e-3, **QUICK | {"l2": 1e-4, "tol": 1e-10, "max_iter": 400}),
        False,
    ),
    "owlqn": (partial(CRF, l1=0.2, l2=0.1, **QUICK), False),
    "sgd": (partial(CRF, optimizer="sgd", **QUICK), False),
    "averaged sgd": (partial(CRF, optimizer="sgd", averaging="avg", **QUICK), False),
    "entity rate": (partial(CRF, entity_rate=0.4, **QUICK), False),
    "segments": (partial(SemiCRF, **QUICK | {"template": STATES}), False),
    "latent": (partial(LatentCRF, 2, **QUICK), False),
    "latent, order 2": (
        partial(LatentCRF, 2, order=2, l1=0.2, **QUICK | {"template": TRIPLES}),
        False,
    ),
    "latent sgd": (partial(LatentCRF, 2, optimizer="sgd", **QUICK), False),
    "restarts": (partial(LatentCRF, 2, n_restarts=3, **SHORT), False),
    "perceptron": (partial(Perceptron, averaging="none", **SHORT), False),
    "averaged perceptron": (partial(Perceptron, order=2, averaging="avg", **SHORT), True),
    "passive-aggressive": (partial(Perceptron, update="passive-aggressive", **SHORT), True),
    "arow": (partial(Perceptron, update="arow", **SHORT), False),
    "latent perceptron": (
        partial(LatentPerceptron, 2, reset_every=3, all_passes=True, **SHORT),
        True,
    ),
    "restarts of a perceptron": (
        partial(LatentPerceptron, 2, start="split", n_restarts=2, **SHORT),
        True,
    ),
    "start by likelihood": (
        partial(LatentPerceptron, 2, start="likelihood", all_passes=True, **SHORT),
        False,
    ),
    "cascade": (joint, True),
    "jackknife": (partial(joint, jackknife=True), False),
    "cascade of perceptrons": (perceptrons, True),
}
every_run = pytest.mark.parametrize("run", RUNS)
CASCADES = ("cascade", "jackknife", "cascade of perceptrons")


class KilledError(Exception):
    """Instead of a signal."""


def die():
    raise KilledError


class Watch:
    """Notes the iterations of all models, and does something at one of them."""

    def __init__(self, at=0, act=None):
        self.at, self.act, self.seen = at, act, []

    def layer(self, name, model):
        def progress(record, limit):
            self.seen.append((name, record["iteration"]))
            if len(self.seen) == self.at:
                self.act()

        return progress


def fit(run, watch=None, settings=None, **place):
    make, has_dev = RUNS[run]
    data = (
        (CORPUS.take(slice(0, 12)),) if run in CASCADES else FEW if "precisions" in run else NOISY
    )
    dev = (CORPUS.take(slice(12, 20)) if run in CASCADES else DEV) if has_dev else None
    watch = watch or Watch()
    told = {"layer_progress": watch.layer} if run in CASCADES else {}
    model = make().set_params(**settings or {})
    return model.fit(*data, dev=dev, progress=watch.layer("", None), **told, **place)


def learnt(model):
    """The weights of a model, and all that it recorded but the time."""
    layers = model.layers_.values() if isinstance(model, Cascade) else [model]
    names = (
        "convergence",
        "restarts",
        "best_dev",
        "best_iteration",
        "iterations",
        "stopped",
        "loss",
    )
    records = [{name: layer.training_.get(name) for name in names} for layer in layers]
    history = [
        {name: value for name, value in record.items() if name != "seconds"}
        for record in model.history_
    ]
    return [layer.weights_.tobytes() for layer in layers], records, history


@pytest.mark.cases(12)
@every_run
def test_a_killed_run_is_resumed_to_the_same_model(run, tmp_path):
    watch = Watch()
    whole = fit(run, watch)
    n = len(watch.seen)
    for at in (1, n // 2, n):
        place = {"checkpoint": tmp_path / f"{at}", "checkpoint_every": 0}
        with pytest.raises(KilledError):
            fit(run, Watch(at, die), **place)
        rest = Watch()
        resumed = fit(run, rest, resume=True, **place | {"checkpoint_every": 0 if at == n else 1e9})
        assert learnt(resumed) == learnt(whole)
        assert len(rest.seen) <= n - at + 1  # what is finished is not trained again
        assert run not in CASCADES or rest.seen == watch.seen[at - 1 :]
    rest = Watch()
    again = fit(run, rest, resume=True, **place)
    assert learnt(again) == learnt(whole)
    # a finished run is not trained again, unless its limit may be raised
    assert len(rest.seen) <= 1


@pytest.mark.cases(8)
@every_run
def test_a_signal_leaves_a_usable_model_and_a_checkpoint(run, tmp_path):
    watch, before = Watch(), signal.getsignal(signal.SIGINT)
    whole = fit(run, watch)
    X = CORPUS if run in CASCADES else NOISY[0]
    for at in (1, len(watch.seen) // 2):
        place = tmp_path / f"{at}"
        interrupt = Watch(at, lambda: signal.raise_signal(signal.SIGINT))
        model = fit(run, interrupt, checkpoint=place, checkpoint_every=1e9)
        assert signal.getsignal(signal.SIGINT) is before
        assert model.training_.get("interrupted") or model.training_["stopped"] == "interrupted"
        model.save(tmp_path / "m")
        assert labelwright.load(tmp_path / "m").predict(X) == model.predict(X)
        assert learnt(fit(run, checkpoint=place, resume=True)) == learnt(whole)


@pytest.mark.cases(8)
@every_run
def test_threads_change_no_bit(run, monkeypatch):
    for name, size in {
        "BATCH_BYTES": 1 << 10,
        "ARC_BYTES": 1 << 11,
        "SHARD_BYTES": 1 << 12,
    }.items():
        monkeypatch.setattr(objective, name, size)  # so that there are many pieces of work
    assert learnt(fit(run, settings={"n_jobs": 3})) == learnt(fit(run))


def test_the_second_signal_stops_at_once():
    def interrupt():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit("lbfgs", Watch(1, interrupt))


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    "run", ["lbfgs", "owlqn", "sgd", "entity rate", "segments", "perceptron", "latent"]
)
def test_a_run_may_be_prolonged(run, tmp_path):
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 0}
    fit(run, settings={"max_iter": 2}, **place)
    assert learnt(fit(run, resume=True, **place)) == learnt(fit(run))


OTHERS = {
    "lbfgs": [{"l2": 2.0}, {"template": STATES}, {"cells": "all"}, {"optimizer": "sgd"}],
    "latent": [{"random_state": 2}, {"n_latent": 3}, {"order": 2}],
    "perceptron": [
        {"averaging": "mavg"},
        {"margin": 1.0},
        {"random_state": 2},
        {"shuffle": False},
        {"order": 2},
    ],
    "cascade": [{"cut": 0.1}, {"jackknife": True}],
}


@pytest.mark.parametrize("run", OTHERS)
def test_checkpoints_of_other_runs_are_refused(run, tmp_path):
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 0}
    fit(run, settings={"max_iter": 2}, **place)
    refused = pytest.raises(ModelFileError, match="other data or other settings")
    for settings in OTHERS[run]:
        with refused:
            fit(run, settings=settings, resume=True, **place)
    # these change nothing
    fit(run, settings={"n_jobs": 2, "verbose": 0, "max_iter": 3}, resume=True, **place)


@pytest.mark.parametrize("data", [words(14, 6), (NOISY[0], [s[::-1] for s in NOISY[1]])])
@pytest.mark.parametrize("dev", [None, (DEV[0][1:], DEV[1][1:])])
def test_other_data_are_refused(data, dev, tmp_path):
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 0}
    CRF(STATES, n_jobs=1, max_iter=2).fit(*NOISY, dev=DEV, **place)
    for given in ((*data, DEV), (*NOISY, dev)):
        with pytest.raises(ModelFileError, match="other data or other settings"):
            CRF(STATES, n_jobs=1, max_iter=4).fit(*given[:2], dev=given[2], resume=True, **place)


def test_damaged_foreign_and_missing_checkpoints(tmp_path):
    file = tmp_path / "run.checkpoint"
    model = CRF(STATES, n_jobs=1, max_iter=3).fit(*NOISY, checkpoint=tmp_path / "none", resume=True)
    assert model.training_["iterations"] == 3
    model.save(file)
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        CRF(STATES).fit(*NOISY, checkpoint=file, resume=True)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match=r"run\.checkpoint"):
        CRF(STATES).fit(*NOISY, checkpoint=file, resume=True)


class Interrupted(Monitor):
    """Ctrl-C after some iterations of all models together, those to start from included."""

    left = 0

    def report(self, **values):
        type(self).left -= 1
        self.interrupted = type(self).left == 0
        super().report(**values)


@pytest.mark.cases(2)
@pytest.mark.parametrize(("run", "after"), [("start by likelihood", 1), ("start by likelihood", 3)])
def test_a_signal_leaves_what_the_model_to_start_from_has_learnt(run, after, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        for module in ("crf", "linear"):
            patch.setattr(f"labelwright.taggers.{module}.Monitor", Interrupted)
        Interrupted.left = after
        model = fit(run, checkpoint=tmp_path / "c", checkpoint_every=0)
    assert model.training_["stopped"] == "interrupted"
    assert len(model.predict(NOISY[0])) == len(NOISY[0])
    assert learnt(fit(run, checkpoint=tmp_path / "c", resume=True)) == learnt(fit(run))
