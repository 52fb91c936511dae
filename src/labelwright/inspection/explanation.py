"""Why a token has its label: the best labelling against the best one with another label there,
feature by feature.

The *log-odds* of two labellings is the difference of their scores: log P(one) / P(other) of a model
with probabilities. It is the sum of the *contributions*: what each feature, transition or
constraint adds to the one score and not to the other.  docs/explanations.md says what that is for
each kind of tagger.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from labelwright.corpus.partial_labels import written
from labelwright.errors import OptionError
from labelwright.wording import align, in_context, percent, plain

ALIGNED = 32  # letters of a name up to which places stand below each other
SHOWN_WORDS = 4  # around a neighbour in its sentence
# measures in other words
TOTALS = {"margin": "margin of scores", "weight": "weight of constraints"}
Facts = dict[str, Any]
TRANSITION = "transition"  # the kind of contributions that are shown as net ones


class Contribution(NamedTuple):
    """What one feature, transition or constraint adds to the log-odds."""

    #: pos[0]=NNS; of the transitions into a token those of both labellings: B-NP → I-NP, not O → O
    name: str
    #: state, edge, triple, segment (by what a feature is attached to), transition, entropy, bias,
    #: constraint
    kind: str
    #: the token, or the first of the tokens, that it is about; None: the whole sentence
    token: int | None
    end: int | None  #: the token after the last
    value: float  #: what it adds to the log-odds: the difference of the next two
    for_label: float  #: what it adds to the score of the labelling,
    for_runner_up: float  #: and to that of the runner-up
    below: bool = False  #: does it read labels of lower layers?


class Flip(NamedTuple):
    """A feature without which the token has another label: the sentence was scored again without
    it."""

    name: str  #: the feature, as pos[0]=NNS
    kind: str  #: what the feature is attached to: state, edge, triple, segment
    token: int  #: where the feature is, from 0
    label: str  #: what the token is then


class Explanation(NamedTuple):
    """Why one token has its label and not another."""

    token: int  #: its number in the sentence, from 0
    word: str | None  #: None where tokens are dicts or arrays
    label: str  #: the label that it has
    #: the label there of the best labelling with another label (or the one that was asked for)
    runner_up: str | None
    #: what contributions add up to: log-odds, margin (of scores), weight (of constraints), votes,
    #: share
    measure: str
    #: of the labelling against that of the runner-up; None where no other label is possible
    log_odds: float | None
    #: of the label at this token; None where a tagger has neither this nor a confidence
    probability: float | None
    runner_up_probability: float | None  #: of the runner-up at this token
    labels: list[str]  #: the best labelling,
    runner_up_labels: list[str] | None  #: and the best one with the runner-up
    contributions: list[Contribution]  #: the largest first; their values add up to log_odds
    #: features whose removal changes the label; None: not asked for
    flips: list[Flip] | None = None
    #: n-gram taggers: proposals; memory-based ones: neighbours
    details: dict[str, Any] | None = None

    def __repr__(self) -> str:
        token = (
            f"token {self.token}" if self.word is None else f"{self.word!r} (token {self.token})"
        )
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


# -- one way for all taggers -----------------------------------------------------------------------


class Asked(NamedTuple):
    """What is to be explained of one sentence."""

    tokens: Sequence[int] | None = None  # None: all
    against: str | None = None  # the label to compare with instead of the runner-up
    constraints: str | None = None
    flips: bool = True


def contribution(
    name: str,
    kind: str,
    token: int | None,
    end: int | None,
    one: float,
    other: float,
    below: bool = False,
) -> Contribution:
    """What adds so much to the one labelling, and so much to the other."""
    return Contribution(name, kind, token, end, one - other, one, other, below)


class Alternative(NamedTuple):
    """The best labelling with another label at one token, compared with the best of all."""

    label: Any
    difference: float | None
    labels: list[Any] | None  # the whole labelling, where there is one
    contributions: list[Contribution]


class Evidence:
    """One sentence, its best labelling, and what speaks for it: a subclass for each way to score
    labellings."""

    measure: str  # what contributions add up to
    labels: list[Any]  # of the best labelling
    can_flip = True

    def alternatives(self, tokens: Sequence[int]) -> Sequence[Alternative | None]:
        """For each token the best labelling with another label there; None where there is none."""
        raise NotImplementedError

    def without_each(
        self, made: Sequence[Explanation]
    ) -> Iterable[tuple[tuple[str, str, int], Sequence[Any]]]:
        """Each feature (name, kind, token) whose removal may change one of the labels that are
        explained, and all labels without it."""
        raise NotImplementedError

    def probability(self, t: int, label: Any) -> float | None:
        """Of a label at a token, where there is one."""
        return None

    def details(self, t: int) -> dict[str, Any] | None:
        """What else a tagger shows."""
        return None


def explained(
    evidence: Callable[[], Evidence],
    classes: Sequence[Any],
    words: Sequence[str | None],
    asked: Asked,
) -> list[Explanation]:
    """Explain the tokens of one sentence that are asked about."""
    if asked.against is not None and asked.against not in classes:
        known = ", ".join(map(str, classes))
        raise OptionError(
            f"against: no label {asked.against!r} in this model, expected one of {known}"
        )
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
        found = other or Alternative(None, None, None, [])
        one = Explanation(
            token=t,
            word=words[t],
            label=label,
            runner_up=found.label,
            measure=sentence.measure,
            log_odds=found.difference,
            probability=sentence.probability(t, label),
            runner_up_probability=None if other is None else sentence.probability(t, found.label),
            labels=sentence.labels,
            runner_up_labels=found.labels,
            contributions=sorted(
                (c for c in found.contributions if c.value != 0.0), key=lambda c: -abs(c.value)
            ),
            details=sentence.details(t),
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


# -- as it is shown --------------------------------------------------------------------------------


def in_view(token: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The contributions of an explained token as they are shown: features, the largest first, and
    then transitions as one net contribution each of those into the token, out of it, and
    elsewhere."""
    features, nets = [], dict[str, dict[str, Any]]()
    for row in token["contributions"]:
        if row["kind"] != TRANSITION:
            features.append(row)
            continue
        where = {1: "in", 2: "out"}.get(row["end"] - token["token"], "elsewhere")
        names = {"in": f"into it: {row['name']}", "out": f"out of it: {row['name']}"}
        net = nets.setdefault(
            where, {"where": where, "name": names.get(where, "transitions elsewhere"), "value": 0.0}
        )
        net["value"] += row["value"]
    return features, [nets[where] for where in ("in", "out", "elsewhere") if where in nets]


def is_wrong(label: Any, gold: Any) -> bool:
    """Is a label not the gold one, or none of a set?  None: the gold label is unknown."""
    return gold is not None and (
        label not in gold if isinstance(gold, frozenset) else label != gold
    )


def sentence_facts(
    model: Any,
    corpus: Any,
    number: int,
    token: int | None = None,
    against: str | None = None,
    constraints: Any = None,
    gold: Mapping[str, Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """The explanation of one sentence of a corpus, ready for JSON: its tokens by layer (of a
    cascade), with gold labels where some layers have them."""
    one = corpus.take(slice(number, number + 1))
    answer = model.explain(one, token, against=against, constraints=constraints)
    explained = answer if isinstance(answer, dict) else {"": answer}
    layers = {name: [each.as_dict() for each in tokens] for name, tokens in explained.items()}
    for name, tokens in layers.items() if gold is not None else ():
        labels = (gold or {}).get(name)
        for each in tokens:
            label = None if labels is None else labels[each["token"]]
            each["gold"] = written(label) if isinstance(label, frozenset) else label
            each["wrong"] = is_wrong(each["label"], label)
    return {"sentence": number, "words": list(one.column(one.names[0])[0]), "layers": layers}


class Row(NamedTuple):
    """A line of a part."""

    text: str
    number: str = ""
    # its length, as a share of the longest; to the left where it is negative
    bar: float | None = None


class Part(NamedTuple):
    """A part of what explains a token, for terminals and pages."""

    title: str
    rows: list[Row]  # none: the title says all
    # "axis": numbers, bars to both sides of an axis, texts; "share": bars from the left; else texts
    bars: str = ""


def parts_of(token: Facts, words: Sequence[str], top: int) -> Iterator[Part]:
    """What explains a token, with so many contributions, votes and neighbours."""
    other = token["runner_up_labels"]
    if other is not None:  # with a token on each side
        unlike = [t for t, (a, b) in enumerate(zip(token["labels"], other, strict=True)) if a != b]
        near = slice(max(0, unlike[0] - 1), min(len(words), unlike[-1] + 2))
        rows = [["", *words[near]], ["label", *token["labels"][near]], ["runner-up", *other[near]]]
        compared = [Row(line) for line in align(rows, range(len(rows[0])))]
        yield Part("the two labellings that are compared, where they differ", compared)
    if token["runner_up"] is not None:
        measure = str(TOTALS.get(token["measure"], token["measure"]))
        yield Part(
            f"contributions to the {measure}", _contributions(token, words, top, measure), "axis"
        )
    if token["flips"]:
        flips = [
            f"{row['label']:<10} without {row['name']}  at {words[row['token']]!r}"
            for row in token["flips"]
        ]
        yield Part("without one of these the label would be another", list(map(Row, flips)))
    elif token["flips"] == []:
        yield Part("no single feature decides: without any one of them the label is the same", [])
    details = token["details"]
    if not details:
        return
    proposals = [
        [
            str(row["token"]),
            row["word"] or "",
            gram_text(row["labels"]),
            f"confidence {row['confidence']:.3f}",
        ]
        for row in details["proposals"]
    ]
    title = f"predictions that cover it (inference {details['inference']})"
    yield Part(title, list(map(Row, align(proposals, {1, 2, 3}))))
    votes = [
        Row(gram_text(row["labels"]), f"{percent(row['share']):>8}", row["share"])
        for row in details["classes"][:top]
    ]
    yield Part("votes of its own prediction", votes, "share")
    if details.get("neighbours"):
        yield Part(
            "nearest neighbours in the training data",
            list(map(Row, _neighbours(details["neighbours"], top))),
        )
    elif "neighbours" in details:
        yield Part(
            "no neighbours: an igtree answers by classes, not by instances; train with --algorithm "
            "ib1",
            [],
        )


def _contributions(token: Facts, words: Sequence[str], top: int, measure: str) -> list[Row]:
    """The strongest features, then the net contributions of transitions, and sums."""
    features, transitions = in_view(token)
    shown, rest, below = features[:top], features[top:], [row for row in features if row["below"]]
    largest = max((abs(row["value"]) for row in [*shown, *transitions]), default=1.0)
    width = min(max((len(row["name"]) for row in shown), default=0), ALIGNED)
    rows = [([row], f"{row['name']:<{width}}  {place_of(row, words)}", True) for row in shown]
    rows += [(rest, f"{len(rest):,} more", False)] if rest else []
    rows += [([row], row["name"], True) for row in transitions]
    rows.append((token["contributions"], f"sum: the {measure}", False))
    rows += (
        [(below, "of it from the labels of lower layers (--below explains these)", False)]
        if below
        else []
    )
    sums = [sum(row["value"] for row in summed) for summed, _, _ in rows]
    return [
        Row(text, f"{value:+9.4f}", value / largest if drawn else None)
        for value, (_, text, drawn) in zip(sums, rows, strict=True)
    ]


def place_of(row: Facts, words: Sequence[str]) -> str:
    """The words that a contribution is about."""
    return "" if row["token"] is None else f"at {' '.join(words[row['token'] : row['end']])!r}"


def _neighbours(rows: Sequence[Facts], top: int) -> Iterator[str]:
    for row in rows[:top]:
        alike = f", {len(row['instances']):,} alike" if len(row["instances"]) > 1 else ""
        yield f"distance {row['distance']:.4f}  {gram_text(row['labels'])}{alike}"
        for place in row["places"]:
            t, words = place["token"], place["words"]
            where = (
                f"sentence {place['sentence']:,}, token {t}"
                if place["sentence"] is not None
                else None
            )
            marked = [] if words is None else [*words[:t], f"[{words[t]}]", *words[t + 1 :]]
            around = f": {in_context(marked, t, t + 1, SHOWN_WORDS)}" if marked else ""
            yield f"  {where}{around}" if where else "  its sentence is not known"
        unlike = ", ".join(f"{name} {value}" for name, value in list(row["differs"].items())[:6])
        yield f"  differs in {unlike}" if unlike else "  the same in all columns"
    if len(rows) > top:
        yield f"... and {len(rows) - top:,} more, with --json all"


def gram_text(labels: Sequence[str | None]) -> str:
    return " ".join("_" if label is None else str(label) for label in labels)
