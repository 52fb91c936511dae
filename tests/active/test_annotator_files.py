"""Files for annotators, read back by the readers of the package."""

import io
import json

import pytest

from labelwright.active.annotator_files import (
    FORMATS,
    ToAnnotate,
    annotator_file,
    format_for,
    placed,
)
from labelwright.corpus import read_columns
from labelwright.corpus.annotations import label_studio_texts, read_doccano
from labelwright.corpus.token_records import read_jsonl
from labelwright.errors import OptionError

FACTS = {"sentence": 7, "score": 1.5}
ITEMS = [
    ToAnnotate(
        [("Ada", "NNP"), ("Lovelace", "NNP"), ("ran", "VBD")], ["B-PER", "I-PER", "O"], FACTS
    ),
    ToAnnotate([("到", "P"), ("北京", "NR")], ["O", "B-LOC"], FACTS),
    ToAnnotate([("Rome", "NNP"), (".", ".")], ["B-LOC", "O"], FACTS, (), "Rome.", [(0, 4), (4, 5)]),
]
NAMES = ["word", "pos"]


def test_columns_have_the_label_last_and_further_columns_after_it():
    corpus = read_columns(io.BytesIO(annotator_file(ITEMS, NAMES, "columns")), names="word,pos,ner")
    assert [item.rows for item in ITEMS] == corpus.X
    assert corpus.y == [item.labels for item in ITEMS]
    more = [ITEMS[0]._replace(more=[["a", "b", "c"], ["1", "2", "3"]])]
    assert annotator_file(more, NAMES, "columns").splitlines()[1] == b"Lovelace NNP I-PER b 2"


def test_json_lines_are_read_with_all_columns():
    text = annotator_file(ITEMS, NAMES, "jsonl")
    corpus = read_jsonl(io.BytesIO(text), columns="tokens,pos", label="labels")
    assert corpus.y == [item.labels for item in ITEMS]
    assert corpus.column("pos")[0] == ["NNP", "NNP", "VBD"]
    assert json.loads(text.splitlines()[0])["score"] == 1.5


def test_doccano_has_places_in_the_text():
    text = annotator_file(ITEMS, NAMES, "doccano")
    records = [json.loads(line) for line in text.splitlines()]
    assert [record["text"] for record in records] == ["Ada Lovelace ran", "到北京", "Rome."]
    assert [record["label"] for record in records] == [
        [[0, 12, "PER"]],
        [[1, 3, "LOC"]],
        [[0, 4, "LOC"]],
    ]
    assert read_doccano(io.BytesIO(text.splitlines()[0])).y == [["B-PER", "I-PER", "O"]]


def test_label_studio_has_tasks_with_predictions():
    tasks = json.loads(annotator_file(ITEMS, NAMES, "label-studio"))
    assert tasks[0]["data"] == {"text": "Ada Lovelace ran", **FACTS}
    texts = label_studio_texts(tasks, "tasks", predicted=True)
    assert [[(each.start, each.end, each.type) for each in text.annotations] for text in texts] == [
        [(0, 12, "PER")],
        [(1, 3, "LOC")],
        [(0, 4, "LOC")],
    ]


def test_the_same_word_twice_has_two_places():
    assert placed(["a", "aa", "a"]) == ("a aa a", [(0, 1), (2, 4), (5, 6)])


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_a_file_without_sentences(format):
    assert annotator_file([], NAMES, format).split() in ([], [b"[]"])


def test_the_name_of_a_file_says_its_format():
    assert [
        format_for(*pair) for pair in (("a.jsonl", None), ("a.txt", None), ("a.txt", "doccano"))
    ] == [
        "jsonl",
        "columns",
        "doccano",
    ]
    with pytest.raises(
        OptionError,
        match=r"^to: expected one of columns, .*, got 'docano'; did you mean 'doccano'\?$",
    ):
        format_for("a", "docano")
