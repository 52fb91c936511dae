"""From encoded sentences to the scores of their lattices, in float64."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.features.extract import Encoded
from labelwright.features.incidence import Incidence
from labelwright.kernels import scoring
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.assembly import Assembly, tables_for
from labelwright.scoring.parameters import Cells
from labelwright.scoring.trained import Trained

Array = NDArray[Any]
BLOCK_TOKENS = 4096  # sentences of one block,
BLOCK_NUMBERS = 1 << 23  # and the scores of all their nodes and arcs
FEW_FEATURES = 1 << 12  # of keys that are not worth a second thread


class Rows:
    """Scores of the tokens (or segments) of encoded sentences, row by row; the rows of keys are computed once."""

    def __init__(self, trained: Trained, build: Any, data: Encoded, workers: Workers):
        self.offsets = data.offsets
        slices = trained.parameters.slices
        self._incidences = tables_for(data.incidences, build.row_width)
        self._shape = {name: (build.cells[name], build.row_width[name]) for name in self._incidences}
        self._weights = {name: trained.weights[slices[name]] for name in self._incidences}  # sums are in float64
        self._tables = {
            name: _score_keys(x, *self._shape[name], self._weights[name], workers)
            for name, x in self._incidences.items()
        }

    def of(self, name: str, begin: int, end: int) -> Array:
        """The rows begin:end of one kind of features [rows, width]."""
        x, (cells, width) = self._incidences[name], self._shape[name]
        rows = np.zeros((end - begin, width))
        features = x.token_ptr, x.token_feature, _as_float64(x.token_value)
        table, weights = self._tables[name], self._weights[name]
        scoring.score_tokens(weights, cells.ptr, cells.column, x.keys, table, *features, begin, end, rows)
        return rows

    @property
    def names(self) -> list[str]:
        return list(self._incidences)


def _as_float64(numbers: Array) -> Array:
    """Numbers in float64, copied only where they are not."""
    return numbers.astype(np.float64, copy=False)


def _score_keys(incidence: Incidence, cells: Cells, width: int, weights: Array, workers: Workers) -> Array:
    """Rows of scores of all keys [K, width]."""
    none, table = np.empty(0, np.float64), np.empty((incidence.n_keys, width))
    if not incidence.n_keys:
        return table
    arrays = cells.ptr, cells.column, incidence.key_ptr, incidence.key_feature, none, table
    small = len(incidence.key_feature) <= FEW_FEATURES
    pieces = [(0, incidence.n_keys)] if small else even_ranges(incidence.key_ptr, 4 * workers.n)
    workers.run(scoring.score_keys, [(weights, *arrays, a, b) for a, b in pieces])
    return table


class LatticeScores:
    """The scores of the lattices of encoded sentences, block by block."""

    def __init__(self, trained: Trained, assembly: Assembly, data: Encoded, workers: Workers):
        self.assembly, self.offsets = assembly, data.offsets
        self._rows = Rows(trained, assembly, data, workers)
        self._plain = assembly.plain(trained.weights)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of sentences that are scored together; they depend on the data alone."""
        limit = max(1, min(BLOCK_TOKENS, BLOCK_NUMBERS // (1 + self.assembly.token_size)))
        if self.offsets[-1] <= limit:
            return [(0, len(self.offsets) - 1)]
        return sentence_ranges(self.offsets, limit)

    def of(self, begin: int, end: int) -> tuple[Array, Array]:
        """Scores of the nodes [T, Q] and of the arcs [T or 1, A] of the sentences begin:end."""
        offsets = self.offsets[begin : end + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        rows = {name: self._rows.of(name, first, last) for name in self._rows.names}
        node = self.assembly.nodes(rows, self._plain, offsets)
        return node, self.assembly.arcs(rows, self._plain)


def bounds_of(offsets: Array) -> list[tuple[int, int]]:
    """First token and end of each sentence."""
    return list(pairwise((offsets - offsets[0]).tolist()))
