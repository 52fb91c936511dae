"""Training on a GPU, beside the CPU in the same run: seconds of every phase, losses, and labels that differ.

    python benchmarks/gpu.py CORPORA --device cuda
    python benchmarks/gpu.py CORPORA --part conll2000 --part check --cpu none
    python benchmarks/gpu.py CORPORA --device torch --tokens 20000      # a small try without a GPU

CRFsuite needs 788 s to its optimum on CoNLL-2000, 1.0 s an iteration, on two ARM cores (docs/benchmarks.md)."""

import argparse
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
from labelwright.engine.choice import expect_much
from labelwright.learn.objective import LogLikelihood
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
    "conll2003": Part("conll2003", LatentCRF(n_latent=4, template="ner", l2=0.3, max_iter=150, random_state=0)),
    "np": Part(
        "conll2000",
        LatentCRF(n_latent=5, template="words-arcs", share=False, tol=0.0, max_iter=300, random_state=0),
        lambda label: label if label.endswith("-NP") else "O",
    ),
    "bioner": Part(
        "jnlpba", LatentCRF(n_latent=4, template="bioner-arcs", min_count=15, max_iter=80, random_state=0, share=False)
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
        X, y = [sum(X[:n], []), *X[n:]], [sum(y[:n], []), *y[n:]]
    return corpus if part.labels is None and not part.glued else Corpus.from_sequences(X, y)


def seconds_of(problem: Any, weights: Any, gradient: Any, times: int) -> float:
    """The median time of an evaluation, the first one left out."""
    taken = []
    for _ in range(times + 1):
        begun = time.perf_counter()
        problem(weights, gradient)
        taken.append(time.perf_counter() - begun)
    return median(taken[1:])


def measure(name: str, folder: Path, device: str, cpu: str, tokens: int | None) -> dict[str, Any]:
    """One row: the device, then the CPU."""
    part, laps, row = PARTS[name], Laps(), {"part": name}
    with laps.of("read"):
        train = read(folder, part, "train", tokens)
    with laps.of("encode"):
        expect_much()
        data, trained = part.model._prepare(train, None)
    row |= {"tokens": int(data.offsets[-1]), "states": trained.space.n_states, "weights": len(trained.weights)}
    start = part.model._begun(trained, 0, split=False)
    say(f"    {row}")
    losses, gradients = [], []
    for where in [device] if cpu == "none" else [device, "cpu"]:
        model = type(part.model)(**part.model.get_params() | {"device": where})
        with laps.of(f"lay out, record ({where})"):
            problem = model._learner(model).problem(trained, data, Workers(None))
        vectors = getattr(problem, "vectors", None)
        weights, gradient = (x if vectors is None else vectors.of(x) for x in (start.weights, start.weights.copy()))
        losses.append(problem(weights, gradient))
        gradients.append(gradient if vectors is None else vectors.numpy(gradient))
        row[f"evaluation {where}"] = seconds_of(problem, weights, gradient, 20 if where == device else 2)
        say(f"    one evaluation ({where})     {1000 * row[f'evaluation {where}']:9.2f} ms, loss {losses[-1]:.4f}")
        if vectors is not None and device.startswith("cuda"):
            import torch

            say(
                f"    memory                    {torch.cuda.max_memory_allocated() / 1e9:9.2f} GB, {len(problem.shards)} shard(s)"
            )
        del problem
    if len(losses) == 2:
        say(f"    relative differences: loss {abs(losses[0] / losses[1] - 1):.1e}, gradient "
            f"{np.abs(gradients[0] - gradients[1]).max() / np.abs(gradients[1]).max():.1e}")  # fmt: skip
    models, limit = {}, None if cpu == "full" or (cpu == "auto" and name in ("conll2000", "long")) else FEW
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
        say(
            f"      {record['iterations']} iterations, loss {record['loss']:.4f}, {record['seconds']} s, {record['stopped']}"
        )
        models[where] = model
        row[f"loss {where}"], row[f"iterations {where}"] = record["loss"], record["iterations"]
        if most is None:
            row[f"fit {where}"] = laps[f"fit ({where})"]
            row[f"training {where}"] = record["seconds"]
    if len(models) == 2:
        test = read(folder, part, "test", 20000 if tokens is None else tokens)
        one, two = (model.predict(test) for model in models.values())
        same = [a == b for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True)]
        row["labels equal"] = sum(same) / len(same)
        say(f"    labels equal: {100 * row['labels equal']:.3f} %; loss {models[device].training_['loss']:.4f} and "
            f"{models['cpu'].training_['loss']:.4f}")  # fmt: skip
    return row


def check(device: str) -> None:
    """Loss and gradient of random models against the CPU's in float64, and the same bits twice."""
    from labelwright.device import layout
    from labelwright.device.likelihood import on_device

    rng, before, worst = np.random.default_rng(0), (layout.LONG, layout.BLOCK), 0.0
    template = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nUbias\nB"
    on_pairs, on_triples = template + "\n*2:%x[1,0]", template + "\n*2:%x[1,0]\nT1:%x[0,0]"
    for made in (
        CRF(template=template), CRF(template=on_pairs), CRF(template=on_pairs, cells="all", constraints="iob2"),
        LatentCRF(3, template=template), LatentCRF(2, template=on_pairs), CRF(template=template, order=2),
        CRF(template=on_triples, order=2), LatentCRF(2, template=on_triples, order=2), CRF(template=template, class_weight="balanced"),
    ):  # fmt: skip
        X = [[f"w{i}" for i in rng.integers(0, 30, n)] for n in [300, *rng.integers(1, 40, 300)]]
        y = [
            ["B-X" if rng.random() < 0.4 else "I-X" if k and rng.random() < 0.5 else "O" for k in range(len(s))]
            for s in X
        ]
        y = [[a if a != "I-X" or (k and s[k - 1] != "O") else "O" for k, a in enumerate(s)] for s in y]
        data, trained = made._prepare(X, y)
        for layout.LONG, layout.BLOCK in ((1000, 64), (20, 8)):
            for scale in (0.5, 5.0, 100.0):
                w = (scale * rng.normal(size=len(trained.weights))).astype(np.float32)
                exact = LogLikelihood(
                    data.incidences, trained.extractor.n_features, data.offsets, data.gold, trained.space,
                    trained.parameters, Workers(None), np.float64, supervision=data.said,
                )  # fmt: skip
                gradient = np.empty(len(w))
                loss = exact(w.astype(np.float64), gradient)
                problem = on_device(device, trained, data)
                vectors = problem.vectors
                outs = []
                for _ in range(3):
                    out = vectors.of(np.zeros_like(w))
                    outs.append((problem(vectors.of(w), out), vectors.numpy(out)))
                wrong = abs(outs[0][0] / loss - 1), np.abs(outs[0][1] - gradient).max() / max(1, np.abs(gradient).max())
                twice = all(l == outs[0][0] and g.tobytes() == outs[0][1].tobytes() for l, g in outs[1:])
                worst, failed = max(worst, *wrong), int((problem.failed > 0).sum())
                told = f"  {type(made).__name__} order {made.order} LONG {layout.LONG} scale {scale:g}"
                say(f"{told}: loss {wrong[0]:.1e} gradient {wrong[1]:.1e} same bits {twice} in log space {failed}")
    layout.LONG, layout.BLOCK = before
    say(f"worst: {worst:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--part", action="append", choices=["check", *PARTS], help="all, unless some are named")
    parser.add_argument(
        "--cpu", default="auto", choices=["auto", "full", "none"], help="auto: to the end where it is quick"
    )
    parser.add_argument("--tokens", type=int, help="no more training tokens than these")
    o = parser.parse_args()
    rows = []
    for part in o.part or ["check", *PARTS]:
        say(part)
        if part == "check":
            check(o.device)
        else:
            rows.append(measure(part, o.corpora, o.device, o.cpu, o.tokens))
    if rows:
        say(table(rows, o.device))


def table(rows: list[dict[str, Any]], device: str) -> str:
    """What was measured, as Markdown."""
    lines = [
        f"| | tokens | weights | an evaluation, {device} | CPU | file to model, {device} (training) | CPU | loss: ratio less 1 | labels equal |",
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
        lines.append(f"| {row['part']} | {row['tokens']:,} | {row['weights']:,} | {' | '.join(told)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
