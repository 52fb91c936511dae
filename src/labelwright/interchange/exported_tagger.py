"""A tagger in one file, written by `labelwright export`; it needs nothing but Python's standard
library.

    python tagger.py words.txt          one token per line, an empty line between sentences:
                                        adds the labels
    python tagger.py --text letter.txt  running text, where the model reads words alone

    from tagger import Tagger
    tagger = Tagger()
    tagger.tag(["Ada", "ran"])          the label of each token; it is a tuple where the model reads
                                        several columns
    tagger.tag_text("Ada ran. So?")     for each sentence (start, end, label) of each token

A line of the template reads cells of a sentence, such as the suffix of the word before.  What its
cells have read is looked up cell by cell; it ends in a feature, whose weights are added to the
scores of states (or pairs of states).  The answer is the best path; of a latent CRF, where each
label has several states, the most probable labelling.
"""

import base64
import heapq
import json
import math
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate, groupby, islice, pairwise
from operator import add, mul
from typing import Any

from labelwright.corpus.tokenizer import sentence_starts, with_marks
from labelwright.features.expressions import CLASSES
from labelwright.features.template import SHAPES

DATA = ""

Matrix = list[list[float]]
UNKNOWN = -(1 << 99)  # with no index does it become a code
MOST_VALUES = 100_000  # of a column that are remembered
# of the search for the most probable labelling; then the best path is the answer
MOST_EXPANSIONS = 10_000
TIE = 1e-11  # of two prefixes this close, the longer goes first


def varints(content: bytes) -> Iterator[int]:
    """Whole numbers, seven bits in each byte, the lowest first."""
    number = shift = 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0


def exponentials(rows: Matrix) -> Matrix:
    top = max(map(max, rows))
    return [[math.exp(x - top) for x in row] for row in rows]


def match(word: str, expression: tuple[bool, list[tuple[str, str, str]]]) -> str | None:
    """What a regular expression matches first: x* as short as possible, x? one letter if
    possible."""
    anchored, items = expression
    failed = set()
    for start in range(1 if anchored else len(word) + 1):
        waiting = [(0, start)]
        while waiting:
            k, at = place = waiting.pop()
            if k == len(items):
                return word[start:at]
            if place not in failed:
                failed.add(place)
                kind, letter, sign = items[k]
                fits = (
                    at == len(word)
                    if kind == "end"
                    else at < len(word) and fits_letter(word[at], kind, letter)
                )
                if sign == "*":
                    waiting += [(k, at + 1), (k + 1, at)] if fits else [(k + 1, at)]
                elif sign == "?":
                    waiting += [(k + 1, at), (k + 1, at + 1)] if fits else [(k + 1, at)]
                elif fits:
                    waiting.append((k + 1, at + (kind != "end")))
    return None


def fits_letter(c: str, kind: str, letter: str) -> bool:
    if kind == "class":
        return CLASSES[letter.lower()](c) == letter.islower()
    return kind == "any" or c == letter


READERS: dict[str, Callable[[str, Any], str]] = {  # what a cell reads of a value
    "value": lambda word, _: word,
    "lower": lambda word, _: word.lower(),
    "prefix": lambda word, n: word[:n],
    "suffix": lambda word, n: word[-n:],
    "shape": lambda word, _: word.translate(SHAPES),
    "short_shape": lambda word, _: re.sub(
        r"(.)\1+", r"\1", word.translate(SHAPES), flags=re.DOTALL
    ),
    "match": lambda word, expression: match(word, expression) or "",
    "lower_match": lambda word, expression: (match(word, expression) or "").lower(),
    "test": lambda word, expression: "false" if match(word, expression) is None else "true",
}


class Tagger:
    """The model, unpacked."""

    def __init__(self, data: str = DATA) -> None:
        content = zlib.decompress(base64.b64decode(data))
        ends = accumulate(struct.unpack_from("<4I", content), initial=16)
        header, whole, text, weights = (content[a:b] for a, b in pairwise(ends))
        self.about = about = json.loads(header)
        self.labels, self.columns, self.reach = about["labels"], about["columns"], about["reach"]
        # the states of label y: first[y] to first[y + 1]
        self.first = list(accumulate(about["states"], initial=0))
        self.label_of = [y for y, size in enumerate(about["states"]) for _ in range(size)]
        numbers = varints(whole)
        self._read_strings(numbers, text.decode())
        self._read_features(numbers)
        self._read_weights(numbers, weights)

    # -- the data ----------------------------------------------------------------------------------

    def _read_strings(self, numbers: Iterator[int], text: str) -> None:
        """The numbers of the strings that each reader knows, behind those of places outside of the
        sentence."""
        at, self.known = 0, list[dict[str, int]]()
        for size in self.about["strings"]:
            string = ""
            self.known.append({})
            for number in range(2 * self.reach, 2 * self.reach + size):
                kept, length = next(numbers), next(numbers)
                string = string[:kept] + text[at : at + length]
                self.known[-1][string] = number
                at += length
        # numbers of values, by reader
        self._seen: list[dict[str, list[int]]] = [{} for _ in self.columns]

    def _read_features(self, numbers: Iterator[int]) -> None:
        """Cell by cell: (what is known so far, number of the string) -> what is known; at last the
        feature."""
        tables, self.n_features = [], 0
        for readers, sizes in self.about["tables"]:
            indexes = [dict(zip(accumulate(islice(numbers, size)), range(size))) for size in sizes]
            widths = [2 * self.reach + len(self.known[reader]) for reader in readers]
            tables.append((self.n_features, list(zip(widths, indexes))))
            self.n_features += sizes[-1] if sizes else 1
        self.places: dict[tuple[int, bool, int], int] = {}  # what lines read: row, absolute, column
        # kind, first feature, and of each cell: its number in what is read, width, index
        self.lines = []
        for kind, table, cells in self.about["lines"]:
            first, levels = tables[table]
            read = []
            for (row, absolute, reader), (width, index) in zip(cells, levels):
                place = row, absolute, self.about["readers"][reader][0]
                at = self.places.setdefault(place, len(self.places)) * len(self.known) + reader
                read.append((at, width, index.get))
            self.lines.append((kind, first, read))

    def _read_weights(self, numbers: Iterator[int], content: bytes) -> None:
        """The weights of features on states and on pairs of states, and of transitions."""
        S, at, read = self.first[-1], 0, {}
        for name, form, scale, size in self.about["weights"]:
            begin, at = at, at + size * struct.calcsize(form)
            read[name] = [scale * q for q in struct.unpack(f"<{size}{form}", content[begin:at])]
        self.cells = {}  # of each kind: feature f has the weights ptr[f] to ptr[f + 1]
        for kind in self.about["kinds"]:
            ptr = list(accumulate(islice(numbers, self.n_features), initial=0))
            self.cells[kind] = ptr, list(islice(numbers, ptr[-1])), read[kind]
        arcs = [
            w if may == "1" else -math.inf for w, may in zip(read["transitions"], self.about["arc"])
        ]
        # of each state: the scores of transitions from all states
        self.into = [arcs[s::S] for s in range(S)]
        self.start, self.end = (
            [0.0 if x == "1" else -math.inf for x in self.about[name]] for name in ("start", "end")
        )

    # -- scores ------------------------------------------------------------------------------------

    def _numbers_of(self, column: int, value: str) -> list[int]:
        """The number of what each reader sees of a value of this column, if it is one of its column
        and known."""
        seen = self._seen[column]
        if value not in seen:
            if len(seen) > MOST_VALUES:
                seen.clear()
            readers = zip(self.known, self.about["readers"])
            seen[value] = [
                known.get(READERS[name](value, argument), UNKNOWN) if of == column else UNKNOWN
                for known, (of, name, argument) in readers
            ]
        return seen[value]

    def _scores(self, sentence: Sequence[Any]) -> tuple[Matrix, list[Matrix]]:
        """The scores of states at each token, and of the transitions into each state."""
        T, S, reach, read = len(sentence), self.first[-1], self.reach, []
        columns = list(zip(*sentence)) if len(self.columns) > 1 else [sentence]
        if len(columns) != len(self.columns) or any(
            not isinstance(x, str) for values in columns for x in values
        ):
            raise ValueError(f"expected tokens with the columns {', '.join(self.columns)}")
        outside = [[mark] * len(self.known) for mark in range(2 * reach)]
        for column, values in enumerate(columns):
            inside = [self._numbers_of(column, value) for value in values]
            read.append([*outside[:reach][::-1], *inside, *outside[reach:]])
        nodes, into = [], [self.into] * T
        for t in range(T):
            node, pairs = [0.0] * S, [0.0] * S * S if t and "edge" in self.cells else []
            numbers: list[int] = []
            for row, absolute, column in self.places:
                numbers += read[column][
                    reach + (row + t if not absolute else row + T if row < 0 else row)
                ]
            for kind, first, cells in self.lines:
                at: int | None = 0
                for i, width, get in cells:
                    at = get(at * width + numbers[i])
                    if at is None:
                        break
                else:
                    scores, (ptr, target, weights) = (
                        pairs if kind == "edge" else node,
                        self.cells[kind],
                    )
                    begin, end = ptr[first + at : first + at + 2]
                    for s, weight in zip(target[begin:end], weights[begin:end]) if scores else ():
                        scores[s] += weight
            nodes.append(node)
            if pairs:
                into[t] = [list(map(add, arcs, pairs[s::S])) for s, arcs in enumerate(self.into)]
        nodes[0] = list(map(add, nodes[0], self.start))
        nodes[-1] = list(map(add, nodes[-1], self.end))
        return nodes, into

    # -- labels ------------------------------------------------------------------------------------

    def tag(self, sentence: Sequence[Any]) -> list[str]:
        """The label of each token."""
        if not len(sentence):
            return []
        nodes, into = self._scores(sentence)
        labels = self._most_probable(nodes, into) if self.about["exact"] else None
        return [self.labels[y] for y in labels or self._best_path(nodes, into)]

    def _best_path(self, nodes: Matrix, into: list[Matrix]) -> list[int]:
        """Viterbi's algorithm; the labels of the states on the best path."""
        best, back = nodes[0], []
        for node, arcs in zip(nodes[1:], into[1:]):
            sums = [list(map(add, best, scores)) for scores in arcs]
            tops = list(map(max, sums))
            back.append([row.index(top) for row, top in zip(sums, tops)])
            best = list(map(add, tops, node))
        states = [best.index(max(best))]
        for before in reversed(back):
            states.append(before[states[-1]])
        return [self.label_of[s] for s in reversed(states)]

    def _most_probable(self, nodes: Matrix, into: list[Matrix]) -> Sequence[int] | None:
        """The most probable labelling, by a best-first search over its prefixes; None where that
        takes too long.

        A prefix weighs what its paths through the states of its labels weigh, times a bound on what
        may follow."""
        T, of_label = len(nodes), list(pairwise(self.first))
        psi = [[math.exp(x - max(node)) for x in node] for node in nodes]
        plain = exponentials(self.into)
        arcs = [plain if scores is self.into else exponentials(scores) for scores in into]
        # of what may follow each state, and what they were divided by
        bounds, logs = [[1.0] * self.first[-1]], [0.0]
        for t in range(T - 1, 0, -1):
            terms = [map((x * y).__mul__, arc) for x, y, arc in zip(psi[t], bounds[0], arcs[t])]
            sums = [list(reduce(partial(map, add), terms[a:b])) for a, b in of_label]
            most = max(map(max, sums))
            if not 0 < most < math.inf:
                return None
            bounds.insert(0, [x / most for x in map(max, zip(*sums))])
            logs.insert(0, logs[0] + math.log(most))
        heap: list[tuple[float, tuple[int, ...], list[float], float]] = []
        labels: tuple[int, ...] = ()
        log, vectors = 0.0, [psi[0][a:b] for a, b in of_label]
        for _ in range(MOST_EXPANSIONS):
            t = len(labels)
            for y, ((a, b), vector) in enumerate(zip(of_label, vectors)):
                weight = sum(map(mul, vector, bounds[t][a:b]))
                if weight > 0:
                    most, key = max(vector), math.log(weight) + log + logs[t] + TIE * t
                    heapq.heappush(
                        heap, (-key, (*labels, y), [x / most for x in vector], log + math.log(most))
                    )
            if not heap:
                return None
            _, labels, before, log = heapq.heappop(heap)
            if len(labels) == T:
                return labels
            node, arc, (c, d) = psi[len(labels)], arcs[len(labels)], of_label[labels[-1]]
            vectors = [
                [node[k] * sum(map(mul, before, arc[k][c:d])) for k in range(a, b)]
                for a, b in of_label
            ]
        return None

    # -- text --------------------------------------------------------------------------------------

    def tag_text(self, text: str) -> list[list[tuple[int, int, str]]]:
        """The tokens of each sentence of a text with their labels: (start, end, label), in
        characters."""
        return [
            [(a, b, y) for (a, b), y in zip(places, self.tag([text[a:b] for a, b in places]))]
            for places in self.sentences(text)
        ]

    def sentences(self, text: str) -> list[list[tuple[int, int]]]:
        """The sentences of a text: the places of their tokens."""
        about = self.about["tokenizer"]
        if about is None:
            raise ValueError(
                f"this model reads the columns {', '.join(self.columns)}: give `tag` the tokens "
                "with them"
            )
        places = [found.span() for found in re.finditer(about["token"], text)]
        if about["marks"]:
            places = with_marks(text, places, about["characters"])
        return [
            places[a:b]
            for a, b in pairwise([*sentence_starts(text, places, about["sentences"]), len(places)])
        ]


def main(arguments: list[str]) -> None:
    if {"-h", "--help"} & {*arguments}:
        sys.stdout.write(str(__doc__))
        return
    tagger, paths = Tagger(), [each for each in arguments if each != "--text"]
    with open(paths[0] if paths else 0, encoding="utf-8") as file:
        content = file.read()
    n, write = len(tagger.columns), sys.stdout.write
    if "--text" in arguments:
        for sentence in tagger.tag_text(content):
            write("".join(f"{content[a:b]}\t{y}\n" for a, b, y in sentence) + "\n")
        return
    rows = [line.split() for line in content.splitlines()]
    wrong = next((i for i, row in enumerate(rows, 1) if row and len(row) not in (n, n + 1)), None)
    if wrong is not None:
        hint = "; for running text add --text" if tagger.about["tokenizer"] else ""
        sys.exit(
            f"line {wrong}: expected {', '.join(tagger.columns)}, got {len(rows[wrong - 1])} "
            f"columns{hint}"
        )
    for has_tokens, block in groupby(rows, bool):
        tokens = list(block)
        labels = (
            tagger.tag([tuple(row[:n]) if n > 1 else row[0] for row in tokens])
            if has_tokens
            else []
        )
        write(
            "".join("\t".join([*row, label]) + "\n" for row, label in zip(tokens, labels)) or "\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
