"""--dask: the cluster on which a command works, what it tells, and sentences that are set aside."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from labelwright.cli import files
from labelwright.cli.options import DATA, option
from labelwright.cli.show import say
from labelwright.errors import OptionError
from labelwright.wording import counted, duration

if TYPE_CHECKING:
    from labelwright.cli.recipe import Request
    from labelwright.scale import Partitions
    from labelwright.scale.partitions import Bad

DASK = option(
    "--dask ADDRESS",
    "Work on a Dask cluster: tcp://HOST:PORT, or local:N processes on this machine.",
)
SKIP_BAD = option(
    "--skip-bad FILE", "Set sentences that cannot be read aside in FILE, and go on.", DATA
)
EVERY = 2.0  # seconds between two lines
ONE_MACHINE = (  # options of a run that need all sentences in one place
    "arrays", "dev_arrays", "folds", "learning_curve", "memory_map", "sentence_weight",
    "token_weight", "unmarked", "allowed_labels", "tokenizer", "characters", "token_pattern",
    "sentences", "skip_bad_spans",
)  # fmt: skip


@contextmanager
def cluster_of(address: str | None, quiet: bool) -> Iterator[Any]:
    """The client of a cluster; None where none is asked for."""
    if address is None:
        yield None
        return
    from labelwright.scale.cluster import connected, explained

    with connected(address) as client:
        if not quiet:
            threads = client.nthreads()
            size = f"{counted(len(threads), 'worker')}, {counted(sum(threads.values()), 'thread')}"
            say(f"dask: {size}; dashboard: {client.dashboard_link or 'none'}")
        with explained(client):
            yield client


class Progress:
    """Lines about work on a cluster, one every few seconds."""

    def __init__(self, quiet: bool, unit: str = "block"):
        self.quiet, self.unit, self._last = quiet, unit, time.monotonic()

    def __call__(self, what: str, done: int, n: int, left: float) -> None:
        if not self.quiet and time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            say(f"{what}: {done:,} of {counted(n, self.unit)}, about {duration(left)} left")


class Aside:
    """A file of sentences that were set aside, each behind a line with the reason; `more` keeps
    what it has."""

    def __init__(self, path: str | None, more: bool = False):
        from labelwright.corpus.compressed import read_bytes

        self.path, self.more, self._n, self._first, self.told = path, more, 0, "", None  # type: Any, bool, int, str, str | None
        kept = read_bytes(path) if more and path is not None and os.path.exists(path) else b""
        # of a run that was killed
        self._listed = {line for line in kept.split(b"\n") if line.startswith(b"# ")}

    def add(self, bad: "Sequence[Bad]") -> str | None:
        from labelwright.corpus.compressed import write_bytes

        if bad and self.path is not None:
            text = ((f"# {each.reason}".encode(), each.text.strip(b"\r\n")) for each in bad)
            new = b"".join(b"%b\n%b\n\n" % pair for pair in text if pair[0] not in self._listed)
            write_bytes(self.path, new, self.more)
            self.more, self._n, self._first = True, self._n + len(bad), self._first or bad[0].reason
            self.told = (
                f"{self.path}: {counted(self._n, 'sentence')} that cannot be read; the first: "
                f"{self._first}"
            )
        return self.told


def partitions_of(source: str, asked: "Request") -> "Partitions":
    """The training data of a run on a cluster; what needs them in one place is refused."""
    from labelwright.scale import Partitions

    for name in ONE_MACHINE:
        if asked.get(name):
            raise OptionError(
                f"{asked.place(name)}: not with --dask; train on one machine, or leave it out"
            )
    if asked.get("calibrate") and not asked.get("dev"):
        raise OptionError(
            f"{asked.place('calibrate')}: with --dask only on development data; add --dev FILE"
        )
    layers = asked.kind._label_columns(asked.table)
    if layers is not None and any(layers.values()):
        raise OptionError(
            "scheme: not in [[layers]] with --dask; rewrite labels with labelwright convert"
        )
    if source == "-":
        raise OptionError("TRAIN: - is a stream, which workers cannot read; name files with --dask")
    label: Any = asked.get("label") if layers is None else False
    told, skip = Progress(bool(asked.get("quiet"))), asked.get("skip_bad") is not None
    if skip:
        files.check_target(asked.values["skip_bad"], [source, asked.values["output"]])
    options = files.file_options(asked.values)
    return Partitions(
        source, asked.get("columns"), label, asked.get("scheme"), None, options, None, skip, told
    )
