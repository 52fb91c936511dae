"""The answers of one program with compiled kernels and without."""

import json
import os
import subprocess
import sys


def answers_both_ways(program, *arguments):
    """Run a program that prints {"compiled", "answers"} both ways; its answers, flattened:
    (compiled, plain)."""
    found = {}
    for engine in ("compiled", "numpy"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            env={**os.environ, "LABELWRIGHT_ENGINE": engine},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found[engine] = json.loads(done.stdout)
    assert found["compiled"]["compiled"] is True
    assert found["numpy"]["compiled"] is False
    compiled, plain = (_flat(found[engine]["answers"]) for engine in ("compiled", "numpy"))
    assert len(compiled) == len(plain)
    return compiled, plain


def _flat(x):
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, list) else [x]
