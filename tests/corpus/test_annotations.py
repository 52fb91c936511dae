"""Annotated texts of doccano and Label Studio: from offsets to labels and back."""

import io
import json

import pytest

import labelwright
from labelwright.corpus.annotations import (
    AnnotatedText,
    Annotation,
    _uncut,
    corpus_of,
    read_brat,
    with_predictions,
)
from labelwright.corpus.spans import Span
from labelwright.corpus.tokenizer import Entity, Tokenizer, labelled_spans, split_texts
from labelwright.errors import CorpusError

TEXT = "Ada Lovelace saw Paris."
SPANS = [[0, 12, "PER"], [17, 22, "LOC"]]
Y = ["B-PER", "I-PER", "O", "B-LOC", "O"]


def doccano(*objects, **options):
    data = "\n".join(json.dumps(item, ensure_ascii=False) for item in objects)
    return labelwright.read_doccano(io.BytesIO(data.encode()), **options)


def task(text, *spans, **more):
    result = [
        {"value": {"start": a, "end": b, "text": words, "labels": [kind]}}
        for a, b, words, kind in spans
    ]
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": result}], **more}


def studio(tasks, **options):
    return labelwright.read_label_studio(io.BytesIO(json.dumps(tasks).encode()), **options)


# -- doccano ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        {"text": TEXT, "label": SPANS},
        {"text": TEXT, "labels": SPANS[::-1]},
        {
            "text": TEXT,
            "entities": [
                {"id": 1, "label": k, "start_offset": a, "end_offset": b} for a, b, k in SPANS
            ],
        },
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
        ([4, 16, "X"], r"the annotation 4:16 \(X\) overlaps another one"),
        ([20, 99, "X"], "lies outside the text of 23 characters"),
        ([-1, 3, "X"], "lies outside the text"),
        ([-9, -7, "X"], "lies outside the text"),
        ([17, 10**20, "X"], "lies outside the text of 23 characters"),
        ([5, 3, "X"], "ends before it begins in the text of 23 characters"),
        ([3, 4, "X"], "holds no token"),
        ([3, 3, "X"], "marks nothing of the text of 23 characters"),
        ([17, 22, ""], "has no type"),
    ],
)
def test_bad_annotations(span, problem):
    item = {"text": TEXT, "label": [[0, 12, "PER"], span]}
    with pytest.raises(
        CorpusError, match=rf"<stream>:1: .*{problem}.*; correct it, or leave .* --skip-bad-spans"
    ):
        doccano(item)
    with pytest.warns(
        UserWarning, match="^<stream>: 1 annotation left out; <stream>:1: the annotation"
    ):
        assert doccano(item, skip_bad_spans=True).y == [["B-PER", "I-PER", "O", "O", "O"]]


@pytest.mark.parametrize("place", [[5, 99], [-1, 3], [5, 3], [3, 3]])
def test_what_is_unknown_lies_in_the_text(place):
    item = {"text": TEXT, "label": [[0, 12, "PER"]], "unknown": [[13, 16], place]}
    with pytest.raises(CorpusError, match=r"<stream>:1: unknown: .*the text of 23 .*skip-bad"):
        doccano(item)
    with pytest.warns(UserWarning, match="1 annotation left out; <stream>:1: unknown"):
        known = doccano(item, skip_bad_spans=True).y
    assert known == doccano(item | {"unknown": [[13, 16]]}).y


@pytest.mark.parametrize("line", ["PER 0 99", "PER 3 0", "PER 0 0", "PER 0 1;3 2"])
def test_places_of_brat_lie_in_the_text(line, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "a.ann").write_text(f"T1\t{line}\tAda\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a\.ann: the annotation .*text of 23 .*skip-bad"):
        read_brat(tmp_path)
    with pytest.warns(UserWarning, match="1 annotation left out"):
        assert read_brat(tmp_path, skip_bad_spans=True).y == [["O"] * 5]


def test_a_part_of_brat_may_be_an_empty_line(tmp_path):
    (tmp_path / "a.txt").write_text("Ada\n\nLovelace", encoding="utf-8")
    (tmp_path / "a.ann").write_text("T1\tPER 0 3;4 4;5 13\tAda  Lovelace\n", encoding="utf-8")
    assert read_brat(tmp_path).y == [["B-PER", "I-PER"]]


@pytest.mark.parametrize("end", [99, 10**20])
@pytest.mark.parametrize("more", ["", " \U0001f600"])  # a browser counts this as two
def test_places_of_label_studio_lie_in_the_text(end, more):
    tasks = [task(TEXT + more, (0, end, "Ada", "PER"))]
    with pytest.raises(CorpusError, match=rf"task 1 \(id 7\): the annotation 0:{end} .*outside"):
        studio(tasks)
    with pytest.warns(UserWarning, match="1 annotation left out"):
        assert studio(tasks, skip_bad_spans=True).label == "label"


@pytest.mark.parametrize(
    ("span", "token"),
    [([0, 11, "PER"], "Lovelace"), ([1, 12, "PER"], "Ada"), ([2, 5, "PER"], "Ada")],
)
def test_annotations_that_cut_a_token_are_widened(span, token):
    item = {"text": TEXT, "label": [span]}
    with pytest.warns(
        UserWarning, match=rf"1 annotation widened to whole tokens; .* cuts the token '{token}'"
    ):
        assert doccano(item).y == [["B-PER", "I-PER", "O", "O", "O"]]
    with pytest.warns(UserWarning, match=rf"1 annotation left out; .* cuts the token '{token}'"):
        assert doccano(item, skip_bad_spans=True).y == [["O"] * 5]


def test_one_that_would_overlap_when_widened_is_left_out():
    with pytest.warns(
        UserWarning, match="1 annotation left out; .* 10:16 .* cuts the token 'Lovelace'"
    ):
        assert doccano({"text": TEXT, "label": [[0, 12, "PER"], [10, 16, "X"]]}).y == [
            ["B-PER", "I-PER", "O", "O", "O"]
        ]


def test_texts_are_split_into_sentences_but_not_inside_an_annotation():
    item = {"text": "He left. Oh! Calcutta! ran.", "label": [[9, 22, "WORK"]]}
    corpus = doccano(item)
    assert [" ".join(words) for words in corpus.X] == ["He left .", "Oh ! Calcutta ! ran ."]
    assert corpus.y[1] == ["B-WORK", "I-WORK", "I-WORK", "I-WORK", "O", "O"]
    assert len(doccano(item, tokenizer=Tokenizer(sentences="none"))) == 1
    assert doccano(item, tokenizer=Tokenizer(characters=True)).tokenizer == Tokenizer(
        characters=True
    )


def test_what_was_left_out_is_told():
    texts = [
        AnnotatedText(
            "x:1", TEXT, [Annotation(0, 5, "A"), Annotation(17, 22, "LOC"), Annotation(99, 99, "B")]
        )
    ]
    read = corpus_of(texts, "x", skip_bad_spans=True)
    assert read.corpus.y == [["O", "O", "O", "B-LOC", "O"]]
    assert [line.partition(" (")[0] for line in read.skipped] == [
        "x:1: the annotation 0:5",
        "x:1: the annotation 99:99",
    ]


def test_joined_sentences_are_copied_once():
    copied = []

    class Counted(list):
        def __add__(self, other):
            copied.append(len(self) + len(other))
            return Counted([*list.__iter__(self), *list.__iter__(other)])

        def __iter__(self):
            copied.append(len(self))
            return super().__iter__()

    sentences = [Counted([(k, k + 1)]) for k in range(200)]
    assert list(map(len, _uncut(sentences, [Span(50, 150, "X")]))) == [1] * 50 + [100] + [1] * 50
    assert sum(copied) <= 200
    assert all(len(sentence) == 1 for sentence in sentences)


@pytest.mark.parametrize(
    ("text", "annotations"),
    [
        ("A dog ran. " * 200, [Annotation(k, 2200, "X") for k in range(500)]),  # overlap
        # and have spaces
        (" " * 2000 + "dog" + " " * 2000, [Annotation(k, 4003 - k, "X") for k in range(500)]),
        ("d" * 2000, [Annotation(k, 2000, "X") for k in range(500)]),  # and cut a token
    ],
)
def test_a_text_is_not_read_once_for_each_annotation(text, annotations):
    read = []

    class Counted(str):
        def __getitem__(self, key):
            part = super().__getitem__(key)
            read.append(len(part))
            return part

    made = corpus_of([AnnotatedText("x", Counted(text), annotations)], "x", skip_bad_spans=True)
    assert len(made.skipped) >= 499
    assert sum(read) <= 2 * len(text) + 50 * len(annotations)
    assert max(map(len, made.skipped)) < 150


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "<stream>: no sentences"),
        (b'{"text": "a"', "<stream>:1: not JSON"),
        (b'{"text": 1}', "<stream>:1: text: expected a text, got 1"),
        (b'{"label": []}', "<stream>:1: text: expected a text, got nothing"),
        (
            b'{"text": "a", "label": "PER"}',
            "<stream>:1: label: expected a list of .start, end, type., got 'PER'",
        ),
        (
            b'{"text": "a", "label": ["PER"]}',
            "<stream>:1: label: expected .start, end, type., got 'PER'",
        ),
        (
            b'{"text": "a", "label": [[0, 1.0, "PER"]]}',
            "<stream>:1: label: expected .start, end, type.",
        ),
        (b'{"text": "\\udc00", "label": []}', "<stream>:1: text: holds half of a surrogate pair"),
        (b'{"text": " ", "label": []}', "<stream>: no tokens, expected texts"),
    ],
)
def test_damaged_doccano_files(data, message):
    with pytest.raises(CorpusError, match=message):
        labelwright.read_doccano(io.BytesIO(data))


# -- Label Studio ----------------------------------------------------------------------------------


def test_label_studio():
    spans = (0, 12, "Ada Lovelace", "PER"), (17, 22, "Paris", "LOC")
    cancelled = [
        {"was_cancelled": True, "result": []},
        *task(TEXT, *spans)["annotations"],
        {"result": []},
    ]
    tasks = [task(TEXT, *spans), task("x", annotations=[]), task(TEXT, annotations=cancelled)]
    assert studio(tasks).y == [Y, Y]  # a task without annotations is left out
    minimal = {
        "id": 1,
        "text": TEXT,
        "label": [{"start": a, "end": b, "labels": [k]} for a, b, _, k in spans],
    }
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
        ([task("Ada", (0, 9, "Ad", "PER"))], (
            r"task 1 \(id 7\): the annotation 0:9 \(PER\) lies outside the "
            r"text"
        )),
        ([{"data": {"a": "x", "b": "y"}}], "task 1: data.text: expected a text, got nothing"),
        ([task("x", annotations=3)], "annotations: expected a list, got 3"),
        ([task("x", annotations=[{}])], "annotations: expected a list `result`, got nothing"),
        ([{"text": "x", "label": [{"start": 0, "end": 1, "labels": ["A", "B"]}]}], (
            "expected .start, end, type., "
            "got"
        )),
    ],
)  # fmt: skip
def test_damaged_label_studio_files(tasks, message):
    with pytest.raises(CorpusError, match=message):
        studio(tasks)


def test_empty_and_broken_label_studio_files():
    for data, message in ((b"", "no tasks"), (b'[{"data"', "not JSON"), (b"\xff", "not UTF-8")):
        with pytest.raises(CorpusError, match=message):
            labelwright.read_label_studio(io.BytesIO(data))


# -- back ------------------------------------------------------------------------------------------


def test_labels_become_annotations():
    split = split_texts([TEXT], Tokenizer())
    assert [list(each[:3]) for each in split.entities([labelled_spans(Y)])[0]] == SPANS
    # no chunks: token by token
    assert [span[:3] for span in labelled_spans(["N", "V"])] == [(0, 1, "N"), (1, 2, "V")]


def test_predictions_can_be_read_by_label_studio():
    text = "😀 Ada"
    tasks = [task(text, predictions=[{"result": []}]), {"data": {"text": "x"}}]
    written = json.loads(with_predictions(tasks, [(text, [Entity(2, 5, "PER", "Ada")]), ("x", [])]))
    value = {"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}
    assert written[0]["predictions"][1]["result"] == [
        {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
    ]
    assert written[1]["predictions"][0]["result"] == []
    assert written[0]["annotations"] == tasks[0]["annotations"]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "Ada", "annotations": 5},  # JSON-MIN, whose annotations are in `label`
        {"data": {"text": "Ada"}, "annotations": [{"was_cancelled": True, "result": 5}]},
        {
            "data": {"text": "Ada"},
            "annotations": [3, {"was_cancelled": True, "result": ["x", {"from_name": 1}]}],
        },
        {"data": {"text": "Ada"}, "annotations": {"result": [{"from_name": "ner"}]}},
    ],
)
def test_predictions_are_written_beside_annotations_that_are_none(fields):
    written = json.loads(with_predictions([fields], [("Ada", [Entity(0, 3, "PER", "Ada")])]))
    (prediction,) = written[0]["predictions"][0]["result"]
    assert (prediction["from_name"], prediction["to_name"]) == ("label", "text")
    assert written[0]["annotations"] == fields["annotations"]


def test_predictions_have_the_names_of_the_annotations():
    results = [{"from_name": 1}, {"from_name": "ner", "to_name": "doc"}]
    tasks = [{"data": {"text": "Ada"}, "annotations": [{"result": None}, {"result": results}]}]
    written = json.loads(with_predictions(tasks, [("Ada", [Entity(0, 3, "PER", "Ada")])]))
    (prediction,) = written[0]["predictions"][0]["result"]
    assert (prediction["from_name"], prediction["to_name"]) == ("ner", "doc")


def test_an_annotation_wider_than_its_tokens_cuts_none(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"text": "We met (Ada) there", "label": [[7, 12, "PER"]]}\n')
    read = labelwright.read_doccano(tmp_path / "d.jsonl", tokenizer=Tokenizer(pattern=r"\w+"))
    assert read.y == [["O", "O", "B-PER", "O"]]


def test_a_place_of_too_many_digits_in_brat_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.ann").write_text(f"T1\tPER 0 {'1' * 5000}\tAda\n")
    with pytest.raises(CorpusError, match=r"a.ann:1: expected `T1<tab>TYPE START END<tab>TEXT`"):
        read_brat(tmp_path)
