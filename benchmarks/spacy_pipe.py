"""labelwright's component in a spaCy pipeline beside spaCy's own NER, trained on the same texts: F1 and speed.

python benchmarks/spacy_pipe.py DIR --steps 3000   DIR has train.txt and test.txt of CoNLL-2003; needs the extra spacy
"""

import argparse
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import compounding, minibatch

from labelwright import CRF
from labelwright.corpus import Corpus, read_columns, spans_of

N_TEXTS = 10_000


def docs_of(corpus: Corpus, nlp: Any) -> list[Doc]:
    """The sentences as documents with their entities."""
    docs = []
    for words, labels in zip(corpus.X, corpus.y, strict=True):
        doc = Doc(nlp.vocab, words=words)
        doc.ents = [Span(doc, span.start, span.end, label=span.type) for span in spans_of(labels)]
        docs.append(doc)
    return docs


def spacy_ner(train: list[Doc], steps: int) -> Any:
    """spaCy's NER with its default settings, trained for so many batches."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in train]
    optimizer = nlp.initialize(lambda: examples)
    sizes, done = compounding(32.0, 256.0, 1.001), 0
    while done < steps:
        random.Random(done).shuffle(examples)
        for batch in minibatch(examples, sizes):
            nlp.update(batch, sgd=optimizer, drop=0.1)
            done += 1
            if done == steps:
                break
    return nlp


def labelwright_ner(train: list[Doc]) -> Any:
    """A CRF on the words of the same documents."""
    X = [[token.text for token in doc] for doc in train]
    y = [[f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc] for doc in train]
    nlp = spacy.blank("en")
    nlp.add_pipe("labelwright").tagger = CRF(template="ner").fit(X, y)
    return nlp


def f1(nlp: Any, test: Iterable[Doc]) -> float:
    """F1 of the entities of the same tokens."""
    (_, component), correct, total = nlp.pipeline[0], 0, 0
    for doc in test:
        gold = {(ent.start, ent.end, ent.label_) for ent in doc.ents}
        answer = component(Doc(nlp.vocab, words=[token.text for token in doc]))
        found = {(ent.start, ent.end, ent.label_) for ent in answer.ents}
        correct, total = correct + len(gold & found), total + len(gold) + len(found)
    return 2 * correct / max(total, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000, help="batches of spaCy's training")
    parser.add_argument("--sentences", type=int, default=None, help="of the training data")
    asked = parser.parse_args()
    blank = spacy.blank("en")
    train, test = (
        docs_of(read_columns(asked.folder / f"{part}.txt", names="word,pos,chunk,ner").select(["word", "ner"]), blank)
        for part in ("train", "test")
    )
    train = train[: asked.sentences]
    texts = [doc.text for doc in train][:N_TEXTS]
    for name, make in (
        ("labelwright", lambda: labelwright_ner(train)),
        ("spaCy", lambda: spacy_ner(train, asked.steps)),
    ):
        begun = time.perf_counter()
        nlp = make()
        seconds = time.perf_counter() - begun
        list(nlp.pipe(texts[:3000]))
        begun = time.perf_counter()
        n_tokens = sum(map(len, nlp.pipe(texts)))
        speed = n_tokens / (time.perf_counter() - begun)
        print(
            f"{name}: trained in {seconds:.0f} s, F1 {100 * f1(nlp, test):.2f}, nlp.pipe over {len(texts):,} texts "
            f"({n_tokens:,} tokens): {speed:,.0f} tokens/s"
        )


if __name__ == "__main__":
    main()
