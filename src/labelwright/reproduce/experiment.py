"""What an experiment consists of: steps with results, and the findings that follow from all results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from labelwright.reproduce.work import Work

AS_PUBLISHED, OURS = "as published", "ours"
Result = dict[str, Any]  # of a step: whatever JSON holds


class Step(NamedTuple):
    """One resumable unit of work: a run of training, of decoding, or both."""

    name: str  # unique in its experiment, as progress and files show it
    minutes: float  # that a full run of it takes on two cores: an estimate, for the time left
    run: Callable[["Work"], Result]


@dataclass(frozen=True)
class Row:
    """A figure of a paper beside ours."""

    table: str
    system: str
    metric: str
    paper: float | None  # None where the paper has no such figure
    ours: float | None  # None where the run was beyond the time or memory of the experiment; the mean over seeds
    spread: float | None = None  # largest minus smallest over seeds
    seconds: float | None = None  # that the run behind it took, the mean over seeds
    variant: str = AS_PUBLISHED
    settings: str = ""
    seeds: Sequence[int] = ()  # of the runs that it is the mean of; empty: one run, with seed 0 where there is chance
    comparable: bool = True  # False where the data are not the paper's


class Claim(NamedTuple):
    """Something a paper says about its systems, and whether it is so here."""

    text: str
    kept: bool | None  # None: not measured here
    evidence: str


class Curve(NamedTuple):
    """A line of a figure."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    """One system of axes."""

    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    points: bool = False  # a cloud of points instead of lines


class Figure(NamedTuple):
    """A figure of a paper, drawn from our results."""

    name: str  # of its file, without the suffix
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Findings:
    """What a report shows."""

    rows: Sequence[Row]
    claims: Sequence[Claim] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()  # readings taken where the paper leaves room, and what explains a miss


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper."""

    name: str
    title: str
    paper: str  # who and when
    corpora: Sequence[str]  # the folders that it reads
    steps: Callable[[bool], Sequence[Step]]  # of a quick run, or of a full one
    findings: Callable[[Mapping[str, Result], bool], Findings]  # from the results by the names of steps
    source: str  # the file of the steps: results depend on it
    readings: Sequence[str] = field(default=())  # how "as published" was read where the paper leaves room
