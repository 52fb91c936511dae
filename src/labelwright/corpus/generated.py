"""Generated corpora: plausible English from a seeded grammar, and sequences of a hidden Markov model.

The English has tags, chunks and named entities, for demonstrations and tests without files.  Some labels depend on
context alone ("gave her flowers" against "saw her brother"), and some are noise: annotators differ.
"""

import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus, compacted
from labelwright.errors import OptionError

COLUMNS = ("word", "pos", "chunk", "entity")

# Words, with _ for a space; several are deliberately more than one thing (saw, watch, Ford, Florence).
SHARED = "Florence Paris Sydney Austin Jordan Chelsea Virginia Georgia Charlotte Lincoln Washington Houston Kent London"
CITIES = "Berlin Oslo Madrid Lisbon Vienna Cairo Lima Boston Dublin Kyoto Ghent Turin"
SOLID = "old new small large red green dark light cheap open clean heavy local second last"
HANDLING = """paint open close carry clean fix use watch cover design want need like move see find buy sell cut build
    hold lose leave draw"""
LISTS = {
    "INTRANSITIVE": """work walk talk play dance wait arrive laugh fish travel rest listen cook run sleep fall swim sing
        speak""",
    "GIVING": "offer hand promise give send show bring tell teach",
    "SAYING": "believe hope claim report announce argue say think know write",
    "PHRASAL": "put+off give+up set+up take+over cut+down pick+up turn+down carry+out call+off work+out",
    "FIGURES": "price share profit loss/losses sale cost wage market rent debt export",
    "RELATIVES": "brother sister friend teacher doctor neighbour cousin boss",
    "FEELINGS": "happy tired angry afraid ready late early ill rich famous open quiet strong",
    "ADVERBS": """quickly slowly often never always really still soon again early late together quietly finally
        recently""",
    "DEGREES": "very quite rather too really",
    "SHARED": SHARED,
    "GIVEN": "Anna Peter Maria Jack Tom Helen Susan David Karen Olga Pedro Mei Omar Ruth Simon Clara",
    "FAMILY": "Smith Baker Ford Morgan Stone Cook Marsh Hill Young Carter Weber Silva Tanaka Moreau Judge Fisher",
    "CITIES": CITIES,
    "SEATS": f"{SHARED} {CITIES}",
    "REGIONS": "New_York South_Korea West_Virginia North_Wales Lake_Victoria Cape_Town San_Marino",
    "FIRMS": "Ford Morgan Baker Northwind Halden Marsh Orbit Delta Carter Silverline Fisher Stone",
    "ENDINGS": "Corp. Inc. Group Bank Motors Airlines University Press &_Sons",
    "SYLLABLES": """ba bel cor da den el fen gar hal ik jor kal lan mar mor nel or pel quin ral sen tor ul var wen yor
        zan""",
    "SPOTS": """house garden river bridge city/cities office school museum station market church/churches village road
        hotel park""",
}
KINDS = {  # nouns (with irregular plurals), and the adjectives and verbs that go with them
    "PEOPLE": (
        """teacher doctor farmer brother sister friend child/children man/men woman/women minister player worker student
        lawyer judge cook neighbour singer painter writer driver captain soldier nurse boy girl baker""",
        "old young tall rich poor famous tired happy quiet local foreign clever second last",
        "watch visit help follow like love trust support judge attack call answer see meet find know",
    ),
    "THINGS": (
        """house garden flower book bridge picture window table watch/watches saw engine computer ship boat box/boxes
        car door painting church/churches building road wall fish/fish sign cover horse dog cat bird train tree shop
        drink""",
        SOLID,
        HANDLING,
    ),
    "MATTERS": (
        """report plan test record visit answer show study/studies review design attack change letter song story/stories
        play meeting reading match/matches result law game call question project work/works need move talk""",
        "old new small large good bad famous local foreign strong long short second last early late",
        """plan study review reject accept support sign publish finish record judge test report follow change like
        attack read write see win""",
    ),
    "SPOTS": (LISTS["SPOTS"], SOLID, HANDLING),
}
IRREGULAR = """see/saw/seen/seeing meet/met/met/meeting find/found/found/finding know/knew/known/knowing
    buy/bought/bought/buying sell/sold/sold/selling cut/cut/cut/cutting build/built/built/building
    hold/held/held/holding lose/lost/lost/losing leave/left/left/leaving draw/drew/drawn/drawing read/read/read/reading
    write/wrote/written/writing win/won/won/winning run/ran/run/running sleep/slept/slept/sleeping
    fall/fell/fallen/falling swim/swam/swum/swimming sing/sang/sung/singing speak/spoke/spoken/speaking
    give/gave/given/giving send/sent/sent/sending show/showed/shown/showing bring/brought/brought/bringing
    tell/told/told/telling teach/taught/taught/teaching say/said/said/saying think/thought/thought/thinking
    rise/rose/risen/rising grow/grew/grown/growing put/put/put/putting set/set/set/setting take/took/taken/taking"""
FORMS = {forms[0]: forms for forms in (verb.split("/") for verb in IRREGULAR.split())}

# The grammar.  A line of a rule is chosen as often as its number says; braces are filled in from left to right:
#   {rule}  {LIST}  {one of these words}  {2..61}  {20%in so many cases;else}  {x=kept}{x}  {x?if kept;else}  {f:of x}
# Kept are: many (the noun is plural), plural (so is the verb), past, verb, people (the kind of nouns).
GRAMMAR = """
sentence
  19 {clause} ./.
  4 [{NP_Yesterday/NN NP_Today/NN ADVP_However/RB ADVP_Meanwhile/RB ADVP_Finally/RB ADVP_Recently/RB ADVP_Still/RB \
ADVP_Then/RB}] {70%,/,} {clause} ./.
  4 {clause} ,/, {and but}/CC {clause} ./.
  4 {subject} {verb={SAYING}}{past={75%yes}}{said}] {60%[SBAR that/IN]} {clause} ./.
  3 {clause} [SBAR {because if while although when before after since}/IN] {clause} ./.
  2 {s={subject}}{did={60%Did/VBD;{plural?Do/VBP;Does/VBZ}}}{any}{did} {s} [VP {VERBS}/VB] {thing} ?/.
  2 {speaker={person}}{did={said wrote claimed}}``/`` {clause} ,/, ''/'' [NP {speaker}] [VP {did}/VBD] ./.
  2 {any}{s={common}}{plural={many}}{past={40%yes}}[NP There/EX] [VP {is}] {s} {circumstance} ./.
clause: {event}{40% {circumstance}}{15% {circumstance}}
event
  3 {any}{s={common}}{plural={many}}{past={65%yes}}{verb={VERBS}}{of:PEOPLE}{who={50%{named};{common}}}\
{s} [VP {is} {form:2}/VBN] {70%[PP by/IN] {who}}
  2 {many={60%yes}}{plural={many}}{x={noun:{FIGURES}}}{s={60%[NP {70%{firm};{place}}] [NP 's/POS {x}];\
{of:MATTERS}[NP the/DT {adjectives:15}{x}]}}{n={2..61}/CD %/NN}{n={50%$/$ {1..90}/CD million/CD;{n}}}\
{by={40%[PP by/IN]}}{verb={climb jump rise fall grow}}{past={65%yes}}{s} {said}] {by} [NP {n}]
  15 {subject} {6%{manner}} {past={65%yes}}{predicate}
predicate
  16 {any}{verb={VERBS}}{said}] {thing}
  6 {verb={INTRANSITIVE}}{said}] {35%{manner}}
  6 {verb={GIVING}}{said}] {many=yes}{gifts={noun:{flower book letter card picture}}}{giving}
  4 {x={FEELINGS}}[VP {is}] [ADJP {45%{DEGREES}/RB} {x}/JJ]
  4 {verb={PHRASAL}}{of:MATTERS}{x={common}}{v={said}]}{70%{v} [PRT {form:5}/RP] {x};{v} {x} [PRT {form:5}/RP]}
  4 {any}{verb={want plan hope try need refuse promise}}{said} to/TO {VERBS}/VB] {thing}
giving
  5 [NP {her her him them}/PRP] [NP {of:THINGS}{adjectives:20}{gifts}]
  2 [NP her/PRP$ {of:THINGS}{adjectives:20}{gifts}] [PP to/TO] {of:PEOPLE}{thing}
  3 {of:PEOPLE}{thing} {of:THINGS}{common}
said: {i={8%{ADVERBS}/RB }}{helped}
helped
  11 [VP {i}{tense:{form:4} {form:0} {form:1}}
  3 [VP {will can may should must could would might}/MD {i}{form:0}/VB
  2 [VP {tense:has have had} {i}{form:2}/VBN
  2 [VP {is} {i}{form:3}/VBG
  2 [VP {tense:does do did} {60%not;n't}/RB {form:0}/VB
is: {tense:is are {plural?were;was}}
manner: {x={ADVERBS}}[ADVP {15%{DEGREES}/RB} {x}/RB]
circumstance
  4 [PP {in near from at}/IN] [NP {place}]
  3 [PP {in near at behind from through around by}/IN] {of:SPOTS}{common}
  1 [PP {on/IN]_[NP_Monday/NNP on/IN]_[NP_Friday/NNP in/IN]_[NP_March/NNP in/IN]_[NP_October/NNP in/IN]_[NP_1987/CD \
in/IN]_[NP_2004/CD on/IN]_[NP_Sunday/NNP}]
  2 [NP {last/JJ next/JJ this/DT every/DT} {week year month summer winter spring}/NN]
any: {of:{PEOPLE THINGS THINGS MATTERS MATTERS}}
subject: {of:PEOPLE}{someone}{plural={many}}
someone
  6 {x={he she they we he she}}{many={several:{x}}}[NP {x}/PRP]
  6 {named}
  1 {both}
  7 {common}{20% [PP from/IN] [NP {place}]}
thing
  3 [NP {people?{him her them};{it them}}/PRP]
  3 {people?[NP her/PRP$ {RELATIVES}/NN];{named}}
  3 {named}
  1 {both}
  10 {common}
named: {name={60%{person};{firm}}}{people?{80%{many=}[NP {name}];{theirs}};{theirs}}
theirs: {many={40%yes}}[NP {name}] [NP 's/POS {adjectives:15}{noun:{NOUNS}}]
both: {many=yes}{l={noun:{NOUNS}}}{r={noun:{NOUNS}}}{and={and or}/CC}{65%[NP {l} {and} {r}];[NP {l}] {and} [NP {r}]}
common
  9 {many={40%yes}}{body}[NP {80%the;{many?these;this}}/DT {b}]
  4 {many={40%yes}}{body}[NP {many?some;{article:{b}}}/DT {b}]
  3 {many={40%yes}}{body}[NP {his her their her my}/PRP$ {b}]
  3 {40%}{many=yes}{body}{n={2..901}}{b={two three ten 30 250 {n}}/CD {b}}\
{30%{50%[PP about/IN] [NP {b}];[NP about/IN {b}]};[NP {b}]}
  1 {40%}{many=yes}{body}[NP {b}]
body: {b={adjectives:22}{8%{people?;{one:{SPOTS}} }}{noun:{NOUNS}}}
person: {f={15%{invented};{30%{SHARED};{FAMILY}}}}{g={30%{SHARED};{GIVEN}}}{called}
called
  4 {marked:PER {g} {f}}
  2 {Mr. Mrs. Dr. President Captain Professor}/NNP {marked:PER {f}}
  2 {marked:PER {g}}
  2 {marked:PER {f}}
place: {12%{marked:LOC {invented}};{marked:LOC {25%{REGIONS};{50%{SHARED};{CITIES}}}}}
firm: {f={15%{invented};{25%{SHARED};{FIRMS}}}}{25%{marked:ORG {University_of Bank_of Museum_of City_Council_of} \
{SEATS}};{marked:ORG {60%{f} {ENDINGS};{f}}}}
invented
  1 {capital:{SYLLABLES}{SYLLABLES}}
  1 {capital:{SYLLABLES}{SYLLABLES}{SYLLABLES}}
"""
RULES: dict[str, list[tuple[int, str]]] = {}
for _line in GRAMMAR.strip().splitlines():
    _often, _, _text = _line.strip().partition(" ")
    if _line[0] == " ":
        RULES[[*RULES][-1]].append((int(_often), _text))
    else:
        RULES[_often.rstrip(":")] = [(1, _text)] if _text else []


@cache
def _cut(text: str, sign: str) -> list[str]:
    """A text, cut at a sign outside of braces; or (at braces) what is outside and inside of them in turn."""
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
        return "".join([self.group(piece) if k % 2 else piece for k, piece in enumerate(_cut(text, "{}"))])

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
        self.lists |= dict(zip(("NOUNS", "ADJECTIVES", "VERBS"), KINDS[kind], strict=True))
        self.kept["people"] = "yes" if kind == "PEOPLE" else ""
        return ""

    def one(self, noun: str) -> str:
        return f"{noun.partition('/')[0]}/NN"

    def noun(self, noun: str) -> str:
        singular, _, irregular = noun.partition("/")
        return f"{irregular or singular + 's'}/NNS" if self.kept["many"] else f"{singular}/NN"

    def adjectives(self, percent: str) -> str:
        chosen = [f"{self.pick(self.lists['ADJECTIVES'])}/JJ " for _ in range(2) if self.below(100) < int(percent)]
        return "".join(dict.fromkeys(chosen))

    def form(self, number: str) -> str:
        """Base, past, participle, gerund, third person and particle of the verb; spelling rules that suffice here."""
        base, _, particle = self.kept["verb"].partition("+")
        stem = base[:-1] if base[-1] == "e" else base
        third, past = base + ("es" if base.endswith(("s", "sh", "ch", "x")) else "s"), f"{stem}ed"
        if base[-1] == "y" and base[-2] not in "aeiou":
            third, past = f"{base[:-1]}ies", f"{base[:-1]}ied"
        return [*FORMS.get(base, [base, past, past, f"{stem}ing"]), third, particle][int(number)]

    def tense(self, forms: str) -> str:
        third, base, past = forms.split()
        return f"{past}/VBD" if self.kept["past"] else f"{base}/VBP" if self.kept["plural"] else f"{third}/VBZ"

    def marked(self, name: str) -> str:
        """The words of a name, with their tags and their places in it."""
        tags, (kind, *words) = {"of": "IN", "&": "CC"}, name.split()
        return " ".join(f"{word}/{tags.get(word, 'NNP')}/{'I' if k else 'B'}-{kind}" for k, word in enumerate(words))

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
    n_sentences: int = 3000, random_state: int = 0, label: str = "chunk", columns: Sequence[str] | None = None
) -> Corpus:
    """Generate English-looking sentences with tags, chunks and names, both in IOB2; the same seed gives the same text.

    `columns` chooses among word, pos, chunk and entity (all four by default); every column but the label is input.

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
        raise OptionError(f"builtin_corpus: column {[*unknown, label][0]!r}, expected some of {', '.join(COLUMNS)}")
    if n_sentences < 1:
        raise OptionError(f"builtin_corpus: n_sentences is {n_sentences}, expected at least 1")
    sentences = Sentences(random_state)
    rows = [_rows(sentences.rule("sentence")) for _ in range(n_sentences)]
    corpus = Corpus.from_sequences(rows, names=COLUMNS, source=f"builtin_corpus({n_sentences}, {random_state})")
    return corpus.select(names, label=label)


# -- latent dependencies (Sun et al. 2009, section 4 and figure 2) --------------------------------------------------

# Each of two labels has two states, and the chain cycles through h1 h3 h4 h2, so that the labels read y1 y2 y2 y1 y1 y2
# y2 y1 ...: what follows a label depends on its state, which no first-order model of labels can represent.
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
    p: float = 0.9, emission: float | None = 0.1, self_transitions: bool = True, start: str = STATES[0]
) -> HMM:
    """The model of figure 2: the next state of the cycle with probability p, and each of the others with the same share
    of what is left; states of y1 emit x1 with (1 + emission) / 2, those of y2 with (1 - emission) / 2.

    self_transitions : whether the state itself is among the others
    start : the first state, h1 (labels y1 y2 y2 y1) to h4, or uniform, which is the stationary distribution, too

    >>> [make_hmm(0.7, self_transitions=wanted).transition.round(2)[0].tolist() for wanted in (True, False)]
    [[0.1, 0.1, 0.7, 0.1], [0.0, 0.15, 0.7, 0.15]]
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
    first = np.full(4, 0.25) if start == UNIFORM else (np.arange(4) == STATES.index(start)).astype(np.float64)
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
    """Draw n sequences of a hidden Markov model in which the next label depends on a latent state (see `make_hmm`).

    n : number of sequences
    length : tokens of each
    p : probability to follow the cycle of states h1 h3 h4 h2, whose labels are y1 y2 y2 y1
    emission : how informative the symbols x1 and x2 are about the labels, from 0 (nothing) to below 1; None: always x1
    seed : the same seed gives the same sequences, n only how many of them; the labels do not depend on `emission`
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
    dice = np.random.Generator(np.random.PCG64(int(seed))).random((n, length, 2))  # for states, for symbols
    transitions, emissions = np.cumsum(hmm.transition, axis=1), np.cumsum(hmm.emission, axis=1)
    paths = np.empty((n, length), np.int32)
    paths[:, 0] = _drawn(np.cumsum(hmm.start)[None], dice[:, 0, 0])
    for t in range(1, length):
        paths[:, t] = _drawn(transitions[paths[:, t - 1]], dice[:, t, 0])
    states = paths.reshape(-1)  # [T]
    symbols = _drawn(emissions[states], dice[:, :, 1].reshape(-1))  # [T]
    columns = compacted(list(hmm.symbols), symbols), compacted(list(hmm.labels), hmm.label_of[states])
    offsets = np.arange(n + 1, dtype=np.int64) * length
    further = "" if self_transitions else ", self_transitions=False"
    further += "" if start == STATES[0] else f", start={start}"
    source = f"synthetic_hmm({n}, {length}, p={p}, emission={emission}, seed={seed}{further})"
    return Corpus(("symbol", "label"), columns, offsets, "label", source)


def _drawn(cumulative: NDArray[np.float64], dice: NDArray[np.float64]) -> NDArray[np.int32]:
    """The outcomes [N] drawn by numbers [N] in [0, 1); the last of `cumulative` [N, outcomes] takes the rest."""
    outcomes: NDArray[np.int32] = np.sum(dice[:, None] >= cumulative[:, :-1], axis=1, dtype=np.int32)
    return outcomes


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
