"""Settings with numbers beyond all sense: they work, or are refused in one line."""

import contextlib

import numpy as np
import pytest

import labelwright
from labelwright.errors import LabelwrightError, OptionError
from labelwright.settings import Number, Whole, settings_of
from labelwright.taggers.kinds import NumberOrAuto, StatesByLabel, Threads

X = [["Mary", "ran"], ["in", "London"], ["Mary", "left"]]
Y = [["B-PER", "O"], ["O", "B-LOC"], ["B-PER", "O"]]
TAGGERS = ("CRF", "LatentCRF", "Perceptron", "LatentPerceptron", "SemiCRF", "MemoryTagger")
NUMBERS = (Whole, Number, StatesByLabel, Threads, NumberOrAuto)
REPEATED = ("n_restarts", "max_iter")  # only the time of training depends on them
LARGE = (2**31, 2**32 + 1, 2**63, 10**30, 10**300)
SETTINGS = [
    (tagger, name)
    for tagger in TAGGERS
    for name, setting in settings_of(getattr(labelwright, tagger)).items()
    if isinstance(setting.kind, NUMBERS) and name not in REPEATED
]


def made(tagger, **settings):
    tagger = getattr(labelwright, tagger)
    short = {"max_iter": 3, "random_state": 0, "n_jobs": 1}
    return tagger(**{name: value for name, value in short.items() if name in settings_of(tagger)} | settings)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", LARGE, ids="{:.1e}".format)
@pytest.mark.parametrize(("tagger", "name"), SETTINGS)
def test_large_numbers_work_or_are_refused_in_one_line(tagger, name, value):
    with contextlib.suppress(LabelwrightError):  # whose text is one line
        model = made(tagger, **{name: value}).fit(X, Y)
        assert [len(labels) for labels in model.predict(X)] == [2, 2, 2]
        assert np.isfinite(getattr(model, "weights_", 0)).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("settings", [{"optimizer": "sgd"}, {"l1": 10**30}, {"prune_labels": 0.9}], ids=str)
def test_a_whole_number_is_a_penalty_of_any_size(settings):
    assert np.isfinite(made("CRF", l2=10**300, **settings).fit(X, Y).weights_).all()


@pytest.mark.parametrize("tagger", ["LatentCRF", "LatentPerceptron", "SemiCRF"])
def test_more_latent_states_than_there_is_room_for(tagger):
    with pytest.raises(OptionError, match=r"^n_latent: expected .*1,?000,?000.*, got 4294967296$"):
        made(tagger, n_latent=2**32).fit(X, Y)
    with pytest.raises(OptionError, match=r"pairs of states, more than 134,217,728; use fewer"):
        made(tagger, n_latent=10**6).fit(X, Y)
