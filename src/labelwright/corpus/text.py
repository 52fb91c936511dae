"""Words as running text."""

import re
from collections.abc import Sequence

# Scripts that are written without spaces between words: Han with its punctuation and full-width forms, kana, bopomofo,
# Thai, Lao, Burmese and Khmer.  Korean (Hangul) has spaces.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff01-\uff9f\uffe0-\uffe6\U0001b000-\U0001b16f\U00020000-\U000323af]"
)


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
    return UNSPACED.match(character) is not None
