"""What is known of a model as a page: scores, errors, calibration, explanations, training, weights,
latent states.

Facts come as dicts: of `evaluate` (Report, intervals, ErrorAnalysis, CalibrationReport), of
`Tagger.describe`, and of `explanation.sentence_facts`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from labelwright.evaluate import error_views
from labelwright.evaluate.report import percent as in_percent
from labelwright.inspection.explanation import Part, parts_of
from labelwright.pages import Curve, Html, Section, bar, chart, page, span_of_score, table, tag
from labelwright.wording import counted, percent

Facts = Mapping[str, Any]
MOST = 40  # contributions of a token; the others are summed up
DOUBTFUL = 2.0  # log-odds below which a token is marked
PANELS = 60  # of labels or states: beyond that, those with the largest weights or shares
RARE = 0.01  # the share of its label below which a latent state is not shown
WHAT = {
    "state": "Features of each label",
    "edge": "Features of transitions",
    "triple": "Features of triples",
}
ABOUT = (
    "Choose a token to see why it has its label. The best labelling of the sentence is compared "
    "with the best one that has another label there; the contributions add up to the difference of "
    "their scores. A yellow token is one where the log-odds are below 2. A struck-out label is "
    "wrong; the gold label follows it."
)


def report_page(facts: Facts) -> str:
    """The page of a report: all that is known of each output of a model, or of predictions.

    title, about : of the page
    outputs : by layer (of a cascade) scores, intervals, errors; and, as far as a model has them,
        calibration, sentences (explained), model (as `describe` returns it), rows (names and values
        of settings and training)"""
    outputs: Facts = facts["outputs"]

    def section(title: str, draw: Callable[[Facts], Html | None], program: str = "") -> Section:
        return Section(title, {name: draw(output) for name, output in outputs.items()}, program)

    errors = error_views.section({name: output["errors"] for name, output in outputs.items()})
    sections = [
        section("Scores", _scores),
        errors,
        section("Calibration", _calibration),
        section("Explanations", _explanations, PROGRAM),
        section("Training", _training),
        section("Weights", _weights),
        section("Latent states", lambda output: _views(output, "latent")),
        section("Labels in use", lambda output: _views(output, "use")),
    ]
    return page(facts["title"], facts["about"], sections)


def explanation_page(facts: Facts) -> str:
    """The page of explained sentences."""
    about = (
        f"{facts['kind']} {facts['model']}, {counted(len(facts['sentences']), 'sentence')} of "
        f"{facts['file']}"
    )
    drawn = tag("div", *map(_sentence, facts["sentences"]))
    return page(
        f"Why these labels? {facts['model']}",
        [about, ABOUT],
        [Section("Labels", {"": drawn}, PROGRAM)],
    )


# -- scores ----------------------------------------------------------------------------------------


def _scores(output: Facts) -> Html:
    """The score with its 95 % interval, and a row for each type, with an interval that is drawn."""
    scores, ranges = output["scores"], output["intervals"]
    chunks = scores["chunks"] is not None
    name, score = ("F1", scores["f1"]) if chunks else ("accuracy", scores["token_accuracy"])
    low, high = ranges["chunks"]["f1"] if chunks else ranges["token_accuracy"]
    per, rows = "per_type" if chunks else "per_label", []
    listed = [(kind, of, ranges[per][kind]["f1"]) for kind, of in scores[per].items()]
    listed += [("all", scores["chunks"], ranges["chunks"]["f1"])] if chunks else []
    # of the axis
    begin = math.floor(10 * min([0.9, *(between[0] for _, _, between in listed)])) / 10
    for kind, of, between in listed:
        shares = [in_percent(of[share]) for share in ("precision", "recall", "f1")]
        drawn = span_of_score(
            *((value - begin) / (1 - begin) for value in (between[0], of["f1"], between[1]))
        )
        sizes = [f"{of[count]:,}" for count in ("gold", "predicted", "correct")]
        rows.append([kind or "(no type)", *shares, _range(between), drawn, *sizes])
    axis = tag("div", tag("span", f"{100 * begin:.0f}"), tag("span", "100"), class_="ends")
    head = ["type" if chunks else "label", "precision", "recall", "F1", "95 % interval", axis]
    head += ["gold", "predicted", "correct"]
    accuracies = [
        f"{what} accuracy {in_percent(scores[f'{what}_accuracy'])} "
        f"({_range(ranges[f'{what}_accuracy'])}) of {counted(scores[f'n_{what}s'], what)}"
        for what in ("token", "sentence")
    ]
    return tag(
        "div",
        tag(
            "p",
            tag("b", in_percent(score)),
            f" {name}, 95 % interval {_range((low, high))}",
            class_="headline",
        ),
        tag("div", table(head, rows), class_="panel"),
        tag("p", "; ".join(accuracies), class_="quiet"),
        tag(
            "p",
            "Intervals: 1,000 samples of the sentences. ",
            tag("code", scores["signature"]),
            class_="quiet",
        ),
    )


def _range(between: Sequence[float]) -> str:
    return " to ".join(map(in_percent, between))


# -- calibration -----------------------------------------------------------------------------------


def _calibration(output: Facts) -> Html | None:
    """The reliability diagram, and the precision of the most probable predictions; the numbers
    below."""
    facts = output.get("calibration")
    if facts is None or not facts["n"]:
        return None
    bins, units = facts["bins"], {"entity": "entities", "token": "tokens"}[facts["unit"]]
    low = math.floor(10 * min(min(each["said"], each["right"]) for each in bins)) / 10
    spread = [1.96 * math.sqrt(each["right"] * (1 - each["right"]) / each["n"]) for each in bins]
    points = Curve([(each["said"], each["right"]) for each in bins], "dots", spread)
    diagonal = Curve([(low, low), (1.0, 1.0)], "dashed")
    reliability = chart(
        "Reliability", (
            f"{facts['measure']} of the "
            f"{facts['unit']}"
        ), "share that is right", [diagonal, points],
        (low, low), (1.0, 1.0),
    )  # fmt: skip
    curve, demanded = [Curve(facts["curve"])], []
    for each in facts["operations"]:
        kept = "no threshold reaches it"
        if each["threshold"] is not None:
            curve.append(
                Curve([(0.0, each["precision"]), (each["kept"], each["precision"])], "dashed")
            )
            kept = (
                f"keeps {percent(each['kept'])} of the {units} and finds {percent(each['recall'])} "
                "of the gold ones"
            )
            kept = (
                f"{facts['measure']} of {math.floor(1e4 * each['threshold']) / 1e4:.4f} or more "
                f"{kept}"
            )
        demanded.append((f"{100 * each['precision']:.0f} % precision", kept))
    least = math.floor(20 * min([0.95, *(precision for _, precision in facts["curve"])])) / 20
    kept_x = f"share of the {units} that is kept, the most probable first"
    coverage = chart("Precision of what is kept", kept_x, "", curve, (0.0, least), (1.0, 1.0))
    rows = [
        (
            f"{each['low']:.3f} to {each['high']:.3f}",
            f"{each['said']:.3f}",
            f"{each['right']:.3f}",
            f"{each['n']:,}",
        )
        for each in bins
    ]
    figures = (
        f"Expected calibration error {percent(facts['ece'])}, Brier score {facts['brier']:.4f}; "
    )
    figures += (
        f"{facts['n']:,} predicted {units}, mean {facts['measure']} {facts['said']:.3f}, right "
    )
    figures += f"{facts['right']:.3f}."
    head = [facts["measure"], f"mean {facts['measure']}", "share right", "n"]
    return tag(
        "div",
        tag("p", figures, class_="quiet"),
        tag(
            "div",
            *(tag("div", drawn, class_="panel") for drawn in (reliability, coverage)),
            class_="panels",
        ),
        table((), demanded, class_="wraps"),
        tag("details", tag("summary", "the bins as a table"), table(head, rows)),
    )


# -- training, weights, states ---------------------------------------------------------------------


def _training(output: Facts) -> Html | None:
    """Settings and sizes, and curves of the loss (or mistakes) and of the score on development
    data."""
    if "rows" not in output:
        return None
    rows = table((), output["rows"], class_="wraps plain")
    drawn = [
        tag("div", each, class_="panel") for each in _curves(output["model"].get("history") or ())
    ]
    return tag("div", tag("div", *drawn, class_="panels"), tag("div", rows, class_="panel"))


def _curves(history: Sequence[Facts]) -> Iterator[Html]:
    for key, title, factor in (
        ("loss", "Loss", 1),
        ("mistakes", "Mistakes", 1),
        ("dev", "Development data", 100),
    ):
        points = [
            (each["iteration"], factor * each[key])
            for each in history
            if math.isfinite(each.get(key, math.inf))
        ]
        if len(points) > 1 and not (key == "loss" and "mistakes" in history[0]):
            what = "F1 or accuracy, in percent" if key == "dev" else ""
            lowest = None if key == "dev" else 0.0
            yield chart(title, "iteration", what, [Curve(points)], (points[0][0], lowest))


def _weights(output: Facts) -> Html | None:
    """The strongest features and transitions, the texts and lengths of segments, or the weights of
    columns."""
    model = output.get("model", {})
    parts = []
    for kind, by_name in model.get("features", {}).items():
        if not (kind == "state" and "latent" in model):
            named = {
                name: [(row["weight"], row["feature"]) for row in rows]
                for name, rows in by_name.items()
            }
            parts += _group(WHAT.get(kind, f"Features of each {kind}"), named)
    plain = {"transitions": ("from", "to"), "triples": ("first", "second", "third")}
    arcs = {
        title: [
            (row["weight"], " → ".join(row[part] for part in parts)) for row in model.get(title, ())
        ]
        for title, parts in plain.items()
    }
    parts += _group("Transitions", arcs)
    segments = model.get("segments")
    if segments is not None:
        texts = {
            name: [(row["weight"], row["text"]) for row in rows]
            for name, rows in segments["texts"].items()
        }
        parts += _group("Texts of segments", texts)
        lengths = {
            kind: [(row[kind], f"length {length}") for length, row in segments["lengths"].items()]
            for kind in texts
        }
        parts += _group("Lengths of segments", lengths)
    columns = sorted(
        ((row["weight"], row["column"]) for row in model.get("feature_weights", ())), reverse=True
    )
    parts += _group("Weights of columns", {"": columns[:MOST]})
    return tag("div", *parts) if parts else None


def _group(title: str, named: Mapping[str, Sequence[tuple[float, str]]]) -> list[Html]:
    """A panel of weights for each name that has any."""
    named = {name: rows for name, rows in named.items() if any(weight for weight, _ in rows)}
    strongest = sorted(named, key=lambda name: -max(abs(weight) for weight, _ in named[name]))[
        :PANELS
    ]
    panels = []
    for name, rows in named.items():
        if name in strongest:
            largest, drawn = max(abs(weight) for weight, _ in rows), []
            for weight, text in rows:
                kind = "against" if weight < 0 else ""
                drawn.append(
                    [
                        tag("div", tag("code", text), bar(abs(weight) / largest, kind)),
                        f"{weight:+.3f}",
                    ]
                )
            panels.append(
                tag("div", tag("h3", name) if name else None, table((), drawn), class_="panel")
            )
    note = f" ({PANELS} of {len(named):,})" if len(named) > PANELS else ""
    return [tag("h3", f"{title}{note}"), tag("div", *panels, class_="panels")] if panels else []


def _on_axis(rows: Iterable[tuple[str, float | None, str]]) -> Html:
    """Numbers, bars to both sides of an axis, texts."""
    drawn = []
    for number, share, text in rows:
        of = None if share is None else bar(abs(share) / 2, "against" if share < 0 else "for")
        drawn.append(
            [number.strip(), tag("div", of, class_="axis"), tag("code", " ".join(text.split()))]
        )
    return table((), drawn)


def _views(output: Facts, key: str) -> Html | None:
    """Latent states, or labels, with their share, typical words, features and neighbours."""
    views = [
        view
        for view in output.get("model", {}).get(key) or ()
        if key == "use" or view["share"] >= RARE
    ]
    if not views or (key == "use" and "latent" in output["model"]):
        return None
    parts = []
    for label, group in groupby(
        views[:PANELS], key=lambda view: view["label"] if key == "latent" else ""
    ):
        panels = []
        for view in group:
            rows = [("words", " · ".join(word for word, _ in view["words"]))]
            rows.append(
                (
                    "features",
                    ", ".join(f"{name} ({weight:+.2f})" for name, weight in view["features"]),
                )
            )
            rows += [(f"{where} it", _neighbours(view[where])) for where in ("before", "after")]
            name = view["state"] if key == "latent" else view["label"]
            share = tag("span", f" {percent(view['share'])}", class_="quiet")
            shown = table((), [row for row in rows if row[1]], class_="wraps")
            panels.append(
                tag("div", tag("h3", name, share), bar(view["share"]), shown, class_="panel")
            )
        parts += [
            tag("h3", f"States of {label}") if label else None,
            tag("div", *panels, class_="panels"),
        ]
    of = "of its label" if key == "latent" else "of the tokens"
    about = (
        f"Share {of} in these sentences, typical words, the strongest features, and what stands "
        "beside it."
    )
    return tag("div", tag("p", about, class_="quiet"), *parts)


def _neighbours(near: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in near if share >= 0.005)


# -- explanations ----------------------------------------------------------------------------------


def _explanations(output: Facts) -> Html | None:
    sentences = output.get("sentences")
    if not sentences:
        return None
    about = "Wrong tokens of sentences with errors that the model was most certain of. "
    return tag("div", tag("p", about + ABOUT, class_="quiet"), *map(_sentence, sentences))


def _sentence(sentence: Facts) -> Html:
    """The tokens of each layer as buttons, and what they open."""
    layers = []
    for layer, tokens in sentence["layers"].items():
        words, buttons = sentence["words"], {token["token"]: _button(token) for token in tokens}
        shown = (
            [buttons.get(t) or tag("span", word) for t, word in enumerate(words)] if tokens else []
        )
        panels = tag("template", *(_why(token, words) for token in tokens))
        layers += [tag("h3", layer) if layer else None, tag("div", *shown, class_="tokens"), panels]
    return tag(
        "div", tag("h3", f"Sentence {sentence['sentence']}"), *layers, class_="panel sentence"
    )


def _button(token: Facts) -> Html:
    label = (
        [tag("s", token["label"]), " ", token["gold"]] if token.get("wrong") else [token["label"]]
    )
    odds, against = token["log_odds"], None
    if token["runner_up"] is not None:
        against = f"{token['measure']} {odds:.2f} against {token['runner_up']}"
    is_doubtful = token["measure"] == "log-odds" and odds is not None and odds < DOUBTFUL
    given = {"title": against, "data_odds": odds, "class_": "doubtful" if is_doubtful else None}
    return tag(
        "button", _name(token), tag("small", *label), type="button", aria_pressed="false", **given
    )


def _name(token: Facts) -> str:
    return f"token {token['token']}" if token["word"] is None else str(token["word"])


def _why(token: Facts, words: Sequence[str]) -> Html:
    heading = [f"{_name(token)}: ", tag("b", token["label"])]
    heading += [] if token["probability"] is None else [f" ({percent(token['probability'])})"]
    odds = "No other label is possible here, or none was proposed."
    if token["runner_up"] is not None:
        chance = token["runner_up_probability"]
        heading += [
            " rather than ",
            tag("b", token["runner_up"]),
            "" if chance is None else f" ({percent(chance)})",
        ]
        odds = f"{token['measure']} {token['log_odds']:.4f}"
    if token.get("wrong"):
        heading += ["; wrong, gold is ", tag("b", token["gold"])]
    parts = [each for part in parts_of(dict(token), words, MOST) for each in _part(part)]
    return tag("div", tag("h2", *heading), tag("p", odds, class_="quiet"), *parts, class_="why")


def _part(part: Part) -> list[Html]:
    title = f"{part.title[0].upper()}{part.title[1:]}"
    if not part.rows:
        return [tag("p", title, class_="quiet")]
    if not part.bars:
        return [tag("h3", title), tag("pre", "\n".join(row.text for row in part.rows))]
    return [tag("h3", title), _on_axis((row.number, row.bar, row.text) for row in part.rows)]


PROGRAM = """
for (const sentence of document.querySelectorAll(".sentence")) {
  const buttons = [...sentence.querySelectorAll(".tokens button")];
  for (const line of sentence.querySelectorAll(".tokens")) {
    const panels = line.nextElementSibling.content.children;
    line.querySelectorAll("button").forEach((button, n) => { button.onclick = () => {
      const open = button.getAttribute("aria-pressed") === "true";
      sentence.querySelectorAll(".why").forEach(panel => panel.remove());
      buttons.forEach(each => each.setAttribute("aria-pressed", "false"));
      if (open) return;
      button.setAttribute("aria-pressed", "true");
      line.after(panels[n].cloneNode(true));
    }; });
  }
}
// Of the first tokens, the one that was decided most closely is open.
const odds = button => Number(button.dataset.odds ?? Infinity);
[...document.querySelectorAll(".tokens:first-of-type button")]
  .sort((a, b) => odds(a) - odds(b))[0]?.click();
"""
