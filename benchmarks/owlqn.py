"""OWL-QN beside CRFsuite: the tutorial of sklearn-crfsuite, its features and its settings (c1 = c2
= 0.1).

    python benchmarks/owlqn.py [--corpora DIR] [--sentences 4000] [--figure FILE.png] [CORPUS ...]
    python benchmarks/owlqn.py --sentences 0 conll2002_ned
        the tutorial's program on all sentences (0)

Each run has a process of its own, and the two take turns.  The program is the same for both:
labelwright stands in for sklearn_crfsuite by `labelwright.compat.replace()`.  Its kernels are
loaded before the clock starts; `kernels` says how long that takes.  Seconds are wall-clock time,
and CPU time of all threads behind the stroke.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from measure import Job, Laps, ask, serve

CORPORA = ["conll2003", "conll2002_ned", "jnlpba", "conll2000"]
SETTINGS = {
    "algorithm": "lbfgs",
    "c1": 0.1,
    "c2": 0.1,
    "max_iterations": 100,
    "all_possible_transitions": True,
}
SEEN = 25, 50, 100, 200  # iterations
SIDES = {"labelwright": True, "CRFsuite": False}


def word2features(sent: list[list[str]], i: int) -> dict[str, Any]:
    """As in the tutorial."""
    word, postag = sent[i][0], sent[i][1]
    features: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": postag,
        "postag[:2]": postag[:2],
    }
    for shift, is_there, end in ((-1, i > 0, "BOS"), (+1, i < len(sent) - 1, "EOS")):
        if is_there:
            word, postag = sent[i + shift][0], sent[i + shift][1]
            features |= {
                f"{shift:+d}:word.lower()": word.lower(),
                f"{shift:+d}:word.istitle()": word.istitle(),
                f"{shift:+d}:word.isupper()": word.isupper(),
                f"{shift:+d}:postag": postag,
                f"{shift:+d}:postag[:2]": postag[:2],
            }
        else:
            features[end] = True
    return features


def read(path: Path, sentences: int) -> tuple[list[Any], list[list[str]]]:
    """The first sentences of a file (0: all) as feature dicts, and their labels."""
    blocks = [block for block in path.read_text("utf-8").split("\n\n") if block.strip()]
    sents = [
        [line.split() for line in block.strip("\n").split("\n")]
        for block in blocks[: sentences or None]
    ]
    return [[word2features(s, i) for i in range(len(s))] for s in sents], [
        [token[-1] for token in s] for s in sents
    ]


def clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def fit(laps: Laps, job: Job) -> Job:
    """Train and label the test data; the seconds of each step and the loss after each iteration."""
    folder = Path(job["corpora"], job["corpus"])
    X_train, y_train = read(folder / "train.txt", job["sentences"])
    X_test, y_test = read(folder / "test.txt", 0)
    if job["ours"]:
        import labelwright.compat

        labelwright.compat.replace()
    import pycrfsuite
    import sklearn_crfsuite
    from sklearn_crfsuite import metrics

    class Clocked(pycrfsuite.Trainer):  # type: ignore[misc,name-defined]
        """Notes when training begins and when each iteration ends."""

        def train(self, *arguments: Any, **options: Any) -> None:
            times.append(clock())
            super().train(*arguments, **options)

        def message(self, message: str) -> None:
            super().message(message)
            if message.startswith("Seconds required for this iteration"):
                times.append(clock())

    times: list[tuple[float, float]] = []
    settings = {**SETTINGS, "max_iterations": job["iterations"], "trainer_cls": Clocked}
    laps("read")
    if job["ours"]:
        sklearn_crfsuite.CRF(**settings | {"max_iterations": 2}).fit(X_train[:300], y_train[:300])
    laps("kernels")
    times.clear()
    begun = clock()
    crf = sklearn_crfsuite.CRF(**settings).fit(X_train, y_train)
    times.append(clock())
    y_pred = crf.predict(X_test)
    labels = [label for label in crf.classes_ if label != "O"]
    flat = metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels)
    from labelwright.evaluate import evaluate

    f1 = evaluate(y_test, [list(map(str, labels)) for labels in y_pred]).f1
    marks = {
        "encoding": (begun, times[0]),
        "training": (times[0], times[-1]),
        "total": (begun, times[-1]),
    }
    spans = {
        name: [end - start for start, end in zip(*mark, strict=True)]
        for name, mark in marks.items()
    }
    per_iteration = [
        (end - start) / (len(times) - 3) for start, end in zip(times[1], times[-2], strict=True)
    ]
    losses = [iteration["loss"] for iteration in crf.training_log_.iterations]
    return {
        "losses": losses,
        "spans": spans | {"iteration": per_iteration},
        "f1": 100 * f1,
        "flat": 100 * flat,
    }


def draw(curves: dict[str, dict[str, list[float]]], target: Path) -> None:
    """The loss against iterations, a panel for each corpus."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 2.3 * len(curves) / 2 + 1), layout="constrained")
    for number, (corpus, sides) in enumerate(curves.items(), start=1):
        axes = drawing.add_subplot((len(curves) + 1) // 2, 2, number, title=corpus, yscale="log")
        for side, losses in sides.items():
            axes.plot(range(1, len(losses) + 1), losses, label=side)
        axes.set_xlabel("iterations")
        axes.set_ylabel("loss")
        axes.legend(frameon=False)
    drawing.savefig(target, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", nargs="*", default=CORPORA)
    parser.add_argument(
        "--corpora", type=Path, default=Path(os.environ.get("LABELWRIGHT_CORPORA", "."))
    )
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument(
        "--figure", type=Path, help="where to draw the losses; adds runs of 200 iterations"
    )
    options = parser.parse_args()
    curves: dict[str, dict[str, list[float]]] = {}
    for corpus in options.corpus:
        job = {"corpora": options.corpora, "corpus": corpus, "sentences": options.sentences}
        for side, ours in SIDES.items():
            done = ask("owlqn", "fit", **job, ours=ours, iterations=SETTINGS["max_iterations"])
            spans = {name: f"{wall:.3f}/{cpu:.3f}" for name, (wall, cpu) in done["spans"].items()}
            print(
                f"{corpus:14}{side:12}{spans}  kernels {done['seconds']['kernels']:.2f}", end="  "
            )
            print(f"F1 {done['f1']:.2f}, as in the tutorial {done['flat']:.2f}", flush=True)
            if options.figure:
                losses = ask("owlqn", "fit", **job, ours=ours, iterations=SEEN[-1])["losses"]
                curves.setdefault(corpus, {})[side] = losses
                print(
                    "    loss",
                    *(f"{n}: {losses[min(n, len(losses)) - 1]:,.1f}" for n in SEEN),
                    flush=True,
                )
    if options.figure:
        draw(curves, options.figure)


if __name__ == "__main__":
    serve({"fit": fit}) if sys.argv[1:] and sys.argv[1].startswith("{") else main()
