"""
Why this label?
===============

The contributions of features to one decision. They add up to the log-odds of the
label against its runner-up.
"""

from importlib.resources import files

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano

template = r"""
U1:%x[0,0]
U2:%x[-1,0]
U3:%x[1,0]
U4:%short_shape[0,0]
U5:%prefix[0,0,2]
U6:%suffix[0,0,2]
"""
train = read_doccano(files("labelwright.corpus") / "lives.jsonl")
tagger = CRF(template=template).fit(train)
words = "Edward Lorenz worked at MIT .".split()
(why,) = tagger.explain([(word,) for word in words], token=4)
print(f"{words[4]}: {why.label}, probability {why.probability:.2f}")
print(f"runner-up {why.runner_up}, log-odds {why.log_odds:.2f}")
for flip in why.flips:
    print(f"without {flip.name}: {flip.label}")

# %%
# Positive contributions speak for the label, negative ones for the runner-up.
names = [f"{c.name} at {words[c.token]!r}" for c in why.contributions]
values = [c.value for c in why.contributions]
fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
colours = ["#2a78b8" if value > 0 else "#d1603d" for value in values]
axes.barh(names, values, color=colours)
axes.invert_yaxis()
axes.set_xlabel(f"log-odds of {why.label} against {why.runner_up}")
plt.show()
