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
train, dev = (read_doccano(corpora / name) for name in ("lives.jsonl", "lives-dev.jsonl"))
tagger = CRF(template="ner").fit(train)
errors = evaluate(dev.y, tagger.predict(dev)).errors(dev, model=tagger)
print(errors)

# %%
# Correct names, and errors of each kind, by type:
kinds = ["correct", *errors.kinds]
types = list(errors.per_type)
left = [0] * len(types)
fig, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for kind in kinds:
    counts = [errors.per_type[type_][kind] for type_ in types]
    axes.barh(types, counts, left=left, label=kind)
    left = [a + b for a, b in zip(left, counts)]
axes.set_xlabel("names")
axes.legend()
plt.show()

# %%
# The same as a page to look through, as ``labelwright errors --html`` writes it:


class Page:
    def _repr_html_(self):
        return f'<iframe srcdoc="{escape(errors.html())}" width="100%" height="500"></iframe>'


Page()
