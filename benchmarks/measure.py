"""What all sides of the benchmark share: fresh processes, the seconds of each step, peak memory."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


class Laps(dict[str, float]):
    """Seconds of each step, named when it ends."""

    def __init__(self, begun: float):
        super().__init__(imports=time.time() - begun)
        self._last = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        self[name], self._last = now - self._last, now


def ask(side: str, task: str, /, environment: Job | None = None, **job: Any) -> Job:
    """Run one task of one side in a process of its own, and return what it measured.

    The caller must stay small: a process inherits the peak memory of the one that started it."""
    job |= {"task": task, "begun": time.time()}
    command = [
        sys.executable,
        str(Path(__file__).with_name(f"{side}.py")),
        json.dumps(job, default=str),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        raise SystemExit(
            f"{side} {task}: failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    answer: Job = json.loads(done.stdout.splitlines()[-1])
    return answer


def serve(tasks: dict[str, Callable[[Laps, Job], Job]]) -> None:
    """The other end of `ask`: do the task that the command line holds, print its measures as one
    line of JSON."""
    job = json.loads(sys.argv[1])
    laps = Laps(job["begun"])
    found = tasks[job["task"]](laps, job)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    print(json.dumps({**found, "seconds": laps, "peak": peak}))
