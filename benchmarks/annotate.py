"""A simulated annotator of `labelwright annotate`: F1 by the number of answers, beside random
order, and waiting times.

    python benchmarks/annotate.py [--answers 500] [--lag 5] [--seed 0]

The pool is the training data of CoNLL-2003 (English); answers are its gold labels, from zero.  One
annotator takes the sentences that the service asks for, another one random ones; both talk to a
service of their own over HTTP.  A person needs several seconds for a sentence; here the annotator
goes on as soon as the model has learnt from all answers but the last few (--lag).  Waiting is the
time from sending an answer to having the next sentence.  F1 is that of CRF(template="ner"), trained
on the first answers of the file, on the test data.  LABELWRIGHT_CORPORA names the folder of the
corpora.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from labelwright import CRF, Tokenizer, read_columns, read_doccano
from labelwright.corpus.spans import spans_of
from labelwright.evaluate import evaluate
from labelwright.serve.labelling import id_of

SIZES = (50, 100, 200, 500)


def sentences_of(part):
    """The words and the labels of each sentence."""
    corpus = read_columns(
        Path(os.environ["LABELWRIGHT_CORPORA"]) / "conll2003" / f"{part}.txt"
    ).with_scheme("iob2")
    return corpus.column(corpus.names[0]), corpus.y


class Service:
    """`labelwright annotate` in a process of its own."""

    def __init__(self, folder, pool, output):
        command = [
            sys.executable,
            "-m",
            "labelwright",
            "annotate",
            pool,
            "-o",
            output,
            "--port",
            "0",
        ]
        command += ["--token-pattern", r"\S+", "--sentences", "lines"]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        address = re.search(r"http://(\S+):(\d+)", line)
        if address is None:
            sys.exit(f"no service: {line}{self.process.stderr.read()}")
        self.connection = http.client.HTTPConnection(address[1], int(address[2]))

    def ask(self, path, body=None):
        headers = {"Content-Type": "application/json"}
        self.connection.request(
            "GET" if body is None else "POST", path, body and json.dumps(body), headers
        )
        response = self.connection.getresponse()
        answer = json.load(response)
        if response.status != 200:
            sys.exit(f"{path}: {answer}")
        return answer

    def stop(self):
        self.process.terminate()
        self.process.communicate()


class Annotator:
    """Who knows the gold labels, and takes sentences by the choice of the service, or by chance."""

    def __init__(self, name, service, gold, order, lag):
        self.name, self.service, self.gold, self.lag = name, service, gold, lag
        self.order, self.waits, self.looks = order, [], 0
        self.answered, self.state, self.is_learnable = 0, {"learnt": None}, False
        self.card = self.next()

    def next(self):
        if self.order is None:
            return self.service.ask("/next", {"page": "one"})
        return self.service.ask("/sentence", {"id": id_of(self.order[self.answered])})

    def step(self):
        """Answer one sentence, once the model is near enough; False: it is not yet."""
        if self.is_learnable and self.answered - (self.state["learnt"] or 0) >= self.lag:
            self.state = self.service.ask("/state")
            if self.answered - (self.state["learnt"] or 0) >= self.lag:
                return False
        labels, tokens = self.gold[self.card["text"]], self.card["tokens"]
        label = [
            [tokens[s.start]["start"], tokens[s.end - 1]["end"], s.type] for s in spans_of(labels)
        ]
        base = {"base": self.card["answer"]["tag"]} if self.card["answer"] else {}
        self.looks += bool(base)
        self.is_learnable = self.is_learnable or bool(label)
        begun = time.perf_counter()
        self.state = self.service.ask("/answer", {"id": self.card["id"], "label": label, **base})[
            "state"
        ]
        self.answered = self.state["answered"]
        self.card = self.next()
        self.waits.append(time.perf_counter() - begun)
        return True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=500)
    parser.add_argument("--lag", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    if "LABELWRIGHT_CORPORA" not in os.environ:
        sys.exit("LABELWRIGHT_CORPORA: name the folder with the corpora")
    X, y = sentences_of("train")
    test_X, test_y = sentences_of("test")
    gold = {" ".join(words): labels for words, labels in zip(X, y, strict=True)}
    texts = list(gold)
    order = [texts[n] for n in np.random.default_rng(o.seed).permutation(len(texts))]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pool.txt").write_text("\n".join(texts) + "\n")
        services = [Service(folder, "pool.txt", f"{name}.jsonl") for name in ("active", "random")]
        begun = time.monotonic()
        active = Annotator("active", services[0], gold, None, o.lag)
        random = Annotator("random", services[1], gold, order, o.lag)
        annotators = [active, random]
        while waiting := [each for each in annotators if each.answered < o.answers]:
            if not sum([each.step() for each in waiting]):
                time.sleep(0.05)
        print(
            f"{len(texts):,} sentences, {o.answers} answers of each, "
            f"{time.monotonic() - begun:.0f} s"
        )
        for service in services:
            service.stop()
        for each in annotators:
            waits = sorted(each.waits)
            print(
                f"{each.name}: {len(waits)} waits, median {statistics.median(waits):.3f} s",
                end=", ",
            )
            print(
                f"99 % {waits[int(0.99 * len(waits))]:.3f} s, longest {waits[-1]:.3f} s; "
                f"{each.looks} second looks;",
                end=" ",
            )
            print(f"score on the page {each.state['score']}")
        for size in sorted({*(n for n in SIZES if n < o.answers), o.answers}):
            for each in annotators:
                lines = (
                    Path(folder, f"{each.name}.jsonl").read_bytes().splitlines(keepends=True)[:size]
                )
                part = Path(folder, "part.jsonl")
                part.write_bytes(b"".join(lines))
                corpus = read_doccano(part, tokenizer=Tokenizer(pattern=r"\S+", sentences="lines"))
                report = evaluate(test_y, CRF(template="ner").fit(corpus).predict(test_X))
                print(
                    f"{size:>4} answers, {each.name}: F1 {100 * report.score:.2f}, "
                    f"{corpus.n_tokens:,} tokens"
                )


if __name__ == "__main__":
    main()
