"""Where sentences begin in a text that is split into tokens.

A sentence ends with a period, an exclamation or question mark (and the quotes or brackets that close behind it) where
a space and something other than a lower-case letter follow, and at a blank line.  A period behind an abbreviation or an
initial ends nothing: two sentences in one do less harm to a tagger than one in two.
"""

from collections.abc import Sequence

ENDS = frozenset(".!?…‽؟।॥\u0589")
WIDE_ENDS = frozenset("。！？｡")  # of scripts without spaces: no space follows  # noqa: RUF001
CLOSERS = frozenset("\"'”’»›)]}」』）】")  # noqa: RUF001
MOST_CLOSERS = 4  # behind the mark that ends a sentence
ABBREVIATIONS = frozenset(
    """
    adm al apr art asst aug ave bros bzw ca capt cf ch co col cmdr corp dec dept dipl dr ed eds eq esp est etc feb
    fig figs fr fri gen gov hon hr inc incl ing jan jr jul jun lt ltd maj mar max min mlle mme mon mr mrs ms mt no
    nov nr oct op pp pres prof rep rev sat sen sep sept sgt sr st ste str sun tel thu tue usw univ vol vs wed
    """.split()  # noqa: SIM905
)
_LAST = ENDS | WIDE_ENDS | CLOSERS  # what the last token of a sentence ends with


def sentence_starts(text: str, tokens: Sequence[tuple[int, int]], splitting: str = "split") -> list[int]:
    """The numbers of the tokens that begin a sentence.

    >>> text = "Dr. No left. Why?"
    >>> sentence_starts(text, [(0, 2), (2, 3), (4, 6), (7, 11), (11, 12), (13, 16), (16, 17)])
    [0, 5]
    """
    if not tokens:
        return []
    if splitting == "none":
        return [0]
    starts = [0]
    for t in range(1, len(tokens)):
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
