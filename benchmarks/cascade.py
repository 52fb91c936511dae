"""Cascades and segments: table 2 of Azuma & Matsumoto (2011), the cost of joint gradients, SemiCRF
beside CRF.

    python benchmarks/cascade.py table2 [--passing best,joint] [--lower multilayer]
                                        [--upper multilayer-above] [--dev]
    python benchmarks/cascade.py gradient
        seconds of a joint gradient against the plain gradients of both layers
    python benchmarks/cascade.py segments [--task conll2003|jnlpba] [--template default]

`table2` is CoNLL-2000 with predicted parts of speech; `--dev` trains on 8,000 sentences and tests
on the other 936 of the training part.  All need the corpora.
"""

import argparse
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

from labelwright import CRF, Cascade, SemiCRF, read_columns
from labelwright.corpus.table import Corpus
from labelwright.evaluate import compare, evaluate
from labelwright.learn.joint import Joint, Stack
from labelwright.parallel import Workers
from labelwright.structures.passing import Layered
from labelwright.taggers.layers import labelled_layers

COLUMNS = "word,pos,chunk"


def parts_of(options: argparse.Namespace, folder: Path) -> tuple[Corpus, Corpus]:
    train, test = (
        read_columns(folder / "conll2000" / f"{part}.txt", names=COLUMNS)
        for part in ("train", "test")
    )
    return (
        (train.take(slice(0, 8000)), train.take(slice(8000, None)))
        if options.dev
        else (train, test)
    )


def layers_of(options: argparse.Namespace) -> list[tuple[str, Any]]:
    limit = {"max_iter": options.layer_iterations}
    return [
        ("pos", CRF(template=options.lower, **limit)),
        ("chunk", CRF(template=options.upper, **limit)),
    ]


def table2(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """POS accuracy and chunk F1 of every way of passing, and whether they differ."""
    train, test = parts_of(options, folder)
    found: dict[str, dict[str, Any]] = {}
    for passing in options.passing.split(","):
        model = Cascade(
            layers_of(options),
            passing,
            lexicon=options.lexicon or None,
            jackknife=options.jackknife,
        )
        begun = time.perf_counter()
        model.set_params(
            max_iter=options.iterations, random_state=0, shares={"pos": options.share}
        ).fit(train)
        seconds = time.perf_counter() - begun
        versions = {passing: model}
        if passing == "joint":
            versions = {"marginal": model.before_, "joint": model}
        for name, version in versions.items():
            found[name] = version.predict(test)
            pos = evaluate(test.column("pos"), found[name]["pos"], reading="token").token_accuracy
            chunk = evaluate(test.column("chunk"), found[name]["chunk"]).f1
            console.print(
                f"{name:9} POS {100 * pos:.2f}  chunk F1 {100 * chunk:.2f}  ({seconds:.0f} s, "
                f"{passing})"
            )
        console.print(f"          {model.training_.get('joint', '')}")
    names = [name for name in ("best", "sample", "nbest", "marginal", "joint") if name in found]
    for a, b in pairwise(names):
        for layer in ("pos", "chunk"):
            answer = compare(test.column(layer), found[a][layer], found[b][layer], names=(a, b))
            console.print(f"--- {layer}\n{answer}", highlight=False)


def gradient(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """The median of five evaluations of each, in one process."""
    train, _ = parts_of(options, folder)
    cascade = Cascade(layers_of(options), "marginal", lexicon=options.lexicon or None)
    for (_, model), limit in zip(cascade.layers, (options.layer_iterations or 100, 5), strict=True):
        model.set_params(max_iter=limit)
    names = ["pos", "chunk"]
    cascade.fit(train)
    models = list(cascade.layers_.values())
    source, gold = labelled_layers(train, None, names)
    source = cascade._input(source)
    passed = cascade._passed(models[0], source)
    inputs = [source, Layered(source, {names[0]: passed})]
    workers = Workers(None)
    built = [
        model._joint_objective(
            inputs[k], gold[names[k]], workers, passed.candidates if k == 0 else None
        )
        for k, model in enumerate(models)
    ]
    objectives, values = [layer for layer, _ in built], [each for _, each in built]
    belows = [values[0].constants, values[1].forward([passed.probability])[0]]
    times: dict[str, list[float]] = {}
    stack = Stack(objectives, [[], [0]], values, [1.0, 1.0], [None, None])
    joint = Joint([stack], [len(m.weights_) for m in models], [1, 1])
    weights = np.concatenate([model.weights_ for model in models])
    for _ in range(6):
        for k, name in enumerate(names):
            begun = time.perf_counter()
            if k == 0:
                objectives[k](models[k].weights_, np.empty_like(models[k].weights_))
            else:
                objectives[k].forward(models[k].weights_, belows[k])[1](None, 1.0)
            times.setdefault(name, []).append(time.perf_counter() - begun)
        begun = time.perf_counter()
        joint(weights, np.empty_like(weights))
        times.setdefault("joint", []).append(time.perf_counter() - begun)
    lower, upper, both = (median(times[name][1:]) for name in ("pos", "chunk", "joint"))
    slots = passed.candidates
    console.print(
        f"gradients: lower {lower:.3f} s, upper {upper:.3f} s, joint {both:.3f} s: "
        f"{both / (lower + upper):.2f} times both together "
        f"({len(slots.label) / slots.ptr.shape[0]:.2f} labels passed a token)"
    )


def segments(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """F1 of a CRF and of a SemiCRF with the same features of words."""
    train, test = (
        read_columns(folder / options.task / f"{part}.txt") for part in ("train", "test")
    )
    answers = {}
    for name, kind in (("CRF", CRF), ("SemiCRF", SemiCRF)):
        begun = time.perf_counter()
        words = {
            "template": options.template,
            "min_count": options.min_count,
            "max_iter": options.layer_iterations,
        }
        model: Any = kind(**words).fit(train)
        seconds = time.perf_counter() - begun
        answers[name] = model.predict(test)
        report = evaluate(test.y, answers[name])
        rate = model.history_[-1]["seconds"] / max(1, len(model.history_) - 1)
        console.print(
            f"{options.task} {name}: F1 {100 * report.f1:.2f}, {seconds:.0f} s, "
            f"{len(model.history_) - 1} iterations, {rate:.2f} s each "
            f"({model.training_['stopped']})"
        )
    console.print(str(compare(test.y, *answers.values(), names=tuple(answers))), highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["table2", "gradient", "segments"])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument(
        "--passing", default="best,joint", help="joint also tells what came before it, marginal"
    )
    parser.add_argument("--lower", default="multilayer")
    parser.add_argument("--upper", default="multilayer-above")
    parser.add_argument("--lexicon", default="pos", help="'' for none")
    parser.add_argument("--jackknife", action="store_true")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the lower layer's loss in joint training"
    )
    parser.add_argument("--iterations", type=int, help="of joint training")
    parser.add_argument("--layer-iterations", type=int, help="of each layer alone")
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--task", choices=["conll2003", "jnlpba"], default="jnlpba")
    parser.add_argument("--template", default="default")
    parser.add_argument("--min-count", type=int, default=1)
    options = parser.parse_args()
    if options.corpora is None:
        print("cascade.py: name the corpora with --corpora or LABELWRIGHT_CORPORA", file=sys.stderr)
        return 2
    console = Console(width=160)
    {"table2": table2, "gradient": gradient, "segments": segments}[options.what](
        options, Path(options.corpora), console
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
