"""Models on the Hub, by the real client against a stand-in on loopback: pushed with their card,
loaded by revision."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

import labelwright
from labelwright import CRF
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.hub import model_card, parsed

X, Y = (
    [["Ada", "Lovelace", "ran", "."], ["They", "ran", "."]],
    [["B-PER", "I-PER", "O", "O"], ["O", "O", "O"]],
)


class StandIn(BaseHTTPRequestHandler):
    """As much of the Hub as a client needs: repositories, commits, files by revision."""

    def log_message(self, *_):
        pass

    def _answer(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self, value, status=200):
        self._answer(status, json.dumps(value).encode(), Content_Type="application/json")

    def do_POST(self):
        path, repos = unquote(urlsplit(self.path).path), self.server.repos
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, path))
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, [asked.get("organization") or "ada", asked["name"]]))
            self.server.private[name] = asked.get("private", asked.get("visibility"))
            repos.setdefault(name, {})
            self._json({"url": f"{self.server.address}/{name}", "name": name, "id": "1"})
        elif found := re.fullmatch(r"/api/models/(.+)/branch/(.+)", path):
            repos[found[1]].setdefault(found[2], {})
            self._json({}, 201)
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/(.+)/preupload/(.+)", path):
            files = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            self._json({"files": files})
        elif found := re.fullmatch(r"/api/models/(.+)/commit/(.+)", path):
            lines = [json.loads(line) for line in body.splitlines()]
            files = {
                each["value"]["path"]: each["value"]["content"]
                for each in lines
                if each["key"] == "file"
            }
            oid = hashlib.sha1(body, usedforsecurity=False).hexdigest()
            version = {name: base64.b64decode(content) for name, content in files.items()}
            repos[found[1]] |= {oid: version, found[2]: version}
            self.server.commits[found[1], found[2]] = oid
            self._json(
                {"commitUrl": f"{self.server.address}/{found[1]}/commit/{oid}", "commitOid": oid}
            )
        else:
            self._json({"error": "not found"}, 404)

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append((self.command, path))
        found = re.fullmatch(r"/(.+/.+)/resolve/(.+)/([^/]+)", path)
        if found is None or found[1] not in self.server.repos:
            self._answer(404, X_Error_Code="RepoNotFound")
        elif found[2] not in self.server.repos[found[1]]:
            self._answer(404, X_Error_Code="RevisionNotFound")
        else:
            content = self.server.repos[found[1]][found[2]][found[3]]
            tag, commit = (
                hashlib.sha256(content).hexdigest(),
                self.server.commits.get((found[1], found[2]), found[2]),
            )
            self._answer(200, content, ETag=f'"{tag}"', X_Repo_Commit=commit, Accept_Ranges="none")

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.repos, server.commits, server.private, server.asked = {}, {}, {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def client(hub, folder, script, *arguments):
    """A script in a process of its own, which asks the stand-in."""
    env = dict(
        os.environ,
        HF_ENDPOINT=hub.address,
        HF_HOME=str(folder),
        HF_TOKEN="hf_stand_in",
        NO_PROXY="127.0.0.1",
    )
    env |= {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )


PUSH = """
import sys, labelwright
from labelwright.evaluate import evaluate
X = [["Ada", "Lovelace", "ran", "."], ["They", "ran", "."]]
Y = [["B-PER", "I-PER", "O", "O"], ["O", "O", "O"]]
for address, n in (("hf://ada/ner", 30), ("hf://ada/ner@v2", 1)):
    tagger = labelwright.CRF(max_iter=n, n_jobs=1).fit(X, Y)
    report = evaluate(Y, tagger.predict(X))
    about = {"license": "mit", "language": "en", "data": "Two made sentences."}
    print(labelwright.push(tagger, address, report=report, **about))
"""
LOAD = """
import sys, labelwright
for address in sys.argv[1:]:
    try:
        tagger = labelwright.load(address)
        print(tagger.training_["iterations"], tagger.predict([["Ada", "Lovelace", "ran", "."]]))
    except labelwright.LabelwrightError as error:
        print(type(error).__name__, error)
"""


def test_models_are_pushed_and_loaded(hub, tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs the extra hub")
    done = client(hub, tmp_path / "a", PUSH)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert re.fullmatch(r"hf://ada/ner@[0-9a-f]{40}", first)
    assert set(hub.repos["ada/ner"]) == {"main", "v2", first[13:], second[13:]}
    files = hub.repos["ada/ner"]["main"]
    assert set(files) == {"README.md", "model.safetensors"}
    assert labelwright.load(files["model.safetensors"]).classes_ == ["B-PER", "I-PER", "O"]
    card = files["README.md"].decode()
    assert "It runs no code" in card
    missing = ["hf://ada/none", "hf://ada/ner@v9", "hf://ada"]
    done = client(
        hub, tmp_path / "b", LOAD, "hf://ada/ner", "hf://ada/ner@v2", first, second, *missing
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert lines[0] == lines[2]
    assert lines[1] == lines[3]
    assert lines[0].endswith("[['B-PER', 'I-PER', 'O', 'O']]")
    assert lines[1].startswith("1 ")
    assert lines[4].startswith("ModelFileError hf://ada/none: ")
    assert lines[5].startswith("ModelFileError hf://ada/ner@v9: ")
    assert lines[6] == "OptionError hf://ada: expected hf://owner/name or hf://owner/name@revision"
    n_asked = len(hub.asked)
    again = client(hub, tmp_path / "b", LOAD, first)  # a version that is in the cache
    assert again.stdout.splitlines() == lines[:1]
    assert not [path for method, path in hub.asked[n_asked:] if method == "GET"]


def test_commands_read_models_of_the_hub(hub, tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs the extra hub")
    assert client(hub, tmp_path / "a", PUSH).returncode == 0
    (tmp_path / "gold.txt").write_text("Ada B-PER\nLovelace I-PER\nran O\n. O\n", encoding="utf-8")
    script = "import runpy; runpy.run_module('labelwright', run_name='__main__')"
    done = client(
        hub, tmp_path / "a", script, "eval", "hf://ada/ner", tmp_path / "gold.txt", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["f1"] == 1.0


def test_the_card_names_scores_labels_and_use():
    tagger = CRF(max_iter=30, n_jobs=1).fit(X, Y)
    report = evaluate(Y, tagger.predict(X))
    card = model_card(tagger, "hf://ada/ner", report, "Two made sentences.", "mit", "en")
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert json.loads(fields["library_name"]) == "labelwright"
    assert json.loads(fields["license"]) == "mit"
    (index,) = json.loads(fields["model-index"])
    metrics = {each["type"]: each["value"] for each in index["results"][0]["metrics"]}
    assert metrics["f1"] == report.f1 == 1.0
    assert str(report) in body
    for part in (
        "# ada/ner",
        "B-PER, I-PER, O",
        "2 sentences, 7 tokens",
        'load("hf://ada/ner")',
        "Two made sentences.",
    ):
        assert part.replace('"', "'") in body.replace('"', "'")
    assert "It runs no code" in body
    assert "## Evaluation" not in model_card(tagger, "hf://ada/ner@main")


def test_without_the_client_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        OptionError, match=r"hf://ada/ner: needs huggingface_hub; install the extra: pip install"
    ):
        labelwright.load("hf://ada/ner")
    for wrong in ("hf://ner", "hf://a/b/c", "hf://a/b@"):
        with pytest.raises(OptionError, match="expected hf://owner/name"):
            parsed(wrong)
