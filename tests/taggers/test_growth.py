"""Models that grow batch by batch: the same cells as from all data at once, and nothing that was
learnt is lost."""

from itertools import chain

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from tiny import TRIPLES, X, Y

import labelwright
from labelwright import CRF, LatentCRF
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.features.extract import ArrayFeatures, DictFeatures
from labelwright.scoring import parameters
from labelwright.scoring.carry import carry_over
from labelwright.structures.states import state_names

ONE = "U:%x[0,0]\nU:%x[-1,0]/%x[0,0]\nU\n"
TEMPLATES = {
    "states": (ONE + 'B\nU:%m[0,0,"^."]', 1),
    "pairs": (ONE + "B:%x[0,0]\n*:%x[1,0]", 1),
    "triples": (ONE + "B:%x[0,0]\n*:%x[1,0]\nT:%x[-1,0]\nT", 2),
    "pairs of order 2": (ONE + "B:%x[0,0]\n*:%x[-2,0]", 2),
}
LATENT = {"B-NP": 2, "I-NP": 1, "O": 3, "B-VP": 2, "X": 1}
LABELS = list(LATENT)
WORDS = ["a", "b", "ab", "ba", "c"]


def grow(model, X, y=None):
    return model._prepare(X, y, old=model._learnt())


# -- helpers ---------------------------------------------------------------------------------------


def named_cells(model):
    """Every feature of every kind by its name, with the states, pairs or triples it has weights
    for, in order."""
    states, found = state_names(model._space), {}
    for kind, cells in model._parameters.cells.items():
        grams = [
            [
                tuple(
                    states[c // len(states) ** k % len(states)]
                    for k in range(parameters.REACH[kind], -1, -1)
                )
                for c in cells.column[a:b].tolist()
            ]
            for a, b in zip(cells.ptr[:-1], cells.ptr[1:], strict=True)
        ]
        found[kind] = sorted((model._extractor.name(f), columns) for f, columns in enumerate(grams))
    return found


def prepared(model, X, y, seed=0):
    """A model with random weights for the cells of this data."""
    _, trained = model._prepare(X, y)
    weights = (
        np.random.default_rng(seed).normal(size=trained.parameters.n_weights).astype(np.float32)
    )
    model._trained = trained._replace(weights=weights)
    return model


def grown(model, X, y=None):
    """The data of a batch, after the model grew and took its old weights along; what is new starts
    at 0."""
    data, trained = grow(model, X, y)
    model._trained = trained._replace(weights=carry_over(model._trained, trained))
    return data


def same_data(model, data, reference, all_data, n_tokens):
    """The batch in the grown model is the tail of all data in the reference: labels, and features
    by their names."""
    labels, all_labels = model._space.labels, reference._space.labels
    assert [labels[g] for g in data.gold] == [all_labels[g] for g in all_data.gold[n_tokens:]]
    for kind, found in data.incidences.items():
        mine = features_of(model._extractor, found)
        assert mine == features_of(reference._extractor, all_data.incidences[kind])[n_tokens:]


def features_of(extractor, incidence):
    """The names of the features of each token, with their values."""
    found = []
    for t, keys in enumerate(incidence.keys):
        a, b = incidence.token_ptr[t : t + 2]
        values = (
            incidence.token_value[a:b].tolist()
            if len(incidence.token_value)
            else [1.0] * int(b - a)
        )
        own = list(zip(incidence.token_feature[a:b].tolist(), values, strict=True))
        for key in keys[keys >= 0]:
            a, b = incidence.key_ptr[key : key + 2]
            own += [(f, 1.0) for f in incidence.key_feature[a:b].tolist()]
        found.append(sorted((extractor.name(f), v) for f, v in own))
    return found


def snapshot(model):
    return {name: value for name, value in model.__dict__.items() if name != "_assemblies"}


def as_dicts(X):
    return [[{"w": w, "n": len(w) / 2, "long": len(w) > 1} for w in sentence] for sentence in X]


def as_arrays(X):
    return [
        np.array([[len(w), ord(w[0]) % 7, 1.0] for w in s], np.float32).reshape(-1, 3) for s in X
    ]


def as_tuples(X):
    return [[(w, w[-1]) for w in sentence] for sentence in X]


# what is read, template and order
INPUTS = {name: (lambda X: X, *template) for name, template in TEMPLATES.items()}
INPUTS |= {
    f"{name} of order {order}": (made, "default", order)
    for name, made in (("dicts", as_dicts), ("arrays", as_arrays))
    for order in (1, 2)
}


@st.composite
def batches(draw, most=3):
    """Some batches of sentences with their labels, the later ones with more words and labels."""
    found = []
    for i in range(draw(st.integers(2, most))):
        word, label = st.sampled_from(WORDS[: 2 * i + 2]), st.sampled_from(LABELS[: i + 2])
        sentence = st.lists(st.tuples(word, label), min_size=1, max_size=4)
        drawn = draw(st.lists(sentence, min_size=1, max_size=3))
        found.append(tuple([[pair[k] for pair in s] for s in drawn] for k in (0, 1)))
    return found


def models(template, order, cells, latent):
    if latent:
        return LatentCRF(latent, template, order=order, cells=cells, n_jobs=1)
    return CRF(template, order=order, cells=cells, n_jobs=1)


# -- the same as from all data at once -------------------------------------------------------------


@pytest.mark.cases(9)
@pytest.mark.parametrize("latent", [None, 2], ids=["plain", "latent"])
@pytest.mark.parametrize("cells", ["observed", "all"])
@pytest.mark.parametrize("read", INPUTS)
@given(drawn=batches())
@drawn(15)
def test_batches_give_the_cells_of_all_data(read, cells, latent, drawn):
    made, template, order = INPUTS[read]
    (first, labels), *rest = drawn
    model = prepared(models(template, order, cells, latent), made(first), labels)
    for more, more_labels in rest:
        n_tokens = sum(map(len, labels))
        first, labels = first + more, labels + more_labels
        data = grown(model, made(more), more_labels)
        whole = models(template, order, cells, latent)
        everything, whole._trained = whole._prepare(made(first), labels)
        assert model._space.labels == whole._space.labels
        assert model._space.first.tolist() == whole._space.first.tolist()
        assert named_cells(model) == named_cells(whole)
        assert model._parameters.order == whole._parameters.order == order
        assert data.offsets.tolist() == (everything.offsets[-len(more) - 1 :] - n_tokens).tolist()
        same_data(model, data, whole, everything, n_tokens)


@given(drawn=batches(most=2))
@drawn(15)
def test_a_number_of_states_for_each_label(drawn):
    (first, labels), (more, more_labels) = drawn
    seen = {label for sentence in labels + more_labels for label in sentence}
    model = LatentCRF(
        {label: LATENT[label] for label in LABELS if label in {x for s in labels for x in s}}, ONE
    )
    prepared(model, first, labels)
    model.set_params(n_latent=LATENT)  # some of its labels are yet to come
    grown(model, more, more_labels)
    whole = LatentCRF({label: LATENT[label] for label in seen}, ONE)
    _, whole._trained = whole._prepare(first + more, labels + more_labels)
    assert named_cells(model) == named_cells(whole)


def test_a_corpus_and_its_lists_grow_the_same():
    by_lists, by_corpus = (prepared(CRF(TRIPLES, order=2), X, Y) for _ in range(2))
    more, labels = [["some", "dog"], [], ["sings"]], [["B-NP", "I-NP"], [], ["X"]]
    data = grown(by_lists, more, labels)
    grown(by_corpus, Corpus.from_sequences(more, labels))
    assert named_cells(by_lists) == named_cells(by_corpus)
    assert data.offsets.tolist() == [0, 2, 3]  # the empty sentence is gone
    assert data.gold.tolist() == [0, 1, 3]


# -- nothing is lost -------------------------------------------------------------------------------


@pytest.mark.cases(7)
@pytest.mark.parametrize("latent", [None, 2], ids=["plain", "latent"])
@pytest.mark.parametrize("read", INPUTS)
@given(drawn=batches(most=2), seed=st.integers(0, 1000))
@drawn(10)
def test_growing_changes_no_prediction(read, latent, drawn, seed):
    """A new label starts at 0 everywhere and may win: among the old labels, nothing changes."""
    made, template, order = INPUTS[read]
    (first, labels), (more, more_labels) = drawn
    model = prepared(models(template, order, "observed", latent), made(first), labels, seed)
    old = list(model._space.labels)
    questions = made(first), made(more)
    before = [model.predict_marginals(x) for x in questions]
    grown(model, made(more), more_labels)
    for x, expected in zip(questions, before, strict=True):
        found = model.predict_marginals(x, forced=[[old] * len(sentence) for sentence in x])
        for a, b in zip(chain(*found), chain(*expected), strict=True):
            assert [a[label] for label in old] == pytest.approx(
                [b[label] for label in old], abs=1e-6
            )
            assert all(a[label] == 0 for label in a if label not in old)


@pytest.mark.parametrize(
    "model", [CRF(TRIPLES, order=2, n_jobs=1), LatentCRF(2, n_jobs=1, random_state=0)]
)
def test_a_trained_model_still_predicts_what_it_did(model):
    model.fit(X, Y)
    expected = model.predict(X)
    mark, encoded = model._extractor.mark, model.encode(X)
    grown(model, [["some", "dog", "barks"]], [["B-NP", "I-NP", "O"]])
    assert model.predict(X) == expected == Y
    assert model._extractor.mark != mark
    with pytest.raises(OptionError, match="another model"):
        model.predict(encoded)


@pytest.mark.parametrize(
    "model",
    [CRF(TRIPLES, order=2, l1=0.05, n_jobs=1), LatentCRF(3, l1=0.1, share=False, random_state=1)],
)
def test_a_model_file_in_between(model, tmp_path):
    """The file lacks weights of 0, so some states of a label may be missing: the grown model has
    all or none."""
    model.fit(X, Y)
    model.save(tmp_path / "model")
    loaded = labelwright.load(tmp_path / "model")
    assert loaded._parameters.n_weights < model._parameters.n_weights
    kept = set(listed(loaded))
    assert not model._space.latent or kept != {
        cell for cell in listed(model) if tile(cell) in map(tile, kept)
    }
    more, labels = [["some", "dog", "sings"]], [["B-NP", "X", "O"]]
    expected = model.predict_marginals(X)
    forced = [[list(loaded._space.labels)] * len(sentence) for sentence in X]
    grown(loaded, more, labels)
    whole, batch = (type(model)(**model.get_params()) for _ in range(2))
    _, whole._trained = whole._prepare(X + more, Y + labels)
    _, batch._trained = batch._prepare(more, labels)
    wanted = set(map(tile, [*kept, *listed(batch)]))
    assert set(listed(loaded)) == {cell for cell in listed(whole) if tile(cell) in wanted}
    for a, b in zip(
        chain(*loaded.predict_marginals(X, forced=forced)), chain(*expected), strict=True
    ):
        assert [a[label] for label in b] == pytest.approx(list(b.values()), abs=1e-5)


def tile(cell):
    """A cell without the numbers of its states."""
    kind, name, gram = cell
    return kind, name, tuple(state.split("#")[0] for state in gram)


def listed(model):
    return [
        (kind, name, gram)
        for kind, rows in named_cells(model).items()
        for name, grams in rows
        for gram in grams
    ]


def test_a_rare_feature_counts_once_it_is_known_and_a_batch_may_have_none():
    model = prepared(CRF("U:%x[0,0]", min_count=2), [["a", "a", "b"]], [["X", "X", "Y"]])
    grown(model, [["c"], ["a"]], [["X"], ["Y"]])
    assert named_cells(model) == {"state": [("U:a", [("X",), ("Y",)])]}
    dicts = prepared(CRF(min_count=2), as_dicts([["a", "a"]]), [["X", "X"]])
    grown(dicts, [[{"other": 1}]], [["X"]])
    assert dicts._extractor.names == ["w=a", "n"]


# -- labels and schemes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "sets"),
    [
        ([[{"N", "V"}, "N"]], [{"N", "V"}]),
        ([["N|V", "N"]], [{"N", "V"}]),
        ([["N|V", "D"]], [{"N", "V"}]),
        ([[None, "N"]], [{"N", "V", "D"}]),
        ([["_", {"X", "V"}]], [{"N", "V", "D", "X"}, {"X", "V"}]),
        ([[None, "_"]], [{"N", "V", "D"}]),
    ],
)
def test_sets_of_a_batch_are_sets_of_the_labels_of_the_model(batch, sets):
    """Whatever labels the batch has beside them."""
    model = CRF(n_jobs=1, max_iter=2).fit([["a", "b", "c"]], [["N", "V", "D"]])
    data, trained = grow(model, [["a", "b"]], batch)
    labels = trained.space.labels
    assert labels[:3] == ("N", "V", "D")
    assert [{labels[y] for y in np.flatnonzero(row)} for row in data.said.sets] == sets


def test_texts_that_are_labels_of_the_model_stay_labels():
    model = CRF(n_jobs=1, max_iter=2).fit(
        [["a", "b", "c", "d"]], [["NN|ly", "_", "Case=Nom", "NN"]]
    )
    data, trained = grow(model, [["a", "b", "c"]], [["NN|ly", "_", "NN"]])
    assert trained.space.labels == model._space.labels
    assert data.gold.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("first", "more", "scheme"),
    [
        (["O", "B-NP"], ["I-NP"], "iob2"),  # it stays, whatever the batch does
        (["I-NP", "O"], ["I-NP", "B-NP"], "iob1"),
        (["O", "B-NP"], ["B-NP", "E-NP", "S-VP"], "bioes"),
        (["O", "B-NP"], ["NN"], None),
        (["O"], ["B-NP", "I-NP"], "iob2"),
        (["NN"], ["B-NP"], None),
        (["NN"], ["NN"], None),
    ],
)
def test_the_scheme_of_old_and_new_labels(first, more, scheme):
    model = prepared(CRF("words"), [["w"] * len(first)], [first])
    grown(model, [["w"] * len(more)], [more])
    assert model.scheme_ == scheme


def test_constraints_take_new_labels_of_the_scheme():
    model = prepared(CRF("words", order=2, constraints="scheme"), X, Y)
    grown(model, [["he", "ran"]], [["B-NP", "B-VP"]])
    whole = CRF("words", order=2, constraints="scheme")
    _, whole._trained = whole._prepare([*X, ["he", "ran"]], [*Y, ["B-NP", "B-VP"]])
    assert model._space.labels == whole._space.labels
    for mine, other in zip(model._space[1:6], whole._space[1:6], strict=True):
        assert mine.tolist() == other.tolist()
    assert model._space.graph.n_nodes == whole._space.graph.n_nodes


def test_constraints_that_name_a_scheme_outlive_the_one_found():
    model = prepared(CRF("words", constraints="iob1"), [["w", "w"]], [["I-NP", "O"]])
    assert model.scheme_ == "io"
    grown(model, [["w", "w"]], [["I-NP", "B-NP"]])
    assert model.scheme_ == "iob1"


def test_numbers_of_states_may_name_labels_to_come():
    assert LatentCRF({"X": 2, "Y": 3, "Z": 1})._latent_states(["Z", "X"], more=True) == [1, 2]
    assert LatentCRF(3)._latent_states(["Z", "X"], more=True) == [3, 3]
    assert CRF()._latent_states(["Z", "X"], more=True) == [1, 1]


def test_labels_with_more_states_than_before():
    model = prepared(LatentCRF(2, ONE), X, Y)
    model.set_params(n_latent=3)
    grown(model, [["dog"]], [["X"]])
    whole = LatentCRF(3, ONE)
    _, whole._trained = whole._prepare([*X, ["dog"]], [*Y, ["X"]])
    assert named_cells(model) == named_cells(whole)


# -- failures --------------------------------------------------------------------------------------

NEW_X, NEW_Y = [["some", "dog"]], [["B-NP", "I-NP"]]


@pytest.mark.parametrize(
    ("model", "change", "batch", "message"),
    [
        (CRF(), {}, (as_dicts(NEW_X), NEW_Y), "trained on columns, got dicts"),
        (CRF(), {}, (as_arrays(NEW_X), NEW_Y), "trained on columns, got arrays"),
        (CRF(), {}, (as_tuples(NEW_X), NEW_Y), "reads 1 columns .word., got 2"),
        (CRF(), {}, (NEW_X, [["B-NP"]]), "sentence 0 has 1 labels"),
        (CRF(), {}, (NEW_X, None), "give the labels"),
        (CRF(), {}, ([[]], [[]]), "no tokens"),
        (CRF(), {"template": "U:%x[0,0]"}, (NEW_X, NEW_Y), "template: differs from"),
        (CRF(), {"order": 2}, (NEW_X, NEW_Y), "order: the model was trained with 1, got 2"),
        (
            CRF(constraints="scheme"),
            {},
            (NEW_X, [["B-NP", "E-NP"]]),
            "follow iob2, which has no 'E-NP'",
        ),
        (CRF(constraints="iob2"), {}, (NEW_X, [["B-NP", "E-NP"]]), "scheme iob2: label 'E-NP'"),
        (CRF(constraints="scheme"), {}, (NEW_X, [["O", "I-NP"]]), "I-NP cannot follow O"),
        (
            LatentCRF({"B-NP": 2, "I-NP": 1, "O": 1}),
            {},
            (NEW_X, [["B-NP", "X"]]),
            "no number for the label 'X'",
        ),
        (LatentCRF(2), {"n_latent": 4000}, (NEW_X, NEW_Y), "states make"),
    ],
)
def test_failing_leaves_the_model_as_it_was(model, change, batch, message):
    model = prepared(type(model)(**model.get_params()), X, Y).set_params(**change)
    before = snapshot(model)
    with pytest.raises(LabelwrightError, match=message) as error:
        grow(model, *batch)
    assert "\n" not in str(error.value)
    after = snapshot(model)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())


def test_too_many_weights_leave_the_model_as_it_was(monkeypatch):
    model = prepared(CRF("words"), X, Y)
    before = snapshot(model)
    monkeypatch.setattr(parameters, "MAX_CELLS", model._parameters.n_weights - 9)
    with pytest.raises(OptionError, match="weights for state features"):
        grow(model, [["new", "words"]], [["B-NP", "O"]])
    assert all(snapshot(model)[name] is value for name, value in before.items())


def test_only_trained_models_grow():
    with pytest.raises(LabelwrightError, match="not trained yet"):
        grow(CRF(), NEW_X, NEW_Y)


def test_extractors_of_different_kinds_do_not_merge():
    with pytest.raises(OptionError, match="trained on dicts, got arrays"):
        DictFeatures(["a"]).merged(ArrayFeatures(2))
    with pytest.raises(OptionError, match="trained on arrays, got dicts"):
        ArrayFeatures(2).merged(DictFeatures(["a"]))
    with pytest.raises(CorpusError, match="rows of 2 numbers, got rows of 3"):
        ArrayFeatures(2).merged(ArrayFeatures(3))
    assert DictFeatures(["a", "b"]).merged(DictFeatures(["c", "a"])).names == ["a", "b", "c"]
