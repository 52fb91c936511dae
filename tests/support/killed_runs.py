"""Training runs that are killed again and again, resumed until they are done, and compared with
uninterrupted ones.

A run is a command of the command line in a child process.  A signal reaches it after a time, or at
a system call of saving; both are drawn.  What it leaves must be usable: no half file, one line at
most, the usual exit status.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import failing_disk

from labelwright import modelfile
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.learn.monitor import checkpoint_files

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TAGS = "U1:%x[-1,0]\nU2:%x[0,0]\nU3:%x[0,1]\nB\n"
LAYER = "U1:%x[0,0]\nU2:%suffix[0,0,2]\nB\n"
UPPER = "U1:%x[0,0]\nUy:%y[0]\nUz:%y[-1]\nB\n"
DEV = ["--dev", "dev.txt"]
# One command line for each way of training.
TAGGERS = {
    "crf": ["--template", "tags", "--iterations", "12"],
    "crf-dev": ["--template", "tags", "--iterations", "12", *DEV],
    "crf-l1": ["--template", "tags", "--l1", "0.3", "--iterations", "12"],
    "crf-order2": ["--template", "tags", "--order", "2", "--iterations", "8"],
    "crf-pruned": ["--template", "layer", "--prune-labels", "0.99", "--iterations", "12"],
    "crf-sgd": ["--template", "tags", "--optimizer", "sgd", "--iterations", "8"],
    "crf-sgd-average": ["--template", "tags", "--optimizer", "sgd", "--averaging", "avg",
                        "--iterations", "8"],
    "latent-crf": ["--model", "latent-crf", "--latent", "2", "--template", "tags",
                   "--iterations", "12"],
    "latent-crf-restarts": ["--model", "latent-crf", "--latent", "2", "--template", "tags",
                            "--iterations", "6", "--restarts", "3", *DEV],
    "perceptron": ["--model", "perceptron", "--template", "tags", "--iterations", "8", *DEV],
    "perceptron-arow": ["--model", "perceptron", "--template", "tags", "--update", "arow",
                        "--iterations", "8"],
    "perceptron-batches": ["--model", "perceptron", "--template", "tags",
                           "--update", "passive-aggressive", "--batch-size", "5",
                           "--iterations", "8"],
    "latent-perceptron": ["--model", "latent-perceptron", "--latent", "2", "--template", "tags",
                          "--iterations", "6", "--restarts", "2"],
    "latent-perceptron-likelihood": ["--model", "latent-perceptron", "--latent", "2",
                                     "--template", "layer", "--start", "likelihood",
                                     "--iterations", "5"],
    "semi-crf": ["--model", "semi-crf", "--template", "layer", "--iterations", "8"],
    "cascade-joint": ["--recipe", "joint.toml", *DEV],
    "cascade-jackknife": ["--recipe", "jackknife.toml"],
    "cascade-segments": ["--recipe", "segments.toml"],
    "cascade-perceptrons": ["--recipe", "perceptrons.toml", *DEV],
    "cascade-latent": ["--recipe", "latent.toml"],
    "search": ["--template", "tags", "--iterations", "5", "--search", "l2=0.1,1 min-count=1,2"],
    "search-latent-perceptron": ["--recipe", "searched-perceptron.toml", *DEV],
    "search-cascade": ["--recipe", "searched-cascade.toml"],
}  # fmt: skip
RECIPES = {
    "joint": 'model = "cascade"\nmax_iter = 6\n{pos}max_iter = 6\n{chunk}max_iter = 6\n',
    "jackknife": (
        'model = "cascade"\njackknife = true\nmax_iter = 5\n{pos}max_iter = 4\n'
        '{chunk}max_iter = 4\n'
    ),
    "segments": (
        'model = "cascade"\npassing = "marginal"\n{pos}max_iter = 6\n{chunk}model = "semi-crf"\n'
        'max_iter = 6\n'
    ),
    "perceptrons": 'model = "cascade"\npassing = "best"\njackknife = true\n'
                   '{pos}model = "perceptron"\nmax_iter = 3\n'
    '{chunk}model = "latent-perceptron"\nn_latent = 2\nmax_iter = 4\n',
    "latent": 'model = "cascade"\nmax_iter = 4\n{pos}model = "latent-crf"\nn_latent = 2\n'
              'n_restarts = 2\nmax_iter = 4\n'
    '{chunk}model = "latent-crf"\nn_latent = 2\nmax_iter = 4\n',
    "searched-perceptron": (
        'model = "latent-perceptron"\ntemplate = "{folder}/layer"\nmax_iter = 4\n'
        '[search]\nn_latent = [1, 2]\nmargin = [0.0, 1.0]\n'
    ),
    "searched-cascade": (
        'model = "cascade"\npassing = "marginal"\n{pos}max_iter = 3\n{chunk}max_iter = 3\n'
        '[search]\n"pos.l2" = [0.1, 1.0]\n"chunk.l2" = [0.1, 1.0]\n'
    ),
}  # fmt: skip
LAST = 0.98  # of the time of an uninterrupted run: signals come before


@dataclass
class Outcome:
    """What came of all kills."""

    kills: Counter = field(default_factory=Counter)  # by signal
    by_call: int = 0  # how many of them were at a system call of saving
    statuses: Counter = field(default_factory=Counter)
    runs: int = 0  # child processes,
    resumed: int = 0  # and those of them that had a checkpoint to resume from
    taggers: Counter = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)


def without_times(fields):
    """The header of a model file without the times that training took."""
    if isinstance(fields, list):
        return [without_times(each) for each in fields]
    if not isinstance(fields, dict):
        return fields
    return {name: without_times(each) for name, each in fields.items() if name != "seconds"}


class Killing:
    """Kills the training of taggers in a folder of its own, by a seed."""

    def __init__(self, folder, seed, n_sentences=24):
        self.folder, self.random = Path(folder), random.Random(seed)
        self.outcome = Outcome()
        # what the uninterrupted run writes, its seconds and its system calls, by tagger
        self.known = {}
        corpus = builtin_corpus(n_sentences + 8, random_state=3, columns=["word", "pos", "chunk"])
        write_columns(corpus.take(slice(0, n_sentences)), self.folder / "train.txt")
        write_columns(corpus.take(slice(n_sentences, n_sentences + 8)), self.folder / "dev.txt")
        (self.folder / "tags").write_text(TAGS)
        (self.folder / "layer").write_text(LAYER)
        (self.folder / "upper").write_text(UPPER)
        templates = {"pos": self.folder / "layer", "chunk": self.folder / "upper"}
        layers = {
            name: f'[[layers]]\nname = "{name}"\ntemplate = "{file}"\n'
            for name, file in templates.items()
        }
        for name, recipe in RECIPES.items():
            (self.folder / f"{name}.toml").write_text(recipe.format(folder=self.folder, **layers))

    def arguments(self, tagger, resume=False):
        named = {"tags", "layer", "dev.txt"} | {f"{name}.toml" for name in RECIPES}
        options = [str(self.folder / word) if word in named else word for word in TAGGERS[tagger]]
        options += [
            "--columns",
            "word,pos,chunk",
            "--threads",
            "1",
            "--checkpoint-every",
            "0",
            "-q",
        ]
        options += ["--seed", "1"]
        target = ["-o", str(self.folder / "model")]
        return [
            "train",
            str(self.folder / "train.txt"),
            *target,
            *options,
            *(["--resume"] if resume else []),
        ]

    def uninterrupted(self, tagger):
        """What an undisturbed run writes, how long it takes, and how many system calls of saving it
        makes."""
        if tagger not in self.known:
            disk = failing_disk.FailingDisk(0, None)
            with failing_disk.installed(disk):
                # here, so that children inherit compiled code
                status = main(self.arguments(tagger))
            assert status == 0, tagger
            begun = time.monotonic()
            assert main(self.arguments(tagger)) == 0
            seconds = time.monotonic() - begun
            self.known[tagger] = self.content(), seconds, len(disk.calls)
            (self.folder / "model").unlink()
        return self.known[tagger]

    def content(self):
        """The model that a run has written, but for the seconds that it took."""
        tensors, header = modelfile.read(self.folder / "model")
        return {name: array.tobytes() for name, array in tensors.items()}, without_times(header)

    def child(self, tagger, resume, call=0, sent=None):
        """Start a run; at its system call number `call` it sends itself a signal."""
        sys.stdout.flush()
        sys.stderr.flush()
        has_checkpoint = resume and bool(checkpoint_files(self.folder / "model.checkpoint"))
        child = os.fork()
        if child:
            self.outcome.runs += 1
            self.outcome.resumed += has_checkpoint
            return child
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(
                    number,
                    signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
                )
            log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout, sys.stderr = (
                os.fdopen(1, "w", closefd=False),
                os.fdopen(2, "w", closefd=False),
            )
            disk = failing_disk.FailingDisk(call, lambda name: os.kill(os.getpid(), sent))
            with failing_disk.installed(disk):
                status = main(self.arguments(tagger, resume))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        finally:
            os._exit(99)

    def kill(self, tagger, resume):
        """Start a run and send it a signal at a drawn moment; whether it was still running."""
        _, seconds, calls = self.uninterrupted(tagger)
        sent = self.random.choice(SIGNALS)
        by_call = self.random.random() < 0.5
        if by_call:
            child = self.child(tagger, resume, self.random.randint(1, calls), sent)
        else:
            child = self.child(tagger, resume)
            time.sleep(self.random.uniform(0, LAST * seconds))
            os.kill(child, sent)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        hit = status != 0
        if hit:
            self.outcome.kills[sent.name] += 1
            self.outcome.by_call += by_call
            self.outcome.statuses[status] += 1
            self.outcome.taggers[tagger] += 1
            self.check(tagger, sent, status)
        return hit

    def check(self, tagger, sent, status):
        """What a killed run may leave."""
        log = (self.folder / "log").read_text()
        expected = {-sent} if sent == signal.SIGKILL else {128 + sent, -sent}
        if status not in expected:
            self.mistake(f"{tagger}: exit status {status} after {sent.name}: {log[-300:]}")
        # so few sentences lack some labels
        lines = [line for line in log.splitlines() if "dev.txt: " not in line]
        if len(lines) > 1 or "Traceback" in log:
            self.mistake(f"{tagger}: more than a line after {sent.name}: {log[-300:]!r}")
        model = self.folder / "model"
        if model.exists():
            modelfile.read(model)

    def mistake(self, line):
        self.outcome.mistakes.append(line)

    def run(self, tagger, kills):
        """Kill a tagger so many times, let it finish, and compare; how many kills were in time."""
        content, *_ = self.uninterrupted(tagger)
        hits, resume = 0, False
        for _ in range(kills):
            hit = self.kill(tagger, resume)
            hits += hit
            if not hit:
                break
            resume = True
        status = os.waitstatus_to_exitcode(os.waitpid(self.child(tagger, resume=True), 0)[1])
        if status != 0:
            self.mistake(
                f"{tagger}: exit status {status} of the last run: "
                f"{(self.folder / 'log').read_text()[-300:]}"
            )
        elif self.content() != content:
            which = "weights" if self.content()[0] != content[0] else "facts of training"
            self.mistake(f"{tagger}: other {which} than the uninterrupted run")
        left = [path.name for path in self.folder.iterdir() if "model." in path.name]
        if left and status == 0:
            self.mistake(f"{tagger}: left {', '.join(left)}")
        for path in self.folder.iterdir():
            if "model" in path.name:
                path.unlink()
        return hits

    def kills(self, n, taggers=tuple(TAGGERS), told=lambda line: None):
        """Kill until n signals have reached running processes, in turn over all taggers."""
        done = 0
        while done < n:
            for tagger in self.random.sample(taggers, len(taggers)):
                done += self.run(tagger, min(self.random.randint(1, 4), n - done))
                told(
                    f"{done} kills, {self.outcome.runs} runs, {len(self.outcome.mistakes)} "
                    f"mistakes: {tagger}"
                )
                if done >= n:
                    break
        return self.outcome
