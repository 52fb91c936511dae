"""Probabilities under rules: every tagger that has any against the conditional probability of all
its labellings."""

import json

import numpy as np
import pytest

from labelwright import CRF, LatentCRF, SemiCRF
from labelwright.constraints import at_most, forbid_pattern, once, soft
from labelwright.corpus.spans import spans_of
from labelwright.errors import OptionError
from labelwright.rules import product

X = [["Ada", "saw", "Bob"], ["he", "ran", "on"], ["Ada", "Lee", "ran"], ["Rome", "fell"]]
Y = [["B-P", "O", "B-P"], ["O", "O", "O"], ["B-P", "I-P", "O"], ["B-L", "O"]]
NEW = ["Ada", "in", "Rome"]
TAGGERS = {
    "crf": CRF(max_iter=4, n_jobs=1),
    "order 2": CRF(max_iter=4, order=2, n_jobs=1),
    "latent": LatentCRF(n_latent=2, max_iter=4, n_jobs=1),
    "latent, order 2": LatentCRF(n_latent=2, max_iter=4, order=2, n_jobs=1),
    "segments": SemiCRF(max_iter=4, n_jobs=1),
}
RULES = {
    "once": [once()],
    "pattern": [forbid_pattern("P ... P"), at_most(1, "L")],
    "soft": [soft(at_most(0, "P"), 1.5), at_most(2, "P")],
}
PRICES = {"soft": lambda y: 0.0 if RULES["soft"][0].rule.satisfied(y) else 1.5}


@pytest.fixture(scope="module", params=list(TAGGERS))
def tagger(request):
    return TAGGERS[request.param].fit(X, Y)


def given_rules(tagger, name):
    """{labelling: probability} among those that keep the rules."""
    hard = [rule for rule in RULES[name] if not repr(rule).startswith("soft")]
    price = PRICES.get(name, lambda y: 0.0)
    (every,) = tagger.predict_nbest([NEW], 1000)
    kept = {
        tuple(y): p * np.exp(-price(y)) for y, p in every if all(rule.satisfied(y) for rule in hard)
    }
    return {y: p / sum(kept.values()) for y, p in kept.items()}


@pytest.mark.parametrize("name", list(RULES))
def test_every_probability_is_that_given_the_rules(tagger, name):
    truth, rules = given_rules(tagger, name), RULES[name]
    (best,) = tagger.decode([NEW], constraints=rules)
    assert np.exp(best.log_probability) == pytest.approx(truth[tuple(best.labels)])
    assert tagger.sequence_log_probabilities([NEW], [best.labels], constraints=rules) == [
        best.log_probability
    ]
    for y, p in tagger.predict_nbest([NEW], 4, constraints=rules)[0]:
        assert p == pytest.approx(truth[tuple(y)])
    spans = {}
    for y, p in truth.items():
        for span in spans_of(y):
            spans[span[:3]] = spans.get(span[:3], 0.0) + p
    (predicted,) = tagger.predict_spans([NEW], constraints=rules)
    (likely,) = tagger.likely_spans([NEW], 0.01, constraints=rules)
    for span in [*predicted, *likely]:
        assert span.probability == pytest.approx(spans[span[:3]])
    assert len(likely) == sum(p >= 0.01 for p in spans.values())
    some = sum(p for y, p in truth.items() if any(label.endswith("-P") for label in y))
    assert tagger.occurrence_probabilities([NEW], "P", constraints=rules) == pytest.approx([some])


def test_entropies_and_confident_labels_are_those_given_the_rules():
    crf, rules = TAGGERS["crf"].fit(X, Y), RULES["once"]
    p = np.array(list(given_rules(crf, "once").values()))
    assert crf.sequence_entropies([NEW], constraints=rules) == pytest.approx(
        [-(p * np.log(p)).sum()]
    )
    (spans,) = crf.predict_spans([NEW], constraints=rules)
    least = max(span.probability for span in spans)
    (labels,) = crf.predict_confident([NEW], least, constraints=rules)
    assert [span[:3] for span in spans_of(labels)] == [
        span[:3] for span in spans if span.probability >= least
    ]


def test_rules_that_leave_too_much_for_sums(monkeypatch):
    crf = CRF(max_iter=4, n_jobs=1).fit(X, Y)
    monkeypatch.setattr(product, "WHOLE", product.Size(-1, -1))
    (best,) = crf.decode([NEW], constraints=once())
    assert (best.log_probability, best.status, best.exact) == (None, "optimal", True)
    (spans,) = crf.predict_spans([NEW], constraints=once())
    assert spans
    assert {span.probability for span in spans} == {None}
    for question in (
        lambda: crf.predict_marginals([NEW], constraints=once()),
        lambda: crf.predict_nbest([NEW], 2, constraints=once()),
        lambda: crf.predict_confident([NEW], 0.5, constraints=once()),
        lambda: crf.sequence_log_probabilities([NEW], [["O"] * 3], constraints=once()),
    ):
        with pytest.raises(
            OptionError,
            match="sentence 0: the rules leave too many possibilities in 3 tokens for pro",
        ):
            question()


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    model, words = tmp_path / "names.crf", tmp_path / "words.txt"
    CRF(max_iter=4, n_jobs=1).fit(X, Y).save(model)
    words.write_text("\n".join(NEW) + "\n\n")
    return model, words


def test_tag_prints_probabilities_given_the_rules(run, files):
    model, words = files
    code, out, _ = run(
        "tag", model, words, "--rule", "once", "--json", "--probabilities", "--nbest", 2
    )
    assert code == 0
    fact, crf = json.loads(out), CRF(max_iter=4, n_jobs=1).fit(X, Y)
    truth = given_rules(crf, "once")
    assert fact["probability"] == pytest.approx(truth[tuple(fact["labels"])], abs=1e-6)
    assert fact["nbest"][0]["probability"] == fact["probability"]
    (spans,) = crf.predict_spans([NEW], constraints=once())
    assert [span["probability"] for span in fact["spans"]] == [
        round(span.probability, 6) for span in spans
    ]
    (marginals,) = crf.predict_marginals([NEW], constraints=once())
    assert fact["probabilities"] == [
        round(row[y], 6) for row, y in zip(marginals, fact["labels"], strict=True)
    ]
    least = str(max(span.probability for span in spans) + 1e-9)
    code, out, _ = run("tag", model, words, "--rule", "once", "--min-confidence", least)
    assert code == 0
    assert out.split() == [part for word in NEW for part in (word, "O")]


def test_tag_says_where_there_are_no_probabilities(run, files, monkeypatch):
    model, words = files
    monkeypatch.setattr(product, "WHOLE", product.Size(-1, -1))
    code, out, err = run("tag", model, words, "--rule", "once", "--json")
    assert code == 0
    fact = json.loads(out)
    assert fact["probability"] is None
    assert {span["probability"] for span in fact["spans"]} == {None}
    assert err.splitlines()[-1].startswith(
        "labelwright: 1 sentence without probabilities: the rules leave too many"
    )
    code, out, err = run("tag", model, words, "--rule", "once")
    assert (code, err) == (0, "")
    for option in (["--probabilities"], ["--min-confidence", "0.5"], ["--nbest", "2"]):
        code, out, err = run("tag", model, words, "--rule", "once", *option)
        assert code != 0
        assert "sentence 0: the rules leave too many possibilities" in err
        assert len(err.strip().splitlines()) == 1
