"""What training will take, measured on a sample that has all labels."""

import pytest

from labelwright import CRF, LatentCRF, Perceptron
from labelwright.cli import main, train_reports
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.search import estimate as module
from labelwright.search.estimate import estimate

CORPUS = builtin_corpus(40, random_state=6, columns=["word", "pos", "chunk"])


@pytest.mark.parametrize("model", [CRF(n_jobs=1), Perceptron(n_jobs=1), LatentCRF(2, n_jobs=1)])
def test_states_and_arcs_are_those_of_the_whole_data(model, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 50)
    expected = estimate(model, CORPUS)
    labels = len(CORPUS.values("chunk")) * getattr(model, "n_latent", 1)
    assert expected[:3] == (CORPUS.n_tokens, labels, labels**2)
    assert expected.seconds >= 0
    assert not hasattr(model, "training_")  # it was not trained itself
    assert estimate(model, CORPUS.X, CORPUS.y)[:3] == expected[:3]


def test_training_says_so_where_it_takes_minutes(tmp_path, monkeypatch, capsys):
    write_columns(CORPUS, tmp_path / "train.txt")
    arguments = [
        "train",
        str(tmp_path / "train.txt"),
        "-o",
        str(tmp_path / "m"),
        "--iterations",
        "2",
    ]
    assert main([*arguments, "--threads", "1"]) == 0
    assert "training: " not in capsys.readouterr().err
    monkeypatch.setattr(module, "MUCH", 1)
    monkeypatch.setattr(train_reports, "MINUTE", 0.0)
    assert main([*arguments, "--threads", "1"]) == 0
    line = capsys.readouterr().err.splitlines()[0]
    states = len(CORPUS.values("chunk"))
    assert line.startswith(
        f"training: {CORPUS.n_tokens:,} tokens, {states} states, {states**2} arcs; about "
    )
    assert line.endswith("for 2 iterations")
    assert main([*arguments, "--threads", "1", "-q"]) == 0
    assert capsys.readouterr().err == ""
