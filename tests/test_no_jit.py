"""Without compiled kernels every model labels, and CRFs and latent CRFs learn, with the same
answers."""

import pytest
from plain_python import answers_both_ways

PROGRAM = """
import json, sys
from pathlib import Path
from labelwright import CRF, LatentCRF, LatentPerceptron, MemoryTagger, Perceptron, SemiCRF, load
from labelwright.corpus import read_columns
from labelwright.kernels import compiled
X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], []]
y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], []]
answers = []
triples = {"order": 2, "template": "U:%x[0,0]\\n*:%x[-1,0]\\nT:%x[0,0]"}
for words in (
    {},
    {"l1": 0.1},
    {"template": "U:%x[0,0]\\n*:%x[-1,0]"},
    {"order": 2},
    triples,
):
    words = {"template": "U:%x[0,0]\\nU:%x[-1,0]\\nB", "max_iter": 4, **words}
    model = CRF(n_jobs=1, constraints="scheme", **words).fit(X, y)
    answers.append([
        model.predict(X),
        model.predict_nbest(X, n=3),
        model.predict_marginals(X),
        model.predict_spans(X),
        model.sequence_log_probabilities(X, y),
        model.training_["loss"],
    ])
for order in (1, 2):
    settings = {"template": "U:%x[0,0]", "max_iter": 3, "random_state": 0, "n_jobs": 1}
    model = LatentCRF(n_latent=2, order=order, **settings).fit(X, y)
    for options in (
        {"decoder": "exact"},
        {"decoder": "ldi", "n": 5},
        {"decoder": "exact", "max_expansions": 1},
    ):
        answers.append([
            [found.labels, found.log_probability, found.gap]
            for found in model.decode(X, **options)
        ])
for number, (model, names) in enumerate((
    (
        Perceptron(template="U:%x[0,0]\\nB:%x[0,0]", update="passive-aggressive", max_iter=3),
        "confidences",
    ),
    (
        Perceptron(order=2, template="U:%x[0,0]\\nT:%x[0,0]", constraints="scheme", max_iter=3),
        "confidences",
    ),
    (
        LatentPerceptron(2, order=2, template="U:%x[0,0]\\nB:%x[0,0]", margin=0.5, max_iter=3),
        "confidences",
    ),
    (CRF(optimizer="sgd", template=triples["template"], order=2, max_iter=2), "marginals spans"),
    (CRF(prune_labels=0.9, max_iter=4), "marginals spans"),
    (SemiCRF(max_iter=4), "marginals spans"),
    (MemoryTagger(k=3, metric="mvdm"), "spans"),
)):
    file = Path(sys.argv[2], str(number))
    if compiled():
        model.fit(X, y, **({"dev": (X, y)} if "confidences" in names else {})).save(file)
    model = load(file)
    answers.append([
        [[found.labels, found.score] for found in model.decode(X)],
        model.predict_nbest(X, n=3),
        *[getattr(model, f"predict_{name}")(X) for name in names.split()],
    ])
columns = read_columns(sys.argv[1])
answers.append([columns.X, columns.y])
json.dump({"compiled": compiled(), "answers": answers}, sys.stdout)
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_answers(tmp_path):
    file = tmp_path / "data.txt"
    file.write_text("the DT B\ndog NN I\n\na DT B\n\n")
    compiled, plain = answers_both_ways(PROGRAM, str(file), str(tmp_path))
    assert len(compiled) > 100
    for a, b in zip(compiled, plain, strict=True):
        if isinstance(a, float):
            assert abs(a - b) < 1e-4 * max(1, abs(a))
        else:
            assert a == b
