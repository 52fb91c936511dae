"""Explanations: contributions add up to the log-odds, and are what scoring again without a feature
shows."""

from typing import Any

import numpy as np
import pytest
import small_models
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from labelwright import CRF, LatentCRF, MemoryTagger, NgramTagger, SemiCRF
from labelwright.errors import NotFittedError, OptionError
from labelwright.inspection.explanation import Explanation, in_view
from labelwright.inspection.weight_evidence import occurrences, without

WEIGHED = [
    "crf",
    "crf-columns",
    "crf-dicts",
    "crf-arrays",
    "crf-order2",
    "latent-crf",
    "latent-order2",
    "perceptron",
    "latent-perceptron",
    "semi-crf",
    "crf-pruned",
]
CASCADES = ["cascade", "cascade-segments"]
NGRAMS = ["memory", "memory-dicts", "memory-igtree", "csi", "vote", "none", "classifier"]
LATENT = ("latent-crf", "latent-order2", "latent-perceptron")
MADE: dict[str, tuple[Any, list[Any]]] = {}  # every model is trained once

OTHERS = {
    "latent-order2": lambda: LatentCRF(
        2, f"{small_models.TEMPLATE}\nT", order=2, random_state=0, **small_models.SHORT
    ),
    "crf-pruned": lambda: CRF(small_models.WORDS, prune_labels=1.0, **small_models.SHORT),
    "csi": lambda: MemoryTagger(3, inference="csi", n_jobs=1),
    "vote": lambda: MemoryTagger(3, inference="vote", n_jobs=1),
    "none": lambda: MemoryTagger(3, inference="none", n_jobs=1),
    "classifier": lambda: NgramTagger(LogisticRegression(), n_jobs=1),
}


def made(name: str) -> tuple[Any, list[Any]]:
    """A trained model of this name and sentences to ask about."""
    if name not in MADE:
        if name in OTHERS:
            X, y = small_models.words(0, 20, "pos" if name == "crf-pruned" else "entity")
            MADE[name] = OTHERS[name]().fit(X, y), small_models.asked("crf")
        else:
            MADE[name] = small_models.trained(name), small_models.asked(name)
    return MADE[name]


def layers(answer: Any) -> dict[str, list[Explanation]]:
    return answer if isinstance(answer, dict) else {"": answer}


# -- sums ------------------------------------------------------------------------------------------


@pytest.mark.cases(8)
@pytest.mark.filterwarnings("ignore:prune_labels")
@pytest.mark.parametrize("name", [*WEIGHED, *CASCADES, *NGRAMS])
def test_contributions_add_up(name: str) -> None:
    model, X = made(name)
    compared = 0
    for x in X:
        predicted = model.predict([x])
        for layer, tokens in layers(model.explain(x, flips=False)).items():
            assert [each.token for each in tokens] == list(range(len(x)))
            assert [each.label for each in tokens] == (predicted[layer] if layer else predicted)[0]
            for each in tokens:
                if each.log_odds is not None:
                    compared += 1
                    assert each.runner_up not in (None, each.label)
                    assert each.total == pytest.approx(each.log_odds, abs=1e-9)
                    assert all(
                        c.value == c.for_label - c.for_runner_up != 0 for c in each.contributions
                    )
    assert compared


@pytest.mark.parametrize("name", ["crf", "crf-order2", "latent-crf", "semi-crf"])
def test_log_odds_are_those_of_two_labellings(name: str) -> None:
    model, X = made(name)
    for each in model.explain(X[0], flips=False):
        one, other = model.sequence_log_probabilities(
            [X[0]] * 2, [each.labels, each.runner_up_labels]
        )
        assert each.log_odds == pytest.approx(one - other, abs=1e-9)
        assert each.runner_up_labels[each.token] == each.runner_up
        readings = [labels for labels, _ in model.predict_nbest([X[0]], n=30)[0]]
        better = [labels for labels in readings if labels[each.token] != each.label]
        if better:  # the first of the n best with another label is the runner-up
            assert better[0] == each.runner_up_labels


@pytest.mark.parametrize("name", ["crf", "crf-order2", "latent-crf", "perceptron", "semi-crf"])
def test_transitions_into_a_token_are_one_net_contribution(name: str) -> None:
    model, X = made(name)
    nets = 0
    for each in (each for x in X for each in model.explain(x, flips=False)):
        into = [c for c in each.contributions if c.kind == "transition"]
        assert len({c.end for c in into}) == len(into)
        features, shown = in_view(each.as_dict())
        assert "transition" not in {row["kind"] for row in features}
        assert [row["where"] for row in shown] == sorted(
            (row["where"] for row in shown), key=("in", "out", "elsewhere").index
        )
        assert sum(row["value"] for row in [*features, *shown]) == pytest.approx(
            each.log_odds, abs=1e-9
        )
        nets += len(into)
    assert nets


def test_a_net_contribution_is_the_difference_of_two_weights() -> None:
    model, X = made("crf")
    weights = {
        (row.source, row.target): row.weight
        for row in model.transition_features_
        if row.feature is None
    }
    for each in model.explain(X[0], flips=False):
        for c in (c for c in each.contributions if c.kind == "transition"):
            one, other = (
                tuple(labels[c.token : c.end]) for labels in (each.labels, each.runner_up_labels)
            )
            assert c.name == f"{' → '.join(one)}, not {' → '.join(other)}"
            assert c.value == pytest.approx(
                weights.get(one, 0.0) - weights.get(other, 0.0), abs=1e-9
            )


# -- removing features and scoring again -----------------------------------------------------------


def difference(model: Any, data: Any, each: Explanation) -> float:
    """The log-odds of the two labellings of an explanation, scored again."""
    one, other = (
        model.decode(data, forced=[labels])[0].score
        for labels in (each.labels, each.runner_up_labels)
    )
    return one - other


@pytest.mark.cases(3)
@pytest.mark.filterwarnings("ignore:prune_labels")
@pytest.mark.parametrize("name", [name for name in WEIGHED if name not in LATENT])
@given(draw=st.data())
def test_a_contribution_is_what_removing_the_feature_changes(
    name: str, draw: st.DataObject
) -> None:
    model, X = made(name)
    x = draw.draw(st.sampled_from(X))
    each = model.explain(x, draw.draw(st.integers(0, len(x) - 1)), flips=False)[0]
    data = model.encode([x])
    listed = occurrences(data)
    kind = draw.draw(
        st.sampled_from([kind for kind, found in listed.items() if len(found.feature)])
    )
    place = draw.draw(st.integers(0, len(listed[kind].feature) - 1))
    before, after = (
        difference(model, data, each),
        difference(model, without(data, listed, [(kind, place)]), each),
    )
    weighed = [
        c.value for c in each.contributions if _is_about(model, c, kind, listed[kind], place)
    ]
    assert len(weighed) <= 2  # a feature of two kinds may have one name
    assert (
        min([abs(before - after - value) for value in [*weighed, 0.0 if not weighed else np.inf]])
        < 1e-9
    )


def _is_about(model: Any, contribution: Any, kind: str, found: Any, place: int) -> bool:
    """Is a contribution that of this occurrence?"""
    from labelwright.inspection.names import feature_names
    from labelwright.inspection.weight_evidence import segment_rows

    row = int(found.row[place])
    if kind == "segment":
        if segment_rows(100, model.segments_.max_length)[row] != (
            contribution.token,
            contribution.end,
        ):
            return False
    elif contribution.token != row:
        return False
    return contribution.kind == kind and contribution.name == feature_names(model._extractor)(
        int(found.feature[place])
    )


def test_a_dict_without_a_key_shows_the_contribution() -> None:
    model, X = made("crf-dicts")
    each = model.explain(X[0], 2, flips=False)[0]
    by_name = {c.name: c.value for c in each.contributions if c.token == 2 and c.kind == "state"}
    for key in X[0][2]:
        poorer = [dict(token) for token in X[0]]
        value = poorer[2].pop(key)
        name = key if not isinstance(value, str) else f"{key}={value}"
        one, other = model.sequence_log_probabilities(
            [poorer] * 2, [each.labels, each.runner_up_labels]
        )
        assert each.log_odds - (one - other) == pytest.approx(by_name.get(name, 0.0), abs=1e-9)


def test_contributions_of_a_latent_model_are_gradients() -> None:
    X, y = small_models.dicts(0, 12)
    model = LatentCRF(2, random_state=0, n_jobs=1, max_iter=8).fit(X, y)
    each = model.explain(X[0], 1, flips=False)[0]
    contribution = next(c for c in each.contributions if c.name == "length" and c.token == 1)
    step = 1 / 64  # a float32 holds the values

    def odds(length: float) -> float:
        tokens = [dict(token) for token in X[0]]
        tokens[1]["length"] = length
        one, other = model.sequence_log_probabilities(
            [tokens] * 2, [each.labels, each.runner_up_labels]
        )
        return one - other

    length = X[0][1]["length"]
    slope = (odds(length + step) - odds(length - step)) / (2 * step)
    assert contribution.value == pytest.approx(length * slope, abs=1e-4)
    assert [c.kind for c in each.contributions].count("entropy") == 1


@pytest.mark.parametrize("name", ["crf-columns", "perceptron", "semi-crf"])
def test_flips_are_just_the_features_whose_removal_changes_the_label(name: str) -> None:
    from labelwright.inspection.names import feature_names

    model, X = made(name)
    for x in X[:3]:
        data = model.encode([x])
        listed = occurrences(data)
        every = [
            (kind, place) for kind, found in listed.items() for place in range(len(found.feature))
        ]
        decoded = model.decode(without(data, listed, every))
        for each in model.explain(x):
            flips = sorted((flip.name, flip.label) for flip in each.flips)
            expected = [
                (
                    feature_names(model._extractor)(int(listed[kind].feature[place])),
                    record.labels[each.token],
                )
                for (kind, place), record in zip(every, decoded, strict=True)
                if record.labels[each.token] != each.label
            ]
            assert flips == sorted(expected)


def test_a_memory_without_a_value_may_answer_otherwise() -> None:
    model, X = made("memory")
    flips = [(x, each, flip) for x in X for each in model.explain(x) for flip in each.flips]
    assert flips
    # the line of the word alone
    x, each, flip = next((x, e, f) for x, e, f in flips if f.name.startswith("2="))
    changed = [("\0" if t == flip.token else word, pos) for t, (word, pos) in enumerate(x)]
    assert model.predict([changed])[0][each.token] == flip.label != each.label


# -- what is asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["crf", "semi-crf", "perceptron", "latent-crf", "csi", "vote", "none"]
)
def test_against_a_label_of_ones_own(name: str) -> None:
    model, X = made(name)
    each = model.explain(X[0], 0, against="B-LOC")[0]
    assert each.runner_up == "B-LOC" != each.label
    assert each.total == pytest.approx(each.log_odds, abs=1e-9)
    with pytest.raises(
        OptionError, match=r"^against: no label 'B-FOO' in this model, expected one of"
    ):
        model.explain(X[0], against="B-FOO")


def test_the_scheme_rules_out_runners_up() -> None:
    model, X = made("crf")
    free = {each.runner_up for x in X for each in model.explain(x, flips=False)}
    kept = [each for x in X for each in model.explain(x, constraints="scheme", flips=False)]
    assert any(label.startswith("I-") for label in free)
    for each in kept:
        assert each.total == pytest.approx(each.log_odds, abs=1e-9)
        assert each.token or not each.runner_up.startswith("I-")


def test_probabilities_are_the_marginals() -> None:
    model, X = made("crf")
    for each, chances in zip(
        model.explain(X[0], flips=False), model.predict_marginals([X[0]])[0], strict=True
    ):
        assert (each.probability, each.runner_up_probability) == (
            chances[each.label],
            chances[each.runner_up],
        )
        assert each.measure == "log-odds"
    calibrated, X = made("perceptron")
    each = calibrated.explain(X[0], 0)[0]
    assert each.measure == "margin"
    assert each.probability == calibrated.predict_confidences([X[0]])[0][0][each.label]


def test_labels_of_the_layer_below_are_marked() -> None:
    model, X = made("cascade")
    answer = model.explain(X[0], flips=False)
    assert list(answer) == ["pos", "entity"]
    below = [c for each in answer["entity"] for c in each.contributions if c.below]
    assert below
    assert all(c.name.startswith("y[") for c in below)
    assert not any(c.below for each in answer["pos"] for c in each.contributions)


def test_neighbours_come_with_their_sentences() -> None:
    model, X = made("csi")
    training = small_models.words(0, 20)[0]
    for each in model.explain(X[0], flips=False):
        assert each.details["proposals"]
        for row in each.details["neighbours"]:
            for place in row["places"]:
                assert place["words"] == training[place["sentence"]]
                assert place["words"][place["token"]] == row["values"]["word[0]"]


def test_what_is_refused() -> None:
    model, X = made("crf")
    for asked, message in {
        "word": "^x: expected a sentence, a list of tokens, got str",
        5: "^x: expected a sentence, a list of tokens, got int",
    }.items():
        with pytest.raises(OptionError, match=message):
            model.explain(asked)
    with pytest.raises(OptionError, match="got a list of sentences; explain them one by one"):
        model.explain(X)
    with pytest.raises(
        OptionError, match=rf"^token: expected a number from 0 to {len(X[0]) - 1}, got 99"
    ):
        model.explain(X[0], 99)
    with pytest.raises(NotFittedError):
        SemiCRF().explain(X[0])
    assert model.explain([]) == []


def test_labels_may_be_numbers() -> None:
    X, y = small_models.words(0, 8)
    model = CRF(small_models.WORDS, n_jobs=1, max_iter=4).fit(
        X, [[int(label != "O") for label in labels] for labels in y]
    )
    each = model.explain(X[0], 0)[0]
    assert {each.label, each.runner_up} == {0, 1}
    assert each.total == pytest.approx(each.log_odds, abs=1e-9)
    assert {(row.source, row.target) for row in model.transition_features_} <= {
        (a, b) for a in "01" for b in "01"
    }


def test_one_label_has_no_runner_up() -> None:
    model = CRF("U:%x[0,0]", max_iter=2, n_jobs=1).fit([["a", "b"]], [["X", "X"]])
    each = model.explain(["a", "c"])[0]
    assert (each.label, each.runner_up, each.log_odds, each.contributions, each.flips) == (
        "X",
        None,
        None,
        [],
        [],
    )


def test_the_repr_is_one_line() -> None:
    crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    text = repr(crf.explain(["her", "brother"], token=1)[0])
    assert text.startswith("<Explanation of 'brother' (token 1): I rather than B, log-odds ")
    assert text.endswith(" contributions>")
