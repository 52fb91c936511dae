"""
What hidden states stand for
============================

A latent CRF splits each label into states. Training decides what they mean.
"""

import matplotlib.pyplot as plt

from labelwright import LatentCRF
from labelwright.corpus import builtin_corpus
from labelwright.inspection.use import expected_use, latent_states

corpus = builtin_corpus(400, random_state=0, columns=["word", "chunk"])
tagger = LatentCRF(n_latent=3, template="words", random_state=0, max_iter=60)
tagger.fit(corpus)
use = expected_use(tagger, [corpus])
views = [view for view in latent_states(tagger, use) if view.label == "B-NP"]

# %%
# The share of the tokens of ``B-NP`` in each state, with its typical words:
fig, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
for view in views:
    axes.barh(view.state, 100 * view.share, color="#a9c7ec")
    typical = ", ".join(word for word, _ in view.words)
    axes.text(2, view.state, typical, va="center")
axes.set_xlim(0, 100)
axes.invert_yaxis()
axes.set_xlabel("% of the tokens with the label B-NP")
plt.show()

# %%
# The probability of the state in one sentence:
words = "She gave the doctors his old letters .".split()
(marginals,) = tagger.predict_marginals([words], latent=True)
fig, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
states = [view.state for view in views]
rows = [[token.get(state, 0) for token in marginals] for state in states]
image = axes.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.set_xticks(range(len(words)), words)
axes.set_yticks(range(len(states)), states)
fig.colorbar(image, label="probability")
plt.show()
