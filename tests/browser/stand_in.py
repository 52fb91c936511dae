"""A small service with canned models, in the shapes of `labelwright serve`, for tests of the page.

The models label by simple rules: `names` marks capitalised words, `hidden` does the same with
hidden states, `words` gives every token a label.  A text with a special word makes the service
fail, wait, or ask for a token.
"""

import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import labelwright

STATIC = Path(labelwright.__file__).parent / "serve" / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".html": "text/html; charset=utf-8"}
NAMES = ["B-LOC", "B-ORG", "B-PER", "I-LOC", "I-ORG", "I-PER", "O"]
SHARED = {"columns": ["word"], "description": "", "probabilities": True}
MODELS = [
    SHARED
    | {
        "name": "names",
        "kind": "CRF",
        "labels": NAMES,
        "decoders": ["viterbi", "marginal"],
        "latent": False,
    },
    SHARED
    | {
        "name": "hidden",
        "kind": "LatentCRF",
        "labels": NAMES,
        "decoders": ["exact", "ldi"],
        "latent": True,
    },
    SHARED
    | {
        "name": "words",
        "kind": "CRF",
        "labels": ["CD", "NN", "NNP"],
        "decoders": [],
        "latent": False,
    },
]


def sentence(
    model: str, words: list[tuple[str, int, int]], document: int, decoder: str | None
) -> dict[str, Any]:
    labels: list[str] = []
    for word, _, _ in words:
        if model == "words":
            labels.append("CD" if word[0].isdigit() else "NNP" if word[0].isupper() else "NN")
        elif word[0].isupper():
            kind = (
                "LOC"
                if word == "London"
                else "ORG"
                if word == "Nations" and model == "hidden"
                else "PER"
            )
            labels.append(f"I-{kind}" if labels and labels[-1].endswith(kind) else f"B-{kind}")
        else:
            labels.append("O")
    if decoder == "marginal" and labels:
        labels[-1] = "B-ORG"  # not the best labelling
    start, end = (words[0][1], words[-1][2]) if words else (0, 0)
    proven = decoder not in ("ldi", "marginal")
    found = {
        "text": "",
        "document": document,
        "start": start,
        "end": end,
        "labels": labels,
        "exact": proven,
    }
    found |= {"probability": 0.83, "log_probability": -0.19, "confidence": None}
    found |= {
        "gap": 0.0 if proven else 0.02 if decoder == "ldi" else None,
        "spans": spans(words, labels),
    }
    found["tokens"] = [{"text": word, "start": a, "end": b} for word, a, b in words]
    found["marginals"] = [{label: 0.9, "O" if label != "O" else "B-ORG": 0.08} for label in labels]
    found["states"] = (
        [{f"{label}#1": 0.7, f"{label}#2": 0.2} for label in labels] if model == "hidden" else None
    )
    other = ["NN" if model == "words" else "O", *labels[1:]]
    found["nbest"] = [
        {"labels": labels, "probability": 0.83, "spans": spans(words, labels)},
        {"labels": other, "probability": 0.11, "spans": spans(words, other)},
    ]
    return found


def spans(words: list[tuple[str, int, int]], labels: list[str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for t, label in enumerate(labels):
        if label.startswith("B-"):
            made.append(
                {
                    "label": label[2:],
                    "first": t,
                    "last": t,
                    "start": words[t][1],
                    "probability": 0.88,
                }
            )
        elif label.startswith("I-") and made:
            made[-1]["last"] = t
    for span in made:
        span |= {
            "end": words[span["last"]][2],
            "text": " ".join(w[0] for w in words[span["first"] : span["last"] + 1]),
        }
    return made


def tagged(body: dict[str, Any]) -> dict[str, Any]:
    model, decoder = body.get("model", "names"), body.get("decoder")
    sentences = []
    for n, tokens in enumerate(body.get("tokens", [])):
        sentences.append(sentence(model, [(word, 0, 0) for word in tokens], n, decoder))
    for match in re.finditer(r"[^.\n]*\w[^.\n]*\.?|[^\s\w.]+", body.get("text", "")):
        words = [
            (w[0], match.start() + w.start(), match.start() + w.end())
            for w in re.finditer(r"[\w-]+|\S", match[0])
        ]
        sentences.append(sentence(model, words, 0, decoder))
    for one in sentences:
        for what in ("nbest", "marginals", "states"):
            one[what] = (one[what] or []) if body.get(what) else []
    return {"model": model, "sentences": sentences}


def explained(body: dict[str, Any]) -> dict[str, Any]:
    one, t = tagged(body)["sentences"][body.get("sentence", 0)], body["token"]
    words, label = [token["text"] for token in one["tokens"]], one["labels"][t]
    rows = [
        (f"word[0]={words[t]}", "state", t, t + 1, 2.5),
        ("suffix(word[0],2)=ix", "state", t, t + 1, -1.25),
    ]
    rows.append((f"O → {label}, not O → O", "transition", t - 1, t + 1, 0.75))
    keys = ("name", "kind", "token", "end", "value")
    token = {
        "token": t,
        "word": words[t],
        "label": label,
        "runner_up": "O",
        "measure": "log-odds",
        "log_odds": 2.0,
    }
    token |= {
        "probability": 0.9,
        "runner_up_probability": 0.08,
        "labels": one["labels"],
        "details": None,
    }
    token |= {"runner_up_labels": [*one["labels"][:t], "O", *one["labels"][t + 1 :]]}
    token["contributions"] = [dict(zip(keys, row, strict=True)) | {"below": False} for row in rows]
    token["flips"] = [{"name": f"word[0]={words[t]}", "kind": "state", "token": t, "label": "O"}]
    return {
        "model": body.get("model", "names"),
        "sentence": body.get("sentence", 0),
        "words": words,
    } | token


class Handler(BaseHTTPRequestHandler):
    asked: list[dict[str, Any]]  # bodies of /tag
    token: str | None = None

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", "default-src 'self'; img-src data:")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_refused(self) -> bool:
        refused = (
            self.token is not None and self.headers.get("Authorization") != f"Bearer {self.token}"
        )
        if refused:
            self.reply(401, b'{"error": "token needed"}')
        return refused

    def do_GET(self) -> None:
        path = STATIC / ("index.html" if self.path == "/" else self.path.removeprefix("/static/"))
        if self.path == "/models":
            if not self.is_refused():
                self.reply(200, json.dumps({"default": "names", "models": MODELS}).encode())
        elif path.is_file():
            self.reply(200, path.read_bytes(), TYPES[path.suffix])
        else:
            self.reply(404, b'{"error": "not found"}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.is_refused():
            return
        text = body.get("text", "")
        if self.path == "/tag":
            self.asked.append(body)
        if "Slow" in text and "Slower" not in text:
            time.sleep(1.0)
        try:
            if "Fail" in text:
                self.reply(
                    422, json.dumps({"error": "text: too long, <b>at most</b> 10 tokens"}).encode()
                )
            else:
                self.reply(
                    200,
                    json.dumps(tagged(body) if self.path == "/tag" else explained(body)).encode(),
                )
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page no longer wanted it


@contextmanager
def stand_in(token: str | None = None):  # type: ignore[no-untyped-def]
    """The address of a running stand-in, and the bodies that /tag was asked with."""
    asked: list[dict[str, Any]] = []
    handler = type("Bound", (Handler,), {"asked": asked, "token": token})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
    finally:
        server.shutdown()
        server.server_close()
