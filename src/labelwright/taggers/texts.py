"""Text in, entities out: what a tagger that reads words says about running text."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.spans import Span
from labelwright.corpus.split_texts import Entity, SplitTexts, labelled_spans, split_texts
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.tokenizer import Tokenizer


def entities_in(
    model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
) -> dict[str, list[list[Entity]]]:
    """The entities of each text by every output of a model, with probabilities or (calibrated) confidences."""
    if isinstance(texts, str):
        raise OptionError("texts: got one string, expected a list of texts")
    split = split_for(model, texts, tokenizer)
    if not split.texts:
        return {name: [] for name in model.outputs}
    return {name: split.entities(spans) for name, spans in spans_in(model, split.words).items()}


def spans_in(model: Any, sentences: list[list[str]]) -> dict[str, list[list[Span]]]:
    """The spans of sentences by every output of a model, with probabilities or (calibrated) confidences."""

    def question(name: str, tagger: Any, batch: Any) -> list[list[Span]]:
        decoded = batch.decode(tagger.checked_decoder(None), probabilities=False)
        return text_spans(tagger, batch, [decoding.labels for decoding in decoded])

    answers: dict[str, list[list[Span]]] = model.ask(sentences, question)
    return answers


def text_spans(tagger: Any, batch: "Batch", labellings: list[list[str]]) -> list[list[Span]]:
    """The spans of labellings, with their probabilities; labels that make no chunks are one for each token."""
    sure = batch.sure
    if any(map(is_chunk_label, tagger.classes_)):
        return sure.spans(labellings)
    if not sure.probabilistic:
        return [labelled_spans(labels) for labels in labellings]
    return [
        [Span(t, t + 1, label, row[label]) for t, (label, row) in enumerate(zip(labels, rows, strict=True))]
        for labels, rows in zip(labellings, sure.marginals(), strict=True)
    ]


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
