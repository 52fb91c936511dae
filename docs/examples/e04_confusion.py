"""
Confusion matrix
================

Which POS tags are taken for which others?
"""

import matplotlib.pyplot as plt
import numpy as np

from labelwright import CRF
from labelwright.corpus import builtin_corpus
from labelwright.evaluate import evaluate

corpus = builtin_corpus(900, random_state=0, label="pos", columns=["word", "pos"])
train, test = corpus.split(0.4, random_state=0)
tagger = CRF(template="pos").fit(train)
report = evaluate(test.y, tagger.predict(test))
matrix = report.confusion()
print(f"accuracy {report.token_accuracy:.3f}")

# %%
# Each row is a gold tag, the most frequent first, with the share of its tokens that
# get each tag. Correct ones are left out.
order = np.argsort(-matrix.counts[:-1, :-1].sum(axis=1), kind="stable")
tags = [matrix.types[i] for i in order]
counts = matrix.counts[np.ix_(order, order)]
shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
np.fill_diagonal(shares, 0)
fig, axes = plt.subplots(figsize=(7, 6), layout="constrained")
image = axes.imshow(100 * shares, cmap="Reds")
axes.set_xticks(range(len(tags)), tags, rotation=90)
axes.set_yticks(range(len(tags)), tags)
axes.set_xlabel("predicted")
axes.set_ylabel("gold")
fig.colorbar(image, label="% of the tokens with the gold tag")
plt.show()
