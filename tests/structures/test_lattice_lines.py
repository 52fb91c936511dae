"""Files of lattices: what is read, and where a mistake stands."""

import gzip

import pytest

from labelwright import read_lattices
from labelwright.errors import CorpusError

LINE = (
    '{"arcs": [[0, 1, "w", {"a": 1.5}], [1, 2, "w", ["b"]]], "path": [0, [1, 2, "w"]], "text": '
    '"ab"}\n'
)


def test_a_file_of_lattices(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((LINE + "\n" + LINE).encode()))
    X, y = read_lattices(tmp_path / "a.jsonl.gz")
    assert [len(lattice) for lattice in X] == [2, 2]
    assert X[0].path(y[0]) == [0, 1]
    assert X[0].arcs[0].features == {"a": 1.5}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "a.jsonl: no lattices, expected one JSON object per line"),
        (LINE + "{}", 'a.jsonl:2: expected a list of arcs, as in "arcs"'),
        (LINE + '{"arcs": [[1, 0, "w"]]}', "a.jsonl:2: arc 0 leads from node 1 to node 0"),
        (
            LINE + f'{{"arcs": [[0, {1 << 63}, "w"]]}}',
            "a.jsonl:2: arc 0: expected nodes below 2,147,483,647",
        ),
        (
            '{"arcs": [[0, 1, "w"]]}',
            'a.jsonl:1: expected the true path, numbers of arcs, as in "path"',
        ),
        (
            '{"arcs": [[0, 1, "w"]], "n_nodes": "x", "path": []}',
            "a.jsonl:1: n_nodes: expected a whole number above 1",
        ),
        ("[1]", "a.jsonl:1: expected one JSON object per line, got an array"),
    ],
)
def test_mistakes_say_where_they_are(tmp_path, text, error):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(CorpusError, match=error):
        read_lattices(tmp_path / "a.jsonl")


def test_paths_may_be_missing(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"arcs": [[0, 1, "w"]]}')
    assert read_lattices(tmp_path / "a.jsonl", paths=False).y == [[]]
