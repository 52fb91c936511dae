"""Running text as sentences of tokens, each with its place in the text.

    text -> places of tokens -> sentences, which are runs of tokens

Words are split much as Unicode's word boundaries (UAX 29) do.  A token never reaches over what an annotator would mark
by itself: a final period, a hyphen, an English 's and a French l' are tokens of their own.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from labelwright.corpus.sentences import ABBREVIATIONS, sentence_starts
from labelwright.corpus.text import UNSPACED
from labelwright.corpus.token_patterns import TokenPattern
from labelwright.errors import OptionError

Place = tuple[int, int]  # where a token begins and ends in its text
SPLITTINGS = ("split", "lines", "none")  # of a text into sentences
NAMES = ("words", "ptb")  # of tokenizers
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen and zero-width (non-)joiner: they do not end a word


class Tokenizer(NamedTuple):
    """How text is split; a model remembers it.

    characters : every character is a token, as for Chinese
    pattern : a regular expression of your own, without backreferences; its matches are the tokens, and what is between
        them is left out; one of more than 1,000 characters is cut
    sentences : "split" by punctuation, "lines" (each line is one), or "none" (each text is one)
    name : "words" of any language, or "ptb" (English treebanks: do n't, can not, New York-based, Mr.)

    >>> [[text[a:b] for a, b in sentence] for text in ["Ada's 1,5 m. She left."] for sentence in Tokenizer()(text)]
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
        rule = _CHARACTER if self.characters else _rule_for(text, self.name)
        places = [match.span() for match in rule.finditer(text)]
        return places if text.isascii() else _with_marks(text, places, self.characters)

    def check(self) -> "Tokenizer":
        """This tokenizer, or an error that says what is wrong with it."""
        if self.characters and self.pattern is not None:
            raise OptionError("characters: every character is a token, so there is no token pattern; give one of both")
        if self.name != "words" and (self.characters or self.pattern is not None):
            raise OptionError(f"tokenizer: {self.name} has its own rules for tokens; leave characters and pattern out")
        for what, value, known in (("sentences", self.sentences, SPLITTINGS), ("tokenizer", self.name, NAMES)):
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
    """The tokenizer that the words of training data show: n't is a token of English treebanks; None where none is."""
    sentences = [X.values(X.input_names[0])] if hasattr(X, "input_names") else X if isinstance(X, list) else ()
    words = (word for sentence in sentences if isinstance(sentence, list) for word in sentence)
    shown = any(isinstance(word, str) and word in ("n't", "n\u2019t") for word in words)
    return Tokenizer(name="ptb") if shown else None


_own = lru_cache(maxsize=8)(TokenPattern)


# -- words ------------------------------------------------------------------------------------------------------------

_CHARACTER = re.compile(r"\S")
_URL = r"(?:https?://|ftp://|www\.)[^\s<>\"“”«»]*[^\s<>\"“”«».,;:!?'\u2019)\]}…]"
_EMAIL = r"[^\W_][\w.+-]{0,63}@[^\W_][\w-]*(?:\.[^\W_][\w-]*)+"
_REPEATED = r"\.{2,}|-{2,}|[!?]{2,}|={2,}|\*{2,}|_{2,}"
_CLITIC = r"(?i:s|re|ve|ll|d|m)(?!\w)"  # after an apostrophe, in English
_ELISION = r"(?<!\w)(?i:[cdjlmnst]|(?:jus|lors|puis)?qu|[dns]?ell|d?all|un)['\u2019](?=[^\W\d_]{2})"  # French, Italian


def _rule_for(text: str, name: str) -> re.Pattern[str]:
    """The rule for a text; parts of which it has no use are left out."""
    addresses = "@" in text or "://" in text or "www." in text
    return _ptb_rule(addresses) if name == "ptb" else _rule(UNSPACED.search(text) is not None, addresses)


@lru_cache(maxsize=4)
def _rule(unspaced: bool, addresses: bool) -> re.Pattern[str]:
    """Words with their inner apostrophes, numbers with their separators, letters with periods between them (U.S);
    characters of scripts without spaces one by one, and all other characters."""
    ranges = UNSPACED.pattern[1:-1] if unspaced else ""
    alnum, letter = rf"[^\W_{ranges}]", rf"[^\W\d_{ranges}]"
    word = rf"{alnum}+(?:(?:(?<=\d)[.,:/](?=\d)|_+|(?<={letter})['\u2019](?!{_CLITIC})(?={letter})){alnum}+)*"
    initials = rf"(?<!\w){letter}(?:\.{letter})+(?!\w)"
    parts = [_ELISION, initials, word, rf"(?<=\w)['\u2019]{_CLITIC}", _REPEATED, r"\S"]
    return re.compile("|".join([_URL, _EMAIL, *parts] if addresses else parts))


@lru_cache(maxsize=2)
def _ptb_rule(addresses: bool) -> re.Pattern[str]:
    """English as in the Penn Treebank: contractions are two tokens; words keep hyphens, slashes, the & of AT&T and the
    period of an abbreviation.  A period at the end of a line is a token, except in U.S. and the like."""
    letter, quote, closers = r"[^\W\d_]", r"['\u2019]", r"\"'\u2019\u201d)\]"
    part = rf"(?:[^\W_nN]++|[nN](?!{quote}[tT]\b))+"  # of a word: up to n't
    inner = rf"(?<=\d)[.,:](?=\d)|(?:[-./&]|_+)(?=[^\W_])|(?<={letter}){quote}(?!{_CLITIC})(?={letter})"
    titles = "|".join(word.title() for word in sorted(ABBREVIATIONS - {"no"}))
    goes_on = rf"(?!\w)(?=[{closers}]{{0,4}}[^\S\n]*[^\s{closers}])"  # after a period
    abbreviated = rf"(?:[A-Z]|{titles}|al|cf|etc|vs)\.{goes_on}|[Nn]o\.(?= ?\d)"
    contracted = rf"can(?=not\b)|(?:go|wa)n(?=na\b)|got(?=ta\b)|(?:gi|le)m(?=me\b)|more(?={quote}n\b)|d{quote}(?=ye\b)"
    shortened = rf"{quote}(?:t(?=is\b|was\b)|n{quote}?(?!\w)|(?:em|til|cause|bout)\b|\d\ds?\b)"
    parts = [
        rf"(?<!\w)(?:{abbreviated}|(?i:{contracted}|{shortened})|[A-Z]{{1,3}}\$)",  # US$
        rf"{quote}(?:{_CLITIC}|[nN]\b)|(?i:n{quote}t\b)",
        rf"(?:(?<!\w)(?:(?:{letter}|[A-Z][a-z])\.){{2,}}(?!\w)|(?:(?<![\w.])[-+]?\.?(?=\d))?{part})(?:(?:{inner}){part})*",
        r"\.{2,}|-{2,}|``|''|\S",
    ]
    return re.compile("|".join([_URL, _EMAIL, *parts] if addresses else parts))


def _with_marks(text: str, places: list[Place], characters: bool) -> list[Place]:
    """Tokens whose combining marks (vowel signs, accents) belong to the word before them, and do not end it."""
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
