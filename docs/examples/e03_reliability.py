"""
Can its probabilities be trusted?
=================================

A reliability diagram before and after calibration on held-out sentences.
"""

import matplotlib.pyplot as plt

from labelwright import CRF
from labelwright.corpus import builtin_corpus
from labelwright.evaluate import calibration_report

corpus = builtin_corpus(1350, random_state=1, columns=["word", "chunk"])
parts = slice(0, 150), slice(150, 750), slice(750, 1350)
train, dev, test = (corpus.take(part) for part in parts)
tagger = CRF(template="ner", l2=0.001)  # a weak penalty makes a model too sure
tagger.fit(train)
reports = {"as trained": calibration_report(tagger, test)}
reports["calibrated"] = calibration_report(tagger.calibrate(dev), test)

# %%
# Points below the line are too sure. Calibration changes no label.
fig, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
for name, report in reports.items():
    said = [bin_.said for bin_ in report.bins]
    right = [bin_.right for bin_ in report.bins]
    label = f"{name}: calibration error {100 * report.ece:.1f} %"
    axes.plot(said, right, marker="o", label=label)
axes.set_xlabel("mean probability of the predicted chunks")
axes.set_ylabel("share that is right")
axes.legend()
plt.show()
