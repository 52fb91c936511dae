"""Kill training at random moments, resume it, and compare the weights with those of an
uninterrupted run.

python -m tests.fuzz.kills --seed 0 --kills 100
"""

import argparse
import sys
import tempfile
import time

from killed_runs import TAGGERS, Killing


def command() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--taggers", nargs="+", choices=list(TAGGERS), default=list(TAGGERS))
    asked = options.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        killing = Killing(folder, asked.seed)
        outcome = killing.kills(
            asked.kills, asked.taggers, lambda line: print(line, file=sys.stderr, flush=True)
        )
    print(
        f"seed {asked.seed}: {sum(outcome.kills.values())} kills of {len(outcome.taggers)} taggers"
    )
    print(f"signals: {dict(outcome.kills)}; {outcome.by_call} of them at a system call of saving")
    print(f"exit statuses: {dict(outcome.statuses)}")
    print(
        f"{outcome.runs} processes, {outcome.resumed} of them from a checkpoint, "
        f"{time.monotonic() - begun:.0f} s"
    )
    print(f"mistakes: {len(outcome.mistakes)}")
    for line in outcome.mistakes:
        print(f"  {line}")
    return 1 if outcome.mistakes else 0


if __name__ == "__main__":
    sys.exit(command())
