"""labelwright train --continue: trained models that learn from further sentences."""

from pathlib import Path

import numpy as np
import pytest

import labelwright
from labelwright.corpus import builtin_corpus, read_columns, write_columns

QUICK = ["--columns", "word,pos,chunk", "-q"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old.txt and more.txt, which has a label of its own, and more.bioes, the same in another
    scheme."""
    folder = tmp_path_factory.mktemp("further")
    corpus = builtin_corpus(30, random_state=3, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 20)), folder / "old.txt")
    write_columns(corpus.take(slice(20, 30)), folder / "more.txt")
    text = (folder / "more.txt").read_text()
    (folder / "more.txt").write_text(text + "tomorrow NN B-TIME\n\n")
    write_columns(
        read_columns(folder / "more.txt", names="word,pos,chunk").with_scheme("bioes"),
        folder / "more.bioes",
    )
    return folder


def trained(run, files: Path, model: str, *options: object) -> Path:
    if not (files / model).exists():
        assert run(
            "train", files / "old.txt", "-o", files / model, "--model", model, *QUICK, *options
        ) == (0, "", "")
    return files / model


@pytest.mark.parametrize("name", ["crf", "latent-crf", "perceptron", "latent-perceptron", "memory"])
def test_a_model_learns_further_and_keeps_its_settings(
    run, files: Path, tmp_path: Path, name: str
) -> None:
    quick = [] if name == "memory" else ["--iterations", 4, "--template", "words"]
    model = trained(run, files, name, *quick)
    arguments = [
        "train",
        files / "more.txt",
        "-o",
        tmp_path / "m",
        "--continue",
        model,
        "--dev",
        files / "more.txt",
    ]
    code, out, err = run(*arguments)
    assert (code, out) == (0, "")
    assert "B-TIME)" in err
    assert "11 further sentences" in err
    assert " -> " in err
    old, new = labelwright.load(model), labelwright.load(tmp_path / "m")
    assert set(new.classes_) > {*old.classes_, "B-TIME"}
    assert new.get_params() == old.get_params()
    assert new.training_["sentences"] == 31
    assert new.training_["columns"] == ["word", "pos", "chunk"]
    twin = old.partial_fit(read_columns(files / "more.txt", names="word,pos,chunk"))
    more = read_columns(files / "more.txt", names="word,pos,chunk").select(["word", "pos"])
    assert new.predict(more) == twin.predict(more)


def test_a_model_may_be_replaced_and_speak_no_word(run, files: Path, tmp_path: Path) -> None:
    model = trained(run, files, "crf", "--iterations", 4, "--template", "words")
    (tmp_path / "m").write_bytes(model.read_bytes())
    for sentences in (31, 42):
        assert run(
            "train", files / "more.txt", "-o", tmp_path / "m", "--continue", tmp_path / "m", "-q"
        ) == (0, "", "")
        assert labelwright.load(tmp_path / "m").training_["sentences"] == sentences


def test_a_cascade_learns_further_in_every_layer(
    run, folder: Path, files: Path, tmp_path: Path
) -> None:
    code, _, err = run(
        "train", files / "more.txt", "-o", tmp_path / "m", "--continue", folder / "two"
    )
    assert code == 0
    assert "B-TIME)" in err
    assert "B-TIME" in labelwright.load(tmp_path / "m").layers_["chunk"].classes_


def test_labels_in_part_and_weights_are_those_of_the_new_sentences(
    run, files: Path, tmp_path: Path
) -> None:
    model = trained(run, files, "crf", "--iterations", 4, "--template", "words")
    lines = (files / "more.txt").read_text().splitlines()
    rows = [line.split() for line in lines]
    (tmp_path / "w.txt").write_text(
        "".join(f"{r[0]} {r[1]} 3 {r[2]}\n" if r else "\n" for r in rows)
    )
    names = ["--columns", "word,pos,often,chunk", "--sentence-weight", "often"]
    assert run(
        "train", tmp_path / "w.txt", "-o", tmp_path / "m", "--continue", model, *names, "-q"
    ) == (0, "", "")
    corpus = read_columns(files / "more.txt", names="word,pos,chunk")
    twin = labelwright.load(model).partial_fit(corpus, sample_weight=[3.0] * 11)
    np.testing.assert_allclose(labelwright.load(tmp_path / "m").weights_, twin.weights_, atol=1e-5)
    (tmp_path / "p.txt").write_text(
        "".join(f"{r[0]} {r[1]} {r[2] if i else '_'}\n" if r else "\n" for i, r in enumerate(rows))
    )
    code, _, err = run("train", tmp_path / "p.txt", "-o", tmp_path / "m", "--continue", model)
    assert code == 0
    assert "1 token unknown" in err


def test_labels_in_another_scheme_are_rewritten(run, files: Path, tmp_path: Path) -> None:
    model = trained(run, files, "crf", "--iterations", 4, "--template", "words")
    options = ["--continue", model, "--scheme", "iob2", "-q"]
    assert run("train", files / "more.bioes", "-o", tmp_path / "m", *options) == (0, "", "")
    assert "E-NP" not in labelwright.load(tmp_path / "m").classes_
