"""Text to be tagged: how it is split, and how its entities are written."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.options import DATA, OUTPUT, option
from labelwright.errors import OptionError
from labelwright.wording import did_you_mean

if TYPE_CHECKING:
    from labelwright.cli.reading import ToTag
    from labelwright.corpus.spans import Span
    from labelwright.corpus.tokenizer import Entity, Tokenizer

TARGETS = ("jsonl", "brat", "columns", "words")  # what the entities of a text are written as

Text = Annotated[
    bool, option("INPUT is plain text: write its entities, with places in characters.", None, DATA, "--text")
]
Characters = Annotated[bool, option("Text: every character is a token, as for Chinese.", None, DATA, "--characters")]
TokenPattern = Annotated[str | None, option("Text: a regular expression that matches the tokens.", "REGEX", DATA)]
TokenizerName = Annotated[str | None, option("Text: words, or ptb (do n't). [default: as in training]", "NAME", DATA)]
Sentences = Annotated[
    str | None, option("Text: split (by punctuation), lines or none. [default: as in training]", "NAME", DATA)
]
To = Annotated[str | None, option("Text: jsonl, brat, columns or words (segmented). [default: jsonl]", "NAME", OUTPUT)]


def text_format(text: bool, format: str | None, to: str | None, as_json: bool) -> str | None:
    """The format of the input, with --text among its options."""
    if text and format not in (None, "text"):
        raise OptionError(f"--text: the input is plain text, but --format says {format}; leave one of both out")
    is_text = text or format == "text"
    if to is not None and not is_text:
        raise OptionError("--to: says what the entities of a text are written as; add --text")
    if to is not None and to not in TARGETS:
        raise OptionError(f"--to: expected one of {', '.join(TARGETS)}, got {to!r}{did_you_mean(to, TARGETS)}")
    if to is not None and as_json:
        raise OptionError(f"--to: {to} is one form of the answer, and --json another; leave one of both out")
    return "text" if is_text else format


def tokenizer_given(
    before: "Tokenizer", name: str | None, characters: bool | None, pattern: str | None, sentences: str | None
) -> "Tokenizer | None":
    """The tokenizer that options ask for, where they ask for another one than that of the model."""
    if name is None and not characters and pattern is None:
        return None if sentences is None else before._replace(sentences=sentences).check()
    changed = before._replace(characters=bool(characters), pattern=pattern, name=name or "words")
    return changed._replace(sentences=sentences or before.sentences).check()


def with_offsets(piece: "ToTag", facts: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """What is said about each sentence of plain text, with the places of its tokens in the input."""
    if piece.split is None or piece.write is not None:  # those of several texts would not say which text they are of
        return facts
    places = [[[piece.begin + a, piece.begin + b] for a, b in tokens] for tokens in piece.split.places]
    return ({"tokens": fact["tokens"], "offsets": offsets} | fact for fact, offsets in zip(facts, places, strict=True))


class EntityWriter:
    """Writes the entities of a text, piece after piece."""

    def __init__(self, model: Any, target: str):
        name, self._tagger = list(model._outputs.items())[-1]
        self.output, self._target = name, target  # of a cascade the highest layer
        self._n = 0  # entities so far

    def written(self, piece: "ToTag", spans: Mapping[str, Sequence[Sequence["Span"]]]) -> bytes:
        """The entities that the spans of a piece are."""
        from labelwright.corpus.annotations import brat_lines
        from labelwright.corpus.labels import check_written
        from labelwright.corpus.token_records import dumped

        assert piece.split is not None
        if self._target == "words":
            return "".join(f"{' '.join(row)}\n" for row in piece.split.segmented(spans[self.output]) if row).encode()
        by_text = piece.split.entities(spans[self.output], piece.begin)
        entities = [entity for of_text in by_text for entity in of_text]
        first = self._n + 1 if piece.begin else 1  # of this text
        self._n = first - 1 + len(entities)
        if self._target == "brat":
            check_written((entity.type for entity in entities), piece.data.source)
            return brat_lines(entities, first).encode()
        return b"".join(dumped(self._shown(each)) + b"\n" for each in entities)

    def _shown(self, entity: "Entity") -> dict[str, Any]:
        """An entity, ready for JSON."""
        shown = entity._asdict()
        probability = shown.pop("probability")
        if probability is None:
            return shown
        return shown | {"probability" if self._tagger._probabilistic else "confidence": round(float(probability), 6)}
