"""Doubts about planted label errors, and active learning against random choice, on CoNLL-2003.

    python benchmarks/active.py doubts [--sentences 5000] [--errors 0.02] [--by span,token] [--folds
    5] python benchmarks/active.py learn [--by random,sequence,sequence-mean,span] [--seeds 5]
    [--pool 4000] [--step 200]

`doubts` gives a share of the entities another type, or none, and counts how many of the first
doubts are among them. `learn` starts from 200 sentences and adds 200 in every round, until F1 on
the test data is 90 % of that of a model of the whole pool; between the last two rounds it is
interpolated.  Both need the corpora (LABELWRIGHT_CORPORA).
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from labelwright import CRF, read_columns
from labelwright.active import doubts, rank
from labelwright.corpus import Corpus, Span, labels_of, spans_of
from labelwright.evaluate import evaluate

COLUMNS = "word,pos,chunk,ner"
ENOUGH = 0.9  # of the F1 of the whole pool


def corpus_of(part: str) -> Corpus:
    folder = Path(os.environ["LABELWRIGHT_CORPORA"]) / "conll2003"
    return read_columns(folder / f"{part}.txt", names=COLUMNS).with_scheme("iob2")


def model_of(options: argparse.Namespace) -> CRF:
    return CRF(template="ner", max_iter=options.iterations, n_jobs=options.threads)


def sentences_of(corpus: Corpus) -> list[list[tuple[str, ...]]]:
    return corpus.select(["word", "pos", "chunk"]).X


# -- doubts ----------------------------------------------------------------------------------------


def with_errors(
    y: Sequence[list[str]], share: float, seed: int
) -> tuple[list[list[str]], set[tuple[int, int, int]]]:
    """Labels of which a share of the entities has another type or none, and where these are:
    sentence and tokens."""
    random = np.random.default_rng(seed)
    spans = [spans_of(labels) for labels in y]
    places = [(n, k) for n, sentence in enumerate(spans) for k in range(len(sentence))]
    types = sorted({span.type for sentence in spans for span in sentence})
    planted = set()
    for i in random.choice(len(places), round(share * len(places)), replace=False).tolist():
        n, k = places[i]
        span = spans[n][k]
        planted.add((n, span.start, span.end))
        kind = str(random.choice([name for name in [*types, "O"] if name != span.type]))
        spans[n][k] = Span(span.start, span.end, kind)
    kept = [[span for span in sentence if span.type != "O"] for sentence in spans]
    return [
        labels_of(some, len(labels), "iob2") for some, labels in zip(kept, y, strict=True)
    ], planted


def count_doubts(options: argparse.Namespace) -> None:
    """Precision of the first doubts, and how many of the planted errors they find."""
    corpus = corpus_of("train").take(slice(0, options.sentences))
    labels, planted = with_errors(corpus.y, options.errors, options.seed)
    X = sentences_of(corpus)
    print(
        f"{len(X):,} sentences, {len(planted)} planted errors, CRF with template ner, "
        f"{options.folds} folds"
    )
    for by in options.by.split(","):
        begun = time.perf_counter()
        result = doubts(model_of(options), X, labels, by=by, folds=options.folds)
        hits = [
            {
                (n, a, b)
                for n, a, b in planted
                if n == each.sentence and a < each.place[1] and each.place[0] < b
            }
            for each in result.doubts
        ]
        print(f"by {by}: {len(result.doubts):,} doubts, {time.perf_counter() - begun:.0f} s")
        for first in (50, 100, 200, 300):
            right, different = sum(map(bool, hits[:first])), set().union(*hits[:first])
            print(
                f"  first {first}: precision {right / first:.2f}, {len(different)} of "
                f"{len(planted)} errors",
                flush=True,
            )


# -- active learning -------------------------------------------------------------------------------


def learn(options: argparse.Namespace) -> None:
    """Sentences and tokens until F1 is 90 % of that of the whole pool, by each measure."""
    train, test = corpus_of("train"), corpus_of("test")
    test_X = sentences_of(test)
    needed: dict[str, list[list[float]]] = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        order = np.random.default_rng(seed).permutation(len(train))[: options.pool]
        pool = train.take(order)
        X, y = sentences_of(pool), pool.y
        full = evaluate(test.y, model_of(options).fit(X, y).predict(test_X)).score
        print(
            f"seed {seed}: F1 {100 * full:.2f} with all {len(X):,} sentences, {pool.n_tokens:,} "
            "tokens",
            flush=True,
        )
        for by in options.by.split(","):
            chosen, model = list[int](), model_of(options)
            curve: list[tuple[float, int, int]] = []
            while not curve or (curve[-1][0] < ENOUGH * full and len(chosen) < len(X)):
                left = sorted(set(range(len(X))) - set(chosen))
                chosen += next_ones(model, X, left, by if chosen else "random", options.step)
                model = model_of(options).fit([X[n] for n in chosen], [y[n] for n in chosen])
                score = evaluate(test.y, model.predict(test_X)).score
                curve.append((score, len(chosen), sum(len(X[n]) for n in chosen)))
            scores, *sizes = zip(*curve[-2:], strict=True)
            needed.setdefault(by, []).append(
                [float(np.interp(ENOUGH * full, scores, size)) for size in sizes]
            )
            sentences, tokens = needed[by][-1]
            shown = " ".join(f"{100 * score:.1f}" for score, *_ in curve)
            print(
                f"  {by:20} {sentences:7,.0f} sentences {tokens:8,.0f} tokens   {shown}", flush=True
            )
    for by, counts in needed.items():
        columns = zip(*counts, strict=True)
        shown = [
            f"{mean(each):,.0f} (deviation {stdev(each) if len(each) > 1 else 0:,.0f})"
            for each in columns
        ]
        print(f"{by:20} sentences {shown[0]}, tokens {shown[1]}; seeds: {len(counts)}")


def next_ones(
    model: CRF, X: Sequence[list[tuple[str, ...]]], left: list[int], by: str, step: int
) -> list[int]:
    """The sentences to label next; those left are in random order."""
    if by == "random":
        return left[:step]
    measure, _, diverse = by.partition("+")
    ranked = rank(model, [X[n] for n in left], measure, top=step, diverse=diverse == "diverse")
    return [left[each.sentence] for each in ranked]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["doubts", "learn"])
    parser.add_argument("--by", help="measures, separated by commas")
    parser.add_argument("--sentences", type=int, default=5000)
    parser.add_argument("--errors", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--pool", type=int, default=4000)
    parser.add_argument("--step", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if "LABELWRIGHT_CORPORA" not in os.environ:
        sys.exit("LABELWRIGHT_CORPORA: name the folder with the corpora")
    options.by = options.by or (
        "span,token" if options.what == "doubts" else "random,sequence,sequence-mean,span"
    )
    {"doubts": count_doubts, "learn": learn}[options.what](options)


if __name__ == "__main__":
    main()
