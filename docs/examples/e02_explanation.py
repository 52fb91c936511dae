"""
Why this label?
===============

The contributions of features to one decision. They add up to the log-odds of the label and its runner-up.
"""

from importlib.resources import files

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano

tagger = CRF(template="ner").fit(read_doccano(files("labelwright.corpus") / "lives.jsonl"))
words = "Edward Lorenz worked at MIT .".split()
(why,) = tagger.explain([(word,) for word in words], token=4)
print(f"{words[4]}: {why.label} ({why.probability:.2f}), runner-up {why.runner_up}, log-odds {why.log_odds:.2f}")
print("without one of these it has another label:", [flip.name for flip in why.flips])

# %%
# Positive weights speak for the label, negative ones for the runner-up.
shown, rest = why.contributions[:12], why.contributions[12:]
names = [f"{c.name} at {words[c.token]!r}" for c in shown] + [f"{len(rest)} more"]
values = [c.value for c in shown] + [sum(c.value for c in rest)]
fig, axes = plt.subplots(figsize=(11, 4.2), layout="constrained")
axes.barh(names, values, color=["#2a78b8" if value > 0 else "#d1603d" for value in values])
axes.invert_yaxis()
axes.set_xlabel(f"contribution to the log-odds of {why.label} against {why.runner_up}")
plt.show()
