"""
Training curves
===============

The loss of every iteration is kept in ``history_``, with the score on development
data where there are some.
"""

from importlib.resources import files

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano

corpora = files("labelwright.corpus")
names = "lives.jsonl", "lives-dev.jsonl"
train, dev = (read_doccano(corpora / name) for name in names)
taggers = {
    f"l2 = {l2}": CRF(template="ner", l2=l2, max_iter=40).fit(train, dev=dev)
    for l2 in (0.1, 1.0, 10.0)
}

# %%
# Training stops where the score on development data no longer rises, and keeps the
# best weights.
fig, (loss, score) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
for name, tagger in taggers.items():
    history = tagger.history_
    scored = [r for r in history if "dev" in r]  # every fifth iteration
    steps = [r["iteration"] for r in history]
    loss.plot(steps, [r["loss"] for r in history], label=name)
    score.plot([r["iteration"] for r in scored], [100 * r["dev"] for r in scored])
loss.set(xlabel="iteration", ylabel="loss with its penalty")
score.set(xlabel="iteration", ylabel="F1 on development data")
loss.legend()
plt.show()
