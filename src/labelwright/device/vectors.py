"""The optimiser's vectors on a device: what learn.lbfgs asks of them."""

from math import prod

import numpy as np

from labelwright.corpus.offsets import offsets_from
from labelwright.device.bags import Bags
from labelwright.device.place import Array, Place, Tensor, mapped, torch
from labelwright.learn.lbfgs import Vectors
from labelwright.learn.variables import Variables

BLOCK = 1 << 20  # numbers of each vector that are made float64 at a time


class DeviceVariables(Variables):
    """Variables with tensors."""

    bags: Bags  # the weights of each group

    def _spread(self, scaled: Tensor) -> Tensor:
        v, u = scaled.split([len(self.group), len(scaled) - len(self.group)])
        return v + torch.cat([u, u.new_zeros(1)]).index_select(0, self.group)

    def _sums(self, of_weights: Tensor) -> Tensor:
        return self.bags.sums(of_weights[:, None])[:, 0]


class DeviceVectors(Vectors):
    """Vectors as tensors."""

    def __init__(self, place: Place):
        self.place, self.where, self.sign = place, torch.where, torch.sign

    def of(self, array: Array) -> Tensor:
        return self.place.tensor(array)

    def numpy(self, vector: Tensor) -> Array:
        return np.asarray(vector.cpu().numpy())

    def variables(self, variables: Variables) -> Variables:
        made = DeviceVariables(*map(self.of, variables))
        if len(variables.group):
            order = np.argsort(variables.group, kind="stable")
            sizes = np.bincount(variables.group, minlength=variables.n_groups)[: variables.n_groups]
            made.bags = mapped(Bags.of(offsets_from(sizes), order[: sizes.sum()]), self.of)
        return made

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        try:
            return like.new_zeros(shape)
        except torch.cuda.OutOfMemoryError:
            raise self.place.too_small("steps of L-BFGS", prod(shape) * like.itemsize) from None

    def cast(self, vector: Tensor, itemsize: int) -> Tensor:
        return vector.to(torch.float32 if itemsize == 4 else torch.float64)

    def sum(self, vector: Tensor) -> float:
        return float(vector.sum(dtype=self.place.wide))

    def dot(self, x: Tensor, y: Tensor) -> float:
        return float((x.to(self.place.wide) * y).sum())

    def dots(self, basis: Tensor, rows: list[int]) -> Array:
        parts = (part.to(self.place.wide) for part in basis.split(BLOCK, 1))
        return np.asarray(sum(part[rows] @ part.T for part in parts).cpu().double().numpy())

    def combine(self, basis: Tensor, coefficients: Array, out: Tensor) -> None:
        torch.mv(basis.T, self.place.tensor(coefficients, basis.dtype), out=out)

    def advance(self, x: Tensor, direction: Tensor, step: float, out: Tensor) -> None:
        torch.add(x, direction, alpha=step, out=out)

    def differences(
        self, x: Tensor, old_x: Tensor, g: Tensor, old_g: Tensor, s: Tensor, y: Tensor
    ) -> None:
        torch.sub(x, old_x, out=s)
        torch.sub(g, old_g, out=y)

    def add_ridge(
        self, x: Tensor, l2: Tensor, gradient: Tensor, direction: Tensor
    ) -> tuple[float, float]:
        ridge = l2 * x
        gradient += ridge
        both = torch.stack(
            [
                (ridge * x).sum(dtype=self.place.wide),
                (gradient * direction).sum(dtype=self.place.wide),
            ]
        )
        squares, slope = both.tolist()
        return squares, slope
