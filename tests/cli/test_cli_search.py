"""labelwright train --search with settings to try."""

import signal

import pytest
from killed_runs import without_times

import labelwright
from labelwright import modelfile
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.search.trials import TrialFile

FAST = ["--columns", "word,pos,chunk", "--threads", "1", "--iterations", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    corpus = builtin_corpus(50, random_state=3, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 35)), folder / "train.txt")
    write_columns(corpus.take(slice(35, 50)), folder / "dev.txt")
    return folder


def train(folder, *options):
    return main(["train", *map(str, options), str(folder / "train.txt")])


def test_a_search_by_development_data(folder, tmp_path, capsys):
    options = ["--search", "l2=0.1,50", "min-count=1,2", "--dev", folder / "dev.txt", *FAST]
    assert train(folder, "-o", tmp_path / "m", *options) == 0
    warning, *lines = capsys.readouterr().err.splitlines()
    assert warning.startswith(
        f"labelwright: {folder / 'dev.txt'}: labels that the training data lack"
    )
    assert [line.startswith("step 1/1 ") for line in lines[:4]] == [True] * 4
    assert "left)" in lines[0]
    assert lines[4].split() == ["l2", "min_count", "n=35"]
    assert "the best of 4 settings" in lines[-1]
    model = labelwright.load(tmp_path / "m")
    assert {"l2": model.l2, "min_count": model.min_count} == model.training_["search"]["best"]
    assert model.training_["best_dev"] > 0
    assert not (tmp_path / "m.search").exists()


def test_an_interrupted_search_goes_on_to_other_settings(folder, tmp_path, monkeypatch, capsys):
    """The checkpoint of a run with the best settings so far is none of the run to resume."""
    options = ["--search", "l2=50,0.1", "--checkpoint-every", "0", "-q", *FAST]
    assert train(folder, "-o", tmp_path / "whole", *options) == 0
    add = TrialFile.add

    def interrupted(self, trial):
        add(self, trial)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrialFile, "add", interrupted)
        assert train(folder, "-o", tmp_path / "m", *options) == 130
    assert labelwright.load(tmp_path / "m").l2 == 50
    assert "holds the model so far; the same command resumes" in capsys.readouterr().err
    assert train(folder, "-o", tmp_path / "m", *options, "--resume") == 0
    ours, theirs = (modelfile.read(tmp_path / name) for name in ("m", "whole"))
    assert without_times(ours[1]) == without_times(theirs[1])
    assert {k: v.tobytes() for k, v in ours[0].items()} == {
        k: v.tobytes() for k, v in theirs[0].items()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "whole"]


def test_every_tagger_can_be_searched(folder, tmp_path, capsys):
    for name, grid, more in (
        ("perceptron", "averaging=avg,none", FAST),
        ("semi-crf", "l2=1,10", FAST),
        ("memory", "k=1,3", FAST[:4]),
    ):
        assert (
            train(folder, "-o", tmp_path / name, "--model", name, "--search", grid, "-q", *more)
            == 0
        )
        assert labelwright.load(tmp_path / name).training_["search"]["settings"] == 2
    assert capsys.readouterr().err == ""


def test_a_layer_of_a_cascade_is_searched(folder, tmp_path):
    recipe = tmp_path / "c.toml"
    recipe.write_text(
        'model = "cascade"\ncolumns = "word,pos,chunk"\npassing = "best"\n'
        'search = {"chunk.l2" = [0.1, 10.0]}\n'
        '[[layers]]\nname = "pos"\nmax_iter = 2\n[[layers]]\nname = "chunk"\nmax_iter = 2\n'
    )
    assert train(folder, "-o", tmp_path / "m", "--recipe", recipe, "-q", "--threads", 1) == 0
    assert set(labelwright.load(tmp_path / "m").training_["search"]["best"]) == {"chunk__l2"}


def test_a_setting_that_means_nothing_beside_the_others(folder, tmp_path, capsys):
    options = ["-o", tmp_path / "m", *FAST, "--model", "perceptron", "--search", "variance=1,2"]
    assert train(folder, *options, "update=perceptron,arow", "-q") == 0


def test_a_setting_may_be_left_out(folder, tmp_path):
    assert (
        train(folder, "-o", tmp_path / "m", *FAST, "--search=constraints=scheme,none", "l2=1", "-q")
        == 0
    )
    assert labelwright.load(tmp_path / "m").training_["search"]["settings"] == 2


LAYERS = '[[layers]]\nname = "pos"\nmax_iter = 2\n[[layers]]\nname = "chunk"\nmax_iter = 2\n'


@pytest.mark.parametrize("name", ["chunk.l2", "chunk__l2"])
def test_both_spellings_of_a_setting_of_a_layer(folder, tmp_path, capsys, name):
    recipe = tmp_path / "c.toml"
    recipe.write_text(f'model = "cascade"\ncolumns = "word,pos,chunk"\npassing = "best"\n{LAYERS}')
    options = ["-o", tmp_path / "m", "--recipe", recipe, "--threads", "1"]
    assert train(folder, *options, "--search", f"{name}=1,10") == 0
    err = capsys.readouterr().err
    assert "  chunk.l2 10.0  (about" in err
    assert "\nchunk.l2   " in err
    assert "__" not in err


def test_folds_a_learning_curve_and_a_plot(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    options = [
        *FAST,
        "--folds",
        "2",
        "--learning-curve",
        "--search",
        "l2=1,10",
        "--plot",
        tmp_path / "p.svg",
    ]
    assert train(folder, "-o", tmp_path / "m", *options) == 0
    err = capsys.readouterr().err
    assert "2 folds: " in err
    assert err.count("learning curve ") == 4
    assert "<svg" in (tmp_path / "p.svg").read_text()
    record = labelwright.load(tmp_path / "m").training_["folds"]
    assert record["mean"] == pytest.approx(sum(record["scores"]) / 2)
