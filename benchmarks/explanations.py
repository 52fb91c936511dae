"""Do explanations add up?  Random tokens of CoNLL-2000 for every tagger, checked by scoring again.

    python benchmarks/explanations.py [--tokens 1000] [--sentences 1000] [--flips] [--only
    "crf;memory"]

For each tagger: the largest difference between the sum of the contributions and the log-odds,
between the log-odds and the scores of the two labellings when each is forced, and between a
contribution and what removing its feature changes (four features of each token; with latent states
it is a gradient, which the tests check).  It needs the corpora.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from labelwright import (
    CRF,
    Cascade,
    LatentCRF,
    LatentPerceptron,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    SemiCRF,
)
from labelwright.corpus.columns import read_columns
from labelwright.corpus.table import Corpus
from labelwright.inspection.weight_evidence import WeighedSentence, without

COLUMNS = "word,pos,chunk"
REMOVED = 3  # features of a token
ORDER_2 = "U1:%x[0,0]\nU2:%x[-1,1]/%x[0,1]\n*3:%x[0,1]\nT4:%x[0,1]\nB\nT"

MAKERS: dict[str, Callable[[], Any]] = {
    "crf": lambda: CRF(template="chunking", max_iter=30),
    "crf, order 2": lambda: CRF(ORDER_2, order=2, max_iter=8),
    "crf, pruned": lambda: CRF(template="words", prune_labels=0.999, max_iter=15),
    "latent-crf": lambda: LatentCRF(n_latent=3, template="words", max_iter=15, random_state=0),
    "perceptron": lambda: Perceptron(template="chunking", max_iter=5),
    "latent-perceptron": lambda: LatentPerceptron(
        n_latent=2, template="words", max_iter=5, random_state=0
    ),
    "semi-crf": lambda: SemiCRF(template="words", max_iter=15),
    "cascade": lambda: Cascade(
        [
            ("pos", CRF(template="words", max_iter=10)),
            ("chunk", CRF(template="words", max_iter=10)),
        ],
        passing="best",
    ),
    "memory": lambda: MemoryTagger(k=3),
    "memory, vote": lambda: MemoryTagger(k=3, inference="vote"),
    "memory, none": lambda: MemoryTagger(k=3, inference="none"),
    "n-gram": lambda: NgramTagger(LogisticRegression(max_iter=50), template="words"),
}


def removals(model: Any, x: Corpus, each: Any, rng: np.random.Generator) -> float:
    """The largest difference between a contribution and what removing its feature changes: of some
    features with a contribution, and of one that has none."""
    data = model.encode(x)
    weighed = WeighedSentence(model, data)
    listed = weighed.listed

    def odds(encoded: Any) -> float:
        one, other = (
            model.decode(encoded, forced=[y])[0].score for y in (each.labels, each.runner_up_labels)
        )
        return float(one - other)

    known = {(c.kind, c.token, c.end, c.name): c.value for c in each.contributions}
    values = {}
    for kind, found in listed.items():
        for place, (row, feature) in enumerate(
            zip(found.row.tolist(), found.feature.tolist(), strict=True)
        ):
            key = (kind, *weighed.place_of(kind, row), weighed.name(feature))
            values[kind, place] = known.get(key, 0.0)
    telling = [which for which, value in values.items() if value]
    others = [which for which, value in values.items() if not value]
    chosen = [telling[k] for k in rng.permutation(len(telling))[:REMOVED].tolist()]
    chosen += [others[k] for k in rng.permutation(len(others))[:1].tolist()]
    before = odds(data)
    return max(
        (abs(before - odds(without(data, listed, [w])) - values[w]) for w in chosen), default=0.0
    )


def checked(model: Any, test: Corpus, tokens: list[tuple[int, int]], flips: bool) -> list[str]:
    """The largest errors over some tokens, how many of them one feature decides, and the time for
    one."""
    rng = np.random.default_rng(1)
    sums = scores = changes = 0.0
    compared = decided = 0
    seconds = 0.0
    weighed = hasattr(model, "weights_")
    linear = weighed and not model._space.latent
    for number, token in tokens:
        x = test.take(slice(number, number + 1))
        begun = time.perf_counter()
        answer = model.explain(x, token, flips=flips)
        seconds += time.perf_counter() - begun
        for each in [found[0] for found in answer.values()] if isinstance(answer, dict) else answer:
            decided += bool(each.flips)
            if each.log_odds is None:
                continue
            compared += 1
            sums = max(sums, abs(each.total - each.log_odds))
            if weighed:
                one, other = (
                    model.decode(x, forced=[y])[0].score
                    for y in (each.labels, each.runner_up_labels)
                )
                scores = max(scores, abs(one - other - each.log_odds))
            if linear:
                changes = max(changes, removals(model, x, each, rng))
    shown = [f"{scores:.0e}" if weighed else "-", f"{changes:.0e}" if linear else "-"]
    return [
        f"{compared:,}",
        f"{sums:.0e}",
        *shown,
        f"{decided:,}" if flips else "-",
        f"{1000 * seconds / len(tokens):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument(
        "--flips", action="store_true", help="also count the tokens that one feature decides"
    )
    parser.add_argument(
        "--only", help="names of taggers, separated by semicolons", default=";".join(MAKERS)
    )
    parser.add_argument("--corpora", type=Path, default=os.environ.get("LABELWRIGHT_CORPORA"))
    options = parser.parse_args()
    if options.corpora is None:
        parser.error("name the corpora with --corpora or LABELWRIGHT_CORPORA")
    folder = Path(options.corpora) / "conll2000"
    train, test = (
        read_columns(folder / f"{part}.txt", names=COLUMNS) for part in ("train", "test")
    )
    train = train.take(slice(0, options.sentences))
    rng = np.random.default_rng(0)
    flat = rng.choice(test.n_tokens, options.tokens, replace=False)
    numbers = np.searchsorted(test.offsets, flat, side="right") - 1
    tokens = list(zip(numbers.tolist(), (flat - test.offsets[numbers]).tolist(), strict=True))
    console = Console()
    table = Table("tagger", "tokens", "sum", "forced", "removed", "flips", "ms a token")
    for name, make in MAKERS.items():
        if name in options.only.split(";"):
            model = make().fit(train)
            words = test.select(["word"] if name == "cascade" else ["word", "pos"])
            row = checked(model, words, tokens, options.flips)
            console.print(name, *row, sep="  ")
            table.add_row(name, *row)
    console.print(table)


if __name__ == "__main__":
    main()
