"""
Nearest neighbours
==================

A memory-based tagger explains each answer by training tokens that are like it.
"""

from textwrap import fill

import matplotlib.pyplot as plt

from labelwright import MemoryTagger
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(600, random_state=0, columns=["word", "pos", "chunk"])
train, test = corpus.split(0.8, random_state=0)
tagger = MemoryTagger(k=5, metric="mvdm", votes="inverse-distance").fit(train)
print(f"F1 of the chunks {tagger.score(test):.3f}")

# %%
# The neighbours of one token: how far away each is, its words around the token, and
# what it votes for. A class holds the labels of three tokens, the middle one being
# the token's own.
sentence, token = next(
    (x, t) for x in test.X for t, (word, _) in enumerate(x) if word == "her" and t
)
near = tagger.neighbours([sentence])[0][token][:12]
print(fill(" ".join(word for word, _ in sentence), 80))
print("token:", sentence[token][0])
columns = list(tagger.feature_weights_)
around = [columns.index(f"word[{row}]") for row in (-1, 0, 1)]
read = [" ".join(str(n.values[c]) for c in around) for n in near]
names = [f"{words}\n({' '.join(n.label)})" for words, n in zip(read, near)]
fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.barh(range(len(near)), [n.distance for n in near], color="#2a78b8")
axes.set_yticks(range(len(near)), names)
axes.invert_yaxis()
axes.set_xlabel("distance")
plt.show()
