"""Online learners beside CRFsuite's ap, pa and arow: equal weights where the order of sentences
does not matter, and about the same accuracy where it does."""

import numpy as np
import pytest
from problems import names_of

from labelwright import Perceptron
from labelwright.corpus import builtin_corpus

PASSES = 7
PA = {"update": "passive-aggressive", "cost": "root"}
AROW = {"update": "arow", "cost": "labels", "averaging": "none"}
SAME = [  # algorithm, its parameters, ours
    ("ap", {}, {}),
    ("pa", {"type": 0}, PA | {"slack": "none"}),
    ("pa", {"type": 1, "c": 0.05}, PA | {"aggressiveness": 0.05}),
    ("pa", {"type": 2, "c": 0.3}, PA | {"slack": "quadratic", "aggressiveness": 0.3}),
    ("pa", {"averaging": 0}, PA | {"averaging": "none"}),
    ("pa", {"error_sensitive": 0}, PA | {"cost": "sentence"}),
    ("arow", {}, AROW),
    ("arow", {"variance": 0.2, "gamma": 3.0}, AROW | {"variance": 0.2, "gamma": 3.0}),
]
NAMES = ["ap", "pa 0", "pa 1", "pa 2", "pa last", "pa insensitive", "arow", "arow slow"]


def crfsuite(path, algorithm, parameters, X, y, passes=PASSES):
    """A tagger of CRFsuite's, and its log of iterations."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    trainer.set_params(
        {"max_iterations": passes, "feature.possible_transitions": True} | parameters
    )
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger, trainer.logparser.iterations


def one_sentence(seed=0, length=12):
    """Labels by first appearance are labels in their order, so that both break ties alike.
    CRFsuite leaves out features whose values add up to less than zero."""
    random = np.random.default_rng(seed)
    names = random.choice(["a", "b", "c", "d"], length)
    X = [
        {str(name): 1.0, "x": float(np.float32(random.uniform(0.2, 2.0))), "bias": 1.0}
        for name in names
    ]
    return X, ["A", "B", "C", *(str(label) for label in random.choice(["A", "B", "C"], length - 3))]


def by_name(model):
    names = names_of(model._parameters, model._extractor, model.classes_)
    return dict(zip(names, model.weights_.tolist(), strict=True))


@pytest.mark.parametrize(("algorithm", "parameters", "settings"), SAME, ids=NAMES)
@pytest.mark.parametrize("copies", [1, 3])
def test_weights_of_equal_sentences_are_those_of_crfsuite(
    tmp_path, algorithm, parameters, settings, copies
):
    """The order of equal sentences does not matter; CRFsuite's mean counts the zeros before the
    first of them, too."""
    X, y = ([part] * copies for part in one_sentence())
    tagger, log = crfsuite(tmp_path / "m", algorithm, parameters, X, y)
    info = tagger.info()
    expected = info.state_features | {
        (None, *pair): weight for pair, weight in info.transitions.items()
    }
    model = Perceptron(max_iter=PASSES, n_jobs=1, **settings).fit(X, y)
    visits = PASSES * copies
    share = 1.0 if model.averaging == "none" else visits / (visits + 1)
    weights = by_name(model)
    assert expected.keys() <= weights.keys()
    assert len(expected) > 15
    for name, weight in weights.items():
        assert share * weight == pytest.approx(expected.get(name, 0.0), abs=2e-5), name
    if algorithm != "ap":
        losses = [record["loss"] for record in model.history_]
        assert losses == pytest.approx([record["loss"] for record in log[: len(losses)]], rel=1e-4)


def strings(corpus):
    """The words and tags around each token, for both programs."""
    every = []
    for sentence in corpus.X:
        padded = [("<", "<"), *sentence, (">", ">")]
        every.append(
            [
                {
                    f"{name}[{k}]={padded[t + k][c]}": 1.0
                    for k in (-1, 0, 1)
                    for c, name in enumerate(("w", "p"))
                }
                for t in range(1, len(sentence) + 1)
            ]
        )
    return every


def accuracy(gold, predicted):
    pairs = [pair for a, b in zip(gold, predicted, strict=True) for pair in zip(a, b, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "parameters", "settings"), SAME[:4] + SAME[6:7], ids=NAMES[:4] + NAMES[6:7]
)
def test_accuracy_on_new_sentences_is_that_of_crfsuite(tmp_path, algorithm, parameters, settings):
    """Sentences are visited in other orders: weights differ, and accuracy hardly."""
    train, test = builtin_corpus(300, random_state=1), builtin_corpus(300, random_state=2)
    X, new = strings(train), strings(test)
    tagger, _ = crfsuite(tmp_path / "m", algorithm, parameters, X, train.y, 10)
    theirs = accuracy(test.y, [tagger.tag(sentence) for sentence in new])
    ours = Perceptron(max_iter=10, random_state=0, n_jobs=1, **settings).fit(X, train.y)
    assert accuracy(test.y, ours.predict(new)) == pytest.approx(theirs, abs=0.01)
