"""The analysis of errors as text, as a matrix, and as a page for a browser: tables, and errors in
their sentences."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright import pages
from labelwright.corpus.spans import Span
from labelwright.corpus.tokenizer import joined_text
from labelwright.pages import Html, Section, bar, cells, hues_of, marked_words, tag
from labelwright.wording import align, shortened

CONTEXT = 6  # words on each side of an example
WIDEST = 40  # letters of a phrase in a table
ON_A_PAGE = 200  # rows of a table
IN_TEXT, IN_PAGE = 12, 20  # types of a confusion matrix
OTHERS, NONE = "(others)", "(none)"
SIDES = "gold", "predicted"
SEEN = "an unseen one", "all seen"
Facts = Mapping[str, Any]  # what ErrorAnalysis.as_dict returns


# -- tables ----------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table of counts; the first name of its head is its title."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    # the errors that a row counts, by their kind, types and text; empty: no rows do
    picks: list[dict[str, str]]
    shares: Sequence[float] = ()  # of each row, of which a page draws bars
    cut: bool = True  # may it have many rows?


def tables_of(analysis: Facts) -> list[Table]:
    """Kinds of errors, types, confusions, phrases, boundaries, seen and unseen tokens, as far as
    there are any."""
    tables = [*_types_of_errors(analysis), *_phrases(analysis), _vocabulary(analysis)]
    return [table for table in tables if table is not None and table.rows]


def _types_of_errors(analysis: Facts) -> Iterator[Table]:
    """Kinds of errors; the types with the most errors; confused types."""
    kinds, types, is_chunks = analysis["kinds"], analysis["per_type"], analysis["unit"] == "chunk"
    if is_chunks:
        n, meanings = max(1, analysis["n_errors"]), analysis["meanings"]
        rows = [
            (kind, f"{k:,}", f"{100 * k / n:.1f} %", meanings[kind]) for kind, k in kinds.items()
        ]
        picks, shares = [{"kind": kind} for kind in kinds], [k / n for k in kinds.values()]
        yield Table(("kind of error", "errors", "share", ""), rows, picks, shares, cut=False)
    if any(types):  # labels such as B, I and O have none
        ranked = sorted(types, key=lambda name: (-sum(types[name][kind] for kind in kinds), name))
        columns = ("gold", "predicted", "correct")
        head = ("chunk" if is_chunks else "label", *columns, *(kinds if is_chunks else ["wrong"]))
        numbers = [
            (_named(name), *(f"{types[name][of]:,}" for of in (*columns, *kinds)))
            for name in ranked
        ]
        yield Table(head, numbers, [{"gold": _named(name)} for name in ranked])
    pairs = analysis["confusions"]
    picks = [_sides(pair) for pair in pairs]
    counts = [
        (" -> ".join(pick.values()), f"{pair['n']:,}")
        for pick, pair in zip(picks, pairs, strict=True)
    ]
    title = f"confused {'types' if is_chunks else 'labels'} (gold -> predicted)"
    yield Table((title, "errors"), counts, picks, [pair["n"] / pairs[0]["n"] for pair in pairs])


def _named(kind: str) -> str:
    return kind or "(no type)"


def _sides(counted: Facts) -> dict[str, str]:
    """The gold and the predicted type of what is counted, as far as it has them."""
    return {side: _named(counted[side]) for side in SIDES if counted[side] is not None}


def _phrases(analysis: Facts) -> Iterator[Table]:
    """Phrases that are missed or invented, or tokens, the most frequent first; and tokens at wrong
    boundaries."""
    titles = {"missed": "missed most often", "invented": "invented most often", "label": "tokens"}
    for kind, title in titles.items():
        phrases, only = analysis["phrases"].get(kind, ()), {} if kind == "label" else {"kind": kind}
        of = "of predicted" if kind == "invented" else "of gold"
        head: Sequence[str] = (title, "type" if only else "gold -> predicted", "errors", of)
        rows: list[Sequence[str]] = []
        for each in phrases:
            counts = f"{each['n']:,}", f"{each['total']:,}"
            rows.append(
                (shortened(each["text"], WIDEST), " -> ".join(_sides(each).values()), *counts)
            )
        if not any(analysis["per_type"]):
            head, rows = (head[0], *head[2:]), [(row[0], *row[2:]) for row in rows]
        yield Table(head, rows, [only | {"text": each["text"]} | _sides(each) for each in phrases])
    listed = analysis["boundaries"]
    places = [(shortened(each["text"], WIDEST), each["place"], f"{each['n']:,}") for each in listed]
    picks = [{"kind": "boundary", "text": each["text"]} for each in listed]
    yield Table(("tokens at wrong boundaries", "place", "errors"), places, picks)


def _vocabulary(analysis: Facts) -> Table | None:
    """Scores of chunks (or tokens) without and with a token that is new; a dash where a share is of
    nothing."""
    if analysis["vocabulary"] is None:
        return None
    chunks, rows = analysis["unit"] == "chunk", []
    names = (
        ("only seen tokens", "with an unseen token") if chunks else ("seen tokens", "unseen tokens")
    )
    for name, score in zip(
        names, map(analysis["vocabulary"].__getitem__, ("seen", "unseen")), strict=True
    ):
        counts = [score[column] for column in ("gold", "predicted", "correct")]
        of = {"precision": counts[1], "recall": counts[0], "f1": counts[0] + counts[1]}
        shares = [f"{100 * score[share]:.2f}" if n else "-" for share, n in of.items()]
        rows.append((name, *(f"{n:,}" for n in counts), *shares))
    if chunks:
        return Table(
            ("", "gold", "predicted", "correct", "precision", "recall", "f1"), rows, [], cut=False
        )
    return Table(
        ("", "gold", "correct", "accuracy"), [(r[0], r[1], r[3], r[4]) for r in rows], [], cut=False
    )


# -- confusion -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """How often a type (or label) was predicted for each gold one; `str(matrix)` is a table."""

    types: list[str]  #: [C]  chunk types, or labels where there are no chunks
    #: [C + 1, C + 1]  gold by predicted; the last row: invented, the last column: missed
    counts: NDArray[np.int64]

    def as_dict(self) -> dict[str, Any]:
        """Return the types and the rows of counts as lists."""
        return {"types": self.types, "counts": self.counts.tolist()}

    def __str__(self) -> str:
        names, counts = _grouped(self, IN_TEXT)
        rows = [
            (name, *(str(n or "") for n in row)) for name, row in zip(names, counts, strict=True)
        ]
        return "\n".join(align([("gold \\ predicted", *names), *rows]))


def _grouped(matrix: ConfusionMatrix, most: int) -> tuple[list[str], list[list[int]]]:
    """The names and the counts of so many types with the most errors, of all others as one, and of
    none."""
    n, counts = len(matrix.types), matrix.counts
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    alone = np.sort(np.argsort(-wrong[:n], kind="stable")[:most]).tolist()
    groups = {_named(matrix.types[i]): [i] for i in alone} | {
        OTHERS: sorted({*range(n)} - {*alone}),
        NONE: [n],
    }
    groups = {name: at for name, at in groups.items() if counts[at].any() or counts[:, at].any()}
    return list(groups), [
        [int(counts[np.ix_(a, b)].sum()) for b in groups.values()] for a in groups.values()
    ]


def confusion_matrix(analysis: Facts) -> ConfusionMatrix:
    """Pairs of chunks by their types, whatever their boundaries; or tokens by their labels."""
    place = {name: i for i, name in enumerate(analysis["per_type"])}
    counts = np.zeros((len(place) + 1, len(place) + 1), np.int64)
    for i, of in enumerate(analysis["per_type"].values()):
        counts[i, i] = of["correct"] + of.get("boundary", 0)
        counts[i, -1], counts[-1, i] = of.get("missed", 0), of.get("invented", 0)
    for pair in analysis["confusions"]:
        counts[place[pair["gold"]], place[pair["predicted"]]] = pair["n"]
    return ConfusionMatrix(list(place), counts)


# -- text ------------------------------------------------------------------------------------------


def text_of(analysis: Facts, top: int = 10, examples: int = 10) -> list[str]:
    """Lines: totals, all tables, and examples.

    top : rows of each table
    examples : errors that are shown in their sentences
    """
    n_wrong = len({error["sentence"] for error in analysis["errors"]})
    lines = [f"{_totals(analysis)} in {n_wrong:,} of {analysis['n_sentences']:,} sentences"]
    for table in tables_of(analysis):
        rows = table.rows[:top] if table.cut else table.rows
        lines += ["", *align([table.head, *rows], left=(0, 3) if table.head[-1] == "" else (0,))]
        lines += [f"... and {len(table.rows) - top:,} more"] if len(table.rows) > len(rows) else []
    shown = _in_turn(analysis["errors"])[:examples]
    lines += ["", f"examples ({len(shown):,} of {analysis['n_errors']:,})"] if shown else []
    for error in shown:
        new = ", with an unseen token" if error["unseen"] else ""
        lines.append(f"sentence {error['sentence']}: {error['kind']}{new}")
        words = analysis["sentences"].get(str(error["sentence"]))
        lines += [
            f"  {side:9}  {_in_context(words, error[side])}"
            for side in SIDES
            if error[side] is not None
        ]
    return lines


def _totals(analysis: Facts) -> str:
    total, unit = analysis["total"], analysis["unit"]
    counts = (
        f"{total['gold']:,} gold {unit}s, {total['predicted']:,} predicted, {total['correct']:,} "
        "correct"
    )
    return f"{counts}; {analysis['n_errors']:,} errors"


def striking(analysis: Facts, n: int) -> list[int]:
    """The sentences of the first examples, in their order."""
    return sorted(
        list(dict.fromkeys(error["sentence"] for error in _in_turn(analysis["errors"])))[:n]
    )


def _in_turn(errors: Sequence[Facts]) -> list[Facts]:
    """The most certain errors of all kinds, then the second ones, and so on."""
    errors = sorted(errors, key=lambda error: -_certainty(error))
    seen: Counter[str] = Counter()
    turns = []
    for n, error in enumerate(errors):
        turns.append((seen[error["kind"]], n))
        seen[error["kind"]] += 1
    return [errors[n] for _, n in sorted(turns)]


def _certainty(error: Facts) -> float:
    """How certain the model was of an error: the probability of what it predicted, or that nothing
    is there."""
    gold, predicted = error["gold"], error["predicted"]
    if predicted is not None:
        return float(predicted["probability"] or 0.0)
    return 0.0 if gold["probability"] is None else 1.0 - float(gold["probability"])


def _in_context(words: Sequence[str] | None, span: Facts) -> str:
    """A chunk in its sentence: ... the [Bank of England]ORG said ...  0.73"""
    chance = "" if span["probability"] is None else f"  {span['probability']:.3f}"
    if words is None:
        return _place(span) + chance
    start, end = span["start"], span["end"]
    before, after = words[max(0, start - CONTEXT) : start], words[end : end + CONTEXT]
    marked_words = f"[{joined_text(words[start:end])}]{span['type']}"
    dots = ["..."] if start > CONTEXT else [], ["..."] if len(words) > end + CONTEXT else []
    return joined_text([*dots[0], *before, marked_words, *after, *dots[1]]) + chance


def _place(span: Facts) -> str:
    """Where a chunk is, where its words are not known."""
    return (
        f"tokens {span['start']} to {span['end'] - 1}{': ' if span['type'] else ''}{span['type']}"
    )


# -- page ------------------------------------------------------------------------------------------


def page(analyses: Mapping[str, Facts], title: str = "Errors") -> str:
    """The page of one analysis (`ErrorAnalysis.as_dict`), or of several, by the layer of a
    cascade."""
    return pages.page(title, [], [section(analyses)])


def section(analyses: Mapping[str, Facts]) -> Section:
    """Tables whose rows choose errors, and the errors, to be filtered, sorted and searched."""
    return Section(
        "Errors", {name: _part(analysis) for name, analysis in analyses.items()}, PROGRAM
    )


def _part(analysis: Facts) -> Html:
    """The totals, the tables, the form, the errors."""
    total, chunks = analysis["total"], analysis["unit"] == "chunk"
    of = total["gold"] + chunks * total["predicted"]
    score = f"{100 * total['f1' if chunks else 'recall']:.2f}" if of else "-"
    form = [
        _choice("kind", "kind of error", analysis["kinds"]),
        *(
            _choice(side, side, map(_named, analysis["per_type"]))
            for side in SIDES
            if any(analysis["per_type"])
        ),
        _choice("unseen", "tokens", SEEN) if analysis["vocabulary"] else None,
        _choice("order", "order", ("most certain first", "closest calls first"), "by sentence"),
        tag(
            "label",
            "search",
            tag("input", name="text", type="search", placeholder="phrase or sentence"),
        ),
        tag("button", "clear", type="reset"),
        tag("output", aria_live="polite"),
    ]
    hues = hues_of(map(_named, analysis["per_type"]))
    errors = [
        _article(error, analysis["sentences"].get(str(error["sentence"])), hues)
        for error in analysis["errors"]
    ]
    tables = [_panel(table, analysis["meanings"]) for table in tables_of(analysis)]
    return tag(
        "div",
        tag("p", f"{'F1' if chunks else 'accuracy'} {score}; {_totals(analysis)}", class_="quiet"),
        tag("div", _confusion(analysis), *tables, class_="panels"),
        tag("form", *form),
        tag("div"),
        tag("button", "show more", type="button", class_="more"),
        tag("template", *errors),
    )


def _confusion(analysis: Facts) -> Html | None:
    """The confusion matrix as a coloured table whose cells choose errors; what is right but for its
    boundaries has a column of its own."""
    types, chunks = analysis["per_type"], analysis["unit"] == "chunk"
    if not any(types) or len(types) < 2:
        return None
    names, counts = _grouped(confusion_matrix(analysis), IN_PAGE)
    last, apart = (
        len(names) - (NONE in names),
        {_named(name): of.get("boundary", 0) for name, of in types.items()},
    )
    heads = [
        *names[:last],
        *(["boundary"] if chunks else []),
        *(["missed"] if NONE in names else []),
    ]
    rows = [tag("tr", *(tag("th", name, scope="col") for name in ("gold \\ predicted", *heads)))]
    for gold, row in zip(names, counts, strict=True):
        own = apart.get(gold, 0)
        parts = [
            (n - own * (gold == of), _pick(gold, of)) for n, of in zip(row, names, strict=True)
        ]
        if chunks:
            parts.insert(last, (own, {"gold": gold, "kind": "boundary"}))
        drawn = [_count(n, n / max(1, sum(row)), pick) for n, pick in parts]
        rows.append(tag("tr", tag("th", "invented" if gold == NONE else gold, scope="row"), *drawn))
    note = f"The {IN_PAGE} with the most errors. " if len(types) > IN_PAGE else ""
    note += (
        "The darker, the larger its share of the row; a click on a wrong count shows these errors."
    )
    matrix = tag("div", tag("table", *rows, class_="confusion"), class_="scroll")
    return tag(
        "div",
        tag("h3", "Confusion matrix"),
        matrix,
        tag("p", note, class_="quiet"),
        class_="panel wide",
    )


def _pick(gold: str, predicted: str) -> dict[str, str] | None:
    """What chooses the errors of a cell; nothing where several types are one, None where it is
    right."""
    if gold == predicted:
        return None
    sides = {
        side: name for side, name in zip(SIDES, (gold, predicted), strict=True) if name != NONE
    }
    kind = {} if len(sides) == 2 else {"kind": "missed" if "gold" in sides else "invented"}
    return {} if OTHERS in sides.values() else sides | kind


def _count(n: int, share: float, pick: Mapping[str, str] | None) -> Html:
    if not n:
        return tag("td", "·", class_="quiet")
    given: dict[str, Any] = {
        "class_": "right" if pick is None else "wrong",
        "style": f"--share:{share:.3f}",
    }
    if pick:
        given |= {"class_": "wrong pick", "tabindex": 0} | {
            f"data_{key}": value for key, value in pick.items()
        }
    return tag("td", f"{n:,}", title=f"{100 * share:.1f} % of the row", **given)


def _choice(name: str, label: str, values: Iterable[str], every: str = "all") -> Html:
    options = [tag("option", every, value=""), *(tag("option", value) for value in values)]
    return tag("label", label, tag("select", *options, name=name))


def _panel(table: Table, meanings: Mapping[str, str]) -> Html:
    """A table; a click on a row shows the errors that it counts."""
    rows = []
    for number, (first, *rest) in enumerate(table.rows[:ON_A_PAGE]):
        given: dict[str, Any] = {}
        if table.picks:
            pick = table.picks[number]
            title = f"{meanings.get(pick.get('kind', ''), '')} (click: show them)".lstrip()
            given = {"class_": "pick", "tabindex": 0, "title": title}
            given |= {f"data_{key}": value for key, value in pick.items()}
        drawn = tag("td", first, bar(table.shares[number]) if table.shares else None)
        rows.append(tag("tr", drawn, *cells(rest), **given))
    whole = tag("table", tag("tr", *(tag("th", name) for name in table.head)), *rows)
    kind = "panel" if table.cut and len(table.head) < 6 else "panel wide"
    return tag("div", tag("div", whole, class_="scroll"), class_=kind)


def _article(error: Facts, words: Sequence[str] | None, hues: Mapping[str, int]) -> Html:
    """One error with what it is chosen and sorted by."""
    spans = {side: error[side] for side in SIDES if error[side] is not None}
    chances = [span["probability"] for span in spans.values() if span["probability"] is not None]
    close = 1.0 if not chances else abs(chances[0] - (chances[1] if len(chances) == 2 else 0.5))
    lines = []
    for side, span in spans.items():
        shown = tag("span", _place(span))
        if words is not None:
            shown = marked_words(
                words,
                [Span(span["start"], span["end"], _named(span["type"]), span["probability"])],
                hues,
            )
        lines.append(tag("div", tag("small", side), shown, class_="side"))
    about = tag("p", f"sentence {error['sentence']} ", tag("b", error["kind"]))
    new = tag("p", "with an unseen token") if error["unseen"] else None
    return tag(
        "article",
        tag("div", about, new, class_="about"),
        *lines,
        data_kind=error["kind"],
        data_text=error["text"],
        data_unseen=SEEN[not error["unseen"]],
        data_certain=-_certainty(error),
        data_close=close,
        **{f"data_{side}": _named(span["type"]) for side, span in spans.items()},
    )


PROGRAM = """
const PAGE = 100;  // errors that are shown at first, and with each "show more"
for (const form of document.forms) {
  const layer = form.closest(".layer"), fields = form.elements, box = form.nextElementSibling;
  const more = layer.querySelector(".more");
  const all = [...layer.querySelector("template").content.children];
  const texts = new Map(all.map(error => [error, [error.dataset.text,
    ...[...error.querySelectorAll(".side > span")].map(line => line.textContent)
  ].join(" ").toLowerCase()]));
  let shown = PAGE;
  const fits = (error, name) =>
    !fields[name] || !fields[name].value || error.dataset[name] === fields[name].value;
  const draw = () => {
    const text = fields.text.value.trim().toLowerCase();
    const order = ["", "certain", "close"][fields.order.selectedIndex];
    const rows = all.filter(error => texts.get(error).includes(text)
      && ["kind", "gold", "predicted", "unseen"].every(name => fits(error, name)));
    if (order) rows.sort((a, b) => a.dataset[order] - b.dataset[order]);
    box.replaceChildren(...rows.slice(0, shown));
    more.hidden = rows.length <= shown;
    form.querySelector("output").textContent = `${rows.length} of ${all.length} errors`;
  };
  const again = () => { shown = PAGE; draw(); };
  form.oninput = again;
  form.onsubmit = () => false;
  form.onreset = () => setTimeout(again);
  more.onclick = () => { shown += PAGE; draw(); };
  for (const row of layer.querySelectorAll(".pick")) {
    row.onclick = () => {
      for (const name of ["kind", "gold", "predicted", "text"]) {
        if (fields[name]) fields[name].value = row.dataset[name] || "";
      }
      again();
      form.scrollIntoView({behavior: "smooth"});
    };
    row.onkeydown = event => { if (event.key === "Enter") row.onclick(); };
  }
  draw();
}
"""
