"""The service: shapes, answers equal to those of the tagger, batches, limits, access, models that
change."""

import asyncio
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from labelwright import CRF, LatentCRF, load
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import LabelwrightError, OptionError
from labelwright.inspection.explanation import sentence_facts
from labelwright.serve import app as application
from labelwright.serve import batching, replies
from labelwright.serve.app import make_app
from labelwright.serve.batching import Limits, Worker
from labelwright.serve.bodies import Asked, Options
from labelwright.serve.models import Models, Served
from labelwright.serve.monitoring import Counts
from labelwright.serve.replies import Question

TEXT = "The old man saw Mary. She ran to London!"
SENTENCE_KEYS = [
    "text",
    "document",
    "start",
    "end",
    "tokens",
    "labels",
    "probability",
    "log_probability",
    "confidence",
    "exact",
    "gap",
    "spans",
    "nbest",
    "marginals",
    "states",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    place, corpus = (
        tmp_path_factory.mktemp("models"),
        builtin_corpus(n_sentences=60, random_state=1),
    )
    words = corpus.column("word")
    CRF(max_iter=8, n_jobs=1).fit(words, corpus.y).save(place / "names.crf")
    LatentCRF(max_iter=3, n_jobs=1).fit(words[:20], corpus.y[:20]).save(place / "latent.crf")
    rows = [list(zip(*pair, strict=True)) for pair in zip(words, corpus.column("pos"), strict=True)]
    CRF(max_iter=3, n_jobs=1, template="U:%x[0,0]\nU:%x[0,1]\nB").fit(
        rows[:20], corpus.y[:20]
    ).save(place / "two.crf")
    return place


@pytest.fixture(scope="session")
def tagger(folder):
    return load(folder / "names.crf")


@pytest.fixture(scope="session")
def client(folder):
    models = Models(
        [str(folder / "names.crf"), f"lat={folder / 'latent.crf'}", str(folder / "two.crf")]
    )
    with TestClient(make_app(models, Limits(max_tokens=200, max_bytes=20_000))) as made:
        yield made


def asked(client, path="/tag", status=200, **body):
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


# -- labels ----------------------------------------------------------------------------------------


def test_a_text_is_answered_as_the_tagger_answers(client, tagger):
    answer = asked(client, text=TEXT, nbest=3, marginals=True)
    assert answer["model"] == "names"
    sentences = answer["sentences"]
    assert [list(sentence) for sentence in sentences] == [SENTENCE_KEYS] * 2
    words = [[token["text"] for token in sentence["tokens"]] for sentence in sentences]
    assert words == [["The", "old", "man", "saw", "Mary", "."], ["She", "ran", "to", "London", "!"]]
    for sentence, decoding in zip(sentences, tagger.decode(words), strict=True):
        assert sentence["labels"] == decoding.labels
        assert sentence["log_probability"] == pytest.approx(decoding.log_probability, abs=1e-6)
        assert sentence["probability"] == pytest.approx(
            math.exp(decoding.log_probability), abs=1e-6
        )
        assert (sentence["exact"], sentence["gap"]) == (decoding.exact, decoding.gap)
        assert (sentence["document"], sentence["confidence"], sentence["states"]) == (0, None, [])
        assert sentence["text"] == TEXT[sentence["start"] : sentence["end"]]
        assert all(
            TEXT[token["start"] : token["end"]] == token["text"] for token in sentence["tokens"]
        )
    for sentence, spans in zip(sentences, tagger.predict_spans(words), strict=True):
        assert [(s["first"], s["last"] + 1, s["label"]) for s in sentence["spans"]] == [
            tuple(s[:3]) for s in spans
        ]
        assert [s["probability"] for s in sentence["spans"]] == pytest.approx(
            [s.probability for s in spans], abs=1e-6
        )
    entities = tagger.predict_entities([TEXT])[0]
    spans = [span for sentence in sentences for span in sentence["spans"]]
    assert [(s["start"], s["end"], s["label"], s["text"]) for s in spans] == [
        tuple(e[:4]) for e in entities
    ]
    for sentence, ranked in zip(sentences, tagger.predict_nbest(words, 3), strict=True):
        assert [row["labels"] for row in sentence["nbest"]] == [labels for labels, _ in ranked]
        assert [row["probability"] for row in sentence["nbest"]] == pytest.approx(
            [p for _, p in ranked], abs=1e-6
        )
        assert sentence["nbest"][0]["spans"] == sentence["spans"]
    for sentence, rows in zip(sentences, tagger.predict_marginals(words), strict=True):
        assert [pytest.approx(row, abs=1e-6) for row in rows] == sentence["marginals"]


def test_several_texts_and_tokens(client, tagger):
    answer = asked(client, texts=["She ran.", "", "Mary saw. He ran."])
    assert [sentence["document"] for sentence in answer["sentences"]] == [0, 1, 2, 2]
    assert answer["sentences"][1]["labels"] == answer["sentences"][1]["tokens"] == []
    tokens = [["She", "ran"], [], ["Mary"]]
    given = asked(client, tokens=tokens, spans=False)["sentences"]
    assert [sentence["labels"] for sentence in given] == tagger.predict(tokens)
    assert [sentence["document"] for sentence in given] == [0, 1, 2]
    assert given[0]["tokens"][1] == {"text": "ran", "start": None, "end": None}
    assert given[0]["text"] is given[0]["start"] is None
    assert given[0]["spans"] == []
    assert asked(client, tokens=[], text=None) == {"model": "names", "sentences": []}


def test_latent_states_decoders_rules_and_columns(client, folder):
    latent, words = load(folder / "latent.crf"), [["She", "ran"]]
    (sentence,) = asked(client, model="lat", tokens=words, states=True, decoder="viterbi")[
        "sentences"
    ]
    assert sentence["states"] == [
        pytest.approx(row, abs=1e-6) for row in latent.predict_marginals(words, latent=True)[0]
    ]
    assert sentence["labels"] == latent.decode(words, "viterbi")[0].labels
    (sentence,) = asked(client, tokens=[["Mary", "saw", "her"]], rules=['at_most(0, "NP")'])[
        "sentences"
    ]
    assert sentence["spans"]
    assert "NP" not in [span["label"] for span in sentence["spans"]]
    row = [["She", "PRP"], ["ran", "VBD"]]
    (sentence,) = asked(client, model="two", tokens=[row])["sentences"]
    assert sentence["labels"] == load(folder / "two.crf").predict([list(map(tuple, row))])[0]


def test_a_lone_surrogate_comes_back(client):
    response = client.post("/tag", content=b'{"tokens": [["\\ud800", "\xc3\xa9"]]}')
    assert [token["text"] for token in json.loads(response.content)["sentences"][0]["tokens"]] == [
        "\ud800",
        "é",
    ]


def test_an_explanation_is_that_of_the_command(client, tagger):
    why = asked(client, "/explain", text=TEXT, sentence=1, token=1)
    corpus = Corpus.from_sequences([["She", "ran", "to", "London", "!"]])
    (facts,) = sentence_facts(tagger, corpus, 0, 1)["layers"][""]
    more = {
        "model": "names",
        "sentence": 1,
        "words": ["She", "ran", "to", "London", "!"],
        "start": 26,
        "end": 29,
    }
    assert why == json.loads(json.dumps(facts)) | more
    assert "start" not in asked(client, "/explain", tokens=[["She", "ran"]], token=0)


REFUSED = [
    ({}, 400, "expected one of text, texts, tokens, got none of them"),
    ({"text": "a", "texts": ["a"]}, 400, "expected one of text, texts, tokens, got text and texts"),
    ({"text": 3}, 400, "text: expected a text, got 3"),
    ({"texts": "a"}, 400, "texts: expected a list, got 'a'"),
    ({"texts": ["a", 1]}, 400, "texts[1]: expected a text, got 1"),
    (
        {"tokens": [["a", 1]]},
        400,
        "tokens[0][1]: expected a word, or a list of a word and further columns, got 1",
    ),
    (
        {"tokens": [["a", ["b", "c"]]]},
        400,
        "tokens[0][1]: the model reads a word at each token, got 2",
    ),
    ({"text": "a", "nbest": 101}, 400, "nbest: expected a whole number from 1 to 100, got 101"),
    ({"text": "a", "nbest": True}, 400, "nbest: expected a whole number from 1 to 100, got True"),
    ({"text": "a", "marginal": True}, 400, "unknown key 'marginal'; did you mean 'marginals'?"),
    (
        {"text": "a", "decoder": "x"},
        400,
        "decoder: expected one of viterbi, marginal, ldi, exact, mbr, got 'x'",
    ),
    (
        {"text": "a", "rules": ["at_most(", "x"]},
        400,
        "rule 'at_most(': expected a rule as in Python with labels",
    ),
    ({"text": "a", "rules": ["once"], "states": True}, 400, "states: not together with rules"),
    ({"text": "a", "model": "two"}, 400, "text: the model reads 2 columns"),
    ({"text": "a", "model": "nix"}, 404, "model: no model 'nix', expected one of names, lat, two"),
    ({"text": "a " * 201}, 413, "201 tokens, expected at most 200; send fewer at a time"),
    ({"tokens": [["a"] * 200, []]}, 413, "201 tokens and empty sentences, expected at most 200"),
    ({"texts": [""] * 201}, 413, "201 tokens and empty sentences, expected at most 200"),
    # before anything looks at each token
    ({"tokens": [[0] * 201]}, 413, "201 tokens, expected at most 200; send fewer at a time"),
    ({"text": "a" * 20_001}, 413, "the body is larger than 20,000 bytes; send less at a time"),
]


@pytest.mark.parametrize(("body", "status", "line"), REFUSED)
def test_refusals_are_one_line(client, body, status, line):
    answer = asked(client, "/tag", status, **body)
    assert list(answer) == ["error"]
    assert answer["error"].startswith(line)


def test_further_refusals(client):
    for content in (b"x", b"", b"[" * 5000, b"\xff"):
        assert client.post("/tag", content=content).json() == {"error": "the body is not JSON"}
    assert client.post("/tag", content=b"[]").json() == {
        "error": "expected a JSON object, got a list of 0"
    }
    # of no length that is known before
    pieces = client.post("/tag", content=(b" " * 1000 for _ in range(30)))
    assert (pieces.status_code, pieces.json()["error"][:11]) == (413, "the body is")
    assert asked(client, "/explain", 400, text="a")["error"].startswith("token: missing")
    assert (
        asked(client, "/explain", 400, text="a", token=1)["error"]
        == "token: expected one from 0 to 0, got 1"
    )
    assert (
        "sentence: expected"
        in asked(client, "/explain", 400, text="a", token=0, sentence=2)["error"]
    )
    assert (client.get("/nix").status_code, client.get("/nix").json()) == (
        404,
        {"error": "not found"},
    )
    assert (client.get("/tag").status_code, client.get("/tag").headers["allow"]) == (405, "POST")
    assert (
        asked(client, "/explain", 400, tokens=[], token=0)["error"]
        == "sentence: expected none, since there are no sentences, got 0"
    )
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/docs").status_code == 404


def test_mistakes_of_ours_show_nothing(folder, monkeypatch):
    def fails(*_):
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(batching, "sentence_fact", fails)
    app = make_app(Models([str(folder / "names.crf")]))
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.post("/tag", json={"text": "a"})
    assert (response.status_code, response.json()) == (
        500,
        {"error": "unexpected error, a mistake of ours"},
    )


# -- batches ---------------------------------------------------------------------------------------


def answered(worker, questions):
    """The answers to questions that wait together."""

    async def ask():
        tasks = [asyncio.ensure_future(worker.answer(*question)) for question in questions]
        await asyncio.sleep(0)  # all wait before the thread begins
        worker.start()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(ask())
    worker.stop()
    return answers


def test_requests_that_wait_are_answered_together_and_in_order(folder):
    served, corpus = (
        Served("names", str(folder / "names.crf"), 1),
        builtin_corpus(n_sentences=40, random_state=3),
    )
    words = corpus.column("word")
    kinds = [Options(), Options(nbest=2), Options(marginals=True, spans=False)]
    questions = [(Asked(None, words[n : n + 1 + n % 3]), kinds[n % 3]) for n in range(30)]
    counts = Counts()
    together = answered(Worker(served, Limits(), counts), questions)
    assert counts.values["batches"] == 3
    assert counts.values["sentences"] == sum(len(question[0].tokens) for question in questions)
    for question, answer in zip(questions, together, strict=True):
        (alone,) = answered(Worker(served, Limits(), Counts()), [question])
        assert [each["labels"] for each in answer] == [each["labels"] for each in alone]
        assert [[t["text"] for t in each["tokens"]] for each in answer] == question[0].tokens
        for one, other in zip(answer, alone, strict=True):
            assert one["log_probability"] == pytest.approx(other["log_probability"], abs=2e-6)
            assert list(map(len, (one["nbest"], one["marginals"]))) == list(
                map(len, (other["nbest"], other["marginals"]))
            )


def test_a_bad_request_spoils_no_other(folder):
    served = Served("names", str(folder / "names.crf"), 1)
    good, long, wrong = (
        Asked(["She ran."], None),
        Asked(["a " * 50], None),
        Asked(None, [[["a", "b"]]]),
    )
    questions = [(each, Options()) for each in (good, long, wrong, good)] + [
        (good, Options(decoder="x"))
    ]
    first, large, columns, last, decoder = answered(
        Worker(served, Limits(max_tokens=20), Counts()), questions
    )
    assert first == last
    assert first[0]["labels"]
    assert large.status == 413
    assert isinstance(columns, OptionError)
    assert isinstance(decoder, OptionError)


def test_time_and_the_number_of_waiting_requests_are_limited(folder, monkeypatch):
    served, asks = Served("names", str(folder / "names.crf"), 1), Asked(["a"], None)
    worker = Worker(served, Limits(timeout=0.01), Counts())  # whose thread does not run
    with pytest.raises(LabelwrightError, match=r"no answer within 0\.01 seconds") as late:
        asyncio.run(worker.answer(asks, Options()))
    monkeypatch.setattr(batching, "MOST_WAITING", 1)
    with pytest.raises(LabelwrightError, match="too many requests are waiting") as full:
        asyncio.run(worker.answer(asks, Options()))
    assert (late.value.status, full.value.status) == (503, 503)


def test_a_job_whose_time_is_over_is_stopped(folder, monkeypatch):
    served, asked_about = Served("names", str(folder / "names.crf"), 1), []
    ask = Question.ask

    def slow(question, sentences, seconds):
        asked_about.append(len(sentences))
        time.sleep(0.1)
        return ask(question, sentences, seconds)

    monkeypatch.setattr(Question, "ask", slow)
    monkeypatch.setattr(replies, "AT_ONCE", 4)
    questions = [(Asked(None, [["a", "b"], []] * 100), Options())]
    worker = Worker(served, Limits(timeout=0.35), Counts())
    (late,) = answered(worker, questions)
    assert (late.status, set(asked_about)) == (503, {3})  # an empty sentence counts as a token
    assert len(asked_about) < 10
    (good,) = answered(Worker(served, Limits(), Counts()), [(Asked(["She ran."], None), Options())])
    assert good[0]["labels"]


def test_sentences_that_are_asked_about_in_pieces(folder, monkeypatch):
    served, words = Served("names", str(folder / "names.crf"), 1), ["The", "man", "saw", "Mary"]
    questions = [(Asked(None, [words[:n] for n in (1, 4, 0, 2)]), Options())] * 2
    whole = answered(Worker(served, Limits(), Counts()), questions)
    monkeypatch.setattr(replies, "AT_ONCE", 3)
    pieces, ask = [], Question.ask

    def noted(question, sentences, seconds):
        pieces.append(len(sentences))
        return ask(question, sentences, seconds)

    monkeypatch.setattr(Question, "ask", noted)
    counts = Counts()
    assert answered(Worker(served, Limits(), counts), questions) == whole
    assert len(pieces) > 2
    assert counts.values["batches"] == 1  # counted once, when all is answered
    monkeypatch.setattr(replies, "AT_ONCE_SLOWLY", 1)
    impossible = [(Asked(None, [words, words[3:]]), Options(rules=('at_least(2, "NP")',)))]
    (error,) = answered(Worker(served, Limits(), Counts()), impossible)
    assert str(error).startswith("sentence 1: no labelling satisfies")


def test_the_answer_is_written_in_the_thread_of_the_model(folder):
    served, threads = Served("names", str(folder / "names.crf"), 1), []

    def shape(fact):
        threads.append(threading.current_thread().name)
        return fact["labels"]

    question = Asked(None, [["She", "ran"], ["Mary"]]), Options(), None, shape
    (answer,) = answered(Worker(served, Limits(), Counts()), [question])
    assert list(map(len, answer)) == [2, 1]
    assert threads == ["labelwright-names"] * 2


# -- models, health, metrics -----------------------------------------------------------------------


def test_models_and_health(client):
    answer = client.get("/models").json()
    assert answer["default"] == "names"
    names, latent, two = answer["models"]
    assert (names["name"], names["kind"], names["probabilities"], names["latent"]) == (
        "names",
        "CRF",
        True,
        False,
    )
    assert (latent["name"], latent["kind"], latent["latent"]) == ("lat", "LatentCRF", True)
    assert names["columns"] == ["word"]
    assert len(two["columns"]) == 2
    assert "B-NP" in names["labels"]
    assert names["decoder"] in names["decoders"]
    health = client.get("/health").json()
    assert (health["status"], [each["name"] for each in health["models"]]) == (
        "ok",
        ["names", "lat", "two"],
    )
    assert [each["problem"] for each in health["models"]] == [None] * 3


def test_metrics_are_those_of_prometheus(folder):
    with TestClient(make_app(Models([str(folder / "names.crf")]))) as client:
        asked(client, tokens=[["The", "Xyzzy"], ["man"]])
        asked(client, "/tag", 400)
        client.get("/secret")
        text = client.get("/metrics").text
    line = re.compile(
        r'(?:# (?:HELP|TYPE) \w+ .+)|(?:(\w+)(\{\w+="[^"]*"(?:,\w+="[^"]*")*\})? '
        r"(\d+(?:\.\d+)?(?:e-\d+)?))"
    )
    values = {}
    for each in text.splitlines():
        match = line.fullmatch(each)
        assert match, each
        if match[1]:
            values[match[1] + (match[2] or "")] = float(match[3])
    assert values['labelwright_requests_total{path="/tag",status="200"}'] == 1
    assert values['labelwright_requests_total{path="/tag",status="400"}'] == 1
    assert values['labelwright_requests_total{path="other",status="404"}'] == 1
    assert values['labelwright_tokens_total{model="names"}'] == 3
    assert values['labelwright_unseen_tokens_total{model="names"}'] == 1
    assert values['labelwright_confidence_count{model="names"}'] == 2
    assert 0 < values['labelwright_confidence_sum{model="names"}'] <= 2
    buckets = [value for name, value in values.items() if "_bucket" in name]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values["labelwright_request_seconds_count"] == 3


def test_a_changed_file_is_served_and_a_broken_one_is_not(folder, tmp_path, caplog):
    path = tmp_path / "model.crf"
    path.write_bytes((folder / "names.crf").read_bytes())
    models = Models([str(path)])
    served, asks = models.get(None), {"tokens": [["The", "dog"]]}
    with TestClient(make_app(models, look_again=1000)) as client:
        before = asked(client, **asks)
        tagger = served.tagger
        served.refresh()
        assert served.tagger is tagger  # the file is the same
        path.write_bytes(b"nonsense")
        served.refresh()
        problem = client.get("/health").json()["models"][0]["problem"]
        assert problem.startswith("the new file: ")
        assert str(tmp_path) not in problem
        assert "the model before it is still served" in caplog.text
        assert asked(client, **asks) == before
        path.unlink()
        served.refresh()
        assert "no such file" in client.get("/health").json()["models"][0]["problem"]
        assert asked(client, **asks) == before
        CRF(max_iter=1, n_jobs=1).fit([["The", "dog"]], [["X", "Y"]]).save(path)
        served.refresh()
        assert client.get("/health").json()["models"][0]["problem"] is None
        assert asked(client, **asks)["sentences"][0]["labels"] == ["X", "Y"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_what_is_no_file_in_place_of_a_model_stops_no_reloading(folder, tmp_path):
    path = tmp_path / "model.crf"
    path.write_bytes((folder / "names.crf").read_bytes())
    served = Served("names", str(path), 1)

    def put(make):
        path.unlink(missing_ok=True)
        make(path)
        watching = threading.Thread(target=served.refresh, daemon=True)
        watching.start()
        watching.join(20)
        assert not watching.is_alive()
        return served.problem

    assert put(os.mkfifo) == "the new file: cannot read: is a pipe, expected a file"
    assert "is a device, expected a file" in put(lambda link: link.symlink_to("/dev/zero"))
    assert "too many levels of symbolic links" in put(lambda link: link.symlink_to(link))
    assert put(lambda file: CRF(max_iter=1, n_jobs=1).fit([["a"]], [["X"]]).save(file)) is None
    assert served.tagger.predict([["a"]]) == [["X"]]
    assert put(lambda file: file.write_bytes(b"")).startswith("the new file: the file is empty")
    path.unlink()
    assert "is a folder, expected a file" in put(lambda file: file.mkdir())


def test_files_are_watched_in_the_background(folder, tmp_path):
    path = tmp_path / "model.crf"
    path.write_bytes((folder / "names.crf").read_bytes())
    models = Models([str(path)])
    with TestClient(make_app(models, look_again=0.01)) as client:
        CRF(max_iter=1, n_jobs=1).fit([["The", "dog"]], [["X", "Y"]]).save(path)
        labels = None
        while labels != ["X", "Y"]:  # every request on the way is answered
            labels = asked(client, tokens=[["The", "dog"]])["sentences"][0]["labels"]


# -- access, the page, Label Studio ----------------------------------------------------------------


def test_a_token_opens_all_but_health_and_the_page_needs_none(folder):
    with TestClient(make_app(Models([str(folder / "names.crf")]), token="open sesame")) as client:
        for headers in (
            {},
            {"authorization": "Bearer x"},
            {"authorization": "open sesame"},
            {"authorization": "Basic x"},
        ):
            response = client.post("/tag", json={"text": "a"}, headers=headers)
            assert (response.status_code, list(response.json())) == (401, ["error"])
            assert client.get("/metrics", headers=headers).status_code == 401
        assert (
            client.post(
                "/tag", json={"text": "a"}, headers={"authorization": "Bearer open sesame"}
            ).status_code
            == 200
        )
        assert (
            client.post(
                "/tag", json={"text": "a"}, auth=("label-studio", "open sesame")
            ).status_code
            == 200
        )
        assert client.get("/health").status_code == client.get("/").status_code == 200


def test_the_page_and_the_document(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert client.get("/static/index.html").text == page.text
    document = client.get("/openapi.json").json()
    assert {"/tag", "/explain", "/models", "/health", "/metrics"} <= document["paths"].keys()
    schema = document["paths"]["/tag"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert {"model", "text", "texts", "tokens", "nbest", "marginals", "spans", "states"} <= schema[
        "properties"
    ].keys()
    _, columns = schema["properties"]["tokens"]["anyOf"][0]["items"]["items"]["anyOf"]
    assert columns["minItems"] == 1
    answer = document["paths"]["/tag"]["post"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert answer["properties"]["sentences"]["items"]["required"] == SENTENCE_KEYS


def test_label_studio(client, tagger):
    assert (
        client.post("/setup", json={"project": "1", "schema": "<View/>"})
        .json()["model_version"]
        .startswith("names ")
    )
    text = "\U0001f600 The old man saw Mary."
    config = (
        '<View><Labels name="ner" toName="t"><Label value="NP"/></Labels><Text name="t" '
        'value="$body"/></View>'
    )
    body = {
        "tasks": [{"id": 1, "data": {"body": text}}, {"id": 2, "data": {"body": ""}}],
        "label_config": config,
    }
    answer = asked(
        client,
        "/predict",
        **body,
        project="1.2",
        params={"login": None, "password": None, "context": None},
    )
    first, empty = answer["results"]
    assert answer["model_version"] == first["model_version"]
    assert (empty["result"], empty["score"]) == ([], 1.0)
    assert first["model_version"].startswith("names ")
    entities = tagger.predict_entities([text])[0]
    assert [each["value"]["text"] for each in first["result"]] == [
        entity.text for entity in entities
    ]
    for each, entity in zip(first["result"], entities, strict=True):
        assert (each["from_name"], each["to_name"], each["type"]) == ("ner", "t", "labels")
        assert each["value"]["labels"] == [entity.type]
        assert each["value"]["start"] == len(text[: entity.start].encode("utf-16-le")) // 2
    assert asked(client, "/predict", tasks=[{"data": {"text": "She ran."}}])["results"][0]["result"]
    assert asked(client, "/predict", 400, tasks=3) == {"error": "tasks: expected a list of tasks"}
    assert (
        asked(client, "/predict", 400, tasks=[{"data": {"text": 3}}])["error"]
        == "tasks[0].data.text: expected a text"
    )


# -- the command -----------------------------------------------------------------------------------


def test_the_command_refuses_in_one_line(run, folder, tmp_path, monkeypatch):
    names = folder / "names.crf"
    code, _, error = run("serve", tmp_path / "nix")
    assert (code, error) == (2, f"labelwright: {tmp_path / 'nix'}: cannot read: no such file\n")
    code, _, error = run("serve", names, names)
    assert (code, "another model is called 'names'" in error) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, error = run("serve", names, "--port", taken.getsockname()[1])
    assert (code, "cannot listen there: address already in use" in error, error.count("\n")) == (
        2,
        True,
        1,
    )
    code, _, error = run("serve", names, "--token", "")
    assert (code, error[:20]) == (2, "labelwright: --token")
    monkeypatch.setattr(application.importlib.util, "find_spec", lambda name: None)
    code, _, error = run("serve", names)
    line = "serve: needs FastAPI and uvicorn; install them with: pip install 'labelwright[serve]'"
    assert (code, error) == (2, f"labelwright: {line}\n")


def test_another_host_without_a_token_is_warned_of(run, folder, monkeypatch):
    monkeypatch.setattr(application, "run", lambda *_: None)
    monkeypatch.delenv("LABELWRIGHT_TOKEN", raising=False)
    names, warning = folder / "names.crf", "anybody who reaches this address can ask"
    assert warning in run("serve", names, "--host", "0.0.0.0")[2]
    assert warning not in run("serve", names, "--host", "0.0.0.0", "--token", "x")[2]
    assert warning not in run("serve", names)[2]
    monkeypatch.setenv("LABELWRIGHT_TOKEN", "x")
    assert warning not in run("serve", names, "--host", "0.0.0.0")[2]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service(folder, number):
    command = [
        sys.executable,
        "-m",
        "labelwright",
        "serve",
        str(folder / "names.crf"),
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("serving names at http://127.0.0.1:"), line
        address = line.split(" at ")[1].split()[0]
        request = urllib.request.Request(f"{address}/tag", b'{"text": "She ran."}')
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["sentences"][0]["labels"]
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr.read() == "labelwright: stopped\n"
    finally:
        process.kill()
        process.stderr.close()
