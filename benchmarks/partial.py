"""Labels that are known in part, and class weights: what they cost and what they gain.

python benchmarks/partial.py labels DIR    CoNLL-2000 in DIR: all labels, half of them, a tenth; the rest unknown, or O
python benchmarks/partial.py weights DIR   CoNLL-2003 in DIR: precision and recall by the weight of O
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

from labelwright import CRF, Perceptron, SemiCRF
from labelwright.corpus import Corpus, read_columns
from labelwright.evaluate import evaluate

TAGGERS = {
    "crf": lambda **settings: CRF(max_iter=100, n_jobs=1, **settings),
    "perceptron": lambda **settings: Perceptron(max_iter=10, n_jobs=1, random_state=0, calibration=False, **settings),
    "semi-crf": lambda **settings: SemiCRF(max_iter=60, n_jobs=1, **settings),
}


def measured(name: str, tagger: Any, X: Any, y: Any, test: Corpus) -> None:
    """Train, test and print a line."""
    begun = time.process_time()
    tagger.fit(X, y)
    seconds = time.process_time() - begun
    report = evaluate(test.y, tagger.predict(test.X))
    scores = f"P {100 * report.precision:.2f}  R {100 * report.recall:.2f}  F1 {100 * report.f1:.2f}"
    print(f"{name:40} {scores}  {len(tagger.weights_):>9,} weights  {seconds:5.0f} s of CPU time", flush=True)


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
            measured(f"{share:.0%}, others unknown, scheme", made(constraints="scheme", **settings), X, part, test)
        as_outside = [[label or "O" for label in labels] for labels in part]
        measured(f"{share:.0%}, others taken for O", made(**settings), X, as_outside, test)


def weights(train: Corpus, test: Corpus, model: str) -> None:
    """Precision against recall."""
    made, X, y = TAGGERS[model], [[row[0] for row in sentence] for sentence in train.X], train.y
    test = test.select(["word", "ner"])
    for weight in (10.0, 3.0, 1.0, 0.3, 0.1):
        measured(f"O={weight}", made(template="ner", class_weight={"O": weight}), X, y, test)
    measured("balanced", made(template="ner", class_weight="balanced"), X, y, test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["labels", "weights"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, help="of the training data")
    parser.add_argument("--model", choices=TAGGERS, default="crf")
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0, 0.5, 0.1], help="of the labels that are known")
    asked = parser.parse_args()
    names = "word,pos,chunk" if asked.what == "labels" else "word,pos,chunk,ner"
    train, test = (read_columns(asked.folder / f"{part}.txt", names=names) for part in ("train", "test"))
    train = train.take(slice(0, asked.sentences))
    if asked.what == "labels":
        labels(train, test, asked.model, asked.shares)
    else:
        weights(train, test, asked.model)


if __name__ == "__main__":
    main()
