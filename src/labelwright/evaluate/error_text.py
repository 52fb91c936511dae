"""The analysis of errors as text: tables, and examples in their sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from labelwright.corpus.tokenizer import joined_text
from labelwright.evaluate.scores import align
from labelwright.wording import shortened

CONTEXT = 6  # words on each side of an example
WIDEST = 40  # letters of a phrase in a table
Facts = Mapping[str, Any]  # what ErrorAnalysis.as_dict returns


def text_of(analysis: Facts, top: int = 10, examples: int = 10, chosen: Sequence[Facts] | None = None) -> list[str]:
    """Lines: totals, kinds of errors, types, confusions, phrases, seen and unseen tokens, and examples.

    top : rows of each table
    examples : errors that are shown in their sentences
    chosen : the errors to show examples of, all where None
    """
    total, unit = analysis["total"], analysis["unit"]
    lines = [
        f"{total['gold']:,} gold {unit}s, {total['predicted']:,} predicted, {total['correct']:,} correct; "
        f"{analysis['n_errors']:,} errors in {len({e['sentence'] for e in analysis['errors']}):,} of "
        f"{analysis['n_sentences']:,} sentences"
    ]
    parts = [
        _kinds(analysis) if unit == "chunk" else [],
        _types(analysis, top),
        _confusions(analysis, top),
        *(_phrases(analysis, kind, top) for kind in analysis["phrases"] if kind in ("missed", "invented", "label")),
        _boundaries(analysis, top),
        _vocabulary(analysis),
        _examples(analysis, analysis["errors"] if chosen is None else chosen, examples),
    ]
    for part in parts:
        lines += ["", *part] if part else []
    return lines


def _kinds(analysis: Facts) -> list[str]:
    n, meanings = max(1, analysis["n_errors"]), analysis["meanings"]
    rows = [("kind of error", "errors", "share", "")]
    rows += [(kind, f"{k:,}", f"{100 * k / n:.1f} %", meanings[kind]) for kind, k in analysis["kinds"].items()]
    return _left_last(rows)


def _left_last(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned rows whose last column is text."""
    width = max(len(row[-1]) for row in rows)
    return align([[*row[:-1], row[-1].ljust(width)] for row in rows])


def _types(analysis: Facts, top: int) -> list[str]:
    """The types with the most errors."""
    types, kinds = analysis["per_type"], list(analysis["kinds"])
    if not _typed(analysis):
        return []
    named = ["wrong"] if analysis["unit"] == "token" else kinds
    ranked = sorted(types, key=lambda name: (-sum(types[name][kind] for kind in kinds), name))
    rows = [(analysis["unit"] if analysis["unit"] == "chunk" else "label", "gold", "predicted", "correct", *named)]
    for name in ranked[:top]:
        numbers = [types[name][column] for column in ("gold", "predicted", "correct", *kinds)]
        rows.append((_named(name), *(f"{number:,}" for number in numbers)))
    return [*align(rows), *_more(ranked, top)]


def _typed(analysis: Facts) -> bool:
    """Are there types at all?  Labels such as B, I and O have none."""
    return any(analysis["per_type"])


def _named(kind: str) -> str:
    return kind or "(no type)"


def _more(listed: Sequence[Any], top: int) -> list[str]:
    return [f"... and {len(listed) - top:,} more"] if len(listed) > top else []


def _confusions(analysis: Facts, top: int) -> list[str]:
    pairs = analysis["confusions"]
    if not pairs:
        return []
    title = f"confused {'types' if analysis['unit'] == 'chunk' else 'labels'} (gold -> predicted)"
    rows = [(title, "errors")]
    rows += [(f"{_named(p['gold'])} -> {_named(p['predicted'])}", f"{p['n']:,}") for p in pairs[:top]]
    return [*align(rows), *_more(pairs, top)]


def _phrases(analysis: Facts, kind: str, top: int) -> list[str]:
    phrases = analysis["phrases"][kind]
    if not phrases:
        return []
    title = {"missed": "missed most often", "invented": "invented most often", "label": "tokens"}[kind]
    of = "of predicted" if kind == "invented" else "of gold"
    rows: list[tuple[str, ...]] = [(title, "type" if kind != "label" else "gold -> predicted", "errors", of)]
    for each in phrases[:top]:
        names = " -> ".join(_named(name) for name in (each["gold"], each["predicted"]) if name is not None)
        rows.append((_short(each["text"]), names, f"{each['n']:,}", f"{each['total']:,}"))
    if not _typed(analysis):
        rows = [(text, *numbers) for text, _, *numbers in rows]
    return [*align(rows), *_more(phrases, top)]


def _short(text: str) -> str:
    return shortened(text, WIDEST)


def _boundaries(analysis: Facts, top: int) -> list[str]:
    listed = analysis["boundaries"]
    if not listed:
        return []
    rows = [("tokens at wrong boundaries", "place", "errors")]
    rows += [(_short(each["text"]), each["place"], f"{each['n']:,}") for each in listed[:top]]
    return [*align(rows), *_more(listed, top)]


def _vocabulary(analysis: Facts) -> list[str]:
    groups = analysis["vocabulary"]
    if groups is None:
        return []
    chunks = analysis["unit"] == "chunk"
    names = ("only seen tokens", "with an unseen token") if chunks else ("seen tokens", "unseen tokens")
    rows: list[tuple[str, ...]] = [("", "gold", "predicted", "correct", "precision", "recall", "f1")]
    for name, score in zip(names, (groups["seen"], groups["unseen"]), strict=True):
        counts = (f"{score[column]:,}" for column in ("gold", "predicted", "correct"))
        rows.append((name, *counts, *_shares(score)))
    if not chunks:
        rows = [(row[0], row[1], row[3], "accuracy" if n == 0 else row[4]) for n, row in enumerate(rows)]
    return align(rows)


def _shares(score: Facts) -> list[str]:
    """Precision, recall and F1; a dash where there is nothing to be a share of."""
    of = {"precision": score["predicted"], "recall": score["gold"], "f1": score["gold"] + score["predicted"]}
    return [f"{100 * score[name]:.2f}" if n else "-" for name, n in of.items()]


# -- examples ---------------------------------------------------------------------------------------------------------


def _examples(analysis: Facts, errors: Sequence[Facts], n: int) -> list[str]:
    """Some errors in their sentences: one of each kind in turn, those that the model was most certain of first."""
    if not errors or n == 0:
        return []
    ranked = _in_turn(sorted(errors, key=lambda error: -_certainty(error)))
    lines = [f"examples ({min(n, len(ranked)):,} of {len(ranked):,})"]
    for error in ranked[:n]:
        new = ", with an unseen token" if error["unseen"] else ""
        lines.append(f"sentence {error['sentence']}: {error['kind']}{new}")
        words = analysis["sentences"].get(str(error["sentence"]))
        for side in ("gold", "predicted"):
            if error[side] is not None:
                lines.append(f"  {side:9}  {_in_context(words, error[side])}")
    return lines


def _in_turn(errors: Sequence[Facts]) -> list[Facts]:
    """The first errors of all kinds, then the second ones, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for error in errors:
        turns.append(seen[error["kind"]])
        seen[error["kind"]] += 1
    return [errors[n] for n in sorted(range(len(errors)), key=turns.__getitem__)]


def _certainty(error: Facts) -> float:
    """How certain the model was of an error: the probability of what it predicted, or that nothing is there."""
    gold, predicted = error["gold"], error["predicted"]
    if predicted is not None:
        return float(predicted["probability"] or 0.0)
    return 0.0 if gold["probability"] is None else 1.0 - float(gold["probability"])


def _in_context(words: Sequence[str] | None, span: Facts) -> str:
    """A chunk in its sentence: ... the [Bank of England]ORG said ...  0.73"""
    chance = "" if span["probability"] is None else f"  {span['probability']:.3f}"
    if words is None:
        kind = f": {span['type']}" if span["type"] else ""
        return f"tokens {span['start']} to {span['end'] - 1}{kind}{chance}"
    start, end = span["start"], span["end"]
    before, after = words[max(0, start - CONTEXT) : start], words[end : end + CONTEXT]
    marked = f"[{joined_text(words[start:end])}]{span['type']}"
    dots = ["..."] if start > CONTEXT else [], ["..."] if len(words) > end + CONTEXT else []
    return joined_text([*dots[0], *before, marked, *after, *dots[1]]) + chance
