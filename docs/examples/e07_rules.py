"""
Rules of your own
=================

Decoding returns the best labelling that obeys a rule, with a proof, and
probabilities take the rule into account.
"""

from importlib.resources import files
from math import exp

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano
from labelwright.constraints import at_least, only

train = read_doccano(files("labelwright.corpus") / "lives.jsonl")
tagger = CRF(template="ner").fit(train)
words = "Hypatia taught in Alexandria , and Apple in Cupertino .".split()
X = [[(word,) for word in words]]
rules = {
    "no rule": [],
    "an organisation\noccurs": [at_least(1, "ORG")],
    "and the first word\nis a person": [at_least(1, "ORG"), only(0, ["PER"])],
}

# %%
# The labelling under each rule, and the share of the probability that obeys it:
# what the labelling has without the rule, divided by what it has under it.
fig, axes = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
colours = {"O": "#eeeeee", "PER": "#f4b8a0", "LOC": "#a8d5ba", "ORG": "#a9c7ec"}
heads = []
for column, (name, constraints) in enumerate(rules.items()):
    (answer,) = tagger.decode(X, constraints=constraints)
    (without,) = tagger.sequence_log_probabilities(X, [answer.labels])
    share = exp(without - answer.log_probability)
    heads.append(f"{name}\n{100 * share:.1f} %")
    print(f"{' '.join(answer.labels)}; proven: {answer.exact}")
    for t, label in enumerate(answer.labels):
        axes.barh(t, 0.96, left=column, color=colours[label.rpartition("-")[2]])
        axes.text(column + 0.48, t, label, ha="center", va="center")
axes.set_xticks([0.48, 1.48, 2.48], heads)
axes.xaxis.tick_top()
axes.set_yticks(range(len(words)), words)
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
axes.invert_yaxis()
plt.show()
