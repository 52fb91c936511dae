"""Running text as sentences of tokens, each with its place in the text.

    text -> places of tokens -> sentences, which are runs of tokens

Words are split much as Unicode's word boundaries (UAX 29) do.  A token never reaches over what an
annotator would mark by itself: a final period, a hyphen, an English 's and a French l' are tokens
of their own.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.spans import Span, spans_of
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_patterns import TokenPattern
from labelwright.errors import CorpusError, OptionError
from labelwright.pages import mark

Place = tuple[int, int]  # where a token begins and ends in its text
SPLITTINGS = ("split", "lines", "none")  # of a text into sentences
NAMES = ("words", "ptb")  # of tokenizers
KEPT_BY_PTB = """ala ariz ark calif colo conn cos del fla ga ill ind kan ky la mass md messrs mich
    minn miss mo mont neb nev okla ore pa tenn tex va vt wash wis wyo
"""  # with their period: states of the U.S., ...
NOT = ("n't", "n\u2019t")
LOOKED_AT = 10_000  # tokens of lists that tell the tokenizer
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen and zero-width (non-)joiner: they do not end a word


class Tokenizer(NamedTuple):
    """How text is split; a model remembers it.

    characters : every character is a token, as for Chinese
    pattern : a regular expression of your own, without backreferences; its matches are the tokens,
        and what is between them is left out; one of more than 1,000 characters is cut
    sentences : "split" by punctuation, "lines" (each line is one), or "none" (each text is one)
    name : "words" of any language, or "ptb" (English treebanks: do n't, can not, New York-based,
        Mr.)

    >>> text = "Ada's 1,5 m. She left."
    >>> [[text[a:b] for a, b in sentence] for sentence in Tokenizer()(text)]
    [['Ada', "'s", '1,5', 'm', '.'], ['She', 'left', '.']]
    """

    characters: bool = False
    pattern: str | None = None
    sentences: str = "split"
    name: str = "words"

    def __call__(self, text: str) -> list[list[Place]]:
        """The sentences of a text: the places of their tokens."""
        tokens = self.tokens(text)
        starts = sentence_starts(text, tokens, self.sentences)
        return [tokens[a:b] for a, b in pairwise([*starts, len(tokens)])]

    def tokens(self, text: str) -> list[Place]:
        """The places of all tokens of a text.

        text : any string; the result has (start, end) in characters

        >>> [("Mr. O'Hara, 1,5 €"[a:b]) for a, b in Tokenizer().tokens("Mr. O'Hara, 1,5 €")]
        ['Mr', '.', "O'Hara", ',', '1,5', '€']
        """
        if self.pattern is not None:
            return list(_own(self.pattern).places(text))
        addresses = "@" in text or "://" in text or "www." in text
        rule = self.rule(UNSPACED.search(text) is not None, addresses)
        places = [match.span() for match in _without_spaces(rule).finditer(text)]
        return places if text.isascii() else with_marks(text, places, self.characters)

    def rule(self, unspaced: bool = True, addresses: bool = True) -> re.Pattern[str]:
        """The regular expression of tokens, where there is no pattern; parts of which a text has no
        use are left out.

        unspaced, addresses : whether a text has letters of scripts without spaces, and addresses
        """
        if self.characters:
            return _CHARACTER
        return _ptb_rule(addresses) if self.name == "ptb" else _rule(unspaced, addresses)

    def check(self) -> "Tokenizer":
        """This tokenizer, or an error that says what is wrong with it."""
        if self.characters and self.pattern is not None:
            raise OptionError(
                "characters: every character is a token, so there is no token pattern; give one of "
                "both"
            )
        if self.name != "words" and (self.characters or self.pattern is not None):
            raise OptionError(
                f"tokenizer: {self.name} has its own rules for tokens; leave characters and "
                "pattern out"
            )
        for what, value, known in (
            ("sentences", self.sentences, SPLITTINGS),
            ("tokenizer", self.name, NAMES),
        ):
            if value not in known:
                raise OptionError(f"{what}: expected one of {', '.join(known)}, got {value!r}")
        if self.pattern is not None:
            _own(self.pattern)
        return self


def tokenizer_of(settings: Any) -> Tokenizer:
    """The tokenizer that a model file describes; the usual one where it has none."""
    if not isinstance(settings, Mapping):
        return Tokenizer()
    known = {name: settings[name] for name in Tokenizer._fields if name in settings}
    kinds = {"characters": bool, "pattern": str | None, "sentences": str, "name": str}
    if not all(isinstance(value, kinds[name]) for name, value in known.items()):  # type: ignore[arg-type]
        raise OptionError(f"tokenizer: expected settings of a tokenizer, got {settings!r:.80}")
    return Tokenizer(**known).check()


def shown_by(X: Any) -> Tokenizer | None:
    """The tokenizer that training data (a Corpus, or the first of lists and tuples) show by their
    words, the first column: ptb where n't is a token more often than the end of one; None where
    nothing is shown."""
    if isinstance(X, Corpus):
        values, codes = X.columns[X.names.index(X.input_names[0])]
        ending = [code for code, word in enumerate(values) if word.endswith(NOT)]
        often = np.bincount(codes, minlength=len(values)).tolist() if ending else []
        counts = Counter({values[code]: often[code] for code in ending})
    else:
        sentences = (
            (row for row in X if isinstance(row, list | tuple))
            if isinstance(X, list | tuple)
            else ()
        )
        tokens = islice(chain.from_iterable(sentences), LOOKED_AT)
        words = (
            token[0] if isinstance(token, list | tuple) and token else token for token in tokens
        )
        counts = Counter(word for word in words if isinstance(word, str) and word.endswith(NOT))
    return Tokenizer(name="ptb") if 2 * sum(counts[word] for word in NOT) > counts.total() else None


_own = lru_cache(maxsize=8)(TokenPattern)


# -- words -----------------------------------------------------------------------------------------

_CHARACTER = re.compile(r"\S")
_URL = r"(?:https?://|ftp://|www\.)[^\s<>\"“”«»]*[^\s<>\"“”«».,;:!?'\u2019)\]}…]"
_EMAIL = r"[^\W_][\w.+-]{0,63}@[^\W_][\w-]*(?:\.[^\W_][\w-]*)+"
_REPEATED = r"\.{2,}|-{2,}|[!?]{2,}|={2,}|\*{2,}|_{2,}"
_CLITIC = r"(?i:s|re|ve|ll|d|m)(?!\w)"  # after an apostrophe, in English
# French, Italian
_ELISION = r"(?<!\w)(?i:[cdjlmnst]|(?:jus|lors|puis)?qu|[dns]?ell|d?all|un)['\u2019](?=[^\W\d_]{2})"


@lru_cache(maxsize=8)
def _without_spaces(rule: re.Pattern[str]) -> re.Pattern[str]:
    """The same rule, which passes over spaces at once: no token begins with one."""
    return re.compile(rf"(?=\S)(?:{rule.pattern})", rule.flags)


@lru_cache(maxsize=4)
def _rule(unspaced: bool, addresses: bool) -> re.Pattern[str]:
    """Words with their inner apostrophes, numbers with their separators, letters with periods
    between them (U.S); characters of scripts without spaces one by one, and all other
    characters."""
    ranges = UNSPACED.pattern[1:-1] if unspaced else ""
    alnum, letter = rf"[^\W_{ranges}]", rf"[^\W\d_{ranges}]"
    apostrophe = rf"(?<={letter})['\u2019](?!{_CLITIC})(?={letter})"
    word = rf"{alnum}+(?:(?:(?<=\d)[.,:/](?=\d)|_+|{apostrophe}){alnum}+)*"
    initials = rf"(?<!\w){letter}(?:\.{letter})+(?!\w)"
    parts = [_ELISION, initials, word, rf"(?<=\w)['\u2019]{_CLITIC}", _REPEATED, r"\S"]
    return re.compile("|".join([_URL, _EMAIL, *parts] if addresses else parts))


@lru_cache(maxsize=2)
def _ptb_rule(addresses: bool) -> re.Pattern[str]:
    """English as in the Penn Treebank: contractions are two tokens; words keep hyphens, slashes,
    the & of AT&T and the period of an abbreviation.  A period at the end of a line is a token,
    except in U.S. and the like."""
    letter, quote, closers = r"[^\W\d_]", r"['\u2019]", r"\"'\u2019\u201d)\]"
    part = rf"(?:[^\W_nN]++|[nN](?!{quote}[tT]\b))+"  # of a word: up to n't
    inner = (
        rf"(?<=\d)[.,:](?=\d)|(?:[-./&]|_+)(?=[^\W_])|(?<={letter}){quote}(?!{_CLITIC})(?={letter})"
    )
    titles = "|".join(
        word.title() for word in sorted({*ABBREVIATIONS, *KEPT_BY_PTB.split()} - {"no"})
    )
    goes_on = rf"(?!\w)(?=[{closers}]{{0,4}}[^\S\n]*[^\s{closers}])"  # after a period
    abbreviated = rf"(?:[A-Z]|{titles}|al|cf|etc|vs)\.{goes_on}|[Nn]o\.(?= ?\d)"
    contracted = (
        r"can(?=not\b)|(?:go|wa)n(?=na\b)|got(?=ta\b)|(?:gi|le)m(?=me\b)"
        rf"|more(?={quote}n\b)|d{quote}(?=ye\b)"
    )
    initials = rf"(?<!\w)(?:(?:{letter}|[A-Z][a-z])\.){{2,}}(?!\w)"  # U.S., Ph.D.
    shortened = rf"{quote}(?:t(?=is\b|was\b)|n{quote}?(?!\w)|(?:em|til|cause|bout)\b|\d\ds?\b)"
    parts = [
        rf"(?<!\w)(?:{abbreviated}|(?i:{contracted}|{shortened})|[A-Z]{{1,3}}\$)",  # US$
        rf"{quote}(?:{_CLITIC}|[nN]\b)|(?i:n{quote}t\b)",
        rf"(?:{initials}|(?:(?<![\w.])[-+]?\.?(?=\d))?{part})(?:(?:{inner}){part})*",
        r"\.{2,}|-{2,}|``|''|\S",
    ]
    return re.compile("|".join([_URL, _EMAIL, *parts] if addresses else parts))


def with_marks(text: str, places: list[Place], characters: bool) -> list[Place]:
    """Tokens whose combining marks (vowel signs, accents) belong to the word before them, and do
    not end it."""
    joined: list[Place] = []
    goes_on = False  # the token before ended with a mark
    for start, end in places:
        first = text[start]
        is_mark = first > "\x7f" and (unicodedata.category(first)[0] == "M" or first in JOINERS)
        continues = goes_on and first.isalnum() and not UNSPACED.match(first)
        if joined and joined[-1][1] == start and (is_mark or continues):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
        goes_on = is_mark and not characters and text[joined[-1][0]].isalnum()
    return joined


# -- words as running text -------------------------------------------------------------------------

# Scripts that are written without spaces between words: Han with its punctuation and full-width
# forms, kana, bopomofo, Thai, Lao, Burmese and Khmer.  Korean (Hangul) has spaces.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff01-\uff9f\uffe0-\uffe6\U0001b000-\U0001b16f\U00020000-\U000323af]"
)


def joined_text(words: Sequence[str]) -> str:
    """Words with spaces between them, but not where both neighbouring characters are of a script
    without spaces.

    >>> joined_text(["New", "York"]), joined_text(["北", "京", "大学"])
    ('New York', '北京大学')
    >>> joined_text(["在", "IBM", "工", "作"])
    '在 IBM 工作'
    """
    pieces = list(words[:1])
    for before, word in pairwise(words):
        unspaced = UNSPACED.match(before[-1:]) is not None and UNSPACED.match(word[:1]) is not None
        pieces += [word] if unspaced else [" ", word]
    return "".join(pieces)


# -- sentences -------------------------------------------------------------------------------------

# A sentence ends with a period, an exclamation or question mark (and the quotes or brackets that
# close behind it) where a space and something other than a lower-case letter follow, and at a blank
# line.  A period behind an abbreviation or an initial ends nothing: two sentences in one do less
# harm to a tagger than one in two.

ENDS = frozenset(".!?…‽؟।॥\u0589")
WIDE_ENDS = frozenset("。！？｡")  # of scripts without spaces: no space follows  # noqa: RUF001
CLOSERS = frozenset("\"'”’»›)]}」』）】")  # noqa: RUF001
MOST_CLOSERS = 4  # behind the mark that ends a sentence
ABBREVIATIONS = frozenset(
    """
    adm al apr art asst aug ave bros bzw ca capt cf ch co col cmdr corp dec dept dipl dr ed eds eq
    esp est etc feb fig figs fr fri gen gov hon hr inc incl ing jan jr jul jun lt ltd maj mar max
    min mlle mme mon mr mrs ms mt no nov nr oct op pp pres prof rep rev sat sen sep sept sgt sr st
    ste str sun tel thu tue usw univ vol vs wed
    """.split()  # noqa: SIM905
)
_LAST = ENDS | WIDE_ENDS | CLOSERS  # what the last token of a sentence ends with


def sentence_starts(
    text: str, tokens: Sequence[tuple[int, int]], splitting: str = "split"
) -> list[int]:
    """The numbers of the tokens that begin a sentence.

    >>> text = "Dr. No left. Why?"
    >>> sentence_starts(text, [(0, 2), (2, 3), (4, 6), (7, 11), (11, 12), (13, 16), (16, 17)])
    [0, 5]
    """
    starts = [0] if tokens else []
    for t in range(1, 1 if splitting == "none" else len(tokens)):
        end, begin = tokens[t - 1][1], tokens[t][0]
        ends = False
        if begin > end and "\n" in (gap := text[end:begin]):
            ends = splitting == "lines" or gap.count("\n") > 1
        if not ends and splitting == "split" and (mark := text[end - 1]) in _LAST:
            ends = _ends(text, tokens, t, mark, starts[-1])
        if ends:
            starts.append(t)
    return starts


def _ends(text: str, tokens: Sequence[tuple[int, int]], t: int, mark: str, first: int) -> bool:
    """Does a sentence that begins with token `first` end before token t, as this mark may tell?"""
    last, first = t - 1, max(first, t - 1 - MOST_CLOSERS)
    while mark in CLOSERS and last > first and tokens[last - 1][1] == tokens[last][0]:
        last -= 1
        mark = text[tokens[last][1] - 1]
    following = text[tokens[t][0]]
    if mark in WIDE_ENDS:
        return following not in CLOSERS and following not in WIDE_ENDS
    if mark not in ENDS or tokens[t - 1][1] == tokens[t][0] or following.islower():
        return False
    return mark != "." or last == t - 2 or not _is_abbreviated(text, tokens, last)


def _is_abbreviated(text: str, tokens: Sequence[tuple[int, int]], t: int) -> bool:
    """Does token t end with a period that belongs to its word, or to the one before it?"""
    begin, end = tokens[t]
    if t and end - begin == 1 and tokens[t - 1][1] == begin:  # a token of its own
        begin = tokens[t - 1][0]
    word = text[begin:end].rstrip(".")
    return "." in word or (len(word) == 1 and word.isupper()) or word.lower() in ABBREVIATIONS


# -- texts as sentences of tokens, and spans of tokens as entities: places in the text -------------


class Entity(NamedTuple):
    """A place in a text, in characters, with its type; taggers add how probable it is."""

    start: int  #: the first character in the text, from 0
    end: int  #: the character after the last
    type: str  #: such as PER
    text: str  #: the characters start to end
    #: that exactly this span is an entity of this type; None where it is not known
    probability: float | None = None

    def _repr_html_(self) -> str:
        return mark(self.text, self.type, self.probability)


class SplitTexts(NamedTuple):
    """Texts and their sentences; every text has one at least, which may be empty."""

    texts: list[str]
    places: list[list[Place]]  # [N][T]  where each token stands in its text
    text_of: list[int]  # [N]  the text that each sentence is of

    @property
    def words(self) -> list[list[str]]:
        return [
            [text[a:b] for a, b in tokens]
            for tokens, text in zip(
                self.places, map(self.texts.__getitem__, self.text_of), strict=True
            )
        ]

    def corpus(self, source: str, tokenizer: Tokenizer) -> Corpus:
        """The sentences as a corpus with one column."""
        return Corpus.from_sequences(self.words, names=["word"], source=source).split_by(tokenizer)

    def entities(self, spans: Sequence[Sequence[Span]], begin: int = 0) -> list[list[Entity]]:
        """The entities of each text that spans [N] of its sentences are; `begin` is where the first
        text begins."""
        by_text: list[list[Entity]] = [[] for _ in self.texts]
        for tokens, number, of_sentence in zip(self.places, self.text_of, spans, strict=True):
            for span in of_sentence:
                a, b = tokens[span.start][0], tokens[span.end - 1][1]
                words = self.texts[number][a:b]
                by_text[number].append(
                    Entity(begin + a, begin + b, span.type, words, span.probability)
                )
        return by_text

    def segmented(self, spans: Sequence[Sequence[Span]]) -> list[list[str]]:
        """The words of every sentence: its spans [N] and the tokens outside of them; _ for a space
        inside of a word."""
        rows = []
        for places, number, of_sentence in zip(self.places, self.text_of, spans, strict=True):
            inside = {t for span in of_sentence for t in range(span.start + 1, span.end)}
            starts = [t for t in range(len(places)) if t not in inside]
            words = (
                self.texts[number][places[a][0] : places[b - 1][1]]
                for a, b in pairwise([*starts, len(places)])
            )
            rows.append([joined_text(word.split()).replace(" ", "_") for word in words])
        return rows


def split_texts(texts: Iterable[str], tokenizer: Tokenizer) -> SplitTexts:
    """Split texts into sentences of tokens."""
    kept = [checked_text(text, f"text {n}") for n, text in enumerate(texts)]
    places, text_of = list[list[Place]](), list[int]()
    for number, text in enumerate(kept):
        sentences = tokenizer(text) or [[]]
        places += sentences
        text_of += [number] * len(sentences)
    return SplitTexts(kept, places, text_of)


def checked_text(text: Any, place: str) -> str:
    """A text; anything else is an error."""
    if not isinstance(text, str):
        got = "nothing" if text is None else f"{text!r:.60}"
        raise CorpusError(f"{place}: expected a text, got {got}")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise CorpusError(f"{place}: holds half of a surrogate pair, which is no character")
    return text


def labelled_spans(labels: Sequence[str]) -> list[Span]:
    """The spans that the labels of a sentence make; labels without a scheme are one for each
    token."""
    if all(map(is_chunk_label, labels)):
        return spans_of(labels)
    return [Span(t, t + 1, label) for t, label in enumerate(labels)]


def labelled_phrases(corpus: Corpus) -> dict[str, Counter[tuple[str, ...]]]:
    """How often each phrase, a tuple of words, is labelled, by type: a dictionary for each type.

    >>> sentences = [["In", "New", "York"], ["York"]]
    >>> corpus = Corpus.from_sequences(sentences, [["O", "B-LOC", "I-LOC"], ["B-LOC"]])
    >>> labelled_phrases(corpus)
    {'LOC': Counter({('New', 'York'): 1, ('York',): 1})}
    """
    phrases: dict[str, Counter[tuple[str, ...]]] = {}
    for words, labels in zip(corpus.column(corpus.input_names[0]), corpus.y, strict=True):
        for span in labelled_spans(labels):
            phrases.setdefault(span.type, Counter())[tuple(words[span.start : span.end])] += 1
    return dict(sorted(phrases.items()))
