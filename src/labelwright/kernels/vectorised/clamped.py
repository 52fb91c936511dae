"""The weight of a labelling, and the paths of labellings, in NumPy; training without Numba sums latent paths in time
order, as those of sets of labels (learn.expectations)."""

import numpy as np

from labelwright.kernels import clamped
from labelwright.kernels.vectorised.chain import _time_order


def labelling_weight(node, arc, contexts, label):
    at = np.empty(len(label), np.int64)
    if not clamped._follow(label, contexts, at):
        return -np.inf
    if (contexts.ptr[at + 1] - contexts.ptr[at] > 1).any():
        return clamped.labelling_weight.function(node, arc, contexts, label)
    path, t = contexts.node[contexts.ptr[at]], np.arange(len(label))
    arcs = contexts.base[path[:-1]] + path[1:]
    return node[t, path].sum() + arc[t[1:] if len(arc) > 1 else 0, arcs].sum()


def _follow(label, contexts, at):
    if len(contexts.cut) == 1:  # order 1: the context is the label
        at[: len(label)] = label
        return True
    return clamped._follow.function(label, contexts, at)


def paths_of(label, contexts, offsets, path):
    order, label = _time_order(offsets), label[offsets[0] :]
    at = contexts.opening[label[order.token]]
    for t in range(1, len(order.steps) - 1):
        a, b = order.steps[t], order.steps[t + 1]
        at[a:b] = contexts.following[at[order.steps[t - 1] :][: b - a], label[order.token[a:b]]]
    path[offsets[0] + order.token] = contexts.node[contexts.ptr[at]]
