"""Text in, entities out: what a tagger that reads words says about running text."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from labelwright.corpus.spans import Span
from labelwright.corpus.tokenizer import Entity, SplitTexts, split_texts
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer


def entities_in(
    model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
) -> dict[str, list[list[Entity]]]:
    """The entities of each text by every output of a model, with probabilities or (calibrated) confidences."""
    if isinstance(texts, str):
        raise OptionError("texts: got one string, expected a list of texts")
    split = split_for(model, texts, tokenizer)
    if not split.texts:
        return {name: [] for name in model._outputs}
    return {name: split.entities(spans) for name, spans in spans_in(model, split.words).items()}


def spans_in(model: Any, sentences: list[list[str]]) -> dict[str, list[list[Span]]]:
    """The spans of sentences by every output of a model, with probabilities or (calibrated) confidences."""

    def question(name: str, tagger: Any, batch: Any) -> list[list[Span]]:
        decoded = batch.decode(tagger._checked_decoder(None), probabilities=False)
        entities: list[list[Span]] = batch.entities([decoding.labels for decoding in decoded])
        return entities

    answers: dict[str, list[list[Span]]] = model._ask_outputs(sentences, question)
    return answers


def split_for(model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None) -> SplitTexts:
    """Texts as the sentences that a model reads."""
    check_reads_words(model)
    return split_texts(texts, model.tokenizer() if tokenizer is None else tokenizer.check())


def check_reads_words(model: Any) -> None:
    """Refuse text for a model that reads more than words."""
    schema = model.reads()
    if schema.kind != "columns":
        raise OptionError(f"text: the model reads {schema.kind}, not words; train one on words")
    if len(schema.columns) > 1:
        names = ",".join(schema.columns)
        raise OptionError(
            f"text: the model reads {len(schema.columns)} columns ({names}), and text has words alone; train on words "
            "and labels alone, or a cascade that predicts the other columns"
        )
