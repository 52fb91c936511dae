"""Cascades: what a user sees of them."""

import numpy as np
import pytest
from cascades import passed_up

import labelwright
from labelwright import CRF, Cascade, LatentCRF, Perceptron, SemiCRF
from labelwright.corpus.table import Corpus
from labelwright.errors import (
    CorpusError,
    LabelwrightError,
    NotFittedError,
    OptionError,
    TemplateError,
)

X = [
    ["the", "dog", "barks"],
    ["a", "bird", "sings", "loudly"],
    ["dogs", "bark"],
    ["the", "old", "bird", "sang"],
    ["birds"],
    ["the", "dogs", "sing"],
] * 2
POS = [
    ["D", "N", "V"],
    ["D", "N", "V", "R"],
    ["N", "V"],
    ["D", "J", "N", "V"],
    ["N"],
    ["D", "N", "V"],
] * 2
CHUNK = [
    ["B-NP", "I-NP", "B-VP"],
    ["B-NP", "I-NP", "B-VP", "O"],
    ["B-NP", "B-VP"],
    ["B-NP", "I-NP", "I-NP", "B-VP"],
    ["B-NP"],
    ["B-NP", "I-NP", "B-VP"],
] * 2
Y = {"pos": POS, "chunk": CHUNK}
NEW = [["the", "bird", "zzz"], [], ["dogs", "sing"]]


def cascade(passing="joint", upper=None, lower=None, **words):
    layers = [("pos", lower or CRF(max_iter=20)), ("chunk", upper or CRF(max_iter=20))]
    return Cascade(layers, passing=passing, n_jobs=1, random_state=0, **({"max_iter": 5} | words))


@pytest.mark.parametrize("passing", ["best", "marginal", "joint", "sample", "nbest"])
def test_every_way_of_passing_learns_its_training_data(passing):
    model = cascade(passing).fit(X, Y)
    assert model.predict(X) == Y
    found = model.predict(NEW)
    assert {name: [len(s) for s in rows] for name, rows in found.items()} == {
        "pos": [3, 0, 2],
        "chunk": [3, 0, 2],
    }


def test_sentences_may_be_iterators():
    model = cascade("best").fit(map(iter, X), Y)
    assert model.predict(map(iter, X)) == Y
    assert model.predict_marginals(map(iter, X)) == model.predict_marginals(X)


@pytest.mark.cases(1)
@pytest.mark.parametrize("passing", ["best", "marginal", "joint"])
def test_jackknife_works_with_every_way_of_passing(passing):
    model = cascade(passing, jackknife=True).fit(X, Y)
    assert model.predict(X)["pos"] == POS


def test_joint_training_lowers_the_loss_of_all_layers_together():
    model = cascade("joint", max_iter=10).fit(X, Y)
    losses = [record["loss"] for record in model.history_]
    assert losses[-1] < losses[0]
    assert model.before_.layers_["pos"].weights_.tolist() != model.layers_["pos"].weights_.tolist()


def test_a_share_of_nothing_leaves_a_layer_to_the_one_above():
    alone = cascade("joint", max_iter=10, shares={"pos": 0.0}).fit(X, Y)
    together = cascade("joint", max_iter=10).fit(X, Y)

    def right(model):
        marginals = model.predict_marginals(X)["pos"]
        return np.mean(
            [
                row[label]
                for s, y in zip(marginals, POS, strict=True)
                for row, label in zip(s, y, strict=True)
            ]
        )

    assert right(alone) < right(together)


def test_a_corpus_with_columns_named_like_the_layers():
    corpus = Corpus.from_sequences(
        [
            [(w, p, c) for w, p, c in zip(*rows, strict=True)]
            for rows in zip(X, POS, CHUNK, strict=True)
        ]
    ).renamed(["word", "pos", "chunk"], label="chunk")
    model = cascade("marginal").fit(corpus)
    assert model.predict(corpus) == Y
    assert model.predict(corpus.select(["word"])) == Y
    assert model.predict(X) == Y
    assert model.score(corpus) == 1.0
    with pytest.raises(CorpusError, match="reads the columns word, got pos,chunk"):
        model.predict(corpus.select(["pos", "chunk"]))


def test_dicts_and_arrays_are_input_too():
    dicts = [[{"w": word, "length": float(len(word))} for word in sentence] for sentence in X]
    model = cascade("joint").fit(dicts, Y)
    assert model.predict(dicts)["pos"] == POS
    words = sorted({word for sentence in X for word in sentence})
    arrays = [np.array([[float(word == w) for w in words] for word in sentence]) for sentence in X]
    model = cascade("joint").fit(arrays, Y)
    assert model.predict(arrays)["pos"] == POS


def test_probabilities_spans_and_nbest_by_layer():
    model = cascade("joint").fit(X, Y)
    marginals = model.predict_marginals(NEW)
    assert sum(marginals["chunk"][0][1].values()) == pytest.approx(1)
    nbest = model.predict_nbest(NEW, n=2)
    assert [len(found) for found in nbest["chunk"]] == [2, 1, 2]
    label = nbest["chunk"][0][0][0][0]
    summed = model.predict_nbest(NEW, n=2, distinct={"chunk": label})
    assert summed["pos"] == nbest["pos"]
    assert summed["chunk"][0][0][1] >= nbest["chunk"][0][0][1]
    assert summed["chunk"] != nbest["chunk"]
    for wrong, message in (
        ({"x": label}, "distinct: no layer 'x'"),
        (label, "distinct: expected {layer: ...}"),
    ):
        with pytest.raises(OptionError, match=message):
            model.predict_nbest(NEW, distinct=wrong)
    spans = model.predict_spans(X)
    assert spans["pos"][0] == []
    assert [(span.start, span.end, span.type) for span in spans["chunk"][0]] == [
        (0, 2, "NP"),
        (2, 3, "VP"),
    ]
    assert model.decode(NEW)["pos"][0].labels == model.predict(NEW)["pos"][0]


def test_a_lexicon_tells_the_labels_that_words_had_elsewhere():
    words = [["saw", "saw"], ["saw", "dog"]]
    labels = {"pos": [["N", "V"], ["V", "N"]], "chunk": [["a", "a"], ["a", "a"]]}
    model = cascade("best", lexicon="pos").fit(words, labels)
    assert model.lexicon_.words == {"saw": "N|V", "dog": "N"}
    lower = model.layers_["pos"]._extractor.vocabulary
    column = next(
        strings
        for reader, strings in lower.values.items()
        if reader.column == 1 and reader.function == "value"
    )
    # the only N of saw does not know itself, nor does dog
    assert sorted(column) == ["?", "N|V", "V"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"layers": []}, "layers: expected a list of pairs"),
        ({"layers": [("a", CRF()), ("a", CRF())]}, "two layers are named 'a'"),
        (
            {"layers": [("a", CRF()), ("b", 3)]},
            r"b: expected a tagger \(.*\), got int; the labels of others",
        ),
        (
            {"layers": [("pos", Perceptron()), ("chunk", CRF())]},
            "a Perceptron has no probabilities to pass",
        ),
        (
            {"layers": [("pos", CRF(l1=1.0)), ("chunk", CRF())]},
            "pos: joint training has no L1 penalty",
        ),
        (
            {"passing": "beam"},
            "passing: expected one of best, marginal, joint, sample, nbest, got 'beam'",
        ),
        ({"lexicon": "ner"}, "lexicon: expected a layer, one of pos, chunk, got 'ner'"),
        ({"cut": 1.5}, "cut: expected a number of 0 or more and below 1"),
        ({"shares": {"ner": 1.0}}, "shares: no layer 'ner'"),
        ({"shares": {"pos": -1.0}}, "shares: pos: expected a number of 0 or more"),
        ({"shares": [1, 2]}, "shares: expected a table of numbers by layer"),
        ({"jackknife": "no"}, "jackknife: expected true or false, got 'no'"),
        ({"max_iter": 0}, "max_iter: expected a whole number of 1 or more, got 0"),
        (
            {"layers": [("pos", CRF(l1="a")), ("chunk", CRF())]},
            "layers: pos: l1: expected a number",
        ),
        ({"passing": "bst", "layers": [("pos", Perceptron())]}, "passing: expected one of"),
    ],
)
def test_wrong_words_are_named(words, message):
    with pytest.raises(OptionError, match=message):
        cascade().set_params(**words).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ({"pos": POS}, "no labels for the layer 'chunk', got those of pos"),
        (Y | {"ner": POS}, "no layer 'ner', expected pos, chunk"),
        (POS, "expected the labels of every layer"),
        (
            {"pos": None, "chunk": CHUNK},
            "y: pos: expected a list of labels for each sentence, got None",
        ),
        ({"pos": POS[:3], "chunk": CHUNK}, "pos: 3 sentences, but X has 12"),
        (
            {"pos": [*POS[:1], ["D"], *POS[2:]], "chunk": CHUNK},
            "pos: sentence 1 has 1 labels, but X has 4 tokens",
        ),
        (
            {"pos": [*POS[:1], ["D", "", "V", "R"], *POS[2:]], "chunk": CHUNK},
            "pos: sentence 1 has a token without a",
        ),
    ],
)
def test_labels_that_are_not_there_are_named(y, message):
    with pytest.raises(LabelwrightError, match=message):
        cascade().fit(X, y)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ("U:%y[0]\nB", "default", "reads the labels of the layer below, and there is none"),
        ("default", "U:%y[1]/%y[1]\nB", "reads the same label twice; leave one of them out"),
        ("default", "U:%y[@1]\nB", "%y reads labels near the token"),
        ("default", "U:%y[0]/%each[0,0]", "one %each, and no %y beside it"),
    ],
)
def test_templates_that_cannot_be(lower, upper, message):
    with pytest.raises(TemplateError, match=message.replace("[", r"\[")):
        cascade(lower=CRF(template=lower), upper=CRF(template=upper)).fit(X, Y)


def test_development_data_are_checked_first_and_nothing_half_trained_is_left():
    model = cascade()
    for dev in (5, (X, {"pos": POS})):
        with pytest.raises(OptionError, match=r"^dev: "):
            model.fit(X, Y, dev=dev)
        assert not hasattr(model, "layers_")


def test_joint_training_keeps_the_best_on_development_data():
    model = cascade(max_iter=12).fit(X, Y, dev=(X, Y))
    assert model.training_["joint"]["best_dev"] == 1.0
    assert model.training_["interrupted"] is False


def test_layers_that_do_not_learn_together_keep_their_best_weights():
    model = cascade("marginal").fit(X, Y, dev=(X, Y))
    assert [layer.training_["best_dev"] for layer in model.layers_.values()] == [1.0, 1.0]
    with_lexicon = cascade("best", lexicon="pos").fit(X, Y, dev=(X, Y))
    assert all("best_dev" in layer.training_ for layer in with_lexicon.layers_.values())


@pytest.mark.parametrize("passing", ["joint", "best"])
def test_a_sentence_that_counts_twice_is_as_good_as_two(passing):
    twice = cascade(passing).fit([*X, *X[:2]], {name: [*y, *y[:2]] for name, y in Y.items()})
    weighted = cascade(passing).fit(X, Y, sample_weight=[2.0] * 2 + [1.0] * 10)
    for name, layer in twice.layers_.items():
        assert weighted.predict(X)[name] == twice.predict(X)[name]
        assert layer.training_["loss"] == pytest.approx(
            weighted.layers_[name].training_["loss"], rel=1e-3
        )


def test_labels_of_layers_may_be_unknown():
    y = {"pos": [[None, *labels[1:]] for labels in POS[:4]] + POS[4:], "chunk": CHUNK}
    for options in ({}, {"jackknife": True}, {"lexicon": "pos"}):
        predicted = cascade(**options).fit(X, y).predict(X)
        assert predicted["pos"][:2] == POS[:2]
    trained = cascade().fit(X, Y)
    # of the highest layer, whose labels are all known
    assert trained.score(X, y) == trained.score(X, Y)
    with pytest.raises(CorpusError, match="score: sentence 0, token 0: the label is unknown"):
        trained.score(X, {"pos": POS, "chunk": y["pos"]})


def test_a_layer_keeps_a_seed_of_its_own():
    model = (
        cascade(lower=LatentCRF(2, max_iter=3, random_state=0)).set_params(random_state=7).fit(X, Y)
    )
    assert model.layers_["pos"].random_state == 0
    assert model.layers_["chunk"].random_state == 7


@pytest.mark.cases(3)
@pytest.mark.parametrize("passing", ["best", "marginal", "sample", "nbest"])
@pytest.mark.parametrize("order", [1, 2])
def test_known_labels_of_a_layer_are_known_above(passing, order):
    model = cascade(passing, lower=CRF(order=order, max_iter=20)).fit(X, Y)
    known = {"pos": [["V", None, ["N", "V"]]]}
    sentence = [["the", "dog", "barks"]]
    found = model.decode(sentence, forced=known)
    assert found["pos"][0].labels[0] == "V"
    free = model.predict_marginals(sentence)["chunk"]
    assert model.predict_marginals(sentence, forced=known)["chunk"] != free
    assert model.predict_nbest(sentence, n=2, forced=known)["pos"][0][0][0][0] == "V"
    with pytest.raises(OptionError, match="forced: no layer 'ner', expected one of pos, chunk"):
        model.decode(sentence, forced={"ner": [[None]]})
    with pytest.raises(OptionError, match=r"forced: expected {layer: \.\.\.}"):
        model.decode(sentence, forced=[["V", None, None]])


def test_what_is_passed_under_known_labels_is_what_a_lattice_without_the_others_passes():
    model = CRF(max_iter=20).fit(X, POS)
    sentence = [["the", "dog", "barks"]]
    free, same = (
        passed_up(model, sentence, 0.0),
        passed_up(model, sentence, 0.0, forced=[[None, None, None]]),
    )
    assert same.probability == pytest.approx(free.probability)
    known = passed_up(model, sentence, 0.001, forced=[["V", None, None]])
    first = slice(known.candidates.ptr[0], known.candidates.ptr[1])
    assert [known.labels[code] for code in known.candidates.label[first]] == ["V"]
    assert known.probability[first] == pytest.approx([1.0])
    assert known.probability[
        known.candidates.ptr[1] : known.candidates.ptr[2]
    ].sum() == pytest.approx(1.0, abs=0.01)


def test_constraints_hold_where_labels_follow_a_scheme():
    model = cascade("marginal").fit(X, Y)
    assert model.decode(NEW, constraints="scheme")["pos"][0].labels == model.predict(NEW)["pos"][0]
    assert model.predict_spans(X, constraints={"chunk": "scheme"})["chunk"][0][0].type == "NP"
    with pytest.raises(OptionError, match="constraints: no layer 'ner'"):
        model.decode(NEW, constraints={"ner": "scheme"})


def test_samples_do_not_depend_on_the_company_of_a_sentence():
    model = cascade("sample").fit(X, Y)
    alone = [model.predict_marginals([sentence])["chunk"][0] for sentence in NEW]
    for found, expected in zip(model.predict_marginals(NEW)["chunk"], alone, strict=True):
        assert [row["B-NP"] for row in found] == pytest.approx([row["B-NP"] for row in expected])


def test_templates_of_upper_layers_are_read_for_dicts_too(tmp_path):
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    (tmp_path / "above.tpl").write_text("B\nU1:%y[0]\n")
    model = cascade("best", upper=CRF(template=str(tmp_path / "above.tpl"), max_iter=5)).fit(
        dicts, Y
    )
    assert [p.text for p in model.layers_["chunk"]._extractor.above.template.patterns] == [
        "U1:%y[0]"
    ]
    with pytest.raises(TemplateError, match="nonsense: neither a file nor a built-in template"):
        cascade("best", upper=CRF(template="nonsense")).fit(dicts, Y)
    with pytest.raises(TemplateError, match="reads column 0, but the data has 0 input columns"):
        cascade("best", upper=CRF(template="words")).fit(dicts, Y)


def test_ctrl_c_ends_the_training_of_all_layers(monkeypatch):
    import os
    import signal

    trained = []

    def progress(name, model):
        trained.append(name)

        def stop(record, max_iter):
            if len(trained) == 2:
                os.kill(os.getpid(), signal.SIGINT)

        return stop

    model = cascade(jackknife=True, max_iter=50).fit(X, Y, layer_progress=progress)
    assert trained == ["pos", "pos", "chunk"]  # the second part of the jackknife never begins
    assert model.training_["interrupted"] is True
    assert "joint" not in model.training_
    assert model.layers_["chunk"].training_["iterations"] == 1
    assert model.layers_["chunk"].max_iter == 20
    assert len(model.predict(NEW)["chunk"]) == 3


def test_an_untrained_cascade_and_a_layer_on_its_own():
    with pytest.raises(NotFittedError, match="not trained yet"):
        cascade().predict(X)
    for question in (lambda x: passed_up(CRF(), x), lambda x: CRF().sample(x, 3)):
        with pytest.raises(NotFittedError, match="not trained yet"):
            question(X)
    model = cascade("marginal").fit(X, Y)
    with pytest.raises(OptionError, match="is an upper layer of a cascade"):
        model.layers_["chunk"].predict(X)


def test_a_column_that_is_missing_names_the_layer():
    corpus = Corpus.from_sequences(X, POS)
    with pytest.raises(
        CorpusError, match="no column for the layer 'pos', expected it among word, label"
    ):
        cascade().fit(corpus)


def test_parameters_of_layers_have_their_name_in_front():
    model = cascade(upper=LatentCRF(2, l2=3.0))
    assert {
        "pos__max_iter": 20,
        "chunk__l2": 3.0,
        "max_iter": 5,
    }.items() <= model.get_params().items()
    assert not [name for name in model.get_params(deep=False) if "__" in name]
    model.set_params(chunk__l2=0.5, max_iter=1, pos__order=2)
    assert (dict(model.layers)["chunk"].l2, dict(model.layers)["pos"].order, model.max_iter) == (
        0.5,
        2,
        1,
    )
    # first the new layers, then what is changed in them
    model.set_params(pos__l2=7.0, layers=[("pos", CRF())])
    assert model.layers[0][1].l2 == 7.0
    with pytest.raises(
        OptionError, match="Cascade: no model 'tag' within it for 'tag__l2', expected one of pos"
    ):
        model.set_params(tag__l2=1.0)
    with pytest.raises(OptionError, match="CRF: no parameter 'l3'"):
        model.set_params(pos__l3=1.0)


@pytest.mark.parametrize("passing", ["joint", "marginal", "best"])
def test_further_sentences_bring_words_and_labels(passing, tmp_path):
    model = cascade(passing).partial_fit(X, Y)
    model.partial_fit(
        [["quickly", "sings", "Ann"]] * 5,
        {"pos": [["R", "V", "P"]] * 5, "chunk": [["O", "B-VP", "B-X"]] * 5},
    )
    model.save(tmp_path / "m")
    for trained in (model, labelwright.load(tmp_path / "m")):
        assert trained.predict([["quickly", "sings", "Ann"]]) == {
            "pos": [["R", "V", "P"]],
            "chunk": [["O", "B-VP", "B-X"]],
        }
        assert trained.predict(X)["pos"] == POS
    assert model.layers_["pos"].training_["sentences"] == 17


def test_a_cascade_that_cannot_grow_says_so():
    with pytest.raises(OptionError, match="partial_fit: the lexicon is of all training data"):
        cascade(lexicon="pos").fit(X, Y).partial_fit(X, Y)
    perceptrons = cascade("best", Perceptron(), Perceptron()).fit(X, Y)
    assert perceptrons.partial_fit(X, Y).predict(X)["pos"] == POS
    segments = cascade("best", SemiCRF(max_iter=3)).fit(X, Y).partial_fit(X, Y)
    assert segments.training_["layers"]["pos"]["sentences"] == 2 * len(X)


def test_confident_labels_and_occurrences_by_layer():
    model = cascade().fit(X, Y)
    assert model.predict_confident(X, 0.0) == model.predict(X)
    assert {label for labels in model.predict_confident(X, 1.0)["chunk"] for label in labels} == {
        "O"
    }
    chunks = model.occurrence_probabilities(X, {"chunk": "NP"})
    assert list(chunks) == ["chunk"]
    assert all(0 < p < 1 for p in chunks["chunk"])
    with pytest.raises(OptionError, match=r"least: expected a number from 0 to 1, got 1\.5"):
        model.predict_confident(X, 1.5)
    with pytest.raises(OptionError, match=r"types: expected {layer: \.\.\.}"):
        model.occurrence_probabilities(X, "NP")
