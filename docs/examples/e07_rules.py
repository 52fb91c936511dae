"""
Rules of your own
=================

A rule is satisfied by the best labelling that obeys it, with a proof, and probabilities take it into account.
"""

from importlib.resources import files

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano
from labelwright.constraints import at_least, only

tagger = CRF(template="ner").fit(read_doccano(files("labelwright.corpus") / "lives.jsonl"))
words = "Hypatia taught in Alexandria , and Apple in Cupertino .".split()
X = [[(word,) for word in words]]
rules = {
    "no rule": [],
    "an organisation occurs": [at_least(1, "ORG")],
    "and the first word is a person": [at_least(1, "ORG"), only(0, ["PER"])],
}

# %%
# The labelling under each rule, and the share of the probability that obeys it:
fig, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
colours = {"O": "#eeeeee", "PER": "#f4b8a0", "LOC": "#a8d5ba", "ORG": "#a9c7ec"}
for row, (name, constraints) in enumerate(rules.items()):
    (answer,) = tagger.decode(X, constraints=constraints)
    print(f"{name}: {' '.join(answer.labels)}; proven: {answer.exact}")
    for t, label in enumerate(answer.labels):
        axes.barh(row, 0.96, left=t, color=colours[label.rpartition("-")[2]])
        axes.text(t + 0.48, row, f"{words[t]}\n{label}", ha="center", va="center", fontsize=8)
axes.set_yticks(range(len(rules)), rules)
axes.set_xticks([])
axes.invert_yaxis()
plt.show()
