"""labelwright errors, and eval --errors."""

import json

import pytest

from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    corpus = builtin_corpus(70, random_state=3, columns=["word", "pos", "chunk"])
    write_columns(corpus.take(slice(0, 30)), folder / "train.txt")
    write_columns(corpus.take(slice(30, 70)), folder / "test.txt")
    train = [
        "train",
        str(folder / "train.txt"),
        "-q",
        "--columns",
        "word,pos,chunk",
        "--threads",
        "1",
    ]
    assert main([*train, "-o", str(folder / "a.crf"), "--iterations", "8"]) == 0
    assert (
        main(
            [
                "tag",
                str(folder / "a.crf"),
                str(folder / "test.txt"),
                "-o",
                str(folder / "tagged.txt"),
            ]
        )
        == 0
    )
    return folder


def test_errors_of_a_model(folder, capsys):
    assert main(["errors", str(folder / "a.crf"), str(folder / "test.txt"), "--top", "3"]) == 0
    text = capsys.readouterr().out
    for part in (
        "kind of error",
        "confused types",
        "missed most often",
        "with an unseen token",
        "examples (10 of",
    ):
        assert part in text
    assert "[" in text[text.index("examples") :]


def test_a_file_of_predictions_has_the_same_errors(folder, capsys):
    files = str(folder / "test.txt"), str(folder / "tagged.txt")
    assert main(["errors", *files, "--json", "--train", str(folder / "train.txt")]) == 0
    of_file = json.loads(capsys.readouterr().out)
    assert main(["errors", str(folder / "a.crf"), files[0], "--json"]) == 0
    of_model = json.loads(capsys.readouterr().out)
    assert of_file["kinds"] == of_model["kinds"]
    assert of_file["vocabulary"] == of_model["vocabulary"]
    assert of_file["errors"][0]["gold"]["probability"] is None
    assert 0 < of_model["errors"][0]["gold"]["probability"] < 1


def test_eval_shows_errors_too(folder, capsys):
    files = str(folder / "a.crf"), str(folder / "test.txt")
    assert main(["eval", *files, "--errors"]) == 0
    assert "kind of error" in capsys.readouterr().out
    assert main(["eval", *files, "--errors", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["errors"]["total"]["correct"] == facts["chunks"]["correct"]


def test_a_page_of_chosen_errors(folder, tmp_path, capsys):
    target = tmp_path / "errors.html"
    files = str(folder / "a.crf"), str(folder / "test.txt")
    assert main(["errors", *files, "--kind", "boundary", "--html", str(target)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "open it in a browser" in told.err
    text = target.read_text(encoding="utf-8")
    assert '<article data-kind="boundary"' in text
    assert '<article data-kind="missed"' not in text


def test_data_of_crfsuite_have_no_words_but_errors(tmp_path, capsys):
    (tmp_path / "train.txt").write_text("B-A\tw=a\nO\tw=b\n\nB-B\tw=c\nO\tw=b\n\n" * 3)
    (tmp_path / "test.txt").write_text("B-B\tw=a\nO\tw=b\n\n")
    train = [
        "train",
        str(tmp_path / "train.txt"),
        "-o",
        str(tmp_path / "m"),
        "--format",
        "crfsuite",
        "-q",
    ]
    assert main([*train, "--iterations", "3", "--threads", "1"]) == 0
    assert main(["errors", str(tmp_path / "m"), str(tmp_path / "test.txt")]) == 0
    text = capsys.readouterr().out
    assert "B -> A" in text
    assert "tokens 0 to 0: B  0." in text


def test_partial_matches_confusion_and_documents(run, tmp_path):
    mark = "-DOCSTART- O\n\n"
    gold, tagged = tmp_path / "gold.txt", tmp_path / "tagged.txt"
    gold.write_text(
        f"{mark}Ada B-PER\nLovelace I-PER\nran O\n\n{mark}Rome B-LOC\n\n", encoding="utf-8"
    )
    tagged.write_text(
        f"{mark}Ada B-PER\nLovelace O\nran O\n\n{mark}Rome B-PER\n\n", encoding="utf-8"
    )
    code, out, err = run("eval", gold, tagged, "--partial", "--confusion", "--documents")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["partial", "75.00", "75.00", "75.00", "1", "0", "1", "0", "0"] in lines
    assert ["PER", "1"] in lines
    assert ["2", "0.00", "0.00", "0.00", "0.00", "1", "1"] in lines
    facts = json.loads(
        run("eval", gold, tagged, "--partial", "--confusion", "--documents", "--json")[1]
    )
    assert facts["partial"]["type"]["correct"] == 1
    assert facts["confusion"] == {
        "types": ["LOC", "PER"],
        "counts": [[0, 1, 0], [0, 1, 0], [0, 0, 0]],
    }
    assert [document["n_tokens"] for document in facts["documents"]] == [3, 1]
    bare = tmp_path / "bare.txt"
    bare.write_text("Ada B-PER\n", encoding="utf-8")
    code, out, err = run("eval", bare, bare, "--documents")
    assert (code, out) == (2, "")
    assert "--documents: the test file marks none" in err
