"""Learning from answers while a person labels: another process, so that no request waits for it.

    answers -> fit -> rank what is left -> cross-validate -> a model, an order, a score, doubts

Each round learns from all answers: from zero by a CRF that starts where the one before ended,
otherwise by `partial_fit` on a copy of the given model.  The score is that of models that have not
seen the answers which they are scored on; the same models tell which answers look wrong, and models
of half of the answers what further ones are worth.
"""

import copy
import io
import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from labelwright.active.ranking import rank
from labelwright.active.suspicious import Doubt, judged
from labelwright.corpus.annotations import AnnotatedText, corpus_of
from labelwright.corpus.limits import LONGEST_VALUE, too_long
from labelwright.corpus.partial_labels import is_partial, left_open
from labelwright.corpus.spans import labels_of, spans_of
from labelwright.corpus.tokenizer import Tokenizer
from labelwright.errors import LabelwrightError, reason_of
from labelwright.evaluate.counts import count
from labelwright.search.folds import parts
from labelwright.serve.labelled_file import Answer
from labelwright.storage import replace_file
from labelwright.taggers.crf import CRF
from labelwright.taggers.registry import load

FOLDS = 5
FEWEST = 10  # answers that are scored
AGAIN = 1.1  # scored anew when there are so many times more answers
CANDIDATES = 2000  # sentences that are ranked in a round, drawn from all that are left
# of few answers it learns more than by entropies, which choose the longest sentences
MEASURE = "margin"
TOP = 50  # of them that are handed over
DOUBTFUL = 0.05  # answers with at most this score of doubt are looked at again,
ENOUGH = 50  # once there are so many answers: before, a model is often wrong,
ONE_IN = 20  # of which the most doubtful ones, one in so many, are handed over
DRAWS = 200  # of the bootstrap
NOT_JUDGED = ()  # no complete answer has a span
POINT = 0.01  # of F1
NICENESS = 10
ENDED = (EOFError, OSError, pickle.UnpicklingError)  # of reading what a process that is gone wrote


class Task(NamedTuple):
    """What the process is given once."""

    texts: list[str]
    base: bytes | None  # a model to begin with
    tokenizer: Tokenizer
    save: str | None  # where to write each model


class Learnt(NamedTuple):
    """A model of the answers so far, and what it would like to know."""

    model: bytes
    answers: int
    order: list[int]  # numbers of sentences, the one that is worth most first


class Judged(NamedTuple):
    """How good models are on answers that they have not seen."""

    answers: int  # that were scored
    f1: float
    deviation: float  # of a bootstrap over sentences
    more: int | None  # answers until another point of F1, if further ones still help
    doubts: list[dict[str, Any]]


Report = Learnt | Judged | str  # or why nothing could be learnt
Sentences = tuple[list[list[str]], list[list[Any]]]


class Learner:
    """What the process knows."""

    def __init__(self, task: Task):
        self.task = task
        self.base: Any = None if task.base is None else load(task.base)
        self.model: Any = None
        self.answers: dict[int, Answer] = {}
        self.rng = np.random.default_rng(0)
        self.scored = 0  # answers at the last cross-validation

    @property
    def is_learnable(self) -> bool:
        return self.base is not None or any(answer.label for answer in self.answers.values())

    def learn(self) -> Learnt:
        """A model of all answers, and the sentences that it is least sure of."""
        if self.answers:
            self.model = self._fitted(self._sentences()[:2], self.model)
            self.model._remember_tokenizer(self.task.tokenizer)
        else:
            self.model = copy.deepcopy(self.base)
        content = io.BytesIO()
        self.model.save(content)
        return Learnt(content.getvalue(), len(self.answers), self._order())

    def reports(self) -> Iterator[Report]:
        """Learn, and then write the model; one that cannot be written is no reason to stop."""
        yield (learnt := self.learn())
        try:
            if self.task.save is not None:
                replace_file(Path(os.path.realpath(self.task.save)), learnt.model)
        except OSError as error:
            yield f"--save: {self.task.save}: cannot be written: {reason_of(error)}"

    def _fitted(self, sentences: Sentences, before: Any = None) -> Any:
        if self.base is not None:
            return copy.deepcopy(self.base).partial_fit(*sentences)
        return CRF(template="ner", n_jobs=1).fit(*sentences, init=before)

    def _order(self) -> list[int]:
        left = [n for n in range(len(self.task.texts)) if n not in self.answers]
        if len(left) > CANDIDATES:
            left = self.rng.choice(left, CANDIDATES, replace=False).tolist()
        words = [words_of(self.task.texts[n], self.task.tokenizer) for n in left]
        return [left[each.sentence] for each in rank(self.model, words, MEASURE, top=TOP)]

    def _sentences(self) -> tuple[list[list[str]], list[list[Any]], list[tuple[int, int]]]:
        """Words and labels of all answers, and the answer and first token that each sentence begins
        with."""
        numbers = list(self.answers)
        texts: list[AnnotatedText] = [self.answers[n].read(self.task.texts[n]) for n in numbers]
        read = corpus_of(texts, "answers", tokenizer=self.task.tokenizer)
        y, begins, t = left_open(read.corpus.y), list[tuple[int, int]](), 0
        for k, (number, places) in enumerate(
            zip(read.split.text_of, read.split.places, strict=True)
        ):
            t = t if k and read.split.text_of[k - 1] == number else 0
            begins.append((numbers[number], t))
            t += len(places)
        scheme = "iob2" if self.base is None else self.base.scheme_
        return read.split.words, [in_scheme(labels, scheme) for labels in y], begins

    # -- how good it is ----------------------------------------------------------------------------

    @property
    def is_to_be_judged(self) -> bool:
        return len(self.answers) >= max(FEWEST, AGAIN * self.scored) and self.model is not None

    def judge(self) -> Iterator[Judged | None]:
        """Cross-validate, and say so at the end; None after each model, so that learning need not
        wait."""
        self.scored, tags = (
            len(self.answers),
            {number: answer.tag for number, answer in self.answers.items()},
        )
        X, y, begins = self._sentences()
        complete = {n for n, labels in enumerate(y) if not any(map(is_partial, labels))}
        predicted: dict[int, list[str]] = {}
        by_half: dict[int, list[str]] = {}
        doubts: list[tuple[float, dict[str, Any]]] = []
        for train, test in parts(len(X), FOLDS, 0):
            rows = test.tolist()
            tested, gold = [X[n] for n in rows], [y[n] for n in rows]
            for part, predictions in (
                (train, predicted),
                (np.sort(self.rng.permutation(train)[::2]), by_half),
            ):
                known = [y[n] for n in part.tolist()]
                if self.base is None and not any(
                    label not in ("O", None) for labels in known for label in labels
                ):
                    predictions |= {n: ["O"] * len(X[n]) for n in rows}
                    continue
                model = self._fitted(([X[n] for n in part.tolist()], known))
                if predictions is by_half:
                    predictions |= dict(zip(rows, model.predict(tested), strict=True))
                    continue
                ask = partial(judged, "", gold, "span")
                for n, held in zip(rows, model._ask_outputs(tested, ask)[""], strict=True):
                    predictions[n] = held.labels
                    doubts += [
                        (each.score, doubt_facts(each, tags[begins[n][0]], *begins[n]))
                        for each in held.doubts
                    ]
                yield None
        rows = sorted(complete)
        gold = [y[n] for n in rows]
        if not any(label != "O" for labels in gold for label in labels):
            return
        counts = count(gold, [predicted[n] for n in rows]).by_sentence()
        half = f1_of(count(gold, [by_half[n] for n in rows]).by_sentence().sum(axis=0))
        drawn = [
            f1_of(counts[self.rng.integers(0, len(counts), len(counts))].sum(axis=0))
            for _ in range(DRAWS)
        ]
        whole, size = f1_of(counts.sum(axis=0)), (1 - 1 / FOLDS) * len(X)
        slope = (whole - half) / math.log(2)  # F1 grows with the logarithm of the number of answers
        more = round(size * math.expm1(POINT / slope)) if slope > POINT / 10 else None
        doubts.sort(key=lambda pair: pair[0])
        most = len(X) // ONE_IN if self.scored >= ENOUGH else 0
        wrong = [facts for score, facts in doubts[:most] if score <= DOUBTFUL]
        yield Judged(len(rows), whole, float(np.std(drawn)), more, wrong)


def words_of(text: str, tokenizer: Tokenizer) -> list[str]:
    return [text[a:b] for a, b in tokenizer.tokens(text)]


def in_scheme(labels: list[Any], scheme: str) -> list[Any]:
    """Labels of IOB2 in the scheme of a model; what is open stays open."""
    if scheme == "iob2":
        return labels
    known = ["O" if is_partial(label) else label for label in labels]
    new = labels_of(spans_of(known), len(labels), scheme)
    return [None if is_partial(label) else name for label, name in zip(labels, new, strict=True)]


def f1_of(counts: Any) -> float:
    """F1 of the numbers of gold, predicted and correct spans."""
    gold, predicted, correct = counts.tolist()
    return 2 * correct / (gold + predicted) if gold + predicted else 1.0


def doubt_facts(doubt: Doubt, tag: str, number: int, begin: int) -> dict[str, Any]:
    """A doubt about the answer of this tag, in tokens of its text."""

    def fact(span: Any) -> dict[str, Any] | None:
        return span and {
            "label": span.type,
            "first": begin + span.start,
            "last": begin + span.end - 1,
        }

    facts = {
        "sentence": number,
        "tag": tag,
        "gold": fact(doubt.gold),
        "suggested": fact(doubt.suggested),
    }
    return facts | {
        "probability": doubt.probability,
        "suggested_probability": doubt.suggested_probability,
    }


# -- the process -----------------------------------------------------------------------------------


def work() -> None:
    """Learn for the service that has started this process, until it ends."""
    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not get among the reports

    def tell(report: Report) -> None:
        pickle.dump(report, out)
        out.flush()

    try:
        _learn(tell)
    except BrokenPipeError:  # the service is gone
        os._exit(0)  # at a usual end Python aborts if the other thread is about to read


def _learn(tell: Callable[[Report], None]) -> None:
    """Learn whenever answers come, until there are none to come; in between, cross-validate."""
    waiting: SimpleQueue[dict[int, Answer | None] | None] = SimpleQueue()
    try:
        task: Task = pickle.load(sys.stdin.buffer)  # noqa: S301  from the service
    except ENDED:  # which was killed meanwhile
        return
    learner = Learner(task)
    Thread(target=_listen, args=(waiting,), daemon=True).start()
    judging: Iterator[Judged | None] | None = None
    is_new, more = learner.base is not None, True
    while more or is_new:
        try:
            while more:
                given = waiting.get(block=not is_new and judging is None)
                more = given is not None
                is_new = is_new or bool(given)
                for number, answer in (given or {}).items():
                    learner.answers.pop(number, None)
                    learner.answers |= {} if answer is None else {number: answer}
        except Empty:
            pass
        try:
            if is_new and learner.is_learnable and (more or learner.task.save is not None):
                for report in learner.reports():
                    tell(report)
            is_new = False
            if more and judging is None and learner.is_to_be_judged:
                judging = learner.judge()
            if judging is not None and (judgement := next(judging, NOT_JUDGED)) is not None:
                judging = None
                if isinstance(judgement, Judged):
                    tell(judgement)
        except BrokenPipeError:
            raise
        except Exception as error:
            is_new, judging = False, None
            tell(
                str(error)
                if isinstance(error, LabelwrightError)
                else f"{type(error).__name__}: {error}"
            )


def _listen(waiting: "SimpleQueue[dict[int, Answer | None] | None]") -> None:
    try:
        while True:
            waiting.put(pickle.load(sys.stdin.buffer))  # noqa: S301
    except ENDED:  # the service is gone
        waiting.put(None)


class LearningProcess:
    """The process as the service sees it; `heard` is called with each report by a thread."""

    def __init__(self, task: Task, heard: Callable[[Report], None]):
        command = [sys.executable, "-P", "-c", "from labelwright.serve.learner import work; work()"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._is_killed = False
        self._waiting: SimpleQueue[Any] = SimpleQueue()
        self._waiting.put(task)
        self._threads = [
            Thread(target=self._write, daemon=True),
            Thread(target=self._read, args=[heard], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, answers: dict[int, Answer | None]) -> None:
        """Hand over answers, new ones and those that are taken back."""
        self._waiting.put(answers)

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            while (item := self._waiting.get()) is not None:
                pickle.dump(item, self._process.stdin)
                self._process.stdin.flush()
            self._process.stdin.close()
        except OSError:  # it has ended, which the other thread tells
            pass

    def _read(self, heard: Callable[[Report], None]) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                heard(pickle.load(self._process.stdout))  # noqa: S301
        except ENDED:
            code = self._process.wait()
            if code and not self._is_killed:
                heard(
                    f"learning has ended (status {code}); answers are kept, start again to go on "
                    "learning"
                )

    def stop(self, seconds: float) -> bool:
        """End it, and say whether it has ended by itself; with a model to save it may learn the
        last answers before."""
        self._waiting.put(None)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._is_killed = True
            self._process.kill()
        self._threads[1].join()  # all reports are heard
        return not self._is_killed


def sentences_in(texts: Sequence[str], tokenizer: Tokenizer, name: str = "texts") -> list[str]:
    """The distinct sentences of texts, in their order, as they are written.  A token that no model
    takes is refused: errors call the texts `name`."""
    sentences = dict[str, None]()
    for text in texts:
        for places in tokenizer(text):
            longest = max(b - a for a, b in places)
            if longest > LONGEST_VALUE:
                raise too_long(name, longest)
            sentences[text[places[0][0] : places[-1][1]]] = None
    return list(sentences)
