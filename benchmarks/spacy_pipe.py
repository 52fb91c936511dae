"""labelwright's component in a spaCy pipeline beside spaCy's own NER, trained on the same texts: F1
and speed.

python benchmarks/spacy_pipe.py DIR
    DIR has train.txt, dev.txt and test.txt of CoNLL-2003; needs the extra spacy
"""

import argparse
import itertools
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.util import compounding

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


def spacy_ner(train: list[Doc], dev: list[Doc], limit: int) -> Any:
    """spaCy's NER with its default settings: the best on development data, until 1,600 batches
    bring nothing better."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = [Example(Doc(nlp.vocab, words=[token.text for token in doc]), doc) for doc in train]
    optimizer = nlp.initialize(lambda: examples)
    best, best_at, weights = -1.0, 0, b""
    for step, batch in enumerate(batches(examples), 1):
        nlp.update(batch, sgd=optimizer, drop=0.1)
        if step % 200 == 0 or step == limit:
            with nlp.use_params(optimizer.averages):
                score = f1(nlp, dev)
                print(f"  spaCy after {step:,} batches: F1 on dev {100 * score:.2f}", flush=True)
                if score > best:
                    best, best_at, weights = score, step, nlp.to_bytes()
        if step == limit or step - best_at >= 1600:
            break
    return nlp.from_bytes(weights)


def batches(examples: list[Example]) -> Iterator[list[Example]]:
    """Batches of 100 words at first, of 1,000 later, as spaCy's own configuration has them."""
    sizes = compounding(100, 1000, 1.001)
    for epoch in itertools.count():
        order = random.Random(epoch).sample(examples, len(examples))
        yield from minibatch_by_words(order, sizes, tolerance=0.2)


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
    parser.add_argument(
        "--steps", type=int, default=20_000, help="batches of spaCy's training, at most"
    )
    parser.add_argument("--sentences", type=int, default=None, help="of the training data")
    asked = parser.parse_args()
    blank = spacy.blank("en")
    train, dev, test = (
        docs_of(
            read_columns(asked.folder / f"{part}.txt", names="word,pos,chunk,ner").select(
                ["word", "ner"]
            ),
            blank,
        )
        for part in ("train", "dev", "test")
    )
    train = train[: asked.sentences]
    texts = [doc.text for doc in train][:N_TEXTS]
    for name, make in (
        ("labelwright", lambda: labelwright_ner(train)),
        ("spaCy", lambda: spacy_ner(train, dev, asked.steps)),
    ):
        begun, cpu = time.perf_counter(), time.process_time()
        nlp = make()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        list(nlp.pipe(texts[:3000]))
        begun = time.perf_counter()
        n_tokens = sum(map(len, nlp.pipe(texts)))
        speed = n_tokens / (time.perf_counter() - begun)
        print(
            f"{name}: trained in {seconds:.0f} s ({cpu:.0f} s of CPU time), F1 "
            f"{100 * f1(nlp, test):.2f}, nlp.pipe over {len(texts):,} texts ({n_tokens:,} tokens): "
            f"{speed:,.0f} tokens/s"
        )


if __name__ == "__main__":
    main()
