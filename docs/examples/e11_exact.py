"""
Exact decoding with a proof
===========================

In a latent CRF the best labelling is not that of the best path. The search for it
has an answer at any time, with a bound on how much more probable another labelling
can be.
"""

from math import exp
from textwrap import fill

import matplotlib.pyplot as plt

from labelwright import LatentCRF
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(300, random_state=0, columns=["word", "chunk"])
settings = {"n_latent": 3, "max_iter": 60, "random_state": 0, "share": False}
tagger = LatentCRF(template="U:%x[0,0]\nB", **settings).fit(corpus)
X = builtin_corpus(200, random_state=9, columns=["word", "chunk"]).X

# %%
# Probability of the answer, and of the best that another labelling could have, for
# the sentence that is hardest:
hardest = [max(X, key=lambda x: tagger.decode([x])[0].expansions)]
limits = range(1, tagger.decode(hardest)[0].expansions + 2)
answers = [tagger.decode(hardest, max_expansions=limit)[0] for limit in limits]
logs = [tagger.sequence_log_probabilities(hardest, [a.labels])[0] for a in answers]
probability = [exp(log) for log in logs]
bound = [p + a.gap for p, a in zip(probability, answers)]
fig, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.step(limits, probability, where="post", label="the answer")
axes.step(limits, bound, where="post", label="no other labelling has more")
axes.set(xlabel="expanded prefixes", ylabel="probability", ylim=(0, None))
axes.legend()
print(fill(" ".join(map(str, hardest[0])), 80))
proven = next(limit for limit, answer in zip(limits, answers) if answer.exact)
print(f"proven after {proven} expansions")
plt.show()
