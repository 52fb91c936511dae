"""Odd inputs made from seeds: mutated samples, and texts put together from fragments that readers
stumble over."""

import random
from typing import Any

FRAGMENTS = [
    *(
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\t",
        b" ",
        b"  ",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xc2\x85",
    ),
    *(
        b"-DOCSTART-",
        b"-DOCSTART- O\n\n",
        b"# newdoc\n",
        b"#",
        b"_",
        b"|",
        b"a|b",
        b"1-2",
        b"8.1",
        b"B-NP",
        b"O",
        b"I-",
    ),
    *(
        "\u00e9\u4e2d\u0301\u2028\u3000\ufeff\U0001f600".encode(),
        b"\x0b\x0c\x1c\x85",
        b"%x[0,0]",
        b'%m[0,0,"',
        b"%",
        b"[",
    ),
    *(
        b'"',
        b"'",
        b"\\",
        b"\\u",
        b"{",
        b"}",
        b"[[x]]\n",
        b"=",
        b"a=1\n",
        b"9" * 30,
        b"-",
        b"1e400",
        b"nan",
        b"x" * 50,
    ),
    *(
        b"\x1f\x8b",
        b"BZh91AY&SY",
        b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd",
        b"PAR1",
        b':"',
        b"null",
        b"a*",
        b".?",
        b"^",
        b"$",
    ),
]


LONG = 0.002  # share of inputs with something long in them
LONG_SIZES = (5_000, 60_000, 70_000, 200_000)  # characters: some values are longer than allowed
LONG_PIECES = [
    b"1",
    b"x",
    b"\n",
    b" \n",
    b" ",
    b"\t",
    b":1",
    b"\\",
    b"a=b\t",
    b"# c\n",
    "\u00e9".encode(),
]


def made(rng: random.Random, samples: list[bytes]) -> bytes:
    """An input: a mutated sample, mostly, or fragments alone; rarely with something long in it."""
    data = _made(rng, samples)
    if rng.random() < LONG:
        place, piece = rng.randint(0, len(data)), rng.choice(LONG_PIECES)
        data = data[:place] + piece * (rng.choice(LONG_SIZES) // len(piece)) + data[place:]
    return data


def _made(rng: random.Random, samples: list[bytes]) -> bytes:
    if rng.random() < 0.15:
        return b"".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(0, 30)))
    data = rng.choice(samples)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = _mutated(rng, data, samples)
    return data


def _mutated(rng: random.Random, data: bytes, samples: list[bytes]) -> bytes:
    """A sample with one change."""
    a = rng.randint(0, len(data))
    b = min(len(data), a + rng.choice((0, 1, 1, 2, 5, 20)))
    kind = rng.randrange(8)
    if kind == 0:
        return data[:a] + data[b:]
    if kind == 1:
        return data[:a] + bytes([rng.randrange(256)]) + data[b:]
    if kind == 2:
        return data[:b] + data[a:b] * rng.choice((1, 1, 2, 50)) + data[b:]
    if kind == 3:
        other = rng.choice(samples)
        cut = rng.randint(0, len(other))
        return data[:a] + other[cut:]
    if kind == 4:
        return data[:a]
    if kind == 5:
        return data.replace(
            *rng.choice(
                [(b"\n", b"\r\n"), (b"\n", b"\r"), (b"\t", b" "), (b" ", b"\t"), (b"\n", b"\n\n")]
            )
        )
    return data[:a] + rng.choice(FRAGMENTS) + data[b:]


# -- objects of Python -----------------------------------------------------------------------------

TEXTS = [
    "",
    "a",
    "b",
    "word",
    "B-NP",
    "O",
    " ",
    "a b",
    "a\tb",
    "a\n",
    "\r",
    "\0",
    "\ud800",
    "\ufeffa",
    "_",
    "a|b",
    "=",
    ":",
]
NAMES: list[Any] = [
    "w",
    "w",
    "x=",
    "length",
    "",
    "a:b",
    "\ud800",
    "n" * 40,
    1,
    None,
    (1, 2),
    b"w",
    b"\xff",
    2.5,
    True,
]


def made_value(rng: random.Random, depth: int = 0) -> Any:
    """A value of a feature, or what is none."""
    kind = rng.randrange(16 if depth < 3 else 12)
    if kind < 5:
        return rng.choice(TEXTS)
    if kind == 5:
        return rng.choice([0, 1, -1, 3, 10**20, -(10**400), 10**5000])
    if kind == 6:
        return rng.choice([0.0, 1.0, 0.5, -2.5, 1e300, float("inf"), float("nan")])
    if kind == 7:
        return rng.choice([True, False])
    if kind == 8:
        return rng.choice([None, object, 1j, b"bytes", b"\xff", range(3), frozenset(), Exception])
    if kind < 12:
        return rng.choice(["the", "dog", "barks"])
    if kind == 12:
        return [made_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind == 13:
        return tuple(rng.choice([0.5, 2, True]) for _ in range(rng.randint(0, 3)))
    if kind == 14:
        return {rng.choice(["p", "q"]) for _ in range(2)}
    return {rng.choice(NAMES): made_value(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def made_token(rng: random.Random) -> Any:
    """A dict of features, mostly a proper one, rarely with a long name or value."""
    if rng.random() < LONG / 4:
        long = rng.choice("1x\u00e9") * rng.choice(LONG_SIZES)
        return rng.choice([{long: "x"}, {"w": long}, {long: 2.5}, {"w": {"v": [long]}}])
    if rng.random() < 0.03:
        return made_value(rng)
    odd = rng.random() < 0.1
    names = NAMES if odd else NAMES[:4]
    values = (
        made_value
        if odd
        else lambda rng: rng.choice(
            ["the", "dog", 1, 2.5, True, False, 0, "x y", ["p", "q"], {"k": "v"}]
        )
    )
    return {rng.choice(names): values(rng) for _ in range(rng.randint(0, 4))}


def made_sentences(rng: random.Random) -> Any:
    """Sentences of feature dicts, mostly."""
    if rng.random() < 0.03:
        return rng.choice(
            [
                None,
                3,
                "text",
                b"bytes",
                [None],
                [1, 2],
                {"a": 1},
                ["ab", "c"],
                [[["x"]]],
                [],
                [[]],
                object(),
            ]
        )
    return [[made_token(rng) for _ in range(rng.randint(0, 4))] for _ in range(rng.randint(1, 3))]


def made_labels(rng: random.Random, X: Any) -> Any:
    """Labels for these sentences, mostly proper ones."""
    if (
        rng.random() < 0.05
        or not isinstance(X, list)
        or not all(isinstance(sentence, list) for sentence in X)
    ):
        return rng.choice([None, 3, "NV", [None], [1], [["N"]], [[None]], [{"N"}], []])
    odd = rng.random() < 0.3
    return [
        [made_value(rng, 3) if odd and rng.random() < 0.2 else rng.choice("NVO") for _ in s]
        for s in X
    ]
