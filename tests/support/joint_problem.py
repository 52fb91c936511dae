"""The objective of joint training of a cascade, and a check of its gradient."""

import numpy as np
import pytest

from labelwright.learn.joint import Joint
from labelwright.parallel import Workers
from labelwright.structures.passing import over
from labelwright.taggers.layers import LayerRun, labelled_layers, stacks


def joint_problem(cascade, X, y, weights=None):
    """The objective of joint training of a trained cascade, in float64, and its weights."""
    names = list(cascade.layers_)
    source = cascade._input(labelled_layers(X, y, names, partial=True)[0])
    inputs, versions = [source], []
    models = list(cascade.layers_.values())
    run = LayerRun(cascade._fresh, None, weights)
    for k, model in enumerate(models[:-1]):
        passed, said = cascade._trained_passing(run, names[k], model, inputs[k], y[names[k]])
        versions.append(said)
        inputs.append(over(inputs[k], names[k], passed))
    made = stacks(
        cascade.layers_, inputs, y, versions, cascade.shares or {}, Workers(1), np.float64, weights
    )
    sizes = [len(model.weights_) for model in models]
    return Joint(made, sizes), np.concatenate([model.weights_ for model in models])


def slope(problem, at, i, step=1e-5):
    values = []
    for sign in (1, -1):
        moved = at.copy()
        moved[i] += sign * step
        values.append(problem(moved, np.empty_like(at)))
    return (values[0] - values[1]) / (2 * step)


def assert_slopes(problem, weights):
    """The gradient near these weights is that of finite differences, for fifteen weights of each
    layer."""
    random = np.random.default_rng(0)
    at = weights + random.normal(0, 0.5, len(weights))
    gradient = np.empty_like(at)
    problem(at, gradient)
    for part_of in problem.parts:
        for i in random.choice(np.arange(part_of.start, part_of.stop), 15, replace=False):
            assert gradient[i] == pytest.approx(slope(problem, at, i), abs=1e-5)
