"""Requests that wait for the same model are answered together.

One thread for each model takes all requests that wait, asks the model once about the sentences of
those with the same options, and gives each its part.  While it works, the next ones gather: under
load batches grow by themselves, and without load no request waits for another."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from labelwright.errors import LabelwrightError
from labelwright.serve.bodies import Asked, Explained, Options, RequestError
from labelwright.serve.models import Served
from labelwright.serve.monitoring import Counts
from labelwright.serve.replies import (
    Facts,
    Question,
    Source,
    explained,
    read,
    sentence_fact,
    sureness,
    unseen_tokens,
)
from labelwright.taggers.arguments import counted_from

LOG = logging.getLogger("labelwright.serve")
MOST_WAITING = 1024  # requests; further ones are refused
MOST_TOGETHER = 64  # requests of a batch: the first answers do not wait for many others
ENOUGH = 100_000  # characters of a batch
Place = tuple[int, int]  # the number of a request, and of one of its sentences


class Limits(NamedTuple):
    """What a service takes."""

    max_tokens: int = 10_000  # of a request
    max_bytes: int = 2_000_000  # of its body
    timeout: float = 30.0  # seconds until it is refused


class Job(NamedTuple):
    """A request that waits."""

    asked: Asked
    about: Options | Explained
    future: "asyncio.Future[Any]"
    deadline: float  # a time of the loop
    shape: Callable[[Facts], Any] | None  # makes the answer about a sentence of the facts

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.future.done()

    @property
    def seconds_left(self) -> float:
        return self.deadline - self.future.get_loop().time()


class Worker:
    """The thread of one model."""

    def __init__(self, served: Served, limits: Limits, counts: Counts):
        self.served, self.limits, self.counts = served, limits, counts
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=f"labelwright-{served.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, then end."""
        self._waiting.put(None)
        self._thread.join(self.limits.timeout)

    async def answer(
        self,
        asked: Asked,
        about: Options | Explained,
        deadline: float | None = None,
        shape: Callable[[Facts], Any] | None = None,
    ) -> Any:
        """What the model answers, in turn.

        deadline : until when, a time of the loop; the time-out from now where it is None
        shape : called with the facts about each sentence, in the thread of the model"""
        if self._waiting.qsize() >= MOST_WAITING:
            raise RequestError(503, "too many requests are waiting; try again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if deadline is None:
            deadline = loop.time() + self.limits.timeout
        self._waiting.put(Job(asked, about, future, deadline, shape))
        refusal = loop.call_at(deadline, self._refuse, future)
        try:
            return await future
        finally:
            refusal.cancel()

    def _refuse(self, future: "asyncio.Future[Any]") -> None:
        if not future.done():
            line = f"no answer within {self.limits.timeout:g} seconds; send less text"
            future.set_exception(RequestError(503, line))

    def _work(self) -> None:
        more = True
        while more:
            jobs, more = self._taken()
            jobs = [job for job in jobs if not job.is_over]
            if jobs:
                self._answer(jobs)

    def _taken(self) -> tuple[list[Job], bool]:
        """The next requests, as many as are answered together; False after the last."""
        jobs, size, job = list[Job](), 0, self._waiting.get()
        with suppress(Empty):
            while job is not None:
                jobs.append(job)
                size += job.asked.size
                if len(jobs) >= MOST_TOGETHER or size >= ENOUGH:
                    return jobs, True
                job = self._waiting.get_nowait()
            return jobs, False
        return jobs, True

    def _answer(self, jobs: Sequence[Job]) -> None:
        # one model for all, whatever is loaded meanwhile
        model, groups = self.served.tagger, dict[Any, list[Job]]()
        for job in jobs:
            groups.setdefault(job.about if isinstance(job.about, Options) else id(job), []).append(
                job
            )
        for group in groups.values():
            _deliver(group, self._of_group(model, group))

    def _of_group(self, model: Any, jobs: Sequence[Job]) -> list[Any]:
        """The answers, or errors, of requests with the same options; where one spoils the others,
        each by itself."""
        try:
            return self._together(model, jobs)
        except Exception as error:
            if len(jobs) > 1:
                return [answer for job in jobs for answer in self._of_group(model, [job])]
            return [error]

    def _together(self, model: Any, jobs: Sequence[Job]) -> list[Any]:
        sources: list[Source] = [read(model, job.asked, self.limits.max_tokens) for job in jobs]
        about = jobs[0].about
        if isinstance(about, Explained):
            return [explained(model, sources[0], about)]
        question = Question(model, about)
        listed: list[list[Any]] = [[] for _ in jobs]
        asked: list[list[Any]] = []
        sure: list[Any] = []
        for piece in _pieces(sources, question.at_once):
            waiting = [place for place in piece if not jobs[place[0]].is_over]
            if waiting:
                records = self._ask(question, jobs, sources, waiting, listed)
                asked += [sources[j].words[n] for j, n in waiting]
                sure += [sureness(record) for record in records]
        self.counts.add(asked, sure, unseen_tokens(model, asked))
        return listed

    def _ask(
        self,
        question: Question,
        jobs: Sequence[Job],
        sources: Sequence[Source],
        places: Sequence[Place],
        listed: list[list[Any]],
    ) -> list[Any]:
        """Ask about the sentences at these places, and list what the answers become; returns the
        records of the labellings."""
        sentences = [sources[j].words[n] for j, n in places]
        seconds = max(jobs[j].seconds_left for j, _ in places)
        try:
            answers = question.ask(sentences, seconds)
        except LabelwrightError as error:  # of several requests, each is asked by itself then
            raise counted_from(places[0][1], error) from None
        for row, (j, n) in enumerate(places):
            fact = sentence_fact(question, sources[j], n, answers, row)
            shape = jobs[j].shape
            listed[j].append(fact if shape is None else shape(fact))
        return [answer.decoding for answer in answers[question.output]]


def _pieces(sources: Sequence[Source], most: int) -> Iterator[list[Place]]:
    """All sentences in order, about so many tokens at once; an empty one counts as one."""
    piece, size = list[Place](), 0
    for number, source in enumerate(sources):
        for n, words in enumerate(source.words):
            piece.append((number, n))
            size += max(1, len(words))
            if size >= most:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


def _deliver(jobs: Sequence[Job], answers: Sequence[Any]) -> None:
    """Hand the answers to the thread of the service, all at once."""

    def deliver() -> None:
        for job, answer in zip(jobs, answers, strict=True):
            if not job.future.done():
                if isinstance(answer, Exception):
                    job.future.set_exception(answer)
                else:
                    job.future.set_result(answer)

    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, LabelwrightError):
            LOG.error("unexpected error, a mistake of ours", exc_info=answer)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        jobs[0].future.get_loop().call_soon_threadsafe(deliver)
