"""Word segmentation with a lattice of dictionary words against a CRF on characters.

    python benchmarks/word_lattices.py TRAIN DEV TEST [--train 5000] [--dev 1000] [--test 2000]
    [--l2 0.1,0.3,1]

Files have a sentence on each line, words separated by spaces; the first sentences are read.  The
dictionary is made from the training words alone.  l2 is chosen on the development data; the test
data are segmented once.  Seconds are processor time of one thread, with all features made.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labelwright import CRF, FeatureLattice, LatticeCRF
from labelwright.evaluate import evaluate

Sentence = list[str]  # words
LONGEST = 4  # characters of a word that is not in the dictionary


def read(path: str, n: int) -> list[Sentence]:
    """The first n sentences."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line.strip()][:n]


def kind(character: str) -> str:
    """Digits, letters, punctuation or other."""
    return "9" if character.isdigit() else "a" if character.isascii() and character.isalpha() else (
        "." if not character.isalnum() else "x"
    )  # fmt: skip


class Dictionary:
    """Words with the number of times that the training data have them."""

    def __init__(self, sentences: list[Sentence]):
        self.count = Counter(word for words in sentences for word in words)
        self.longest = max(map(len, self.count))


def boundary_features(text: str, a: int, b: int, known: bool) -> dict[str, Any]:
    """The features of the word text[a:b] and of the characters around its ends."""
    word, padded = text[a:b], f"##{text}##"
    begin, end = a + 2, b + 2
    made: dict[str, Any] = {
        "length": str(min(b - a, 6)),
        "known": known,
        "kinds": "".join(map(kind, word))[:4],
        "first": word[0],
        "last": word[-1],
        "before": padded[begin - 1] + "|" + word[0],
        "before2": padded[begin - 2 : begin] + "|",
        "cut": padded[begin - 1] + "|" + padded[begin : begin + 2],
        "after": word[-1] + "|" + padded[end],
        "after2": "|" + padded[end : end + 2],
    }
    if known:
        made["word"] = word
    if b - a > 1:
        made["start"], made["stop"] = word[:2], word[-2:]
        for i in range(a, b - 1):
            made["in:" + text[i : i + 2]] = 1.0
    return made


class CharacterFeatures:
    """The features of the words of one text: those of its characters by their place in the word
    (first, middle, last, only), as a CRF has them, and those of the word as a whole."""

    def __init__(self, text: str):
        self.text = text
        padded, kinds = f"##{text}##", "##" + "".join(map(kind, text)) + "##"
        self.of_place = {
            place: [
                _character(place, padded[i : i + 5], kinds[i : i + 5]) for i in range(len(text))
            ]
            for place in "BMES"
        }
        self.padded = padded

    def of(self, a: int, b: int, known: bool) -> dict[str, bool]:
        """The features of the word text[a:b]."""
        word, before, after = self.text[a:b], self.padded[a + 1], self.padded[b + 2]
        names = [f"length={min(b - a, 6)}", f"known={known} length={min(b - a, 4)}"]
        if known:
            names += [f"word={word}", f"word={word} before={before}", f"word={word} after={after}"]
        places = "S" if b - a == 1 else "B" + "M" * (b - a - 2) + "E"
        for i, place in zip(range(a, b), places, strict=True):
            names += self.of_place[place][i]
        return dict.fromkeys(names, True)


def _character(place: str, c: str, k: str) -> list[str]:
    """The features of a character, the third of five, and of their kinds: those of the template
    cws."""
    names = [f"0={c[2]}", f"-1..0={c[1:3]}", f"0..1={c[2:4]}", f"kind={k[2]}", f"kinds={k[1:4]}"]
    names += [
        f"-2={c[0]}",
        f"-1={c[1]}",
        f"1={c[3]}",
        f"2={c[4]}",
        f"-2..-1={c[:2]}",
        f"1..2={c[3:]}",
    ]
    names += [f"-1..1={c[1:4]}", f"-1,1={c[1]}{c[3]}", f"-2..2={k}"]
    return [f"{place} {name}" for name in names]


def lattice(text: str, dictionary: Dictionary, gold: Sentence | None, name: str) -> FeatureLattice:
    """All words of the dictionary and all single characters; but for "dictionary" all short
    substrings as well.

    In training a word is in the dictionary only if another sentence has it, too: else the model
    would never see a word that is not."""
    here = Counter(gold or ())
    true, at = set(), 0
    for word in gold or ():
        true.add((at, at + len(word)))
        at += len(word)
    arcs, every = [], name != "dictionary"
    characters = CharacterFeatures(text) if name == "characters" else None
    for a in range(len(text)):
        for b in range(a + 1, min(len(text), a + max(dictionary.longest, LONGEST)) + 1):
            word = text[a:b]
            known = dictionary.count[word] - here[word] > 0
            if known or b == a + 1 or (a, b) in true or (every and b - a <= LONGEST):
                made = (
                    characters.of(a, b, known)
                    if characters
                    else boundary_features(text, a, b, known)
                )
                arcs.append((a, b, "word", made))
    return FeatureLattice(arcs)


def path(words: Sentence) -> list[tuple[int, int, str]]:
    """The words as arcs."""
    arcs, at = [], 0
    for word in words:
        arcs.append((at, at + len(word), "word"))
        at += len(word)
    return arcs


def bi(words: Sentence) -> list[str]:
    """The words as labels of characters."""
    return [label for word in words for label in ["B-word", *["I-word"] * (len(word) - 1)]]


# the labels of characters, as `bi` writes them
Segmenter = Callable[[list[Sentence]], list[list[str]]]


def bmes(words: Sentence) -> list[str]:
    """The words as labels B, M, E, S."""
    return list(
        "".join("S" if len(word) == 1 else "B" + "M" * (len(word) - 2) + "E" for word in words)
    )


def characters(sentences: list[Sentence]) -> list[list[str]]:
    return [list("".join(words)) for words in sentences]


def crf(
    train: list[Sentence], l2: float, labels: Callable[[Sentence], list[str]]
) -> tuple[Any, Segmenter]:
    """A CRF on characters."""
    model = CRF(template="cws", l2=l2, n_jobs=1).fit(
        characters(train), [labels(words) for words in train]
    )

    def segment(sentences: list[Sentence]) -> list[list[str]]:
        answers = model.predict(characters(sentences))
        return [["B-word" if label[0] in "BS" else "I-word" for label in own] for own in answers]

    return model, segment


def lattice_crf(train: list[Sentence], l2: float, name: str) -> tuple[Any, Segmenter]:
    """A LatticeCRF on the lattices of this name."""
    dictionary = Dictionary(train)
    X = (lattice("".join(words), dictionary, words, name) for words in train)
    model = LatticeCRF(l2=l2, n_jobs=1).fit(X, map(path, train))

    def segment(sentences: list[Sentence]) -> list[list[str]]:
        lattices = [lattice("".join(words), dictionary, None, name) for words in sentences]
        return [
            own.labels(best.arcs)
            for own, best in zip(lattices, model.decode(lattices), strict=True)
        ]

    return model, segment


MODELS: dict[str, Callable[[list[Sentence], float], tuple[Any, Segmenter]]] = {
    "crf-bi": lambda train, l2: crf(train, l2, bi),
    "crf-bmes": lambda train, l2: crf(train, l2, bmes),
    "dictionary": lambda train, l2: lattice_crf(train, l2, "dictionary"),
    "substrings": lambda train, l2: lattice_crf(train, l2, "substrings"),
    "characters": lambda train, l2: lattice_crf(train, l2, "characters"),
}


def reached(train: list[Sentence], test: list[Sentence], name: str) -> float:
    """The share of true words that the lattices have."""
    dictionary, n = Dictionary(train), 0
    for words in test:
        arcs = {arc[:3] for arc in lattice("".join(words), dictionary, None, name).arcs}
        n += sum(arc in arcs for arc in path(words))
    return n / sum(map(len, test))


def score(segment: Segmenter, sentences: list[Sentence]) -> float:
    """F1 of words, in per cent."""
    return round(
        100 * evaluate([bi(words) for words in sentences], segment(sentences), scheme="iob2").score,
        2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, n in (("train", 5000), ("dev", 1000), ("test", 2000)):
        parser.add_argument(name)
        parser.add_argument(f"--{name}", dest=f"n_{name}", type=int, default=n)
    parser.add_argument("--l2", default="0.1,0.3,1")
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    train, dev, test = (
        read(getattr(options, name), getattr(options, f"n_{name}"))
        for name in ("train", "dev", "test")
    )
    for name in options.models.split(","):
        runs = []
        for l2 in map(float, options.l2.split(",")):
            begun = time.process_time()
            model, segment = MODELS[name](train, l2)
            seconds = time.process_time() - begun
            runs.append((score(segment, dev), l2, seconds, model, segment))
            print(
                json.dumps(
                    {"model": name, "l2": l2, "dev": runs[-1][0], "seconds": round(seconds, 1)}
                ),
                flush=True,
            )
        on_dev, l2, seconds, model, segment = max(runs, key=lambda run: run[0])
        begun, record = time.process_time(), model.training_
        row = {
            "model": name,
            "l2": l2,
            "dev": on_dev,
            "test": score(segment, test),
            "seconds": round(seconds, 1),
        }
        row["seconds of answers"] = round(time.process_time() - begun, 1)
        row |= {key: record[key] for key in ("weights", "iterations", "arcs") if key in record}
        row["seconds of L-BFGS"] = round(record["seconds"], 1)
        if not name.startswith("crf"):
            row["words in the lattices"] = round(reached(train, test, name), 4)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
