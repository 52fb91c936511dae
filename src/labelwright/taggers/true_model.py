"""The true model of the synthetic data: what a learner could know at best."""

import numpy as np

from labelwright.corpus.synthetic import make_hmm
from labelwright.corpus.table import Corpus
from labelwright.evaluate import evaluate
from labelwright.features.extract import learn
from labelwright.scoring.parameters import make_parameters
from labelwright.scoring.trained import Trained
from labelwright.structures.states import state_space
from labelwright.taggers.latent_crf import LatentCRF

TEMPLATE = "U:%x[0,0]\nB"


def true_model(p: float = 0.9, emission: float | None = 0.1) -> LatentCRF:
    """The hidden Markov model of `synthetic_hmm` as a trained LatentCRF: its weights are log probabilities, so that its
    P(y|x) is that of the hidden Markov model; transitions of probability 0 are forbidden by the state space.

    >>> model = true_model(emission=None)
    >>> model.decode([["x1", "x1", "x1"]])[0].labels
    ['y1', 'y2', 'y2']
    """
    hmm = make_hmm(p, emission)
    S = len(hmm.label_of)
    model = LatentCRF(n_latent=S // len(hmm.labels), template=TEMPLATE, cells="all")
    symbols = Corpus.from_sequences([[symbol] for symbol in hmm.symbols], names=["symbol"])
    extractor, incidences, offsets = learn(symbols, TEMPLATE, min_count=1)
    space = state_space(hmm.labels, S // len(hmm.labels))
    space = space._replace(start=np.arange(S) == hmm.start, arc=hmm.transition > 0)
    gold = np.zeros(len(hmm.symbols), np.int32)  # no cell depends on it
    parameters = make_parameters(incidences, extractor.n_features, gold, offsets, space, "all")
    weights = np.zeros(parameters.n_weights, np.float32)
    cells, own = parameters.cells["state"], weights[parameters.slices["state"]]
    names = [f"U:{symbol}" for symbol in hmm.symbols]
    for feature in range(extractor.n_features):
        here = slice(cells.ptr[feature], cells.ptr[feature + 1])
        own[here] = np.log(hmm.emission[cells.column[here], names.index(extractor.name(feature))])
    weights[parameters.slices["transitions"]] = np.log(np.where(space.arc, hmm.transition, 1.0)).reshape(-1)
    model.trained_ = Trained(extractor, space, parameters, weights)
    model.training_, model.history_ = {}, []  # nothing was trained
    return model


def bayes_ceiling(corpus: Corpus, p: float, emission: float | None, decoder: str = "exact") -> float:
    """Token accuracy on a corpus of `synthetic_hmm` under the model that made it.

    The exact decoder finds the most probable labelling (or, of long sequences that say little, the best within its
    limit); the highest token accuracy to be expected of any decoder is that of `decoder="marginal"`.
    """
    model = true_model(p, emission)
    found = [decoding.labels for decoding in model.decode(corpus, decoder, probabilities=False)]
    return evaluate(corpus.y, found, reading="token").token_accuracy
