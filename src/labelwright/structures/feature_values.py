"""Where the values of the features of an upper layer come from: what lower layers pass, and smooth functions of that.

values = (what the lower layers pass, one layer behind the other; products; what never changes, the last of it 1)
"""

from collections.abc import Callable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FLOOR = 0.001  # is added to a probability before its log is taken
LOG_RANGE = log(1 + 1 / FLOOR)


class Products(NamedTuple):
    """Values that are products p of probabilities, or log(1 + p / FLOOR) / LOG_RANGE: 0 for p = 0, 1 for p = 1."""

    factor: Array  # [n, K]  places in what is passed; -1: the factor is 1
    log: Array  # [n]  bool

    def forward(self, passed: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The values [n], and the backward function: the derivative by what is passed, from that by the values."""
        factors = np.append(passed, 1.0)[self.factor]
        product = factors.prod(axis=1)

        def back(d_values: Array) -> Array:
            d_product = np.where(self.log, d_values / (LOG_RANGE * (FLOOR + product)), d_values)
            n = len(passed) + 1  # the last is that of factors of 1
            d_passed = np.zeros(n)
            for k in range(self.factor.shape[1]):
                others = np.delete(factors, k, axis=1).prod(axis=1)
                d_passed += np.bincount(self.factor[:, k] % n, d_product * others, n)
            return d_passed[:-1]

        return np.where(self.log, np.log1p(product / FLOOR) / LOG_RANGE, product), back


NO_PRODUCTS = Products(np.empty((0, 1), np.int64), np.empty(0, np.bool_))


class FeatureValues(NamedTuple):
    """The values that features of an upper layer may have."""

    layers: tuple[str, ...]  # the lower layers that are read
    products: Products
    constants: Array  # values that do not come from below, the last of them 1

    def forward(self, passed: Sequence[Array]) -> tuple[Array, Callable[[Array], list[Array]]]:
        """All values, from the probabilities that each of the layers passes, and the backward function: the derivatives
        by these, from those by all values."""
        if not passed:
            return self.constants, lambda _: []
        bounds = np.cumsum([len(each) for each in passed])
        n, n_products = int(bounds[-1]), len(self.products.log)
        products, products_back = np.empty(0), None
        if n_products:
            products, products_back = self.products.forward(np.concatenate(passed))

        def back(d_values: Array) -> list[Array]:
            d_passed = d_values[:n]
            if products_back is not None:
                d_passed = d_passed + products_back(d_values[n : n + n_products])
            return np.split(d_passed, bounds[:-1])

        return np.concatenate([*passed, products, self.constants]), back


NOTHING_BELOW = FeatureValues((), NO_PRODUCTS, np.ones(1))
