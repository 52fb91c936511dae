"""What training shows where there is no terminal: notebooks and logs."""

import pytest

from labelwright import CRF, Cascade, Perceptron
from labelwright.learn import monitor

X, Y = [["a", "b"], ["b"]], [["A", "B"], ["B"]]


def test_verbose_writes_lines(capsys, monkeypatch):
    monkeypatch.setattr(monitor, "SECONDS_PER_LINE", 0.0)
    CRF(max_iter=3, tol=0.0, n_jobs=1, verbose=1).fit(X, Y, dev=(X, Y))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[:2] for line in lines] == [["training", f"{i}/3"] for i in range(4)]
    assert "  dev " in lines[-1]
    assert all("loss" in line and line.endswith(" s") for line in lines)


@pytest.mark.parametrize(
    "model",
    [Perceptron(max_iter=3, n_jobs=1), Cascade([("a", CRF(max_iter=3)), ("b", CRF(max_iter=3))])],
)
def test_the_last_line_is_always_written(model, capsys):
    y = {"a": Y, "b": Y} if isinstance(model, Cascade) else Y
    model.fit(X, y)
    assert capsys.readouterr().err == ""
    model.set_params(verbose=1).fit(X, y)
    assert "  3/3  " in capsys.readouterr().err
