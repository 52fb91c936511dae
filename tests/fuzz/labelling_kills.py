"""Kill `labelwright annotate` at random moments, and look for answers that are lost, or there
twice.

python -m tests.fuzz.labelling_kills --seed 0 --kills 100
"""

import argparse
import sys
import tempfile
import time

from killed_labelling import kill_and_go_on


def command() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kills", type=int, default=100)
    asked = options.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        mistakes, answers, said = kill_and_go_on(folder, asked.kills, asked.seed, told)
    print(
        f"{asked.kills + 1} kills, {answers} answers in the end, {time.monotonic() - begun:.0f} s, "
        f"said: {dict(said)}"
    )
    print(f"mistakes: {len(mistakes)}")
    for line in mistakes:
        print(f"  {line}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(command())
