"""Rules by automata beside the solver: "every label at most once" on addresses
(docs/constraints.md).

    python benchmarks/rules.py FOLDER

FOLDER holds labelled addresses as XML: an <AddressString> for each, its tokens as elements whose
names are labels, as the project usaddress publishes them.  Both ways decode the same addresses, the
ones whose best labelling breaks the rule; their optima must be the same.  Times are CPU seconds of
the process.
"""

import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from statistics import median

import numpy as np

from labelwright import CRF
from labelwright.constraints import once
from labelwright.errors import OptionError
from labelwright.rules import lattices, product

TEMPLATE = "\n".join(f"U{i}:%{f}" for i, f in enumerate(
    ["x[-1,0]", "x[0,0]", "x[1,0]", "lower[0,0]",
     "suffix[0,0,2]", "suffix[0,0,3]", "prefix[0,0,1]", "x[0,0]/%x[1,0]"]
)) + "\nB\n"  # fmt: skip
FILES = (
    "labeled.xml",
    "us50_train_tagged.xml",
    "us50_messiest_manual_label.xml",
    "multi_word_state_addresses.xml",
)


def addresses(folder: Path) -> list[tuple[list[str], list[str]]]:
    """The words and labels of every address, each once."""
    found = {}
    for name in FILES:
        for address in ElementTree.parse(folder / name).getroot():
            tokens = [(part.text or "", part.tag) for part in address]
            if tokens:
                words, labels = map(list, zip(*tokens, strict=True))
                found.setdefault(tuple(words), (words, labels))
    return list(found.values())


LIMIT = 60.0  # seconds for an address


def timed(model: CRF, X: list[list[str]]) -> tuple[list, list[float]]:
    """The answers (None where there was none in time), and the seconds of each."""
    answers, seconds = [], []
    for words in X:
        begun = time.process_time()
        try:
            answers += model.decode(
                [words], constraints=once(), time_limit=LIMIT, probabilities=False
            )
        except OptionError:
            answers.append(None)
        seconds.append(time.process_time() - begun)
    return answers, seconds


# paths that are listed before automata, arcs of a product at most, paths that are listed before
# CP-SAT
WAYS = {
    "as is": (lattices.FIRST_BEST, product.MOST_ARCS, lattices.N_BEST),
    "automaton alone": ((), product.MOST_ARCS, lattices.N_BEST),
    "n-best, then CP-SAT": (lattices.FIRST_BEST, -1, lattices.N_BEST),
    "CP-SAT alone": ((), -1, ()),
}


def compared(what: str, model: CRF, X: list[list[str]]) -> None:
    """The times of all ways on sentences that break the rule."""
    print(
        f"{what}: {len(X)} that break the rule, {np.mean([len(words) for words in X]):.1f} tokens "
        "on average"
    )
    first = None
    for name, (lattices.FIRST_BEST, product.MOST_ARCS, lattices.N_BEST) in WAYS.items():
        timed(model, X[:1])
        answers, spent = timed(model, X)
        first = first or answers
        ms = sorted(1000 * s for s in spent)
        both = [(one.score, d.score) for one, d in zip(first, answers, strict=True) if one and d]
        same = np.allclose(*zip(*both, strict=True), rtol=1e-9)
        methods = ", ".join(sorted({str(d.method) if d else "late" for d in answers}))
        print(f"  {name:20} median {median(ms):8.2f} ms, mean {np.mean(ms):8.2f} ms, largest "
              f"{ms[-1]:8.1f} ms; {methods}; same optimum: {same}", flush=True)  # fmt: skip
    lattices.FIRST_BEST, product.MOST_ARCS, lattices.N_BEST = WAYS["as is"]


SIX = "PlaceName", "StateName", "ZipCode", "StreetName", "AddressNumber", "OccupancyIdentifier"


def summed(model: CRF, X: list[list[str]]) -> None:
    """For how many sentences probabilities under rules are known, by their length."""
    for rule in (once(), once(*SIX)):
        begun, known = time.process_time(), dict[int, list[bool]]()
        for words, answer in zip(X, model.decode(X, constraints=rule), strict=True):
            known.setdefault(len(words), []).append(answer.log_probability is not None)
        shown = ", ".join(f"{n}: {sum(rows)}/{len(rows)}" for n, rows in sorted(known.items()))
        seconds = (time.process_time() - begun) / len(X)
        print(
            f"probabilities under {rule}, by tokens: {shown}; {1000 * seconds:.0f} ms each",
            flush=True,
        )


def main() -> None:
    data = addresses(Path(sys.argv[1]))
    n_train = int(sys.argv[2]) if len(sys.argv) > 2 else len(data) // 2
    order = np.random.default_rng(0).permutation(len(data))
    train, test = [data[i] for i in order[:n_train]], [data[i] for i in order[n_train:]]
    model = CRF(TEMPLATE, n_jobs=1).fit(*map(list, zip(*train, strict=True)))
    X = [words for words, _ in test]
    plain = model.predict(X)
    broken = [n for n, labels in enumerate(plain) if not once().satisfied(labels)]
    print(f"{n_train} addresses to train, {len(X)} to test, {len(model.classes_)} labels; "
          f"gold breaks the rule in {sum(not once().satisfied(labels) for _, labels in test)}, "
          f"the model in {len(broken)}")  # fmt: skip
    compared("one address", model, [X[n] for n in broken])
    pairs = [X[n] + X[n + 1] for n in range(0, 80, 2)]
    pairs = [
        words
        for words, labels in zip(pairs, model.predict(pairs), strict=True)
        if not once().satisfied(labels)
    ]
    compared("two addresses in one string", model, pairs)
    summed(model, X[:40])
    begun = time.process_time()
    everything = model.decode(X, constraints=once(), probabilities=False)
    whole = time.process_time() - begun
    begun = time.process_time()
    model.decode(X, probabilities=False)
    free = time.process_time() - begun
    print(
        f"all test addresses: {1000 * whole / len(X):.2f} ms each with the rule, "
        f"{1000 * free / len(X):.2f} without"
    )
    gold = [labels for _, labels in test]
    for name, answers in (("without", plain), ("with", [d.labels for d in everything])):
        tokens = [
            a == b
            for one, two in zip(gold, answers, strict=True)
            for a, b in zip(one, two, strict=True)
        ]
        whole_right = [one == two for one, two in zip(gold, answers, strict=True)]
        print(
            f"{name:8} token accuracy {100 * np.mean(tokens):.2f}, whole addresses "
            f"{100 * np.mean(whole_right):.2f}"
        )


if __name__ == "__main__":
    main()
