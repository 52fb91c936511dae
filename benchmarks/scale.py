"""Training over partitions on this machine, against the same without a cluster: seconds, bytes,
memory, equality.

python benchmarks/scale.py FILE [--iterations 20] [--share 1.0] [--size BYTES]

FILE has the columns word, label, xpos, as AMALGUM has.
"""

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from labelwright import CRF, read_columns
from labelwright.corpus import write_columns
from labelwright.scale import Partitions, connected, held

MB = 1e6


def count_writes() -> None:
    """From here on, every message that this process sends over TCP is counted."""
    from distributed.comm.tcp import TCP

    if hasattr(TCP, "written"):
        return
    TCP.written, send = 0, TCP.write

    async def write(self: Any, *arguments: Any, **named: Any) -> int:
        n = await send(self, *arguments, **named)
        TCP.written += n
        return n

    TCP.write = write


def written() -> int:
    from distributed.comm.tcp import TCP

    return TCP.written


def time_evaluations() -> None:
    """From here on, this process notes how long it evaluates partitions, in wall-clock and CPU
    time."""
    if hasattr(held, "spent"):
        return
    held.spent, evaluate = [], held.evaluate

    def timed(number: int, *given: Any) -> Any:
        began, cpu = time.perf_counter(), time.thread_time()
        result = evaluate(number, *given)
        held.spent.append((time.perf_counter() - began, time.thread_time() - cpu))
        return result

    held.evaluate = timed


def spent() -> tuple[float, float]:
    seconds, cpu = (
        (sum(column) for column in zip(*held.spent, strict=True)) if held.spent else (0.0, 0.0)
    )
    held.spent.clear()
    return seconds, cpu


def peak() -> float:
    """The most memory of this process, in MB (Linux); that of getrusage begins with what its parent
    had."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1e3


def evaluate(*given: Any) -> Any:  # looked up on the worker, where it is timed
    return held.evaluate(*given)


def on_cluster(path: Path, n: int, iterations: int, size: int | None) -> tuple[Any, str]:
    """A model trained by so many workers, and how that went."""
    from labelwright.scale import training

    with connected(f"local:{n}") as client:
        count_writes()
        for function in (count_writes, time_evaluations):
            client.run(function)
        moments: list[tuple[float, int, float, float]] = []

        def progress(record: Any, most: int) -> None:
            by_worker = client.run(spent).values()
            sent = written() + sum(client.run(written).values())
            busiest, cpu = (
                max(seconds for seconds, _ in by_worker),
                sum(cpu for _, cpu in by_worker),
            )
            moments.append((time.perf_counter(), sent, busiest, cpu))

        training.held.evaluate, whole = evaluate, training.held.evaluate
        begun = time.perf_counter()
        model = CRF(max_iter=iterations, tol=0, n_jobs=1)
        model.fit(Partitions(str(path), "word,label", size=size), client=client, progress=progress)
        training.held.evaluate = whole
        steps = list(pairwise(moments))
        each = [b[0] - a[0] for a, b in steps]
        sent = statistics.median(b[1] - a[1] for a, b in steps)
        outside = 1 - sum(b[2] for _, b in steps) / sum(each)
        memory = max(client.run(peak).values())
        cpu = statistics.median(b[3] for _, b in steps)
        told = (
            f"{n} workers: first loss after {moments[0][0] - begun:.1f} s; an iteration takes "
            f"{statistics.median(each):.2f} s ({cpu:.2f} s of CPU time in workers), "
            f"{100 * outside:.0f} % outside the busiest worker, {sent / MB:.1f} MB sent "
            f"({len(model.weights_) * 4 / MB:.1f} MB of weights); {memory:,.0f} MB in the largest "
            f"worker, {peak():,.0f} MB here"
        )
        return model, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--size", type=int, help="bytes of a partition")
    parser.add_argument("--share", type=float, default=1.0)
    asked = parser.parse_args()
    corpus = read_columns(asked.file, "word,label,xpos", label="label").select(["word", "label"])
    corpus = corpus.take(slice(0, int(asked.share * len(corpus))))
    print(f"{corpus.n_tokens:,} tokens, {len(corpus.values('label'))} labels", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_columns(corpus, path)
        models = []
        for n in (1, 2):
            model, told = on_cluster(path, n, asked.iterations, asked.size)
            models.append(model)
            print(told, flush=True)
        moments = list[tuple[float, float]]()
        here = CRF(max_iter=asked.iterations, tol=0, n_jobs=1)
        here.fit(
            corpus,
            progress=lambda record, most: moments.append(
                (time.perf_counter(), time.process_time())
            ),
        )
        each, cpu = (statistics.median(b[i] - a[i] for a, b in pairwise(moments)) for i in range(2))
        print(
            f"one thread, no cluster: {each:.2f} s an iteration ({cpu:.2f} s of CPU time), "
            f"{peak():,.0f} MB by now"
        )
        same = models[0].weights_.tobytes() == models[1].weights_.tobytes()
        losses = [model.history_[-1]["loss"] for model in (*models, here)]
        print(f"1 and 2 workers: the same bits: {same}; losses after as many iterations {losses}")
        sample = corpus.take(slice(0, 2000))
        labels = [
            [label for x in model.predict(sample) for label in x] for model in (models[1], here)
        ]
        equal = statistics.mean(a == b for a, b in zip(*labels, strict=True))
        print(f"labels that the two models give alike: {100 * equal:.3f} %")


if __name__ == "__main__":
    main()
