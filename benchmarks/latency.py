"""How long one sentence takes, how many tokens a second, and the first answer of a fresh process.

    python benchmarks/latency.py train --corpora DIR --models DIR
        models of all kinds, once
    python benchmarks/latency.py --corpora DIR --models DIR
        the table

Taggers read words and tags of CoNLL-2000 through the template `chunking` (the cascade reads words
alone); CRFsuite is given feature dicts, ready made, as is the CRF in the row `dicts`.  A sentence
has 25 words; its time is the least of several runs, and the table has the mean over the sentences.
Each cell is measured in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compat import features

KINDS = ("crf", "dicts", "perceptron", "latent-crf", "semi-crf", "memory", "cascade")
TOKENS = 20_000  # for tokens a second
COLD = """
import labelwright
model = labelwright.load({path!r})
model.predict([[("He", "PRP"), ("reckons", "VBZ"), ("the", "DT"), ("deficit", "NN")]])
"""
COLD_CRFSUITE = """
import pycrfsuite
tagger = pycrfsuite.Tagger()
tagger.open({path!r})
tagger.tag([{{"w": "He"}}, {{"w": "reckons"}}])
"""


def as_dicts(sentences: list[Any]) -> list[Any]:
    return [[features(words, t) for t in range(len(words))] for words in sentences]


def train(options: argparse.Namespace) -> None:
    import pycrfsuite

    from labelwright import CRF, Cascade, LatentCRF, MemoryTagger, Perceptron, SemiCRF, read_columns

    corpus = read_columns(options.corpora / "conll2000" / "train.txt", names="word,pos,chunk")
    words = [
        ("pos", CRF("multilayer", max_iter=30)),
        ("chunk", CRF("multilayer-above", max_iter=30)),
    ]
    models: dict[str, Any] = {
        "crf": CRF("chunking", max_iter=30),
        "perceptron": Perceptron("chunking", max_iter=5),
        "latent-crf": LatentCRF(2, "chunking", max_iter=15),
        "semi-crf": SemiCRF(template="chunking", max_iter=10),
        "memory": MemoryTagger(),
        "cascade": Cascade(words, "best"),
    }
    options.models.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        model.fit(corpus).save(options.models / name)
    X = as_dicts(corpus.X)
    CRF(max_iter=30).fit(X, corpus.y).save(options.models / "dicts")
    trainer = pycrfsuite.Trainer("lbfgs", {"max_iterations": 30, "c2": 0.5}, verbose=False)
    for sentence, labels in zip(X, corpus.y, strict=True):
        trainer.append(sentence, labels)
    trainer.train(str(options.models / "crfsuite"))


def measure(options: argparse.Namespace) -> None:
    """Print milliseconds a sentence and tokens a second of one model in this process."""
    from labelwright import load, read_columns

    corpus = read_columns(options.corpora / "conll2000" / "test.txt", names="word,pos,chunk")
    X = corpus.column("word") if options.kind == "cascade" else corpus.X
    if options.kind in ("crfsuite", "dicts"):
        X = as_dicts(X)
    if options.kind == "crfsuite":
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(str(options.models / "crfsuite"))
        ask, ask_all = tagger.tag, lambda sentences: [tagger.tag(s) for s in sentences]
    else:
        model = load(options.models / options.kind)
        model.n_jobs = 1
        ask, ask_all = (lambda sentence: model.predict([sentence])), model.predict
    some = [sentence for sentence in X if len(sentence) == 25][: options.sentences]
    least = [float("inf")] * len(some)
    for _ in range(options.repeats):
        for i, sentence in enumerate(some):
            begun = time.perf_counter()
            ask(sentence)
            least[i] = min(least[i], time.perf_counter() - begun)
    n, part = 0, []
    while n < (TOKENS if options.kind not in ("memory", "semi-crf") else TOKENS // 10):
        part.append(X[len(part)])
        n += len(part[-1])
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        ask_all(part)
        seconds.append(time.perf_counter() - begun)
    print(f"{1000 * sum(least) / len(least):.3f} {n / min(seconds):.0f}")


def fresh(program: str, repeats: int = 5) -> float:
    """The least seconds of a fresh process from its start to its end; bytecode is there, as where
    pip has installed."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = []
    with tempfile.TemporaryDirectory() as bytecode:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for _ in range(repeats + 1):  # the first one writes it
            begun = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", program], env=environment, check=True, capture_output=True
            )
            seconds.append(time.perf_counter() - begun)
    return min(seconds[1:])


def table(options: argparse.Namespace) -> None:
    folders = ["--corpora", options.corpora, "--models", options.models]
    limits = ["--sentences", options.sentences, "--repeats", options.repeats]
    print(f"{'':24} {'ms a sentence':>14} {'tokens/s':>10}")
    for kind in (*KINDS, "crfsuite"):
        command = [sys.executable, __file__, "measure", "--kind", kind, *folders, *limits]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"latency.py: {kind}: {done.stderr.strip().splitlines()[-1]}")
        milliseconds, speed = done.stdout.split()
        print(f"{kind:24} {milliseconds:>14} {int(speed):>10,}")
    print("first answer of a fresh process, seconds")
    print(f"{'crf':24} {fresh(COLD.format(path=str(options.models / 'crf'))):>14.2f}")
    crfsuite = fresh(COLD_CRFSUITE.format(path=str(options.models / "crfsuite")))
    print(f"{'crfsuite':24} {crfsuite:>14.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "task",
        nargs="?",
        default="table",
        choices=("table", "train", "measure"),
    )
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--kind", choices=(*KINDS, "crfsuite"))
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=6)
    options = parser.parse_args()
    tasks = {
        "table": table,
        "train": train,
        "measure": measure,
    }
    tasks[options.task](options)


if __name__ == "__main__":
    main()
