"""labelwright inspect of memory-based models: what is remembered, what columns weigh, and why a token has its label."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from labelwright.cli.common import aligned, counted, heading, inputs_of, percent, read_for, show
from labelwright.cli.layout import (
    BAR,
    bar,
    calibration_text,
    label_row,
    score_text,
    show_rows,
    show_text,
    size_of_data,
    template_row,
)
from labelwright.errors import OptionError
from labelwright.structures.ngrams import gram_name
from labelwright.wording import shortened

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

PLACE = re.compile(r"(.+)\[(-?\d+)\]")  # a column that is one of the file's columns at one place
WEIGHTS = 50  # columns whose weights are written out
LONG = 20  # letters of a word in a table
OUTSIDE = "_"


# -- the model --------------------------------------------------------------------------------------------------------


def show_facts(facts: dict[str, Any], path: str) -> None:
    """All facts about a memory-based model as text."""
    settings, tagger = facts["parameters"], facts["labels_sentences"]
    heading(f"{path}: {'memory-based tagger' if tagger else 'memory-based classifier'}")
    show_rows(
        [
            ("settings", _settings(settings)),
            *([("inference", _inference(settings))] if tagger else []),
            ("classes", f"{facts['classes']:,} {gram_name(settings['ngram'])}" if tagger else f"{facts['classes']:,}"),
            ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
            *([("scheme", facts["scheme"] or "none")] if tagger else []),
            *_columns(facts),
            ("memory", _memory(facts["memory"], settings["algorithm"])),
            *_training(facts["training"], facts["scheme"]),
            *_confidence(facts["training"].get("calibration")),
        ]
    )
    _show_weights(facts["feature_weights"], settings["weights"])
    if tagger and facts["columns"]:
        show()
        show("why a token has its label: add --data FILE --token N")


def _show_weights(weights: Sequence[dict[str, Any]], setting: Any) -> None:
    """The weights of the columns, the heaviest first, with bars."""
    show()
    heading(f"weights of columns ({setting if isinstance(setting, str) else 'as given'})")
    rows = sorted(weights, key=lambda row: -row["weight"])
    width, highest = max(len(row["column"]) for row in rows), max(row["weight"] for row in rows)
    for row in rows[:WEIGHTS]:
        show(f"  {row['column']:<{width}}  {row['weight']:10.4f}  {bar(row['weight'], highest)}".rstrip())
    if len(rows) > WEIGHTS:
        show(f"  ... and {len(rows) - WEIGHTS:,} more, with --json all")


def _inference(settings: dict[str, Any]) -> str:
    lengths = settings["lengths"]
    some = "" if lengths is None else f", of length {' and '.join(map(str, lengths))}"
    return f"{settings['inference']}, constraints weighted by {settings['weighting']}{some}"


def _settings(settings: dict[str, Any]) -> str:
    """The settings that say how neighbours are found."""
    shown = {"weights": settings["weights"]}
    if settings["algorithm"] == "ib1":
        shown = {"k": settings["k"], "metric": settings["metric"], **shown, "votes": settings["votes"]}
        metrics = [settings["metric"]] if isinstance(settings["metric"], str) else settings["metric"]
        if set(metrics) - {"overlap", "numeric"}:
            shown["threshold"] = settings["mvdm_threshold"]
        if settings["votes"] == "exponential-decay":
            shown["decay"] = "{:g},{:g}".format(*settings["decay"])
    texts = {name: value if isinstance(value, str | int) else _run_lengths(value) for name, value in shown.items()}
    return ", ".join([settings["algorithm"], *(f"{name} {text}" for name, text in texts.items())])


def _run_lengths(values: Iterable[Any]) -> str:
    """Values by column, equal ones that follow each other as one.

    >>> _run_lengths(["overlap", "overlap", "mvdm"])
    '2 x overlap, mvdm'
    """
    counts = [(value, len(list(same))) for value, same in groupby(values)]
    return ", ".join(f"{n} x {value}" if n > 1 else str(value) for value, n in counts)


def _columns(facts: dict[str, Any]) -> list[tuple[str, str]]:
    if facts["template"] is None:
        return [("columns", f"{len(facts['feature_weights'])} (trained in Python on dicts, arrays or rows)")]
    named = ("columns", ",".join(facts["columns"]))
    return [named, *label_row(facts["training"]), template_row(facts["template"])]


def _memory(memory: dict[str, float], algorithm: str) -> str:
    rows = f"{memory['rows']:,} different" if algorithm == "ib1" else f"a tree of {memory['rows']:,} nodes"
    size = f"{memory['bytes_per_instance']:,.0f} bytes an instance, {memory['bytes'] / 1e6:.1f} MB"
    return f"{counted(int(memory['instances']), 'instance')}, {rows}; {size}"


def _confidence(calibration: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [] if calibration is None else [("confidence", calibration_text(calibration))]


def _training(training: dict[str, Any], scheme: str | None) -> list[tuple[str, str]]:
    """How the training went; models made in Python know less about it."""
    if "sentences" not in training:
        return []
    rows = [("trained on", size_of_data(training))]
    if "seconds" in training:
        rows.append(("training", f"{training['seconds']:.1f} s; labelwright {training['labelwright']}"))
    if "dev" in training:
        rows.append(("dev", f"{score_text(training['dev'], scheme)} on the development data"))
    if "search" in training:
        rows.append(("search", _search(training["search"])))
    return rows


def _search(search: dict[str, Any]) -> str:
    from labelwright.search.shown import tried

    how_many = tried(search.get("tried", search["settings"]), search["settings"])
    return f"the best of {how_many}, {100 * search['score']:.2f} in the last step; {search['stopped']}"


# -- a sentence and a token -------------------------------------------------------------------------------------------


def sentence_of(model: Any, files: Sequence[str], columns: str | None, number: int) -> "Corpus":
    """The sentence of this number, of the only file."""
    if len(files) > 1:
        raise OptionError("--data: expected one file here, of which --sentence is shown; leave out the others")
    corpus = inputs_of(model, read_for(model, files[0], columns))
    if not len(corpus):
        raise OptionError(f"--data: {files[0]} has no sentences")
    if not 0 <= number < len(corpus):
        raise OptionError(f"--sentence: {files[0]} has sentences 0 to {len(corpus) - 1}, got {number}")
    return corpus.take(slice(number, number + 1))


def described(model: Any, corpus: "Corpus", source: str, number: int, token: int | None) -> dict[str, Any]:
    """A sentence, or one token of it, as the model sees it."""
    from labelwright.inspection import memory

    facts = memory.describe_sentence(model, corpus, number)
    if token is None:
        return facts
    if not 0 <= token < len(facts["tokens"]):
        last = len(facts["tokens"]) - 1
        raise OptionError(f"--token: sentence {number} of {source} has tokens 0 to {last}, got {token}")
    return memory.describe_token(model, corpus, facts, token)


def show_sentence(facts: dict[str, Any], source: str) -> None:
    """Each token of a sentence with its label, class and nearest distance."""
    heading(f"sentence {facts['sentence']} of {source}, inference {facts['inference']}")
    rows = [("token", "word", "label", "predicted class", "votes", "distance")]
    for token in facts["tokens"]:
        best = token["classes"][0]
        near = "" if token["distance"] is None else f"{token['distance']:.4f}"
        word = shortened(token["word"], LONG)
        shown = str(token["token"]), word, token["label"], _text(best["labels"]), percent(best["share"]), near
        rows.append(shown)
    for line in aligned(rows, right={0, 4, 5}):
        show(f"  {line}")
    show()
    show("the neighbours of a token: add --token N")


def show_token(facts: dict[str, Any], source: str, top: int) -> None:
    """One token with what is read of it, the votes, and its nearest neighbours."""
    heading(f"sentence {facts['sentence']}, token {facts['token']} of {source}: {facts['word']}")
    best = facts["classes"][0]
    middle = len(best["labels"]) // 2
    agree = sum(row["share"] for row in facts["classes"] if row["labels"][middle] == facts["label"])
    show_rows(
        [
            ("label", f"{facts['label']}, by inference {facts['inference']}; {percent(agree)} of its own votes"),
            ("candidates", " ".join(facts["candidates"])),
            ("class", f"{_text(best['labels'])}, predicted with {percent(best['share'])} of the votes"),
        ]
    )
    show()
    heading("what is read of it")
    show_rows(_in_place(facts["values"]))
    show()
    heading("votes")
    for row in facts["classes"][:top]:
        show(f"  {percent(row['share']):>8}  {bar(row['share'], 1.0):<{BAR}}  {_text(row['labels'])}")
    _show_rest(facts["classes"], top)
    show()
    if facts["neighbours"] is None:
        show("no neighbours: an igtree answers by classes, not by instances; use --algorithm ib1")
        return
    _show_neighbours(facts["neighbours"], top)


def _show_neighbours(rows: Sequence[dict[str, Any]], top: int) -> None:
    """The nearest neighbours with their places in the training data, and in what they differ."""
    heading(f"nearest neighbours ({counted(len({row['distance'] for row in rows}), 'distance')})")
    for row in rows[:top]:
        more = f" and {len(row['instances']) - 1:,} alike" if len(row["instances"]) > 1 else ""
        place = f"token {row['instances'][0]:,} of the training data{more}"
        show(f"  {row['distance']:9.4f}  {_text(row['labels'])}  ({place})")
        if all(PLACE.fullmatch(name) for name in row["values"]):
            show_rows(_in_place(row["values"]), indent=13)
        else:
            unlike = ", ".join(f"{name} {value}" for name, value in row["differs"].items())
            show_text(f"but {unlike}" if unlike else "alike in all columns", indent=13)
    _show_rest(rows, top)


def _show_rest(rows: Sequence[Any], top: int) -> None:
    if len(rows) > top:
        show(f"  ... and {len(rows) - top:,} more, with --json all")


def _in_place(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Values as they stand in the sentence, where the columns are places: name[-1], name[0], ...; the token's own in
    brackets."""
    rows: dict[str, list[str]] = {}
    for name, value in values.items():
        place = PLACE.fullmatch(name)
        if place is None:
            rows[name] = [str(value)]
        else:
            rows.setdefault(place[1], []).append(f"[{value}]" if place[2] == "0" else str(value))
    if len({len(row) for row in rows.values()}) == 1:
        return list(zip(rows, aligned(list(rows.values())), strict=True))
    return [(name, "  ".join(row)) for name, row in rows.items()]


def _text(labels: Sequence[str | None]) -> str:
    return " ".join(OUTSIDE if label is None else label for label in labels)
