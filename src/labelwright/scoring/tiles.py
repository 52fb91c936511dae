"""States, pairs and triples of states laid out by their labels, as the perceptrons read them.

A *gram* is a label, a pair or a triple of labels; its *tile* are its states, pairs or triples of
states.  The weights of a feature and a gram lie side by side in the weight vector, and so does the
tile in a row of scores: a feature is scored by adding whole tiles, and a gold labelling needs only
the tiles of its grams. With two states each for x and y, a row of order 1 is

    x: 0 1    y: 2 3    x x: 00 01 10 11    x y: 02 03 12 13    y x: 20 21 30 31    y y: 22 23 32 33

Where every label has one state, tiles are single numbers, and one step of the best path takes them
all at once.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError
from labelwright.features.incidence import NO_VALUES, Incidence
from labelwright.kernels import perceptron as kernels
from labelwright.scoring.parameters import REACH, Parameters
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
PAD = 4  # the parts of a row are multiples of this
# places of weights and grams are four bytes each, to save space in the processor's caches
MOST = 2**31 - 1
NO_CELLS = np.empty(0, np.bool_)
DENSE = 8  # a feature with weights for a share of 1 / DENSE of all grams gets a number for each
PLAIN = {"transitions": 1, "triples": 2}


class Features(NamedTuple):
    """The features of each token, numbered by first appearance, and where the weights of each
    feature lie: a tile for each of its grams, one after the other.

    Where every label has one state, features of many grams have a weight for every gram (dense):
    there `weights_of` has -1 - the place where the weights begin.  Dense features have the first
    numbers and come first at each token, and their weights lie in the order of their numbers: those
    of feature f begin at (f - first) * width + place."""

    ptr: Array  # [3, T+1]
    feature: Array  # features of token t on n labels before it: feature[ptr[n, t]:ptr[n, t+1]]
    value: Array  # their values; empty when all are one
    # [F, 4]  place of the first gram (a single gram itself), number of grams, first weight, 0
    weights_of: Array
    gram: Array  # [E]  grams of each feature, sorted
    # [3, 3]  of n labels before: the first feature, the first that is not dense, the first place
    dense: Array
    learns: Array  # [W]  False where a dense feature has no such gram: its weight stays 0


class Tiles(NamedTuple):
    """The layout of a row.  Of order 1 states are nodes and pairs are arcs; of order 2 pairs and
    triples.

    Arc (r, m, u) of a step leads from node source + r * M + m to node target + m * U + u, and its
    score stands at + (r * M + m) * U + u.  Of order 1, R and U are the states of the first and the
    second label, and M is 1; of order 2 they are those of three labels."""

    order: int
    merged: bool  # every label has one state
    first: Array  # [L+1]  states of each label
    label_of: Array  # [S]
    gram_begin: Array  # [3]  number of the first label, pair, triple of labels
    place: Array  # [grams]  first number of a tile in a row; -1: it is forbidden
    size: Array  # [grams]
    row_begin: Array  # [4]  where states, pairs, triples begin in a row
    width: Array  # [3]
    featured: Array  # [3]  whether they have features, or plain weights alone
    fence: Array  # [row]  0, or minus infinity
    plain_cell: Array  # [row]  weight of the plain transition; -1: none
    plain_begin: int
    row_of_plain: Array  # [plain transitions]  the inverse
    start: Array  # [S]  0, or minus infinity
    end: Array  # [S]
    steps: Array  # [K, 6]  source, target, at, R, M, U
    state: Array  # [Q]  the state of each node: of order 2 the second of its pair,
    before: Array  # [Q]  and the first of its pair
    middle: Array  # [Q]  m of a node (m, u)
    repeat: int  # U of all steps, where they have the same and M is more than 1; else 0


class TileLayout:
    """The tiles of a model, the features of its training data, and the layout of its weights during
    training: in the order in which features first appear, so that those of a token lie together;
    features of many grams are dense."""

    def __init__(
        self,
        incidences: dict[str, Incidence],
        n_tokens: int,
        space: StateSpace,
        parameters: Parameters,
    ):
        self.parts = parameters.slices
        L, S, order = space.n_labels, space.n_states, space.graph.order
        merged = not space.latent
        tuples, grams = _rows_of_grams(space)
        widths = [-(-len(m) // PAD) * PAD for m in tuples]
        row_begin = offsets_from(widths)
        gram_begin = np.array([0, L, L + L**2])
        for n, (place, _) in enumerate(grams):
            place[place >= 0] += row_begin[n]
        place, size = (np.concatenate([pair[i] for pair in grams]) for i in (0, 1))
        self.features, at = self._features(
            incidences, n_tokens, space, parameters, widths, gram_begin, place
        )
        # Plain transitions after all features: pairs, then triples.
        self.plain_begin, self.length = (
            at,
            at + sum(self._size(name) for name in PLAIN if name in self.parts),
        )
        plain_cell = np.full(int(row_begin[-1]), -1)
        for name, n in PLAIN.items():
            if name in self.parts:
                cell = at + tuples[n]
                if n == 1 and parameters.has_weight is not None:
                    cell = np.where(parameters.has_weight[tuples[n]], cell, -1)
                plain_cell[row_begin[n] : row_begin[n] + len(tuples[n])] = cell
                at += self._size(name)
        row_of_plain = np.zeros(self.length - self.plain_begin, np.int64)
        used = np.flatnonzero(plain_cell >= 0)
        row_of_plain[plain_cell[used] - self.plain_begin] = used
        fence = np.zeros(len(plain_cell), np.float32)
        fence[row_begin[1] : row_begin[1] + len(tuples[1])] = _fence(
            space.arc.reshape(-1)[tuples[1]]
        )
        state = np.arange(S) if order == 1 else tuples[1] % S
        before = state if order == 1 else tuples[1] // S
        steps = _steps(space, grams, row_begin)
        same = order == 2 and bool((steps[:, 5] == steps[0, 5]).all())
        middle = (
            before * 0
            if order == 1
            else before - (0 if merged else space.first[space.label_of[before]])
        )
        self.tiles = Tiles(
            order=order,
            merged=merged,
            first=space.first.astype(np.int64),
            label_of=space.label_of.astype(np.int64),
            gram_begin=gram_begin,
            place=place,
            size=size,
            row_begin=row_begin,
            width=np.array(widths),
            featured=np.array([name in parameters.cells for name in REACH]),
            fence=fence,
            plain_cell=plain_cell,
            plain_begin=self.plain_begin,
            row_of_plain=row_of_plain,
            start=_fence(space.start),
            end=_fence(space.end),
            steps=steps,
            state=state.astype(np.int32),
            before=before.astype(np.int32),
            middle=middle.astype(np.int32),
            repeat=int(steps[0, 5]) if same else 0,
        )
        n_weights = max(part.stop for part in self.parts.values())
        learns = self.laid_out(np.ones(n_weights, np.uint8)).view(np.bool_)
        self.features = self.features._replace(learns=learns)

    def _features(
        self,
        incidences: dict[str, Incidence],
        n_tokens: int,
        space: StateSpace,
        parameters: Parameters,
        widths: list[int],
        gram_begin: Array,
        place: Array,
    ) -> tuple[Features, int]:
        """The features of all tokens, where the weights of each begin, and where the last of these
        end."""
        incidences = {name: incidences[name] for name in parameters.cells}
        lengths = {
            name: int(np.diff(x.key_ptr)[x.keys].sum() + len(x.token_feature))
            for name, x in incidences.items()
        }
        ptr = np.zeros((3, n_tokens + 1), np.int64)
        feature = np.empty(sum(lengths.values()), np.int32)
        valued = any(len(x.token_value) for x in incidences.values())
        value = np.empty(len(feature), np.float32) if valued else NO_VALUES
        weights_of, grams = [np.empty((0, 4), np.int32)], [np.empty(0, np.int32)]
        self.copies: dict[str, tuple[Array, Array, Array, Array]] = {}  # what `lay_out` needs
        begin = n_features = n_entries = at = 0
        dense_of = np.zeros((3, 3), np.int64)
        for n, name in enumerate(REACH):
            if name not in incidences:
                continue
            x = incidences[name]._replace(
                token_value=incidences[name].token_value.astype(np.float32)
            )
            end = kernels.flatten(*x, begin, ptr[n], feature, value)
            cell_ptr, column = parameters.cells[name]
            gram, opens = _grams_of_cells(column, n, cell_ptr, space)
            gram += np.int32(gram_begin[n])
            gram_ptr = offsets_from(opens)[cell_ptr]
            dense = (np.diff(gram_ptr) * DENSE >= widths[n]) & (not space.latent)
            number = np.full(len(cell_ptr) - 1, -1, np.int32)
            kernels.renumber(feature[begin:end], number, dense, n_features)
            begin = end
            dense_of[n] = n_features, n_features + int(dense.sum()), at
            by_appearance = np.empty(len(number), np.int64)
            by_appearance[number - n_features] = np.arange(len(number))
            n_grams, n_cells = np.diff(gram_ptr)[by_appearance], np.diff(cell_ptr)[by_appearance]
            dense = dense[by_appearance]
            sizes = np.where(dense, widths[n], n_cells)
            first = n_entries + np.cumsum(n_grams) - n_grams
            cells = at + np.cumsum(sizes) - sizes
            if n_entries + len(gram) > MOST or at + int(sizes.sum()) > MOST:
                raise OptionError(
                    f"more than {MOST:,} weights; use a larger min_count or fewer latent states"
                )
            sorted_gram = np.empty(int(n_grams.sum()), np.int32)
            entry = gram[opens]
            where = (first - n_entries)[number - n_features]
            kernels.lay_out(gram_ptr, entry, where, place, entry, sorted_gram)
            grams.append(sorted_gram)
            only = np.flatnonzero(n_grams == 1)
            first[only] = sorted_gram[first[only] - n_entries]
            begins = np.where(dense, -1 - cells, cells)
            weights_of.append(
                np.stack([first, n_grams, begins, first * 0], axis=1).astype(np.int32)
            )
            within = place - (place[gram_begin[n]] if len(place) > gram_begin[n] else 0)
            self.copies[name] = cell_ptr, gram, begins[number - n_features], within
            n_features += len(number)
            n_entries += len(sorted_gram)
            at += int(sizes.sum())
        features = Features(
            ptr,
            feature,
            value,
            np.concatenate(weights_of),
            np.concatenate(grams),
            dense_of,
            NO_CELLS,
        )
        for row in ptr:
            kernels.sort_by_size(row, feature, value, features.weights_of)
        return features, at

    def _size(self, name: str) -> int:
        return int(self.parts[name].stop - self.parts[name].start)

    def laid_out(self, weights: Array) -> Array:
        """The weights of a model in this layout."""
        laid = np.zeros(self.length, weights.dtype)
        for name, copy in self.copies.items():
            kernels.lay_out(*copy, weights[self.parts[name]], laid)
        laid[self.plain_begin :] = weights[self._plain()]
        return laid

    def taken_back(self, laid: Array) -> Array:
        """The weights of the model."""
        weights = np.empty(max(part.stop for part in self.parts.values()), laid.dtype)
        for name, copy in self.copies.items():
            kernels.take_back(*copy, weights[self.parts[name]], laid)
        weights[self._plain()] = laid[self.plain_begin :]
        return weights

    def _plain(self) -> slice:
        """The weights of plain transitions, which come last."""
        return slice(min(self.parts[name].start for name in PLAIN if name in self.parts), None)


def _fence(permitted: Array) -> Array:
    return np.where(permitted, 0, -np.inf).astype(np.float32)


def _rows_of_grams(space: StateSpace) -> tuple[list[Array], list[tuple[Array, Array]]]:
    """For states, pairs and triples: which state, pair r * S + s or triple (r * S + s) * S + u each
    number of a row is, and place and size of the tile of each gram; grams that are forbidden have
    no place (-1)."""
    L, S, order = space.n_labels, space.n_states, space.graph.order
    first = space.first.astype(np.int64)
    if not space.latent:  # tiles of one number each, forbidden or not
        rows = [np.arange(S), np.arange(S**2), np.arange(S**3 if order == 2 else 0)]
        return rows, [(m.copy(), np.ones_like(m)) for m in rows]
    permitted = space.arc[np.ix_(first[:-1], first[:-1])]
    two = np.argwhere(permitted).tolist()
    three = (
        [(a, b, c) for a, b in two for c in np.flatnonzero(permitted[b]).tolist()]
        if order == 2
        else []
    )
    rows, grams = [], []
    every: list[list[Any]] = [[(y,) for y in range(L)], two, three]
    for n, labels in enumerate(every):
        size = np.ones(1, np.int64)
        for _ in range(n + 1 if labels else 0):
            size = (size[:, None] * np.diff(first)).reshape(-1)
        size = size if labels else size[:0]
        place = np.full(len(size), -1)
        parts = [np.empty(0, np.int64)]
        at = 0
        for gram in labels:
            code, tuples = 0, np.zeros(1, np.int64)
            for y in gram:
                code = code * L + y
                tuples = (tuples[:, None] * S + np.arange(first[y], first[y + 1])).reshape(-1)
            place[code] = at
            parts.append(tuples)
            at += len(tuples)
        rows.append(np.concatenate(parts))
        grams.append((place, size))
    return rows, grams


def _steps(space: StateSpace, grams: list[tuple[Array, Array]], row_begin: Array) -> Array:
    """From tile to tile [K, 6] (see Tiles); places of nodes are counted from the first node."""
    L, S, order = space.n_labels, space.n_states, space.graph.order
    if not space.latent:
        return np.array([[0, 0, row_begin[order], S, 1 if order == 1 else S, S]])
    size, node, arc = grams[0][1], grams[order - 1][0] - row_begin[order - 1], grams[order][0]
    codes = np.flatnonzero(arc >= 0)
    # [order + 1, K]  the last label first
    ends = size[codes // L ** np.arange(order + 1)[:, None] % L]
    middle = ends[1] if order == 2 else np.ones_like(codes)
    return np.stack(
        [node[codes // L], node[codes % L**order], arc[codes], ends[order], middle, ends[0]], axis=1
    )


def _grams_of_cells(
    column: Array, reach: int, ptr: Array, space: StateSpace
) -> tuple[Array, Array]:
    """The gram of every cell, and where a tile begins."""
    gram, rest, factor = np.zeros(len(column), np.int32), column, 1
    for _ in range(reach + 1):
        gram += space.label_of[rest % space.n_states] * np.int32(factor)
        rest, factor = rest // space.n_states, factor * space.n_labels
    opens = np.ones(len(gram), np.bool_)
    if space.latent:
        opens[1:] = gram[1:] != gram[:-1]
        opens[ptr[:-1][ptr[:-1] < len(gram)]] = True
    return gram, opens
