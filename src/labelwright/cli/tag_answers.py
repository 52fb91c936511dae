"""What labelwright tag asks about sentences, and the answers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.common import counted, inputs_of, say
from labelwright.cli.reading import ToTag
from labelwright.cli.tag_text import EntityWriter
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.decode import Decoding

FREE = "_"  # in the column of known labels: the model may choose


class Request(NamedTuple):
    """What is asked about every sentence."""

    choices: dict[str, how.Choice]  # the decoder of every output of the model
    nbest: int | None
    probabilities: bool
    json: bool
    known: str | None  # the column of known labels
    tallies: dict[str, how.Tally]  # of what is proven, where that is asked for
    entities: EntityWriter | None = None  # of texts
    least: float | None = None  # the probability of entities that are shown
    distinct: str | None = None  # of the n best: the label that stands for nothing
    annotated: bool = False  # whether annotated texts get one more annotation


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: "Decoding"
    spans: "list[Span]"
    nbest: list[tuple[list[str], float]]
    marginals: list[dict[str, float]]
    labels: list[str]  # that are shown: without entities that are not probable enough


def answers_about(model: Any, piece: ToTag, request: Request) -> dict[str, list[Answer]]:
    """All that is asked about one piece, by output."""
    corpus, forced = piece.corpus, None
    request = request._replace(annotated=piece.split is not None and piece.write is not None and not request.json)
    inputs: Any = piece.data.X if corpus is None else inputs_of(model, corpus)
    if request.known is not None and corpus is not None:
        forced = {name: _forced(corpus, request.known, part.classes_) for name, part in model._outputs.items()}
    if request.nbest is not None and piece.write and not request.json:
        raise OptionError("--nbest: this format has no place for several labellings; add --json")

    def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
        return _answers(tagger, ruled[name](batch), request, request.choices[name])

    ruled = {name: choice.under_rules(inputs) for name, choice in request.choices.items()}
    with _as_known(corpus):
        answers: dict[str, list[Answer]] = model._ask_outputs(inputs, question, forced, how.schemes_of(request.choices))
    for name, tally in request.tallies.items():
        tally.add([answer.decoding for answer in answers[name]])
    return answers


def _forced(corpus: "Corpus", known: str, labels: Sequence[str]) -> list[list[Any]]:
    """What a column says of labels: a label, a set of labels, or None where the model may choose."""
    from labelwright.corpus.partial_labels import sets_among

    values = corpus.values(known)
    members = sets_among(values, frozenset(labels))
    says = {v: v if found is None else found or None for v, found in zip(values, members, strict=True)} | {FREE: None}
    return [[says[label] for label in sentence] for sentence in corpus.column(known)]


@contextmanager
def _as_known(corpus: "Corpus | None") -> Iterator[None]:
    """Errors about forced labels name the option that gives them."""
    try:
        yield
    except OptionError as error:
        name, _, rest = str(error).partition(": ")
        if name != "forced" or corpus is None:
            raise
        raise OptionError(f"--known: {corpus.source}: {rest}") from None


def _answers(tagger: Any, batch: "Batch", request: Request, choice: how.Choice) -> list[Answer]:
    """All answers about sentences that are scored once."""
    listed = request.nbest is not None and not request.json
    decodings: list[Any] = [None] * len(batch)
    if not listed:
        decodings = batch.decode(choice.decoder, probabilities=request.json or bool(request.tallies), **choice.options)
    nbest: list[Any] = [[]] * len(batch)
    if request.nbest is not None:
        nbest = batch.nbest(request.nbest, choice.options.get("max_expansions"), request.distinct)
    marginals = batch.sure.marginals() if request.probabilities else [[]] * len(batch)
    labels, spans = _shown(tagger, batch, request, [[] if each is None else each.labels for each in decodings])
    return [Answer(*parts) for parts in zip(decodings, spans, nbest, marginals, labels, strict=True)]


def _shown(
    tagger: Any, batch: "Batch", request: Request, labels: list[list[str]]
) -> tuple[list[list[str]], "list[list[Span]]"]:
    """The labels and the spans that are shown."""
    nothing: list[list[Span]] = [[]] * len(batch)
    of_texts = request.entities is not None or request.annotated
    if request.least is not None:
        shown = batch.confident(labels, request.least, tagger.scheme_)
        chunks = of_texts or tagger.scheme_ is not None  # without, no spans in JSON
        return [row for row, _ in shown], [entities for _, entities in shown] if chunks else nothing
    if of_texts:
        return labels, batch.entities(labels)
    return labels, batch.sure.spans(labels) if request.json else nothing


class Unsummed:
    """Counts the sentences whose probabilities under the rules are not known."""

    def __init__(self) -> None:
        self.sentences = 0

    def add(self, model: Any, answers: dict[str, list[Answer]], request: Request) -> None:
        """Count those among some answers."""
        if not request.json and request.entities is None:  # which show probabilities without being asked
            return
        for name, rows in answers.items():
            if request.choices[name].rules and model._outputs[name]._is_sure:
                self.sentences += sum(_lacks_probability(row, request.json) for row in rows)

    def report(self) -> None:
        """One line, where there are any."""
        if self.sentences:
            say(
                f"labelwright: {counted(self.sentences, 'sentence')} without probabilities: the rules leave too many "
                "possibilities there; give fewer rules, or name fewer labels in them"
            )


def _lacks_probability(answer: Answer, is_json: bool) -> bool:
    if is_json and answer.decoding.log_probability is None and answer.decoding.confidence is None:
        return True
    return any(span.probability is None for span in answer.spans)
