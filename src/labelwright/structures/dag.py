"""Directed acyclic graphs with scores on their arcs: sums over all paths, best paths and samples.

A path runs from a source (a node without arcs in) to a sink (a node without arcs out); parallel
arcs are allowed, nodes without arcs do not count, and a score of minus infinity forbids an arc.

A *labelled* graph has labels on its arcs: every path is a labelling, and every arc reads at most
one token.

    chain lattice   begin -> (0, q) -> (1, q) -> ...: the arc into (t, q) reads token t with the
                    label of q
    segment graph   a segment of d tokens is d arcs through nodes of its own; the last one has its
                    score
    proposals       as decode.csi lays them out: a node is what the tokens before have chosen
    pruned labels   a node for each candidate of a token

    >>> triangle = dag([0, 0, 1], [1, 2, 2])
    >>> scores = np.log([1.0, 1.0, 3.0])  # 0 -> 2 has weight 1, 0 -> 1 -> 2 has weight 3
    >>> sums(triangle, scores).arcs.tolist()
    [0.75, 0.25, 0.75]
"""

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.errors import OptionError
from labelwright.kernels import dag as kernels
from labelwright.structures.lattice import Lattice

Array = NDArray[Any]
MOST = 100_000  # of best paths and samples, as in decode.checks
MOST_NODES = (1 << 31) - 1
HUGE = float(np.finfo(np.float64).max)


class Dag(NamedTuple):
    """Arcs in topological order: all arcs into a node come before all arcs out of it."""

    source: Array  #: [A] int32  the arc leads from this node
    target: Array  #: [A] int32  to this one
    n_nodes: int  #: Q, the number of nodes
    sources: Array  #: int32  nodes without arcs in, where paths begin
    sinks: Array  #: int32  nodes without arcs out, where they end


class Sums(NamedTuple):
    """Sums over all paths; minus infinity and zeros where there is no path."""

    log_z: float  #: log of the sum over all paths of exp(score)
    arcs: Array  #: [A]  P(arc)


# A probability below this counts as 0 where others are divided by it.
TINY = 1e-290
TAKEN = 2  # where the counts of a pool have the number of whole paths


class ArcPool(NamedTuple):
    """All suffixes of paths made so far, and the queue of those still open."""

    priority: Array  # [P]  score of the best path with this suffix
    arc: Array  # [P]  its first arc
    parent: Array  # [P]  the suffix after that arc
    heap: Array  # [P]
    counts: Array  # [4]


def doubled(pool: Any) -> Any:
    """The same pool of a search with room for twice as many: all its arrays but those after the
    heap."""
    larger = [np.concatenate([array, np.empty_like(array)]) for array in pool]
    kept = pool[pool._fields.index("heap") + 1 :]
    return type(pool)(*larger[: len(pool) - len(kept)], *kept)


# -- graphs ----------------------------------------------------------------------------------------


def dag(source: Any, target: Any, n_nodes: int | None = None) -> Dag:
    """A graph from its arcs, which must be in topological order (see `ordered`).

    source, target : [A]  the nodes that each arc leads from and to
    n_nodes : Q; by default one more than the largest number
    """
    source, target, n_nodes = _checked_arcs(source, target, n_nodes)
    number = np.arange(len(source))
    last_in, first_out = np.full(n_nodes, -1), np.full(n_nodes, len(source))
    np.maximum.at(last_in, target, number)
    np.minimum.at(first_out, source, number)
    late = np.flatnonzero(last_in > first_out)
    if len(late) or (source == target).any():
        ordered(source, target, n_nodes)  # raises an error for a cycle
        v = late[0]
        raise OptionError(
            f"arcs: arc {last_in[v]} leads into node {v} but comes after arc {first_out[v]}, which "
            "leads out of it; put the arcs into topological order (`ordered` sorts them)"
        )
    goes_in, goes_out = last_in >= 0, first_out < len(source)
    sources, sinks = np.flatnonzero(goes_out & ~goes_in), np.flatnonzero(goes_in & ~goes_out)
    return Dag(source, target, n_nodes, sources.astype(np.int32), sinks.astype(np.int32))


def ordered(source: Any, target: Any, n_nodes: int | None = None) -> Array:
    """The numbers of the arcs [A] in topological order; of those that may come next, the first
    comes first.

    source, target : [A]  the nodes that each arc leads from and to
    n_nodes : Q; by default one more than the largest number

    >>> ordered([1, 0], [2, 1]).tolist()
    [1, 0]
    """
    source, target, n_nodes = _checked_arcs(source, target, n_nodes)
    # arcs into each node that are still to come
    waiting = np.bincount(target, minlength=n_nodes).tolist()
    leaving: list[list[int]] = [[] for _ in range(n_nodes)]
    for arc, node in enumerate(source.tolist()):
        leaving[node].append(arc)
    into = target.tolist()
    ready = [arc for node in range(n_nodes) if waiting[node] == 0 for arc in leaving[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        arc = heapq.heappop(ready)
        order.append(arc)
        waiting[into[arc]] -= 1
        if waiting[into[arc]] == 0:
            for following in leaving[into[arc]]:
                heapq.heappush(ready, following)
    if len(order) < len(into):
        raise OptionError(
            f"arcs: there is a cycle, {_cycle(source, target, waiting)}; expected a graph without "
            "cycles"
        )
    return np.array(order, np.int64)


def _cycle(source: Array, target: Array, waiting: list[int]) -> str:
    """The nodes of one cycle, from its smallest on; every node that still waits has a node before
    it that waits."""
    before = {
        v: u
        for u, v in zip(source.tolist(), target.tolist(), strict=True)
        if waiting[u] > 0 and waiting[v] > 0
    }
    node = next(iter(before))
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = before[node]
    nodes = list(seen)[seen[node] :][::-1]
    first = nodes.index(min(nodes))
    return " -> ".join(map(str, nodes[first:] + nodes[:first] + [nodes[first]]))


def _checked_arcs(source: Any, target: Any, n_nodes: int | None) -> tuple[Array, Array, int]:
    """Both ends of the arcs as int32, and the number of nodes."""
    ends = []
    for name, nodes_given in {"source": source, "target": target}.items():
        nodes = _array(name, nodes_given)
        if nodes.ndim != 1 or (nodes.dtype.kind not in "iu" and len(nodes)):
            raise OptionError(
                f"{name}: expected a list of whole numbers, got {nodes.dtype} of shape "
                f"{nodes.shape}"
            )
        ends.append(nodes)
    if len(ends[0]) != len(ends[1]):
        raise OptionError(f"arcs: {len(ends[0])} sources, but {len(ends[1])} targets")
    most = max((int(nodes.max()) for nodes in ends if len(nodes)), default=-1)
    n_nodes = most + 1 if n_nodes is None else _whole("n_nodes", n_nodes, 0, MOST_NODES)
    if n_nodes > MOST_NODES:
        raise OptionError(
            f"arcs: expected nodes below {MOST_NODES:,}, got {most}; number them from 0 on"
        )
    for name, nodes in zip(("source", "target"), ends, strict=True):
        wrong = np.flatnonzero((nodes < 0) | (nodes >= n_nodes))
        if len(wrong):
            raise OptionError(
                (
                    f"{name}: arc {wrong[0]}: expected a node of 0 to {n_nodes - 1}, got "
                    f"{nodes[wrong[0]]}"
                )
                if n_nodes > 0
                else f"{name}: arc {wrong[0]}: there are no nodes, got {nodes[wrong[0]]}"
            )
    return ends[0].astype(np.int32), ends[1].astype(np.int32), n_nodes


def _array(name: str, values: Any) -> Array:
    """The values as an array; an error for rows of unequal length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise OptionError(
            f"{name}: expected a list of numbers, got rows of unequal length"
        ) from None


def _checked(graph: Dag, numbers: Any, name: str = "scores") -> Array:
    """One number for each arc: finite, or as a score minus infinity, and no sum of them too large
    for a float."""
    array = _array(name, numbers)
    if array.dtype.kind not in "biuf":
        raise OptionError(
            f"{name}: expected numbers, one for each arc, got {array.dtype} of shape {array.shape}"
        )
    checked = np.ascontiguousarray(array, np.float64)
    if checked.shape != graph.source.shape:
        raise OptionError(
            f"{name}: expected {len(graph.source)} numbers, one for each arc, got shape "
            f"{checked.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(checked) | ((checked == -np.inf) & (name == "scores"))))
    if len(wrong):
        raise OptionError(
            f"{name}: arc {wrong[0]} has {checked[wrong[0]]}; expected a finite number"
        )
    # differences of gains are taken as well
    _check_sums(graph, checked, name, 8.0 if name == "gains" else 1.0)
    return checked


def _check_sums(graph: Dag, numbers: Array, name: str, times: float) -> None:
    """Refuse numbers whose sizes add up, on a path, to more than a float holds."""
    sizes = np.where(np.isfinite(numbers), np.abs(numbers), -np.inf)
    if sizes.max(initial=0.0) <= HUGE / times / max(graph.n_nodes, 1):
        return
    phi = np.empty(graph.n_nodes)
    with np.errstate(over="ignore"):
        kernels.best_scores(*graph[:2], sizes * times, graph.sources, phi)
    if not phi.max() <= HUGE:
        raise OptionError(
            f"{name}: they add up to more than a float holds, got sizes up to {sizes.max():.3g}; "
            "scale them down (minus infinity forbids an arc)"
        )


# -- answers ---------------------------------------------------------------------------------------


def sums(graph: Dag, scores: Any) -> Sums:
    """log Z and the probability of every arc.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    """
    return sums_of(graph, _checked(graph, scores))


def sums_of(graph: Dag, scores: Array) -> Sums:
    """The same for scores that need no check."""
    arcs = np.empty(len(graph.source))
    phi, alpha, beta = np.empty((3, graph.n_nodes))
    log_z = kernels.posteriors(
        *graph[:2], scores, graph.sources, graph.sinks, phi, alpha, beta, arcs
    )
    return Sums(float(log_z), arcs)


def best_path(graph: Dag, scores: Any) -> tuple[Array, float]:
    """The arcs of the best path and its score; no arcs and minus infinity where there is none.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    """
    return best_path_of(graph, _checked(graph, scores))


def best_path_of(graph: Dag, scores: Array) -> tuple[Array, float]:
    """The same for scores that need no check."""
    back, path = np.empty((2, graph.n_nodes), np.int32)
    phi = np.empty(graph.n_nodes)
    n, score = kernels.viterbi(*graph[:2], scores, graph.sources, graph.sinks, phi, back, path)
    return path[len(path) - n :].copy(), float(score)


def best_around(graph: Dag, scores: Array) -> tuple[Array, Array]:
    """The score of the best path from a source to each node [Q], and from there to a sink; minus
    infinity: none."""
    upto, behind = np.empty((2, graph.n_nodes))
    kernels.best_scores(*graph[:2], scores, graph.sources, upto)
    backwards = (
        np.ascontiguousarray(array[::-1]) for array in (graph.target, graph.source, scores)
    )
    kernels.best_scores(*backwards, graph.sinks, behind)
    return upto, behind


def best_paths(graph: Dag, scores: Any, n: int) -> tuple[list[Array], Array]:
    """Up to n best paths (the arcs of each) in order, and their scores.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    n : how many
    """
    scores, n = _checked(graph, scores), _whole("n", n, 1, MOST)
    ptr, entering = _grouped(graph.target, graph.sinks, graph.n_nodes)
    is_source = _marked(graph.sources, graph.n_nodes)
    phi = np.empty(graph.n_nodes)
    kernels.best_scores(*graph[:2], scores, graph.sources, phi)
    arc, parent, heap = np.empty((3, 64 + 4 * graph.n_nodes), np.int32)
    pool = ArcPool(np.empty(len(heap)), arc, parent, heap, np.zeros(4, np.int64))
    paths, bounds, best_scores = (
        np.empty(4 * graph.n_nodes, np.int32),
        np.zeros(n + 1, np.int64),
        np.empty(n),
    )
    through = graph.source, scores, is_source, phi, ptr, entering
    while kernels.best_paths(*through, pool, paths, best_scores, bounds):
        pool, paths = doubled(pool), np.concatenate([paths, paths])
    taken = int(pool.counts[TAKEN])
    return np.split(paths[: bounds[taken]], bounds[1:taken]) if taken else [], best_scores[:taken]


def covariance(graph: Dag, scores: Any, gains: Any) -> tuple[float, Array]:
    """E[G] and Cov(G, 1_e) [A], where G is the sum of the gains [A] over the arcs of a path.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    gains : of the arcs [A]
    """
    gains, arcs = _checked(graph, gains, "gains"), _possible(graph, scores)
    into, out, before, after = np.empty((4, graph.n_nodes))
    covariances = np.empty(len(arcs))
    mean = kernels.covariances(
        *graph[:2], graph.sinks, arcs, gains, into, out, before, after, covariances
    )
    return float(mean), covariances


def entropy(graph: Dag, scores: Any) -> float:
    """The entropy of all paths in nats.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    """
    arcs = _possible(graph, scores)
    out = np.bincount(graph.source, arcs)
    first = out[graph.sources[graph.sources < len(out)]]
    first = first[first > 0]
    likely = arcs > TINY
    p = arcs[likely]
    of_first = float((first * np.log(first)).sum())
    of_arcs = float((p * np.log(p / out[graph.source[likely]])).sum())
    return max(0.0, -of_first - of_arcs)


def sample(graph: Dag, scores: Any, n: int, random_state: Any = None) -> list[Array]:
    """n paths (the arcs of each), drawn independently, each with its probability.

    graph : as `dag` makes it
    scores : of the arcs [A], in log space
    n : how many
    random_state : a seed, or a generator of NumPy
    """
    arcs, n = _possible(graph, scores), _whole("n", n, 1, MOST)
    ptr, leaving = _grouped(graph.source, graph.sources, graph.n_nodes)
    longest = np.empty(graph.n_nodes)
    kernels.best_scores(*graph[:2], np.ones(len(arcs)), graph.sources, longest)
    uniform = np.random.default_rng(random_state).random((n, int(longest[graph.sinks].max())))
    paths, lengths = np.empty(uniform.shape, np.int32), np.empty(n, np.int64)
    kernels.draw(
        graph.target,
        _marked(graph.sinks, graph.n_nodes),
        arcs,
        ptr,
        leaving,
        uniform,
        paths,
        lengths,
    )
    if not lengths.all():
        raise OptionError(
            "scores: too far apart to draw a path by its probability; scale them down"
        )
    return [path[:length].copy() for path, length in zip(paths, lengths.tolist(), strict=True)]


def _possible(graph: Dag, scores: Any) -> Array:
    """P(arc) [A] of a graph that must have a path."""
    sums_of_paths = sums(graph, scores)
    if sums_of_paths.log_z == -np.inf:
        raise OptionError("scores: every path is forbidden, expected at least one")
    return sums_of_paths.arcs


def _grouped(ends: Array, edge: Array, n_nodes: int) -> tuple[Array, Array]:
    """The arcs that have each node as this end (ptr [Q+2], arcs); the last group has those of all
    nodes `edge`."""
    arcs = np.argsort(ends, kind="stable")
    last = np.flatnonzero(_marked(edge, n_nodes)[ends])
    ptr = np.searchsorted(ends[arcs], np.arange(n_nodes + 1))
    return np.append(ptr, len(arcs) + len(last)).astype(np.int64), np.concatenate(
        [arcs, last]
    ).astype(np.int32)


def _marked(nodes: Array, n_nodes: int) -> Array:
    """Which nodes are among these [Q]."""
    marked = np.zeros(n_nodes, np.bool_)
    marked[nodes] = True
    return marked


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if (
        not isinstance(value, int | np.integer)
        or isinstance(value, bool)
        or not least <= value <= most
    ):
        raise OptionError(f"{name}: expected a whole number, {least} to {most:,}, got {value!r}")
    return int(value)


# -- chains ----------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """The lattice of a sequence as a graph; every arc but those to the end leads to a node of the
    lattice."""

    dag: Dag  #: the graph whose paths are those of the lattice
    scores: Array  #: [A]  of the arcs
    token: Array  #: [A]  the token t that the arc leads to; T at the end
    node: Array  #: [A]  its node q; -1 at the end
    arc: Array  #: [A]  number of the arc in the lattice; -1 where there is none


def from_chain(lattice: Lattice) -> Chain:
    """The graph whose paths are those of a lattice: begin -> (0, q) -> .. -> (T-1, q) -> end.

    The score of a node is on the arcs that lead to it.  A node of order 2 that no arc of the
    lattice leads to, or out of, is joined to the begin or to the end by a forbidden arc.

    lattice : the scores of one sentence
    """
    node, arc, graph = lattice
    T, Q = node.shape
    r, s = graph.ends  # nodes of each arc of the lattice
    every, t = np.arange(Q), np.arange(T)[:, None]
    begin, end = 0, 1 + T * Q
    place = 1 + t * Q + every  # [T, Q]  the node of (t, q)
    lost, stuck = np.setdiff1d(every, s), np.setdiff1d(every, r)
    scores = (arc[1:] if len(arc) > 1 else arc) + node[1:, s]
    parts: list[tuple[Any, ...]] = [  # source, target, score, token, node, arc
        (begin, place[0], node[0], 0, every, -1),
        (begin, place[1:, lost], -np.inf, t[1:], lost, -1),
        (place[:-1, r], place[1:, s], scores, t[1:], s, np.arange(len(s))),
        (place[:-1, stuck], end, -np.inf, T, -1, -1),
        (place[-1], end, 0.0, T, -1, -1),
    ]
    columns = zip(*(np.broadcast_arrays(*part) for part in parts), strict=True)
    source, target, score, token, to, number = (
        np.concatenate([x.reshape(-1) for x in column]) for column in columns
    )
    ends = (np.array([node], np.int32) for node in (begin, end))
    return Chain(
        Dag(source.astype(np.int32), target.astype(np.int32), T * Q + 2, *ends),
        score,
        token,
        to,
        number,
    )


def chain_covariance(lattice: Lattice, on_nodes: Array, on_arcs: Array) -> tuple[Array, Array]:
    """Covariance of every node [T, Q] and arc [T, A] of a lattice with the gain of a path, the sum
    of on_nodes [T, Q] and on_arcs [T, A] along it; for scores of any size (batches go through
    timeorder.covariances)."""
    chain = from_chain(lattice)
    (T, Q), A = on_nodes.shape, on_arcs.shape[1]
    to_node, along = np.flatnonzero(chain.node >= 0), np.flatnonzero(chain.arc >= 0)
    place, arc = (chain.token * Q + chain.node)[to_node], (chain.token * A + chain.arc)[along]
    gains = np.zeros(len(chain.scores))
    gains[to_node] = on_nodes.reshape(-1)[place]
    gains[along] += on_arcs.reshape(-1)[arc]
    _, cov = covariance(chain.dag, chain.scores, gains)
    return np.bincount(place, cov[to_node], T * Q).reshape(T, Q), np.bincount(
        arc, cov[along], T * A
    ).reshape(T, A)


# -- labels of arcs --------------------------------------------------------------------------------


class Reading(NamedTuple):
    """The labels that arcs give to tokens, as runs of tokens with one label: a path is a labelling.

    Along a path, tokens are read from left to right."""

    arc: Array  # [R]  rising
    begin: Array  # [R]  the first token of a run
    end: Array  # [R]  the token after its last
    label: Array  # [R]  code

    def codes(self, path: Array) -> Array:
        """The labels [T] of a path."""
        first = np.searchsorted(self.arc, path)
        run = ranges(first, np.searchsorted(self.arc, path, side="right") - first)
        return np.repeat(self.label[run], self.end[run] - self.begin[run])

    def sums(self, table: Array, n_arcs: int) -> Array:
        """The sum of a table [T, L] over what each arc reads [A]."""
        values = table[self.begin, self.label].astype(np.float64)
        long = np.flatnonzero(self.end - self.begin > 1)
        if len(long):
            before = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table, axis=0)])
            values[long] = (
                before[self.end[long], self.label[long]]
                - before[self.begin[long], self.label[long]]
            )
        return np.bincount(self.arc, values, n_arcs)

    def permitted(self, permitted: Array, n_arcs: int) -> Array:
        """Which arcs [A] leave every token one of its permitted labels [T, L]."""
        return np.asarray(self.sums(~permitted, n_arcs) == 0)

    def marginals(self, p: Array, T: int, L: int) -> Array:
        """P(label at t) [T, L] from P(arc) [A]."""
        p = p[self.arc]
        opened: Array = np.bincount(self.begin * L + self.label, p, (T + 1) * L).reshape(T + 1, L)
        if (self.end - self.begin > 1).any():
            opened -= np.bincount(self.end * L + self.label, p, (T + 1) * L).reshape(T + 1, L)
            opened = np.cumsum(opened, axis=0)
        return np.clip(opened[:T], 0.0, 1.0)


def reading_of(arc: Array, first: Array, length: Array, labels: Array) -> Reading:
    """What arcs read that give their first, inner, last or (of one token) only token these labels
    [n, 4]."""
    begin, inner, end, only = labels.T
    last = first + length - 1
    runs = [
        (np.flatnonzero(length == 1), first, last + 1, only),
        (np.flatnonzero(length > 1), first, first + 1, begin),
        (np.flatnonzero(length > 2), first + 1, last, inner),
        (np.flatnonzero(length > 1), last, last + 1, end),
    ]
    return joined_reading([Reading(arc[on], *(values[on] for values in run)) for on, *run in runs])


def joined_reading(parts: Sequence[Reading]) -> Reading:
    """All runs, in the order of their arcs."""
    joined = Reading(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(joined.arc, kind="stable")
    return Reading(*(values[order] for values in joined))


# -- labelled graphs -------------------------------------------------------------------------------


class LabelledArcs(NamedTuple):
    """Arcs in topological order, those of a token together: first those that read nothing, then
    those that read it.

    All have finite scores."""

    source: Array  # [A]
    target: Array  # [A]
    score: Array  # [A]
    label: Array  # [A]  code of the label of the token that it reads; -1: none
    token: Array  # [A]  of an arc that reads none: the next one
    # [A]  the arc that it completes, of a graph whose arcs read several tokens; -1: none
    whole: Array

    def taken(self, which: Array | slice) -> "LabelledArcs":
        """Some of the arcs, in order."""
        return LabelledArcs(*(array[which] for array in self))

    @property
    def reading(self) -> Reading:
        """What they read."""
        arc = np.flatnonzero(self.label >= 0)
        return Reading(arc, self.token[arc], self.token[arc] + 1, self.label[arc])


class GraphSums(NamedTuple):
    """Sums over all paths of a graph."""

    log_z: float
    behind: Array  # [Q]  log of the summed weight of the paths from each node to the end
    arcs: Array  # [A]  P(arc)


class LabelledGraph(NamedTuple):
    """Arcs whose paths, from node 0 to one of the sinks, are labellings."""

    arcs: LabelledArcs
    n_nodes: int
    sinks: Array

    @property
    def dag(self) -> Dag:
        """The graph without its labels."""
        source, target, sinks = (nodes.astype(np.int32) for nodes in (*self.arcs[:2], self.sinks))
        return Dag(source, target, self.n_nodes, np.zeros(1, np.int32), sinks)

    def losses(self) -> tuple[Array, Array, float]:
        """How much worse the best path through each arc is than the best of all [A]; what each arc
        adds to the loss of a path [A]; and the score of the best."""
        source, target, score = self.arcs[:3]
        upto, behind = best_around(self.dag, score)
        best = float(upto[self.sinks].max(initial=-np.inf))
        if best == -np.inf:
            return np.full(len(score), np.inf), np.full(len(score), np.inf), best
        with np.errstate(invalid="ignore"):  # of arcs on no path
            onwards = score + behind[target]
            return best - (upto[source] + onwards), behind[source] - onwards, best

    def sums(self) -> GraphSums:
        """The sums over all paths."""
        graph, score = self.dag, self.arcs.score
        (best, alpha, beta), arcs = np.empty((3, self.n_nodes)), np.empty(len(score))
        log_z = kernels.posteriors_in_log_space(
            *graph[:2], score, graph.sources, graph.sinks, best, alpha, beta, arcs
        )
        reached = np.isfinite(best)
        behind = np.where(
            reached,
            beta + best[self.sinks].max(initial=-np.inf) - np.where(reached, best, 0.0),
            -np.inf,
        )
        return GraphSums(float(log_z), behind, arcs)

    def candidates(self, labels: Sequence[str], T: int) -> list[list[str]]:
        """The labels that each token may have."""
        rows: list[list[str]] = [[] for _ in range(T)]
        for token, label in np.unique(
            np.stack([self.arcs.token, self.arcs.label]), axis=1
        ).T.tolist():
            if label >= 0:
                rows[token].append(labels[label])
        return rows


def labelled_graph(
    graph: Dag, score: Array, label: Array, token: Array, whole: Array | None = None
) -> LabelledGraph:
    """The graph of arcs in any order, from node 0 on, without those that are forbidden."""
    whole = np.full(len(score), -1) if whole is None else whole
    arcs = LabelledArcs(
        graph.source.astype(np.int64), graph.target.astype(np.int64), score, label, token, whole
    )
    order = np.argsort(2 * token + (label >= 0), kind="stable")
    return LabelledGraph(
        arcs.taken(order[np.isfinite(score[order])]), graph.n_nodes, graph.sinks.astype(np.int64)
    )


def graph_of_lattice(lattice: Lattice) -> LabelledGraph:
    """The paths of a chain lattice, up to its last nodes."""
    chain, Q = from_chain(lattice), lattice.graph.n_nodes
    # without the arcs to the end; rows may be padded
    on = np.flatnonzero((chain.node >= 0) & (chain.node < Q))
    last = chain.dag.n_nodes - 1 - lattice.node.shape[1]
    graph = chain.dag._replace(
        source=chain.dag.source[on], target=chain.dag.target[on], sinks=last + np.arange(Q)
    )
    label = lattice.graph.label_of_node.astype(np.int64)[chain.node[on]]
    return labelled_graph(graph, chain.scores[on], label, chain.token[on])
