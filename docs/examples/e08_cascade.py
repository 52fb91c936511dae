"""
A cascade: chunks on POS tags
=============================

The upper layer sees how likely each tag is, not only the best one.
"""

import matplotlib.pyplot as plt

from labelwright import CRF, Cascade
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(500, random_state=0, columns=["word", "pos", "chunk"])
train, test = corpus.split(0.6, random_state=0)
layers = [("pos", CRF(template="words")), ("chunk", CRF(template="words"))]
cascade = Cascade(layers, passing="marginal").fit(train)
print(f"F1 of the chunks {cascade.score(test):.3f}")

# %%
# The tags of a sentence with their probabilities, and below them the chunks that
# were built on them:
words = "The doctors left her house last week .".split()
answers, marginals = cascade.predict([words]), cascade.predict_marginals([words])
pos, chunks = marginals["pos"][0], answers["chunk"][0]
tags = sorted({tag for token in pos for tag, p in token.items() if p > 0.05})
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
rows = [[token.get(tag, 0) for token in pos] for tag in tags]
image = axes.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.set_yticks(range(len(tags)), tags)
below = [f"{word}\n{chunk}" for word, chunk in zip(words, chunks)]
axes.set_xticks(range(len(words)), below)
fig.colorbar(image, label="probability of the tag")
plt.show()
