"""Made-up words without spaces: sentences of characters, their lattices, and labels of two
layers."""

import numpy as np

from labelwright import FeatureLattice

TAGS = {"ab": "N", "c": "V", "abc": "D", "ba": "V", "a": "D", "cb": "N"}


def text_of(sentence):
    """The characters of a sentence, whose tokens may be tuples."""
    return [token if isinstance(token, str) else token[0] for token in sentence]


def all_words(sentence):
    """Every word of up to three characters."""
    text = text_of(sentence)
    return FeatureLattice(
        [
            (
                a,
                b,
                "word",
                {
                    "text": "".join(text[a:b]),
                    "length": b - a,
                    "next": text[b] if b < len(text) else "#",
                },
            )
            for a in range(len(text))
            for b in range(a + 1, min(len(text), a + 3) + 1)
        ]
    )


def tagged_words(sentence):
    """Words of the dictionary with their tag, and every character, as O or as some tag."""
    text, arcs = text_of(sentence), []
    for a in range(len(text)):
        arcs += [(a, a + 1, tag, [text[a], "unknown"]) for tag in ("O", "N", "V", "D")]
        for b in range(a + 2, min(len(text), a + 3) + 1):
            word = "".join(text[a:b])
            arcs += [(a, b, TAGS[word], [word])] if word in TAGS else []
    return FeatureLattice(arcs)


def made_words(n, seed=0, most=4):
    """Sentences of characters, and their labels by layer: words, and tags of words."""
    random = np.random.default_rng(seed)
    X, words, tags = [], [], []
    for _ in range(n):
        sentence = [str(word) for word in random.choice(list(TAGS), random.integers(1, most + 1))]
        places = [
            ("B" if i == 0 else "I", TAGS[word]) for word in sentence for i in range(len(word))
        ]
        X.append(list("".join(sentence)))
        words.append([f"{place}-word" for place, _ in places])
        tags.append([f"{place}-{tag}" for place, tag in places])
    return X, {"word": words, "tag": tags}
