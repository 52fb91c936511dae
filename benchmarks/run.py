"""labelwright side by side with CRFsuite (python-crfsuite) in one run: speed, memory, optimum,
scaling, start-up.

Every measurement is a process of its own.  Times on shared machines wander: believe the ratios, not
the seconds."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from measure import Job, ask

SIDES = ("labelwright", "crfsuite")
CONVERGED = 1e-6  # both stop when the loss falls by less than this share in ten iterations
REPEATS = 3


class Row(NamedTuple):
    """What was measured on both sides, and what it must reach."""

    what: str
    ours: float | None
    rival: float | None = None
    unit: str = "s"
    ratio: float | None = None
    bar: str = ""
    met: bool | None = None


class Bench(NamedTuple):
    """Where data come from, where files go, and how long to train."""

    corpora: Path
    folder: Path
    iterations: int
    threads: int | None

    def conll(self, share: float | str) -> Path:
        """The first sentences of the training file, or the whole of "train" or "test"."""
        if isinstance(share, str):
            return self.corpora / "conll2000" / f"{share}.txt"
        sentences = self.conll("train").read_text(encoding="utf-8").split("\n\n")
        path = self.folder / f"conll-{share}.txt"
        path.write_text(
            "\n\n".join(sentences[: int(share * len(sentences))]) + "\n\n", encoding="utf-8"
        )
        return path

    def model(self, side: str) -> Path:
        return self.folder / f"model-{side}"

    def fit(
        self, side: str, train: Path, iterations: int, template: str = "chunking", **more: Any
    ) -> Job:
        """One training run, on our side with the machine code already loaded."""
        job = {
            "tol": 0.0,
            "threads": self.threads,
            "warm": self.conll(0.005),
            "model": self.model(side),
        }
        return ask(
            f"{side}_side",
            "train",
            train=train,
            iterations=iterations,
            template=template,
            **(job | more),
        )


def spent(run: Job, starting: bool = False) -> float:
    """Seconds of a run without its start-up, or of the start-up alone."""
    return sum(
        s for step, s in run["seconds"].items() if (step in ("imports", "kernels")) == starting
    )


def against(
    what: str, ours: float, rival: float, unit: str = "s", least: float | None = None
) -> Row:
    """A row where the rival needs so many times what we need."""
    bar = "" if least is None else f"rival/ours {'>=' if least > 1 else '>'} {least:g}"
    met = None if least is None else rival / ours >= least
    return Row(what, ours, rival, unit, rival / ours, bar, met)


def steps(names: str, ours: Job, rival: Job) -> list[Row]:
    """What a whole is made of; CRFsuite's side builds features while it tags, and writes while it
    trains."""
    return [
        Row(f"  {name}", ours["seconds"].get(name), rival["seconds"].get(name))
        for name in names.split()
    ]


def ratios(b: Bench) -> list[Row]:
    """CoNLL-2000, template `chunking`, same cells and penalty"""
    train, small, first = b.conll("train"), b.conll(0.005), b.folder / "small-model"
    b.fit("labelwright", small, 2, model=first)
    # ours before and after the rival
    runs = [b.fit(side, train, b.iterations) for side in (*SIDES, "labelwright")]
    rival, ours = runs.pop(1), min(runs, key=spent)
    files = [b.folder / f"labelled-{side}" for side in SIDES]
    job = {
        "test": b.conll("test"),
        "template": "chunking",
        "threads": b.threads,
        "warm": small,
        "warm_model": first,
    }
    tags: list[list[Job]] = [[], []]
    for _ in range(REPEATS):
        for side, out, found in zip(SIDES, files, tags, strict=True):
            found.append(ask(f"{side}_side", "tag", model=b.model(side), out=out, **job))
    mine, his = (min(found, key=spent) for found in tags)
    f1 = ask("labelwright_side", "score", labelled=files)["f1"]
    cells = (ours["weights"], rival["weights"])
    return [
        Row("weights", *cells, unit="", bar="equal", met=cells[0] == cells[1]),
        against(
            "one L-BFGS iteration",
            median(r["per_iteration"] for r in runs),
            rival["per_iteration"],
            least=5 if b.threads == 1 else 10,
        ),
        against(
            f"file to model, {b.iterations} iterations",
            median(map(spent, runs)),
            spent(rival),
            least=5,
        ),
        *steps("read features train write", ours, rival),
        against("file to labelled file", spent(mine), spent(his), least=5),
        *steps("model read features tag write", mine, his),
        Row("start-up of training, not counted", spent(ours, True), spent(rival, True)),
        Row("start-up of tagging, not counted", spent(mine, True), spent(his, True)),
        against(
            "peak memory, training", max(r["peak"] for r in runs), rival["peak"], "MB", least=1
        ),
        against("peak memory, tagging", mine["peak"], his["peak"], "MB"),
        Row("chunk F1", *f1, unit="%", bar="ours >= 93.4", met=f1[0] >= 93.4),
    ]


def optimum(b: Bench) -> list[Row]:
    """CoNLL-2000, both to convergence; the referee computes both objectives by one formula"""
    runs = [b.fit(side, b.conll("train"), 2000, tol=CONVERGED) for side in SIDES]
    job = {"train": b.conll("train"), "template": "chunking"}
    judged = [
        ask("referee", "judge", side=side, model=b.model(side), **job)["objective"]
        for side in SIDES
    ]
    files = [b.folder / f"labelled-{side}" for side in SIDES]
    tagging = {
        "test": b.conll("test"),
        "template": "chunking",
        "threads": b.threads,
        "warm": b.conll(0.005),
    }
    for side, out in zip(SIDES, files, strict=True):
        ask(
            f"{side}_side",
            "tag",
            model=b.model(side),
            warm_model=b.model("labelwright"),
            out=out,
            **tagging,
        )
    f1 = ask("labelwright_side", "score", labelled=files)["f1"]
    rows = [
        Row("iterations", *(r["iterations"] for r in runs), unit=""),
        against("file to converged model", *map(spent, runs), least=12),
        Row("chunk F1", *f1, unit="%", bar="within 0.1", met=abs(f1[0] - f1[1]) <= 0.1),
    ]
    for what, (x, y) in {
        "by each log": [r["loss"] for r in runs],
        "by the referee": judged,
    }.items():
        gap = (x - y) / y
        rows += [Row(f"objective {what}", x, y, unit="nats")]
        rows += [
            Row("  relative difference", gap, unit="", bar="within 1e-4", met=abs(gap) <= 1e-4)
        ]
    return rows


def scaling(b: Bench) -> list[Row]:
    """Parts of CoNLL-2000 (template `chunking`), and amalgum (template `default`)"""
    rows = []
    data = [
        (f"CoNLL-2000 x {share:g}", b.conll(share), 10, "chunking") for share in (0.25, 0.5, 1.0)
    ]
    data += [("amalgum", b.corpora / "amalgum" / "train.txt.xz", 3, "default")]
    for name, path, iterations, template in data:
        ours, rival = (b.fit(side, path, iterations, template) for side in SIDES)
        rows += [
            Row(f"{name}, tokens", ours["tokens"], unit=""),
            *steps("read features", ours, rival),
        ]
        rows += [against("  one iteration", ours["per_iteration"], rival["per_iteration"])]
        rows += [against("  peak memory", ours["peak"], rival["peak"], "MB")]
    return rows


CORES = {  # name: corpus, template
    "42 labels (genia_pos)": ("genia_pos/train.txt.xz", "default"),
    "8 labels (conll2003)": ("conll2003/train.txt", "ner"),
}


def cores(b: Bench) -> list[Row]:
    """Core against core: one thread of labelwright, CRFsuite has one; and the limit of the
    memory"""
    one = b._replace(threads=1)
    rows = []
    for name, (path, template) in CORES.items():
        ours, rival = (one.fit(side, b.corpora / path, 10, template) for side in SIDES)
        rows += [
            against(
                f"{name}: one iteration", ours["per_iteration"], rival["per_iteration"], least=1
            )
        ]
    found = ask("labelwright_side", "limit", train=b.conll("train"), template="chunking", threads=1)
    seconds, bandwidth, least = found["evaluation"], found["bandwidth"], found["bytes"]
    return [
        *rows,
        Row("one evaluation of CoNLL-2000", seconds),
        Row("  bytes for each token, read or written once", least / found["tokens"], unit=""),
        Row("  measured bandwidth, GB/s", bandwidth / 1e9, unit=""),
        Row("  the least time at this bandwidth", least / bandwidth),
        Row("  share of the time that this is", least / bandwidth / seconds, unit=""),
    ]


def startup(b: Bench) -> list[Row]:
    """Whole commands"""
    b.fit("labelwright", b.conll("train"), 2)
    sentence = b.folder / "sentence.txt"
    sentence.write_text("He PRP\ngave VBD\nher PRP$\nflowers NNS\n. .\n\n", encoding="utf-8")
    asked = {
        "labelwright --help": clock("--help"),
        "tag one sentence": clock("tag", b.model("labelwright"), sentence),
    }
    limits = zip(asked.items(), (0.3, 1.5), strict=True)
    return [
        Row(what, ours, bar=f"<= {most:g} s", met=ours <= most) for (what, ours), most in limits
    ]


def clock(*arguments: Any) -> float:
    """Median seconds of a whole command; a first run fills the caches."""
    script = shutil.which("labelwright", path=str(Path(sys.executable).parent))
    command = [
        *([script] if script else [sys.executable, "-m", "labelwright"]),
        *map(str, arguments),
    ]
    seconds = []
    for _ in range(1 + 2 * REPEATS):
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds.append(time.perf_counter() - begun)
        if done.returncode:
            raise SystemExit(
                f"labelwright {arguments[0]}: failed: "
                f"{(done.stderr.splitlines() or ['no message'])[-1]}"
            )
    return median(seconds[1:])


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    f.__name__: f for f in (ratios, optimum, cores, scaling, startup)
}


def table(part: str, rows: list[Row]) -> Table:
    """One part, readable."""
    shown = Table(
        "", title=f"{part}: {PARTS[part].__doc__}", title_justify="left", title_style="bold"
    )
    for heading in ("labelwright", "CRFsuite", "rival/ours"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("bar")
    shown.add_column("met")
    for what, ours, rival, unit, ratio, bar, met in rows:
        form = {"s": ",.3f", "MB": ",.0f", "%": ".2f", "nats": ",.3f"}.get(unit, ",.6g")
        numbers = ["" if x is None else f"{x:{form}} {unit}".rstrip() for x in (ours, rival)]
        verdict = "" if met is None else "yes" if met else "[bold red]NO"
        shown.add_row(what, *numbers, "" if ratio is None else f"{ratio:.2f}", bar, verdict)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"), help="their folder"
    )
    parser.add_argument(
        "--iterations", type=int, default=100, help="of file to model; few make a quick rehearsal"
    )
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="one part; may be given again"
    )
    parser.add_argument(
        "--threads", type=int, help="of labelwright, one per core by default; CRFsuite has one"
    )
    parser.add_argument("--json", type=Path, help="write all numbers to this file, too")
    options = parser.parse_args()
    if options.corpora is None or not (options.corpora / "conll2000" / "train.txt").exists():
        parser.exit(
            2,
            (
                "no corpora: name the folder that holds conll2000/ by LABELWRIGHT_CORPORA or "
                "--corpora\n"
            ),
        )
    if find_spec("pycrfsuite") is None:
        parser.exit(2, "python-crfsuite is missing: pip install python-crfsuite\n")
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.corpora, Path(folder), options.iterations, options.threads)
        for part in options.only or PARTS:
            found[part] = PARTS[part](bench)
            console.print(table(part, found[part]))
    if options.json:
        options.json.write_text(
            json.dumps({k: [r._asdict() for r in v] for k, v in found.items()}, indent=1)
        )
    judged = [row for rows in found.values() for row in rows if row.met is not None]
    missed = [row.what for row in judged if not row.met]
    console.print(
        f"{len(judged) - len(missed)} of {len(judged)} bars met.",
        *missed[:1] and ["Not:", "; ".join(missed)],
    )


if __name__ == "__main__":
    main()
