"""Labelling in the browser: the file, whom a sentence is lent to, what is learnt, the requests, the
command."""

import gzip
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from labelwright import CRF, Perceptron, Tokenizer, load, read_doccano, read_label_studio
from labelwright.errors import CorpusError, OptionError
from labelwright.serve import labelled_file, labelling, learner
from labelwright.serve.labelled_file import Answer, LabelledFile
from labelwright.serve.labelling import Labelling, id_of
from labelwright.serve.labelling_app import make_labelling_app
from labelwright.serve.learner import Judged, Learner, Task, sentences_in

ADA, THEY, NOBODY = "Ada saw Paris.", "They met Alan Turing.", "Nobody came."
NAME = Answer([[0, 3, "PER"]], [])
PARTLY = Answer([[9, 20, "PER"]], [[0, 4]])


# -- the file --------------------------------------------------------------------------------------


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_file_has_each_sentence_once_and_is_training_data(tmp_path):
    path = tmp_path / "a.jsonl"
    file = LabelledFile(str(path))
    for text, answer in ((ADA, NAME), (THEY, NAME), (NOBODY, Answer([], [])), (THEY, PARTLY)):
        file.write(text, answer)
        assert file.answers[text] == answer
    assert lines_of(path) == [
        {"text": ADA, "label": [[0, 3, "PER"]]},
        {"text": THEY, "label": [[9, 20, "PER"]], "unknown": [[0, 4]]},
        {"text": NOBODY, "label": []},
    ]
    assert read_doccano(path).y == [
        ["B-PER", "O", "O", "O"],
        ["_", "O", "B-PER", "I-PER", "O"],
        ["O", "O", "O"],
    ]
    file.write(ADA, None)
    file.write(THEY, NAME)
    file.close()
    assert lines_of(path) == [
        {"text": THEY, "label": [[0, 3, "PER"]]},
        {"text": NOBODY, "label": []},
    ]
    again = LabelledFile(str(path))
    assert (again.answers, again.notes) == ({THEY: NAME, NOBODY: Answer([], [])}, [])
    again.write(ADA, NAME)
    again.close()
    assert [each["text"] for each in lines_of(path)] == [THEY, NOBODY, ADA]


def test_a_torn_last_line_is_cut_and_a_whole_one_is_kept(tmp_path):
    path, whole = tmp_path / "a.jsonl", json.dumps({"text": ADA, "label": []}).encode()
    path.write_bytes(whole + b"\n" + whole.replace(b"Ada", b"Eve")[:-9])
    file = LabelledFile(str(path))
    assert (list(file.answers), path.read_bytes()) == ([ADA], whole + b"\n")
    assert file.notes == [f"{path}: cut the last line, an answer that was not written to its end"]
    file.close()
    path.write_bytes(whole)
    file = LabelledFile(str(path))
    file.write(THEY, NAME)
    file.close()
    assert [each["text"] for each in lines_of(path)] == [ADA, THEY]


@pytest.mark.parametrize("torn", [b"\0" * 9, b'{"te', b'{"text": "A\0\0'])
def test_what_a_crash_leaves_of_a_line_is_cut(tmp_path, torn):
    path = tmp_path / "a.jsonl"
    path.write_bytes(torn)
    LabelledFile(str(path)).close()
    assert path.read_bytes() == b""


def test_of_a_sentence_that_is_there_twice_the_last_answer_counts(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = (ADA, []), (THEY, []), (ADA, NAME.label)
    path.write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in texts)
    )
    file = LabelledFile(str(path))
    assert (file.answers, lines_of(path)[1]["label"]) == (
        {THEY: Answer([], []), ADA: NAME},
        NAME.label,
    )
    assert file.notes == [f"{path}: dropped 1 line whose sentence is there again further on"]
    file.write(ADA, None)
    file.close()
    assert [each["text"] for each in lines_of(path)] == [THEY]


def test_fields_of_other_programs_stay(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": 7, "text": ADA, "label": [], "Comments": ["?"]}) + "\n")
    file = LabelledFile(str(path))
    file.write(ADA, NAME)
    file.close()
    assert lines_of(path) == [{"id": 7, "text": ADA, "label": [[0, 3, "PER"]], "Comments": ["?"]}]


@pytest.mark.skipif(labelled_file.fcntl is None, reason="files are locked by fcntl")
def test_one_process_at_a_time_also_after_the_file_was_replaced(tmp_path):
    path = str(tmp_path / "a.jsonl")
    file = LabelledFile(path)
    for answer in (NAME, PARTLY, None):
        file.write(THEY, answer)
        with pytest.raises(OptionError, match="another labelwright annotate is writing to it"):
            LabelledFile(path)
    file.close()
    LabelledFile(path).close()


def test_what_cannot_be_written_is_not_acknowledged(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    file = LabelledFile(str(path))
    file.write(ADA, NAME)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        for text, answer in ((THEY, NAME), (ADA, PARTLY), (ADA, None)):
            with pytest.raises(
                OptionError.__base__, match="cannot be written: no space left on device"
            ) as error:
                file.write(text, answer)
            assert error.value.status == 507
            assert (file.answers, path.read_bytes()) == ({ADA: NAME}, before)
    file.write(THEY, PARTLY)
    assert [each["text"] for each in lines_of(path)] == [ADA, THEY]
    path.write_bytes(before)  # by another program
    with pytest.raises(OptionError.__base__, match="was changed by another program"):
        file.write(NOBODY, NAME)
    assert path.read_bytes() == before
    file.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_edit_of_the_same_size_is_noticed(tmp_path, is_replaced):
    path = tmp_path / "a.jsonl"
    file = LabelledFile(str(path))
    for text in (ADA, THEY):
        file.write(text, NAME)
    if is_replaced:
        file.write(ADA, PARTLY)
    before, times = path.read_bytes(), path.stat()
    edited = before.replace(b"PER", b"LOC", 1)
    path.write_bytes(edited)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for text, answer in ((NOBODY, NAME), (THEY, PARTLY), (THEY, None)):
        with pytest.raises(OptionError.__base__, match="changed by another program") as error:
            file.write(text, answer)
        assert error.value.status == 409
    assert path.read_bytes() == edited
    path.write_bytes(before)  # the edit is undone
    os.utime(path)
    file.write(NOBODY, NAME)
    assert [each["text"] for each in lines_of(path)] == [ADA, THEY, NOBODY]
    file.close()


@pytest.mark.parametrize("content", ['{"text": "A', '{"text": "A", "label": []}\n' * 2])
def test_a_file_that_cannot_be_mended_is_refused_in_one_line(tmp_path, monkeypatch, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OptionError) as error:
            LabelledFile(str(path))
    assert str(error.value) == f"{path}: cannot be written: no space left on device"
    assert path.read_text() == content
    LabelledFile(str(path)).close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_only_a_regular_file_takes_answers(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for path, reason in (
        (tmp_path / "pipe", "is a pipe, expected a file"),
        ("/dev/zero", "is a device, expected a file"),
        (tmp_path / "one", "too many levels of symbolic links"),
    ):
        with pytest.raises(OptionError) as error:
            LabelledFile(str(path))
        assert str(error.value) == f"{path}: {reason}"
    (tmp_path / "link").symlink_to("a.jsonl")
    file = LabelledFile(str(tmp_path / "link"))
    for answer in (NAME, PARTLY):
        file.write(THEY, answer)
    file.close()
    assert (tmp_path / "link").is_symlink()
    assert len(lines_of(tmp_path / "a.jsonl")) == 1


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"text": "a"}\n', ":1: no label, expected answers of labelwright annotate"),
        (
            '{"text": "a", "label": [[0, 1]]}\n',
            ":1: label: expected [start, end, type], got [0, 1]",
        ),
        (
            '{"text": "a", "label": [], "unknown": [[0]]}\n',
            ":1: unknown: expected [start, end], got [0]",
        ),
        (
            '{"text": "a", "label": [[0, 2, "PER"]]}\n',
            ":1: the annotation 0:2 (PER) lies outside the text of 1 character; correct it, or",
        ),
        ('{"tokens": ["a"], "labels": ["O"]}\n', ":1: text: expected a text, got nothing"),
        ("nonsense\n", ":1: not JSON"),
        ("Dear Ada", ": the last line is not JSON; name another file"),
        (
            '{"text": "a", "label": []}\n{"id": 7, "te',
            ": the last line is not JSON; name another file",
        ),
    ],
)
def test_files_that_are_none_of_ours_are_refused_and_left_alone(tmp_path, content, line):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(CorpusError) as error:
        LabelledFile(str(path))
    assert line in str(error.value)
    assert path.read_text() == content


def test_what_is_partly_known_is_a_prediction_for_label_studio(tmp_path, run):
    path, tasks = tmp_path / "a.jsonl", tmp_path / "tasks.json"
    file = LabelledFile(str(path))
    file.write(ADA, NAME)
    file.write(THEY, PARTLY)
    file.close()
    assert run("convert", path, tasks)[2] == f"{tasks}: 2 tasks\n"
    first, second = json.loads(tasks.read_bytes())
    assert [task.keys() for task in (first, second)] == [
        {"data", "annotations"},
        {"data", "predictions"},
    ]
    assert read_label_studio(tasks).y == [["B-PER", "O", "O", "O"]]


# -- sentences, pages, answers ---------------------------------------------------------------------


@dataclass
class Client:
    """A page that asks the service."""

    http: TestClient
    labelling: Labelling
    path: Path
    base: dict = field(default_factory=dict)

    def ask(self, path, status=200, **body):
        response = self.http.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json()

    def next(self, page="one", **more):
        return self.ask("/next", page=page, **more)

    def answer(self, text, label, status=200, **more):
        reply = self.ask("/answer", status, id=id_of(text), label=label, **more)
        self.base[text] = reply.get("tag")
        return reply


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(Labelling, "start", lambda self: None)  # nothing is learnt
    path = tmp_path / "answers.jsonl"
    made = Labelling([ADA, THEY, NOBODY], LabelledFile(str(path)), ["PER"], {"Paris": "LOC"})
    with TestClient(make_labelling_app(made), base_url="http://localhost") as http:
        yield Client(http, made, path)


def test_a_sentence_is_shown_with_its_tokens_and_seed_words(client):
    first = client.next()
    # with a seed word
    assert (first["text"], first["why"], first["answer"]) == (ADA, "random", None)
    assert first["tokens"][0] == {"text": "Ada", "start": 0, "end": 3}
    assert first["spans"] == [{"label": "LOC", "first": 2, "last": 2, "probability": None}]
    state = client.http.get("/state").json()
    assert (state["types"], state["sentences"], state["answered"], state["learnt"]) == (
        ["PER", "LOC"],
        3,
        0,
        None,
    )


def test_two_pages_get_different_sentences(client):
    first, other = client.next("one"), client.next("two")
    assert first["id"] != other["id"]
    assert client.next("one")["id"] == first["id"]  # the page was loaded again
    third = client.next("three")
    assert {first["id"], other["id"], third["id"]} == {id_of(text) for text in (ADA, THEY, NOBODY)}
    assert client.next("four") == {"id": None, "lent": 3}
    # it is long ago
    client.labelling._lent = {n: (page, 0.0) for n, (page, _) in client.labelling._lent.items()}
    assert client.next("four")["id"] is not None


def test_a_skipped_sentence_comes_last(client):
    first = client.next()
    second = client.next(skip=first["id"])
    third = client.next(skip=second["id"])
    assert len({each["id"] for each in (first, second, third)}) == 3
    for each in (second, third):
        client.answer(each["text"], [])
    last = client.next()
    assert (last["id"], last["why"]) == (first["id"], "skipped")
    assert client.answer(last["text"], [])["state"]["skipped"] == 0
    assert client.next() == {"id": None, "lent": 0}


def test_an_answer_is_in_the_file_and_sent_twice_it_is_there_once(client):
    reply = client.answer(ADA, [[0, 3, "PER"], [8, 13, "CITY"]], unknown=[[4, 7]])
    assert reply["state"]["types"] == ["PER", "LOC", "CITY"]
    assert (reply["state"]["answered"], reply["state"]["partial"]) == (1, 1)
    written = client.path.read_bytes()
    assert (
        client.answer(ADA, [[0, 3, "PER"], [8, 13, "CITY"]], unknown=[[4, 7]])["tag"]
        == reply["tag"]
    )
    assert client.path.read_bytes() == written
    assert client.ask("/sentence", id=id_of(ADA))["answer"] == {
        "label": [[0, 3, "PER"], [8, 13, "CITY"]],
        "unknown": [[4, 7]],
        "tag": reply["tag"],
    }


def test_two_answers_to_one_sentence_are_a_conflict_and_nothing_is_lost(client):
    theirs = client.answer(ADA, [[0, 3, "PER"]])
    written = client.path.read_bytes()
    conflict = client.answer(ADA, [[8, 13, "LOC"]], 409)
    assert conflict["error"] == "somebody has answered this sentence meanwhile"
    assert conflict["card"]["answer"]["label"] == [[0, 3, "PER"]]
    assert client.path.read_bytes() == written
    client.answer(ADA, [[8, 13, "LOC"]], base=theirs["tag"])
    assert client.ask("/answer", 409, id=id_of(ADA), base=theirs["tag"])["card"]["answer"][
        "label"
    ] == [[8, 13, "LOC"]]
    assert [each["label"] for each in lines_of(client.path)] == [[[8, 13, "LOC"]]]


def test_an_answer_is_taken_back_once(client):
    tag = client.answer(ADA, [[0, 3, "PER"]])["tag"]
    for _ in range(2):  # the reply to the first may have been lost
        assert client.ask("/answer", id=id_of(ADA), base=tag)["tag"] is None
        assert client.path.read_bytes() == b""


def test_search(client):
    client.answer(ADA, [])
    listed = client.ask("/search", text="PARIS")
    assert listed == {"sentences": [{"id": id_of(ADA), "text": ADA, "answered": True}], "found": 1}
    assert [each["text"] for each in client.ask("/search", answered=False)["sentences"]] == [
        THEY,
        NOBODY,
    ]
    assert client.ask("/search", text="m", answered=True)["found"] == 0


REFUSED = [
    ({"id": "nix", "label": []}, 404, "id: no sentence 'nix'"),
    ({"label": [[0, 99, "PER"]]}, 400, "lies outside the text of 14 characters"),
    ({"label": [[0, 7, "PER"], [4, 13, "LOC"]]}, 400, "overlaps another one"),
    ({"label": [[0, 2, "PER"]]}, 400, "cuts the token 'Ada'"),
    ({"label": [[0, 3, "A|B"]]}, 400, "expected the name of a type"),
    ({"label": [[0, 3]]}, 400, "expected [start, end, type], got [0, 3]"),
    ({"label": [], "unknown": [[5, 99]]}, 400, "unknown: lies outside the text"),
    ({"label": "PER"}, 400, "label: expected a list, got 'PER'"),
    ({"labels": []}, 400, "unknown key 'labels'; did you mean 'label'?"),
]


@pytest.mark.parametrize(("body", "status", "line"), REFUSED)
def test_refusals_are_one_line(client, body, status, line):
    reply = client.ask("/answer", status, **{"id": id_of(ADA), **body})
    assert list(reply) == ["error"]
    assert line in reply["error"]
    assert client.path.read_bytes() == b""


def test_pages_of_others_cannot_answer(client):
    body = json.dumps({"id": id_of(ADA), "label": []})
    assert (
        client.http.post(
            "/answer", content=body, headers={"content-type": "text/plain"}
        ).status_code
        == 415
    )
    headers = {"content-type": "application/json", "host": "evil.example"}
    assert client.http.post("/answer", content=body, headers=headers).status_code == 400
    assert client.path.read_bytes() == b""
    assert client.http.get("/").text.startswith("<!doctype html>")
    assert client.http.get("/static/annotate.js").status_code == 200


def test_answers_of_other_texts_can_be_searched_and_corrected(tmp_path):
    file = LabelledFile(str(tmp_path / "a.jsonl"))
    file.write(THEY, PARTLY)
    made = Labelling([ADA], file)
    assert made.search("turing")["found"] == 1
    assert (made.texts, made.state()["types"]) == ([ADA, THEY], ["PER"])
    assert made.next("one")["text"] == ADA
    file.close()


# -- learning --------------------------------------------------------------------------------------

NAMES, PLACES = ["Ada", "Alan", "Grace", "Emmy", "Kurt"], ["Paris", "London", "Vienna", "Rome"]


def made_texts(n):
    rng = random.Random(1)
    texts = {
        f"{rng.choice(NAMES)} {rng.choice(['saw', 'left'])} {rng.choice(PLACES)} in {year}."
        for year in range(n)
    }
    return sorted(texts)


def gold_of(text):
    words = [(text.index(word), text.index(word) + len(word), word) for word in text[:-1].split()]
    return [
        [a, b, "PER" if word in NAMES else "LOC"] for a, b, word in words if word in NAMES + PLACES
    ]


def test_learning_ranks_scores_and_doubts(monkeypatch):
    monkeypatch.setattr(learner, "FOLDS", 2)
    monkeypatch.setattr(learner, "TOP", 5)
    texts = made_texts(80)
    work = Learner(Task(texts, None, Tokenizer(), None))
    work.answers = {n: Answer(gold_of(texts[n]), []) for n in range(60)}
    wrong = texts[7].index(next(name for name in NAMES if name in texts[7]))
    work.answers[7] = Answer([[a, b, "LOC"] for a, b, _ in gold_of(texts[7])], [])
    work.answers[8] = Answer(gold_of(texts[8])[:1], [[len(texts[8]) - 1, len(texts[8])]])
    learnt = work.learn()
    assert (learnt.answers, len(learnt.order), min(learnt.order) >= 60) == (60, 5, True)
    steps = list(work.judge())
    judged = steps[-1]
    assert steps[:-1] == [None] * 2
    assert judged.answers == 59  # the one that is partly known is not scored
    assert judged.f1 > 0.9
    assert 0 < judged.deviation < 0.1
    assert judged.more is None or judged.more > 0
    (doubt,) = [each for each in judged.doubts if each["sentence"] == 7]
    assert (doubt["gold"]["label"], doubt["suggested"]["label"], wrong) == ("LOC", "PER", 0)
    assert doubt["tag"] == work.answers[7].tag


def test_a_given_model_is_where_learning_begins(tmp_path):
    texts = made_texts(40)
    words = [learner.words_of(text, Tokenizer()) for text in texts]
    y = [["U-PER", "O", "U-LOC", "O", "O", "O"]] * 20
    CRF(max_iter=10, n_jobs=1).fit(words[:20], y).save(tmp_path / "base.crf")
    base = (tmp_path / "base.crf").read_bytes()
    work = Learner(Task(texts, base, Tokenizer(), None))
    assert work.learn().answers == 0  # what to ask first, by the model as it is
    for n in range(20, 30):
        place = texts[n].index(" in ") + 1
        work.answers[n] = Answer([*gold_of(texts[n]), [place, place + 2, "TIME"]], [])
    assert work.learn().answers == 10
    assert {"U-PER", "U-LOC", "U-TIME"} <= set(work.model.classes_)  # in its scheme
    assert work.is_to_be_judged


def reported(client, *reports):
    for report in reports:
        client.labelling._heard(report)


def test_what_is_learnt_reaches_the_page(client, monkeypatch):
    work = Learner(Task(client.labelling.texts, None, Tokenizer(), None))
    work.answers = {0: NAME, 1: PARTLY}
    learnt = work.learn()
    doubt = {"sentence": 0, "tag": NAME.tag, "gold": None, "suggested": None, "probability": 0.1}
    for text, answer in ((ADA, NAME), (THEY, PARTLY)):
        client.answer(text, answer.label, unknown=answer.unknown)
    reported(client, "too few", learnt, Judged(2, 0.5, 0.125, 30, [doubt]))
    state = client.http.get("/state").json()
    assert (state["learnt"], state["problem"], state["second_looks"]) == (2, None, 1)
    assert state["score"] == {"f1": 0.5, "deviation": 0.125, "answers": 2, "more": 30}
    shown = client.next()
    assert (shown["text"], shown["why"]) == (NOBODY, "uncertain")
    assert all(0 < span["probability"] <= 1 for span in shown["spans"])
    again = client.next(look=True)
    assert (again["text"], again["why"], again["doubt"]["probability"]) == (ADA, "second look", 0.1)
    client.answer(ADA, NAME.label, base=again["answer"]["tag"])  # it was right
    assert client.http.get("/state").json()["second_looks"] == 0
    reported(client, "out of luck")
    assert client.http.get("/state").json()["problem"] == "out of luck"


def test_second_looks_come_by_themselves_but_not_too_often(client, monkeypatch):
    monkeypatch.setattr(labelling, "SECOND_LOOKS", 1)
    client.answer(ADA, NAME.label)
    doubt = {"sentence": 0, "tag": NAME.tag, "gold": None, "suggested": None, "probability": 0.1}
    reported(client, Judged(1, 0.5, 0.1, None, [doubt]))
    whys = []
    for _ in range(3):
        card = client.next()
        whys.append(card["why"])
        client.answer(
            card["text"],
            card["answer"]["label"] if card["answer"] else [],
            base=(card["answer"] or {}).get("tag"),
        )
    assert whys == ["random", "second look", "random"]


def test_a_corrected_answer_is_no_longer_in_doubt(client):
    tag = client.answer(ADA, NAME.label)["tag"]
    doubt = {"sentence": 0, "tag": tag, "gold": None, "suggested": None, "probability": 0.1}
    reported(client, Judged(1, 0.5, 0.1, None, [doubt]))
    assert client.http.get("/state").json()["second_looks"] == 1
    assert client.answer(ADA, [[8, 13, "LOC"]], base=tag)["state"]["second_looks"] == 0
    assert client.next(look=True)["text"] != ADA


def test_a_model_that_cannot_be_written_is_said_and_learning_goes_on(tmp_path):
    work = Learner(Task([ADA], None, Tokenizer(), str(tmp_path / "none" / "a.crf")))
    work.answers = {0: NAME}
    learnt, problem = work.reports()
    assert learnt.answers == 1
    assert problem.startswith(
        f"--save: {tmp_path / 'none' / 'a.crf'}: cannot be written: the folder"
    )


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_learnt_model_is_written_through_a_link(tmp_path):
    link = tmp_path / "link.crf"
    link.symlink_to("a.crf")
    work = Learner(Task([ADA], None, Tokenizer(), str(link)))
    work.answers = {0: NAME}
    list(work.reports())
    assert link.is_symlink()
    assert load(tmp_path / "a.crf").predict([["Ada"]]) == [["B-PER"]]


def test_learning_ends_in_silence_when_the_service_is_killed():
    task = pickle.dumps(Task([ADA, THEY], None, Tokenizer(), None))
    answers = pickle.dumps({0: NAME})
    of_another_shape = pickle.dumps({0: Answer([[0, 3]], [])})  # an error is to be told
    sent = (task[:9], task[:-9], task, task + answers[:-9], task + answers, task + of_another_shape)
    command = [sys.executable, "-c", "from labelwright.serve.learner import work; work()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, **pipes) for _ in sent]
    for process, content in zip(processes, sent, strict=True):
        process.stdout.close()
        process.stdin.write(content)
        process.stdin.close()
    for process in processes:
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_learnt_model_splits_texts_as_they_were_split_here(tmp_path):
    tokenizer = Tokenizer(characters=True, sentences="lines")
    path = str(tmp_path / "a.crf")
    work = Learner(Task(["北京。"], None, tokenizer, path))
    work.answers = {0: Answer([[0, 2, "LOC"]], [])}
    list(work.reports())
    assert load(path).tokenizer() == tokenizer
    again = Learner(Task(["北京。"], (tmp_path / "a.crf").read_bytes(), Tokenizer(), path))
    again.answers = work.answers
    list(again.reports())
    assert load(path).tokenizer() == Tokenizer()


def test_seed_words_are_whole_tokens_also_without_spaces(tmp_path):
    file = LabelledFile(str(tmp_path / "a.jsonl"))
    for text, tokenizer, places in (
        ("我在北京。", Tokenizer(characters=True), [(2, 4, "LOC")]),
        ("Adam met Ada.", Tokenizer(), [(9, 12, "LOC")]),
    ):
        made = Labelling([text], file, seeds={"北京": "LOC", "Ada": "LOC"}, tokenizer=tokenizer)
        assert list(made._seeds_in(text)) == places
    file.close()


def test_sentences_are_split_and_each_is_there_once():
    assert sentences_in(["She ran. He ran.\n\nShe ran."], Tokenizer()) == ["She ran.", "He ran."]


def test_tokens_that_no_model_takes_are_refused_before_anything_is_labelled():
    long = "a" * 70_000
    with pytest.raises(CorpusError, match=r"^a.txt: a value of 70,000 characters, expected at"):
        sentences_in([f"Ada ran. {long} ran."], Tokenizer(), "a.txt")
    assert sentences_in([long], Tokenizer(characters=True)) == [long]


# -- the command -----------------------------------------------------------------------------------


def test_models_that_cannot_go_on_learning_are_refused(tmp_path, run):
    (tmp_path / "t.txt").write_text("Ada ran.\n")
    X = [["Ada", "ran"]] * 2
    Perceptron(n_jobs=1, max_iter=1).fit(X, [["B-X", "O"]] * 2).save(tmp_path / "p")
    CRF(n_jobs=1, max_iter=1).fit(X, [["N", "V"]] * 2).save(tmp_path / "n")
    CRF(n_jobs=1, max_iter=1, template="U:%x[0,1]").fit([[("a", "b")]] * 2, [["B-X"]] * 2).save(
        tmp_path / "c"
    )
    for name, line in (
        ("p", "a Perceptron cannot go on learning"),
        ("n", "mark no spans"),
        ("c", "reads 2 columns"),
    ):
        code, _, error = run(
            "annotate", tmp_path / "t.txt", "-o", tmp_path / "a", "--model", tmp_path / name
        )
        assert (code, line in error, error.count("\n")) == (2, True, 1), error
    assert not (tmp_path / "a").exists()


def test_inputs_that_are_refused(tmp_path, run):
    texts, out, bomb = tmp_path / "t.txt", tmp_path / "a.jsonl", tmp_path / "b.txt.gz"
    texts.write_text("Ada ran.\n")
    bomb.write_bytes(gzip.compress(b"Ada ran.\n" * 10_000))
    for arguments, line in (
        ([texts, "-o", "-"], "-o: -: expected the name of a file"),
        ([texts, "-o", "/dev/zero"], "/dev/zero: is a device, expected a file"),
        ([bomb, "-o", out, "--max-input", "10K"], f"{bomb}: decompressed, more than 10K; "),
    ):
        code, _, error = run("annotate", *arguments)
        assert (code, line in error, error.count("\n")) == (2, True, 1), error
    assert not out.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
@pytest.mark.parametrize(
    "content", [ADA, json.dumps({"text": ADA}), json.dumps([{"data": {"text": ADA}}])]
)
def test_texts_of_each_format_come_through_a_pipe(tmp_path, content):
    from labelwright.cli.annotate import _texts

    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[content], daemon=True)
    writer.start()
    assert _texts(str(path)) == [ADA]
    writer.join()


def test_a_model_of_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    from labelwright import modelfile
    from labelwright.cli.annotate import _base

    path = tmp_path / "m.crf"
    CRF(n_jobs=1, max_iter=1).fit([["Ada", "ran"]] * 2, [["B-X", "O"]] * 2).save(path)
    monkeypatch.setattr(modelfile, "downloaded", {"hf://ada/ner": str(path)}.__getitem__)
    assert _base("hf://ada/ner") == (path.read_bytes(), Tokenizer())


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_nothing_is_lost_by_kills(tmp_path):
    from killed_labelling import kill_and_go_on

    mistakes, n_answers, said = kill_and_go_on(tmp_path, 4)
    assert mistakes == []
    assert n_answers > 4
    assert all("cut the last line" in line for line in said)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_the_command_learns_from_what_is_answered_and_keeps_the_model(tmp_path):
    import httpx
    from killed_labelling import Labelled

    (tmp_path / "texts.txt").write_text("\n".join(made_texts(30)) + "\n")
    service = Labelled(tmp_path, "--save", "learnt.crf", "--labels", "PER,LOC")
    with httpx.Client(base_url=service.address, timeout=60) as http:
        for _ in range(12):
            card = http.post("/next", json={"page": "one"}).json()
            assert (
                http.post(
                    "/answer", json={"id": card["id"], "label": gold_of(card["text"])}
                ).status_code
                == 200
            )
        state = {"learnt": 0, "score": None}
        while state["learnt"] != 12 or state["score"] is None:
            state = http.get("/state").json()
            assert state["problem"] is None
    service.end(signal.SIGINT)
    assert service.process.returncode == 0
    assert service.said[-1] == "answers.jsonl: 12 answers\n"
    assert load(tmp_path / "learnt.crf").predict([["Ada", "left", "Rome", "in", "3", "."]]) == [
        ["B-PER", "O", "B-LOC", "O", "O", "O"]
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_the_command_says_at_its_end_that_the_model_could_not_be_written(tmp_path):
    import httpx
    from killed_labelling import Labelled

    (tmp_path / "texts.txt").write_text(f"{ADA}\n{THEY}\n")
    (tmp_path / "models").mkdir()
    service = Labelled(tmp_path, "--save", "models/learnt.crf")
    (tmp_path / "models").rmdir()
    with httpx.Client(base_url=service.address, timeout=60) as http:
        assert http.post("/answer", json={"id": id_of(ADA), "label": NAME.label}).status_code == 200
    service.end(signal.SIGINT)
    assert service.said[-2].startswith("labelwright: --save: models/learnt.crf: cannot be written")
