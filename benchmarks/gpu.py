"""Training on a GPU, beside the CPU in the same run: seconds of every phase, losses, and labels
that differ.

    python benchmarks/gpu.py CORPORA --device cuda
    python benchmarks/gpu.py CORPORA --part conll2000 --part check --cpu none
    python benchmarks/gpu.py CORPORA --device torch --tokens 20000      # a small try without a GPU

CRFsuite needs 788 s to its optimum on CoNLL-2000, 1.0 s an iteration, on two ARM cores
(docs/benchmarks.md)."""

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from labelwright import CRF, LatentCRF, read_columns
from labelwright.corpus import Corpus
from labelwright.parallel import Workers

FEW = 10  # iterations of both where the CPU is not trained to the end


class Part(NamedTuple):
    """A row of the table."""

    corpus: str
    model: Any
    labels: Any = None  # a function of labels
    glued: int = 0  # tokens of one long sentence


PARTS = {
    "conll2000": Part("conll2000", CRF(template="chunking", tol=1e-6)),
    "long": Part("conll2000", CRF(template="chunking", tol=1e-6), glued=1200),
    "conll2003": Part(
        "conll2003", LatentCRF(n_latent=4, template="ner", l2=0.3, max_iter=150, random_state=0)
    ),
    "np": Part(
        "conll2000",
        LatentCRF(
            5, template="words-arcs", l2=1.0, share=False, tol=0.0, max_iter=300, random_state=0
        ),
        lambda label: label if label.endswith("-NP") else "O",
    ),
    "bioner": Part(
        "jnlpba",
        LatentCRF(
            4,
            template="bioner-arcs",
            min_count=15,
            l2=1.0,
            share=False,
            tol=0.0,
            max_iter=300,
            random_state=0,
        ),
    ),
    "order2": Part("conll2000", CRF(template="chunking", order=2, tol=1e-5)),
    "amalgum": Part("amalgum", CRF(template="pos", tol=1e-5)),
}


class Laps(dict[str, float]):
    """Seconds by phase, printed as they pass."""

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self[phase] = time.perf_counter() - begun
        say(f"    {phase:<28} {self[phase]:9.3f} s")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def read(folder: Path, part: Part, name: str, tokens: int | None) -> Corpus:
    """A file of a corpus, or the first of its tokens."""
    path = next(folder.joinpath(part.corpus).glob(f"{name}.txt*"))
    corpus = read_columns(path)
    if tokens is not None:
        corpus = corpus.take(range(int(np.searchsorted(corpus.offsets, tokens))))
    X, y = [list(s) for s in corpus.X], [list(s) for s in corpus.y]
    if part.labels is not None:
        y = [[part.labels(label) for label in labels] for labels in y]
    if part.glued and name == "train":
        n = int(np.searchsorted(corpus.offsets, part.glued))
        X, y = ([[each for s in x[:n] for each in s], *x[n:]] for x in (X, y))
    return corpus if part.labels is None and not part.glued else Corpus.from_sequences(X, y)


def seconds_of(problem: Any, weights: Any, gradient: Any, times: int) -> float:
    """The median time of an evaluation, the first one left out."""
    taken = []
    for _ in range(times + 1):
        begun = time.perf_counter()
        problem(weights, gradient)
        taken.append(time.perf_counter() - begun)
    return median(taken[1:])


def measure(
    name: str, folder: Path, device: str, cpu: str, tokens: int | None, profile: bool = False
) -> dict[str, Any]:
    """One row: the device, then the CPU."""
    part, laps, row = PARTS[name], Laps(), {"part": name}
    with laps.of("read"):
        train = read(folder, part, "train", tokens)
    with laps.of("encode"):
        data, trained = part.model._prepare(train, None)
    row |= {
        "tokens": int(data.offsets[-1]),
        "states": trained.space.n_states,
        "weights": len(trained.weights),
    }
    start = part.model._begun(trained, 0, split=False)
    say(f"    {row}")
    losses, gradients = [], []
    for where in [device] if cpu == "none" else [device, "cpu"]:
        model = type(part.model)(**part.model.get_params() | {"device": where})
        with laps.of(f"lay out, record ({where})"):
            problem = model._learner(model).problem(trained, data, Workers(None))
        vectors = getattr(problem, "vectors", None)
        weights, gradient = (
            x if vectors is None else vectors.of(x) for x in (start.weights, start.weights.copy())
        )
        losses.append(problem(weights, gradient))
        gradients.append(gradient if vectors is None else vectors.numpy(gradient))
        row[f"evaluation {where}"] = seconds_of(
            problem, weights, gradient, 20 if where == device else 2
        )
        say(
            f"    one evaluation ({where})     {1000 * row[f'evaluation {where}']:9.2f} ms, loss "
            f"{losses[-1]:.4f}"
        )
        if vectors is not None and device.startswith("cuda"):
            import torch

            taken = torch.cuda.max_memory_reserved() / 1e9
            say(
                f"    memory                    {taken:9.2f} GB at most so far, shards: "
                f"{len(problem.shards)}"
            )
            if profile:
                with torch.profiler.profile() as seen:
                    for _ in range(5):
                        problem(weights, gradient)
                say(
                    seen.key_averages().table(
                        sort_by="cuda_time_total", row_limit=25, max_name_column_width=60
                    )
                )
        del problem
    if len(losses) == 2:
        loss_apart = abs(losses[0] / losses[1] - 1)
        gradient_apart = np.abs(gradients[0] - gradients[1]).max() / np.abs(gradients[1]).max()
        say(f"    relative differences: loss {loss_apart:.1e}, gradient {gradient_apart:.1e}")
    models, limit = (
        {},
        None if cpu == "full" or (cpu == "auto" and name in ("conll2000", "long")) else FEW,
    )
    runs = [(device, None)]
    if cpu != "none":
        runs += [(device, limit), ("cpu", limit)] if limit else [("cpu", None)]
    for where, most in runs:
        model = type(part.model)(**part.model.get_params() | {"device": where})
        if most is not None:
            model.set_params(max_iter=most)
        with laps.of(f"fit ({where}{'' if most is None else f', {most} iterations'})"):
            model.fit(train)
        record = model.training_
        told = (
            f"{record['iterations']} iterations, loss {record['loss']:.4f}, {record['seconds']} s"
        )
        say(f"      {told}, {record['stopped']}")
        models[where] = model
        row[f"loss {where}"], row[f"iterations {where}"] = record["loss"], record["iterations"]
        if most is None:
            row[f"fit {where}"] = laps["read"] + laps[f"fit ({where})"]
            row[f"training {where}"] = record["seconds"]
    if len(models) == 2:
        test = read(folder, part, "test", 20000 if tokens is None else tokens)
        one, two = (model.predict(test) for model in models.values())
        same = [a == b for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True)]
        row["labels equal"] = sum(same) / len(same)
        say(f"    labels equal: {100 * row['labels equal']:.3f} %; loss "
            f"{models[device].training_['loss']:.4f} and "
            f"{models['cpu'].training_['loss']:.4f}")  # fmt: skip
    return row


TEMPLATE = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nUbias\nB"
ON_PAIRS = TEMPLATE + "\n*2:%x[1,0]"
ON_TRIPLES = ON_PAIRS + "\nT1:%x[0,0]"
RANDOM = {
    "states": CRF(template=TEMPLATE),
    "pairs": CRF(template=ON_PAIRS),
    "pairs, constrained": CRF(template=ON_PAIRS, cells="all", constraints="iob2"),
    "costs": CRF(template=TEMPLATE, class_weight="balanced"),
    "latent": LatentCRF(3, template=TEMPLATE),
    "latent pairs": LatentCRF(2, template=ON_PAIRS),
    "order 2": CRF(template=TEMPLATE, order=2),
    "triples": CRF(template=ON_TRIPLES, order=2),
    "latent triples": LatentCRF(2, template=ON_TRIPLES, order=2),
}


def random_sentences(rng: Any) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of up to 300 tokens, with IOB2 labels."""
    X = [[f"w{i}" for i in rng.integers(0, 30, n)] for n in [300, *rng.integers(1, 40, 300)]]
    y = []
    for sentence in X:
        labels = ["O"]
        for _ in sentence:
            labels.append(
                str(rng.choice(["O", "B-X"] if labels[-1] == "O" else ["O", "B-X", "I-X"]))
            )
        y.append(labels[1:])
    return X, y


def check(device: str) -> None:
    """Loss and gradient of random models against the CPU's in float64, and the same bits three
    times; with long sentences as they are, and in blocks."""
    from labelwright.device import layout
    from labelwright.device.likelihood import Place, TorchLikelihood

    rng, before, worst = np.random.default_rng(0), (layout.LONG, layout.BLOCK), 0.0
    for name, model in RANDOM.items():
        data, trained = model._prepare(*random_sentences(rng))
        exact = model._structure.objective(trained, data, Workers(None), np.float64)
        for layout.LONG, layout.BLOCK in ((1000, 64), (20, 8)):
            problem = TorchLikelihood(Place(device), trained, data)
            for scale in (0.5, 5.0, 100.0):
                weights, gradient = (
                    (scale * rng.normal(size=len(trained.weights))).astype(np.float32),
                    [],
                )
                true_gradient = np.empty(len(weights))
                true_loss, losses = exact(weights.astype(np.float64), true_gradient), []
                for _ in range(3):
                    out = problem.vectors.of(np.zeros_like(weights))
                    losses.append(problem(problem.vectors.of(weights), out))
                    gradient.append(problem.vectors.numpy(out))
                off = np.abs(gradient[0] - true_gradient).max() / max(
                    1, np.abs(true_gradient).max()
                )
                wrong = abs(losses[0] / true_loss - 1), float(off)
                same = len(set(losses)) == 1 and all(
                    each.tobytes() == gradient[0].tobytes() for each in gradient
                )
                worst, failed = max(worst, *wrong), int((problem.failed > 0).sum())
                where = f"{name}, blocks from {layout.LONG}, weights {scale:g}"
                told = (
                    f"loss {wrong[0]:.1e}, gradient {wrong[1]:.1e}, same bits: {same}, by the CPU: "
                    f"{failed}"
                )
                say(f"  {where:<50} {told}")
    layout.LONG, layout.BLOCK = before
    say(f"worst: {worst:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--part", action="append", choices=["check", *PARTS], help="all, unless some are named"
    )
    parser.add_argument(
        "--cpu",
        default="auto",
        choices=["auto", "full", "none"],
        help="auto: to the end where it is quick",
    )
    parser.add_argument("--tokens", type=int, help="no more training tokens than these")
    parser.add_argument("--profile", action="store_true", help="time by kernel of the GPU")
    parser.add_argument(
        "--set", action="append", default=[], metavar="layout.LONG=64", help="another constant"
    )
    o = parser.parse_args()
    for text in o.set:
        place, _, value = text.partition("=")
        module, _, constant = place.partition(".")
        setattr(importlib.import_module(f"labelwright.device.{module}"), constant, int(value))
    rows = []
    for part in o.part or ["check", *PARTS]:
        say(part)
        if part == "check":
            check(o.device)
        else:
            rows.append(measure(part, o.corpora, o.device, o.cpu, o.tokens, o.profile))
    if rows:
        say(table(rows, o.device))


def table(rows: list[dict[str, Any]], device: str) -> str:
    """What was measured, as Markdown."""
    lines = [
        f"| | tokens | weights | evaluation, {device} | CPU | file to model, {device} (training) | "
        "CPU | loss, ratio less 1 | labels equal |",
        "| --- " + "| ---: " * 8 + "|",
    ]
    for row in rows:
        told = [
            f"{1000 * row[f'evaluation {where}']:,.1f} ms" if f"evaluation {where}" in row else ""
            for where in (device, "cpu")
        ]
        told += [f"{row[f'fit {device}']:,.1f} s ({row[f'training {device}']:,.1f} s)"]
        told += [f"{row['fit cpu']:,.0f} s" if "fit cpu" in row else ""]
        told += [f"{row[f'loss {device}'] / row['loss cpu'] - 1:.1e}" if "loss cpu" in row else ""]
        told += [f"{100 * row['labels equal']:.2f} %" if "labels equal" in row else ""]
        lines.append(
            f"| {row['part']} | {row['tokens']:,} | {row['weights']:,} | {' | '.join(told)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
