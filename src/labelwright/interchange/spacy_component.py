"""A component for spaCy's pipelines: `nlp.add_pipe("labelwright", config={"model": "ner.crf"})`.

It reads spaCy's tokens and sentences (a document is one sentence where none are set) and sets
`doc.ents`.  The probability of each entity is in `ent._.probability`, and `doc.spans` holds the
same spans under the name of the component. Entities that other components have set before stay
where they do not overlap, or are replaced with `overwrite`.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from labelwright.errors import OptionError

NAME = "labelwright"
FILE = "model.safetensors"  # in the folder of the component
PROBABILITY = "probability"  # the extension attribute of spans


def make_component(nlp: Any, name: str, model: str | None, overwrite: bool) -> "SpacyTagger":
    """The component that spaCy's registry makes.  A pipeline that was saved names a model that may
    be gone, but it has its own copy, which `from_disk` reads.

    nlp : the pipeline
    name : of the component in it
    model : the path of a model file
    overwrite : replace entities that are there already
    """
    from labelwright.taggers.registry import load

    tagger = load(model) if model is not None and Path(model).exists() else None
    return SpacyTagger(tagger, name, overwrite, path=model)


class SpacyTagger:
    """Finds entities with a tagger that reads words.

    tagger : a trained tagger; in Python it may be set after the component was made
    name : of the component in the pipeline
    overwrite : replace entities that are there already, and not only add others
    path : of the model file that the tagger came from, for messages
    """

    def __init__(
        self, tagger: Any = None, name: str = NAME, overwrite: bool = False, path: str | None = None
    ):
        from spacy.tokens import Span as SpacySpan

        self.name, self.overwrite, self._path = name, overwrite, path
        self.tagger = tagger
        if not SpacySpan.has_extension(PROBABILITY):
            SpacySpan.set_extension(PROBABILITY, default=None)

    @property
    def tagger(self) -> Any:
        """The trained tagger."""
        if self._tagger is None:
            if self._path is not None:
                raise OptionError(
                    f"{self.name}: {self._path}: no such file, expected a model that labelwright "
                    "trained"
                )
            raise OptionError(
                f"{self.name}: no model; name one, as in add_pipe({NAME!r}, config={{'model': "
                "'ner.crf'})"
            )
        return self._tagger

    @tagger.setter
    def tagger(self, tagger: Any) -> None:
        from labelwright.taggers.arguments import check_reads_words

        if tagger is not None:
            check_reads_words(tagger)
        self._tagger = tagger

    @property
    def labels(self) -> tuple[str, ...]:
        """The types of entities that may be set; none before there is a model."""
        from labelwright.corpus.schemes import boundaries

        if self._tagger is None:
            return ()
        return tuple(boundaries(list(list(self._tagger._outputs.values())[-1].classes_)).types)

    def __call__(self, doc: Any) -> Any:
        """Set the entities of a document."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 256) -> Iterator[Any]:
        """Set the entities of documents, a batch at a time.

        stream : documents
        batch_size : documents that are answered together
        """
        from spacy.util import minibatch

        for docs in minibatch(stream, batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: list[Any]) -> None:
        from spacy.tokens import Span as SpacySpan

        from labelwright.taggers.arguments import spans_in

        sentences = [(n, tokens) for n, doc in enumerate(docs) for tokens in _sentences(doc)]
        if not sentences:
            return
        words = [[token.text for token in tokens] for _, tokens in sentences]
        *_, highest = spans_in(self.tagger, words).values()  # of a cascade the highest layer
        entities: list[list[Any]] = [[] for _ in docs]
        for (n, tokens), spans in zip(sentences, highest, strict=True):
            for span in spans:
                entity = SpacySpan(
                    docs[n], tokens[span.start].i, tokens[span.end - 1].i + 1, label=span.type
                )
                if span.probability is not None:
                    entity._.set(PROBABILITY, float(span.probability))
                entities[n].append(entity)
        for doc, added in zip(docs, entities, strict=True):
            doc.spans[self.name] = added
            kept = [] if self.overwrite else list(doc.ents)
            taken = {token.i for entity in kept for token in entity}
            doc.ents = [
                *kept,
                *(each for each in added if taken.isdisjoint(range(each.start, each.end))),
            ]

    # -- files -------------------------------------------------------------------------------------

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tagger into a folder of the pipeline.

        path : the folder of the component
        exclude : taken for spaCy's sake; there is nothing to leave out
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self.tagger.save(folder / FILE)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SpacyTagger":
        """Read the tagger that `to_disk` wrote.

        path : the folder of the component
        exclude : taken for spaCy's sake; there is nothing to leave out
        """
        from labelwright.taggers.registry import load

        self.tagger = load(Path(path) / FILE)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The tagger as the bytes of its model file.

        exclude : taken for spaCy's sake; there is nothing to leave out
        """
        content = BytesIO()
        self.tagger.save(content)
        return content.getvalue()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "SpacyTagger":
        """Read the tagger from the bytes of its model file.

        data : what `to_bytes` returned
        exclude : taken for spaCy's sake; there is nothing to leave out
        """
        from labelwright.taggers.registry import load

        self.tagger = load(BytesIO(data))
        return self


def _sentences(doc: Any) -> Iterator[list[Any]]:
    """The tokens of each sentence of a document but those that are only spaces."""
    for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
        tokens = [token for token in sentence if not token.is_space]
        if tokens:
            yield tokens


try:
    from spacy.language import Language
except ImportError:  # the module can be read without the extra
    pass
else:
    Language.factory(
        NAME,
        default_config={"model": None, "overwrite": False},
        assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
        func=make_component,
    )
