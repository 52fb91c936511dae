"""Lattices as JSON lines: one object for each, with its arcs and, where it is known, the true path.

    {"arcs": [[0, 1, "word", {"text": "a"}], [0, 2, "word", ["ab", "known"]], [1, 2, "word", {}]], "path": [1]}

Further fields, as the text, are left alone; `n_nodes` is needed only where no arc leads to the last node.
"""

from typing import Any, NamedTuple

from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.corpus.token_records import JsonLines, parse_json_lines
from labelwright.errors import CorpusError
from labelwright.structures.feature_lattice import FeatureLattice


class LatticeData(NamedTuple):
    """The lattices of a file, and their true paths: what `LatticeCRF.fit` takes."""

    X: list[FeatureLattice]  #: the lattices
    y: list[list[Any]]  #: the true path of each: numbers of arcs, or [source, target, label] of each arc


def read_lattices(path: Source, paths: bool = True) -> LatticeData:
    """Read a file of JSON lines with `arcs` and `path`.

    path : a path, plain or compressed, or a binary file object
    paths : whether every lattice must have a path; without, those that are missing are empty

    >>> import io
    >>> X, y = read_lattices(io.BytesIO(b'{"arcs": [[0, 1, "word", ["a"]]], "path": [0]}'))
    >>> X, y
    ([FeatureLattice(1 arcs, 2 nodes)], [[0]])
    """
    return lattices_in(parse_json_lines(read_bytes(path), name_of(path), first_line_of(path)), paths)


def lattices_in(lines: JsonLines, paths: bool) -> LatticeData:
    """The lattices of JSON lines."""
    if not lines.objects:
        raise CorpusError(f"{lines.source}: no lattices, expected one JSON object per line")
    data = LatticeData([], [])
    for n, item in enumerate(lines.objects):
        try:
            data.X.append(_lattice(item))
            data.y.append(_path(item, paths))
        except CorpusError as error:
            raise CorpusError(f"{lines.place(n)}: {error}") from None
    return data


def _lattice(item: dict[str, Any]) -> FeatureLattice:
    arcs = item.get("arcs")
    if not isinstance(arcs, list):
        raise CorpusError('expected a list of arcs, as in "arcs": [[0, 1, "word", ["a"]]]')
    return FeatureLattice(arcs, item.get("n_nodes"))


def _path(item: dict[str, Any], required: bool) -> list[Any]:
    path = item.get("path", None if required else [])
    if not isinstance(path, list):
        raise CorpusError('expected the true path, numbers of arcs, as in "path": [0, 2]')
    return path
