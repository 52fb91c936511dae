"""
What to label next
==================

Sentences that the model is least certain of teach it more than random ones.
"""

import random

import matplotlib.pyplot as plt

from labelwright import CRF
from labelwright.active import rank
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(1400, random_state=2, columns=["word", "chunk"])
pool, test = corpus.take(slice(0, 1000)), corpus.take(slice(1000, 1400))


def curve(choose):
    """F1 on the test sentences after each round of 20 labelled sentences."""
    labelled, points = list(range(20)), []
    for _ in range(8):
        tagger = CRF(template="words", max_iter=40).fit(pool.take(labelled))
        points.append((len(labelled), 100 * tagger.score(test)))
        rest = sorted(set(range(len(pool))) - set(labelled))
        labelled += choose(tagger, rest)
    return points


def uncertain(tagger, rest):
    ranked = rank(tagger, pool.take(rest).X, diverse=True, top=20)
    return [rest[chosen.sentence] for chosen in ranked]


curves = {"uncertain and diverse": curve(uncertain)}
draw = random.Random(0)
curves["random"] = curve(lambda _, rest: draw.sample(rest, 20))

# %%
fig, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, points in curves.items():
    axes.plot(*zip(*points), marker="o", label=name)
axes.set(xlabel="labelled sentences", ylabel="F1 on test sentences")
axes.legend()
plt.show()
