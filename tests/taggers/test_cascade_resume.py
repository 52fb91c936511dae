"""Cascades that are killed and resumed: the layers, the jackknife and joint training."""

import os
import signal

import numpy as np
import pytest

from labelwright import CRF, Cascade, LatentCRF, Perceptron
from labelwright.corpus import builtin_corpus
from labelwright.errors import ModelFileError

CORPUS = builtin_corpus(20, random_state=3, columns=["word", "pos", "chunk"])
DEV = builtin_corpus(8, random_state=4, columns=["word", "pos", "chunk"])
LOW, HIGH = "U1:%x[0,0]\nB", "U1:%x[0,0]\nUy:%y[0]\nB"


def joint(**settings):
    layers = [("pos", CRF(LOW, max_iter=4)), ("chunk", LatentCRF(2, HIGH, max_iter=3, n_restarts=2))]
    return Cascade(layers, **{"max_iter": 4, "n_jobs": 1, "random_state": 0} | settings)


def perceptrons():
    layers = [("pos", Perceptron(LOW, max_iter=2)), ("chunk", Perceptron(HIGH, max_iter=3))]
    return Cascade(layers, passing="best", n_jobs=1, random_state=0)


class KilledError(Exception):
    """Instead of a signal."""


class Watch:
    """Notes which layers are in training, and does something at an iteration."""

    def __init__(self, at=0, act=None):
        self.at, self.act, self.seen = at, act, []

    def layer(self, name, model):
        def progress(record, limit):
            self.seen.append(name)
            if len(self.seen) == self.at:
                self.act()

        return progress

    def options(self):
        return {"layer_progress": self.layer, "progress": self.layer("joint", None)}


def die():
    raise KilledError


def weights(cascade):
    return [layer.weights_.tobytes() for layer in cascade.layers_.values()]


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("make", "dev"),
    [(joint, None), (joint, DEV), (lambda: joint(jackknife=True), None), (perceptrons, DEV)],
    ids=["joint", "dev", "jackknife", "perceptrons"],
)
def test_a_killed_cascade_is_resumed_to_the_same_weights(tmp_path, make, dev):
    whole, watch = make(), Watch()
    whole.fit(CORPUS, dev=dev, **watch.options())
    n = len(watch.seen)
    for at in {2, n // 2, n - 1, n}:
        place = {"checkpoint": tmp_path / f"{at}", "checkpoint_every": 0, "dev": dev}
        with pytest.raises(KilledError):
            make().fit(CORPUS, **Watch(at, die).options(), **place)
        rest = Watch()
        resumed = make().fit(CORPUS, resume=True, **rest.options(), **place)
        assert weights(resumed) == weights(whole)
        assert rest.seen == watch.seen[at - 1 :]  # finished layers and iterations are not trained again
        assert resumed.history_[-1]["loss"] == whole.history_[-1]["loss"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("at", [2, 8, 14])
def test_a_signal_leaves_a_usable_cascade_and_a_checkpoint(tmp_path, at):
    whole = joint().fit(CORPUS)
    watch = Watch(at, lambda: signal.raise_signal(signal.SIGINT))
    model = joint().fit(CORPUS, checkpoint=tmp_path / "c", checkpoint_every=1000, **watch.options())
    assert model.training_["interrupted"] is True
    assert set(model.predict(CORPUS.take(slice(0, 2)))) == {"pos", "chunk"}
    assert len(os.listdir(tmp_path)) == 1  # what stands on the interrupted layer is not saved
    resumed = joint().fit(CORPUS, checkpoint=tmp_path / "c", resume=True)
    assert weights(resumed) == weights(whole)


def test_other_data_and_settings_are_refused(tmp_path):
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 0}
    joint().fit(CORPUS, dev=DEV, **place)
    for make, data, dev in (
        (lambda: joint(cut=0.1), CORPUS, DEV),
        (joint, CORPUS.take(slice(0, 19)), DEV),
        (joint, CORPUS, DEV.take(slice(0, 7))),
        (lambda: joint(jackknife=True), CORPUS, DEV),
    ):
        with pytest.raises(ModelFileError, match="made with other data or other settings"):
            make().fit(data, dev=dev, resume=True, **place)
    assert len(joint(max_iter=6).fit(CORPUS, dev=DEV, resume=True, **place).history_) == 7
    np.testing.assert_array_equal(  # n_jobs changes nothing
        joint(n_jobs=2).fit(CORPUS, dev=DEV, resume=True, **place).layers_["pos"].weights_.shape,
        joint().fit(CORPUS, dev=DEV).layers_["pos"].weights_.shape,
    )
