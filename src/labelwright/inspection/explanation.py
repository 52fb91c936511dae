"""Why a token has its label: the best labelling against the best one with another label there, feature by feature.

The *log-odds* of two labellings is the difference of their scores: log P(one) / P(other) of a model with probabilities.
It is the sum of the *contributions*: what each feature, transition or constraint adds to the one score and not to the
other.  docs/explanations.md says what that is for each kind of tagger.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from labelwright.errors import OptionError
from labelwright.wording import Html, bar, counted, html_page, marked, plain, table, tag

MOST = 40  # features of a token; the others are summed up
DOUBTFUL = 2.0  # log-odds below which a token is marked
NEIGHBOURS = 8  # that are shown of a token
HELP = (
    "Choose a token to see why it has its label. The best labelling of the sentence is compared with the best one that "
    "has another label there; the contributions add up to the difference of their scores. A yellow token is one where "
    "the log-odds are below 2. A struck-out label is wrong; the gold label follows it."
)
Facts = dict[str, Any]
TRANSITION = "transition"  # the kind of contributions that are shown as net ones


class Contribution(NamedTuple):
    """What one feature, transition or constraint adds to the log-odds."""

    name: str  #: pos[0]=NNS; of the transitions into a token those of both labellings: B-NP → I-NP, not O → O
    kind: str  #: state, edge, triple, segment (by what a feature is attached to), transition, entropy, bias, constraint
    token: int | None  #: the token, or the first of the tokens, that it is about; None: the whole sentence
    end: int | None  #: the token after the last
    value: float  #: what it adds to the log-odds: the difference of the next two
    for_label: float  #: what it adds to the score of the labelling,
    for_runner_up: float  #: and to that of the runner-up
    below: bool = False  #: does it read labels of lower layers?


class Flip(NamedTuple):
    """A feature without which the token has another label: the sentence was scored again without it."""

    name: str  #: the feature, as pos[0]=NNS
    kind: str  #: what the feature is attached to: state, edge, triple, segment
    token: int  #: where the feature is, from 0
    label: str  #: what the token is then


class Explanation(NamedTuple):
    """Why one token has its label and not another."""

    token: int  #: its number in the sentence, from 0
    word: str | None  #: None where tokens are dicts or arrays
    label: str  #: the label that it has
    runner_up: str | None  #: the label there of the best labelling with another label (or the one that was asked for)
    measure: str  #: what contributions add up to: log-odds, margin (of scores), weight (of constraints), votes, share
    log_odds: float | None  #: of the labelling against that of the runner-up; None where no other label is possible
    probability: float | None  #: of the label at this token; None where a tagger has neither this nor a confidence
    runner_up_probability: float | None  #: of the runner-up at this token
    labels: list[str]  #: the best labelling,
    runner_up_labels: list[str] | None  #: and the best one with the runner-up
    contributions: list[Contribution]  #: the largest first; their values add up to log_odds
    flips: list[Flip] | None = None  #: features whose removal changes the label; None: not asked for
    details: dict[str, Any] | None = None  #: n-gram taggers: proposals; memory-based ones: neighbours

    def __repr__(self) -> str:
        token = f"token {self.token}" if self.word is None else f"{self.word!r} (token {self.token})"
        if self.runner_up is None or self.log_odds is None:
            return f"<Explanation of {token}: {self.label}, no other label>"
        odds = f"{self.measure} {self.log_odds:.4f} from {len(self.contributions)} contributions"
        return f"<Explanation of {token}: {self.label} rather than {self.runner_up}, {odds}>"

    @property
    def total(self) -> float:
        """The sum of the contributions."""
        return float(sum(c.value for c in self.contributions))

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return dict(plain(self))


# -- one way for all taggers ------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What is to be explained of one sentence."""

    tokens: Sequence[int] | None = None  # None: all
    against: str | None = None  # the label to compare with instead of the runner-up
    constraints: str | None = None
    flips: bool = True


def contribution(
    name: str, kind: str, token: int | None, end: int | None, one: float, other: float, below: bool = False
) -> Contribution:
    """What adds so much to the one labelling, and so much to the other."""
    return Contribution(name, kind, token, end, one - other, one, other, below)


class Alternative(NamedTuple):
    """The best labelling with another label at one token, compared with the best of all."""

    label: Any
    difference: float
    labels: list[Any] | None  # the whole labelling, where there is one
    contributions: list[Contribution]


class Evidence:
    """One sentence, its best labelling, and what speaks for it: a subclass for each way to score labellings."""

    measure: str  # what contributions add up to
    labels: list[Any]  # of the best labelling
    can_flip = True

    def alternatives(self, tokens: Sequence[int]) -> Sequence[Alternative | None]:
        """For each token the best labelling with another label there; None where there is none."""
        raise NotImplementedError

    def without_each(self, made: Sequence[Explanation]) -> Iterable[tuple[tuple[str, str, int], Sequence[Any]]]:
        """Each feature (name, kind, token) whose removal may change one of the labels that are explained, and all
        labels without it."""
        raise NotImplementedError

    def probability(self, t: int, label: Any) -> float | None:
        """Of a label at a token, where there is one."""
        return None

    def details(self, t: int) -> dict[str, Any] | None:
        """What else a tagger shows."""
        return None


def explained(
    evidence: Callable[[], Evidence], classes: Sequence[Any], words: Sequence[str | None], asked: Asked
) -> list[Explanation]:
    """Explain the tokens of one sentence that are asked about."""
    if asked.against is not None and asked.against not in classes:
        known = ", ".join(map(str, classes))
        raise OptionError(f"against: no label {asked.against!r} in this model, expected one of {known}")
    tokens = range(len(words)) if asked.tokens is None else asked.tokens
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < len(words):
            raise OptionError(f"token: expected a number from 0 to {len(words) - 1}, got {token!r}")
    if not tokens:
        return []
    sentence = evidence()
    made = []
    for t, other in zip(tokens, sentence.alternatives(tokens), strict=True):
        label = sentence.labels[t]
        one = Explanation(
            token=t,
            word=words[t],
            label=label,
            runner_up=None,
            measure=sentence.measure,
            log_odds=None,
            probability=sentence.probability(t, label),
            runner_up_probability=None,
            labels=sentence.labels,
            runner_up_labels=None,
            contributions=[],
            details=sentence.details(t),
        )
        if other is not None:
            largest_first = sorted((c for c in other.contributions if c.value != 0.0), key=lambda c: -abs(c.value))
            one = one._replace(
                runner_up=other.label,
                log_odds=other.difference,
                runner_up_probability=sentence.probability(t, other.label),
                runner_up_labels=other.labels,
                contributions=largest_first,
            )
        made.append(one)
    if not (asked.flips and sentence.can_flip):
        return made
    flips: list[list[Flip]] = [[] for _ in made]
    for removed, labels in sentence.without_each(made):
        for each, changes in zip(made, flips, strict=True):
            if labels[each.token] != each.label:
                changes.append(Flip(*removed, labels[each.token]))
    return [each._replace(flips=changes) for each, changes in zip(made, flips, strict=True)]


# -- as it is shown ---------------------------------------------------------------------------------------------------


def in_view(token: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The contributions of an explained token as they are shown: features, the largest first, and then transitions as
    one net contribution each of those into the token, out of it, and elsewhere."""
    features, nets = [], dict[str, dict[str, Any]]()
    for row in token["contributions"]:
        if row["kind"] != TRANSITION:
            features.append(row)
            continue
        where = {1: "in", 2: "out"}.get(row["end"] - token["token"], "elsewhere")
        names = {"in": f"into it: {row['name']}", "out": f"out of it: {row['name']}"}
        net = nets.setdefault(where, {"where": where, "name": names.get(where, "transitions elsewhere"), "value": 0.0})
        net["value"] += row["value"]
    return features, [nets[where] for where in ("in", "out", "elsewhere") if where in nets]


def sentence_facts(
    model: Any,
    corpus: Any,
    number: int,
    token: int | None = None,
    against: str | None = None,
    constraints: str | None = None,
    flips: bool = True,
) -> dict[str, Any]:
    """The explanation of one sentence of a corpus, ready for JSON: its tokens by layer (of a cascade)."""
    one = corpus.take(slice(number, number + 1))
    answer = model.explain(one, token, against=against, constraints=constraints, flips=flips)
    layers = answer if isinstance(answer, dict) else {"": answer}
    return {
        "sentence": number,
        "words": list(one.column(one.names[0])[0]),
        "layers": {name: [each.as_dict() for each in tokens] for name, tokens in layers.items()},
    }


# -- as a page ------------------------------------------------------------------------------------------------------


def page(facts: Facts) -> str:
    """The page of explained sentences: the tokens of each layer as buttons, and what they open."""
    about = f"{facts['kind']} {facts['model']}, {counted(len(facts['sentences']), 'sentence')} of {facts['file']}"
    parts = [tag("header", tag("h1", "Why these labels?"), tag("p", about), tag("p", HELP))]
    for sentence in facts["sentences"]:
        layers = []
        for layer, tokens in sentence["layers"].items():
            panels = tag("template", *(_why(token, sentence["words"]) for token in tokens))
            layers += [tag("h3", layer) if layer else None, tag("div", *map(_button, tokens), class_="tokens"), panels]
        parts.append(tag("section", tag("h2", f"Sentence {sentence['sentence']}"), *layers, class_="panel"))
    return html_page(f"Why these labels? {facts['model']}", STYLE, "\n".join(parts), PROGRAM)


def _button(token: Facts) -> Html:
    label = [tag("s", token["label"]), " ", token["gold"]] if token.get("wrong") else [token["label"]]
    odds, against = token["log_odds"], None
    if token["runner_up"] is not None:
        against = f"{token['measure']} {odds:.2f} against {token['runner_up']}"
    is_doubtful = token["measure"] == "log-odds" and odds is not None and odds < DOUBTFUL
    kinds = ["plain"] * (token["label"] == "O") + ["doubtful"] * is_doubtful
    given = {"title": against, "data_odds": odds, "class_": " ".join(kinds) or None}
    return tag("button", _name(token), tag("small", *label), type="button", aria_pressed="false", **given)


def _name(token: Facts) -> str:
    return f"token {token['token']}" if token["word"] is None else str(token["word"])


def _why(token: Facts, words: Sequence[str]) -> Html:
    """Why a token has its label."""
    heading = [f"{_name(token)}: ", tag("b", token["label"]), _percent(token["probability"])]
    parts: list[Html] = []
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
        flips = (f"{flip['label']} without {flip['name']} at “{words[flip['token']]}”" for flip in token["flips"])
        parts.append(tag("h3", "Without one of these the label would be another"))
        parts.append(tag("ul", *(tag("li", flip) for flip in flips)))
    elif token["flips"] is not None:
        same = "No single feature decides: without any one of them the label is the same."
        parts.append(tag("p", same, class_="quiet"))
    if token["runner_up"] is not None:
        parts += [tag("h3", "Contributions"), _contributions(token, words)]
    return tag("div", tag("h2", *heading), *parts, *_details(token["details"] or {}), class_="why")


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return f" ({100 * share:.{2 if share > 0.9995 or share < 0.0005 else 1}f} %)"


def _contributions(token: Facts, words: Sequence[str]) -> Html:
    """The largest contributions with bars, the sum of the others, transitions, and the sum of all."""
    features, transitions = in_view(token)
    shown, rest = features[:MOST], features[MOST:]
    largest = max((abs(row["value"]) for row in [*shown, *transitions]), default=1.0)

    def line(row: Facts, place: str) -> list[Any]:
        drawn = bar(abs(row["value"]) / largest / 2, "against" if row["value"] < 0 else "for")
        return [f"{row['value']:+.3f}", tag("div", drawn, class_="axis"), tag("code", row["name"]), place]

    rows = []
    for row in shown:
        place = "" if row["token"] is None else f"at “{' '.join(words[row['token'] : row['end']])}”"
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

    def gram(row: Facts) -> str:
        return " ".join("_" if label is None else str(label) for label in row["labels"])

    if not details:
        return []
    rows = [
        [row["token"] if row["word"] is None else row["word"], gram(row), f"confidence {row['confidence']:.3f}"]
        for row in details["proposals"]
    ]
    parts = [tag("h3", f"Predictions that cover it (inference {details['inference']})"), table((), rows)]
    near = []
    for row in (details.get("neighbours") or ())[:NEIGHBOURS]:
        about = f"distance {row['distance']:.4f}, {gram(row)}, {counted(len(row['instances']), 'token')}"
        places = [at for at in row["places"] if at["words"] is not None]
        texts = [(f"sentence {at['sentence']}: ", marked(at["words"], at["token"], at["token"] + 1)) for at in places]
        near.append(tag("li", about, *(tag("div", *text, class_="quiet") for text in texts)))
    return [*parts, tag("h3", "Nearest neighbours in the training data"), tag("ul", *near)] if near else parts


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
