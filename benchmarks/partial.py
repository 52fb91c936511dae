"""Labels that are known in part, and class weights: what they cost and what they gain.

python benchmarks/partial.py labels DIR
    CoNLL-2000 in DIR: all labels, half of them, a tenth; the rest unknown, or O
python benchmarks/partial.py weights DIR
    CoNLL-2003 in DIR: precision and recall by the weight of O
python benchmarks/partial.py unmarked DIR
    train.txt, dev.txt in DIR: half of the entities unmarked, with an entity rate
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

from labelwright import CRF, Perceptron, SemiCRF
from labelwright.corpus import Corpus, convert, labels_of, read_columns, spans_of, unmarked_unknown
from labelwright.evaluate import evaluate

TAGGERS = {
    "crf": lambda **settings: CRF(max_iter=100, n_jobs=1, **settings),
    "perceptron": lambda **settings: Perceptron(
        max_iter=10, n_jobs=1, random_state=0, calibration=False, **settings
    ),
    "semi-crf": lambda **settings: SemiCRF(max_iter=60, n_jobs=1, **settings),
}


def measured(name: str, tagger: Any, X: Any, y: Any, test: Corpus) -> None:
    """Train, test and print a line."""
    begun = time.process_time()
    tagger.fit(X, y)
    seconds = time.process_time() - begun
    report = evaluate(test.y, tagger.predict(test.X))
    scores = (
        f"P {100 * report.precision:.2f}  R {100 * report.recall:.2f}  F1 {100 * report.f1:.2f}"
    )
    print(
        f"{name:40} {scores}  {len(tagger.weights_):>9,} weights  {seconds:5.0f} s of CPU time",
        flush=True,
    )


def labels(train: Corpus, test: Corpus, model: str, shares: list[float]) -> None:
    """Shares of the labels; 1 is all of them."""
    made, X, y = TAGGERS[model], train.X, train.y
    settings = {"template": "chunking"} if model != "semi-crf" else {}
    for share in shares:
        if share == 1:
            measured("all labels", made(**settings), X, y, test)
            continue
        rng = random.Random(0)
        part = [[label if rng.random() < share else None for label in labels] for labels in y]
        measured(f"{share:.0%}, others unknown", made(**settings), X, part, test)
        if model == "crf":
            measured(
                f"{share:.0%}, others unknown, scheme",
                made(constraints="scheme", **settings),
                X,
                part,
                test,
            )
        as_outside = [[label or "O" for label in labels] for labels in part]
        measured(f"{share:.0%}, others taken for O", made(**settings), X, as_outside, test)


def weights(train: Corpus, test: Corpus, model: str) -> None:
    """Precision against recall."""
    made, X, y = TAGGERS[model], [[row[0] for row in sentence] for sentence in train.X], train.y
    test = test.select(["word", "ner"])
    for weight in (10.0, 3.0, 1.0, 0.3, 0.1):
        measured(f"O={weight}", made(template="ner", class_weight={"O": weight}), X, y, test)
    measured("balanced", made(template="ner", class_weight="balanced"), X, y, test)


def unmarked(train: Corpus, dev: Corpus, model: str) -> None:
    """Half of the entities unmarked; every fifth sentence of the development data tells the rate,
    the rest scores."""
    others = [n for n in range(len(dev)) if n % 5]
    made, (X, y), told, test = (
        TAGGERS[model],
        named(train),
        named(dev.take(slice(0, None, 5))),
        named(dev.take(others)),
    )
    rng = random.Random(0)
    some = [
        labels_of([span for span in spans_of(labels) if rng.random() < 0.5], len(labels))
        for labels in y
    ]
    opened, test_corpus, rate = unmarked_unknown(some), Corpus.from_sequences(*test), in_entities(y)
    print(
        f"tokens in entities: {rate:.4f}, marked {in_entities(some):.4f}, told "
        f"{in_entities(told[1]):.4f}"
    )
    measured("all marked", made(template="ner"), X, y, test_corpus)
    measured("half unmarked, taken for O", made(template="ner"), X, some, test_corpus)
    measured("half unmarked, unknown", made(template="ner"), X, opened, test_corpus)
    rates = {"true": rate, "told": in_entities(told[1])} | {
        f"true * {x}": rate * x for x in (0.5, 0.8, 1.25, 2.0)
    }
    for name, each in rates.items():
        measured(
            f"unknown, entity_rate: {name}",
            made(template="ner", entity_rate=each),
            X,
            opened,
            test_corpus,
        )


def named(corpus: Corpus) -> tuple[Any, list[list[str]]]:
    """The words of sentences, and their labels in IOB2."""
    X = [[row if isinstance(row, str) else row[0] for row in sentence] for sentence in corpus.X]
    return X, convert(corpus.y, None, "iob2")


def in_entities(y: list[list[str]]) -> float:
    """The share of tokens whose label is not O."""
    return sum(label != "O" for labels in y for label in labels) / sum(map(len, y))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["labels", "weights", "unmarked"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, help="of the training data")
    parser.add_argument("--model", choices=TAGGERS, default="crf")
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        default=[1.0, 0.5, 0.1],
        help="of the labels that are known",
    )
    asked = parser.parse_args()
    names = {"labels": "word,pos,chunk", "weights": "word,pos,chunk,ner"}.get(asked.what)
    parts = "train", "dev" if asked.what == "unmarked" else "test"
    train, test = (read_columns(asked.folder / f"{part}.txt", names=names) for part in parts)
    train = train.take(slice(0, asked.sentences))
    if asked.what == "labels":
        labels(train, test, asked.model, asked.shares)
    elif asked.what == "unmarked":
        unmarked(train, test, asked.model)
    else:
        weights(train, test, asked.model)


if __name__ == "__main__":
    main()
