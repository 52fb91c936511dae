"""Perceptrons: speed beside CRFsuite's, the synthetic data, NP chunking and Bio-NER of Sun et al.
(2009).

    python benchmarks/perceptron.py speed
        seconds per pass, CRFsuite in the same run
    python benchmarks/perceptron.py synthetic [--seeds 0,1,2] [--plot figure3.png]
    python benchmarks/perceptron.py train --task np|bioner [--order 2] [--averaging mavg]
                                          [--margin auto] [--seeds 0,1]
    python benchmarks/perceptron.py batches
        mini-batches beside the sequential perceptron: seconds, accuracy
    python benchmarks/perceptron.py stability
        F1 over 200 passes after the plateau, avg and mavg

`speed` needs python-crfsuite (the extra `bench`), `--plot` matplotlib; all but `synthetic` need the
corpora.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from labelwright import CRF, LatentCRF, LatentPerceptron, Perceptron, read_columns
from labelwright.corpus import synthetic_hmm
from labelwright.evaluate import evaluate
from labelwright.taggers.true_model import bayes_ceiling
from latent import corpora
from measure import ask

COLUMNS = ("word", "pos")
SYMBOLS = "U:%x[0,0]\nB"  # the features of section 4: the symbol, and the label before
TASKS: dict[str, dict[int, dict[str, Any]]] = {
    "np": {
        1: {"template": "np-arcs", "n_latent": 5, "max_iter": 12},
        2: {"template": "np-triples", "n_latent": 5, "max_iter": 12, "order": 2},
    },
    "bioner": {
        1: {"template": "bioner-arcs", "n_latent": 4, "max_iter": 5, "min_count": 2},
        2: {
            "template": "bioner-triples", "n_latent": 4, "max_iter": 6, "min_count": 2, "order": 2,
            "constraints": "scheme",
        },
    },
}  # fmt: skip


def per_pass(model: Any) -> float:
    """Seconds of a pass, the first one left out: kernels may be compiled in it."""
    return median(b["seconds"] - a["seconds"] for a, b in pairwise(model.history_))


def speed(folder: Path, console: Console) -> None:
    """A pass over CoNLL-2000 beside CRFsuite's, then against the number of states and the order."""
    path = folder / "conll2000" / "train.txt"
    with tempfile.TemporaryDirectory() as place:
        job = {"train": path, "template": "chunking", "iterations": 11, "model": f"{place}/ap"}
        rival = median(ask("crfsuite_side", "perceptron", **job)["passes"])
    ours = per_pass(
        Perceptron(template="chunking", max_iter=11, random_state=0).fit(read_columns(path))
    )
    console.print(
        f"a pass over CoNLL-2000, `chunking`, order 1, median of ten: labelwright {ours:.3f} s, "
        f"CRFsuite (ap) {rival:.3f} s: {rival / ours:.2f} times as fast"
    )
    train, _ = corpora("np", folder, COLUMNS)
    title = "NP chunking, features of table 3 on states, pairs and (order 2) triples"
    table = Table("order", "latent", "states", "weights", "seconds per pass", title=title)
    for order, latent in [(1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4)]:
        template = TASKS["np"][order]["template"]
        model = LatentPerceptron(
            n_latent=latent, template=template, order=order, max_iter=4, random_state=0
        ).fit(train)
        shape = [order, latent, model._space.n_states, len(model.weights_)]
        table.add_row(*(f"{n:,}" for n in shape), f"{per_pass(model):.3f}")
    console.print(table)


def batches(folder: Path, console: Console) -> None:
    """Mini-batches beside the sequential perceptron: CoNLL-2000, then letters to phonemes with
    latent states."""
    train, test = (read_columns(folder / "conll2000" / f"{part}.txt") for part in ("train", "test"))
    words, unseen = (
        read_columns(folder / "cmudict_aligned" / f"{part}.txt.xz") for part in ("train", "dev")
    )
    table = Table(
        "task",
        "states",
        "batch",
        "threads",
        "seconds per pass",
        "F1 or accuracy",
        title="mini-batches",
    )
    for batch, threads in ((1, 1), (8, 1), (8, 2), (32, 2)):
        own: dict[str, Any] = {"batch_size": batch, "n_jobs": threads, "random_state": 0}
        model: Any = Perceptron(template="chunking", max_iter=11, **own).fit(train)
        score = evaluate(test.y, model.predict(test)).f1
        table.add_row(
            "chunks", str(model._space.n_states), str(batch), str(threads), *_measured(model, score)
        )
    X, y = words.X[:20_000], words.y[:20_000]
    for batch, threads in ((1, 1), (8, 1), (8, 2), (32, 2)):
        own = {"batch_size": batch, "n_jobs": threads, "random_state": 0}
        model = LatentPerceptron(2, template="letters", max_iter=5, start="random", **own).fit(X, y)
        score = model.score(unseen)
        table.add_row(
            "phonemes",
            str(model._space.n_states),
            str(batch),
            str(threads),
            *_measured(model, score),
        )
    console.print(table)


def _measured(model: Any, score: float) -> tuple[str, str]:
    return f"{per_pass(model):.3f}", f"{100 * score:.2f}"


def synthetic(seeds: list[int], plot: str | None, console: Console) -> None:
    """Section 4: accuracy against the Bayes ceiling, shares of separable sequences, and the curve
    over P."""
    models = {
        "CRF": lambda seed: CRF(template=SYMBOLS),
        "perceptron": lambda seed: Perceptron(template=SYMBOLS, random_state=seed),
        "latent CRF 2": lambda seed: LatentCRF(2, template=SYMBOLS, random_state=seed),
        "latent CRF 4": lambda seed: LatentCRF(4, template=SYMBOLS, random_state=seed),
        "latent perc. 2": lambda seed: LatentPerceptron(2, template=SYMBOLS, random_state=seed),
        "latent perc. 4": lambda seed: LatentPerceptron(4, template=SYMBOLS, random_state=seed),
    }
    for p in (0.9, 0.95):
        title = (
            f"accuracy, constant symbols, P = {p}, 3,000 + 1,000 sequences of 10 (perceptrons: "
            "1,000 dev)"
        )
        table = Table("seed", "ceiling", *models, "separable: perceptron", "latent 2", title=title)
        for seed in seeds:
            train, test, dev = (
                synthetic_hmm(n, 10, p, None, seed=1000 * i + seed)
                for i, n in enumerate((3000, 1000, 1000))
            )
            row = [str(seed), f"{100 * bayes_ceiling(test, p, None):.2f}"]
            separable = {}
            for name, make in models.items():
                model: Any = make(seed)
                model.fit(train, **({} if model._probabilistic else {"dev": dev}))
                row.append(f"{100 * model.score(test):.2f}")
                if not model._probabilistic:
                    separable[name] = f"{100 * model.training_['convergence']['separable']:.1f} %"
            table.add_row(*row, separable["perceptron"], separable["latent perc. 2"])
        console.print(table)
    if plot:
        draw(plot)


def draw(target: str) -> None:
    """Figure 3: accuracy against P, with weak symbols, and the Bayes ceiling."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    strengths = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0]
    curves: dict[str, list[float]] = {}
    for p in strengths:
        train, test, dev = (
            synthetic_hmm(n, 10, p, 0.1, seed=i) for i, n in enumerate((3000, 1000, 1000))
        )
        curves.setdefault("Bayes ceiling", []).append(bayes_ceiling(test, p, 0.1))
        for name, model, words in (
            (
                "latent perceptron",
                LatentPerceptron(2, template=SYMBOLS, random_state=0),
                {"dev": dev},
            ),
            ("latent CRF", LatentCRF(2, template=SYMBOLS, random_state=0), {}),
            ("CRF", CRF(template=SYMBOLS), {}),
            ("perceptron", Perceptron(template=SYMBOLS, random_state=0), {"dev": dev}),
        ):
            curves.setdefault(name, []).append(model.fit(train, **words).score(test))
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = {"Bayes ceiling": {"color": "0.6", "linewidth": 5}, "latent CRF": {"linestyle": "--"}}
    for name, curve in curves.items():
        axes.plot(strengths, curve, marker="o", markersize=3.5, label=name, **styles.get(name, {}))
    axes.set_xlabel("P: probability of the next state of the cycle")
    axes.set_ylabel("label accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(target, dpi=150)


def train_and_test(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """F1 on the test part, seconds and mistakes, for every seed."""
    train, test = corpora(options.task, folder, COLUMNS)
    words: dict[str, Any] = dict(TASKS[options.task][options.order])
    words |= {"averaging": options.averaging, "reset_every": options.reset_every}
    words |= {"margin": options.margin if options.margin == "auto" else float(options.margin)}
    words |= {"max_iter": options.iterations} if options.iterations else {}
    words |= {"n_latent": options.latent} if options.latent else {}
    words |= {"cells": options.cells, "start": options.start}
    latent = words.pop("n_latent")
    for seed in map(int, options.seeds.split(",")):
        begun = time.perf_counter()
        kind = LatentPerceptron if latent > 1 else Perceptron
        own = {"n_latent": latent, "random_state": seed, **words}
        model: Any = kind(
            **{name: value for name, value in own.items() if name in kind._parameter_names()}
        )
        model.fit(train)
        seconds = time.perf_counter() - begun
        f1 = evaluate(test.y, model.predict(test)).f1
        seen = model.training_["convergence"]["separable"]
        console.print(
            f"{options.task} {model!r}: F1 {100 * f1:.2f}, {seconds:.0f} s in all, "
            f"{per_pass(model):.2f} s a pass, {model.history_[-1]['mistakes']:,} mistakes in the "
            f"last pass, {100 * seen:.2f} % separable"
        )


def stability(folder: Path, console: Console) -> None:
    """How much F1 on held-out training data moves from pass 30 to pass 230 (order 1, table 3's
    features)."""
    train, _ = corpora("np", folder, COLUMNS)
    X, y = train.X, train.y
    for averaging, margin in (("avg", 0.0), ("mavg", 0.0), ("avg", "auto"), ("mavg", "auto")):
        settings = {"averaging": averaging, "margin": margin, "all_passes": True}
        model = LatentPerceptron(5, template="np-arcs", max_iter=230, random_state=0, **settings)
        model.fit(X[:8000], y[:8000], dev=(X[8000:], y[8000:]))
        scores = [100 * record["dev"] for record in model.history_[29:]]
        console.print(
            f"{averaging}, margin {margin}: F1 from pass 30 to {len(model.history_)} between "
            f"{min(scores):.2f} and {max(scores):.2f}, at the end {scores[-1]:.2f} "
            f"({model.training_['stopped']})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["speed", "batches", "synthetic", "train", "stability"])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--task", choices=sorted(TASKS), default="np")
    parser.add_argument("--order", type=int, choices=[1, 2], default=2)
    parser.add_argument("--latent", type=int, help="states per label; 1: Perceptron")
    parser.add_argument("--averaging", default="mavg")
    parser.add_argument("--reset-every", type=int, default=4)
    parser.add_argument("--margin", default="auto")
    parser.add_argument("--cells", default="observed")
    parser.add_argument("--start", default="auto")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--plot", metavar="FILE.png", help="synthetic: draw figure 3")
    options = parser.parse_args()
    console = Console(width=160)
    if options.what == "synthetic":
        synthetic([int(seed) for seed in options.seeds.split(",")], options.plot, console)
        return 0
    if options.corpora is None:
        print(
            "perceptron.py: name the corpora with --corpora or LABELWRIGHT_CORPORA", file=sys.stderr
        )
        return 2
    folder = Path(options.corpora)
    if options.what == "speed":
        speed(folder, console)
    elif options.what == "batches":
        batches(folder, console)
    elif options.what == "train":
        train_and_test(options, folder, console)
    else:
        stability(folder, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
