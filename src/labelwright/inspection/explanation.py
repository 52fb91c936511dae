"""Why a token has its label: the best labelling against the best one with another label there, feature by feature.

The *log-odds* of two labellings is the difference of their scores: log P(one) / P(other) of a model with probabilities.
It is the sum of the *contributions*: what each feature, transition or constraint adds to the one score and not to the
other.  docs/explanations.md says what that is for each kind of tagger.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from labelwright.errors import OptionError
from labelwright.wording import plain

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
    others = sentence.alternatives(tokens)
    made = [_explanation(sentence, t, words[t], other) for t, other in zip(tokens, others, strict=True)]
    return _with_flips(sentence, made) if asked.flips and sentence.can_flip else made


def _explanation(sentence: Evidence, t: int, word: str | None, other: Alternative | None) -> Explanation:
    label, runner_up = sentence.labels[t], None if other is None else other.label
    return Explanation(
        token=t,
        word=word,
        label=label,
        runner_up=runner_up,
        measure=sentence.measure,
        log_odds=None if other is None else other.difference,
        probability=sentence.probability(t, label),
        runner_up_probability=None if other is None else sentence.probability(t, runner_up),
        labels=sentence.labels,
        runner_up_labels=None if other is None else other.labels,
        contributions=[] if other is None else _ordered(other.contributions),
        details=sentence.details(t),
    )


def _ordered(contributions: list[Contribution]) -> list[Contribution]:
    """The largest first, without those that add nothing."""
    return sorted((c for c in contributions if c.value != 0.0), key=lambda c: -abs(c.value))


def _with_flips(sentence: Evidence, made: list[Explanation]) -> list[Explanation]:
    """The explanations with the features whose removal changes the label."""
    flips: list[list[Flip]] = [[] for _ in made]
    for removed, labels in sentence.without_each(made):
        for each, mine in zip(made, flips, strict=True):
            if labels[each.token] != each.label:
                mine.append(Flip(*removed, labels[each.token]))
    return [each._replace(flips=mine) for each, mine in zip(made, flips, strict=True)]


# -- as it is shown ---------------------------------------------------------------------------------------------------


def in_view(token: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The contributions of an explained token as they are shown: features, the largest first, and then transitions as
    one net contribution each of those into the token, out of it, and elsewhere."""
    features = [row for row in token["contributions"] if row["kind"] != TRANSITION]
    nets: dict[str, dict[str, Any]] = {}
    for row in token["contributions"]:
        if row["kind"] == TRANSITION:
            where = {1: "in", 2: "out"}.get(row["end"] - token["token"], "elsewhere")
            name = {"in": f"into it: {row['name']}", "out": f"out of it: {row['name']}"}.get(
                where, "transitions elsewhere"
            )
            net = nets.setdefault(where, {"where": where, "name": name, "value": 0.0})
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
