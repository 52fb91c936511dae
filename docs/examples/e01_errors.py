"""
What goes wrong
===============

Which names does a model miss, and what does it take them for?
"""

from html import escape
from importlib.resources import files

import matplotlib.pyplot as plt

from labelwright import CRF, read_doccano
from labelwright.evaluate import evaluate

corpora = files("labelwright.corpus")
names = "lives.jsonl", "lives-dev.jsonl"
train, dev = (read_doccano(corpora / name) for name in names)
tagger = CRF(template="ner").fit(train)
errors = evaluate(dev.y, tagger.predict(dev)).errors(dev, model=tagger)
print(errors)

# %%
# Correct names, and errors of each kind, by type:
kinds = ["correct", *errors.kinds]
types = list(errors.per_type)
left = [0] * len(types)
fig, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for kind, colour in zip(kinds, plt.get_cmap("Set2").colors):
    counts = [errors.per_type[type_][kind] for type_ in types]
    axes.barh(types, counts, left=left, label=kind, color=colour)
    left = [a + b for a, b in zip(left, counts)]
axes.set_xlabel("names")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# The same as a page to look through, as ``labelwright errors --html`` writes it:


class Page:
    def _repr_html_(self):
        style = "border: 0; width: 100%; height: 500px"
        return f'<iframe srcdoc="{escape(errors.html())}" style="{style}"></iframe>'


Page()
