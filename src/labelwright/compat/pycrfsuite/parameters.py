"""The training parameters of CRFsuite's five algorithms: names, types, defaults and what they do."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    default: Any
    read: Callable[[str], Any]
    help: str


def _flag(text: str) -> bool:
    return bool(int(text))


def _whole(text: str) -> int:
    return int(float(text))  # 1e3 and 1000.0 count as whole numbers


FEATURES = {
    "feature.minfreq": Parameter(0.0, float, "Drop features that occur less often than this."),
    "feature.possible_states": Parameter(
        False, _flag, "Also give weights to pairs of attribute and label that the training data do not have."
    ),
    "feature.possible_transitions": Parameter(
        False, _flag, "Also give weights to transitions that the training data do not have."
    ),
}
UNLIMITED = 2147483647
PERIOD = Parameter(10, _whole, "Number of iterations over which the improvement of the loss is measured.")
PASSES = Parameter(100, _whole, "Largest number of passes over the data.")
MEAN_LOSS = Parameter(0.0, float, "Stop when the mean loss of a sentence is not above this.")

ALGORITHMS: dict[str, dict[str, Parameter]] = {
    "lbfgs": FEATURES
    | {
        "c1": Parameter(0.0, float, "Coefficient of the L1 penalty."),
        "c2": Parameter(1.0, float, "Coefficient of the L2 penalty."),
        "max_iterations": Parameter(UNLIMITED, _whole, "Largest number of L-BFGS iterations."),
        "num_memories": Parameter(6, _whole, "Number of past steps for the inverse Hessian (labelwright keeps 6)."),
        "epsilon": Parameter(
            1e-5, float, "Stop when the norm of the gradient is below this share of the norm of the weights."
        ),
        "period": PERIOD,
        "delta": Parameter(1e-5, float, "Stop when the relative improvement of the loss over a period is below this."),
        "linesearch": Parameter(
            "MoreThuente",
            str,
            "Line search: MoreThuente, Backtracking or StrongBacktracking (labelwright's own is used for all three).",
        ),
        "max_linesearch": Parameter(20, _whole, "Largest number of trials in a line search (labelwright allows 20)."),
    },
    "l2sgd": FEATURES
    | {
        "c2": Parameter(1.0, float, "Coefficient of the L2 penalty."),
        "max_iterations": Parameter(1000, _whole, "Largest number of passes (epochs) over the data."),
        "period": PERIOD,
        "delta": Parameter(1e-6, float, "Stop when the relative improvement of the loss over a period is below this."),
        "calibration.eta": Parameter(0.1, float, "First learning rate to try (labelwright tries its own)."),
        "calibration.rate": Parameter(2.0, float, "Factor between learning rates to try."),
        "calibration.samples": Parameter(1000.0, float, "Number of sentences used to try learning rates."),
        "calibration.candidates": Parameter(10, _whole, "Number of learning rates to try."),
        "calibration.max_trials": Parameter(20, _whole, "Largest number of trials of learning rates."),
    },
    "averaged-perceptron": FEATURES
    | {
        "max_iterations": PASSES,
        "epsilon": Parameter(0.0, float, "Stop when the share of wrong labels is not above this."),
    },
    "passive-aggressive": FEATURES
    | {
        "type": Parameter(1, _whole, "Update: 0 without slack, 1 for PA-I, 2 for PA-II."),
        "c": Parameter(1.0, float, "Aggressiveness: the weight of the slack in PA-I and PA-II."),
        "error_sensitive": Parameter(True, _flag, "Let the loss of a sentence grow with its number of wrong labels."),
        "averaging": Parameter(True, _flag, "Return the average of the weights over all updates."),
        "max_iterations": PASSES,
        "epsilon": MEAN_LOSS,
    },
    "arow": FEATURES
    | {
        "variance": Parameter(1.0, float, "Variance of every weight at the start."),
        "gamma": Parameter(1.0, float, "Trade-off between the loss and the change of the weights."),
        "max_iterations": PASSES,
        "epsilon": MEAN_LOSS,
    },
}
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}
TYPES = {name: parameter.read for known in ALGORITHMS.values() for name, parameter in known.items()}
