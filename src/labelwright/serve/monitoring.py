"""What a service counts, in the text format of Prometheus.

Rates show drift: confidence_sum / confidence_count is the mean confidence, unseen_tokens / tokens
the share of words that the training data lack."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
HELP = {
    "sentences": "Sentences that were labelled.",
    "tokens": "Tokens that were labelled.",
    "unseen_tokens": "Tokens whose word the training data lack.",
    "batches": "Calls of the model; requests that wait together share one.",
}
CONFIDENCE = "Per sentence P(labels) ** (1 / tokens), so that long sentences are not less sure."


class Counts:
    """What the thread of one model counts; nobody else writes it."""

    def __init__(self) -> None:
        self.values = dict.fromkeys(HELP, 0)
        self.confidence, self.confident = 0.0, 0  # a sum, and of how many sentences

    def add(
        self, sentences: Sequence[Sequence[Any]], sure: Sequence[float | None], unseen: int | None
    ) -> None:
        """Count one batch."""
        known = [each for each in sure if each is not None]
        self.confidence, self.confident = self.confidence + sum(known), self.confident + len(known)
        for name, n in zip(
            HELP, (len(sentences), sum(map(len, sentences)), unseen or 0, 1), strict=True
        ):
            self.values[name] += n


class Metrics:
    """What the service counts of all requests, and of each model."""

    def __init__(self, models: Sequence[str]):
        self.of_models = {name: Counts() for name in models}
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.within = [0] * (len(BUCKETS) + 1)  # requests by the bucket of their seconds
        self.seconds = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[path, status] += 1
        self.within[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    def text(self) -> str:
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests by path and status.")
        for (path, status), n in sorted(self.requests.items()):
            yield _line("requests_total", n, path=path, status=str(status))
        yield from _head("request_seconds", "histogram", "Seconds from a request to its answer.")
        for bound, n in zip([*map(str, BUCKETS), "+Inf"], accumulate(self.within), strict=True):
            yield _line("request_seconds_bucket", n, le=bound)
        yield _line("request_seconds_sum", round(self.seconds, 6))
        yield _line("request_seconds_count", sum(self.within))
        for name, text in HELP.items():
            yield from _head(f"{name}_total", "counter", text)
            for model, counts in self.of_models.items():
                yield _line(f"{name}_total", counts.values[name], model=model)
        yield from _head("confidence", "summary", CONFIDENCE)
        for model, counts in self.of_models.items():
            yield _line("confidence_sum", round(counts.confidence, 6), model=model)
            yield _line("confidence_count", counts.confident, model=model)


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP labelwright_{name} {text}", f"# TYPE labelwright_{name} {kind}"


def _line(name: str, value: float, **labels: str) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"labelwright_{name}{{{shown}}} {value}" if labels else f"labelwright_{name} {value}"


ESCAPES: Mapping[int, str] = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def _escaped(text: str) -> str:
    return text.translate(ESCAPES)
