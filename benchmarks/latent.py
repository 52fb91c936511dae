"""Latent CRFs on NP chunking (CoNLL-2000, words only): decoders side by side, and what an iteration costs.

    python benchmarks/latent.py [--corpora DIR] [--iterations 100] [--latent 5] [--template words-arcs] [--quick]

Every decoder runs on encoded data in one process, the fastest of three passes counts."""

import argparse
import os
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
    {"decoder": "ldi", "n": 30},
    {"decoder": "ldi", "n": 1000},
    {"decoder": "ldi", "n": 10_000},
    {"decoder": "mbr", "n": 10},
]


def np_chunks(path: Path) -> Corpus:
    """Words, with every label but B-NP and I-NP mapped to O."""
    corpus = read_columns(path)
    labels = [[y if y in ("B-NP", "I-NP") else "O" for y in sentence] for sentence in corpus.y]
    return Corpus.from_sequences(corpus.column("word"), labels)


def per_iteration(model: Any) -> float:
    """Seconds of an iteration, the first few left out."""
    history = model.history_
    return float((history[-1]["seconds"] - history[3]["seconds"]) / (len(history) - 4))


def decoders(model: LatentCRF, test: Corpus, quick: bool) -> Table:
    """Seconds, F1 and share of proven sentences of every decoder."""
    table = Table("decoder", "seconds", "times viterbi", "F1", "proven", title="decoding the test set, encoded")
    data, gold, base = model.encode(test), test.y, 0.0
    proofs: dict[str, list[Any]] = {}
    for options in DECODERS[:5] if quick else DECODERS:
        seconds = []
        for _ in range(1 if options.get("n", 0) > 100 else REPEATS):
            begun = time.perf_counter()
            found = model.decode(data, **options)
            seconds.append(time.perf_counter() - begun)
        name = " ".join(str(v) for v in options.values() if v is not False)
        proofs[name] = found
        base = base or min(seconds)
        f1 = evaluate(gold, [d.labels for d in found]).f1
        shares = f"{100 * sum(d.exact for d in found) / len(found):.1f} %"
        table.add_row(name, f"{min(seconds):.3f}", f"{min(seconds) / base:.2f}", f"{100 * f1:.2f}", shares)
    for name, found in proofs.items():
        if name.startswith("ldi"):
            pairs = zip(found, proofs["exact"], strict=True)
            differ = sum(a.exact and abs(a.log_probability - b.log_probability) > 1e-9 for a, b in pairs)
            table.caption = f"sentences that LDI proves and `exact` answers otherwise: {differ}"
    return table


def costs(train: Corpus, template: str) -> Table:
    """Seconds per iteration against latent states and threads."""
    table = Table(
        "latent states per label", "states", "1 thread", "2 threads", title=f"one iteration, template {template}"
    )
    for latent in (1, 2, 4, 8):
        settings = {"template": template, "max_iter": 12, "tol": 0.0, "random_state": 0}
        row = [per_iteration(LatentCRF(n_latent=latent, n_jobs=n, **settings).fit(train)) for n in (1, 2)]
        table.add_row(str(latent), str(3 * latent), *(f"{seconds:.3f}" for seconds in row))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--latent", type=int, default=5)
    parser.add_argument("--template", default="words-arcs")
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="without the long LDI runs and the table of costs")
    options = parser.parse_args()
    if options.corpora is None:
        print("latent.py: name the corpora with --corpora or LABELWRIGHT_CORPORA", file=sys.stderr)
        return 2
    console = Console()
    train, test = (np_chunks(options.corpora / "conll2000" / f"{part}.txt") for part in ("train", "test"))
    settings = {"template": options.template, "max_iter": options.iterations, "l2": options.l2, "tol": 1e-6}
    plain = CRF(**settings).fit(train)
    latent = LatentCRF(n_latent=options.latent, random_state=options.seed, **settings).fit(train)
    for model in (plain, latent):
        f1 = evaluate(test.y, model.predict(test)).f1
        seconds, weights = model.training_["seconds"], model.training_["weights"]
        cost = f"{weights:,} weights, {seconds:.1f} s, {per_iteration(model):.3f} s an iteration"
        console.print(f"{model!r}: {cost}, F1 {100 * f1:.2f}")
    console.print(decoders(latent, test, options.quick))
    if not options.quick:
        console.print(costs(train, "words"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
