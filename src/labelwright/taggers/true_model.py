"""The true model of the synthetic data: what a learner could know at best."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.generated import make_hmm
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import learn
from labelwright.scoring.parameters import Trained, make_parameters
from labelwright.structures.states import state_space
from labelwright.taggers.crf import LatentCRF

TEMPLATE = "U:%x[0,0]\nB"
LONGEST = 16  # tokens, all of whose sequences of two symbols are enumerated


def true_model(*hmm_settings: Any, **options: Any) -> LatentCRF:
    """What `make_hmm` makes of these settings as a trained LatentCRF: its weights are log
    probabilities, so that its P(y|x) is that of the hidden Markov model; transitions of probability
    0 are forbidden by the state space, and so are first states of probability 0 (all others are as
    probable as each other).

    >>> model = true_model(emission=None)
    >>> model.decode([["x1", "x1", "x1"]])[0].labels
    ['y1', 'y2', 'y2']
    """
    hmm = make_hmm(*hmm_settings, **options)
    S = len(hmm.label_of)
    model = LatentCRF(n_latent=S // len(hmm.labels), template=TEMPLATE, cells="all")
    symbols = Corpus.from_sequences([[symbol] for symbol in hmm.symbols], names=["symbol"])
    extractor, incidences, offsets = learn(symbols, TEMPLATE, min_count=1)
    space = state_space(hmm.labels, S // len(hmm.labels))
    space = space._replace(start=hmm.start > 0, arc=hmm.transition > 0)
    gold = np.zeros(len(hmm.symbols), np.int32)  # no cell depends on it
    parameters = make_parameters(incidences, extractor.n_features, gold, offsets, space, "all")
    weights = np.zeros(parameters.n_weights, np.float32)
    cells, own = parameters.cells["state"], weights[parameters.slices["state"]]
    names = [f"U:{symbol}" for symbol in hmm.symbols]
    for feature in range(extractor.n_features):
        here = slice(cells.ptr[feature], cells.ptr[feature + 1])
        own[here] = np.log(hmm.emission[cells.column[here], names.index(extractor.name(feature))])
    weights[parameters.slices["transitions"]] = np.log(
        np.where(space.arc, hmm.transition, 1.0)
    ).reshape(-1)
    model._trained = Trained(extractor, space, parameters, weights)
    model.training_, model.history_ = {}, []  # nothing was trained
    return model


def bayes_ceiling(
    corpus: Corpus, p: float, emission: float | None, decoder: str = "exact", **options: Any
) -> float:
    """Token accuracy on a corpus of `synthetic_hmm` under the model that made it.

    The exact decoder finds the most probable labelling (or, of long sequences that say little, the
    best within its limit); the highest token accuracy to be expected of any decoder is that of
    `decoder="marginal"`.
    """
    model = true_model(p, emission, **options)
    found = [decoding.labels for decoding in model.decode(corpus, decoder, probabilities=False)]
    return evaluate(corpus.y, found, reading="token").token_accuracy


def expected_ceiling(length: int, *hmm_settings: Any, **options: Any) -> float:
    """The token accuracy that no decoder exceeds on average over all sequences of this length: sum
    over t and x of max_y P(y_t = y, x) / length, by enumeration of the symbols x.

    >>> round(expected_ceiling(6, 0.9, 0.1, self_transitions=False), 4)
    0.8498
    """
    _, joint = all_sequences(length, *hmm_settings, **options)
    return float(joint.max(axis=2).sum()) / length


def all_sequences(
    length: int, *hmm_settings: Any, **options: Any
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All sequences of symbols of this length [N, T], and the probability of each together with
    each label at each token, P(y_t = y, x) [N, T, L]."""
    if not 1 <= length <= LONGEST:
        raise OptionError(
            f"length: expected 1 to {LONGEST} tokens, whose symbols are enumerated, got {length!r}"
        )
    hmm = make_hmm(*hmm_settings, **options)
    symbols = np.array(list(itertools.product(range(len(hmm.symbols)), repeat=length)))
    seen = hmm.emission.T[symbols]  # [N, T, S]  P(x_t | state)
    before = [hmm.start * seen[:, 0]]  # P(x_1 ... x_t, state)
    for t in range(1, length):
        before.append(before[-1] @ hmm.transition * seen[:, t])
    of_label = (hmm.label_of[:, None] == np.arange(len(hmm.labels))).astype(np.float64)  # [S, L]
    joint = np.empty((*symbols.shape, len(hmm.labels)))
    after = np.ones_like(before[0])  # P(x_t+1 ... | state)
    for t in reversed(range(length)):
        joint[:, t] = before[t] * after @ of_label
        after = seen[:, t] * after @ hmm.transition.T
    return symbols, joint
