"""Generated corpora: plausible English from a seeded grammar, and sequences of a hidden Markov model.

The English has tags, chunks and named entities, for demonstrations and tests without files.  Some labels depend on
context alone ("gave her flowers" against "saw her brother"), and some are noise: annotators differ.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus, compacted
from labelwright.errors import OptionError

COLUMNS = ("word", "pos", "chunk", "entity")

# Words; several are deliberately more than one thing (saw, watch, Ford, Florence).
MEETING = "watch visit help follow like love trust support judge attack call answer see meet find know"
HANDLING = """paint open close carry clean fix use watch cover design want need like move see find buy sell cut build
    hold lose leave draw"""
DISCUSSING = """plan study review reject accept support sign publish finish record judge test report follow change like
    attack read write see win"""
INTRANSITIVE = "work walk talk play dance wait arrive laugh fish travel rest listen cook run sleep fall swim sing speak"
GIVING = "offer hand promise give send show bring tell teach"
SAYING = "believe hope claim report announce argue say think know write"
WITH_PARTICLE = "put+off give+up set+up take+over cut+down pick+up turn+down carry+out call+off work+out"
IRREGULAR = """see/saw/seen/seeing meet/met/met/meeting find/found/found/finding know/knew/known/knowing
    buy/bought/bought/buying sell/sold/sold/selling cut/cut/cut/cutting build/built/built/building
    hold/held/held/holding lose/lost/lost/losing leave/left/left/leaving draw/drew/drawn/drawing read/read/read/reading
    write/wrote/written/writing win/won/won/winning run/ran/run/running sleep/slept/slept/sleeping
    fall/fell/fallen/falling swim/swam/swum/swimming sing/sang/sung/singing speak/spoke/spoken/speaking
    give/gave/given/giving send/sent/sent/sending show/showed/shown/showing bring/brought/brought/bringing
    tell/told/told/telling teach/taught/taught/teaching say/said/said/saying think/thought/thought/thinking
    rise/rose/risen/rising grow/grew/grown/growing put/put/put/putting set/set/set/setting take/took/taken/taking"""
FORMS = {forms[0]: forms for forms in (verb.split("/") for verb in IRREGULAR.split())}
FIGURES = "price share profit loss/losses sale cost wage market rent debt export"
RELATIVES = "brother sister friend teacher doctor neighbour cousin boss"
FEELINGS = "happy tired angry afraid ready late early ill rich famous open quiet strong"
ADVERBS = "quickly slowly often never always really still soon again early late together quietly finally recently"
DEGREES = "very quite rather too really"
# Names, with _ for a space; those in SHARED are given names, family names, cities and firms, as they come.
SHARED = "Florence Paris Sydney Austin Jordan Chelsea Virginia Georgia Charlotte Lincoln Washington Houston Kent London"
GIVEN = "Anna Peter Maria Jack Tom Helen Susan David Karen Olga Pedro Mei Omar Ruth Simon Clara"
FAMILY = "Smith Baker Ford Morgan Stone Cook Marsh Hill Young Carter Weber Silva Tanaka Moreau Judge Fisher"
CITIES = "Berlin Oslo Madrid Lisbon Vienna Cairo Lima Boston Dublin Kyoto Ghent Turin"
REGIONS = "New_York South_Korea West_Virginia North_Wales Lake_Victoria Cape_Town San_Marino"
FIRMS = "Ford Morgan Baker Northwind Halden Marsh Orbit Delta Carter Silverline Fisher Stone"
FIRM_ENDINGS = "Corp. Inc. Group Bank Motors Airlines University Press &_Sons"
SYLLABLES = "ba bel cor da den el fen gar hal ik jor kal lan mar mor nel or pel quin ral sen tor ul var wen yor zan"


class Nouns(NamedTuple):
    """Nouns of one kind (with irregular plurals), and the adjectives and verbs that go with them."""

    words: str
    adjectives: str
    verbs: str


SOLID = "old new small large red green dark light cheap open clean heavy local second last"
PEOPLE = Nouns(
    """teacher doctor farmer brother sister friend child/children man/men woman/women minister player worker student
    lawyer judge cook neighbour singer painter writer driver captain soldier nurse boy girl baker""",
    "old young tall rich poor famous tired happy quiet local foreign clever second last",
    MEETING,
)
THINGS = Nouns(
    """house garden flower book bridge picture window table watch/watches saw engine computer ship boat box/boxes car
    door painting church/churches building road wall fish/fish sign cover horse dog cat bird train tree shop drink""",
    SOLID,
    HANDLING,
)
MATTERS = Nouns(
    """report plan test record visit answer show study/studies review design attack change letter song story/stories
    play meeting reading match/matches result law game call question project work/works need move talk""",
    "old new small large good bad famous local foreign strong long short second last early late",
    DISCUSSING,
)
SPOTS = Nouns(
    "house garden river bridge city/cities office school museum station market church/churches village road hotel park",
    SOLID,
    HANDLING,
)
KINDS = (PEOPLE, THINGS, THINGS, MATTERS, MATTERS)


def _forms(base: str) -> list[str]:
    """Base, past, participle, gerund and third person of a verb, by spelling rules that suffice for the words above."""
    stem = base[:-1] if base[-1] == "e" else base
    third, past = base + ("es" if base.endswith(("s", "sh", "ch", "x")) else "s"), f"{stem}ed"
    if base[-1] == "y" and base[-2] not in "aeiou":
        third, past = f"{base[:-1]}ies", f"{base[:-1]}ied"
    return [*FORMS.get(base, [base, past, past, f"{stem}ing"]), third]


def _tensed(third: str, base: str, before: str, plural: bool, past: bool) -> str:
    return f"{before}/VBD" if past else f"{base}/VBP" if plural else f"{third}/VBZ"


def _being(plural: bool, past: bool) -> str:
    return _tensed("is", "are", "were" if plural else "was", plural, past)


def _marked(name: str, kind: str) -> str:
    """The words of a name, with their tags and their places in it."""
    tags, words = {"of": "IN", "&": "CC"}, name.split()
    return " ".join(f"{word}/{tags.get(word, 'NNP')}/{'I' if k else 'B'}-{kind}" for k, word in enumerate(words))


class Grammar:
    """Phrases and sentences as texts, "[NP her/PRP$ brother/NN] [VP left/VBD] ./."; each method is one rule.

    Choices depend on the seed alone, on every platform: whole random bits, no floating point."""

    def __init__(self, seed: int) -> None:
        self._bits = random.Random(seed)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        return (self._bits.getrandbits(32) * n) >> 32

    def chance(self, percent: int) -> bool:
        """True this often."""
        return self.below(100) < percent

    def pick(self, words: str) -> str:
        """One of the words."""
        chosen = words.split()
        return chosen[self.below(len(chosen))].replace("_", " ")

    def kind(self) -> Nouns:
        """What someone does something to."""
        return KINDS[self.below(len(KINDS))]

    # Names

    def invented(self) -> str:
        """A name that no list holds."""
        return "".join(self.pick(SYLLABLES) for _ in range(2 + self.below(2))).capitalize()

    def known(self, percent: int, names: str) -> str:
        """One of the names, or of those that are names of many things."""
        return self.pick(SHARED if self.chance(percent) else names)

    def person(self) -> str:
        """Anna, Anna Ford, Dr. Ford, Florence."""
        family = self.invented() if self.chance(15) else self.known(30, FAMILY)
        given, form = self.known(30, GIVEN), self.below(10)
        if 4 <= form < 6:
            return f"{self.pick('Mr. Mrs. Dr. President Captain Professor')}/NNP {_marked(family, 'PER')}"
        return _marked(f"{given} {family}" if form < 4 else given if form < 8 else family, "PER")

    def place(self) -> str:
        """Oslo, New York, Florence."""
        if self.chance(12):
            return _marked(self.invented(), "LOC")
        return _marked(self.pick(REGIONS) if self.chance(25) else self.known(50, CITIES), "LOC")

    def firm(self) -> str:
        """Ford, Halden Group, University of Oslo."""
        name = self.invented() if self.chance(15) else self.known(25, FIRMS)
        if self.chance(25):
            body = self.pick("University_of Bank_of Museum_of City_Council_of")
            return _marked(f"{body} {self.pick(f'{SHARED} {CITIES}')}", "ORG")
        return _marked(f"{name} {self.pick(FIRM_ENDINGS)}" if self.chance(60) else name, "ORG")

    # Noun phrases, and whether they are plural

    def noun(self, words: str, plural: bool) -> str:
        """One noun."""
        singular, _, irregular = self.pick(words).partition("/")
        return f"{irregular or singular + 's'}/NNS" if plural else f"{singular}/NN"

    def adjectives(self, kind: Nouns, percent: int) -> str:
        """No adjective, one, or (rarely) two."""
        chosen = [f"{self.pick(kind.adjectives)}/JJ " for _ in range(2) if self.chance(percent)]
        return "".join(dict.fromkeys(chosen))

    def named(self, kind: Nouns) -> tuple[str, bool]:
        """A person or a firm, or what is theirs."""
        name = self.person() if self.chance(60) else self.firm()
        if kind is PEOPLE and self.chance(80):
            return f"[NP {name}]", False
        plural = self.chance(40)
        return f"[NP {name}] [NP 's/POS {self.adjectives(kind, 15)}{self.noun(kind.words, plural)}]", plural

    def common(self, kind: Nouns) -> tuple[str, bool]:
        """The old dogs, a school garden, about 30 farmers, her brother."""
        form = self.below(20)
        plural = self.chance(40) or form >= 16
        body = self.adjectives(kind, 22)
        if self.chance(8) and kind is not PEOPLE:
            body += f"{self.noun(SPOTS.words, plural=False)} "
        body += self.noun(kind.words, plural)
        if form < 9:
            body = f"{'the' if self.chance(80) else 'these' if plural else 'this'}/DT {body}"
        elif form < 13:
            body = f"{'some' if plural else 'an' if body[0] in 'aeiou' else 'a'}/DT {body}"
        elif form < 16:
            body = f"{self.pick('his her their her my')}/PRP$ {body}"
        elif form < 19:
            body = f"{self.pick(f'two three ten 30 250 {2 + self.below(900)}')}/CD {body}"
            if self.chance(30):  # annotators differ on whether "about" belongs to the number
                return (f"[PP about/IN] [NP {body}]" if self.chance(50) else f"[NP about/IN {body}]"), plural
        return f"[NP {body}]", plural

    def both(self, kind: Nouns) -> tuple[str, bool]:
        """Cats and dogs: one chunk or three, as the annotator liked."""
        left, right = self.noun(kind.words, True), self.noun(kind.words, True)
        conjunction = f"{self.pick('and or')}/CC"
        return (
            f"[NP {left} {conjunction} {right}]" if self.chance(65) else f"[NP {left}] {conjunction} [NP {right}]"
        ), True

    def subject(self) -> tuple[str, bool]:
        """Whoever does it."""
        form = self.below(20)
        if form < 6:
            word = self.pick("he she they we he she")
            return f"[NP {word}/PRP]", word in ("they", "we")
        if form < 13:
            return self.named(PEOPLE) if form < 12 else self.both(PEOPLE)
        phrase, plural = self.common(PEOPLE)
        return phrase + (f" [PP from/IN] [NP {self.place()}]" if self.chance(20) else ""), plural

    def thing(self, kind: Nouns) -> str:
        """Whatever it is done to."""
        form = self.below(20)
        if form < 3:
            return f"[NP {self.pick('him her them' if kind is PEOPLE else 'it them')}/PRP]"
        if form < 6 and kind is PEOPLE:
            return f"[NP her/PRP$ {self.pick(RELATIVES)}/NN]"
        return (self.named if form < 9 else self.both if form == 9 else self.common)(kind)[0]

    # Around the verb

    def verb(self, verbs: str, plural: bool, past: bool) -> str:
        """A verb with its helpers: saw, will see, has seen, did not see, was seeing."""
        base, before, participle, gerund, third = _forms(verbs)
        inner = f"{self.pick(ADVERBS)}/RB " if self.chance(8) else ""
        form = self.below(20)
        if form < 11:
            return f"[VP {inner}{_tensed(third, base, before, plural, past)}]"
        if form < 14:
            return f"[VP {self.pick('will can may should must could would might')}/MD {inner}{base}/VB]"
        if form < 16:
            return f"[VP {_tensed('has', 'have', 'had', plural, past)} {inner}{participle}/VBN]"
        if form < 18:
            return f"[VP {_being(plural, past)} {inner}{gerund}/VBG]"
        negation = "not" if self.chance(60) else "n't"
        return f"[VP {_tensed('does', 'do', 'did', plural, past)} {negation}/RB {base}/VB]"

    def giving(self, plural: bool, past: bool) -> str:
        """Gave her flowers; gave her flowers to him; gave the man a book."""
        verb = self.verb(self.pick(GIVING), plural, past)
        gifts = self.noun("flower book letter card picture", plural=True)
        form = self.below(10)
        if form < 5:  # two chunks: she gets them
            return f"{verb} [NP {self.pick('her her him them')}/PRP] [NP {self.adjectives(THINGS, 20)}{gifts}]"
        if form < 7:  # one chunk: someone else gets what was hers
            return f"{verb} [NP her/PRP$ {self.adjectives(THINGS, 20)}{gifts}] [PP to/TO] {self.thing(PEOPLE)}"
        return f"{verb} {self.thing(PEOPLE)} {self.common(THINGS)[0]}"

    def predicate(self, plural: bool, past: bool) -> str:
        """What people do."""
        form = self.below(40)
        if form < 16:
            kind = self.kind()
            return f"{self.verb(self.pick(kind.verbs), plural, past)} {self.thing(kind)}"
        if form < 22:
            return f"{self.verb(self.pick(INTRANSITIVE), plural, past)} {self.manner(35)}"
        if form < 28:
            return self.giving(plural, past)
        if form < 32:
            feeling, degree = self.pick(FEELINGS), f"{self.pick(DEGREES)}/RB" if self.chance(45) else ""
            return f"[VP {_being(plural, past)}] [ADJP {degree} {feeling}/JJ]"
        if form < 36:
            verb, particle = self.pick(WITH_PARTICLE).split("+")
            thing = self.common(MATTERS)[0]
            verb = self.verb(verb, plural, past)
            return f"{verb} [PRT {particle}/RP] {thing}" if self.chance(70) else f"{verb} {thing} [PRT {particle}/RP]"
        kind = self.kind()
        wanting = self.verb(self.pick("want plan hope try need refuse promise"), plural, past)
        return f"{wanting[:-1]} to/TO {self.pick(kind.verbs)}/VB] {self.thing(kind)}"

    def passive(self) -> str:
        """The house was sold by Ford."""
        kind = self.kind()
        phrase, plural = self.common(kind)
        verb = f"[VP {_being(plural, self.chance(65))} {_forms(self.pick(kind.verbs))[2]}/VBN]"
        agent = (self.named if self.chance(50) else self.common)(PEOPLE)[0]
        return f"{phrase} {verb} {f'[PP by/IN] {agent}' if self.chance(70) else ''}"

    def movement(self) -> str:
        """Ford's shares rose 12 %."""
        plural = self.chance(60)
        figure = self.noun(FIGURES, plural)
        if self.chance(60):
            subject = f"[NP {self.firm() if self.chance(70) else self.place()}] [NP 's/POS {figure}]"
        else:
            subject = f"[NP the/DT {self.adjectives(MATTERS, 15)}{figure}]"
        amount = f"{2 + self.below(60)}/CD %/NN"
        if self.chance(50):
            amount = f"$/$ {1 + self.below(90)}/CD million/CD"
        by = "[PP by/IN]" if self.chance(40) else ""
        return (
            f"{subject} {self.verb(self.pick('climb jump rise fall grow'), plural, self.chance(65))} {by} [NP {amount}]"
        )

    def manner(self, percent: int) -> str:
        """Perhaps an adverb, perhaps with a degree."""
        if not self.chance(percent):
            return ""
        adverb, degree = self.pick(ADVERBS), f"{self.pick(DEGREES)}/RB" if self.chance(15) else ""
        return f"[ADVP {degree} {adverb}/RB]"

    def circumstance(self) -> str:
        """In Oslo, near the old bridge, on Monday, last week."""
        form = self.below(10)
        if form < 4:
            return f"[PP {self.pick('in near from at')}/IN] [NP {self.place()}]"
        if form < 7:
            return f"[PP {self.pick('in near at behind from through around by')}/IN] {self.common(SPOTS)[0]}"
        if form < 8:
            time = self.pick("Monday/NNP Friday/NNP March/NNP October/NNP 1987/CD 2004/CD Sunday/NNP")
            return f"[PP {'on' if 'day' in time else 'in'}/IN] [NP {time}]"
        article = self.pick("last/JJ next/JJ this/DT every/DT")
        return f"[NP {article} {self.pick('week year month summer winter spring')}/NN]"

    # Clauses and sentences

    def clause(self) -> str:
        """Who does what, and perhaps where or when."""
        form = self.below(20)
        if form < 5:
            clause = self.passive() if form < 3 else self.movement()
        else:
            subject, plural = self.subject()
            clause = f"{subject} {self.manner(6)} {self.predicate(plural, self.chance(65))}"
        for percent in (40, 15):
            clause += f" {self.circumstance()}" if self.chance(percent) else ""
        return clause

    def sentence(self) -> str:
        """One of several constructions, with its punctuation."""
        form = self.below(40)
        if form < 19:
            return f"{self.clause()} ./."
        if form < 23:
            opener = self.pick(
                "NP_Yesterday/NN NP_Today/NN ADVP_However/RB ADVP_Meanwhile/RB ADVP_Finally/RB"
                " ADVP_Recently/RB ADVP_Still/RB ADVP_Then/RB"
            )
            return f"[{opener}] {',/,' if self.chance(70) else ''} {self.clause()} ./."
        if form < 27:
            return f"{self.clause()} ,/, {self.pick('and but')}/CC {self.clause()} ./."
        if form < 31:
            speaker, plural = self.subject()
            said = self.verb(self.pick(SAYING), plural, self.chance(75))
            return f"{speaker} {said} {'[SBAR that/IN]' if self.chance(60) else ''} {self.clause()} ./."
        if form < 34:
            conjunctions = "because if while although when before after since"
            return f"{self.clause()} [SBAR {self.pick(conjunctions)}/IN] {self.clause()} ./."
        if form < 36:
            subject, plural = self.subject()
            helper = "Did/VBD" if self.chance(60) else "Do/VBP" if plural else "Does/VBZ"
            kind = self.kind()
            return f"{helper} {subject} [VP {self.pick(kind.verbs)}/VB] {self.thing(kind)} ?/."
        if form < 38:
            person, wrote = self.person(), self.pick("said wrote claimed")
            return f"``/`` {self.clause()} ,/, ''/'' [NP {person}] [VP {wrote}/VBD] ./."
        phrase, plural = self.common(self.kind())
        return f"[NP There/EX] [VP {_being(plural, self.chance(40))}] {phrase} {self.circumstance()} ./."


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
    grammar = Grammar(random_state)
    rows = [_rows(grammar.sentence()) for _ in range(n_sentences)]
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
