"""Unknown labels, sets of labels and weights, as users of taggers see them."""

import numpy as np
import pytest

from labelwright import CRF, Cascade, LatentCRF, LatentPerceptron, Perceptron, SemiCRF, read_columns
from labelwright.corpus import builtin_corpus, labels_of, spans_of, unmarked_unknown
from labelwright.corpus.partial_labels import label_codes, one_of
from labelwright.errors import CorpusError, OptionError

CORPUS = builtin_corpus(60, random_state=0, columns=["word", "pos", "chunk"])
X, Y = CORPUS.X, CORPUS.y
TAGGERS = {
    "crf": CRF(max_iter=30, n_jobs=1),
    "sgd": CRF(max_iter=10, optimizer="sgd", n_jobs=1, random_state=0),
    "averaged sgd": LatentCRF(
        n_latent=2, max_iter=9, optimizer="sgd", averaging="avg", n_jobs=1, random_state=0
    ),
    "order 2": CRF(max_iter=20, order=2, n_jobs=1),
    "latent crf": LatentCRF(n_latent=2, max_iter=20, n_jobs=1, random_state=0),
    "perceptron": Perceptron(max_iter=5, n_jobs=1, random_state=0),
    "passive-aggressive": Perceptron(
        max_iter=5, update="passive-aggressive", n_jobs=1, random_state=0
    ),
    "semi-crf": SemiCRF(max_iter=20, n_jobs=1),
    "latent perceptron": LatentPerceptron(n_latent=2, max_iter=5, n_jobs=1, random_state=0),
}
every = pytest.mark.parametrize("name", TAGGERS)


def half(labels, seed=0):
    """Every second label or so is unknown, some are sets."""
    random = np.random.default_rng(seed)
    return [
        [
            None if (r := random.random()) < 0.4 else {label, "O"} if r < 0.5 else label
            for label in s
        ]
        for s in labels
    ]


def right(tagger, labels=Y):
    pairs = [
        (a, b)
        for p, s in zip(tagger.predict(X), labels, strict=True)
        for a, b in zip(p, s, strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.cases(4)
@every
def test_half_of_the_labels_suffice(name):
    tagger = TAGGERS[name]._untrained().fit(X, half(Y))
    assert tagger.classes_
    assert None not in tagger.classes_
    assert set(tagger.classes_) >= {label for s in Y for label in s}  # a SemiCRF writes others, too
    assert right(tagger) > 0.9


@pytest.mark.cases(4)
@every
def test_a_set_of_one_label_is_that_label(name):
    whole = TAGGERS[name]._untrained().fit(X, Y)
    sets = TAGGERS[name]._untrained().fit(X, [[{label} for label in s] for s in Y])
    np.testing.assert_array_equal(sets.weights_, whole.weights_)


@pytest.mark.cases(4)
@every
def test_sentences_of_weight_zero_teach_nothing(name):
    """Their labels are nonsense, and do no harm."""
    wrong = [s if n % 2 else ["O"] * len(s) for n, s in enumerate(Y)]
    weighted = (
        TAGGERS[name]._untrained().fit(X, wrong, sample_weight=[n % 2 for n in range(len(X))])
    )
    spoilt = TAGGERS[name]._untrained().fit(X, wrong)
    assert right(weighted) > right(spoilt) + 0.05


# Whole sentences are O, so that it is the most frequent label.
NOISY = [["O"] * len(s) if np.random.default_rng(n).random() < 0.4 else s for n, s in enumerate(Y)]


def outside(name, class_weight):
    """How many labels are predicted to be O by a tagger with these weights."""
    tagger = TAGGERS[name]._untrained().set_params(class_weight=class_weight).fit(X, NOISY)
    return sum(label == "O" for s in tagger.predict(X) for label in s)


@pytest.mark.cases(2)
@every
def test_balanced_class_weights(name):
    """They lower the weight of the most frequent label, and are the inverse frequencies."""
    assert outside(name, None) > outside(name, "balanced") + 30
    flat = [label for s in NOISY for label in s]
    inverse = {label: len(flat) / (len(set(flat)) * flat.count(label)) for label in set(flat)}
    balanced, given = (
        TAGGERS[name]._untrained().set_params(class_weight=weights).fit(X, NOISY)
        for weights in ("balanced", inverse)
    )
    np.testing.assert_array_equal(balanced.weights_, given.weights_)


def test_partial_labels_of_files_and_of_python_are_the_same(tmp_path):
    def cell(label):
        if label is None:
            return "_"
        return "|".join(sorted(label)) if isinstance(label, set) else label

    part = half(Y)
    rows = [
        "\n".join(f"{word}\t{pos}\t{cell(label)}" for (word, pos), label in zip(x, s, strict=True))
        for x, s in zip(X, part, strict=True)
    ]
    (tmp_path / "part.txt").write_text("\n\n".join(rows) + "\n")
    corpus = read_columns(tmp_path / "part.txt", names="word,pos,chunk")
    ours, theirs = (CRF(max_iter=10, n_jobs=1).fit(*data) for data in ((corpus,), (X, part)))
    assert set(ours.classes_) == set(theirs.classes_)
    assert ours.predict(X) == theirs.predict(X)


def test_constraints_hold_for_sets():
    tagger = CRF(max_iter=10, n_jobs=1, constraints="scheme").fit(X, half(Y))
    assert right(tagger) > 0.85
    with pytest.raises(
        CorpusError,
        match="sentence 1: no labelling within its sets of labels keeps the label scheme",
    ):
        CRF(constraints="iob2", n_jobs=1).fit(
            [["a", "b"], ["a", "b"]], [["B-X", None], ["O", {"I-X"}]]
        )


def test_labels_of_sets_are_labels():
    labels, codes, sets = label_codes(["A", None, frozenset("BC"), "B"], np.array([0, 1, 2, 3, 1]))
    assert labels == ["A", "B", "C"]
    assert codes.tolist() == [0, 3, 4, 1, 3]
    assert sets.tolist() == [[True, True, True], [False, True, True]]


def test_what_is_a_set():
    assert one_of("NN|VB") == {"NN", "VB"}
    assert one_of("Case=Nom|Number=Sing") is None
    assert one_of("|") is None
    assert one_of(("A", "B")) is None


@pytest.mark.parametrize(
    ("labels", "options", "error", "message"),
    [
        ([[None, None]], {}, CorpusError, "no token has a label"),
        ([["A", set()]], {}, CorpusError, "sentence 0, token 1: an empty set of labels"),
        ([["A", {1}]], {}, CorpusError, "sentence 0, token 1: expected a string, got 1"),
        ([["A", "B"]], {"sample_weight": [1, 2]}, OptionError, "2 entries, but X has 1 sentences"),
        (
            [["A", "B"]],
            {"sample_weight": [-1]},
            OptionError,
            "sentence 0: expected a number of 0 or more, got -1",
        ),
        (
            [["A", "B"]],
            {"sample_weight": [[1.0]]},
            OptionError,
            "sentence 0 has 2 tokens, got 1 weights",
        ),
        ([["A", "B"]], {"sample_weight": [0]}, OptionError, "all are zero"),
        ([["A", "B"]], {"sample_weight": 3}, OptionError, "expected a number for each sentence"),
    ],
)
def test_what_is_refused(labels, options, error, message):
    with pytest.raises(error, match=message):
        CRF(n_jobs=1).fit([["a", "b"]], labels, **options)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"Z": 2.0}, "no label 'Z' in the training data, which have A, B"),
        ({"A": 0}, "'A': expected a number above 0, got 0"),
        ("even", "expected 'balanced', or weights by label"),
    ],
)
def test_class_weights_that_are_refused(weights, message):
    with pytest.raises(OptionError, match=message):
        CRF(n_jobs=1, class_weight=weights).fit([["a", "b"]], [["A", "B"]])


def test_partial_fit_takes_both():
    tagger = Perceptron(n_jobs=1)
    for n in range(0, 60, 10):
        tagger.partial_fit(
            X[n : n + 10], half(Y)[n : n + 10], sample_weight=[1.0 + k % 2 for k in range(10)]
        )
    assert right(tagger) > 0.8


def half_marked(y, seed=0):
    """Every second span or so is marked; the rest is unknown."""
    random = np.random.default_rng(seed)
    return unmarked_unknown(
        [labels_of([s for s in spans_of(y_) if random.random() < 0.5], len(y_)) for y_ in y]
    )


def verbs(y):
    """The labels of verb phrases: O is what most tokens are."""
    return [[label if label.endswith("VP") else "O" for label in labels] for labels in y]


@pytest.mark.cases(2)
@every
def test_nothing_that_says_what_o_is_is_worth_a_warning(name):
    with pytest.warns(
        RuntimeWarning, match="no token is surely O.*entity_rate; --entity-rate X, or --dev FILE"
    ):
        TAGGERS[name]._untrained().fit(X, half_marked(verbs(Y)))


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", [CRF, LatentCRF])
def test_an_entity_rate_says_how_much_is_o(kind):
    y = verbs(Y)
    rate = sum(label != "O" for labels in y for label in labels) / sum(map(len, y))
    settings = {"max_iter": 40, "n_jobs": 1, "random_state": 0}
    tagger = kind(entity_rate=rate, **settings).fit(X, half_marked(y))
    assert right(tagger, y) > 0.9
    expected = [1 - token["O"] for sentence in tagger.predict_marginals(X) for token in sentence]
    assert np.mean(expected) == pytest.approx(rate, abs=0.03)
    with pytest.warns(RuntimeWarning, match="no token is surely O"):
        without = kind(**settings).fit(X, half_marked(y))
    assert right(without, y) < 0.7
    # with a rate, features of unknown tokens have weights for O
    assert len(without.weights_) < len(tagger.weights_)
    tagger.partial_fit(X[:20], half_marked(y)[:20])  # by the same rate
    assert right(tagger, y) > 0.9


def test_where_an_entity_rate_does_not_apply():
    for rate in (0, 1, -0.1, 15, "some"):
        with pytest.raises(OptionError, match="entity_rate: expected a number above 0 and below 1"):
            CRF(entity_rate=rate).fit(X, Y)
    with pytest.raises(
        OptionError, match="entity_rate: SGD has no term for it; use optimizer='lbfgs'"
    ):
        CRF(entity_rate=0.2, optimizer="sgd").fit(X, Y)
    with pytest.raises(OptionError, match="entity_rate: the training data have no label O"):
        CRF(entity_rate=0.2).fit([["a", "b"]], [["A", "B"]])
    with pytest.raises(
        OptionError, match=r"prune_labels: .*without entity_rate; use prune_labels='off'"
    ):
        CRF(entity_rate=0.2, prune_labels=0.99, template="words").fit(X, Y)
    with pytest.raises(
        OptionError, match="layers: a: joint training has no entity rate; use entity_rate=None, or"
    ):
        Cascade([("a", CRF(entity_rate=0.2)), ("b", CRF())]).fit(X, {"a": Y, "b": Y})
