"""The record of training in a model file: what is shown of it is checked when the file is
loaded."""

import pytest

from labelwright.errors import ModelFileError
from labelwright.modelfile import HeaderReader
from labelwright.taggers.training_record import FITTED, read_record

FULL = {
    "sentences": 3,
    "tokens": 9,
    "iterations": 2,
    "loss": 1.5,
    "seconds": 0.1,
    "stopped": "converged",
    "labelwright": "0.1",
    "of a plugin": {"anything": [1, None]},
}
CALIBRATED = {"temperature": 1.0, "sentences": 3, "log_likelihood_per_token": -1.0}


def header(training, history=()):
    return HeaderReader({"training": training, "history": list(history)})


def test_a_record_is_returned_as_it_is():
    history = [{"iteration": 1, "loss": float("inf"), "seconds": 0.5}]
    assert read_record(header(FULL, history), FITTED) == (FULL, history)
    assert read_record(header({}), FITTED) == ({}, [])  # was not trained
    imported = {"imported_from": "CRF++", "features": 3}
    assert read_record(header(imported), FITTED) == (imported, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": "3"}, "header: training: sentences: expected a whole number"),
        ({"tokens": -1}, "tokens: expected a whole number"),
        ({"seconds": 10**400}, "header: training: expected finite numbers"),
        ({"of a plugin": [float("nan")]}, "header: training: expected finite numbers, got nan"),
        ({"best_dev": None}, "best_dev: expected a number"),
        ({"columns": ["word", 1]}, "columns: expected a list of strings"),
        (
            {"calibration": {"temperature": 1.0}},
            "header: training: calibration: 'sentences' is missing",
        ),
        (
            {"calibration": CALIBRATED | {"left_out": []}},
            "calibration: left_out: expected an object",
        ),
        (
            {"calibration": CALIBRATED | {"left_out": {"unknown": "x"}}},
            "left_out: unknown: expected a whole number",
        ),
        (
            {"convergence": {"separable": 1.0, "mistake_bound": 3.0}},
            "convergence: 'theorem' is missing",
        ),
        ({"restarts": [{"loss": 1.0}]}, r"restarts\[0\]: 'merit' is missing"),
        ({"tokenizer": {"pattern": "("}}, "tokenizer: expected"),
        ({"tokenizer": {"name": "x"}}, "tokenizer: expected"),
        ({"dev": {"after": {"pos": 0.5}}}, "dev: expected a number"),
        ({"best_iteration": 2}, "'best_dev' is missing"),
    ],
)
def test_what_inspect_reads_is_checked(changes, message):
    with pytest.raises(ModelFileError, match=message):
        read_record(header(FULL | changes), FITTED)


def test_a_cascade_has_scores_of_its_layers_and_a_record_of_its_own():
    with pytest.raises(ModelFileError, match="dev: after: pos: expected a number"):
        read_record(header(FULL | {"dev": {"after": {"pos": "good"}}}), FITTED, of_layers=True)
    with pytest.raises(ModelFileError, match="'sentences' is missing"):
        read_record(header({}), FITTED, of_layers=True)


@pytest.mark.parametrize("name", [*FITTED, "seconds", "labelwright"])
def test_what_inspect_needs_is_there(name):
    with pytest.raises(ModelFileError, match=f"header: training: '{name}' is missing"):
        read_record(header({key: value for key, value in FULL.items() if key != name}), FITTED)


def test_records_of_iterations_are_checked():
    for record, message in (
        ({"loss": "1"}, "loss: expected"),
        ({"mistakes": 3}, "'loss' is missing"),
    ):
        with pytest.raises(ModelFileError, match=rf"header: history\[0\]: {message}"):
            read_record(header(FULL, [record]), FITTED)


def test_no_record_is_deep():
    deep = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(ModelFileError, match="training: expected 20 levels at most"):
        read_record(header({"x": deep}))
