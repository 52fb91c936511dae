"""Explanations as lines of text: a sentence in short, or one token in full."""

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import Any

from labelwright.cli.show import BAR, HALF, Heading, bar, indented, named_rows, section, signed_bar
from labelwright.inspection.explanation import in_view
from labelwright.wording import align, percent, shortened

Facts = dict[str, Any]
REASONS = 3  # features of a token in short
LONG = 48  # letters of a name in short
ALIGNED = 32  # of a name up to which places stand below each other
SHOWN_WORDS = 4  # around a neighbour in its sentence
TOTALS = {"margin": "margin of scores", "weight": "weight of constraints"}  # measures in other words


def sentence_lines(facts: Facts, source: str, in_full: bool, top: int) -> Iterator[str]:
    """One sentence: all its tokens in short, or the one that was asked about in full."""
    for position, (layer, tokens) in enumerate(facts["layers"].items()):
        yield from [""] if position else []
        of = f"{source}, layer {layer}" if layer else source
        if facts.get("text") is not None:
            of = f"{of}, text {facts['text']}"
        if in_full:
            token = tokens[0]
            yield Heading(f"sentence {facts['sentence']}, token {token['token']} of {of}: {token['word'] or ''}")
            yield from _token(token, facts["words"], top)
        else:
            yield Heading(f"sentence {facts['sentence']} of {of}")
            yield from _all_tokens(tokens, facts["words"])


# -- in short ---------------------------------------------------------------------------------------------------------


def _all_tokens(tokens: Sequence[Facts], words: Sequence[str]) -> list[str]:
    """A line for each token: its label, the runner-up, and the strongest reasons."""
    if not tokens:
        return ["  no tokens"]
    measure = tokens[0]["measure"]
    left_out = {
        "place": all("start" not in each for each in tokens),
        "gold": all(each["gold"] is None for each in tokens),
        "prob": all(each["probability"] is None for each in tokens),
    }
    names = ["", "place", "word", "gold", "label", "prob", "runner-up", measure]
    kept = [i for i, name in enumerate(names) if not left_out.get(name)]
    left = {place for place, i in enumerate(kept) if names[i] not in ("", "place", "prob", measure)}
    table = align([[row[i] for i in kept] for row in [names, *map(_cells, tokens)]], left)
    reasons = [["strongest contributions"], *(_reasons(each, words) for each in tokens)]
    wide = max(map(len, table))
    pairs = list(zip(table, reasons, strict=True))
    lines = [f"  {cells:<{wide}}  {'  '.join(why)}".rstrip() for cells, why in pairs]
    width = get_terminal_size((max(map(len, lines)), 0)).columns  # a pipe is as wide as the table
    if max(map(len, lines)) > width:  # the reasons follow below each token
        lines = [line for cells, why in pairs for line in (f"  {cells}", *_filled(why, width))]
    return lines


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Lines of at most this width, where no part alone is longer."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(f"{'':8}{part}")
    return lines


def _cells(each: Facts) -> list[str]:
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


def _reasons(each: Facts, words: Sequence[str]) -> list[str]:
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


def _token(each: Facts, words: Sequence[str], top: int) -> Iterator[str]:
    rows = [("place", f"characters {each['start']} to {each['end']}")] if "start" in each else []
    rows.append(("label", _with_chance(each["label"], each["probability"])))
    if each["gold"] is not None:
        rows.append(("gold", f"{each['gold']}{'  (✗ the label is wrong)' if each['wrong'] else ''}"))
    if each["runner_up"] is None:
        rows.append(("runner-up", "none: no other label is possible, or none was proposed"))
        yield from named_rows(rows)
    else:
        rows.append(("runner-up", _with_chance(each["runner_up"], each["runner_up_probability"])))
        yield from named_rows([*rows, (each["measure"], f"{each['log_odds']:.4f}")])
        yield from _labellings(each, words)
        yield from _contributions(each, words, top)
    if each["flips"]:
        flips = [f"  {row['label']:<10} without {row['name']}  at {words[row['token']]!r}" for row in each["flips"]]
        yield from section("without one of these the label would be another", flips)
    elif each["flips"] is not None:
        yield from ("", "no single feature decides: without any one of them the label is the same")
    if each["details"]:
        yield from _details(each["details"], top)


def _with_chance(label: str, chance: float | None) -> str:
    return label if chance is None else f"{label}  (probability {chance:.4f})"


def _labellings(each: Facts, words: Sequence[str]) -> list[str]:
    """The two labellings where they differ, with a token on each side."""
    one, other = each["labels"], each["runner_up_labels"]
    if other is None:
        return []
    unlike = [t for t, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
    part = slice(max(0, unlike[0] - 1), min(len(words), unlike[-1] + 2))
    table = [["", *words[part]], ["label", *one[part]], ["runner-up", *other[part]]]
    return section(
        "the two labellings that are compared, where they differ", indented(align(table, range(len(table[0]))))
    )


def _contributions(each: Facts, words: Sequence[str], top: int) -> list[str]:
    """The strongest features, then the net contributions of transitions, with bars from one axis."""
    measure = TOTALS.get(each["measure"], each["measure"])
    features, transitions = in_view(each)
    shown, rest = features[:top], features[top:]
    largest = max((abs(row["value"]) for row in [*shown, *transitions]), default=1.0)
    width = min(max((len(row["name"]) for row in shown), default=0), ALIGNED)

    def line(value: float, text: str, bars: str = f"{'│':^{2 * HALF + 1}}") -> str:
        return f"  {value:+9.4f}  {bars}  {text}".rstrip()

    def total(rows: Sequence[Facts], text: str) -> str:
        return line(sum(row["value"] for row in rows), text)

    lines = []
    for row in shown:
        text = f"{row['name']:<{width}}  {_place(row, words)}"
        lines.append(line(row["value"], text, signed_bar(row["value"], largest)))
    lines += [total(rest, f"{len(rest):,} more")] if rest else []
    lines += [line(row["value"], row["name"], signed_bar(row["value"], largest)) for row in transitions]
    lines.append(total(each["contributions"], f"sum: the {measure}"))
    below = [row for row in features if row["below"]]
    lines += [total(below, "of it from the labels of lower layers (--below explains these)")] if below else []
    return section(f"contributions to the {measure}", lines)


def _place(row: Facts, words: Sequence[str]) -> str:
    """The words that a contribution is about."""
    if row["token"] is None:
        return ""
    return f"at {' '.join(words[row['token'] : row['end']])!r}"


# -- n-gram and memory-based taggers ----------------------------------------------------------------------------------


def _details(details: Facts, top: int) -> Iterator[str]:
    rows = [
        [str(row["token"]), row["word"] or "", _gram(row["labels"]), f"confidence {row['confidence']:.3f}"]
        for row in details["proposals"]
    ]
    title = f"predictions that cover it (inference {details['inference']})"
    yield from section(title, indented(align(rows, {1, 2, 3})))
    votes = [
        f"  {percent(row['share']):>8}  {bar(row['share'], 1.0):<{BAR}}  {_gram(row['labels'])}"
        for row in details["classes"][:top]
    ]
    yield from section("votes of its own prediction", votes)
    if details.get("neighbours"):
        yield from section("nearest neighbours in the training data", _neighbours(details["neighbours"], top))
    elif "neighbours" in details:
        yield "\nno neighbours: an igtree answers by classes, not by instances; train with --algorithm ib1"


def _neighbours(rows: Sequence[Facts], top: int) -> Iterator[str]:
    for row in rows[:top]:
        alike = f", {len(row['instances']):,} alike" if len(row["instances"]) > 1 else ""
        yield f"  distance {row['distance']:.4f}  {_gram(row['labels'])}{alike}"
        yield from (f"    {_source(place)}" for place in row["places"])
        unlike = ", ".join(f"{name} {value}" for name, value in list(row["differs"].items())[:6])
        yield f"    differs in {unlike}" if unlike else "    the same in all columns"
    if len(rows) > top:
        yield f"  ... and {len(rows) - top:,} more, with --json all"


def _source(place: Facts) -> str:
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
