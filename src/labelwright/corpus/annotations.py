"""Texts with annotated places in them, as doccano, Label Studio and BRAT have them: tokens with
labels in IOB2.

    doccano        {"text": "Ada Lovelace wrote", "label": [[0, 12, "PER"]]}  one object per line
                   {..., "unknown": [[13, 18]]}                               what was not looked at
    Label Studio   [{"data": {"text": ...},
                     "annotations": [{"result": [{"value": {"start": 0, ...}}]}]}, ...]
    BRAT           T1<tab>PER 0 12<tab>Ada Lovelace           .ann, the text beside it in .txt

Offsets count characters.  A Tokenizer splits texts into sentences of tokens.
"""

import itertools
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.corpus.compressed import Source, decoded, name_of, read_bytes
from labelwright.corpus.limits import check_size
from labelwright.corpus.partial_labels import BAR, UNKNOWN
from labelwright.corpus.spans import Span, labels_of
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import BOM, JsonLines, dumped, json_lines, parsed
from labelwright.corpus.tokenizer import Entity, Place, SplitTexts, Tokenizer, checked_text
from labelwright.errors import CorpusError
from labelwright.wording import counted

FIELDS = ("label", "labels", "entities", "spans")  # of JSON lines, with the annotations
WORDS = Tokenizer()
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "type")
SKIP = "correct it, or leave such annotations out with --skip-bad-spans (in Python: skip_bad_spans)"


class Annotation(NamedTuple):
    """A place in a text and its type."""

    start: int
    end: int
    type: str

    def __str__(self) -> str:
        return f"annotation {self.start}:{self.end} ({self.type})"


class AnnotatedText(NamedTuple):
    """A text and where it stands; without annotations (None) it is not labelled."""

    place: str
    text: str
    annotations: list[Annotation] | None
    unknown: Sequence[Place] = ()  # outside of annotations, nothing is known of these


class Annotated(NamedTuple):
    """The corpus that annotated texts make."""

    corpus: Corpus
    split: SplitTexts
    skipped: list[str]  # what is wrong with the annotations that were left out
    widened: list[str]  # with those that were widened to whole tokens

    @property
    def notes(self) -> list[str]:
        return notes_on(self.skipped, self.widened)


def notes_on(skipped: Sequence[str], widened: Sequence[str] = ()) -> list[str]:
    """What is to be said about annotations that were left out, and those that were widened."""
    told = (("left out", skipped), ("widened to whole tokens", widened))
    return [
        f"{counted(len(lines), 'annotation')} {what}; {lines[0]}" for what, lines in told if lines
    ]


def read_doccano(
    path: Source, skip_bad_spans: bool = False, tokenizer: Tokenizer = WORDS
) -> Corpus:
    """Read JSON lines with `text`, and `label`, `labels`, `entities` or `spans` with the annotated
    places, as doccano exports them.

    Annotations that cut a token are widened to whole tokens, and a warning counts them. Those that
    overlap or lie outside the text are errors. With `skip_bad_spans` all of them are left out.

    path : a path, plain or compressed, or a binary file object
    skip_bad_spans : leave out annotations that do not fit
    tokenizer : how texts are split into tokens and sentences

    >>> import io
    >>> corpus = read_doccano(io.BytesIO(b'{"text": "Ada ran.", "label": [[0, 3, "PER"]]}'))
    >>> corpus.X, corpus.y
    ([['Ada', 'ran', '.']], [['B-PER', 'O', 'O']])
    """
    return with_warnings(
        corpus_of(doccano_texts(json_lines(path)), name_of(path), skip_bad_spans, tokenizer)
    )


def read_label_studio(
    path: Source, skip_bad_spans: bool = False, tokenizer: Tokenizer = WORDS
) -> Corpus:
    """Read a Label Studio export (JSON or JSON-MIN): an array of tasks with a text and annotated
    places.

    Tasks without annotations are left out. Of several annotations of a task, the first that was not
    cancelled counts. Annotations that do not fit are treated as `read_doccano` does.

    path : a path, plain or compressed, or a binary file object
    skip_bad_spans : leave out annotations that do not fit
    tokenizer : how texts are split into tokens and sentences
    """
    source = name_of(path)
    texts = [
        text for text in label_studio_texts(tasks_of(path), source) if text.annotations is not None
    ]
    if not texts:
        raise CorpusError(f"{source}: no task has annotations; export annotated tasks")
    return with_warnings(corpus_of(texts, source, skip_bad_spans, tokenizer))


def with_warnings(read: Annotated) -> Corpus:
    """The corpus; what is to be said about it is a warning."""
    for note in read.notes:
        warnings.warn(f"{read.corpus.source}: {note}", UserWarning, stacklevel=3)
    return read.corpus


# -- from places in the text to labels of tokens ---------------------------------------------------


def corpus_of(
    texts: Sequence[AnnotatedText],
    source: str,
    skip_bad_spans: bool = False,
    tokenizer: Tokenizer = WORDS,
) -> Annotated:
    """Texts as a corpus with the columns word and, where they are annotated, label.  No sentence
    ends inside an annotation."""
    labelled = any(text.annotations is not None for text in texts)
    places, text_of, labels = list[list[Place]](), list[int](), list[list[str]]()
    skipped, widened = list[str](), list[str]()
    for number, given in enumerate(texts):
        item, outside = sound(given, skip_bad_spans)
        sentences = tokenizer(item.text)
        if labelled:
            spans, left_out, wider = _fitted(
                item, list(itertools.chain.from_iterable(sentences)), skip_bad_spans
            )
            skipped += left_out + outside
            widened += wider
            sentences = _uncut(sentences, spans)
            known = labels_of(spans, sum(map(len, sentences)))
            flat = iter(
                _opened(known, list(itertools.chain.from_iterable(sentences)), item.unknown)
            )
            labels += [list(itertools.islice(flat, len(sentence))) for sentence in sentences]
        places += sentences
        text_of += [number] * len(sentences)
    if not places:
        raise CorpusError(f"{source}: no tokens, expected texts")
    split = SplitTexts([item.text for item in texts], places, text_of)
    corpus = Corpus.from_sequences(split.words, labels or None, source=source).split_by(tokenizer)
    return Annotated(corpus, split, skipped, widened)


def sound(item: AnnotatedText, skip_bad_spans: bool) -> tuple[AnnotatedText, list[str]]:
    """A text without what marks no place in it, and what is wrong with that: an error, unless it is
    to be left out.  Whatever reads annotations asks this."""
    if item.annotations is None:
        return item, []
    annotations, unknown, wrong = list[Annotation](), list[Place](), list[str]()
    length = len(item.text)
    for annotation in item.annotations:
        problem = _misplaced(annotation.start, annotation.end, length)
        if problem is None and not annotation.type:
            problem = "has no type"
        if problem is None:
            annotations.append(annotation)
        else:
            wrong.append(f"{item.place}: the {annotation} {problem}")
    for start, end in item.unknown:
        problem = _misplaced(start, end, length)
        if problem is None:
            unknown.append((start, end))
        else:
            wrong.append(f"{item.place}: unknown: {problem}, got [{start}, {end}]")
    if wrong and not skip_bad_spans:
        raise CorpusError(f"{wrong[0]}; {SKIP}")
    return item._replace(annotations=annotations, unknown=unknown), wrong


def _misplaced(start: int, end: int, length: int) -> str | None:
    """Why this is no place in a text of so many characters."""
    text = f"the text of {counted(length, 'character')}"
    if start < 0 or end > length:
        return f"lies outside {text}"
    if end < start:
        return f"ends before it begins in {text}"
    if end == start:
        return f"marks nothing of {text}"
    return None


def _uncut(sentences: list[list[Place]], spans: Sequence[Span]) -> list[list[Place]]:
    """Sentences of a text, joined where a span reaches from one into the next."""
    joined: list[list[Place]] = []
    inside = {place for span in spans for place in range(span.start + 1, span.end)}
    begin = 0
    for sentence in sentences:
        if joined and begin in inside:
            joined[-1].extend(sentence)
        else:
            joined.append(list(sentence))
        begin += len(sentence)
    return joined


def _opened(labels: list[str], tokens: list[Place], unknown: Sequence[Place]) -> list[str]:
    """The labels of tokens in places of which nothing is known: any label, but none that continues
    an annotation."""
    starts = sorted({"O", *(f"B-{label[2:]}" for label in labels if label != "O")})
    opened = list(labels)
    for t, (label, (start, end)) in enumerate(zip(labels, tokens, strict=True)):
        if label == "O" and any(a < end and start < b for a, b in unknown):
            opened[t] = BAR.join(starts) if t and labels[t - 1] != "O" else UNKNOWN
    return opened


def _fitted(
    item: AnnotatedText, tokens: list[Place], skip_bad_spans: bool
) -> tuple[list[Span], list[str], list[str]]:
    """The annotations of a text as spans, and what is wrong with those that are left out and those
    that are widened: one that cuts a token is widened to whole tokens, unless it is to be left out
    or would overlap another.  The longer of two that overlap is one."""
    if item.annotations is None:
        raise CorpusError(
            f"{item.place}: not annotated, but other texts are; expected one of {', '.join(FIELDS)}"
        )
    spans, skipped, widened = list[Span](), list[str](), list[str]()
    stretches = [match.span() for match in re.finditer(r"\S+", item.text)]
    for annotation in sorted(item.annotations, key=lambda each: (each.start, -each.end)):
        place = f"{item.place}: the {annotation}"
        first, end, problem, cut = _fit(
            annotation, stretches, tokens, spans[-1].end if spans else 0
        )
        cuts = ""
        if cut is not None:
            a, b = cut
            # many may cut one long token
            token = item.text[a:b] if b - a <= 40 else f"{item.text[a : a + 40]}..."
            cuts = f"{place} cuts the token {token!r}"
        # widened, it would overlap another one
        if cuts and (skip_bad_spans or problem is not None):
            skipped.append(cuts)
        elif problem is None:
            spans.append(Span(first, end, annotation.type))
            widened += [cuts] if cuts else []
        elif skip_bad_spans:
            skipped.append(f"{place} {problem}")
        else:
            raise CorpusError(f"{place} {problem}; {SKIP}")
    return spans, skipped, widened


def _fit(
    annotation: Annotation, stretches: list[Place], tokens: list[Place], last: int
) -> tuple[int, int, str | None, Place | None]:
    """The tokens first..end that an annotation touches without the spaces at its ends, what is
    wrong with it, and the first token that it cuts.  Stretches have no spaces; tokens before `last`
    belong to others."""

    def touched(places: list[Place]) -> tuple[int, int]:
        """The first of places in their order that a..b touches, and the one behind the last."""
        return bisect_right(places, a, key=itemgetter(1)), bisect_left(places, b, key=itemgetter(0))

    a, b, _ = annotation
    first, end = touched(stretches)
    a, b = (max(a, stretches[first][0]), min(b, stretches[end - 1][1])) if first < end else (a, a)
    first, end = touched(tokens)
    if a >= b or first >= end:
        return 0, 0, "holds no token", None
    cut = (
        tokens[first]
        if tokens[first][0] < a
        else tokens[end - 1]
        if tokens[end - 1][1] > b
        else None
    )
    return first, end, "overlaps another one" if first < last else None, cut


# -- doccano ---------------------------------------------------------------------------------------


def doccano_texts(lines: JsonLines, fields: Sequence[str] = FIELDS) -> list[AnnotatedText]:
    """The texts of a doccano export; the first of these fields that is there has the
    annotations."""
    texts = []
    for n, item in enumerate(lines.objects):
        place = lines.place(n)
        text = checked_text(item.get("text"), f"{place}: text")
        field = next((name for name in fields if item.get(name) is not None), None)
        listed = None if field is None else _annotations(item[field], place, str(field))
        texts.append(AnnotatedText(place, text, listed, _unknown(item.get("unknown"), place)))
    return texts


def _unknown(entries: Any, place: str) -> list[Place]:
    """Places as [start, end]; a field of that name which holds something else is not ours."""
    if not isinstance(entries, list) or any(not isinstance(entry, list) for entry in entries):
        return []
    for entry in entries:
        if [type(part) for part in entry] != [int, int]:
            raise CorpusError(f"{place}: unknown: expected [start, end], got {_shown(entry)}")
    return [(start, end) for start, end in entries]


def _annotations(entries: Any, place: str, field: str) -> list[Annotation]:
    """Annotations as [start, end, type], or as objects."""
    if not isinstance(entries, list):
        raise CorpusError(
            f"{place}: {field}: expected a list of [start, end, type], got {_shown(entries)}"
        )
    annotations = []
    for entry in entries:
        parts = entry
        if isinstance(entry, dict):
            parts = [
                next((entry[name] for name in names if name in entry), None)
                for names in (STARTS, ENDS, TYPES)
            ]
            if isinstance(parts[2], list) and len(parts[2]) == 1:
                parts[2] = parts[2][0]
        if not isinstance(parts, list) or [type(part) for part in parts] != [int, int, str]:
            raise CorpusError(f"{place}: {field}: expected [start, end, type], got {_shown(entry)}")
        annotations.append(Annotation(*parts))
    return annotations


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.60}"


# -- Label Studio ----------------------------------------------------------------------------------


def tasks_of(path: Source) -> list[dict[str, Any]]:
    source = name_of(path)
    text = read_bytes(path).removeprefix(BOM)
    tasks = parsed(text, source) if text.strip() else []
    if not isinstance(tasks, list):
        raise CorpusError(f"{source}: expected a JSON array of tasks, as Label Studio exports it")
    for n, task in enumerate(tasks):
        if not isinstance(task, dict):
            raise CorpusError(
                f"{source}: task {n + 1}: expected an object with data and annotations, got "
                f"{_shown(task)}"
            )
    if not tasks:
        raise CorpusError(
            f"{source}: no tasks, expected a JSON array of them, as Label Studio exports it"
        )
    return tasks


def label_studio_texts(
    tasks: Sequence[dict[str, Any]], source: str, predicted: bool = False
) -> list[AnnotatedText]:
    """The texts of tasks, and their annotations, or the last predictions instead."""
    texts = []
    for n, task in enumerate(tasks):
        place = f"{source}: task {n + 1}" + (
            f" (id {task['id']})" if isinstance(task.get("id"), int) else ""
        )
        data, by_model = task.get("data"), task.get("predictions") if predicted else None
        if isinstance(data, dict):
            strings = [value for value in data.values() if isinstance(value, str)]
            text = checked_text(
                data.get("text", strings[0] if len(strings) == 1 else None), f"{place}: data.text"
            )
            has_predictions = isinstance(by_model, list) and by_model
            values = _results(
                task["predictions"][-1:] if has_predictions else task.get("annotations"), place
            )
        else:  # JSON-MIN
            text, values = checked_text(task.get("text"), f"{place}: text"), task.get("label")
        annotations = None
        if values is not None:
            annotations = _in_characters(_annotations(values, place, "annotations"), values, text)
        texts.append(AnnotatedText(place, text, annotations))
    return texts


def _results(annotations: Any, place: str) -> list[Any] | None:
    """The places that the first annotation which was not cancelled marks; None where there is
    none."""
    if annotations is not None and not isinstance(annotations, list):
        raise CorpusError(f"{place}: annotations: expected a list, got {_shown(annotations)}")
    for annotation in annotations or ():
        if isinstance(annotation, dict) and not annotation.get("was_cancelled"):
            results = annotation.get("result")
            if not isinstance(results, list):
                raise CorpusError(
                    f"{place}: annotations: expected a list `result`, got {_shown(results)}"
                )
            values = [result.get("value") for result in results if isinstance(result, dict)]
            return [
                value
                for value in values
                if isinstance(value, dict) and "start" in value and "labels" in value
            ]
    return None


def _in_characters(
    annotations: list[Annotation], values: Sequence[Any], text: str
) -> list[Annotation]:
    """Offsets in characters, where a browser counted UTF-16 code units: the annotated words tell
    which they are."""
    if not any(character > "\uffff" for character in text):
        return annotations
    words = [value.get("text") if isinstance(value, dict) else None for value in values]
    units = _units(text)
    moved = [
        Annotation(bisect_left(units, a), bisect_left(units, b), kind) for a, b, kind in annotations
    ]
    for counted_so in (annotations, moved):
        told = [
            (each, known)
            for each, known in zip(counted_so, words, strict=True)
            if isinstance(known, str)
        ]
        if all(
            b - a == len(known) and text.startswith(known, max(a, 0)) for (a, b, _), known in told
        ):
            return counted_so
    return annotations


def _units(text: str) -> list[int]:
    """How many UTF-16 code units are before each character, and in all."""
    return list(
        itertools.accumulate((2 if character > "\uffff" else 1 for character in text), initial=0)
    )


def with_predictions(
    tasks: Sequence[dict[str, Any]], predicted: Iterable[tuple[str, list[Entity]]]
) -> bytes:
    """The tasks with one more prediction each, as Label Studio imports them: the text and the
    predicted places."""
    extended = []
    for task, (text, entities) in zip(tasks, predicted, strict=True):
        before = task.get("predictions")
        results = [
            each
            for made in _objects(task.get("annotations"))
            for each in _objects(made.get("result"))
        ]
        named = next((each for each in results if isinstance(each.get("from_name"), str)), {})
        names = {
            "from_name": named.get("from_name", "label"),
            "to_name": str(named.get("to_name", "text")),
        }
        one = prediction(text, entities, names, "labelwright")
        extended.append(
            {**task, "predictions": [*(before if isinstance(before, list) else []), one]}
        )
    return dumped(extended, indent=2) + b"\n"


def label_studio_file(texts: Sequence[AnnotatedText]) -> bytes:
    """Annotated texts as tasks of Label Studio.  What is known in part is a prediction, to be
    completed there."""
    tasks = []
    names = {"from_name": "label", "to_name": "text"}
    for _, text, annotations, unknown in texts:
        task: dict[str, Any] = {"data": {"text": text}}
        if annotations is not None:
            one = prediction(
                text, [Entity(*each, "") for each in annotations], names, "labelwright"
            )
            task |= (
                {"predictions": [one]} if unknown else {"annotations": [{"result": one["result"]}]}
            )
        tasks.append(task)
    return dumped(tasks, indent=2) + b"\n"


def prediction(
    text: str, entities: Iterable[Entity], names: dict[str, str], version: str
) -> dict[str, Any]:
    """What a model predicts for a text, as Label Studio has it; it counts UTF-16 units."""
    units, result = _units(text), []
    for start, end, kind, _, probability in entities:
        score = {} if probability is None else {"score": round(float(probability), 6)}
        value = {
            "start": units[start],
            "end": units[end],
            "text": text[start:end],
            "labels": [kind],
        }
        result.append({**names, "type": "labels", **score, "value": value})
    return {"model_version": version, "result": result}


def _objects(values: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is something else."""
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


# -- BRAT: relations, events, attributes and notes are skipped -------------------------------------

_BLANKS = str.maketrans("\n\t\r", "   ")
_ENTITY = re.compile(r"T\S*\t(\S+) (\d{1,15} \d{1,15}(?:;\d{1,15} \d{1,15})*)(?:\t|$)")


def read_brat(
    path: str | Path, skip_bad_spans: bool = False, tokenizer: Tokenizer = WORDS
) -> Corpus:
    """Read a folder of BRAT stand-off (.txt and .ann files), or one text of it.

    Annotations that do not fit are treated as `read_doccano` does. One in several parts is read as
    one, from the first part to the last.

    path : a folder, or a .txt or .ann file
    skip_bad_spans : leave out annotations that do not fit
    tokenizer : how texts are split into tokens and sentences
    """
    return with_warnings(corpus_of(brat_texts(path), str(path), skip_bad_spans, tokenizer))


def brat_texts(path: str | Path) -> list[AnnotatedText]:
    """The texts of a folder in the order of their names, or one text; without an .ann file a text
    has no annotations."""
    if not isinstance(path, str | Path):
        raise CorpusError(f"expected the path of a folder or of a text, got {type(path).__name__}")
    place = Path(path)
    files = sorted(place.rglob("*.txt")) if place.is_dir() else [place.with_suffix(".txt")]
    if not files:
        raise CorpusError(
            f"{place}: is a folder, expected a file, or a folder with .txt and .ann files of BRAT"
        )
    n_read = 0  # of all files together: a folder is one input

    def read(file: Path) -> str:
        """The characters of a file, as BRAT counts them: line ends stay as they are."""
        nonlocal n_read
        data = read_bytes(file)
        n_read += len(data)
        check_size(n_read, str(place), held=False)
        return decoded(data, str(file))

    texts = []
    for file in files:
        text, ann = read(file), file.with_suffix(".ann")
        if ann.exists():
            texts.append(AnnotatedText(str(ann), text, list(_standoff(read(ann), ann))))
        else:
            texts.append(AnnotatedText(str(file), text, None))
    return texts


def _standoff(lines: str, file: Path) -> Iterator[Annotation]:
    for number, line in enumerate(lines.split("\n"), 1):
        if line.startswith("T"):
            match = _ENTITY.match(line)
            if match is None:
                raise CorpusError(
                    f"{file}:{number}: expected `T1<tab>TYPE START END<tab>TEXT`, got {line!r:.60}"
                )
            parts = [tuple(map(int, part.split())) for part in match[2].split(";")]
            starts, ends = zip(*parts, strict=True)
            whole = min(starts), max(ends)
            start, end = next(((a, b) for a, b in parts if a > b), whole)
            yield Annotation(start, end, match[1])


def brat_lines(entities: Iterable[Entity], first: int = 1) -> str:
    """Entities as the lines of an .ann file, numbered from `first`; a probability becomes a note.
    One that continues in the next line of the text is in several parts."""
    lines = list[str]()
    for number, entity in enumerate(entities, first):
        kind = re.sub(r"\s+", "_", entity.type) or "_"
        parts, begin = [], entity.start
        for line in entity.text.split("\n"):
            parts.append(f"{begin} {begin + len(line)}")
            begin += len(line) + 1
        lines.append(f"T{number}\t{kind} {';'.join(parts)}\t{entity.text.translate(_BLANKS)}\n")
        if entity.probability is not None:
            lines.append(f"#{number}\tAnnotatorNotes T{number}\t{entity.probability:.4f}\n")
    return "".join(lines)
