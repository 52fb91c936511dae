"""Training data with their objective, and the same data as the slow twins take them."""

import itertools
from collections import Counter
from functools import cached_property

import numpy as np
import oracles

from labelwright.corpus.schemes import convert, validate
from labelwright.features.extract import learn
from labelwright.learn.objective import LogLikelihood
from labelwright.parallel import Workers
from labelwright.scoring.parameters import REACH, make_parameters
from labelwright.structures.states import state_space
from labelwright.structures.supervision import PLAIN

LABELS = ["O", "B-X", "I-X"]
BIOES = ["O", "B-X", "I-X", "E-X", "S-X"]
STATES = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nU:%prefix[0,0,1]\nUbias\nB"
ARCS = STATES + "\nB1:%x[0,0]\n*2:%x[1,0]"
TRIPLES = "U1:%x[0,0]\nT1:%x[0,0]\nT2:%x[-1,0]/%x[0,0]\nB"
EVERYTHING = ARCS + "\nT1:%x[0,0]\nT2:%x[-2,0]"
SIMPLE = "U:%x[0,0]\nB"

# Templates with the orders that they can have.
ORDERS = [(STATES, 1), (ARCS, 1), (STATES, 2), (ARCS, 2), (TRIPLES, 2), (EVERYTHING, 2)]
NAMES = ["states", "arcs", "states 2", "arcs 2", "triples 2", "everything 2"]


def words(n_sentences, seed, longest=4):
    """Random sentences over a few words, with IOB2 labels that keep the scheme."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sentences):
        length = int(random.integers(1, longest + 1))
        X.append([str(w) for w in random.choice(["aa", "ab", "b", "c"], length)])
        labels = ["O"]
        for _ in range(length):
            labels.append(str(random.choice(LABELS if labels[-1] != "O" else LABELS[:2])))
        y.append(labels[1:])
    return X, y


NOISY = words(14, seed=5)  # no weights separate these sentences: perceptrons keep making mistakes


def bioes(n_sentences, seed, longest=4):
    """The same sentences with BIOES labels, which not every label may end a sentence with."""
    X, y = words(n_sentences, seed, longest)
    return X, convert(y, "iob2", "bioes")


def dicts(n_sentences, seed, longest=4):
    """The same sentences as weighted features."""
    X, y = words(n_sentences, seed, longest)
    random = np.random.default_rng(seed + 1)
    weighted = [
        [
            {"w": w, "x": float(np.float32(random.normal())), "first": t == 0}
            for t, w in enumerate(s)
        ]
        for s in X
    ]
    return weighted, y


class Problem:
    """An objective over `sizes` latent states per label, of order 1 or 2."""

    def __init__(
        self,
        X,
        y,
        template="default",
        cells="observed",
        scheme=None,
        dtype=np.float64,
        n_jobs=1,
        labels=None,
        sizes=1,
        order=1,
        supervision=PLAIN,
    ):
        self.supervision = supervision
        self.labels = labels or (BIOES if scheme == "bioes" else LABELS)
        index = {label: i for i, label in enumerate(self.labels)}
        self.X, self.y, self.scheme, self.dtype = X, y, scheme, dtype
        self.tokens = as_tokens(X, template) if isinstance(X[0][0], str) else dict_tokens(X)
        self.extractor, self.incidences, self.offsets = learn(X, template, 1)
        self.gold = np.array(
            [label if isinstance(label, int) else index[label] for s in y for label in s], np.int32
        )
        self.space = state_space(self.labels, sizes, order, scheme)
        n = self.extractor.n_features
        inputs = self.incidences, n, self.gold, self.offsets, self.space, cells
        self.parameters = make_parameters(*inputs, sets=supervision.sets)
        self.workers = Workers(n_jobs)
        model = self.space, self.parameters, self.workers
        self.objective = LogLikelihood(
            self.incidences,
            n,
            self.offsets,
            self.gold,
            *model,
            dtype=dtype,
            supervision=supervision,
        )
        self.states = self.labels
        if sizes != 1:
            numbers = np.arange(self.space.n_states) - self.space.first[self.space.label_of]
            self.states = [
                (self.labels[i], k)
                for i, k in zip(self.space.label_of, numbers.tolist(), strict=True)
            ]

    def __call__(self, weights):
        gradient = np.empty(len(weights), self.dtype)
        loss = self.objective(weights.astype(self.dtype), gradient)
        return loss, gradient

    @property
    def model(self):
        """What Passes takes first."""
        return (
            self.incidences,
            self.offsets,
            self.gold,
            self.supervision,
            self.space,
            self.parameters,
        )

    def names(self):
        return self._names

    @cached_property
    def _names(self):
        return names_of(self.parameters, self.extractor, self.states)

    def true_loss(self, weights):
        """The loss by enumeration of all labellings or latent paths."""
        named = dict(zip(self.names(), weights.tolist(), strict=True))
        assert len(named) == len(weights)

        def allowed(labelling):
            return not validate([list(labelling)], self.scheme)

        labels_of = self.supervision.allowed(len(self.labels))
        sets = [
            [{self.labels[k] for k in np.flatnonzero(labels_of[c])} for c in s]
            for s in self._codes()
        ]
        weights_of = self.supervision.of_sentences, self.supervision.of_tokens
        return oracles.crf_loss(
            self.tokens, sets, self.states, named, *weights_of, allowed if self.scheme else None
        )

    def _codes(self):
        return [self.gold[a:b].tolist() for a, b in itertools.pairwise(self.offsets.tolist())]

    def random_weights(self, scale=1.0, seed=0):
        return np.random.default_rng(seed).normal(size=self.parameters.n_weights) * scale

    def choices(self):
        """All paths of every sentence, as the perceptron of the oracles looks at them."""
        label_of = dict(
            zip(self.states, (self.labels[i] for i in self.space.label_of), strict=True)
        )

        def allowed(labelling):
            return not validate([labelling], self.scheme)

        names, limits = self.names(), allowed if self.scheme else None
        return [
            oracles.Choices(tokens, y, self.states, label_of, names, limits)
            for tokens, y in zip(self.tokens, self.y, strict=True)
        ]


def names_of(parameters, extractor, states):
    """What each weight belongs to, in the order of the weight vector: (feature or None, state,
    ...)."""
    found = []
    for kind, cells in parameters.cells.items():
        shape = (len(states),) * (REACH[kind] + 1)
        for f, (a, b) in enumerate(itertools.pairwise(cells.ptr.tolist())):
            for gram in zip(*np.unravel_index(cells.column[a:b], shape), strict=True):
                found.append((extractor.name(f), *(states[s] for s in gram)))
    for reach in range(1, parameters.order + 1):
        found += [(None, *gram) for gram in itertools.product(states, repeat=reach + 1)]
    return found


class Truth:
    """Every path of states of a sentence that the restrictions leave, with its probability: by the
    definition of the model, from its weights and features as strings."""

    def __init__(self, model, sentence, forced=None, scheme=None):
        space = model._space
        states = range(space.n_states)
        (tokens,) = as_tokens([sentence], model._extractor.header()["template"]["text"])
        names = names_of(model._parameters, model._extractor, states)
        weights = dict(zip(names, model.weights_.tolist(), strict=True))
        wanted = [
            None if f is None else [f] if isinstance(f, str) else f
            for f in forced or [None] * len(sentence)
        ]
        schemes = {scheme, model.scheme_ if model.constraints else None} - {None}
        paths, projected, scores = [], [], []
        for path in itertools.product(states, repeat=len(sentence)):
            y = tuple(space.labels[space.label_of[s]] for s in path)
            if all(w is None or label in w for w, label in zip(wanted, y, strict=True)) and not any(
                validate([list(y)], s) for s in schemes
            ):
                paths.append(path)
                projected.append(y)
                scores.append(oracles.labelling_score(tokens, path, weights))
        # [N, T], [N], [N]
        self.paths, self.scores, self.projected = np.array(paths), np.array(scores), projected
        self.p = np.exp(np.array(scores) - oracles.log_sum(scores))  # [N]
        self.labellings = {}
        for y, p in zip(projected, self.p.tolist(), strict=True):
            self.labellings[y] = self.labellings.get(y, 0.0) + p

    def by_best_path(self):
        """{labelling: score of its best path}, the best first."""
        found = {}
        for y, score in sorted(
            zip(self.projected, self.scores.tolist(), strict=True), key=lambda pair: -pair[1]
        ):
            found.setdefault(y, score)
        return found

    def tempered(self, temperature):
        """{labelling: log probability} if scores divided by the temperature were
        log-probabilities."""
        log_z, found = oracles.log_sum(self.scores / temperature), {}
        for y, score in zip(self.projected, self.scores / temperature, strict=True):
            found.setdefault(y, []).append(score)
        return {y: oracles.log_sum(scores) - log_z for y, scores in found.items()}


def as_tokens(X, template):
    """Sentences of words as the oracle takes them; empty where the template is built in."""
    if "%" not in template:
        return []
    lines = [line for line in template.splitlines() if line != "B"]
    found = oracles.template_features(lines, [[(w,) for w in s] for s in X])
    tokens = []
    for state, edge, triple in zip(found["state"], found["edge"], found["triple"], strict=True):
        on_state = [*state, "Ubias"] if "Ubias" in lines else state
        by_kind = {"state": on_state, "edge": edge, "triple": triple}
        tokens.append({kind: Counter(features) for kind, features in by_kind.items()})
    flat = iter(tokens)
    return [[next(flat) for _ in s] for s in X]


def dict_tokens(X):
    def token(features):
        first = {"first": 1.0} if features["first"] else {}
        return {
            "state": {f"w={features['w']}": 1.0, "x": features["x"], **first},
            "edge": {},
            "triple": {},
        }

    return [[token(features) for features in sentence] for sentence in X]


def differences(function, weights, at, step=1e-5):
    """Central differences of a function along some of the coordinates."""
    found = []
    for i in at:
        up, down = weights.copy(), weights.copy()
        up[i] += step
        down[i] -= step
        found.append((function(up) - function(down)) / (2 * step))
    return np.array(found)
