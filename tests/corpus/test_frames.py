"""Sentences as data frames of pandas and Polars, as tables of pyarrow, and as arrays of strings."""

import numpy as np
import pytest

from labelwright import CRF, Cascade, MemoryTagger, load, read_frame
from labelwright.constraints import only
from labelwright.corpus import Corpus
from labelwright.errors import CorpusError

ROWS = {
    "sentence_id": [1, 1, 1, 2, 2],
    "word": ["the", "dog", "barks", "birds", "sing"],
    "pos": ["D", "N", "V", "N", "V"],
    "tag": ["B-NP", "I-NP", "B-VP", "B-NP", "B-VP"],
}
TOKENS = [[("the", "D"), ("dog", "N"), ("barks", "V")], [("birds", "N"), ("sing", "V")]]
TAGS = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]]


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def make_frame(request):
    package = pytest.importorskip(request.param)
    return package.table if request.param == "pyarrow" else package.DataFrame


@pytest.fixture
def frames(make_frame):
    return [
        make_frame({"word": [w for w, _ in rows], "pos": [p for _, p in rows]}) for rows in TOKENS
    ]


def chosen(frame, names):
    """Some columns of a frame, in this order."""
    return frame.select(names) if hasattr(frame, "column_names") else frame[names]


# -- long frames -----------------------------------------------------------------------------------


def test_a_long_frame_is_a_corpus(make_frame):
    corpus = read_frame(make_frame(ROWS), label="tag")
    assert (corpus.names, corpus.label) == (("word", "pos", "tag"), "tag")
    assert corpus.X == TOKENS
    assert corpus.y == TAGS
    assert CRF(n_jobs=1).fit(corpus).predict(corpus) == TAGS


def test_columns_are_chosen_and_keys_may_be_several(make_frame):
    rows = ROWS | {
        "document": ["a", "a", "a", "b", "b"],
        "sentence_id": [1, 1, 1, 1, 1],
        "length": [3, 3, 5, 5, 4],
    }
    frame = make_frame(rows)
    assert len(read_frame(frame, columns=["word"])) == 1
    corpus = read_frame(frame, ["document", "sentence_id"], columns=["word", "length"])
    assert corpus.X == [
        [("the", "3"), ("dog", "3"), ("barks", "5")],
        [("birds", "5"), ("sing", "4")],
    ]
    assert corpus.label is None


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({}, {"sentence": "sent"}, "no column 'sent', expected one of sentence_id, word, pos, tag"),
        ({}, {"label": "ner"}, "no column 'ner' to be the label, expected one of word, pos, tag"),
        ({}, {"columns": ["word", "lemma"]}, "no column 'lemma'"),
        (
            {"sentence_id": [1, 1, 2, 2, 1]},
            {},
            "sentence 1 begins at row 0 and again at row 4; sort the rows by it",
        ),
        (
            {"sentence_id": ["a", None, None, "b", None]},
            {},
            "row 1 has no 'sentence_id'; fill it down",
        ),
        (
            {"word": ["a", None, "b", "c", "d"]},
            {},
            "column word, row 1: has no value; .*keep_default_na=False",
        ),
        (
            {"pos": [0.5, 1.5, 2.5, 3.5, 4.5]},
            {},
            r"column pos, row 0: expected a string, got 0.5 \(float\); give feat",
        ),
        ({name: [] for name in ROWS}, {}, "got no rows"),
    ],
)
def test_bad_frames_are_refused(make_frame, changed, options, message):
    with pytest.raises(CorpusError, match=rf"^frame: .*{message}"):
        read_frame(make_frame(ROWS | changed), **options)


def test_other_things_are_no_frames():
    with pytest.raises(
        CorpusError,
        match="expected a data frame of pandas or Polars, or a table of pyarrow, got dict",
    ):
        read_frame(ROWS)


# -- a frame for each sentence ---------------------------------------------------------------------


def test_frames_of_sentences_are_read_by_name(frames, tmp_path):
    model = CRF(n_jobs=1).fit(frames, TAGS)
    assert model.reads().columns == ("word", "pos")
    assert model.predict(frames) == CRF(n_jobs=1).fit(TOKENS, TAGS).predict(TOKENS) == TAGS
    assert model.predict(TOKENS) == TAGS  # as many columns
    turned = [chosen(frame, ["pos", "word"]) for frame in frames]
    assert load(model.save(tmp_path / "model") and tmp_path / "model").predict(turned) == TAGS
    with pytest.raises(CorpusError, match="the model reads 2 columns"):
        model.predict([chosen(frame, ["pos"]) for frame in frames])


def test_columns_with_names_of_their_own_must_be_there(make_frame):
    frame = make_frame({"form": ["a", "b"], "shape": ["x", "x"]})
    model = CRF(n_jobs=1).fit([frame], [["O", "B"]])
    other = make_frame({"lemma": ["a", "b"], "shape": ["x", "x"]})
    with pytest.raises(
        CorpusError, match=r"the model reads the column 'form', the frames have lemma,shape"
    ):
        model.predict([other])


def test_memory_and_cascades_read_frames_too(frames):
    turned = [chosen(frame, ["pos", "word"]) for frame in frames]
    assert MemoryTagger(n_jobs=1).fit(frames, TAGS).predict(turned) == TAGS
    cascade = Cascade([("low", CRF()), ("high", CRF())], n_jobs=1, passing="best").fit(
        frames, {"low": TAGS, "high": TAGS}
    )
    assert cascade.predict(turned)["high"] == TAGS


def test_rules_look_at_the_rows_of_frames(frames):
    pytest.importorskip("ortools")
    tagger = CRF(n_jobs=1).fit(frames, TAGS)
    (first, _) = tagger.decode(frames, constraints=only(lambda token: token[0] == "dog", "B-VP"))
    assert first.labels[1] == "B-VP"


def test_cells_are_strings_whole_numbers_or_truth_values(make_frame):
    corpus = Corpus.from_sequences(
        [make_frame({"word": ["a", "b"], "n": [1, 2], "title": [True, False]})]
    )
    assert corpus.X == [[("a", "1", "True"), ("b", "2", "False")]]
    with pytest.raises(CorpusError, match=r"^X: sentence 0, column word, token 1: has no value"):
        Corpus.from_sequences([make_frame({"word": ["a", None]})])


def test_one_long_frame_is_no_list_of_sentences(make_frame):
    with pytest.raises(CorpusError, match=r"^X: got one data frame, .* use labelwright.read_frame"):
        CRF(n_jobs=1).fit(make_frame(ROWS), TAGS)


def test_a_column_called_label_beside_labels_is_refused(make_frame):
    with pytest.raises(CorpusError, match="column names word,label,label"):
        CRF(n_jobs=1).fit([make_frame({"word": ["a"], "label": ["O"]})], [["O"]])


# -- arrays of strings -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, object])
def test_arrays_of_strings_are_sentences(dtype):
    arrays = [np.array(rows, dtype=dtype) for rows in TOKENS]
    model = CRF(n_jobs=1).fit(arrays, [np.array(tags) for tags in TAGS])
    assert model.predict(arrays) == model.predict(TOKENS) == TAGS
    assert type(model.predict(arrays)[0][0]) is str


def test_arrays_that_hold_something_else_are_refused():
    with pytest.raises(
        CorpusError, match=r"^X: sentence 0, column 1, token 0: expected a string, got \[\]"
    ):
        Corpus.from_sequences([np.array([["a", []], ["b", "c"]], dtype=object)])


def test_a_label_without_a_value_is_unknown(make_frame):
    corpus = read_frame(make_frame(ROWS | {"tag": ["O", None, "O", "O", "O"]}), label="tag")
    assert corpus.y[0][1] is None
