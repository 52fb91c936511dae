"""Who labels what: sentences, answers, whom a sentence is lent to, and what is asked next.

Every method may be called by any thread; a lock makes them take turns."""

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from labelwright.corpus.annotations import corpus_of
from labelwright.corpus.spans import Span
from labelwright.corpus.tokenizer import Tokenizer
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.serve.bodies import RequestError
from labelwright.serve.labelled_file import Answer, LabelledFile
from labelwright.serve.learner import Judged, LearningProcess, Learnt, Report, Task
from labelwright.taggers.registry import load

LENT = 600.0  # seconds that a sentence is kept for a page that has asked for it
SECOND_LOOKS = 5  # of so many sentences at most one is a second look
LISTED = 50  # sentences that a search shows
TYPE = re.compile(r"[^\s|_][^\s|]{0,39}")
Facts = dict[str, Any]


def checked_type(name: str) -> str:
    """The name of a type of spans, which every file format can hold."""
    if not TYPE.fullmatch(name) or not name.isprintable():
        raise OptionError(
            f"{name!r:.60}: expected the name of a type, such as PER: up to 40 characters, no "
            "spaces"
        )
    return name


class Labelling:
    """A pool of sentences that is being labelled.

    types : names of types that the page offers
    seeds : words, with their type, that are marked as long as no model knows them
    base : the bytes of a model to begin with
    save : where each model is written"""

    def __init__(
        self,
        texts: Iterable[str],
        file: LabelledFile,
        types: Sequence[str] = (),
        seeds: Mapping[str, str] | None = None,
        tokenizer: Tokenizer | None = None,
        base: bytes | None = None,
        save: str | None = None,
    ):
        self.file, self.seeds, self.tokenizer, self.save = (
            file,
            dict(seeds or {}),
            tokenizer or Tokenizer(),
            save,
        )
        self.texts = list(dict.fromkeys([*texts, *file.answers]))
        self.numbers = {text: n for n, text in enumerate(self.texts)}
        self.by_id = {id_of(text): n for n, text in enumerate(self.texts)}
        self.tagger: Any = None if base is None else load(base)
        self.base = base
        self._types = dict.fromkeys([*types, *self.seeds.values()])
        if self.tagger is not None:
            self._types |= dict.fromkeys(
                sorted({label[2:] for label in self.tagger.classes_ if label[2:]})
            )
        for answer in file.answers.values():
            self._note_types(answer)
        self._lock = RLock()
        self._lent: dict[int, tuple[str, float]] = {}  # by sentence: the page, and until when
        self._skipped: dict[int, None] = {}
        self._looked_at: set[tuple[int, str]] = set()  # answers that were confirmed
        self._since_look = 0
        self._order: list[int] = []
        self._words = re.compile("|".join(map(re.escape, sorted(self.seeds, key=len)[::-1])))
        self._at_first = self._first_order()
        self._learnt: Learnt | None = None
        self._judged: Judged | None = None
        self._problem: str | None = None
        self._process: LearningProcess | None = None

    def _note_types(self, answer: Answer) -> None:
        self._types |= dict.fromkeys(kind for _, _, kind in answer.label)

    def _first_order(self) -> list[int]:
        """The order without a model: sentences with seed words of many types first, otherwise
        random."""
        order: list[int] = np.random.default_rng(0).permutation(len(self.texts)).tolist()
        return sorted(
            order, key=lambda n: -len({kind for _, _, kind in self._seeds_in(self.texts[n])})
        )

    def _seeds_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Seed words that are whole tokens."""
        if not self.seeds or not self._words.search(text):
            return
        begins, ends = map(set, zip(*self.tokenizer.tokens(text), strict=True))
        for match in self._words.finditer(text):
            if match.start() in begins and match.end() in ends:
                yield *match.span(), self.seeds[match[0]]

    # -- learning ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to learn from all answers that there are."""
        self._process = LearningProcess(
            Task(self.texts, self.base, self.tokenizer, self.save), self._heard
        )
        self._process.tell(
            {self.numbers[text]: answer for text, answer in self.file.answers.items()}
        )

    def stop(self) -> None:
        if (
            self._process is not None
            and not self._process.stop(120.0 if self.save else 1.0)
            and self.save
        ):
            self._problem = (
                f"{self.save}: learning was not done after two minutes; the last answers are not "
                "in it"
            )
        self.file.close()

    def _heard(self, report: Report) -> None:
        tagger = load(report.model).set_params(n_jobs=1) if isinstance(report, Learnt) else None
        if tagger is not None:
            tagger.predict_spans([["a"]])  # tables are made here, not while somebody waits
        with self._lock:
            if isinstance(report, Learnt):
                self.tagger, self._learnt, self._order = (
                    tagger,
                    report._replace(model=b""),
                    report.order,
                )
                self._problem = None
            elif isinstance(report, Judged):
                self._judged = report
            else:
                self._problem = report

    # -- questions ---------------------------------------------------------------------------------

    def state(self) -> Facts:
        """How far it is, and how good the model is."""
        with self._lock:
            learnt, judged = self._learnt, self._judged
            n_partial = sum(bool(answer.unknown) for answer in self.file.answers.values())
            facts: Facts = {
                "file": self.file.path.name,
                "types": list(self._types),
                "sentences": len(self.texts),
                "answered": len(self.file.answers),
                "partial": n_partial,
                "skipped": len(self._skipped),
                "second_looks": len(self._doubted()),
                "learnt": None if learnt is None else learnt.answers,
                "problem": self._problem,
                "score": None,
            }
            if judged is not None:
                facts["score"] = {
                    "f1": round(judged.f1, 4),
                    "deviation": round(judged.deviation, 4),
                    "answers": judged.answers,
                    "more": judged.more,
                }
            return facts

    def next(self, page: str, skip: str | None = None, look: bool = False) -> Facts:
        """The sentence that this page is to label next; with `look`, an answer that looks wrong.

        skip : the sentence that it is not to be"""
        with self._lock:
            if skip is not None:
                number = self._number(skip)
                self._lent.pop(number, None)
                self._pass_over(number)
            now = time.monotonic()
            self._lent = {n: lent for n, lent in self._lent.items() if lent[1] > now}
            doubts = {
                each["sentence"]: each
                for each in self._doubted()
                if self._lent.get(each["sentence"], (page,))[0] == page
            }
            mine = next((n for n, (whose, _) in self._lent.items() if whose == page), None)
            if doubts and (look or (mine is None and self._since_look >= SECOND_LOOKS)):
                mine, self._since_look = next(iter(doubts)), 0
            if mine is None:
                taken = self._lent.keys() | {self.numbers[text] for text in self.file.answers}
                mine, why = next(
                    ((n, why) for n, why in self._candidates() if n not in taken), (None, "")
                )
                self._since_look += 1
            else:
                why = "second look" if mine in doubts else "again"
            if mine is None:
                return {"id": None, "lent": len(self._lent)}
            self._lent[mine] = page, now + LENT
            return self._card(mine, why, doubts.get(mine))

    def _candidates(self) -> Iterator[tuple[int, str]]:
        yield from ((n, "uncertain") for n in self._order if n not in self._skipped)
        yield from ((n, "random") for n in self._at_first if n not in self._skipped)
        yield from ((n, "skipped") for n in self._skipped)

    def _pass_over(self, number: int) -> None:
        """Show a sentence after all others, and ask about its answer no more."""
        answer = self.file.answers.get(self.texts[number])
        if answer is None:
            self._skipped[number] = None
        else:
            self._looked_at.add((number, answer.tag))

    def _doubted(self) -> list[Facts]:
        """The doubts about answers that are still there, and that nobody has looked at again."""
        listed = []
        for each in () if self._judged is None else self._judged.doubts:
            answer = self.file.answers.get(self.texts[each["sentence"]])
            is_same = answer is not None and answer.tag == each["tag"]
            if is_same and (each["sentence"], each["tag"]) not in self._looked_at:
                listed.append(each)
        return listed

    def sentence(self, id: str) -> Facts:
        """A sentence that was searched for."""
        with self._lock:
            return self._card(self._number(id), "found")

    def search(self, text: str, answered: bool | None = None) -> Facts:
        """The sentences that hold a text; those alone that are answered, or that are not."""
        wanted, listed, n = text.casefold(), list[Facts](), 0
        with self._lock:
            for each in self.texts:
                is_answered = each in self.file.answers
                if wanted in each.casefold() and answered in (None, is_answered):
                    n += 1
                    if n <= LISTED:
                        listed.append({"id": id_of(each), "text": each, "answered": is_answered})
        return {"sentences": listed, "found": n}

    def answer(self, id: str, base: str | None, answer: Answer | None) -> Facts:
        """Keep an answer, or take the present one back; it is on the disk when this returns.

        base : the tag of the answer that this one was made from; another one that came meanwhile is
            not replaced"""
        with self._lock:
            number = self._number(id)
            text = self.texts[number]
            before = self.file.answers.get(text)
            if answer is not None:
                answer = self._checked(text, answer)
            # a second look, or a second attempt of a request whose reply was lost
            if before == answer:
                if answer is not None:
                    self._looked_at.add((number, answer.tag))
            else:
                if (None if before is None else before.tag) != base:
                    raise ConflictError(self._card(number, "conflict"))
                self.file.write(text, answer)
                if self._process is not None:
                    self._process.tell({number: answer})
            if answer is not None:
                self._note_types(answer)
                self._skipped.pop(number, None)
            self._lent.pop(number, None)
            return {"id": id, "tag": None if answer is None else answer.tag, "state": self.state()}

    # -- sentences ---------------------------------------------------------------------------------

    def _number(self, id: str) -> int:
        if id not in self.by_id:
            raise RequestError(404, f"id: no sentence {id!r:.40}; load the page again")
        return self.by_id[id]

    def _checked(self, text: str, answer: Answer) -> Answer:
        """An answer whose spans are whole tokens and lie in the text."""
        try:
            read = answer.read(text)
            for annotation in read.annotations or ():
                checked_type(annotation.type)
            wrong = corpus_of([read], "answer", tokenizer=self.tokenizer).notes
            if wrong or any(not 0 <= a < b <= len(text) for a, b in read.unknown):
                raise CorpusError(
                    f"answer: {wrong[0] if wrong else 'unknown: lies outside the text'}"
                )
        except LabelwrightError as error:
            raise RequestError(400, str(error)) from None
        return Answer(sorted(answer.label), sorted(answer.unknown))

    def _card(self, number: int, why: str, doubt: Facts | None = None) -> Facts:
        """All that the page shows of a sentence."""
        text = self.texts[number]
        places = self.tokenizer.tokens(text)
        answer = self.file.answers.get(text)
        facts = {
            "id": id_of(text),
            "text": text,
            "why": why,
            "tokens": [{"text": text[a:b], "start": a, "end": b} for a, b in places],
            "spans": self._proposed(text, places),
            "answer": None if answer is None else answer._asdict() | {"tag": answer.tag},
        }
        return facts if doubt is None else facts | {"doubt": doubt}

    def _proposed(self, text: str, places: list[tuple[int, int]]) -> list[Facts]:
        """What the model would mark, and seed words that it does not know."""
        words = [text[a:b] for a, b in places]
        spans: list[Span] = [] if self.tagger is None else self.tagger.predict_spans([words])[0]
        covered = {t for span in spans for t in range(span.start, span.end)}
        for start, end, kind in self._seeds_in(text):
            inside = [t for t, (a, b) in enumerate(places) if a < end and start < b]
            known = self.tagger is not None and all(
                self.tagger.knows([words[t] for t in inside]) or ()
            )
            if inside and not known and covered.isdisjoint(inside):
                spans = [*spans, Span(inside[0], inside[-1] + 1, kind)]
                covered.update(inside)
        return [
            {
                "label": s.type,
                "first": s.start,
                "last": s.end - 1,
                "probability": s.probability and round(s.probability, 6),
            }
            for s in sorted(spans)
        ]


class ConflictError(RequestError):
    """Somebody has answered meanwhile."""

    def __init__(self, card: Facts):
        super().__init__(409, "somebody has answered this sentence meanwhile")
        self.card = card


def id_of(text: str) -> str:
    """A name of a sentence that is the same after a restart."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
