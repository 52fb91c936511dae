"""Annotated texts of doccano and Label Studio: from offsets to labels and back."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labelwright
from labelwright.corpus.annotations import AnnotatedText, Annotation, annotations_of, corpus_of, with_predictions
from labelwright.corpus.text import token_places
from labelwright.errors import CorpusError

TEXT = "Ada Lovelace saw Paris."
SPANS = [[0, 12, "PER"], [17, 22, "LOC"]]
Y = ["B-PER", "I-PER", "O", "B-LOC", "O"]


def doccano(*objects, **options):
    data = "\n".join(json.dumps(item, ensure_ascii=False) for item in objects)
    return labelwright.read_doccano(io.BytesIO(data.encode()), **options)


def task(text, *spans, **more):
    result = [{"value": {"start": a, "end": b, "text": words, "labels": [kind]}} for a, b, words, kind in spans]
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": result}], **more}


def studio(tasks, **options):
    return labelwright.read_label_studio(io.BytesIO(json.dumps(tasks).encode()), **options)


# -- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("don't_go 3.5%", ["don", "'", "t", "_", "go", "3", ".", "5", "%"]),
        ("naïve Cafe\u0301s", ["naïve", "Cafe\u0301s"]),  # the accent as a character of its own
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("\u0301a -\u0301", ["\u0301", "a", "-\u0301"]),
        ("北京😀ok", ["北京", "😀", "ok"]),
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
    ],
)
def test_tokens(text, words):
    assert [text[a:b] for a, b in token_places(text)] == words


@given(st.text())
def test_tokens_hold_all_but_spaces(text):
    places = token_places(text)
    assert "".join(text[a:b] for a, b in places) == "".join(text.split())
    assert all(a < b for a, b in places)


# -- doccano ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        {"text": TEXT, "label": SPANS},
        {"text": TEXT, "labels": SPANS[::-1]},
        {"text": TEXT, "entities": [{"id": 1, "label": k, "start_offset": a, "end_offset": b} for a, b, k in SPANS]},
        {"text": TEXT, "label": [[0, 13, "PER"], [16, 22, "LOC"]]},  # with spaces around
    ],
)
def test_doccano(item):
    corpus = doccano(item, {"text": "…", next(name for name in item if name != "text"): []})
    assert corpus.names == ("word", "label")
    assert corpus.X == [["Ada", "Lovelace", "saw", "Paris", "."], ["…"]]
    assert corpus.y == [Y, ["O"]]


def test_texts_without_annotations():
    assert doccano({"text": "Ada ran."}).label is None
    with pytest.raises(CorpusError, match="<stream>:2: not annotated, but other texts are"):
        doccano({"text": TEXT, "label": []}, {"text": TEXT})


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        ([0, 11, "PER"], r"the annotation 0:11 \(PER\) cuts the token 'Lovelace'"),
        ([1, 12, "PER"], r"cuts the token 'Ada'"),
        ([5, 6, "PER"], r"cuts the token 'Lovelace'"),
        ([4, 16, "X"], r"the annotation 4:16 \(X\) overlaps another one"),
        ([20, 99, "X"], "lies outside the text of 23 characters"),
        ([-1, 3, "X"], "lies outside the text"),
        ([5, 3, "X"], "lies outside the text"),
        ([3, 4, "X"], "holds no token"),
        ([3, 3, "X"], "holds no token"),
        ([17, 22, ""], "has no type"),
    ],
)
def test_bad_annotations(span, problem):
    item = {"text": TEXT, "label": [[0, 12, "PER"], span]}
    with pytest.raises(CorpusError, match=rf"<stream>:1: .*{problem}.*; correct it, or leave .* --skip-bad-spans"):
        doccano(item)
    assert doccano(item, skip_bad_spans=True).y == [["B-PER", "I-PER", "O", "O", "O"]]


def test_what_was_left_out_is_told():
    texts = [AnnotatedText("x:1", TEXT, [Annotation(0, 5, "A"), Annotation(17, 22, "LOC"), Annotation(99, 99, "B")])]
    read = corpus_of(texts, "x", skip_bad_spans=True)
    assert read.corpus.y == [["O", "O", "O", "B-LOC", "O"]]
    assert [line.partition(" (")[0] for line in read.skipped] == [
        "x:1: the annotation 0:5",
        "x:1: the annotation 99:99",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<stream>: no sentences"),
        (b'{"text": "a"', "<stream>:1: not JSON"),
        (b'{"text": 1}', "<stream>:1: expected a field text with a text, got 1"),
        (b'{"label": []}', "<stream>:1: expected a field text with a text, got nothing"),
        (b'{"text": "a", "label": "PER"}', "<stream>:1: label: expected a list of .start, end, type., got 'PER'"),
        (b'{"text": "a", "label": ["PER"]}', "<stream>:1: label: expected .start, end, type., got 'PER'"),
        (b'{"text": "a", "label": [[0, 1.0, "PER"]]}', "<stream>:1: label: expected .start, end, type."),
        (b'{"text": "\\udc00", "label": []}', "<stream>:1: text: holds half of a surrogate pair"),
        (b'{"text": " ", "label": []}', "<stream>: no tokens, expected texts"),
    ],
)
def test_damaged_doccano_files(data, message):
    with pytest.raises(CorpusError, match=message):
        labelwright.read_doccano(io.BytesIO(data))


# -- Label Studio -----------------------------------------------------------------------------------------------------


def test_label_studio():
    spans = (0, 12, "Ada Lovelace", "PER"), (17, 22, "Paris", "LOC")
    cancelled = [{"was_cancelled": True, "result": []}, *task(TEXT, *spans)["annotations"], {"result": []}]
    tasks = [task(TEXT, *spans), task("x", annotations=[]), task(TEXT, annotations=cancelled)]
    assert studio(tasks).y == [Y, Y]  # a task without annotations is left out
    minimal = {"id": 1, "text": TEXT, "label": [{"start": a, "end": b, "labels": [k]} for a, b, _, k in spans]}
    assert studio([minimal]).y == [Y]
    other = {"data": {"id": 3, "body": TEXT}, "annotations": task(TEXT, *spans)["annotations"]}
    other["annotations"][0]["result"] += [{"type": "relation"}, {"value": {"choices": ["good"]}}]
    assert studio([other]).y == [Y]


def test_offsets_in_utf16_and_in_characters():
    text = "😀 Ada ran 😀 Bo"
    in_units = task(text, (3, 6, "Ada", "PER"), (14, 16, "Bo", "PER"))
    in_characters = task(text, (2, 5, "Ada", "PER"), (12, 14, "Bo", "PER"))
    assert studio([in_units]).y == studio([in_characters]).y == [["O", "B-PER", "O", "O", "B-PER"]]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "<stream>: no tasks"),
        ({}, "<stream>: expected a JSON array of tasks"),
        ([1], "<stream>: task 1: expected an object with data and annotations, got 1"),
        ([task("x", annotations=[])], "<stream>: no task has annotations"),
        ([task("Ada", (0, 2, "Ad", "PER"))], r"task 1 \(id 7\): the annotation 0:2 \(PER\) cuts the token 'Ada'"),
        ([{"data": {"a": "x", "b": "y"}}], "task 1: expected a field data.text with a text, got nothing"),
        ([task("x", annotations=3)], "annotations: expected a list, got 3"),
        ([task("x", annotations=[{}])], "annotations: expected a list `result`, got nothing"),
        ([{"text": "x", "label": [{"start": 0, "end": 1, "labels": ["A", "B"]}]}], "expected .start, end, type., got"),
    ],
)  # fmt: skip
def test_damaged_label_studio_files(tasks, message):
    with pytest.raises(CorpusError, match=message):
        studio(tasks)


def test_empty_and_broken_label_studio_files():
    for data, message in ((b"", "no tasks"), (b'[{"data"', "not JSON"), (b"\xff", "not UTF-8")):
        with pytest.raises(CorpusError, match=message):
            labelwright.read_label_studio(io.BytesIO(data))


# -- back -------------------------------------------------------------------------------------------------------------


def test_labels_become_annotations():
    assert [list(each) for each in annotations_of(Y, token_places(TEXT))] == SPANS
    assert annotations_of(["N", "V"], [(0, 2), (3, 4)]) == [(0, 2, "N"), (3, 4, "V")]  # no chunks: token by token


def test_predictions_can_be_read_by_label_studio():
    text = "😀 Ada"
    tasks = [task(text, predictions=[{"result": []}]), {"data": {"text": "x"}}]
    written = json.loads(with_predictions(tasks, [(text, [Annotation(2, 5, "PER")]), ("x", [])]))
    value = {"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}
    assert written[0]["predictions"][1]["result"] == [
        {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
    ]
    assert written[1]["predictions"][0]["result"] == []
    assert written[0]["annotations"] == tasks[0]["annotations"]
