"""Explanations as text: a sentence in short, or one token in full."""

from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

from labelwright.cli.common import aligned, heading, percent, show
from labelwright.cli.layout import BAR, HALF, bar, show_rows, signed_bar
from labelwright.inspection.explanation import in_view
from labelwright.wording import shortened

REASONS = 3  # features of a token in short
LONG = 48  # letters of a name in short
ALIGNED = 32  # of a name up to which places stand below each other
SHOWN_WORDS = 4  # around a neighbour in its sentence
TOTALS = {"log-odds": "log-odds", "margin": "margin of scores", "weight": "weight of constraints"}


def show_sentence(facts: dict[str, Any], source: str, in_full: bool, top: int) -> None:
    """One sentence: all its tokens in short, or the one that was asked about in full."""
    for position, (layer, tokens) in enumerate(facts["layers"].items()):
        if position:
            show()
        of = f"{source}, layer {layer}" if layer else source
        if facts.get("text") is not None:
            of = f"{of}, text {facts['text']}"
        if in_full:
            _show_token(tokens[0], facts, f"sentence {facts['sentence']}, token {{}} of {of}", top)
        else:
            _show_all(tokens, facts["words"], f"sentence {facts['sentence']} of {of}")


# -- in short ---------------------------------------------------------------------------------------------------------


def _show_all(tokens: Sequence[dict[str, Any]], words: Sequence[str], title: str) -> None:
    """A line for each token: its label, the runner-up, and the strongest reasons."""
    heading(title)
    if not tokens:
        show("  no tokens")
        return
    measure = tokens[0]["measure"]
    left_out = {
        "place": all("start" not in each for each in tokens),
        "gold": all(each["gold"] is None for each in tokens),
        "prob": all(each["probability"] is None for each in tokens),
    }
    names = ["", "place", "word", "gold", "label", "prob", "runner-up", measure]
    kept = [i for i, name in enumerate(names) if not left_out.get(name)]
    right = {place for place, i in enumerate(kept) if names[i] in ("", "place", "prob", measure)}
    table = aligned([[row[i] for i in kept] for row in [names, *map(_cells, tokens)]], right)
    reasons = [["strongest contributions"], *(_reasons(each, words) for each in tokens)]
    wide = max(map(len, table))
    lines = [f"  {cells:<{wide}}  {'  '.join(why)}".rstrip() for cells, why in zip(table, reasons, strict=True)]
    width = get_terminal_size((max(map(len, lines)), 0)).columns  # a pipe is as wide as the table
    if max(map(len, lines)) > width:  # the reasons follow below each token
        pairs = zip(table, reasons, strict=True)
        lines = [line for cells, why in pairs for line in (f"  {cells}", *_filled(why, width))]
    for line in lines:
        show(line)


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Lines of at most this width, where no part alone is longer."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(f"{'':8}{part}")
    return lines


def _cells(each: dict[str, Any]) -> list[str]:
    chance = "" if each["probability"] is None else f"{each['probability']:.3f}"
    odds = "" if each["log_odds"] is None else f"{each['log_odds']:.3f}"
    return [
        f"✗ {each['token']}" if each["wrong"] else str(each["token"]),
        f"{each['start']}-{each['end']}" if "start" in each else "",
        _short(each["word"] or ""),
        each["gold"] or "",
        each["label"],
        chance,
        each["runner_up"] or "-",
        odds,
    ]


def _reasons(each: dict[str, Any], words: Sequence[str]) -> list[str]:
    """The strongest features, with their place where it is not the token, and the net contributions of transitions."""
    features, transitions = in_view(each)
    reasons = []
    for row in features[:REASONS]:
        here = row["token"] is None or row["token"] <= each["token"] < row["end"]
        reasons.append(f"{row['value']:+.2f} {_short(row['name'])}{'' if here else ' ' + _short(_place(row, words))}")
    if transitions:
        reasons.append("transitions " + ", ".join(f"{row['value']:+.2f} {row['where']}" for row in transitions))
    return [*reasons, "(flips)"] if each["flips"] else reasons


def _short(name: str) -> str:
    return shortened(name, LONG)


# -- in full ----------------------------------------------------------------------------------------------------------


def _show_token(each: dict[str, Any], facts: dict[str, Any], title: str, top: int) -> None:
    heading(f"{title.format(each['token'])}: {each['word'] or ''}")
    measure = TOTALS.get(each["measure"], each["measure"])
    rows = [("label", _with_chance(each["label"], each["probability"]))]
    if each["gold"] is not None:
        rows.append(("gold", f"{each['gold']}{'  (✗ the label is wrong)' if each['wrong'] else ''}"))
    if "start" in each:
        rows = [("place", f"characters {each['start']} to {each['end']}"), *rows]
    if each["runner_up"] is None:
        show_rows([*rows, ("runner-up", "none: no other label is possible, or none was proposed")])
    else:
        rows.append(("runner-up", _with_chance(each["runner_up"], each["runner_up_probability"])))
        show_rows([*rows, (each["measure"], f"{each['log_odds']:.4f}")])
        _show_labellings(each, facts["words"])
        _show_contributions(each, facts["words"], measure, top)
    _show_flips(each, facts["words"])
    if each["details"]:
        _show_details(each["details"], top)


def _with_chance(label: str, chance: float | None) -> str:
    return label if chance is None else f"{label}  (probability {chance:.4f})"


def _show_labellings(each: dict[str, Any], words: Sequence[str]) -> None:
    """The two labellings where they differ, with a token on each side."""
    one, other = each["labels"], each["runner_up_labels"]
    if other is None:
        return
    unlike = [t for t, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
    begin, end = max(0, unlike[0] - 1), min(len(words), unlike[-1] + 2)
    show()
    heading("the two labellings that are compared, where they differ")
    part = slice(begin, end)
    table = [["", *words[part]], ["label", *one[part]], ["runner-up", *other[part]]]
    for line in aligned(table):
        show(f"  {line}")


def _show_contributions(each: dict[str, Any], words: Sequence[str], measure: str, top: int) -> None:
    """The strongest features, then the net contributions of transitions, with bars from one axis."""
    show()
    heading(f"contributions to the {measure}")
    features, transitions = in_view(each)
    shown, rest = features[:top], features[top:]
    largest = max((abs(row["value"]) for row in [*shown, *transitions]), default=1.0)
    width = min(max((len(row["name"]) for row in shown), default=0), ALIGNED)
    blank = f"{'│':^{2 * HALF + 1}}"

    def line(value: float, bars: str, text: str) -> None:
        show(f"  {value:+9.4f}  {bars}  {text}".rstrip())

    for row in shown:
        line(row["value"], signed_bar(row["value"], largest), f"{row['name']:<{width}}  {_place(row, words)}")
    if rest:
        line(sum(row["value"] for row in rest), blank, f"{len(rest):,} more")
    for row in transitions:
        line(row["value"], signed_bar(row["value"], largest), row["name"])
    line(sum(row["value"] for row in each["contributions"]), blank, f"sum: the {measure}")
    below = [row["value"] for row in features if row["below"]]
    if below:
        line(sum(below), blank, "of it from the labels of lower layers (--below explains these)")


def _place(row: dict[str, Any], words: Sequence[str]) -> str:
    """The words that a contribution is about."""
    if row["token"] is None:
        return ""
    return f"at {' '.join(words[row['token'] : row['end']])!r}"


def _show_flips(each: dict[str, Any], words: Sequence[str]) -> None:
    if each["flips"] is None:
        return
    show()
    if not each["flips"]:
        show("no single feature decides: without any one of them the label is the same")
        return
    heading("without one of these the label would be another")
    for flip in each["flips"]:
        show(f"  {flip['label']:<10} without {flip['name']}  at {words[flip['token']]!r}")


# -- n-gram and memory-based taggers ----------------------------------------------------------------------------------


def _show_details(details: dict[str, Any], top: int) -> None:
    show()
    heading(f"predictions that cover it (inference {details['inference']})")
    rows = [
        [str(row["token"]), row["word"] or "", _gram(row["labels"]), f"confidence {row['confidence']:.3f}"]
        for row in details["proposals"]
    ]
    for line in aligned(rows, {0}):
        show(f"  {line}")
    show()
    heading("votes of its own prediction")
    for row in details["classes"][:top]:
        show(f"  {percent(row['share']):>8}  {bar(row['share'], 1.0):<{BAR}}  {_gram(row['labels'])}")
    if details.get("neighbours"):
        _show_neighbours(details["neighbours"], top)
    elif "neighbours" in details:
        show("\nno neighbours: an igtree answers by classes, not by instances; train with --algorithm ib1")


def _show_neighbours(rows: Sequence[dict[str, Any]], top: int) -> None:
    show()
    heading("nearest neighbours in the training data")
    for row in rows[:top]:
        alike = f", {len(row['instances']):,} alike" if len(row["instances"]) > 1 else ""
        show(f"  distance {row['distance']:.4f}  {_gram(row['labels'])}{alike}")
        for place in row["places"]:
            show(f"    {_source(place)}")
        unlike = ", ".join(f"{name} {value}" for name, value in list(row["differs"].items())[:6])
        show(f"    differs in {unlike}" if unlike else "    the same in all columns")
    if len(rows) > top:
        show(f"  ... and {len(rows) - top:,} more, with --json all")


def _source(place: dict[str, Any]) -> str:
    """The sentence of a neighbour, which is in brackets."""
    if place["sentence"] is None:
        return "its sentence is not known"
    text = f"sentence {place['sentence']:,}, token {place['token']}"
    if place["words"] is None:
        return text
    t, words = place["token"], place["words"]
    begin, end = max(0, t - SHOWN_WORDS), t + SHOWN_WORDS + 1
    around = [f"[{word}]" if begin + i == t else word for i, word in enumerate(words[begin:end])]
    return f"{text}: {'... ' if begin else ''}{' '.join(around)}{' ...' if end < len(words) else ''}"


def _gram(labels: Sequence[str | None]) -> str:
    return " ".join("_" if label is None else str(label) for label in labels)
