"""Labels that are known in part: how they are read, what is refused, spans of which only some are
marked."""

import numpy as np
import pytest

from labelwright import CRF
from labelwright.corpus.open_labels import (
    read_allowed_labels,
    unmarked_unknown,
    weighted,
    with_allowed_labels,
)
from labelwright.corpus.partial_labels import (
    check_known,
    how_many_known,
    is_partial,
    is_set,
    label_codes,
)
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate


def test_an_underscore_beside_morphological_features_is_a_label() -> None:
    codes = np.array([0, 1])
    assert label_codes(["_", "Case=Nom|Number=Sing"], codes).labels == ["_", "Case=Nom|Number=Sing"]
    assert label_codes(["_", "N"], codes).labels == ["N"]
    check_known([["_", "Case=Nom"]], "gold")


def test_a_set_of_all_labels_counts_as_unknown() -> None:
    assert how_many_known(["N", "V", "N|V", "_"], np.array([0, 1, 2, 3, 3])) == (2, 0, 3)


@pytest.mark.parametrize("label", ["_", "N|V", None, frozenset("NV"), ["N", "V"]])
def test_true_labels_must_be_known(label: object) -> None:
    with pytest.raises(CorpusError, match="gold: sentence 1, token 0: the label is"):
        evaluate([["N", "V"], [label]], [["N", "V"], ["N"]])
    with pytest.raises(CorpusError, match="dev: sentence 0, token 0: the label is"):
        CRF(max_iter=2, n_jobs=1).fit(
            [["a"]], [["N"]], dev=([["a"], ["b", "c"]], [[label], ["N", "V"]])
        )


def test_partial_labels_are_not_rewritten_in_another_scheme() -> None:
    corpus = Corpus.from_sequences([["a", "b"]], [["B-X", "_"]])
    with pytest.raises(
        CorpusError, match="cannot be written as bioes: sentence 0, token 1: the label is unknown"
    ):
        corpus.with_scheme("bioes")


def test_what_follows_a_marked_span_does_not_continue_it() -> None:
    [labels] = unmarked_unknown([["O", "B-X", "O", "O", "B-Y", "I-Y", "O"]])
    every, apart = {"O", "B-X", "B-Y", "I-Y"}, {"O", "B-X", "B-Y"}
    assert labels == [every, "B-X", apart, every, "B-Y", "I-Y", apart]


def test_what_precedes_a_marked_span_does_not_run_into_it() -> None:
    [labels, _] = unmarked_unknown([["O", "I-X"], ["I-X", "B-X"]])  # iob1
    assert labels == [{"O"}, "I-X"]
    [labels] = unmarked_unknown([["O", "B-X", "E-X", "O", "S-X"]])
    assert labels == [{"O", "E-X", "S-X"}, "B-X", "E-X", {"O", "S-X"}, "S-X"]


def test_unmarked_labels_need_spans() -> None:
    for y in ([["O", "O"]], [["N", "V"]]):
        with pytest.raises(CorpusError, match="no spans are marked"):
            unmarked_unknown(y)


def test_weights_stand_in_a_column() -> None:
    rows = [[("a", "2", "0.5"), ("b", "2", "1")], [], [("c", "1", "3")]]
    corpus = Corpus.from_sequences(
        rows, [["N", "V"], [], ["N"]], names=["word", "often", "cost", "label"]
    )
    rest, weights = weighted(corpus, token="cost")
    assert rest.names == ("word", "often", "label")
    assert weights == [[0.5, 1.0], [], [3.0]]
    assert weighted(corpus, sentence="often").sample_weight == [2.0, 1.0, 1.0]
    with pytest.raises(CorpusError, match=r"sentence 0: column cost has the weights 0\.5 and 1"):
        weighted(corpus, sentence="cost")
    with pytest.raises(CorpusError, match="column word: expected a number of 0 or more, got 'a'"):
        weighted(corpus, token="word")
    with pytest.raises(OptionError, match="name a column"):
        weighted(corpus)


def test_a_dictionary_narrows_labels_that_are_open(tmp_path) -> None:
    (tmp_path / "words.txt").write_text("can\tN V\n\nthe D\ncan X\n")
    allowed = read_allowed_labels(str(tmp_path / "words.txt"))
    assert allowed == {"can": {"N", "V", "X"}, "the": {"D"}}
    y = [["D", None, {"V", "D"}, "_", "A|B"]]
    assert with_allowed_labels([["the", "can", "can", "dog", "the"]], y, allowed) == [
        ["D", {"N", "V", "X"}, {"V"}, "_", "A|B"]
    ]
    (tmp_path / "words.txt").write_text("can\n")
    with pytest.raises(
        CorpusError, match=r"words.txt:1: expected a word and its labels, got only 'can'"
    ):
        read_allowed_labels(str(tmp_path / "words.txt"))
    (tmp_path / "words.txt").write_bytes("Städte N\n".encode("latin-1"))
    with pytest.raises(
        CorpusError, match=r"words.txt:1: byte 3 of the line .0xe4. is not UTF-8; convert the file"
    ):
        read_allowed_labels(tmp_path / "words.txt")
    with pytest.raises(CorpusError, match=r"nowhere.txt: cannot read: no such file"):
        read_allowed_labels(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("several", [["N", "V"], {"N", "V"}, frozenset(["N", "V"])])
def test_sets_of_labels_of_any_type_are_the_same(several) -> None:
    assert is_set(several)
    assert is_partial(several)
    X, y = [["a", "b"], ["b"]], [["N", several], ["V"]]
    corpus = Corpus.from_sequences(X, y)
    assert corpus.y == [["N", {"N", "V"}], ["V"]]
    crf = CRF(max_iter=2, n_jobs=1).fit(X, y)
    (known,) = crf.sequence_log_probabilities([["a", "b"]], [["N", several]])
    assert known == pytest.approx(crf.sequence_log_probabilities([["a", "b"]], [["N", None]])[0])
    (decoded,) = crf.decode([["a", "b"]], forced=[["V", several]])
    assert decoded.labels[0] == "V"


def test_a_tuple_is_no_set_of_labels() -> None:
    several = "N", "V"
    assert not is_set(several)
    with pytest.raises(CorpusError, match=r"y: sentence 0, token 1: .*give a set"):
        CRF(max_iter=2, n_jobs=1).fit([["a", "b"]], [["N", several]])
    crf = CRF(max_iter=2, n_jobs=1).fit([["a", "b"]], [["N", "V"]])
    with pytest.raises(
        CorpusError, match="y: expected a label, None or a set of labels at every token, got"
    ):
        crf.sequence_log_probabilities([["a", "b"]], [["N", several]])


@pytest.mark.parametrize("other", ["A", 1, None])
def test_missing_labels_and_tuples_are_explained(other):
    for label, text in (
        (float("nan"), "no label, but nan; give None where it is unknown"),
        (("A", "B"), "give a set"),
    ):
        with pytest.raises(CorpusError, match=f"y: sentence 0, token 1: .*{text}"):
            CRF().fit([["a", "b"]], [[other, label]])
    with pytest.raises(
        CorpusError,
        match=r"y: sentence 0, token 1: .*give a set where one of several labels is right",
    ):
        CRF().fit([["a", "b"]], [[other, np.array(["A", "B"])]])


def test_weights_that_are_no_numbers_have_a_place():
    corpus = Corpus.from_sequences([[("a", "1")], [("b", "2"), ("c", "x")]], [["A"], ["B", "A"]])
    with pytest.raises(
        CorpusError,
        match="sentence 1, token 1: column pos: expected a number of 0 or more, got 'x'",
    ):
        weighted(corpus, token="pos")
