"""The answers of one program with compiled kernels and without."""

import json
import os
import subprocess
import sys


def answers_both_ways(program, *arguments):
    """Run a program that prints {"compiled", "answers"} both ways; its answers, flattened: (compiled, plain)."""
    found = {}
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found[disabled] = json.loads(done.stdout)
    assert found["0"]["compiled"] is True
    assert found["1"]["compiled"] is False
    compiled, plain = (_flat(found[disabled]["answers"]) for disabled in ("0", "1"))
    assert len(compiled) == len(plain)
    return compiled, plain


def _flat(x):
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, list) else [x]
