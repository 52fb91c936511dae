"""What commands that label have in common: the options of the decoders, and a summary of what was
proven."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli.files import inputs_of
from labelwright.cli.options import DECODING, NOT_NEGATIVE, option
from labelwright.cli.show import warn
from labelwright.errors import OptionError
from labelwright.settings import NOT_NEGATIVE as SECONDS
from labelwright.settings import Above, AtMost, Bounds, Number, Texts, Whole
from labelwright.wording import counted, either

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.table import Corpus
    from labelwright.decode import Decoding
    from labelwright.rules.rules import Rule

SHARE = Number(Bounds(Above(0), AtMost(1)))
OPTIONS = [
    option(
        "--decoder NAME",
        "exact (most probable labelling, proven), viterbi (best path), marginal (best label per "
        "token), ldi (by latent paths) or mbr (highest expected gain).",
        DECODING,
        shown="exact on latent CRFs, otherwise viterbi",
    ),
    option(
        "--n N",
        "ldi: latent paths, 0 for no limit; mbr: candidates.",
        DECODING,
        Whole(),
        shown="30",
    ),
    option("--alpha A", "ldi: stop sooner, A above 0 and up to 1.", DECODING, SHARE, shown="1"),
    option("--gain NAME", "mbr: f1 or accuracy.", DECODING, shown="f1"),
    option(
        "--candidates NAME",
        "mbr: nbest labellings, or those that ldi meets.",
        DECODING,
        shown="nbest",
    ),
    option(
        "--costs B-PER>O=5,...",
        "mbr: costs of wrong labels, RIGHT>PREDICTED=X; all others cost 1.",
        DECODING,
    ),
    option(
        "--max-expansions N",
        "exact, mbr: limit of the search.",
        DECODING,
        NOT_NEGATIVE,
        shown="100000",
    ),
    option(
        "--time-limit S", "exact, mbr, ldi: seconds per sentence.", DECODING, SECONDS, shown="none"
    ),
    option(
        "--inference NAME",
        "Memory-based models: csi (satisfies the most constraints, proven), vote or none.",
        DECODING,
        shown="as trained",
    ),
    option("--constraints scheme", "Only labellings that the label scheme permits.", DECODING),
    option(
        "--rule RULE",
        "Only labellings that satisfy a rule, as once (every label at most once) or 'at_most(2, "
        '"PER")\'; may be repeated; of a cascade LAYER:RULE (python -m pydoc '
        "labelwright.constraints).",
        DECODING,
        Texts(),
    ),
    option("--rules FILE", "A file of such rules, one on each line.", DECODING),
]
NAMES = [setting.name for setting in OPTIONS]
# the others are options of decoders
OF_THE_CHOICE = ("decoder", "inference", "constraints", "rule", "rules")
# options of mbr without costs
OF_CANDIDATES = ("gain", "n", "candidates", "max_expansions", "time_limit")
COUNTERS = ("latent_paths", "label_paths", "mass", "expansions")
MET = COUNTERS[:3]  # by LDI


def flag(name: str) -> str:
    """A decoder's option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


class Choice(NamedTuple):
    """A decoder and its options, and the constraints that it keeps."""

    decoder: str
    options: dict[str, Any]
    constraints: str | None = None
    rules: tuple["Rule", ...] = ()

    def under_rules(self, inputs: Any) -> "Callable[[Batch], Batch]":
        """What puts a batch of these sentences under the rules, which may look at the words."""
        from labelwright.taggers.arguments import rule_sentences

        if not self.rules:
            return lambda batch: batch
        words = rule_sentences(inputs)
        return lambda batch: batch.under(self.rules, words)


def chosen(model: Any, o: Any) -> dict[str, Choice]:
    """The decoder of every output of a model with its options, after a check that they go together.

    A decoder that is named holds for every layer of a cascade; options without one go to the layers
    whose own decoder takes them.  Constraints hold in the layers that have chunks."""
    decoding = {name: value for name, value in o.given.items() if name in NAMES}
    outputs, scheme = model._outputs, decoding.get("constraints")
    chunked = {name for name, tagger in outputs.items() if tagger.scheme_ is not None}
    if scheme is not None and not chunked and len(outputs) > 1:
        raise OptionError(
            "--constraints: no layer has labels that follow a chunk scheme (B-X, I-X, O, ...)"
        )
    rules = _rules_of(list(outputs), decoding.get("rule"), decoding.get("rules"))
    given = {name: value for name, value in decoding.items() if name not in OF_THE_CHOICE}
    choices, taken, by_default = {}, set[str](), "decoder" not in decoding
    for name, tagger in outputs.items():
        with of_layer(name):
            decoder = _named_decoder(tagger, decoding)
            takes, constraints = (
                tagger._decoder_options(decoder),
                scheme if name in (chunked or outputs) else None,
            )
            if rules[name]:
                tagger._check_rules(decoder)
                takes = list(tagger._rule_options)
            elif len(outputs) == 1 or not by_default:
                _check_options(tagger, decoder, given, by_default)
            tagger._check_constraints(decoder, rules[name] or constraints)
            options = {each: value for each, value in given.items() if each in takes}
            choices[name], taken = (
                Choice(decoder, options, constraints, rules[name]),
                taken | options.keys(),
            )
    with of_layer(name):  # the last
        left = {each: value for each, value in given.items() if each not in taken}
        _check_options(tagger, choices[name].decoder, left, by_default=True)
    if "costs" in given:
        from labelwright.decode.mbr import refuse_with_costs

        refuse_with_costs(flag(each) for each in OF_CANDIDATES if each in given)
    if given.get("candidates") == "ldi" and "max_expansions" in given:
        raise OptionError(
            "--max-expansions: limits the search for the n best, which --candidates ldi replaces"
        )
    return choices


def _named_decoder(tagger: Any, decoding: Mapping[str, Any]) -> str:
    """The decoder that was named by the option that the tagger has for it; its own where none
    was."""
    own = tagger._decoder_flag.removeprefix("--")
    for other in {"decoder", "inference"} - {own}:
        if decoding.get(other) is not None:
            use = f"{tagger._decoder_flag} {either(tagger.decoders)}"
            raise OptionError(f"--{other}: not for a {type(tagger).__name__}; use {use}")
    if decoding.get(own) == "oracle":
        raise OptionError(
            "--inference: the oracle needs the true labels; use labelwright eval MODEL TEST "
            "--oracle"
        )
    decoder: str = tagger._checked_decoder(decoding.get(own))
    return decoder


def _check_options(tagger: Any, decoder: str, given: Mapping[str, Any], by_default: bool) -> None:
    why, choice = tagger._why_one_decoder(), tagger._decoder_flag
    for name in (name for name in given if name not in tagger._decoder_options(decoder)):
        if why is not None:
            raise OptionError(
                f"{flag(name)}: not an option of {decoder}, the only decoder here: {why}"
            )
        takers = [other for other in tagger.decoders if name in tagger._decoder_options(other)]
        what = (
            f"{choice.removeprefix('--')} "
            f"{decoder}{' (the default of this model)' if by_default else ''}"
        )
        use = f"; use {choice} {either(takers)}" if takers else ""
        raise OptionError(f"{flag(name)}: not an option of the {what}{use}")


@contextmanager
def of_layer(name: str) -> Iterator[None]:
    """Errors about a layer of a cascade name it."""
    try:
        yield
    except OptionError as error:
        if not name:
            raise
        option, _, rest = str(error).partition(": ")
        raise OptionError(f"{option}: layer {name}: {rest}") from None


def _rules_of(
    outputs: list[str], written: Sequence[str] | None, path: str | None
) -> dict[str, tuple["Rule", ...]]:
    """The rules of every output, from the command line and from a file; of a cascade,
    LAYER:RULE."""
    from labelwright.constraints import read_rule, read_rules

    rules: dict[str, tuple[Rule, ...]] = dict.fromkeys(outputs, ())
    if path is not None:
        if len(outputs) > 1:
            raise OptionError("--rules: not for a cascade; use --rule LAYER:RULE")
        rules[outputs[0]] += tuple(read_rules(path))
    for text in written or ():
        layer, rule = outputs[0], text
        if len(outputs) > 1:
            layer, _, rule = text.partition(":")
            if layer not in outputs or not rule:
                raise OptionError(
                    f"--rule: got {text!r}, expected LAYER:RULE with a layer of "
                    f"{', '.join(outputs)}"
                )
        rules[layer] += (read_rule(rule),)
    return rules


def schemes_of(choices: Mapping[str, Choice]) -> dict[str, str]:
    return {
        name: choice.constraints
        for name, choice in choices.items()
        if choice.constraints is not None
    }


def check_sure(model: Any, flag: str) -> None:
    """Refuse a model without probabilities or confidences, and say what helps."""
    from labelwright.taggers.base import CONFIDENCE, PROBABILITY

    for name, tagger in model._outputs.items():
        if not tagger._is_sure:
            use = "use --nbest"
            if CONFIDENCE in tagger.can:
                train = "train it with --dev FILE, or " if "dev" in tagger._training_options else ""
                use = f"{train}calibrate it, then it has confidences to show"
            with of_layer(name):
                raise OptionError(f"{flag}: {tagger._lacks(PROBABILITY)}; {use}")


def uncalibrated(model: Any, wanted: bool) -> Any:
    """The model without its calibration, where that is wanted."""
    if not wanted:
        return model
    if not hasattr(model, "uncalibrated"):
        raise OptionError(
            f"--uncalibrated: a {type(model).__name__} cannot be calibrated; leave it out"
        )
    return model.uncalibrated()


def show_progress(model: Any, wanted: bool) -> None:
    """Show a bar where answering a whole file takes its time."""
    for tagger in model._outputs.values():
        if "verbose" in tagger.get_params(deep=False):
            tagger.set_params(verbose=int(wanted))


def warn_about(model: Any, corpus: "Corpus", more: bool = False, scored: bool = False) -> None:
    """Say what a user should know about a file and a model, in one line each; `more` sentences may
    follow."""
    from labelwright.inspection.warnings import labels_unseen, scheme_differs, words_unknown

    lines: list[str | None] = []
    if more:
        corpus = replace(
            corpus, source=f"{corpus.source}, first {counted(len(corpus), 'sentence')}"
        )
    for name, tagger in model._outputs.items():
        column = name or corpus.label
        if column is not None and column in corpus.names:
            place = f"{corpus.source}: column {column}"
            unseen = (
                labels_unseen(tagger.classes_, corpus.values(column), place) if scored else None
            )
            lines.append(scheme_differs(tagger, corpus, column) or unseen)
    for line in [*lines, words_unknown(model, inputs_of(model, corpus))]:
        warn(line)


class Tally:
    """What the decoder has proven so far."""

    def __init__(self) -> None:
        self.sentences = self.proven = self.unbounded = self.searched = 0
        self.gap = 0.0
        self.sums = dict.fromkeys(MET, 0.0)  # of what LDI met in the sentences that it searched
        self._begun = time.perf_counter()

    def add(self, decodings: Sequence["Decoding"]) -> None:
        self.sentences += len(decodings)
        self.proven += sum(d.exact for d in decodings)
        self.unbounded += sum(d.gap is None for d in decodings)
        self.gap = max([self.gap, *(d.gap for d in decodings if d.gap is not None)])
        searched = [d for d in decodings if d.latent_paths is not None]
        self.searched += len(searched)
        for name in MET:
            self.sums[name] += sum(getattr(d, name) for d in searched)

    def as_dict(self) -> dict[str, Any]:
        """The counts, ready for JSON; of LDI also what it met on average in a sentence."""
        gap, seconds = (
            None if self.unbounded else self.gap,
            round(time.perf_counter() - self._begun, 3),
        )
        means = {
            f"mean_{name}": total / self.searched
            for name, total in self.sums.items()
            if self.searched
        }
        return {
            "sentences": self.sentences,
            "exact": self.proven,
            "gap": gap,
            "seconds": seconds,
            **means,
        }

    def of_search(self) -> str | None:
        """How far LDI searched (Sun & Tsujii 2009: exactitude, latent paths), in one line; None for
        other decoders."""
        if not self.searched:
            return None
        paths, mass = (
            self.sums["latent_paths"] / self.searched,
            100 * self.sums["mass"] / self.searched,
        )
        return (
            f"ldi: {self._share()} % proven exact; on average {paths:.1f} latent paths, {mass:.2f} "
            "% of the probability"
        )

    def _share(self) -> str:
        """How many sentences of a hundred are proven."""
        share = 100 * self.proven / max(1, self.sentences)
        return "100" if self.proven == self.sentences else f"{min(share, 99.99):.2f}"

    def __str__(self) -> str:
        gap = (
            f"no bound on the gap of {self.unbounded:,}"
            if self.unbounded
            else f"largest gap {self.gap:.3g}"
        )
        proven = (
            f"{counted(self.sentences, 'sentence')}, {self.proven:,} proven exact ({self._share()} "
            "%)"
        )
        return f"{proven}, {gap}, {time.perf_counter() - self._begun:.2f} seconds"
