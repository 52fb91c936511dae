"""What every tagger promises, as checks of one tagger each.

`tests/taggers/test_contract.py` runs CHECKS over all taggers of the registry.  A tagger of another
package runs them over `Case(name, make)`.
"""

import pickle
from collections.abc import Callable
from inspect import isfunction, signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import labelwright
from labelwright.errors import (
    CorpusError,
    LabelwrightError,
    NotFittedError,
    OptionError,
    TemplateError,
)
from taggers import NEW, QUESTIONS, Case, answered, answers, ask, layers

# Values that a setting of this name must refuse, in whatever tagger it is.
NAN, INF = float("nan"), float("inf")
BAD_SETTINGS: dict[str, list[Any]] = {
    "n_jobs": [0, "two"],
    "max_iter": [0, 2.5],
    "random_state": [-1, np.random.RandomState(0)],
    "order": [0, 3, True, "2", 1.5, None],
    "l1": [-1.0, NAN],
    "l2": [-1.0, "much", NAN],
    "min_count": [0, 1.5, True],
    "tol": [-1.0, None],
    "cells": ["some"],
    "optimizer": ["newton"],
    "n_latent": [0, -1, True, False, 2.0, 2.5, "3", None, [2, 2], {}, {"O": 2}],
    "n_restarts": [0, 1.5],
    "averaging": ["mean", None],
    "update": ["mira"],
    "reset_every": [0, 2.5],
    "margin": [-1.0, "1", True, NAN],
    "aggressiveness": [-0.5, 0, 0.0, INF],
    "cost": ["hamming"],
    "slack": ["cubic", None],
    "variance": [0],
    "gamma": [-1.0, INF],
    "epsilon": [-0.1],
    "start": ["zero", None],
    "constraints": ["bio9"],
    "forbidden_transitions": [["A B"]],
    "entity_rate": [0, 1, -0.1, 15, "some"],
    "prune_labels": [0.0, "some"],
    "max_length": [0, 65537],
    "k": [0],
    "metric": ["euclid"],
    "weights": ["heavy"],
    "votes": ["loud"],
    "ngram": [2],
    "inference": ["guess"],
    "weighting": ["best"],
    "unreachable": ["ignore"],
    "passing": ["everything"],
    "cut": [1.5],
    "template": ["U:%nonsense[0]"],
}


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    """The message of a refusal, which is one line that is not empty."""
    message = str(error.value)
    assert message.strip()
    assert "\n" not in message
    return message


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal to the last bit."""
    return bool(_plain(a) == _plain(b))


def _plain(value: Any) -> Any:
    """An answer as nested tuples of texts and of numbers written out in full."""
    if isinstance(value, dict):
        return tuple((key, _plain(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    return float(value).hex() if isinstance(value, float | np.floating) else str(value)


# -- settings --------------------------------------------------------------------------------------


def constructor_only_stores(case: Case, folder: Path) -> None:
    kind = type(case.make())
    given = {name: object() for name in signature(kind).parameters}
    tagger = kind(**given)
    assert {name: getattr(tagger, name) for name in given} == given
    assert vars(tagger) == given


def fit_changes_no_setting(case: Case, folder: Path) -> None:
    tagger = case.make()
    before = dict(tagger.get_params(deep=False))
    texts = {name: repr(value) for name, value in tagger.get_params().items()}
    assert tagger.fit(case.X, case.y) is tagger
    assert all(tagger.get_params(deep=False)[name] is value for name, value in before.items())
    assert {name: repr(value) for name, value in tagger.get_params().items()} == texts


def settings_are_read_and_changed_by_name(case: Case, folder: Path) -> None:
    tagger = case.make()
    settings = tagger.get_params(deep=False)
    assert list(settings) == list(signature(type(tagger)).parameters)
    marks = {name: object() for name in settings}
    assert tagger.set_params(**marks) is tagger
    assert tagger.get_params(deep=False) == marks
    with pytest.raises(OptionError, match="nonsense") as error:
        tagger.set_params(nonsense=1)
    one_line(error)
    if settings:
        name = max(settings, key=len)
        with pytest.raises(
            OptionError, match=rf"no parameter '{name}s', expected .*; did you mean '{name}'\?$"
        ):
            tagger.set_params(**{f"{name}s": 1})


def clones_are_untrained_and_alike(case: Case, folder: Path) -> None:
    copy = clone(case.trained)
    assert type(copy) is type(case.trained)
    assert repr(copy) == repr(case.trained)
    with pytest.raises(NotFittedError):
        copy.predict(NEW)
    assert same(copy.fit(case.X, case.y).predict(NEW), case.trained.predict(NEW))


def repr_shows_what_was_set(case: Case, folder: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    tagger = case.make()
    text = repr(tagger)
    assert text.startswith(f"{type(tagger).__name__}(")
    names = {name: getattr(labelwright, name) for name in labelwright.__all__}
    names |= {type(tagger).__name__: type(tagger), "DecisionTreeClassifier": DecisionTreeClassifier}
    names |= {value.__name__: value for value in _functions(tagger).values()}
    written = eval(text, names)
    assert repr(written) == text
    assert {name: repr(value) for name, value in written.get_params().items()} == {
        name: repr(value) for name, value in tagger.get_params().items()
    }


def bad_settings_are_refused_in_one_line(case: Case, folder: Path) -> None:
    known = case.make().get_params(deep=False)
    for name in known.keys() & BAD_SETTINGS.keys():
        for value in BAD_SETTINGS[name]:
            tagger = case.make().set_params(**{name: value})
            for learn, named in {"fit": name, "partial_fit": f"({name}|partial_fit)"}.items():
                with pytest.raises((OptionError, TemplateError), match=rf"^{named}\b") as error:
                    getattr(tagger, learn, tagger.fit)(case.X, case.y)
                one_line(error)


# -- copies ----------------------------------------------------------------------------------------


def pickles_answer_alike(case: Case, folder: Path) -> None:
    copy = pickle.loads(pickle.dumps(case.trained))
    assert type(copy) is type(case.trained)
    assert same(answers(case, copy, NEW), answers(case, case.trained, NEW))


def files_answer_alike(case: Case, folder: Path) -> None:
    """Or are refused in one line that names the way out."""
    try:
        case.trained.save(folder / "model")
    except OptionError:
        with pytest.raises(OptionError, match="pickle") as error:
            case.trained.save(folder / "model")
        one_line(error)
        assert not (folder / "model").exists()
        return
    copy = labelwright.load(folder / "model").set_params(**_functions(case.trained))
    assert type(copy) is type(case.trained)
    assert copy.training_ == case.trained.training_
    assert same(answers(case, copy, NEW), answers(case, case.trained, NEW))


def _functions(tagger: Any) -> dict[str, Any]:
    """Settings that no file holds, since they are code."""
    return {name: value for name, value in tagger.get_params().items() if isfunction(value)}


def threads_change_nothing(case: Case, folder: Path) -> None:
    """Where the tagger has threads."""
    if "n_jobs" not in case.make().get_params(deep=False):
        return
    two = case.make().set_params(n_jobs=2).fit(case.X, case.y)
    assert same(answers(case, two, NEW), answers(case, case.trained, NEW))
    predicted = layers(two.predict(NEW))
    # a batch outlives the threads that scored it
    for layer, batch in layers(two.scored(NEW)).items():
        records = batch.decode(two._outputs[layer]._checked_decoder(None))
        assert [record.labels for record in records] == predicted[layer]


def a_second_fit_gives_the_same_tagger(case: Case, folder: Path) -> None:
    tagger = case.make().fit(case.X[:16], _some(case, slice(0, 16)))
    assert same(answers(case, tagger.fit(case.X, case.y), NEW), answers(case, case.trained, NEW))


# -- sentences -------------------------------------------------------------------------------------


def empty_sentences_have_empty_answers(case: Case, folder: Path) -> None:
    for question in answered(case):
        alone = layers(ask(case.trained, question, [NEW[0]]))
        among = layers(ask(case.trained, question, [[], NEW[0], []]))
        for layer, (empty, answer, last) in among.items():
            assert same(answer, alone[layer][0]), question
            assert same(empty, last), question
        assert all(
            len(answer) == 0 for answer in layers(ask(case.trained, question, [])).values()
        ), question
    for labellings in layers(case.trained.predict([[]])).values():
        assert labellings == [[]]
    for decoder in getattr(case.trained, "decoders", ()):
        (record,) = case.trained.decode([[]], decoder)
        assert (record.labels, record.score, record.exact, record.gap) == ([], 0.0, True, 0.0), (
            decoder
        )


def empty_sentences_in_training_teach_nothing(case: Case, folder: Path) -> None:
    y = {name: [*labels, []] for name, labels in layers(case.y).items()}
    tagger = case.make().fit([*case.X, []], y if isinstance(case.y, dict) else y[""])
    assert same(tagger.predict(NEW), case.trained.predict(NEW))


def sentences_may_have_one_token(case: Case, folder: Path) -> None:
    X = [["the"], ["dog"], ["barks"]] * 2
    y = [["B-NP"], ["I-NP"], ["O"]] * 2
    tagger = case.make().fit(X, {"pos": y, "chunk": y} if isinstance(case.y, dict) else y)
    for labels in layers(tagger.predict(X)).values():
        assert [len(sentence) for sentence in labels] == [1] * len(X)
        assert {label for sentence in labels for label in sentence} <= {"B-NP", "I-NP", "O"}
    for question in answered(case):
        ask(tagger, question, [["the"], ["unseen"]])


def sentences_are_answered_one_by_one_alike(case: Case, folder: Path) -> None:
    for labels, n in [
        (layers(case.trained.predict([sentence])), n) for n, sentence in enumerate(NEW)
    ]:
        for layer, together in layers(case.trained.predict(NEW)).items():
            assert labels[layer] == [together[n]]


def encoded_once_answers_all(case: Case, folder: Path) -> None:
    """Where the tagger encodes (a cascade does not: what a layer reads depends on the one
    below)."""
    if isinstance(case.y, dict):
        with pytest.raises(OptionError, match=r"^encode: "):
            case.trained.encode(NEW)
        return
    data = case.trained.encode(NEW)
    assert len(data) == len(NEW)
    for question in answered(case):
        assert same(ask(case.trained, question, NEW, data), ask(case.trained, question, NEW)), (
            question
        )
    with pytest.raises(OptionError) as error:
        case.make().fit(case.X[:16], _some(case, slice(0, 16))).predict(data)
    one_line(error)


# -- answers ---------------------------------------------------------------------------------------


def untrained_taggers_say_so(case: Case, folder: Path) -> None:
    tagger = case.make()
    asked: dict[str, Callable[[], Any]] = {
        question: _asking(tagger, question) for question in answered(case)
    }
    asked |= {"score": lambda: tagger.score(case.X, case.y), "classes_": lambda: tagger.classes_}
    asked |= {"encode": lambda: tagger.encode(NEW)}
    for question, call in asked.items():
        with pytest.raises(NotFittedError) as error:
            call()
        assert type(tagger).__name__ in one_line(error), question
    with pytest.raises(LabelwrightError):  # not trained, or never to be saved
        tagger.save(folder / "model")
    assert not (folder / "model").exists()


def nbest_are_in_order(case: Case, folder: Path) -> None:
    """Where the tagger ranks labellings."""
    if "n-best" not in case.can:
        return
    best = layers(case.trained.predict(NEW))
    for layer, ranked in layers(case.trained.predict_nbest(NEW, n=6)).items():
        for sentence, labellings in enumerate(ranked):
            texts = [tuple(labels) for labels, _ in labellings]
            weights = [weight for _, weight in labellings]
            assert len(set(texts)) == len(texts) <= 6
            assert all(len(labels) == len(NEW[sentence]) for labels in texts)
            assert all(a >= b - 1e-12 for a, b in pairwise(weights))
            assert list(texts[0]) == best[layer][sentence]
        fewer = layers(case.trained.predict_nbest(NEW, n=2))[layer]
        assert [labellings[:2] for labellings in ranked] == fewer
    for n in (0, 1.5):
        with pytest.raises(OptionError, match=r"^n: ") as error:
            case.trained.predict_nbest(NEW, n=n)
        one_line(error)


def records_agree_with_predictions(case: Case, folder: Path) -> None:
    best = layers(case.trained.predict(NEW))
    for layer, records in layers(case.trained.decode(NEW)).items():
        assert [record.labels for record in records] == best[layer]
        for record in records:
            assert np.isfinite(record.score)
            assert record.gap is None or (record.gap == 0) == record.exact
            assert (record.log_probability is None) == (
                "probability" not in case.trained._outputs[layer].can
            )


def probabilities_add_up_to_one(case: Case, folder: Path) -> None:
    """Where the tagger has them."""
    if "probability" not in case.can:
        return
    tagger = case.trained
    for sentences in layers(tagger.predict_marginals(NEW)).values():
        for row in (row for sentence in sentences for row in sentence):
            assert sum(row.values()) == pytest.approx(1.0)
            assert min(row.values()) >= 0
    records, ranked = layers(tagger.decode(NEW)), layers(tagger.predict_nbest(NEW, n=4))
    for layer, sentences in ranked.items():
        for record, labellings in zip(records[layer], sentences, strict=True):
            assert sum(p for _, p in labellings) <= 1 + 1e-9
            assert labellings[0][1] == pytest.approx(np.exp(record.log_probability))
    for layer, sentences in ranked.items():
        best = [labellings[0][0] for labellings in sentences]
        expected = [record.log_probability for record in records[layer]]
        for X, y, wanted in (
            (NEW, best, expected),
            (NEW[:1], [["no such label"] * len(NEW[0])], [-np.inf]),
        ):
            given = {layer: y} if layer else y
            assert layers(tagger.sequence_log_probabilities(X, given)) == {
                layer: pytest.approx(wanted)
            }


def refusals_agree_with_what_it_can(case: Case, folder: Path) -> None:
    for question, (capability, _) in QUESTIONS.items():
        if capability not in (None, "neighbours", *case.can):
            with pytest.raises(OptionError, match=rf"^{question}\b") as error:
                ask(case.trained, question, NEW)
            one_line(error)
    assert hasattr(case.trained, "neighbours") == ("neighbours" in case.can)
    if "confidence" in case.can or isinstance(case.y, dict):
        refusal = "calibrate it" if "confidence" in case.can else r"^predict_confidences: layer "
        with pytest.raises(OptionError, match=refusal):
            case.trained.predict_confidences(NEW)
    else:
        assert not hasattr(case.trained, "predict_confidences")


def known_labels_are_kept(case: Case, folder: Path) -> None:
    """Where known labels can be given; else they are refused."""
    labels = layers(case.y)
    forced: dict[str, Any] = {}
    for layer, sentences in labels.items():
        other = next(label for sentence in sentences for label in sentence if label != "O")
        forced[layer] = [[other, *[None] * (len(sentence) - 1)] for sentence in NEW]
    given = forced if isinstance(case.y, dict) else forced[""]
    if "forced" not in case.can:
        with pytest.raises((OptionError, TypeError), match="forced"):
            case.trained.decode(NEW, forced=given)
        return
    for layer, records in layers(case.trained.decode(NEW, forced=given)).items():
        assert [record.labels[0] for record in records] == [row[0] for row in forced[layer]]
    wrong = {layer: [["no such label"] * len(sentence) for sentence in NEW] for layer in forced}
    with pytest.raises(OptionError, match=r"^forced: .*no such label") as error:
        case.trained.decode(NEW, forced=wrong if isinstance(case.y, dict) else wrong[""])
    one_line(error)


def data_that_do_not_fit_are_refused_in_one_line(case: Case, folder: Path) -> None:
    short = {layer: [labels[0][:-1], *labels[1:]] for layer, labels in layers(case.y).items()}
    for y in (_some(case, slice(0, 3)), short if isinstance(case.y, dict) else short[""]):
        with pytest.raises(CorpusError, match=r"^y: ") as error:
            case.make().fit(case.X, y)
        one_line(error)
        with pytest.raises(LabelwrightError) as error:
            case.trained.score(case.X, y)
        one_line(error)
    with pytest.raises(LabelwrightError) as error:
        case.make().fit([], _some(case, slice(0, 0)))
    one_line(error)
    if "sequence_log_probabilities" in answered(case):
        for y in (_some(case, slice(0, 3)), short if isinstance(case.y, dict) else short[""]):
            with pytest.raises(CorpusError, match=r"^y: ") as error:
                case.trained.sequence_log_probabilities(case.X, y)
            one_line(error)


def scikit_learn_validates_it(case: Case, folder: Path) -> None:
    """By cross-validation, which takes lists of labels, not one for each layer."""
    if isinstance(case.y, dict):
        return
    scores = cross_val_score(case.make(), case.X, case.y, cv=2)
    assert scores.shape == (2,)
    assert all(0 < score <= 1 for score in scores)
    assert case.trained.score(case.X, case.y) > 0.5


def _asking(tagger: Any, question: str) -> Callable[[], Any]:
    return lambda: ask(tagger, question, NEW)


def _some(case: Case, part: slice) -> Any:
    """The labels of some sentences."""
    return (
        {name: labels[part] for name, labels in case.y.items()}
        if isinstance(case.y, dict)
        else case.y[part]
    )


CHECKS: list[Callable[[Case, Path], None]] = [
    constructor_only_stores,
    fit_changes_no_setting,
    settings_are_read_and_changed_by_name,
    clones_are_untrained_and_alike,
    repr_shows_what_was_set,
    bad_settings_are_refused_in_one_line,
    pickles_answer_alike,
    files_answer_alike,
    threads_change_nothing,
    a_second_fit_gives_the_same_tagger,
    empty_sentences_have_empty_answers,
    empty_sentences_in_training_teach_nothing,
    sentences_may_have_one_token,
    sentences_are_answered_one_by_one_alike,
    encoded_once_answers_all,
    untrained_taggers_say_so,
    nbest_are_in_order,
    records_agree_with_predictions,
    probabilities_add_up_to_one,
    refusals_agree_with_what_it_can,
    known_labels_are_kept,
    data_that_do_not_fit_are_refused_in_one_line,
    scikit_learn_validates_it,
]
WHAT_IT_CAN = CHECKS[
    CHECKS.index(empty_sentences_have_empty_answers) : CHECKS.index(scikit_learn_validates_it)
]
