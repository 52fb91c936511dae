"""Without compiled kernels everything still works, only slowly, and with the same answers."""

import pytest
from plain_python import answers_both_ways

PROGRAM = """
import json, sys
from labelwright import CRF, LatentCRF, LatentPerceptron, Perceptron
from labelwright.corpus import read_columns
from labelwright.kernels import compiled
X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], []]
y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], []]
answers = []
triples = {"order": 2, "template": "U:%x[0,0]\\n*:%x[-1,0]\\nT:%x[0,0]"}
for words in (
    {},
    {"optimizer": "sgd", "max_iter": 2},
    {"l1": 0.1},
    {"template": "U:%x[0,0]\\n*:%x[-1,0]"},
    {"order": 2},
    triples,
    triples | {"optimizer": "sgd", "max_iter": 2},
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
    model = LatentCRF(n_latent=2, order=order, template="U:%x[0,0]", max_iter=3, random_state=0, n_jobs=1).fit(X, y)
    for options in ({"decoder": "exact"}, {"decoder": "ldi", "n": 5}, {"decoder": "exact", "max_expansions": 1}):
        answers.append([[found.labels, found.log_probability, found.gap] for found in model.decode(X, **options)])
for model in (
    Perceptron(template="U:%x[0,0]\\nB:%x[0,0]", update="passive-aggressive"),
    Perceptron(template="U:%x[0,0]\\nB", update="arow"),
    Perceptron(order=2, template="U:%x[0,0]\\nT:%x[0,0]", constraints="scheme"),
    LatentPerceptron(2, order=2, template="U:%x[0,0]\\nB:%x[0,0]", margin=0.5, reset_every=2),
):
    model.set_params(max_iter=3, n_jobs=1, random_state=0).fit(X, y, dev=(X, y))
    answers.append([
        [[found.labels, found.score] for found in model.decode(X)],
        model.predict_nbest(X, n=3),
        model.predict_confidences(X),
        model.training_["mistakes"],
        model.training_["convergence"],
        model.partial_fit([["the", "cat", "sings"]], [["B-NP", "I-NP", "O"]]).predict(X),
    ])
columns = read_columns(sys.argv[1])
answers.append([columns.X, columns.y])
json.dump({"compiled": compiled(), "answers": answers}, sys.stdout)
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_answers(tmp_path):
    file = tmp_path / "data.txt"
    file.write_text("the DT B\ndog NN I\n\na DT B\n\n")
    compiled, plain = answers_both_ways(PROGRAM, str(file))
    assert len(compiled) > 100
    for a, b in zip(compiled, plain, strict=True):
        if isinstance(a, float):
            assert abs(a - b) < 1e-4 * max(1, abs(a))
        else:
            assert a == b
