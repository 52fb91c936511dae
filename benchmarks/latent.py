"""Latent CRFs on NP chunking (CoNLL-2000, words only) or Bio-NER (JNLPBA): decoders side by side,
and costs.

    python benchmarks/latent.py decoders [--task np|bioner] [--template NAME] [--iterations 100]
    [--seeds 0,1,2]
    python benchmarks/latent.py costs    [--task np|bioner]

`decoders` trains a CRF and, for each seed, a latent CRF, and decodes the test set with every
decoder: encoded data, one process, the fastest of three passes (of one, for more than 100 latent
paths).  `costs` gives seconds per iteration against states, order and threads, and the peak of
memory so far.
"""

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from labelwright import CRF, LatentCRF, read_columns
from labelwright.corpus.table import Corpus
from labelwright.evaluate import evaluate

REPEATS = 3
DECODERS: list[dict[str, Any]] = [
    {"decoder": "viterbi", "probabilities": False},
    {"decoder": "exact"},
    {"decoder": "marginal"},
    {"decoder": "mbr"},
    {"decoder": "ldi", "n": 1},
    {"decoder": "ldi", "n": 10},
    {"decoder": "ldi", "n": 30},
    {"decoder": "ldi", "n": 100},
    {"decoder": "ldi", "n": 1000},
    {"decoder": "ldi", "n": 10_000},
]
SETTINGS: dict[str, dict[str, Any]] = {
    "np": {"template": "words-arcs", "n_latent": 5},
    "bioner": {"template": "bioner-2009", "n_latent": 4, "min_count": 15},
}


def corpora(task: str, folder: Path, columns: tuple[str, ...] = ("word",)) -> tuple[Corpus, Corpus]:
    """Training and test part; for NP chunking these columns alone, with every label but B-NP and
    I-NP mapped to O."""
    if task == "bioner":
        train, test = (
            read_columns(folder / "jnlpba" / f"{part}.txt") for part in ("train", "test")
        )
        return train, test
    parts = []
    for part in ("train", "test"):
        corpus = read_columns(folder / "conll2000" / f"{part}.txt")
        sentences = zip(*map(corpus.column, columns), strict=True)
        rows = [list(zip(*sentence, strict=True)) for sentence in sentences]
        labels = [[y if y in ("B-NP", "I-NP") else "O" for y in sentence] for sentence in corpus.y]
        parts.append(Corpus.from_sequences(rows, labels))
    return parts[0], parts[1]


def per_iteration(model: Any) -> float:
    """Seconds of an iteration, the first few left out."""
    history = model.history_
    first = min(3, len(history) - 3)
    return float((history[-1]["seconds"] - history[first]["seconds"]) / (len(history) - 1 - first))


def show_training(model: Any, test: Corpus, console: Console) -> None:
    f1 = evaluate(test.y, model.predict(test)).f1
    record = model.training_
    cost = (
        f"{record['weights']:,} weights, {record['iterations']} iterations, "
        f"{record['seconds']:.1f} s"
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    console.print(
        f"{model!r}: {cost}, {per_iteration(model):.3f} s an iteration, peak {memory:,} MB, F1 "
        f"{100 * f1:.2f}"
    )


def decoders(model: LatentCRF, test: Corpus, quick: bool) -> Table:
    """Seconds, F1 and share of proven sentences of every decoder."""
    table = Table(
        "decoder",
        "seconds",
        "times viterbi",
        "F1",
        "proven",
        title="decoding the test set, encoded",
    )
    data, gold, base = model.encode(test), test.y, 0.0
    proofs: dict[str, list[Any]] = {}
    for options in DECODERS[:7] if quick else DECODERS:
        seconds = []
        for _ in range(1 if options.get("n", 0) > 100 else REPEATS):
            begun = time.perf_counter()
            found = model.decode(data, **options)
            seconds.append(time.perf_counter() - begun)
        name = " ".join(str(v) for v in options.values() if v is not False)
        proofs[name] = found
        base = base or min(seconds)
        f1 = evaluate(gold, [d.labels for d in found]).f1
        shares = f"{100 * sum(d.exact for d in found) / len(found):.2f} %"
        table.add_row(
            name, f"{min(seconds):.3f}", f"{min(seconds) / base:.2f}", f"{100 * f1:.2f}", shares
        )
    differ = 0
    for name, found in proofs.items():
        if name.startswith("ldi"):
            pairs = zip(found, proofs["exact"], strict=True)
            differ += sum(
                a.exact and abs(a.log_probability - b.log_probability) > 1e-9 for a, b in pairs
            )
    table.caption = f"sentences that LDI proves and `exact` answers otherwise: {differ}"
    return table


def costs(task: str, train: Corpus) -> Table:
    """Seconds per iteration against latent states, order and threads."""
    settings = {
        "np": {"template": "words"},
        "bioner": {"template": "bioner-2009", "min_count": 15},
    }[task]
    title = f"one iteration, {task}, features on states ({settings['template']})"
    table = Table(
        "order",
        "latent",
        "states",
        "nodes",
        "arcs",
        "1 thread",
        "2 threads",
        "peak MB",
        title=title,
    )
    cases = {
        "np": [(1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (2, 8)],
        "bioner": [(1, 1), (1, 4), (2, 4)],
    }
    for order, latent in cases[task]:
        seconds = []
        for threads in (1, 2):
            words = {
                "max_iter": 6 if order == 1 else 4,
                "tol": 0.0,
                "random_state": 0,
                "order": order,
                "n_jobs": threads,
            }
            model = LatentCRF(n_latent=latent, **settings, **words).fit(train)
            seconds.append(f"{per_iteration(model):.3f}")
        graph = model._space.graph
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        shape = [order, latent, graph.n_states, graph.n_nodes, graph.n_arcs]
        table.add_row(*(f"{n:,}" for n in shape), *seconds, f"{memory:,}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["decoders", "costs"])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--task", choices=sorted(SETTINGS), default="np")
    parser.add_argument("--template")
    parser.add_argument("--cells", default="observed")
    parser.add_argument("--order", type=int, default=1)
    parser.add_argument("--optimizer", default="lbfgs")
    parser.add_argument("--averaging", default="none")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--l2", type=float, default=1.0, help="of the CRF")
    parser.add_argument("--latent-l2", type=float, help="of the latent CRF")
    parser.add_argument("--start", choices=["random", "crf"], default="random")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--quick", action="store_true", help="without the long LDI runs")
    options = parser.parse_args()
    if options.corpora is None:
        print("latent.py: name the corpora with --corpora or LABELWRIGHT_CORPORA", file=sys.stderr)
        return 2
    console = Console(width=140)
    train, test = corpora(options.task, Path(options.corpora))
    if options.what == "costs":
        console.print(costs(options.task, train))
        return 0
    settings: dict[str, Any] = SETTINGS[options.task] | {
        "max_iter": options.iterations,
        "optimizer": options.optimizer,
        "averaging": options.averaging,
        "cells": options.cells,
        "order": options.order,
        "tol": 0.0,
    }
    settings |= {"template": options.template} if options.template else {}
    latent_states = settings.pop("n_latent")
    plain = CRF(l2=options.l2, **settings).fit(train)
    show_training(plain, test, console)
    l2 = options.l2 if options.latent_l2 is None else options.latent_l2
    for seed in options.seeds.split(","):
        latent = LatentCRF(n_latent=latent_states, l2=l2, random_state=int(seed), **settings)
        latent.fit(train, init=plain if options.start == "crf" else None)
        show_training(latent, test, console)
        console.print(decoders(latent, test, options.quick))
    return 0


if __name__ == "__main__":
    sys.exit(main())
