"""The experiments by name; a module is imported when its experiment is asked for."""

from importlib import import_module

from labelwright.errors import OptionError
from labelwright.reproduce.experiment import Experiment
from labelwright.wording import did_you_mean

MODULES = {
    "ldi-np": "latent_inference",
    "ldi-bioner": "latent_inference",
    "latperc-synthetic": "synthetic_data",
    "latperc-np": "latent_perceptron",
    "latperc-bioner": "latent_perceptron",
    "multilayer": "multilayer",
    "csi": "constraint_inference",
}
ALL = "all"


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in MODULES:
        names = ", ".join([*MODULES, ALL])
        raise OptionError(f"unknown experiment {name!r}{did_you_mean(name, [*MODULES, ALL])}; experiments: {names}")
    experiment: Experiment = import_module(f"labelwright.reproduce.{MODULES[name]}").EXPERIMENTS[name]
    return experiment
