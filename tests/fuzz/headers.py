"""Headers that nobody wrote, one field at a time: missing, or with each of some other values; the
checksum is right. Loading such a file and asking it everything must work, or end in one line, as
for those of made_files.

    python -m tests.fuzz.headers [NAME ...] [--every 1] [--first 0] [--case N]

All fields of all headers take an hour; with `--every 50`, each 50th case.  Records of training get
all the fields that any has, and also lose two at a time.  The exit code is 1 where a case failed;
`--case N` runs it alone.
"""

import argparse
import copy
import itertools
import os
import sys
import tempfile
from pathlib import Path

import zoo

from . import file_changes, made_files

MISSING = object()
VALUES = (MISSING, None, True, "x", "O", "iob2", "U:%y[0]", 0, 1, 3, -3, 0.5, 2**31, 10**30, 1e300)
VALUES += ([], {}, ["x"], [{}], {"x": 1}, {"O": None}, {"imported_from": "another program"})
NAMES = [name for name in zoo.NAMES if name not in zoo.OTHER_PROGRAMS]
RECORD = ("training", "history", "full")
BOUNDS = {"plain_margin": 0.1, "margin_bound": 0.1, "expansion": 2.0, "mistake_bound": 4.0}
FULL = {  # a record with all the fields that one of a tagger may have
    **dict.fromkeys(
        ("sentences", "tokens", "features", "weights", "arcs", "iterations", "mistakes"), 3
    ),
    "loss": 1.5,
    "seconds": 0.5,
    "stopped": "converged",
    "interrupted": False,
    "labelwright": "0.1.0",
    "best_iteration": 2,
    "best_dev": 0.5,
    "dev": 0.5,
    "columns": None,
    "label": None,
    "seen": "0123abcd",
    "restarts": [{"loss": 1.0, "merit": -1.0}, {"loss": 2.0, "merit": 0.5}],
    "search": {"settings": 3, "tried": 3, "score": 0.5, "stopped": "all were tried"},
    "pruning": {"kept": 0.5, "cutoff": 0.5, "most": 3, "candidates": 4},
    "convergence": {
        "separable": 0.5,
        "strictly_separable": 0.5,
        "margin": 0.1,
        "mistake_bound": 4.0,
        "theorem": 2,
    },
    "joint": {
        "iterations": 2,
        "loss": 1.0,
        "stopped": "converged",
        "best_iteration": 1,
        "best_dev": 0.5,
    },
    "calibration": {
        "temperature": 1.0,
        "sentences": 3,
        "log_likelihood_per_token": -1.0,
        "method": "held out",
    },
}


def cases(fields):
    """(what is changed, the changed header): each is a copy."""
    for path in paths(fields):
        for value in VALUES:
            yield (*path, "missing" if value is MISSING else value), changed(fields, (path, value))
    full = copy.deepcopy(fields)
    for part in (
        full,
        *(layer["model"] for layer in full.get("layers", ()) if isinstance(layer, dict)),
    ):
        part["training"] = (
            FULL | {"convergence": FULL["convergence"] | {"latent": BOUNDS}} | part["training"]
        )
    yield ("all fields of records",), full
    for path in paths(full):
        if "training" in path:
            for value in (MISSING, None, "x", -0.5, [], {}, [{}], {"x": 1}):
                yield (
                    ("full", *path, "missing" if value is MISSING else value),
                    changed(full, (path, value)),
                )
    names = [("training", name) for name in full["training"]]
    for one, other in itertools.combinations(names, 2):
        yield (
            ("full", one[-1], other[-1], "missing"),
            changed(full, (one, MISSING), (other, MISSING)),
        )


def paths(value, path=()):
    """The keys that lead to all parts of a header, and to the first two of a list."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(min(len(value), 2))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield (*path, key)
        yield from paths(value[key], (*path, key))


def changed(fields, *changes):
    """A header with other values at some paths."""
    fields = copy.deepcopy(fields)
    for (*path, key), value in changes:
        owner = fields
        for step in path:
            owner = owner[step]
        if value is MISSING:
            del owner[key]
        else:
            owner[key] = copy.deepcopy(value)
    return fields


def outcomes(names, wanted):
    """(number of the case, name and change, outcome) of the wanted cases, as made_files has them; a
    crash ends the process."""
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        sources, path = made_files.Sources(folder), Path(folder, "made")
        for name in names:
            arrays, fields = file_changes.opened(sources.of(name))
            for what, header in cases(fields):
                number = next(numbers)
                if number not in wanted:
                    continue
                content = file_changes.written(arrays, header)
                outcome = "not written"
                if content is not None:
                    path.write_bytes(content)
                    # a record is shown by `inspect`, settings are used by partial_fit
                    turn = 20 * number if any(key in what for key in RECORD) else 4 * number
                    with made_files.limited(1.0):
                        outcome = made_files.outcome_of(path, name, turn)
                yield number, f"{name} {what}", outcome


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--every", type=int, default=1, help="of so many cases, one")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of these")
    parser.add_argument("--case", type=int, help="the number of the only case")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(NAMES)}")
    os.environ |= made_files.environment()
    wanted = (
        range(options.first, sys.maxsize, options.every) if options.case is None else [options.case]
    )
    return made_files.report(outcomes(options.names or NAMES, wanted), "--case")


if __name__ == "__main__":
    sys.exit(bool(main()))
