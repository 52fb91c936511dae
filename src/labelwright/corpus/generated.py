"""A generated corpus: plausible English from a seeded grammar, with tags, chunks and named entities.

It is for demonstrations and tests without files.  Some labels depend on context alone ("gave her flowers"
against "saw her brother"), and some, as in real corpora, are noise: annotators differ.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from labelwright.corpus import generated_words as lex
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError

T = TypeVar("T")

COLUMNS = ("word", "pos", "chunk", "entity")


class Token(NamedTuple):
    """A word, its tag, and its place in a name."""

    word: str
    pos: str
    entity: str = "O"


class Chunk(NamedTuple):
    """Tokens that belong together; the type is empty outside chunks."""

    type: str
    tokens: list[Token]


class Noun(NamedTuple):
    """A noun phrase and whether its verb is plural."""

    chunks: list[Chunk]
    plural: bool


class Nouns(NamedTuple):
    """Nouns of one kind, and the adjectives and verbs that go with them."""

    pairs: list[tuple[str, str]]  # singular and plural
    adjectives: list[str]
    verbs: list[lex.Verb]


PEOPLE = Nouns(lex.PEOPLE, lex.HUMAN, lex.MEETING)
THINGS = Nouns(lex.THINGS, lex.SOLID, lex.HANDLING)
MATTERS = Nouns(lex.MATTERS, lex.ADJECTIVES, lex.DISCUSSING)
SPOTS = Nouns(lex.SPOTS, lex.SOLID, lex.HANDLING)
KINDS = (PEOPLE, THINGS, THINGS, MATTERS, MATTERS)


class Dice:
    """Choices that depend on the seed alone, on every platform: whole random bits, no floating point."""

    def __init__(self, seed: int) -> None:
        self._bits = random.Random(seed)

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return (self._bits.getrandbits(32) * n) >> 32

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        """Return True this often."""
        return self.below(100) < percent


def _one(kind: str, word: str, pos: str) -> Chunk:
    return Chunk(kind, [Token(word, pos)])


def _marked(words: str, kind: str, pos: str = "NNP") -> list[Token]:
    """The tokens of a name."""
    return [
        Token(word, {"of": "IN", "&": "CC"}.get(word, pos), f"{'I' if number else 'B'}-{kind}")
        for number, word in enumerate(words.split())
    ]


class Grammar:
    """Phrases and sentences, each method one rule."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    # Names

    def invented(self) -> str:
        """Return a name that no list holds."""
        return "".join(self.dice.pick(lex.SYLLABLES) for _ in range(2 + self.dice.below(2))).capitalize()

    def person(self) -> list[Token]:
        """Anna, Anna Ford, Dr. Ford, Florence."""
        dice = self.dice
        family = self.invented() if dice.chance(15) else dice.pick(lex.SHARED if dice.chance(30) else lex.FAMILY)
        given = dice.pick(lex.SHARED if dice.chance(30) else lex.GIVEN)
        form = dice.below(10)
        if form < 4:
            return _marked(f"{given} {family}", "PER")
        if form < 6:
            return [Token(dice.pick(lex.TITLES), "NNP"), *_marked(family, "PER")]
        return _marked(given if form < 8 else family, "PER")

    def place(self) -> list[Token]:
        """Oslo, New York, Florence."""
        dice = self.dice
        if dice.chance(12):
            return _marked(self.invented(), "LOC")
        if dice.chance(25):
            return _marked(dice.pick(lex.REGIONS), "LOC")
        return _marked(dice.pick(lex.SHARED if dice.chance(50) else lex.CITIES), "LOC")

    def firm(self) -> list[Token]:
        """Ford, Halden Group, University of Oslo."""
        dice = self.dice
        name = self.invented() if dice.chance(15) else dice.pick(lex.SHARED if dice.chance(25) else lex.FIRMS)
        if dice.chance(25):
            return _marked(f"{dice.pick(lex.BODIES)} {dice.pick(lex.SHARED + lex.CITIES)}", "ORG")
        if dice.chance(60):
            return _marked(f"{name} {dice.pick(lex.FIRM_ENDINGS)}", "ORG")
        return _marked(name, "ORG")

    # Noun phrases

    def noun(self, kind: Nouns, plural: bool) -> Token:
        """One noun."""
        return Token(self.dice.pick(kind.pairs)[plural], "NNS" if plural else "NN")

    def adjectives(self, kind: Nouns, percent: int) -> list[Token]:
        """No adjective, one, or (rarely) two."""
        chosen = [self.dice.pick(kind.adjectives) for _ in range(2) if self.dice.chance(percent)]
        return [Token(word, "JJ") for word in dict.fromkeys(chosen)]

    def name(self, kind: Nouns) -> Noun:
        """A person or a firm, or what is theirs."""
        tokens = self.person() if self.dice.chance(60) else self.firm()
        if kind is PEOPLE and self.dice.chance(80):
            return Noun([Chunk("NP", tokens)], plural=False)
        plural = self.dice.chance(40)
        owned = [Token("'s", "POS"), *self.adjectives(kind, 15), self.noun(kind, plural)]
        return Noun([Chunk("NP", tokens), Chunk("NP", owned)], plural)

    def common(self, kind: Nouns) -> Noun:
        """The old dogs, a school garden, about 30 farmers, her brother."""
        dice = self.dice
        form = dice.below(20)
        plural = dice.chance(40) or form >= 16
        body = self.adjectives(kind, 22)
        if dice.chance(8) and kind is not PEOPLE:
            body.append(self.noun(SPOTS, plural=False))
        body.append(self.noun(kind, plural))
        if form < 9:
            body.insert(0, Token("the" if dice.chance(80) else ("these" if plural else "this"), "DT"))
        elif form < 13:
            body.insert(0, Token("some" if plural else ("an" if body[0].word[0] in "aeiou" else "a"), "DT"))
        elif form < 16:
            body.insert(0, Token(dice.pick(["his", "her", "their", "her", "my"]), "PRP$"))
        elif form < 19:
            body.insert(0, Token(dice.pick(["two", "three", "ten", "30", "250", str(2 + dice.below(900))]), "CD"))
            if dice.chance(30):  # annotators differ on whether "about" belongs to the number
                if dice.chance(50):
                    return Noun([_one("PP", "about", "IN"), Chunk("NP", body)], plural)
                body.insert(0, Token("about", "IN"))
        return Noun([Chunk("NP", body)], plural)

    def both(self, kind: Nouns) -> Noun:
        """Cats and dogs: one chunk or three, as the annotator liked."""
        left, right = self.noun(kind, True), self.noun(kind, True)
        conjunction = Token(self.dice.pick(["and", "or"]), "CC")
        if self.dice.chance(65):
            return Noun([Chunk("NP", [left, conjunction, right])], True)
        return Noun([Chunk("NP", [left]), Chunk("", [conjunction]), Chunk("NP", [right])], True)

    def subject(self) -> Noun:
        """Whoever does it."""
        form = self.dice.below(20)
        if form < 6:
            word = self.dice.pick(["he", "she", "they", "we", "he", "she"])
            return Noun([_one("NP", word, "PRP")], word in ("they", "we"))
        if form < 12:
            return self.name(PEOPLE)
        if form == 12:
            return self.both(PEOPLE)
        noun = self.common(PEOPLE)
        if self.dice.chance(20):
            noun.chunks.extend([_one("PP", "from", "IN"), Chunk("NP", self.place())])
        return noun

    def thing(self, kind: Nouns) -> list[Chunk]:
        """Whatever it is done to."""
        form = self.dice.below(20)
        if form < 3:
            return [_one("NP", self.dice.pick(["him", "her", "them"] if kind is PEOPLE else ["it", "them"]), "PRP")]
        if form < 6 and kind is PEOPLE:
            return [Chunk("NP", [Token("her", "PRP$"), Token(self.dice.pick(lex.RELATIVES), "NN")])]
        if form < 9:
            return self.name(kind).chunks
        return self.both(kind).chunks if form == 9 else self.common(kind).chunks

    # Around the verb

    def verb(self, verb: lex.Verb, plural: bool, past: bool) -> Chunk:
        """A verb with its helpers: saw, will see, has seen, did not see, was seeing."""
        dice = self.dice
        inner = [Token(dice.pick(lex.ADVERBS), "RB")] if dice.chance(8) else []
        form = dice.below(20)
        if form < 11:
            finite = (
                Token(verb.past, "VBD") if past else Token(verb.base, "VBP") if plural else Token(verb.third, "VBZ")
            )
            return Chunk("VP", [*inner, finite])
        if form < 14:
            return Chunk("VP", [Token(dice.pick(lex.MODALS), "MD"), *inner, Token(verb.base, "VB")])
        if form < 16:
            helper = Token("had", "VBD") if past else Token("have", "VBP") if plural else Token("has", "VBZ")
            return Chunk("VP", [helper, *inner, Token(verb.participle, "VBN")])
        if form < 18:
            return Chunk("VP", [self.being(plural, past), *inner, Token(verb.gerund, "VBG")])
        helper = Token("did", "VBD") if past else Token("do", "VBP") if plural else Token("does", "VBZ")
        return Chunk("VP", [helper, Token("not" if dice.chance(60) else "n't", "RB"), Token(verb.base, "VB")])

    def being(self, plural: bool, past: bool) -> Token:
        """Is, are, was, were."""
        if past:
            return Token("were" if plural else "was", "VBD")
        return Token("are", "VBP") if plural else Token("is", "VBZ")

    def wanting(self, plural: bool, past: bool) -> list[Chunk]:
        """Wants to see it."""
        kind = self.dice.pick(KINDS)
        chunk = self.verb(self.dice.pick(lex.WANTING), plural, past)
        end = [Token("to", "TO"), Token(self.dice.pick(kind.verbs).base, "VB")]
        return [Chunk("VP", [*chunk.tokens, *end]), *self.thing(kind)]

    def giving(self, plural: bool, past: bool) -> list[Chunk]:
        """Gave her flowers; gave her flowers to him; gave the man a book."""
        dice = self.dice
        verb = self.verb(dice.pick(lex.GIVING), plural, past)
        gifts = Token(dice.pick(lex.GIFTS)[1], "NNS")
        form = dice.below(10)
        if form < 5:  # two chunks: she gets them
            her = _one("NP", dice.pick(["her", "her", "him", "them"]), "PRP")
            return [verb, her, Chunk("NP", [*self.adjectives(THINGS, 20), gifts])]
        if form < 7:  # one chunk: someone else gets what was hers
            hers = Chunk("NP", [Token("her", "PRP$"), *self.adjectives(THINGS, 20), gifts])
            return [verb, hers, _one("PP", "to", "TO"), *self.thing(PEOPLE)]
        return [verb, *self.thing(PEOPLE), *self.common(THINGS).chunks]

    def predicate(self, plural: bool, past: bool) -> list[Chunk]:
        """What people do."""
        dice = self.dice
        form = dice.below(40)
        if form < 16:
            kind = dice.pick(KINDS)
            return [self.verb(dice.pick(kind.verbs), plural, past), *self.thing(kind)]
        if form < 22:
            return [self.verb(dice.pick(lex.INTRANSITIVE), plural, past), *self.manner(35)]
        if form < 28:
            return self.giving(plural, past)
        if form < 32:
            feeling = [Token(dice.pick(lex.FEELINGS), "JJ")]
            if dice.chance(45):
                feeling.insert(0, Token(dice.pick(lex.DEGREES), "RB"))
            return [Chunk("VP", [self.being(plural, past)]), Chunk("ADJP", feeling)]
        if form < 36:
            verb, particle = dice.pick(lex.WITH_PARTICLE)
            moved = [_one("PRT", particle, "RP")]
            thing = self.common(MATTERS).chunks
            return [self.verb(verb, plural, past), *(moved + thing if dice.chance(70) else thing + moved)]
        return self.wanting(plural, past)

    def passive(self) -> list[Chunk]:
        """The house was sold by Ford."""
        kind = self.dice.pick(KINDS)
        noun = self.common(kind)
        verb = [self.being(noun.plural, self.dice.chance(65)), Token(self.dice.pick(kind.verbs).participle, "VBN")]
        agent = self.name(PEOPLE).chunks if self.dice.chance(50) else self.common(PEOPLE).chunks
        by = [_one("PP", "by", "IN"), *agent] if self.dice.chance(70) else []
        return [*noun.chunks, Chunk("VP", verb), *by]

    def movement(self) -> list[Chunk]:
        """Ford's shares rose 12 %."""
        dice = self.dice
        plural = dice.chance(60)
        figure = self.noun(Nouns(lex.FIGURES, [], []), plural)
        if dice.chance(60):
            subject = [
                Chunk("NP", self.firm() if dice.chance(70) else self.place()),
                Chunk("NP", [Token("'s", "POS"), figure]),
            ]
        else:
            subject = [Chunk("NP", [Token("the", "DT"), *self.adjectives(MATTERS, 15), figure])]
        amount = [Token(str(2 + dice.below(60)), "CD"), Token("%", "NN")]
        if dice.chance(50):
            amount = [Token("$", "$"), Token(str(1 + dice.below(90)), "CD"), Token("million", "CD")]
        by = [_one("PP", "by", "IN")] if dice.chance(40) else []
        return [*subject, self.verb(dice.pick(lex.MOVING), plural, dice.chance(65)), *by, Chunk("NP", amount)]

    def manner(self, percent: int) -> list[Chunk]:
        """Perhaps an adverb, perhaps with a degree."""
        if not self.dice.chance(percent):
            return []
        adverb = [Token(self.dice.pick(lex.ADVERBS), "RB")]
        if self.dice.chance(15):
            adverb.insert(0, Token(self.dice.pick(lex.DEGREES), "RB"))
        return [Chunk("ADVP", adverb)]

    def circumstance(self) -> list[Chunk]:
        """In Oslo, near the old bridge, on Monday, last week."""
        dice = self.dice
        form = dice.below(10)
        if form < 4:
            return [_one("PP", dice.pick(["in", "near", "from", "at"]), "IN"), Chunk("NP", self.place())]
        if form < 7:
            return [_one("PP", dice.pick(lex.PLACES_OF), "IN"), *self.common(SPOTS).chunks]
        if form < 8:
            time = dice.pick(lex.TIMES)
            preposition = "on" if time.endswith("day") else "in"
            return [_one("PP", preposition, "IN"), _one("NP", time, "CD" if time.isdigit() else "NNP")]
        article = dice.pick([Token("last", "JJ"), Token("next", "JJ"), Token("this", "DT"), Token("every", "DT")])
        return [Chunk("NP", [article, Token(dice.pick(lex.TIME_NOUNS), "NN")])]

    # Clauses and sentences

    def clause(self) -> list[Chunk]:
        """Who does what, and perhaps where or when."""
        form = self.dice.below(20)
        if form < 3:
            chunks = self.passive()
        elif form < 5:
            chunks = self.movement()
        else:
            subject = self.subject()
            chunks = [*subject.chunks, *self.manner(6), *self.predicate(subject.plural, self.dice.chance(65))]
        for percent in (40, 15):
            if self.dice.chance(percent):
                chunks += self.circumstance()
        return chunks

    def sentence(self) -> list[Chunk]:
        """One of several constructions, with its punctuation."""
        dice = self.dice
        comma, stop = _one("", ",", ","), _one("", ".", ".")
        form = dice.below(40)
        if form < 19:
            return [*self.clause(), stop]
        if form < 23:
            opener = dice.pick(lex.OPENERS)
            first = _one("NP", opener, "NN") if opener in ("Yesterday", "Today") else _one("ADVP", opener, "RB")
            return [first, *([comma] if dice.chance(70) else []), *self.clause(), stop]
        if form < 27:
            return [*self.clause(), comma, _one("", dice.pick(["and", "but"]), "CC"), *self.clause(), stop]
        if form < 31:
            speaker = self.subject()
            said = self.verb(dice.pick(lex.SAYING), speaker.plural, dice.chance(75))
            that = [_one("SBAR", "that", "IN")] if dice.chance(60) else []
            return [*speaker.chunks, said, *that, *self.clause(), stop]
        if form < 34:
            return [*self.clause(), _one("SBAR", dice.pick(lex.CONJUNCTIONS), "IN"), *self.clause(), stop]
        if form < 36:
            subject = self.subject()
            helper = (
                Token("Did", "VBD")
                if dice.chance(60)
                else Token(*(("Do", "VBP") if subject.plural else ("Does", "VBZ")))
            )
            kind = dice.pick(KINDS)
            verb = Chunk("VP", [Token(dice.pick(kind.verbs).base, "VB")])
            return [Chunk("", [helper]), *subject.chunks, verb, *self.thing(kind), _one("", "?", ".")]
        if form < 38:
            person = Chunk("NP", self.person())
            wrote = _one("VP", dice.pick(["said", "wrote", "claimed"]), "VBD")
            return [_one("", "``", "``"), *self.clause(), comma, _one("", "''", "''"), person, wrote, stop]
        noun = self.common(dice.pick(KINDS))
        there = [_one("NP", "There", "EX"), Chunk("VP", [self.being(noun.plural, dice.chance(40))])]
        return [*there, *noun.chunks, *self.circumstance(), stop]


def _capitalised(word: str) -> str:
    return word[0].upper() + word[1:]


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
    grammar = Grammar(Dice(random_state))
    rows = []
    for _ in range(n_sentences):
        sentence = []
        for kind, tokens in grammar.sentence():
            for number, token in enumerate(tokens):
                chunk = f"{'I' if number else 'B'}-{kind}" if kind else "O"
                sentence.append((token.word, token.pos, chunk, token.entity))
        first = 1 if sentence[0][0] == "``" else 0
        sentence[first] = (_capitalised(sentence[first][0]), *sentence[first][1:])
        rows.append(sentence)
    corpus = Corpus.from_sequences(rows, names=COLUMNS, source=f"builtin_corpus({n_sentences}, {random_state})")
    return corpus.select(names, label=label)
