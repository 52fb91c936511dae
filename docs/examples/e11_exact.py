"""
Exact decoding with a proof
===========================

In a latent CRF the best labelling is not that of the best path. The search for it has an answer at any time, with a
bound on how much more probable another labelling can be.
"""

import matplotlib.pyplot as plt

from labelwright import LatentCRF
from labelwright.corpus import builtin_corpus

corpus = builtin_corpus(300, random_state=0, columns=["word", "chunk"])
tagger = LatentCRF(n_latent=3, template="U:%x[0,0]\nB", max_iter=60, random_state=0, share=False).fit(corpus)
X = builtin_corpus(200, random_state=9, columns=["word", "chunk"]).X

# %%
# Probability of the answer, and of the best that another labelling could have, for the sentence that is hardest:
hardest = [max(X, key=lambda x: tagger.decode([x])[0].expansions)]
limits = range(1, tagger.decode(hardest)[0].expansions + 2)
answers = [tagger.decode(hardest, max_expansions=limit)[0] for limit in limits]
found = [tagger.sequence_log_probabilities(hardest, [answer.labels])[0] for answer in answers]
probability = [2.718281828**log for log in found]
fig, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.step(limits, probability, where="post", label="the answer")
axes.step(limits, [p + a.gap for p, a in zip(probability, answers)], where="post", label="no other labelling has more")
axes.set(xlabel="expanded prefixes", ylabel="probability", ylim=(0, None))
axes.legend()
print(" ".join(map(str, hardest[0])))
print("proven after", next(limit for limit, answer in zip(limits, answers) if answer.exact), "expansions")
plt.show()
