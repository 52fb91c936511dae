"""Explanations as one self-contained page: it draws what `labelwright explain --json` writes."""

from collections.abc import Sequence
from typing import Any

from labelwright.html_page import Html, bar, html_page, marked, table, tag
from labelwright.inspection.explanation import in_view

MOST = 40  # features of a token; the others are summed up
DOUBTFUL = 2.0  # log-odds below which a token is marked
NEIGHBOURS = 8  # that are shown of a token
HELP = (
    "Choose a token to see why it has its label. The best labelling of the sentence is compared with the best one that "
    "has another label there; the contributions add up to the difference of their scores. A yellow token is one where "
    "the log-odds are below 2. A struck-out label is wrong; the gold label follows it."
)
Facts = dict[str, Any]


def page(facts: Facts) -> str:
    """The page of explained sentences."""
    sentences = facts["sentences"]
    n = f"{len(sentences)} sentence{'' if len(sentences) == 1 else 's'}"
    about = tag("p", f"{facts['kind']} {facts['model']}, {n} of {facts['file']}")
    header = tag("header", tag("h1", "Why these labels?"), about, tag("p", HELP))
    body = "\n".join([header, *map(_sentence, sentences)])
    return html_page(f"Why these labels? {facts['model']}", STYLE, body, PROGRAM)


def _sentence(sentence: Facts) -> Html:
    """The tokens of each layer as buttons, and what they open."""
    parts = []
    for layer, tokens in sentence["layers"].items():
        panels = tag("template", *(_why(token, sentence["words"]) for token in tokens))
        parts += [tag("h3", layer) if layer else None, tag("div", *map(_button, tokens), class_="tokens"), panels]
    return tag("section", tag("h2", f"Sentence {sentence['sentence']}"), *parts, class_="panel")


def _is_doubtful(token: Facts) -> bool:
    return token["measure"] == "log-odds" and token["log_odds"] is not None and token["log_odds"] < DOUBTFUL


def _button(token: Facts) -> Html:
    label = [tag("s", token["label"]), " ", token["gold"]] if token.get("wrong") else [token["label"]]
    against = (
        None
        if token["runner_up"] is None
        else f"{token['measure']} {token['log_odds']:.2f} against {token['runner_up']}"
    )
    kinds = ["plain"] * (token["label"] == "O") + ["doubtful"] * _is_doubtful(token)
    given = {"title": against, "data_odds": token["log_odds"], "class_": " ".join(kinds) or None}
    return tag("button", _name(token), tag("small", *label), type="button", aria_pressed="false", **given)


def _name(token: Facts) -> str:
    return f"token {token['token']}" if token["word"] is None else str(token["word"])


def _why(token: Facts, words: Sequence[str]) -> Html:
    """Why a token has its label."""
    heading = [f"{_name(token)}: ", tag("b", token["label"]), _percent(token["probability"])]
    parts: list[Html | None] = []
    if token["runner_up"] is None:
        parts.append(tag("p", "No other label is possible here, or none was proposed.", class_="quiet"))
    else:
        heading += [" rather than ", tag("b", token["runner_up"]), _percent(token["runner_up_probability"])]
        parts.append(tag("p", f"{token['measure']} {token['log_odds']:.4f}", class_="quiet"))
        if token["runner_up_labels"]:
            parts += [tag("h3", "The two labellings, where they differ"), _labellings(token, words)]
    if token.get("wrong"):
        heading += ["; wrong, gold is ", tag("b", token["gold"])]
    if token["flips"]:
        flips = [f"{flip['label']} without {flip['name']} {_at(words[flip['token']])}" for flip in token["flips"]]
        parts += [
            tag("h3", "Without one of these the label would be another"),
            tag("ul", *(tag("li", f) for f in flips)),
        ]
    elif token["flips"] is not None:
        parts.append(
            tag("p", "No single feature decides: without any one of them the label is the same.", class_="quiet")
        )
    if token["runner_up"] is not None:
        parts += [tag("h3", "Contributions"), _contributions(token, words)]
    if token["details"]:
        parts += _details(token["details"])
    return tag("div", tag("h2", *heading), *parts, class_="why")


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f" ({100 * share:.{2 if share > 0.9995 or share < 0.0005 else 1}f} %)"


def _at(text: str) -> str:
    return f"at “{text}”"


def _contributions(token: Facts, words: Sequence[str]) -> Html:
    """The largest contributions with bars, the sum of the others, transitions, and the sum of all."""
    features, transitions = in_view(token)
    shown, rest = features[:MOST], features[MOST:]
    largest = max((abs(row["value"]) for row in [*shown, *transitions]), default=1.0)

    def line(row: Facts, place: str) -> list[Any]:
        drawn = tag(
            "div", bar(abs(row["value"]) / largest / 2, "against" if row["value"] < 0 else "for"), class_="axis"
        )
        return [f"{row['value']:+.3f}", drawn, tag("code", row["name"]), place]

    rows = []
    for row in shown:
        place = "" if row["token"] is None else _at(" ".join(words[row["token"] : row["end"]]))
        rows.append(line(row, place + (" · from the layer below" if row["below"] else "")))
    if rest:
        rows.append([f"{sum(row['value'] for row in rest):+.3f}", "", f"{len(rest)} more", ""])
    rows += [line(row, "") for row in transitions]
    rows.append([tag("b", f"{token['log_odds']:+.3f}"), "", tag("b", f"sum: the {token['measure']}"), ""])
    return tag("div", table((), rows), class_="scroll")


def _labellings(token: Facts, words: Sequence[str]) -> Html:
    pairs = list(zip(token["labels"], token["runner_up_labels"], strict=True))
    unlike = [t for t, (one, other) in enumerate(pairs) if one != other]
    shown = range(max(0, unlike[0] - 2), min(len(words), unlike[-1] + 3))
    rows = [
        [name, *(tag("b", pairs[t][k]) if t in unlike else pairs[t][k] for t in shown)]
        for k, name in enumerate(("label", "runner-up"))
    ]
    return table(["", *(words[t] for t in shown)], rows)


def _details(details: Facts) -> list[Html]:
    """The predictions that cover a token, and its neighbours."""
    rows = [
        [
            row["token"] if row["word"] is None else row["word"],
            _gram(row["labels"]),
            f"confidence {row['confidence']:.3f}",
        ]
        for row in details["proposals"]
    ]
    parts = [tag("h3", f"Predictions that cover it (inference {details['inference']})"), table((), rows)]
    if details.get("neighbours"):
        near = (_neighbour(row) for row in details["neighbours"][:NEIGHBOURS])
        parts += [tag("h3", "Nearest neighbours in the training data"), tag("ul", *near)]
    return parts


def _neighbour(row: Facts) -> Html:
    n = len(row["instances"])
    tokens = "1 token" if n == 1 else f"{n} tokens"
    sources = [
        tag("div", f"sentence {at['sentence']}: ", marked(at["words"], at["token"], at["token"] + 1), class_="quiet")
        for at in row["places"]
        if at["words"] is not None
    ]
    return tag("li", f"distance {row['distance']:.4f}, {_gram(row['labels'])}, {tokens}", *sources)


def _gram(labels: Sequence[str | None]) -> str:
    return " ".join("_" if label is None else str(label) for label in labels)


STYLE = """
section { margin: 1rem 0; }
.tokens { display: flex; flex-wrap: wrap; gap: .3rem; }
.tokens button { background: none; text-align: left; line-height: 1.3; }
.tokens small { display: block; color: var(--quiet); font-size: .75rem; }
.tokens .plain small { opacity: .55; } s { color: var(--bad); }
.tokens button:hover { border-color: var(--link); }
.tokens button[aria-pressed=true] { outline: 2px solid var(--link); }
.tokens .doubtful { background: var(--mark); border-color: var(--edge); }
.why { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .8rem; overflow-x: auto; }
.why b { font-weight: 650; } td, th { white-space: nowrap; } ul { margin: .2rem 0; padding-left: 1.2rem; }
.axis { position: relative; width: 16rem; height: .8rem; background: linear-gradient(var(--line), var(--line))
  center / 1px 100% no-repeat; }
.axis .bar { position: absolute; top: 0; bottom: 0; height: auto; margin: 0; }
.axis .for { left: 50%; background: var(--good); } .axis .against { right: 50%; background: var(--bad); }
@media (max-width: 40rem) { .axis { width: 7rem; } body { padding: .8rem; } }
"""

PROGRAM = """
for (const section of document.querySelectorAll("section")) {
  const buttons = [...section.querySelectorAll(".tokens button")];
  for (const line of section.querySelectorAll(".tokens")) {
    const panels = line.nextElementSibling.content.children;
    [...line.children].forEach((button, n) => { button.onclick = () => {
      const open = button.getAttribute("aria-pressed") === "true";
      section.querySelectorAll(".why").forEach(panel => panel.remove());
      buttons.forEach(each => each.setAttribute("aria-pressed", "false"));
      if (open) return;
      button.setAttribute("aria-pressed", "true");
      line.after(panels[n].cloneNode(true));
    }; });
  }
}
// Of the first tokens, the one that was decided most closely is open.
const odds = button => Number(button.dataset.odds ?? Infinity);
[...document.querySelector(".tokens")?.children ?? []].sort((a, b) => odds(a) - odds(b))[0]?.click();
"""
