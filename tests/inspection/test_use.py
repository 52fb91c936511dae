"""How labels are used on data, against sums over the marginals; facts of every kind of tagger."""

import json
import math
from collections import Counter

import numpy as np
import pytest

import labelwright
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.inspection.use import expected_use, label_use, label_views, path_mass

TEMPLATE = "U:%x[0,0]\nU:%x[0,1]\nB"
TAGGERS = {
    "crf": lambda: labelwright.CRF(template=TEMPLATE, max_iter=8, n_jobs=1),
    "pruned": lambda: labelwright.CRF(template=TEMPLATE, prune_labels=0.99, max_iter=8, n_jobs=1),
    "latent-crf": lambda: labelwright.LatentCRF(
        template=TEMPLATE, n_latent=2, max_iter=5, n_jobs=1
    ),
    "perceptron": lambda: labelwright.Perceptron(template=TEMPLATE, max_iter=3, n_jobs=1),
    "semi-crf": lambda: labelwright.SemiCRF("U:%x[0,0]\nU:%x[0,1]", max_iter=8, n_jobs=1),
    "memory": lambda: labelwright.MemoryTagger(n_jobs=1),
}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return builtin_corpus(60, random_state=4, columns=["word", "pos", "chunk"])


@pytest.fixture(scope="module")
def models(corpus):
    return {name: make().fit(corpus) for name, make in TAGGERS.items()}


@pytest.mark.parametrize("name", ["crf", "semi-crf", "perceptron", "pruned"])
def test_shares_words_and_neighbours_of_labels(models, corpus, name) -> None:
    model, X = models[name], corpus.select(["word", "pos"])
    views = {view["label"]: view for view in model._describe_use([X], 1000)["use"]}
    assert set(views) == set(model.classes_)
    best = model.predict(X)
    if model._probabilistic:
        tokens = [token for sentence in model.predict_marginals(X) for token in sentence]
    else:
        tokens = [Counter([label]) for sentence in best for label in sentence]
    total = {label: sum(token.get(label, 0.0) for token in tokens) for label in views}
    assert sum(view["share"] for view in views.values()) == pytest.approx(1.0)
    for label, view in views.items():
        assert view["share"] == pytest.approx(total[label] / len(tokens))
        for word, count in view["words"]:
            rows = zip(corpus.tokens("word"), tokens, strict=True)
            assert count == pytest.approx(
                sum(token.get(label, 0.0) for w, token in rows if w == word)
            )
        for neighbours in (view["before"], view["after"]):
            assert sum(p for _, p in neighbours) == pytest.approx(1.0 if neighbours else 0.0)
    if not model._probabilistic:
        after = Counter(
            b
            for row in best
            for a, b in zip(row, [*row[1:], "(outside)"], strict=True)
            if a == "B-NP"
        )
        assert dict(views["B-NP"]["after"]) == pytest.approx(
            {b: n / after.total() for b, n in after.items()}
        )


def test_typical_words_tell_a_label_from_the_others(models, corpus) -> None:
    views = {
        view["label"]: view
        for view in models["crf"]._describe_use([corpus.select(["word", "pos"])], 3)["use"]
    }
    assert views["O"]["words"][0][0] == "."
    assert all(len(view["words"]) <= 3 for view in views.values())


def test_any_tagger_by_its_answers_alone(models, corpus) -> None:
    X = corpus.select(["word", "pos"])
    model = models["crf"]
    exact = expected_use(model, [X])
    public = label_use(model, [X, X], probabilistic=True)
    assert public.states == pytest.approx(2 * exact.states)
    for k in range(len(model.classes_)):
        assert public.words_of(k, k + 1) == pytest.approx(2 * exact.words_of(k, k + 1))
    assert (
        label_views(public, model.classes_, 5)[0].label
        == label_views(exact, model.classes_, 5)[0].label
    )
    counted = models["memory"]._describe_use([X], 2)["use"]
    assert sum(view["share"] for view in counted) == pytest.approx(1.0)


def test_the_mass_of_segmentations(models, corpus) -> None:
    X, model = corpus.select(["word", "pos"]).take(slice(0, 5)), models["semi-crf"]
    mass = model._path_mass(X, 4)
    expected = np.mean(
        [np.cumsum([p for _, p in best]) for best in model.predict_nbest(X, 4)], axis=0
    )
    assert mass == pytest.approx(expected)
    assert path_mass(model, [[("a", "DT")]], 500)[-1] == pytest.approx(1.0)
    with pytest.raises(labelwright.LabelwrightError, match="paths: expected 1 or more, got 0"):
        model._path_mass(X, 0)


@pytest.mark.parametrize("name", TAGGERS)
def test_facts_are_ready_for_json(models, name) -> None:
    facts = models[name].describe(3)
    assert facts["view"] == ("memory" if name == "memory" else "linear")
    assert facts["signature"].startswith(facts["kind"].lower() + "|template:")
    assert facts["labels"] == models[name].classes_
    paths = {
        "crf": "labellings",
        "pruned": "labellings",
        "semi-crf": "labellings",
        "latent-crf": "latent paths",
    }
    assert facts["paths"] == paths.get(name)
    assert json.loads(json.dumps(facts, default=float))["kind"] == type(models[name]).__name__


@pytest.mark.parametrize("name", ["crf", "perceptron", "semi-crf"])
def test_a_file_has_as_many_weights_as_were_trained(models, name, tmp_path) -> None:
    model = models[name]
    model.save(tmp_path / "m")
    facts, again = model.describe(), labelwright.load(tmp_path / "m").describe()
    for key in ("n_features", "n_weights", "n_nonzero"):
        assert facts[key] == again[key]
    assert facts["n_weights"] == model.training_["weights"] == len(model.weights_)
    assert facts["n_nonzero"] == np.count_nonzero(model.weights_) <= facts["n_weights"]


def test_facts_of_a_cascade(corpus) -> None:
    layers = [(name, labelwright.CRF("U:%x[0,0]", max_iter=3)) for name in ("pos", "chunk")]
    words = corpus.select(["word"])
    y = {"pos": corpus.column("pos"), "chunk": corpus.column("chunk")}
    model = labelwright.Cascade(layers, passing="best", n_jobs=1).fit(words, y)
    facts = model.describe()
    assert (facts["view"], facts["passing"], list(facts["layers"])) == (
        "cascade",
        "best",
        ["pos", "chunk"],
    )
    for name, layer in model.layers_.items():
        assert facts["layers"][name]["labels"] == layer.classes_
        assert facts["layers"][name]["n_weights"] == len(layer.weights_)
        assert facts["layers"][name]["signature"].startswith("crf|")
    assert facts["signature"].startswith("cascade|passing:best|pos:crf|")
    assert math.isfinite(facts["training"]["seconds"])


def test_facts_of_a_tagger_that_says_nothing_of_its_own(corpus) -> None:
    bayes = pytest.importorskip("sklearn.naive_bayes")
    tagger = labelwright.NgramTagger(bayes.MultinomialNB(), n_jobs=1)
    with pytest.raises(labelwright.LabelwrightError, match="not trained yet"):
        tagger.describe()
    small = corpus.take(slice(0, 10))
    facts = tagger.fit(small).describe()
    assert (facts["view"], facts["kind"], facts["labels"]) == (
        "plain",
        "NgramTagger",
        tagger.classes_,
    )
    shares = [
        view["share"] for view in tagger._describe_use([small.select(["word", "pos"])])["use"]
    ]
    assert sum(shares) == pytest.approx(1.0)
