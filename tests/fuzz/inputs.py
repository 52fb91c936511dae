"""Odd inputs for every reader: each is read, or refused in one line; nothing else happens.

    python -m tests.fuzz.inputs --reader columns --seed 0 --cases 1000000

The same seed and number make the same input: `--first 4711 --cases 1` repeats one.
"""

import argparse
import faulthandler
import random
import sys
import time
import warnings
from typing import Any, NamedTuple

from labelwright.errors import LabelwrightError

from .inputs_made import made, made_labels, made_sentences
from .inputs_read import KINDS

SECONDS, SECONDS_OF_BYTE = 1.0, 50e-6  # of CPU time for one input; the machine may be busy
# seconds after which a hundred cases are taken for endless: the process ends and shows where it was
HANGS = 300


class Tally(NamedTuple):
    """What became of many inputs."""

    read: int
    refused: int
    failures: list[str]


def case(reader: str, seed: int, number: int) -> Any:
    """The input of this number."""
    rng = random.Random(f"{reader}/{seed}/{number}")
    if reader == "dicts":
        X = made_sentences(rng)
        return X, made_labels(rng, X)
    return made(rng, KINDS[reader].samples)


def outcome(reader: str, data: Any) -> str:
    """What becomes of an input: "read", "refused", or what went wrong."""
    began = time.process_time()
    try:
        KINDS[reader].read(data)
        result = "read"
    except LabelwrightError as error:
        result = "refused" if _is_one_line(str(error)) else f"a message of several lines: {error}"
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    seconds = time.process_time() - began
    most = SECONDS + SECONDS_OF_BYTE * (len(data) if isinstance(data, bytes) else 1000)
    return result if seconds <= most else f"took {seconds:.1f} s ({result})"


def _is_one_line(message: str) -> bool:
    return bool(message) and "\n" not in message and "\r" not in message


def run(reader: str, seed: int, first: int, cases: int, progress: bool = False) -> Tally:
    """Read inputs of these numbers."""
    count = {"read": 0, "refused": 0}
    failures = list[str]()
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome(reader, case(reader, seed, first))  # compiles kernels
        for number in range(first, first + cases):
            data = case(reader, seed, number)
            if number % 100 == 0:
                faulthandler.dump_traceback_later(HANGS, exit=True)
            result = outcome(reader, data)
            if result in count:
                count[result] += 1
            else:
                failures.append(
                    f"{reader}, seed {seed}, case {number}: {result[:200]}; input {_shown(data)}"
                )
                if progress:
                    print(failures[-1], flush=True)
            if progress and (number - first + 1) % 10_000 == 0:
                print(
                    f"{reader}: {number - first + 1:,} cases, {time.monotonic() - began:.0f} s",
                    flush=True,
                )
    faulthandler.cancel_dump_traceback_later()
    return Tally(count["read"], count["refused"], failures)


def _shown(data: Any) -> str:
    try:
        return repr(data)[:300]
    except ValueError:  # a number of too many digits
        return "of objects"


def main(arguments: list[str] | None = None) -> int:
    """Run one fuzzer, or all of them one after the other; 1 where an input was not handled."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.inputs", description="Odd inputs for every reader."
    )
    parser.add_argument("--reader", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=10_000)
    asked = parser.parse_args(arguments)
    failed = 0
    for reader in KINDS if asked.reader == "all" else [asked.reader]:
        began = time.monotonic()
        tally = run(reader, asked.seed, asked.first, asked.cases, progress=True)
        failed += len(tally.failures)
        print(
            f"{reader}: {asked.cases:,} cases from seed {asked.seed}: {tally.read:,} read, "
            f"{tally.refused:,} refused, {len(tally.failures):,} failures, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
