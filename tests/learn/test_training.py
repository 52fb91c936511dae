"""What `fit` refuses at the door, and what a saved model still knows when its surroundings are
gone."""

import numpy as np
import pytest

import labelwright
from labelwright import CRF, LatentCRF, LatentPerceptron, MemoryTagger, Perceptron, SemiCRF
from labelwright.errors import CorpusError, OptionError

X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], ["the", "bird", "sings"]]
Y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], ["B-NP", "I-NP", "O"]]


def test_a_model_remembers_its_template_when_the_file_is_gone(tmp_path):
    file = tmp_path / "mine.tpl"
    file.write_text("U1:%x[0,0]\nU2:%x[-1,0]\n")
    first = CRF(template=str(file), n_jobs=1).fit(X, Y)
    first.save(tmp_path / "m")
    file.unlink()
    again = labelwright.load(tmp_path / "m").fit(X, Y)
    np.testing.assert_array_equal(again.weights_, first.weights_)
    assert again._parameters.n_weights == first._parameters.n_weights
    header = labelwright.modelfile.read(tmp_path / "m")[1]
    assert header["signature"].startswith("crf|template:mine@")
    assert str(tmp_path) not in header["signature"]


@pytest.mark.parametrize("value", [1e39, -1e39, float("nan"), float("inf")])
def test_numbers_that_float32_cannot_hold_are_refused(value):
    with pytest.raises(
        CorpusError, match=r"sentence 0, token 1: feature 'a' is .*expected a number up to 3.4e38"
    ):
        CRF().fit([[{"a": 1.0}, {"a": value}]], [["x", "y"]])
    with pytest.raises(CorpusError, match="sentence 0, token 1: feature 0 is"):
        CRF().fit([np.array([[1.0], [value]])], [["x", "y"]])


@pytest.mark.parametrize(
    ("dev", "words"),
    [
        (5, "dev: expected a pair"),
        ((X,), "dev: expected a pair"),
        ((X, Y[:2]), "dev: y: 2 sentences, but X has 4"),
    ],
)
def test_development_data_are_checked_before_training(dev, words):
    model = CRF(n_jobs=1)
    with pytest.raises((OptionError, CorpusError), match=words):
        model.fit(X, Y, dev=dev)
    assert not hasattr(model, "weights_")


def test_the_record_names_the_iteration_that_did_best_on_development_data():
    record = CRF(n_jobs=1, max_iter=12).fit(X, Y, dev=(X, Y)).training_
    assert record["best_iteration"] in (5, 10)
    assert record["best_dev"] == 1.0


def test_labels_that_are_no_chunks_have_no_spans():
    letters, sounds = [list("bs"), list("ba"), list("sa")], [["B", "S"], ["B", "AH"], ["S", "AH"]]
    assert CRF(n_jobs=1).fit(letters, sounds).predict_spans(letters) == [[], [], []]


def test_sentences_without_tokens_and_generators():
    rows = [[(word, word[0]) for word in sentence] for sentence in X]
    model = CRF(n_jobs=1).fit(iter(rows), Y)
    assert model.predict([[], []]) == [[], []]
    assert model.predict_marginals([[]]) == [[]]
    assert model.predict([[], rows[0]])[0] == []
    with pytest.raises(OptionError, match="not encoded data"):
        model.fit(model.encode(rows), Y)


class Renamed(CRF):
    """A CRF by another name."""


@pytest.mark.parametrize(
    ("model", "init", "message"),
    [
        (CRF(), MemoryTagger(), "init: got a memory, from which no model can start"),
        (CRF(), "model.crf", "init: got a str, from which no model can start"),
        (
            CRF(),
            Perceptron(),
            (
                "init: got a perceptron: its weights are of another size; a crf can start from a "
                "crf or"
            ),
        ),
        (
            Renamed(),
            Perceptron(),
            "init: got a perceptron: its weights are of another size; a crf can",
        ),
        (Perceptron(), CRF(), "init: got a crf: its weights are of another size; a perceptron can"),
        (
            Perceptron(),
            LatentPerceptron(),
            "init: got a latent-perceptron: its labels have several states each; a per",
        ),
        (SemiCRF(), SemiCRF(), "init: a SemiCRF starts from nothing"),
    ],
)
def test_what_training_cannot_start_from(model, init, message):
    with pytest.raises(OptionError, match=f"^{message}"):
        model.fit(X, Y, init=init)


def test_a_class_of_ones_own_starts_like_the_one_that_it_extends():
    before = Renamed(n_jobs=1, max_iter=2).fit(X, Y)
    after = CRF(n_jobs=1, max_iter=1).fit(X, Y, init=before)
    assert after.history_[0]["loss"] == pytest.approx(before.training_["loss"])


def test_only_states_that_were_split_are_told_apart():
    """Also where one label gains states and another loses as many; what was not split keeps its
    weights."""
    numbers = [{"B-NP": 3, "I-NP": 1, "O": 2}, {"B-NP": 1, "I-NP": 3, "O": 2}]
    before, after = (
        LatentCRF(n_latent=n, l2=1.0, random_state=0, n_jobs=1, max_iter=3) for n in numbers
    )
    after.fit(X, Y, init=before.fit(X, Y))
    cells, first = after._parameters.cells["state"], after._space.first
    weights = after.weights_[after._parameters.slices["state"]]
    # the three states of I-NP
    of_state = [weights[cells.column == s] for s in range(first[1], first[2])]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(of_state[one], of_state[other])
    kept = LatentCRF(n_latent=numbers[1], random_state=0, n_jobs=1, max_iter=1, l2=0.0)
    sentences, labels = [*X, ["so"]], [*Y, ["X"]]  # a new label splits nothing
    kept.set_params(n_latent={**numbers[1], "X": 1}).fit(sentences, labels, init=after)
    start = kept.history_[0]["loss"]
    kept.set_params(random_state=1).fit(sentences, labels, init=after)
    assert kept.history_[0]["loss"] == pytest.approx(start, rel=0.05)


def test_a_bare_t_line_is_the_plain_triple_that_order_2_has_anyway():
    template = "U:%x[0,0]\nB"
    settings = {"n_jobs": 1, "order": 2, "max_iter": 5}
    with_line, without = (
        CRF(template=t, **settings).fit(X, Y) for t in (template + "\nT", template)
    )
    np.testing.assert_array_equal(with_line.weights_, without.weights_)
    with pytest.raises(OptionError, match="T lines are features on three labels; use order=2"):
        CRF(template=template + "\nT").fit(X, Y)


@pytest.mark.parametrize(("words", "message"), [
    ({"n_latent": 100_000}, "300,000 states make 90,000,000,000 pairs of states, more than"),
    ({"n_latent": 400, "order": 2}, (
        r"1,200 states make 1,728,000,000 triples of states.*or order "
        r"1"
    )),
])  # fmt: skip
def test_too_many_states_are_refused_before_memory_is_taken(words, message):
    with pytest.raises(OptionError, match=message):
        LatentCRF(**words).fit(X, Y)
