"""How much memory tagging and training take, and how small models become.

    python benchmarks/lean.py tag [--tokens 1,4,16] [--model MODEL]
        peak memory of `tag FILE`, by millions of tokens
    python benchmarks/lean.py train [--copies 1,8]
        peak memory of training, plain and memory-mapped
    python benchmarks/lean.py export [--model MODEL] [--prune 0,0.05]
        sizes, F1 and agreement of smaller models

All on CoNLL-2000, from the folder that LABELWRIGHT_CORPORA names: test.txt is repeated to be
tagged, train.txt to be trained on.  Without --model one is trained, with --pairs one whose features
are on pairs of labels, too.  --other names another checkout, which tags and trains in turns with
this one.  Memory is that of the whole process: at its peak, and anonymous memory, which the system
cannot take back (read from /proc, on Linux).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
TOKENS = 47_377  # of test.txt


class Measured(NamedTuple):
    """What a command took."""

    seconds: float
    peak: int  # megabytes
    anonymous: int
    output: str


def labelwright(*arguments: object, checkout: Path = HERE) -> Measured:
    """Run a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    line = [sys.executable, "-m", "labelwright", *map(str, arguments)]
    begun = time.perf_counter()
    peak = anonymous = 0
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(line, env=environment, stdout=out)
        while process.poll() is None:
            seen = memory(process.pid)
            peak, anonymous = (
                max(peak, seen.get("VmHWM", 0)),
                max(anonymous, seen.get("RssAnon", 0)),
            )
            time.sleep(0.01)
        seconds = time.perf_counter() - begun
        if process.returncode:
            raise SystemExit(f"lean.py: failed: {' '.join(line)}")
        out.seek(0)
        return Measured(seconds, peak, anonymous, out.read())


def memory(pid: int) -> dict[str, int]:
    """Megabytes of a process by their names in /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {
        name: int(kilobytes) >> 10 for name, kilobytes in re.findall(r"(\w+):\s+(\d+) kB", status)
    }


def trained(folder: Path, corpora: Path, pairs: bool, iterations: int) -> Path:
    """A model for chunks; with `pairs` every line of the template is on states and on pairs of
    labels."""
    from labelwright.features.builtin import BUILTIN

    lines = BUILTIN["chunking"](2)
    template, model = folder / "template", folder / "model"
    template.write_text("\n".join(re.sub("^U", "*" if pairs else "U", line) for line in lines))
    labelwright(
        "train",
        corpora / "train.txt",
        "-o",
        model,
        "--template",
        template,
        "-q",
        "--iterations",
        iterations,
    )
    return model


def repeated(source: Path, target: Path, copies: int) -> Path:
    """A file so many times."""
    text = source.read_bytes()
    with open(target, "wb") as file:
        for _ in range(copies):
            file.write(text)
    return target


def tag(options: argparse.Namespace, folder: Path, corpora: Path, model: Path) -> Iterator[str]:
    """Peak memory and tokens per second of `tag FILE -o OUT`."""
    for millions in options.tokens:
        copies = round(millions * 1e6 / TOKENS)
        source = repeated(corpora / "test.txt", folder / "source.txt", copies)
        for name, checkout in checkouts(options):
            took = labelwright("tag", model, source, "-o", folder / "out.txt", checkout=checkout)
            rate = copies * TOKENS / took.seconds
            size = source.stat().st_size / 1e6
            yield (
                f"{name}: {millions} million tokens ({size:,.0f} MB): peak {took.peak:,} MB, "
                f"{rate:,.0f} tokens/s"
            )
        source.unlink()


def train(options: argparse.Namespace, folder: Path, corpora: Path, _: Path) -> Iterator[str]:
    """Peak memory of training, on a corpus so many times; and with encoded data in files."""
    for copies in options.copies:
        source = repeated(corpora / "train.txt", folder / "source.txt", copies)
        line = [
            "train",
            source,
            "-o",
            folder / "m",
            "-q",
            "--template",
            "chunking",
            "--iterations",
            options.iterations,
        ]
        for name, checkout in checkouts(options):
            yield f"{name}: {copies} x train.txt: {shown(labelwright(*line, checkout=checkout))}"
        mapped = labelwright(*line, "--memory-map", folder)
        yield f"memory-mapped: {copies} x train.txt: {shown(mapped)}"


def shown(took: Measured) -> str:
    return f"peak {took.peak:,} MB, anonymous {took.anonymous:,} MB, {took.seconds:.1f} s"


def export(options: argparse.Namespace, folder: Path, corpora: Path, model: Path) -> Iterator[str]:
    """Sizes and scores of smaller models, as rows of a table."""
    yield "| prune | bits | size | weights | F1 | labels that agree |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: |"
    for prune in options.prune:
        for bits in (32, 16, 8):
            given = ["--prune", prune, "--bits", bits, "--data", corpora / "test.txt", "--json"]
            facts = json.loads(labelwright("export", model, folder / "small", *given).output)
            scores, before = (
                facts["data"][""],
                "before" if (prune, bits) == (options.prune[0], 32) else "",
            )
            if before:
                yield row("", "", facts["bytes"][0], facts["weights"][0], scores["f1"][0], None)
            agreement = scores["agreement"]["tokens"]
            yield row(
                f"{prune:g}",
                str(bits),
                facts["bytes"][1],
                facts["weights"][1],
                scores["f1"][1],
                agreement,
            )


def row(prune: str, bits: str, size: int, weights: int, f1: float, agreement: float | None) -> str:
    from labelwright.wording import percent

    agrees = "" if agreement is None else percent(agreement)
    return f"| {prune} | {bits} | {size / 1e6:.2f} MB | {weights:,} | {100 * f1:.2f} | {agrees} |"


def checkouts(options: argparse.Namespace) -> list[tuple[str, Path]]:
    return [("this", HERE)] + ([("other", options.other.resolve())] if options.other else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["tag", "train", "export"])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--other", type=Path)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument(
        "--tokens", type=lambda text: [float(n) for n in text.split(",")], default=[1, 4, 16]
    )
    parser.add_argument(
        "--copies", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8]
    )
    parser.add_argument(
        "--prune",
        type=lambda text: [float(n) for n in text.split(",")],
        default=[0, 0.01, 0.05, 0.1],
    )
    options = parser.parse_args()
    if options.corpora is None:
        raise SystemExit("lean.py: set LABELWRIGHT_CORPORA, or give --corpora")
    corpora = Path(options.corpora) / "conll2000"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = options.model or (
            folder
            if options.task == "train"
            else trained(folder, corpora, options.pairs, options.iterations)
        )
        for line in {"tag": tag, "train": train, "export": export}[options.task](
            options, folder, corpora, model
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
