"""Label schemes on the command line: each writes its own letters."""

from pathlib import Path

import pytest

import labelwright

LETTERS = {"bilou": "BILOU", "bmes": "BMESO", "bioes": "BIESO"}


def letters(text: str) -> set[str]:
    return {line.split()[-1][0] for line in text.splitlines() if line.strip()}


@pytest.mark.parametrize("scheme", LETTERS)
def test_every_command_writes_the_letters_of_the_scheme(
    run, data: Path, tmp_path: Path, scheme: str
) -> None:
    converted, back = tmp_path / "train.txt", tmp_path / "back.txt"
    assert run("convert", data / "train.txt", converted, "--to-scheme", scheme, "-q") == (0, "", "")
    assert letters(converted.read_text()) == set(LETTERS[scheme])
    assert run("convert", converted, back, "--to-scheme", "iob2", "-q") == (0, "", "")
    assert back.read_bytes() == (data / "train.txt").read_bytes()
    model = tmp_path / "model"
    options = [
        "--columns",
        "word,pos,chunk",
        "--scheme",
        scheme,
        "--constraints",
        "scheme",
        "--iterations",
        10,
        "-q",
    ]
    assert run("train", data / "train.txt", "-o", model, *options)[0] == 0
    assert labelwright.load(model).scheme_ == scheme
    assert letters(run("tag", model, data / "words.txt", "--constraints", "scheme")[1]) <= set(
        LETTERS[scheme]
    )


def test_labels_of_bilou_may_be_constrained_by_the_name_of_bioes(
    run, data: Path, tmp_path: Path
) -> None:
    corpus = labelwright.read_columns(data / "train.txt", scheme="bilou")
    for tagger in (
        labelwright.CRF(max_iter=3, n_jobs=1),
        labelwright.SemiCRF(max_iter=3, n_jobs=1),
    ):
        model = tagger.fit(corpus)
        assert model.scheme_ == "bilou"
        for name in ("bioes", "bilou"):
            found = model.decode(corpus.take(slice(0, 3)), constraints=name)
            assert [d.labels for d in found] == [
                d.labels for d in model.decode(corpus.take(slice(0, 3)), constraints="scheme")
            ]
        with pytest.raises(
            labelwright.LabelwrightError, match="the labels follow bilou, got 'iob2'"
        ):
            model.decode(corpus, constraints="iob2")
