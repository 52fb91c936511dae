"""labelwright inspect of taggers without latent states: use on data, plots, refusals."""

import json
from pathlib import Path

import pytest

import labelwright
from labelwright.corpus import read_columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A folder with a model of each kind."""
    corpus = read_columns(data / "train.txt", names="word,pos,chunk")
    target = tmp_path_factory.mktemp("inspect")
    (target / "test.txt").write_bytes((data / "test.txt").read_bytes())
    labelwright.CRF(template="words", max_iter=8, n_jobs=1).fit(corpus).save(target / "crf")
    labelwright.CRF(template="words", prune_labels=0.99, max_iter=8, n_jobs=1).fit(corpus).save(
        target / "pruned"
    )
    labelwright.SemiCRF(template="words", max_iter=8, n_jobs=1).fit(corpus).save(target / "semi")
    labelwright.Perceptron(template="words", max_iter=3, n_jobs=1).fit(corpus).save(
        target / "perceptron"
    )
    return target


@pytest.mark.parametrize("name", ["crf", "pruned", "semi", "perceptron"])
def test_data_show_the_use_of_labels(run, folder: Path, name: str) -> None:
    code, out, err = run("inspect", folder / name, "--data", folder / "test.txt", "--top", 2)
    assert (code, err) == (0, "")
    how = "counted on the best labellings" if name == "perceptron" else "expected counts"
    assert f"\nlabels by their share of the tokens of the data ({how})\n  B-NP " in out
    assert "latent" not in out
    for part in ("words      ", "before it  ", "after it   ", "(outside) "):
        assert part in out
    facts = json.loads(run("inspect", folder / name, "--data", folder / "test.txt", "--json")[1])
    assert {view["label"] for view in facts["use"]} == set(facts["labels"])
    assert "use" not in json.loads(run("inspect", folder / name, "--json")[1])


@pytest.mark.parametrize("name", ["crf", "pruned", "semi"])
def test_a_plot_of_labellings(run, folder: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "mass.svg"
    code, out, err = run(
        "inspect", folder / name, "--data", folder / "test.txt", "--plot", target, "--paths", 7
    )
    assert (code, err) == (0, f"{target}: drawn\n")
    assert "\nprobability of the n best labellings together, mean over the sentences\n" in out
    assert "latent" not in out
    assert target.read_text().startswith("<?xml")


def test_top_0_shows_no_features(run, folder: Path) -> None:
    code, out, _ = run("inspect", folder / "crf", "--top", 0)
    assert code == 0
    assert "strongest" not in out


def test_training_and_inspect_count_the_same_weights(run, data: Path, tmp_path: Path) -> None:
    for kind in ("semi-crf", "perceptron", "crf"):
        options = ["--model", kind, "--columns", "word,pos,chunk", "--iterations", 3]
        _, _, err = run("train", data / "train.txt", "-o", tmp_path / "m", *options)
        trained = err.partition("m: ")[2].partition(" weights")[0]
        assert f"  weights     {trained} (" in run("inspect", tmp_path / "m")[1]


@pytest.mark.parametrize("name", ["best_iteration", "best_dev"])
def test_half_a_record_of_development_data_is_refused(run, tmp_path: Path, name: str) -> None:
    model = labelwright.Perceptron(max_iter=2, random_state=0).fit([["a", "b"]], [["A", "B"]])
    model.training_[name] = 1
    model.save(tmp_path / "half.model")
    code, out, err = run("inspect", tmp_path / "half.model")
    missing = "best_dev" if name == "best_iteration" else "best_iteration"
    assert (code, out) == (2, "")
    assert f"header: training: '{missing}' is missing" in err
