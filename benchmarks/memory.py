"""Memory-based learning beside Debian's TiMBL 6.5, which must be installed.

    python benchmarks/memory.py agree [--k 1,7] [--metric mvdm] [--list FILE]
        class and distribution, query by query
    python benchmarks/memory.py speed [--queries 2000] [--clones 2]
        queries per second, in the same run

`agree` asks both for the windows of 7 words and 7 tags of CoNLL-2000 with trigram classes, and says
of each difference whether it is one of TiMBL's habits (tests/support/timbl.py lists them), or a tie
that was rounded otherwise, as where TiMBL's own weights have other last digits than ours: given
ours, it says the same.  `--same-weights` gives it ours at once. `speed` takes TiMBL's own seconds
of its test phase, and the median of three of ours.  `--limit` makes both smaller.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TextIO

from rich.console import Console
from rich.table import Table

from labelwright import MemoryBased, read_columns

sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))
import timbl

HABITS = "inverse linear", "vanished"
# of which corpus, how its files end, and how far windows reach
DATA: dict[str, tuple[str, str, int]] = {
    "words": ("conll2000", ".txt", 3),
    "letters of nettalk": ("nettalk", ".txt", 3),
    "letters of cmudict": ("cmudict_aligned", ".txt.xz", 3),
    "letters of cmudict, 11": ("cmudict_aligned", ".txt.xz", 5),
}
MOST = 200_000  # instances of letters


class Instances(NamedTuple):
    """What is remembered and what is asked, here and in TiMBL's files."""

    X: list[list[str]]
    y: list[str]
    queries: list[list[str]]
    train: Path
    test: Path


def instances(name: str, folder: Path, place: Path, limit: int | None, n_queries: int) -> Instances:
    """Windows over a corpus, and the files that TiMBL reads."""
    corpus, ending, reach = DATA[name]
    sides = []
    for part in ("train", "test"):
        data = read_columns(folder / corpus / f"{part}{ending}")
        if part == "test" and name != "words":  # dictionaries are sorted
            data = data.split(0.5, random_state=0)[0]
        sides.append(timbl.windows(data, reach))
    n = min(limit or 10**9, len(sides[0][0]) if name == "words" else MOST)
    (X, y), (queries, labels) = (
        (sides[0][0][:n], sides[0][1][:n]),
        (sides[1][0][:n_queries], sides[1][1][:n_queries]),
    )
    train = timbl.write(place / "train", X, y)
    test = timbl.write(place / "test", queries, labels)
    return Instances(X, y, queries, train, test)


# -- agreement -------------------------------------------------------------------------------------


def grid(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The settings that are compared; with one neighbour votes matter only in ties, so one kind is
    enough."""
    found: list[dict[str, Any]] = [
        {"metric": metric, "weights": weights, "k": k, "votes": votes}
        for metric, weights, k, votes in product(
            options.metric, options.weights, options.k, options.votes
        )
        if k > 1 or votes == options.votes[0]
    ]
    return found + [{"algorithm": "igtree", "weights": weights} for weights in options.weights]


def agree(options: argparse.Namespace, folder: Path, console: Console) -> int:
    """All settings, a line each; the number of settings that disagree."""
    title = (
        f"TiMBL's answers to {options.queries:,} queries, CoNLL-2000, windows of 7 words and 7 tags"
    )
    table = Table(
        "setting",
        "equal",
        "TiMBL's habits",
        "last digits",
        "unknown",
        "equal or habit",
        title=title,
    )
    total: Counter[str] = Counter()
    wrong = 0
    with (
        tempfile.TemporaryDirectory() as place,
        open(options.list or os.devnull, "w", encoding="utf-8") as listed,
    ):
        data = instances("words", folder, Path(place), options.limit, options.queries)
        settings = grid(options)
        with ThreadPoolExecutor(options.jobs) as pool:
            given: dict[str, Any] = {}
            if options.same_weights:
                for name in options.weights:
                    given[name] = MemoryBased(weights=name).fit(data.X, data.y).feature_weights_
            runs = pool.map(
                lambda words: timbl.ask(
                    data.train, data.test, **words, given=given.get(words["weights"])
                ),
                settings,
            )
            for words, run in zip(settings, runs, strict=True):
                different = explained(
                    MemoryBased(**words).fit(data.X, data.y), data, run, words, Path(place, "again")
                )
                why = Counter(found.reason or "unknown" for found in different)
                habits, n = sum(why[habit] for habit in HABITS), len(data.queries)
                digits = why["rounding"] + why["weights"]
                sound = n - digits - why["unknown"]
                wrong += sound < 0.999 * n or why["unknown"] > 0
                total += why + Counter(equal=n - len(different), asked=n)
                name = ", ".join(str(value) for value in words.values())
                table.add_row(name, (
                    f"{100 * (1 - len(different) / n):.2f} "
                    "%"
                ), str(habits), str(digits),
                              str(why["unknown"]), f"{100 * sound / n:.2f} %")  # fmt: skip
                for found in different:
                    tell(found, name, console, listed)
    console.print(table)
    console.print(
        f"{total['asked']:,} answers: {dict(total)}; {wrong} of {len(settings)} settings disagree"
    )
    return wrong


def explained(
    model: MemoryBased, data: Instances, run: timbl.Run, words: dict[str, Any], place: Path
) -> list[timbl.Difference]:
    """Where answers differ, and why: `weights` where TiMBL answers as we do once it has our
    weights."""
    different = timbl.differences(model, data.queries, run)
    ask = [found.query for found in different if found.reason not in HABITS]
    if not ask:
        return different
    queries = [data.queries[n] for n in ask]
    test = timbl.write(place, queries, data.y[: len(ask)])
    again = timbl.ask(data.train, test, **words, given=model.feature_weights_)
    still = {ask[found.query] for found in timbl.differences(model, queries, again)}
    return [
        d._replace(reason="weights") if d.query in ask and d.query not in still else d
        for d in different
    ]


def tell(found: timbl.Difference, name: str, console: Console, listed: TextIO) -> None:
    """One difference: all go to the list, those that are not a habit of TiMBL's to the screen."""
    theirs, ours = (
        ", ".join(f"{label} {vote:.17g}" for label, vote in Counter(votes).most_common(3))
        for votes in (found.theirs.votes, found.votes)
    )
    line = (
        f"{name}: query {found.query}: TiMBL {found.theirs.label} {{{theirs}}}, ours {found.label} "
        f"{{{ours}}}: {found.reason or 'unknown'}"
    )
    listed.write(line + "\n")
    if found.reason not in HABITS:
        console.print(line, markup=False)


# -- speed -----------------------------------------------------------------------------------------


SETTINGS: dict[str, dict[str, Any]] = {
    "overlap, gain ratio, k = 1": {},
    "MVDM, k = 7, inverse distance": {"metric": "mvdm", "k": 7, "votes": "inverse-distance"},
    "IGTree": {"algorithm": "igtree"},
}
BARS = {("words", "overlap, gain ratio, k = 1"): 50, ("words", "MVDM, k = 7, inverse distance"): 25}
LETTERS = 2  # times TiMBL's speed for all settings with letters


def speed(options: argparse.Namespace, folder: Path, console: Console) -> int:
    """Queries per second of both, data by data; the number of bars that were missed."""
    own = f"TiMBL x{options.clones}"
    table = Table(
        "data", "instances", "setting", "TiMBL/s", *([own] if options.clones > 1 else []), "ours/s",
        "ratio", "bar", "build s", "bytes/instance", title="queries per second",
    )  # fmt: skip
    missed = 0
    for name in options.data:
        with tempfile.TemporaryDirectory() as place:
            data = instances(name, folder, Path(place), options.limit, options.queries)
            for setting, words in SETTINGS.items():
                begun = time.perf_counter()
                model = MemoryBased(**words).fit(data.X, data.y)
                build = time.perf_counter() - begun
                theirs = [
                    len(data.queries) / timbl.ask(data.train, data.test, **words, clones=n).seconds
                    for n in ([1, options.clones] if options.clones > 1 else [1])
                ]
                ours = len(data.queries) / seconds(model, data.queries)
                bar = BARS.get(
                    (name, setting), LETTERS if name != "words" and setting != "IGTree" else None
                )
                missed += bar is not None and ours < bar * theirs[0]
                table.add_row(
                    name, f"{len(data.X):,}", setting, *(f"{rate:,.0f}" for rate in theirs),
                    f"{ours:,.0f}", f"{ours / theirs[0]:.1f}", str(bar or ""), f"{build:.2f}",
                    f"{model.memory_['bytes_per_instance']:.1f}",
                )  # fmt: skip
    console.print(table)
    return missed


def seconds(model: MemoryBased, queries: list[list[str]]) -> float:
    """How long all answers take: the median of three, after a first time in which kernels may be
    compiled."""
    model.answers(queries[:50])
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        model.answers(queries)
        taken.append(time.perf_counter() - begun)
    return median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["agree", "speed"])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--limit", type=int, help="remember only so many instances")
    parser.add_argument(
        "--metric", type=_names, default=["overlap", "mvdm", "jeffrey"], help="agree: some of them"
    )
    parser.add_argument("--weights", type=_names, default=list(timbl.WEIGHTS))
    parser.add_argument("--k", type=lambda text: [int(k) for k in text.split(",")], default=[1, 7])
    parser.add_argument("--votes", type=_names, default=list(timbl.VOTES))
    parser.add_argument(
        "--jobs", type=int, default=2, help="agree: how many runs of TiMBL at a time"
    )
    parser.add_argument(
        "--same-weights", action="store_true", help="agree: TiMBL takes our weights"
    )
    parser.add_argument("--list", metavar="FILE", help="agree: write all differences")
    parser.add_argument(
        "--data", type=lambda text: text.split("; "), default=list(DATA), help="speed: some of them"
    )
    parser.add_argument(
        "--clones", type=int, default=1, help="speed: TiMBL with so many threads, too"
    )
    options = parser.parse_args()
    if timbl.COMMAND is None:
        print("memory.py: timbl is not installed (Debian: apt-get install timbl)", file=sys.stderr)
        return 2
    if options.corpora is None:
        print("memory.py: name the corpora with --corpora or LABELWRIGHT_CORPORA", file=sys.stderr)
        return 2
    task = {"agree": agree, "speed": speed}[options.what]
    return 1 if task(options, Path(options.corpora), Console(width=170)) else 0


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
