"""
Confusion matrix
================

Which POS tags are taken for which others?
"""

import matplotlib.pyplot as plt
import numpy as np

from labelwright import CRF
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(900, random_state=0, label="pos", columns=["word", "pos"])
train, test = corpus.split(0.4, random_state=0)
tagger = CRF(template="pos").fit(train)
gold = [tag for tags in test.y for tag in tags]
predicted = [tag for tags in tagger.predict(test) for tag in tags]
tags = sorted(set(gold) | set(predicted), key=lambda tag: -gold.count(tag))
matrix = np.zeros((len(tags), len(tags)))
for pair in zip(gold, predicted):
    matrix[tags.index(pair[0]), tags.index(pair[1])] += 1
print(f"accuracy {np.trace(matrix) / matrix.sum():.3f}")

# %%
# Each row is a gold tag, with the share of its tokens that get each tag. Correct ones are left white.
shares = matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True))
np.fill_diagonal(shares, 0)
fig, axes = plt.subplots(figsize=(7, 6), layout="constrained")
image = axes.imshow(100 * shares, cmap="Reds")
axes.set_xticks(range(len(tags)), tags, rotation=90)
axes.set_yticks(range(len(tags)), tags)
axes.set_xlabel("predicted")
axes.set_ylabel("gold")
fig.colorbar(image, label="% of the tokens with the gold tag")
plt.show()
