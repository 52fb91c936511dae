"""
Partial labels
==============

Labels that are not known are summed over in training. Taking them for ``O`` teaches
the model to find nothing.
"""

import random

import matplotlib.pyplot as plt

from labelwright import CRF
from labelwright.corpus import builtin_corpus

train = builtin_corpus(400, random_state=0, columns=["word", "chunk"])
test = builtin_corpus(300, random_state=5, columns=["word", "chunk"])
shares = [0.05, 0.1, 0.25, 0.5, 0.75, 1.0]


def trained(share, unknown):
    """A CRF that knows this share of the labels; the others are `unknown`."""
    draw = random.Random(0)
    y = [
        [label if draw.random() < share else unknown for label in labels]
        for labels in train.y
    ]
    return CRF(template="words", max_iter=50).fit(train.X, y)


curves = {
    "the rest unknown": [trained(share, None).score(test) for share in shares],
    "the rest taken for O": [trained(share, "O").score(test) for share in shares],
}

# %%
fig, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
known = [100 * share for share in shares]
for name, scores in curves.items():
    axes.plot(known, [100 * score for score in scores], marker="o", label=name)
axes.set(xlabel="% of the labels that are known", ylabel="F1 on test sentences")
axes.legend()
plt.show()
