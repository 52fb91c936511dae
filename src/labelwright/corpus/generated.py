"""Generated corpora: plausible English from a seeded grammar, and sequences of a hidden Markov
model.

The English has tags, chunks and named entities, for demonstrations and tests without files.  Some
labels depend on context alone ("gave her flowers" against "saw her brother"), and some are noise:
annotators differ.
"""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus, compacted
from labelwright.errors import OptionError

COLUMNS = ("word", "pos", "chunk", "entity")

# words and grammar
ENGLISH = tomllib.loads(Path(__file__).with_name("english.toml").read_text(encoding="utf-8"))
RULES: dict[str, list[tuple[int, str]]] = ENGLISH["rules"]
KINDS: dict[str, dict[str, str]] = ENGLISH["kinds"]
LISTS: dict[str, str] = ENGLISH["lists"] | {
    "SEATS": f"{ENGLISH['lists']['SHARED']} {ENGLISH['lists']['CITIES']}"
}
FORMS: dict[str, list[str]] = {
    forms[0]: forms for forms in (verb.split("/") for verb in ENGLISH["verbs"]["IRREGULAR"].split())
}


@cache
def _cut(text: str, sign: str) -> list[str]:
    """A text, cut at a sign outside of braces; or (at braces) what is outside and inside of them in
    turn."""
    pieces, depth = [""], 0
    for letter in text:
        depth -= letter == "}"
        if depth == 0 and letter in sign:
            pieces.append("")
        else:
            pieces[-1] += letter
        depth += letter == "{"
    return pieces


@cache
def _read(group: str) -> tuple[str, str, list[str]]:
    """The name in a pair of braces, the sign behind it, and what stands behind that."""
    name, sign, rest = re.fullmatch(r"(\w*)([%=?:]?)(.*)", group).groups()  # type: ignore[union-attr]
    return name, sign, [*_cut(rest, ";"), ""] if sign in ("%", "?") else [rest]


_words = cache(str.split)


class Sentences:
    """Sentences of the grammar as texts, "[NP her/PRP$ brother/NN] [VP left/VBD] ./.".

    Choices depend on the seed alone, on every platform: whole random bits, no floating point."""

    def __init__(self, seed: int) -> None:
        self._bits = random.Random(seed)
        self.kept: dict[str, str] = {}
        self.lists = dict(LISTS)

    def below(self, n: int) -> int:
        return (self._bits.getrandbits(32) * n) >> 32

    def pick(self, words: str) -> str:
        chosen = _words(words)
        return chosen[self.below(len(chosen))].replace("_", " ")

    def fill(self, text: str) -> str:
        """A text with its braces filled in."""
        if "{" not in text:
            return text
        return "".join(
            [self.group(piece) if k % 2 else piece for k, piece in enumerate(_cut(text, "{}"))]
        )

    def group(self, text: str) -> str:
        """What stands for a pair of braces."""
        if text in self.kept:
            return self.kept[text]
        if text in RULES:
            return self.rule(text)
        name, sign, (rest, *other) = _read(text)
        if sign == "=":
            self.kept[name] = self.fill(rest)
            return ""
        if sign == ":":
            return str(getattr(self, name)(self.fill(rest)))
        if sign:
            is_so = self.below(100) < int(name) if sign == "%" else self.kept[name]
            return self.fill(rest if is_so else other[0])
        if ".." in text:
            first, last = map(int, text.split(".."))
            return str(first + self.below(last - first + 1))
        return self.pick(self.lists.get(text) or self.fill(text))

    def rule(self, name: str) -> str:
        lines = RULES[name]
        at = self.below(sum([often for often, _ in lines])) if len(lines) > 1 else 0
        for often, text in lines:
            at -= often
            if at < 0:
                return self.fill(text)
        raise AssertionError(name)

    # What the grammar asks of a text

    def of(self, kind: str) -> str:
        self.lists |= {name: LISTS.get(words, words) for name, words in KINDS[kind].items()}
        self.kept["people"] = "yes" if kind == "PEOPLE" else ""
        return ""

    def one(self, noun: str) -> str:
        return f"{noun.partition('/')[0]}/NN"

    def noun(self, noun: str) -> str:
        singular, _, irregular = noun.partition("/")
        return f"{irregular or singular + 's'}/NNS" if self.kept["many"] else f"{singular}/NN"

    def adjectives(self, percent: str) -> str:
        chosen = [
            f"{self.pick(self.lists['ADJECTIVES'])}/JJ "
            for _ in range(2)
            if self.below(100) < int(percent)
        ]
        return "".join(dict.fromkeys(chosen))

    def form(self, number: str) -> str:
        """Base, past, participle, gerund, third person and particle of the verb; spelling rules
        that suffice here."""
        base, _, particle = self.kept["verb"].partition("+")
        stem = base[:-1] if base[-1] == "e" else base
        third, past = base + ("es" if base.endswith(("s", "sh", "ch", "x")) else "s"), f"{stem}ed"
        if base[-1] == "y" and base[-2] not in "aeiou":
            third, past = f"{base[:-1]}ies", f"{base[:-1]}ied"
        return [*FORMS.get(base, [base, past, past, f"{stem}ing"]), third, particle][int(number)]

    def tense(self, forms: str) -> str:
        third, base, past = forms.split()
        return (
            f"{past}/VBD"
            if self.kept["past"]
            else f"{base}/VBP"
            if self.kept["plural"]
            else f"{third}/VBZ"
        )

    def marked(self, name: str) -> str:
        """The words of a name, with their tags and their places in it."""
        tags, (kind, *words) = {"of": "IN", "&": "CC"}, name.split()
        return " ".join(
            f"{word}/{tags.get(word, 'NNP')}/{'I' if k else 'B'}-{kind}"
            for k, word in enumerate(words)
        )

    def several(self, pronoun: str) -> str:
        return "yes" if pronoun in ("they", "we") else ""

    def article(self, text: str) -> str:
        return "an" if text[0] in "aeiou" else "a"

    capital = staticmethod(str.capitalize)


def _rows(sentence: str) -> list[tuple[str, ...]]:
    """The tokens of a sentence, with labels in IOB2; the first word has a capital."""
    rows, kind, letter = list[tuple[str, ...]](), "", "B"
    for part in sentence.replace("]", " ]").split():
        if part[0] in "[]":
            kind, letter = part[1:], "B"
        else:
            word, pos, *entity = part.split("/")
            if not rows or (len(rows) == 1 and rows[0][0] == "``"):
                word = word[0].upper() + word[1:]
            rows.append((word, pos, f"{letter}-{kind}" if kind else "O", *(entity or ["O"])))
            letter = "I"
    return rows


def builtin_corpus(
    n_sentences: int = 3000,
    random_state: int = 0,
    label: str = "chunk",
    columns: Sequence[str] | None = None,
) -> Corpus:
    """Generate English-looking sentences with tags, chunks and names, both in IOB2; the same seed
    gives the same text.

    `columns` chooses among word, pos, chunk and entity (all four by default); every column but the
    label is input.

    n_sentences : how many sentences
    random_state : the seed
    label : the label column
    columns : their names, in order

    >>> corpus = builtin_corpus(100, random_state=1, columns=["word", "pos", "chunk"])
    >>> len(corpus), corpus.input_names, corpus.label
    (100, ('word', 'pos'), 'chunk')
    """
    names = COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in (*names, label) if name not in COLUMNS]
    if unknown or label not in names:
        raise OptionError(
            f"builtin_corpus: column {[*unknown, label][0]!r}, expected some of "
            f"{', '.join(COLUMNS)}"
        )
    if n_sentences < 1:
        raise OptionError(f"builtin_corpus: n_sentences is {n_sentences}, expected at least 1")
    sentences = Sentences(random_state)
    rows = [_rows(sentences.rule("sentence")) for _ in range(n_sentences)]
    corpus = Corpus.from_sequences(
        rows, names=COLUMNS, source=f"builtin_corpus({n_sentences}, {random_state})"
    )
    return corpus.select(names, label=label)


# -- latent dependencies (Sun et al. 2009, section 4 and figure 2) ---------------------------------

# Each of two labels has two states, and the chain cycles through h1 h3 h4 h2, so that the labels
# read y1 y2 y2 y1 y1 y2 y2 y1 ...: what follows a label depends on its state, which no first-order
# model of labels can represent.
CYCLE = (0, 2, 3, 1)  # h1 h3 h4 h2
STATES = ("h1", "h2", "h3", "h4")
UNIFORM = "uniform"


class HMM(NamedTuple):
    """A hidden Markov model whose states belong to labels."""

    labels: tuple[str, ...]  # [L]
    symbols: tuple[str, ...]  # [X]
    label_of: NDArray[np.int32]  # [S]
    start: NDArray[np.float64]  # [S]  P(state at the first token)
    transition: NDArray[np.float64]  # [S, S]  P(second | first)
    emission: NDArray[np.float64]  # [S, X]  P(symbol | state)


def make_hmm(
    p: float = 0.9,
    emission: float | None = 0.1,
    self_transitions: bool = True,
    start: str = STATES[0],
) -> HMM:
    """The model of figure 2: the next state of the cycle with probability p, and each of the others
    with the same share of what is left; states of y1 emit x1 with (1 + emission) / 2, those of y2
    with (1 - emission) / 2.

    self_transitions : whether the state itself is among the others
    start : the first state, h1 (labels y1 y2 y2 y1) to h4, or uniform, which is the stationary
        distribution, too

    >>> make_hmm(0.7, self_transitions=True).transition.round(2)[0].tolist()
    [0.1, 0.1, 0.7, 0.1]
    >>> make_hmm(0.7, self_transitions=False).transition.round(2)[0].tolist()
    [0.0, 0.15, 0.7, 0.15]
    """
    if not _is_real(p) or not 0 < p <= 1:
        raise OptionError(f"p: expected a probability above 0 and at most 1, got {p!r}")
    if emission is not None and (not _is_real(emission) or not 0 <= emission < 1):
        expected = "a number from 0 to below 1, or None for constant symbols"
        raise OptionError(f"emission: expected {expected}, got {emission!r}")
    if not isinstance(self_transitions, bool | np.bool_):
        raise OptionError(f"self_transitions: expected True or False, got {self_transitions!r}")
    if start not in (*STATES, UNIFORM):
        raise OptionError(f"start: expected one of {', '.join(STATES)}, {UNIFORM}, got {start!r}")
    label_of = np.array([0, 0, 1, 1], np.int32)
    transition = np.full((4, 4), (1 - float(p)) / (3 if self_transitions else 2))
    for state, following in zip(CYCLE, CYCLE[1:] + CYCLE[:1], strict=True):
        if not self_transitions:
            transition[state, state] = 0.0
        transition[state, following] = p
    first = (
        np.full(4, 0.25)
        if start == UNIFORM
        else (np.arange(4) == STATES.index(start)).astype(np.float64)
    )
    if emission is None:
        return HMM(("y1", "y2"), ("x1",), label_of, first, transition, np.ones((4, 1)))
    likely, unlikely = (1 + float(emission)) / 2, (1 - float(emission)) / 2
    emissions = np.array([[likely, unlikely], [unlikely, likely]])[label_of]
    return HMM(("y1", "y2"), ("x1", "x2"), label_of, first, transition, emissions)


def synthetic_hmm(
    n: int = 3000,
    length: int = 10,
    p: float = 0.9,
    emission: float | None = 0.1,
    seed: int = 0,
    self_transitions: bool = True,
    start: str = STATES[0],
) -> Corpus:
    """Draw n sequences of a hidden Markov model in which the next label depends on a latent state
    (see `make_hmm`).

    n : number of sequences
    length : tokens of each
    p : probability to follow the cycle of states h1 h3 h4 h2, whose labels are y1 y2 y2 y1
    emission : how informative the symbols x1 and x2 are about the labels, from 0 (nothing) to below
        1; None: always x1
    seed : the same seed gives the same sequences, n only how many of them; the labels do not depend
        on `emission`
    self_transitions : whether the state itself is among those that share 1 - p
    start : the first state, h1 to h4, or "uniform": each of them is as probable

    >>> corpus = synthetic_hmm(100, length=6, p=1.0)
    >>> len(corpus), corpus.names, corpus.y[0]
    (100, ('symbol', 'label'), ['y1', 'y2', 'y2', 'y1', 'y1', 'y2'])
    """
    for name, value, least in (("n", n, 1), ("length", length, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name}: expected a whole number of {least} or more, got {value!r}")
    n, length, hmm = int(n), int(length), make_hmm(p, emission, self_transitions, start)
    # for states, for symbols
    dice = np.random.Generator(np.random.PCG64(int(seed))).random((n, length, 2))
    transitions, emissions = np.cumsum(hmm.transition, axis=1), np.cumsum(hmm.emission, axis=1)
    paths = np.empty((n, length), np.int32)
    paths[:, 0] = _drawn(np.cumsum(hmm.start)[None], dice[:, 0, 0])
    for t in range(1, length):
        paths[:, t] = _drawn(transitions[paths[:, t - 1]], dice[:, t, 0])
    states = paths.reshape(-1)  # [T]
    symbols = _drawn(emissions[states], dice[:, :, 1].reshape(-1))  # [T]
    columns = (
        compacted(list(hmm.symbols), symbols),
        compacted(list(hmm.labels), hmm.label_of[states]),
    )
    offsets = np.arange(n + 1, dtype=np.int64) * length
    further = "" if self_transitions else ", self_transitions=False"
    further += "" if start == STATES[0] else f", start={start}"
    source = f"synthetic_hmm({n}, {length}, p={p}, emission={emission}, seed={seed}{further})"
    return Corpus(("symbol", "label"), columns, offsets, "label", source)


def _drawn(cumulative: NDArray[np.float64], dice: NDArray[np.float64]) -> NDArray[np.int32]:
    """The outcomes [N] drawn by numbers [N] in [0, 1); the last of `cumulative` [N, outcomes] takes
    the rest."""
    outcomes: NDArray[np.int32] = np.sum(
        dice[:, None] >= cumulative[:, :-1], axis=1, dtype=np.int32
    )
    return outcomes


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
