"""Words as running text, and running text as words."""

import re
import unicodedata
from collections.abc import Sequence

# Scripts that are written without spaces between words: Han with its punctuation and full-width forms, kana, bopomofo,
# Thai, Lao, Burmese and Khmer.  Korean (Hangul) has spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff01-\uff9f\uffe0-\uffe6\U0001b000-\U0001b16f\U00020000-\U000323af]"
)
_TOKEN = re.compile(r"[^\W_]+|\S")


def joined_text(words: Sequence[str]) -> str:
    """Words with spaces between them, but not where both neighbouring characters are of a script without spaces.

    >>> joined_text(["New", "York"]), joined_text(["北", "京", "大学"]), joined_text(["在", "IBM", "工", "作"])
    ('New York', '北京大学', '在 IBM 工作')
    """
    pieces: list[str] = []
    for k, word in enumerate(words):
        if k and not (_is_unspaced(words[k - 1][-1:]) and _is_unspaced(word[:1])):
            pieces.append(" ")
        pieces.append(word)
    return "".join(pieces)


def _is_unspaced(character: str) -> bool:
    return _UNSPACED.match(character) is not None


def token_places(text: str) -> list[tuple[int, int]]:
    """Where the tokens of a text begin and end: words are maximal runs of letters and digits (with their combining
    marks), and every other character that is no space is a token of its own.

    >>> [("Mr. O'Hara, 1,5 €"[a:b]) for a, b in token_places("Mr. O'Hara, 1,5 €")]
    ['Mr', '.', 'O', "'", 'Hara', ',', '1', ',', '5', '€']
    """
    places = [match.span() for match in _TOKEN.finditer(text)]
    return places if text.isascii() else _with_marks(text, places)


def _with_marks(text: str, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Tokens whose combining marks (vowel signs, accents) belong to the word before them, and do not end it."""
    joined: list[tuple[int, int]] = []
    goes_on = False  # the token before ended with a mark
    for start, end in places:
        is_mark = unicodedata.category(text[start])[0] == "M"
        if joined and joined[-1][1] == start and (is_mark or (goes_on and text[start].isalnum())):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
        goes_on = is_mark and text[joined[-1][0]].isalnum()
    return joined
