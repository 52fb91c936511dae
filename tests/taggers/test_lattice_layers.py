"""Lattices of a user's own as layers of a cascade."""

import warnings

import numpy as np
import pytest
from cascades import passed_up
from joint_problem import assert_slopes, joint_problem
from words import all_words, made_words, tagged_words, text_of

import labelwright
from labelwright import CRF, Cascade, FeatureLattice, LatticeCRF, LatticeTagger, MemoryTagger
from labelwright.errors import CorpusError, OptionError
from labelwright.settings import Place
from labelwright.taggers.layers import LayerTables

X, Y = made_words(30)
NEW = [list("abcab"), [], list("c"), list("cbzab")]
UPPER = "U:%x[0,0]\nU:%y[0]\nU:%y[1]/%x[0,0]\nU:%y[-1]/%y[0]\nU:%log_y[0]\nB"
EVERY_WAY = ["best", "marginal", "joint", "sample", "nbest"]


def small_words(sentence):
    """All words but those of three characters."""
    return FeatureLattice([arc for arc in all_words(sentence).arcs if arc.target - arc.source < 3])


def lowest(passing, lattices=all_words, upper=UPPER, unreachable="error", **settings):
    """Words by a lattice, below tags by a CRF."""
    layers = [
        ("word", LatticeTagger(lattices, unreachable, l2=0.3)),
        ("tag", CRF(template=upper, l2=0.3)),
    ]
    return Cascade(
        layers, passing=passing, n_jobs=1, random_state=0, **({"max_iter": 5} | settings)
    )


def guesses(sentence):
    """Words with all tags: an arc reads the tags that the layer below gives its characters."""
    assert all(isinstance(token, tuple) and len(token) == 2 for token in sentence)
    text, below, arcs = text_of(sentence), [label for _, label in sentence], []
    for arc in all_words(sentence).arcs:
        tags = [label[2:] for label in below[arc.source : arc.target]]
        spelt = "".join(text[arc.source : arc.target])
        begins = [label[0] for label in below[arc.source : arc.target]]
        features = [spelt, f"below {max(set(tags), key=tags.count)}", f"begins {''.join(begins)}"]
        arcs.append((arc.source, arc.target, "word", features))
    return FeatureLattice(arcs)


def highest(passing, lattices=guesses, lower=None, **settings):
    """Tags by a CRF, below words by a lattice whose features are these tags."""
    layers = [
        ("tag", lower or CRF("U:%x[0,0]\nU:%x[1,0]\nU:%x[-1,0]\nB")),
        ("word", LatticeTagger(lattices, l2=0.3)),
    ]
    return Cascade(layers, passing=passing, n_jobs=1, random_state=0, **settings)


# -- as the lowest layer ---------------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("passing", "jackknife"), [*((way, False) for way in EVERY_WAY), ("joint", True)]
)
def test_a_lattice_is_the_lowest_layer_with_every_way_of_passing(passing, jackknife):
    model = lowest(passing, jackknife=jackknife).fit(X, Y)
    assert model.score(X, Y) > 0.85
    predicted = model.predict(NEW)
    assert [[len(row) for row in rows] for rows in predicted.values()] == [[5, 0, 1, 5]] * 2
    assert {
        name: [each.labels for each in rows] for name, rows in model.decode(NEW).items()
    } == predicted
    assert model.predict_nbest(NEW, 2)["word"][0][0][0] == predicted["word"][0]
    for rows in model.predict_marginals(NEW).values():
        assert [sum(row.values()) for sentence in rows for row in sentence] == pytest.approx(
            [1.0] * 11
        )


def test_what_is_passed_are_sums_of_probabilities_of_arcs():
    model = lowest("marginal").fit(X, Y)
    passed = passed_up(model.layers_["word"], X, 0.0)
    assert not passed.candidates.has_pairs
    arcs = model.layers_["word"].scored(X)
    expected = np.concatenate([sentence.marginals() for sentence in arcs])
    np.testing.assert_allclose(passed.probability.reshape(-1, 2), expected, atol=1e-12)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("lattices", "weighted", "jackknife"),
    [
        (all_words, False, False),
        (all_words, True, True),
        (tagged_words, False, False),
        (small_words, True, False),
        (small_words, False, True),
    ],
)
def test_joint_gradients_are_those_of_finite_differences(lattices, weighted, jackknife):
    """With sentences that have no tokens, and with some whose labels are no path: these only pass
    probabilities."""
    sentences, y = made_words(9, seed=4, most=3)
    sentences.append([])
    y = {name: [*labels, []] for name, labels in y.items()}
    y["word"] = y["tag"] if lattices is tagged_words else y["word"]
    weights = [0.0, 2.0, *[1.0] * 7, 1.0] if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = lowest(
            "joint", lattices, cut=0.0, unreachable="skip", max_iter=1, jackknife=jackknife
        )
        model.fit(sentences, y, sample_weight=weights)
        assert (model.layers_["word"].training_["left_out"] > 0) == (lattices is small_words)
        assert_slopes(*joint_problem(model, sentences, y, weights))


def test_joint_training_with_development_data_threads_and_candidates():
    first, rest = (
        {name: rows[part] for name, rows in Y.items()} for part in (slice(20), slice(20, None))
    )
    one = lowest("joint", cut=0.2).fit(X[:20], first, dev=(X[20:], rest))
    assert one.training_["joint"]["best_dev"] >= one.history_[0]["dev"]
    two = lowest("joint", cut=0.2).fit(X, Y)
    many = lowest("joint", cut=0.2).set_params(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(two.layers_["word"].weights_, many.layers_["word"].weights_)


def test_sentences_whose_labels_are_no_path():
    with pytest.raises(CorpusError, match=r"y: sentence \d+: its lattice has no arc .*'word'\)"):
        lowest("joint", small_words).fit(X, Y)
    with pytest.warns(RuntimeWarning, match="left out of training"):
        model = lowest("joint", small_words, unreachable="skip").fit(X, Y)
    assert (
        model.layers_["tag"].training_["sentences"]
        == len(X)
        > model.layers_["word"].training_["sentences"]
    )


def test_known_labels_are_known_above():
    model = lowest("marginal").fit(X, Y)
    forced = {"word": [["B-word", "B-word", None, None, None], [], [None], [None] * 5]}
    assert model.decode(NEW, forced=forced)["word"][0].labels[:2] == ["B-word", "B-word"]
    free, known = (
        model.predict_marginals(NEW)["tag"][0],
        model.predict_marginals(NEW, forced=forced)["tag"][0],
    )
    assert free != known


# -- as an upper layer -----------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("passing", ["best", "marginal", "nbest"])
def test_an_upper_lattice_reads_the_best_labels_below_as_columns(passing):
    model = highest(passing).fit(X, Y)
    assert model.layers_["word"].reads().columns == ("word", "tag")
    assert model.score(X, Y) > 0.9
    if passing == "nbest":  # the best labels of the sums over several labellings
        return
    below = model.predict(NEW)["tag"]
    # the most probable label of each token, which need not be that of the best labelling
    if passing == "marginal":
        below = [
            [max(token, key=token.get) for token in sentence]
            for sentence in model.predict_marginals(NEW)["tag"]
        ]
    read = [list(zip(*pair, strict=True)) for pair in zip(NEW, below, strict=True)]
    assert model.predict(NEW)["word"] == model.layers_["word"].predict(read)


def test_an_upper_lattice_over_a_memory_and_over_feature_dicts():
    model = highest("marginal", lower=MemoryTagger()).fit(X, Y)
    assert model.score(X, Y) > 0.85

    def keys(sentence):
        return guesses([(token["c"], token["tag"]) for token in sentence])

    dicts = [[{"c": token} for token in sentence] for sentence in X]
    model = highest("best", keys, lower=CRF()).fit(dicts, Y)
    assert model.score(dicts, Y) > 0.9
    arrays = [np.ones((len(sentence), 2)) for sentence in X]
    with pytest.raises(
        OptionError, match="a LatticeTagger above other layers reads columns or feature dicts"
    ):
        highest("best", lower=CRF()).fit(arrays, Y)


def test_a_lattice_between_two_layers():
    y = {
        **Y,
        "top": [["x" if label[0] == "B" else "y" for label in labels] for labels in Y["word"]],
    }
    layers = [
        ("tag", CRF()),
        ("word", LatticeTagger(guesses)),
        ("top", CRF("U:%y[0,word]\nU:%y[0,tag]\nB")),
    ]
    model = Cascade(layers, passing="marginal", n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.9


def test_an_upper_lattice_does_not_learn_together_with_others():
    message = (
        r"layers: word: a LatticeTagger above other layers reads their best labels, which have no "
        r"gradients"
    )
    with pytest.raises(OptionError, match=message):
        highest("joint").fit(X, Y)


# -- files, settings, what it cannot do ------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("make", [lowest, highest])
def test_a_saved_cascade_needs_its_function_again(tmp_path, make):
    model = make("marginal").fit(X, Y)
    model.save(tmp_path / "both.model")
    again = labelwright.load(tmp_path / "both.model")
    with pytest.raises(OptionError, match=r"cascade\.set_params\(LAYER__lattices=f\)"):
        again.predict(NEW)
    function = model.layers_["word"].lattices
    again.set_params(word__lattices=function)
    assert again.predict_marginals(NEW) == model.predict_marginals(NEW)
    assert again.score(X, Y) == model.score(X, Y)
    by_layer = labelwright.load(tmp_path / "both.model")
    by_layer.layers_["word"].lattices = function
    assert by_layer.predict(NEW) == model.predict(NEW)
    assert again.fit(X, Y).predict(NEW) == model.predict(NEW)


def test_settings_of_the_run_reach_trained_layers_and_others_do_not():
    model = lowest("marginal").fit(X, Y).set_params(word__n_jobs=2, word__l2=7.0)
    assert (model.layers_["word"].n_jobs, model.layers_["word"].l2) == (2, 0.3)
    assert (model.layers[0][1].n_jobs, model.layers[0][1].l2) == (2, 7.0)


def test_what_a_cascade_with_a_lattice_cannot_do():
    model = lowest("best").fit(X, Y)
    with pytest.raises(
        OptionError, match="explain: layer word: a LatticeTagger has no explanation"
    ):
        model.explain(X[0])
    with pytest.raises(
        OptionError, match="partial_fit: the layer word is a LatticeTagger, which cannot"
    ):
        model.partial_fit(X, Y)
    with pytest.raises(
        OptionError, match=r"layers: word: expected a tagger .*LatticeTagger.*, got LatticeCRF"
    ):
        Cascade([("word", LatticeCRF()), ("tag", CRF())]).fit(X, Y)


def test_calibrated_and_compressed_cascades():
    model = lowest("marginal").fit(X[:20], {name: rows[:20] for name, rows in Y.items()})
    labels = model.predict(X)
    calibrated = model.calibrate(X[20:], {name: rows[20:] for name, rows in Y.items()})
    assert calibrated.layers_["word"].temperature_ is not None
    assert calibrated.predict(X) == labels
    assert calibrated.compressed(bits=16).predict(X) == labels


@pytest.mark.parametrize("model", ["lattice", "ngram"])
def test_recipes_take_only_layers_that_need_no_python(model):
    tables = [{"name": "word", "model": model}, {"name": "tag"}]
    with pytest.raises(
        OptionError, match=rf"layer word: model: expected one of crf, .*memory, got '{model}'"
    ):
        LayerTables().from_recipe(tables, Place("recipe.toml: layers"))
