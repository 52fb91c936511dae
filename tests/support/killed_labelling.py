"""A labelling service that is killed again and again while answers come: none may be lost, and none
be there twice.

Several clients send answers, correct them and take them back.  After each kill the file is read,
the command is started again, and what was under way is sent once more, as the page does.
"""

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from labelwright.serve.labelling import id_of

CLIENTS = 3
WORDS = [
    "Ada",
    "Alan",
    "Grace",
    "met",
    "saw",
    "left",
    "in",
    "London",
    "Paris",
    "Rome",
    "again",
    "today",
]
TYPES = ["PER", "LOC"]
READY = re.compile(r"open (http://\S+)")


class Labelled:
    """A service in a process of its own."""

    def __init__(self, folder, *options):
        command = [
            sys.executable,
            "-m",
            "labelwright",
            "annotate",
            "texts.txt",
            "-o",
            "answers.jsonl",
            "--port",
            "0",
        ]
        command += ["--sentences", "lines", *options]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        self.said = [self.process.stderr.readline()]
        while self.said[-1] and not READY.search(self.said[-1]):
            self.said.append(self.process.stderr.readline())
        assert self.said[-1], self.said
        self.address = READY.search(self.said[-1])[1]

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(120)
        self.said += self.process.stderr.readlines()
        self.process.stderr.close()


class Client:
    """Somebody who labels sentences of his own; what was acknowledged is kept, and what is under
    way."""

    def __init__(self, seed, sentences):
        self.rng, self.sentences = random.Random(seed), sentences
        self.kept = {}  # by id: the tag and the content that were acknowledged
        self.under_way = None  # the body of a request without a reply
        self.mistakes = []
        self.has_reply = threading.Event()  # from this service

    def work(self, address):
        try:
            with httpx.Client(base_url=address, timeout=60) as http:
                while True:
                    self.under_way = self.under_way or self._body()
                    reply = http.post("/answer", json=self.under_way)
                    if reply.status_code != 200:
                        self.mistakes.append(f"{reply.status_code}: {reply.text:.200}")
                        return
                    self._note(reply.json()["tag"])
        except httpx.TransportError:  # killed
            return

    def _body(self):
        answered = sorted(self.kept)
        is_old = answered and self.rng.random() < 0.3
        id = self.rng.choice(
            answered if is_old else sorted(self.sentences.keys() - self.kept.keys()) or answered
        )
        body = {"id": id} | ({"base": self.kept[id][0]} if id in self.kept else {})
        if id in self.kept and self.rng.random() < 0.3:
            return body  # taken back
        places = [match.span() for match in re.finditer(r"\w+", self.sentences[id])]
        chosen = sorted(self.rng.sample(places, self.rng.randint(0, 3)))
        unknown = [list(places[-1])] if places[-1] not in chosen and self.rng.random() < 0.2 else []
        return body | {
            "label": [[a, b, self.rng.choice(TYPES)] for a, b in chosen],
            "unknown": unknown,
        }

    def _note(self, tag):
        body, self.under_way = self.under_way, None
        self.kept.pop(body["id"], None)
        self.has_reply.set()
        if "label" in body:
            self.kept[body["id"]] = tag, content_of(body)

    def check(self, written):
        """Compare with what the file has, by id."""
        for id in self.sentences:
            possible = [self.kept[id][1] if id in self.kept else None]
            if self.under_way is not None and self.under_way["id"] == id:
                possible.append(content_of(self.under_way))
            if written.get(id) not in possible:
                self.mistakes.append(
                    f"{self.sentences[id]}: expected {possible}, got {written.get(id)}"
                )


def content_of(record):
    """What an answer says, of a request or of a line of the file."""
    return (record["label"], record.get("unknown", [])) if "label" in record else None


def kill_and_go_on(folder, n_kills, seed=0, told=lambda line: None):
    """Kill the service so many times; what went wrong, how many answers were acknowledged, and what
    was said."""
    rng, said = random.Random(seed), Counter()
    texts = [" ".join([*rng.choices(WORDS, k=6), str(n)]) for n in range(30 * (n_kills + 10))]
    Path(folder, "texts.txt").write_text("\n".join(texts) + "\n")
    service = Labelled(folder)
    ids = {text: id_of(text) for text in texts}
    by_id = {id: text for text, id in ids.items()}
    clients = [Client(f"{seed} {k}", dict(list(by_id.items())[k::CLIENTS])) for k in range(CLIENTS)]
    mistakes = []
    for number in range(n_kills + 1):
        threads = [
            threading.Thread(target=client.work, args=[service.address]) for client in clients
        ]
        for client, thread in zip(clients, threads, strict=True):
            client.has_reply.clear()
            thread.start()
        clients[number % CLIENTS].has_reply.wait(60)
        time.sleep(rng.uniform(0, 1.5))
        service.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        said.update(re.sub(r"\d+", "N", line) for line in service.said if not READY.search(line))
        content = Path(folder, "answers.jsonl").read_bytes()
        lines = content[: content.rfind(b"\n") + 1].splitlines()  # without a torn last one
        records = [json.loads(line) for line in lines]
        if len({record["text"] for record in records}) < len(records):
            mistakes.append(f"kill {number}: a sentence is there twice")
        written = {ids[record["text"]]: content_of(record) for record in records}
        for client in clients:
            client.check(written)
        told(
            f"kill {number}: {len(records)} answers, "
            f"{sum(len(client.mistakes) for client in clients)} mistakes"
        )
        if number < n_kills:
            service = Labelled(folder)
    mistakes += [line for client in clients for line in client.mistakes]
    return mistakes, sum(len(client.kept) for client in clients), said
