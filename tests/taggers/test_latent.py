"""The latent CRF of both orders as users meet it: its answers against enumeration of all latent paths, its files."""

import numpy as np
import pytest
from tiny import ARCS, STATES, TRIPLES, X, Y

import labelwright
from labelwright import LatentCRF
from labelwright.errors import OptionError

UNEVEN = {"B-NP": 2, "I-NP": 1, "O": 3}


# --- answers ----------------------------------------------------------------------------------------------------------


def zeroed(labels, n_latent):
    """A model that knows nothing: all its weights are 0."""
    model = LatentCRF(n_latent, template="U:%x[0,0]\nB", n_jobs=1, max_iter=1).fit([["a"] * len(labels)], [labels])
    model.weights_ = np.zeros_like(model.weights_)
    return model


def test_an_untrained_model():
    model = zeroed(["O", "B-X", "I-X", "B-Y", "I-Y"], 3)
    sentence = ["a"] * 30
    for decoder in ("exact", "ldi", "mbr", "viterbi", "marginal"):
        (found,) = model.decode([sentence], decoder)
        assert len(found.labels) == 30
        assert found.log_probability == pytest.approx(-30 * np.log(5))
        assert not found.exact or decoder in ("exact", "mbr")
    assert model.decode([sentence])[0].exact
    (nbest,) = model.predict_nbest([sentence], n=20)
    assert [p for _, p in nbest] == pytest.approx([5.0**-30] * 20)
    assert len({tuple(y) for y, _ in nbest}) == 20
    (marginals,) = model.predict_marginals([sentence])
    assert all(p == pytest.approx(0.2) for row in marginals for p in row.values())
    (latent,) = model.predict_marginals([sentence], latent=True)
    assert all(p == pytest.approx(1 / 15) for row in latent for p in row.values())


# --- settings, copies and files ---------------------------------------------------------------------------------------


def test_numbers_per_label():
    model = LatentCRF(UNEVEN, template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert np.diff(model._space.first).tolist() == [UNEVEN[label] for label in model.classes_]
    names = list(model.predict_marginals([["dog"]], latent=True)[0][0])
    assert names == ["B-NP#1", "B-NP#2", "I-NP", "O#1", "O#2", "O#3"]
    with pytest.raises(
        OptionError, match=r"n_latent: no label 'never seen' in the training data, which have B-NP, I-NP, O$"
    ):
        LatentCRF(UNEVEN | {"never seen": 7}, template=STATES, n_jobs=1).fit(X, Y)
    numpy_number = LatentCRF(np.int64(2), template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert numpy_number._space.n_states == 6


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "kind", ["plain", "uneven", "numpy", "l1", "constrained", "restarts", "order 2", "order 2, constrained"]
)
def test_files_keep_everything(kind, tmp_path):
    more = {
        "plain": {},
        "uneven": {"n_latent": UNEVEN},
        "numpy": {"n_latent": np.int64(3)},
        "l1": {"l1": 0.4},
        "constrained": {"constraints": "scheme"},
        "restarts": {"n_restarts": 2, "max_iter": 5},
        "order 2": {"order": 2, "template": TRIPLES},
        "order 2, constrained": {"order": 2, "template": TRIPLES, "constraints": "scheme", "l1": 0.2},
    }[kind]
    model = LatentCRF(**{"n_latent": 2, "template": ARCS, "n_jobs": 1, "random_state": 0} | more).fit(X, Y)
    model.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model")
    assert type(again) is LatentCRF
    same = {"template": ARCS, "n_jobs": None}
    assert again.get_params() | same == model.get_params() | same
    assert again.predict_marginals(X, latent=True) == model.predict_marginals(X, latent=True)
    assert again.predict_nbest(X) == model.predict_nbest(X)
    assert again.decode(X) == model.decode(X)
    assert (again.classes_, again.scheme_) == (model.classes_, model.scheme_)
    assert again.training_ == model.training_
    assert again.history_ == model.history_
    again.fit(X, Y)  # a loaded model can be trained again
    assert again.weights_.tobytes() == model.weights_.tobytes()
