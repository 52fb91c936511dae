"""Asking Debian's `timbl`, the reference of memory-based learning: write its files, run it, read
its answers, and say why they differ from ours where they do.

TiMBL 6.5 has habits that we do not share; `explain` knows them, and nothing else counts as an
explanation:
    inverse linear  Once a query has asked for the (k+1)th distance, the farthest distance of all
                    later ones is a sentinel, so their first votes are equal.  The same where fewer
                    than k distances exist.
    vanished        Exponential decay is not taken over the nearest vote: far from everything all
                    votes are below 2.2e-16, which TiMBL takes for ties and prints as an empty
                    distribution.
    rounding        Distances or votes that are equal by arithmetic are not where sums are rounded,
                    or the other way.
"""

import math
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from memory_twin import EPSILON, Groups, count

from labelwright.parallel import Workers

COMMAND = shutil.which("timbl")
METRICS = {"overlap": "O", "mvdm": "M", "jeffrey": "J", "jensen-shannon": "S", "numeric": "N"}
WEIGHTS = {
    "none": "0",
    "gain-ratio": "1",
    "information-gain": "2",
    "chi-squared": "3",
    "shared-variance": "4",
}
GIVEN = {
    "none": "nw",
    "gain-ratio": "gr",
    "information-gain": "ig",
    "chi-squared": "x2",
    "shared-variance": "sv",
}
VOTES = {"none": "Z", "inverse-distance": "ID", "inverse-linear": "IL", "exponential-decay": "ED"}
ALGORITHMS = {"ib1": ["-a0"], "igtree": ["-a1", "+D"]}
DISTRIBUTION = re.compile(r" (\S+) \{(.*)\}\s*(\S+)$")
SECONDS = re.compile(r"^Seconds taken: (\S+)", re.MULTILINE)


TOLERANCE = 2e-5  # of shares: TiMBL prints six digits of each vote
SLACK = 1e-11  # relative: distances and votes that rounding may have parted


class Answer(NamedTuple):
    """What TiMBL says of one query."""

    label: str
    votes: dict[str, float]
    distance: float  # igtree: the number of levels left

    @property
    def shares(self) -> dict[str, float]:
        """Votes that sum to 1; nothing where TiMBL prints an empty distribution."""
        total = sum(self.votes.values())
        return {label: vote / total for label, vote in self.votes.items()} if total > 0 else {}


class Run(NamedTuple):
    """The answers to all queries, and the seconds of the test phase as TiMBL measures them."""

    answers: list[Answer]
    seconds: float


def windows(corpus: Any, reach: int = 3, ngram: int = 3) -> tuple[list[list[str]], list[str]]:
    """One instance for each token of a corpus: the values of all its columns around the token, and
    as its class the labels of a few tokens around it."""
    rows, labels, beside = [], [], ngram // 2
    for *inputs, own in zip(
        *(corpus.column(name) for name in (*corpus.input_names, corpus.label)), strict=True
    ):
        padded = [["_"] * reach + column + ["_"] * reach for column in (*inputs, own)]
        for t in range(len(own)):
            rows.append(
                [value for column in padded[:-1] for value in column[t : t + 2 * reach + 1]]
            )
            labels.append("|".join(padded[-1][t + reach - beside : t + reach + beside + 1]))
    return rows, labels


def write(path: Path, rows: Sequence[Sequence[Any]], labels: Sequence[str]) -> Path:
    """Write instances as TiMBL's columns: values and a class, none of which may hold spaces."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(
            f"{' '.join(map(str, row))} {label}\n" for row, label in zip(rows, labels, strict=True)
        )
    return path


def metric_words(metric: str | Sequence[str]) -> str:
    """The option of one metric, or of one for each column: -mO:N2,5."""
    if isinstance(metric, str):
        return f"-m{METRICS[metric]}"
    others: dict[str, list[str]] = {}
    for place, name in enumerate(metric, start=1):
        if name != metric[0]:
            others.setdefault(name, []).append(str(place))
    return ":".join(
        [
            f"-m{METRICS[metric[0]]}",
            *(METRICS[name] + ",".join(places) for name, places in others.items()),
        ]
    )


def ask(
    train: Path,
    test: Path,
    k: int = 1,
    metric: str | Sequence[str] = "overlap",
    mvdm_threshold: int = 1,
    weights: str = "gain-ratio",
    votes: str = "none",
    decay: tuple[float, float] = (1.0, 1.0),
    algorithm: str = "ib1",
    clones: int = 1,
    given: Sequence[float] | None = None,
) -> Run:
    """Let TiMBL classify the instances of one file by those of another; the words are those of
    MemoryBased.

    `given` are weights to take in place of TiMBL's own, which may differ from ours in the last
    digit: enough to make one distance of two that are equal, or two of one.  It then sums columns
    in the order of these weights."""
    vote = VOTES[votes] + (f":{decay[0]}:{decay[1]}" if votes == "exponential-decay" else "")
    with tempfile.TemporaryDirectory() as place:
        target, weight = Path(place, "out"), WEIGHTS[weights]
        if given is not None:
            rows = "".join(f"{i}\t{value:.17g}\n" for i, value in enumerate(given, 1))
            Path(place, "weights").write_text(f"# {GIVEN[weights]}\n# Fea.\tWeight\n{rows}#\n")
            weight = f"{Path(place, 'weights')}:{GIVEN[weights]}"
        command = [
            COMMAND or "timbl", *ALGORITHMS[algorithm], "-F", "Columns",
            "-f", str(train), "-t", str(test), "-o", str(target),
            "-k", str(k), metric_words(metric), "-w", weight, f"-d{vote}", f"-L{mvdm_threshold}",
            "+v", "db+di", *([f"--clones={clones}"] if clones > 1 else []),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not target.exists():
            raise RuntimeError(
                f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}"
            )
        answers = [_answer(line) for line in target.read_text(encoding="utf-8").splitlines()]
    return Run(answers, float(SECONDS.findall(done.stdout + done.stderr)[-1]))


def _answer(line: str) -> Answer:
    """The end of a line of TiMBL's output: class, prediction { class votes, ... } distance."""
    found = DISTRIBUTION.search(line)
    if found is None:
        raise RuntimeError(f"timbl: a line without a distribution: {line[-200:]!r}")
    pairs = [part.rsplit(maxsplit=1) for part in found[2].split(",") if part.strip()]
    return Answer(found[1], {label.strip(): float(vote) for label, vote in pairs}, float(found[3]))


# -- differences -----------------------------------------------------------------------------------


def same(answer: Answer, label: str, votes: dict[str, float], tolerance: float = TOLERANCE) -> bool:
    """Whether TiMBL names this class and prints these votes, but for a factor common to all."""
    total = sum(votes.values())
    ours = {c: vote / total for c, vote in votes.items()}
    theirs = answer.shares
    return answer.label == label and all(
        abs(ours.get(c, 0.0) - theirs.get(c, 0.0)) < tolerance for c in ours.keys() | theirs.keys()
    )


class Reading(NamedTuple):
    """How TiMBL itself comes to an answer."""

    label: str
    votes: dict[str, float]
    asked: bool  # whether it asked for one more distance


def reading(
    groups: Groups,
    k: int,
    votes: str,
    decay: tuple[float, float],
    frequency: Counter,
    stale: bool = False,
    slack: float = 0.0,
) -> Reading:
    """TiMBL's answer from all distances and their classes, its habits included."""
    here = _counted(groups, k, votes, decay, stale)
    label, tie = _best_target(here, frequency, slack)
    if tie:
        more = _counted(groups, k + 1, votes, decay, False)
        winner, still = _best_target(more, frequency, slack)
        if not still:
            return Reading(winner, more, True)
    return Reading(label, here, tie)


def _counted(
    groups: Groups, k: int, votes: str, decay: tuple[float, float], stale: bool
) -> Counter:
    if votes == "inverse-linear" and (stale or len(groups) < k):
        return count(groups, k, "none")
    if votes != "exponential-decay":
        return count(groups, k, votes)
    total: Counter = Counter()
    for d, classes in groups[:k]:
        each = math.exp(-decay[0] * d ** decay[1]) or EPSILON
        for label, n in classes.items():
            total[label] += n * each
    return total


def _best_target(votes: Counter, frequency: Counter, slack: float) -> tuple[str, bool]:
    """The class that TiMBL takes, looking at classes in the order of their first appearance; and
    whether it ties."""
    best, most, tie = None, 0.0, False
    for label in frequency:
        if label not in votes:
            continue
        if best is None or votes[label] > most * (1 + slack):
            best, most, tie = label, votes[label], False
        elif abs(votes[label] - most) < max(EPSILON, slack * most):
            tie = True
            if frequency[label] > frequency[best]:
                best = label
    assert best is not None
    return best, tie


class Nearby(NamedTuple):
    """The instances at a few more than the k nearest distances of a query, by a model of ours."""

    model: Any
    query: Sequence[Any]
    instances: np.ndarray
    distance: np.ndarray  # in increasing order

    def groups(self) -> Groups:
        """Distances and the classes at each."""
        found: Groups = []
        begin, n = 0, len(self.distance)
        while begin < n:
            apart = self.distance[begin:] - self.distance[begin] >= EPSILON
            end = begin + int(apart.argmax()) if apart[-1] else n
            counts = np.bincount(self.model.targets_[self.instances[begin:end]])
            classes = {self.model.seen_[c]: int(counts[c]) for c in np.flatnonzero(counts)}
            found.append((float(self.distance[begin]), Counter(classes)))
            begin = end
        return found

    def atoms(self) -> Iterator[tuple[float, str, tuple[Any, ...]]]:
        """For each instance its distance, its class, and how it differs from the query: what
        differs alike is equally far, whatever the rounding."""
        model = self.model
        metrics = model._metrics(len(self.query))
        for i, d in zip(self.instances.tolist(), self.distance.tolist(), strict=True):
            row = [
                known[c] for known, c in zip(model.data_.values, model.data_.codes[i], strict=True)
            ]
            differs = (
                v == q if m == "overlap" else v
                for q, v, m in zip(self.query, row, metrics, strict=True)
            )
            yield d, model.seen_[model.targets_[i]], tuple(differs)


def near_to(model: Any, query: Sequence[Any], more: int = 8) -> Nearby:
    """Search once more, for `more` distances beyond k."""
    workers = Workers(1)
    found = model._search.nearest(*model._queries([query]), model.k + more, workers)
    return Nearby(model, query, found.instances, found.distance)


def groupings(near: Nearby, k: int) -> Iterator[Groups]:
    """All ways in which rounding may have parted, or put together, distances that are equal but for
    rounding."""
    clusters: list[dict[tuple[Any, ...], Counter]] = []
    distances: list[float] = []
    for d, label, differs in near.atoms():
        if not distances or d - distances[-1] > SLACK * d:
            clusters.append({})
            distances.append(d)
        clusters[-1].setdefault(differs, Counter())[label] += 1
    ways = [
        list(_arranged(list(c.values()))) if len(c) <= 4 else [[sum(c.values(), Counter())]]
        for c in clusters[: k + 2]
    ]
    ways += [[[sum(cluster.values(), Counter())]] for cluster in clusters[k + 2 :]]
    for chosen in islice(product(*ways), 2_000):
        yield [
            (d * (1 + 4 * EPSILON * i) + EPSILON * i, classes)
            for d, parts in zip(distances, chosen, strict=True)
            for i, classes in enumerate(parts)
        ]


def _arranged(atoms: list[Counter]) -> Iterator[list[Counter]]:
    """All sequences of groups that these can be put into."""
    if not atoms:
        yield []
    for chosen in product([True, False], repeat=len(atoms)):
        if any(chosen):
            first = sum((atom for atom, here in zip(atoms, chosen, strict=True) if here), Counter())
            rest = [atom for atom, here in zip(atoms, chosen, strict=True) if not here]
            yield from ([first, *others] for others in _arranged(rest))


class Difference(NamedTuple):
    """A query that TiMBL and we answer differently."""

    query: int
    theirs: Answer
    label: str  # ours
    votes: dict[str, float]
    reason: str | None  # None: nobody knows


def differences(model: Any, queries: Sequence[Sequence[Any]], run: Run) -> list[Difference]:
    """Where TiMBL's answers are not those of a model of ours, and why."""
    found = model.answers(queries)
    frequency = Counter(dict(zip(model.seen_, np.bincount(model.targets_).tolist(), strict=True)))
    before: list[Nearby] = []  # inverse linear: what was near to earlier queries,
    stale = False  # and whether one of them asked for one more distance
    different = []
    for n, (query, theirs) in enumerate(zip(queries, run.answers, strict=True)):
        own = slice(found.ptr[n], found.ptr[n + 1])
        label = model.seen_[found.best[n]]
        votes = {
            model.seen_[c]: v
            for c, v in zip(found.classes[own], found.votes[own].tolist(), strict=True)
        }
        equal = same(theirs, label, votes) and math.isclose(
            theirs.distance, found.distance[n], rel_tol=1e-9, abs_tol=1e-9
        )
        linear = model.votes == "inverse-linear" and not stale
        if model.algorithm == "igtree" or (equal and not linear):
            different += [] if equal else [Difference(n, theirs, label, votes, None)]
            continue
        near, how = near_to(model, query), (model.k, model.votes, model.decay, frequency)
        if not equal:
            why = explain(theirs, near, *how, stale)
            if (
                not why
                and linear
                and explain(theirs, near, *how, True)
                and any(_may_ask(x, *how) for x in before)
            ):
                why, stale = "rounding", True
            different.append(Difference(n, theirs, label, votes, why))
        if linear:
            before.append(near)
            stale = stale or reading(near.groups(), *how).asked
    return different


def _may_ask(
    near: Nearby, k: int, votes: str, decay: tuple[float, float], frequency: Counter
) -> bool:
    """Whether rounding may have made TiMBL ask for one more distance."""
    return any(
        reading(groups, k, votes, decay, frequency, slack=slack).asked
        for groups in groupings(near, k)
        for slack in (0.0, SLACK)
    )


def explain(
    answer: Answer,
    near: Nearby,
    k: int,
    votes: str,
    decay: tuple[float, float],
    frequency: Counter,
    stale: bool,
) -> str | None:
    """Why TiMBL's answer is not ours: one of its habits, or None."""

    def told(read: Reading) -> bool:
        # what TiMBL prints
        shown = {label: vote for label, vote in read.votes.items() if vote >= EPSILON}
        return (
            same(answer, read.label, shown)
            if shown
            else answer.label == read.label and not answer.votes
        )

    if told(reading(near.groups(), k, votes, decay, frequency, stale)):
        return {"inverse-linear": "inverse linear", "exponential-decay": "vanished"}.get(votes)
    for other in groupings(near, k):
        for slack in (0.0, SLACK):
            if told(reading(other, k, votes, decay, frequency, stale, slack)):
                return "rounding"
    return None
