"""Labels that a form of the answers of `tag` cannot hold: one clear line, and no false file."""

import pytest

import labelwright
from labelwright.corpus import partial_labels, table
from labelwright.corpus.labels import check_written
from labelwright.errors import CorpusError

REASONS = {
    "B-a\tb": "holds a tab",
    "B-a\nb": "holds a newline",
    "B-\ud800": "holds half of a surrogate pair",
}


@pytest.fixture
def model_with(tmp_path, monkeypatch):
    """Makes a model file with this label for every word; `fit` would refuse some."""

    def make(label, X):
        for module in (table, partial_labels):
            monkeypatch.setattr(module, "check_labels", lambda *_: None)
        labelwright.CRF(max_iter=1).fit(X, [[label for _ in sentence] for sentence in X]).save(
            tmp_path / "m"
        )
        return tmp_path / "m"

    return make


def refused(result, *reasons):
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert all(reason in err for reason in reasons), err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("label", "reason"), REASONS.items())
def test_labels_that_no_file_can_hold_are_refused_with_their_model(
    label, reason, run, model_with, tmp_path
):
    (tmp_path / "words.txt").write_text("a\nb\n")
    words = model_with(label, [["a", "b"]])
    for options in ([], ["--nbest", 1], ["--text", "--to", "brat"], ["--text"]):
        refused(
            run("tag", words, tmp_path / "words.txt", *options), "so no file can hold it", reason
        )


@pytest.mark.parametrize(("label", "reason"), REASONS.items())
def test_writers_refuse_such_labels_too(label, reason):
    with pytest.raises(CorpusError, match=f"x: cannot write the label .* it {reason}"):
        check_written(["O", label], "x")


def test_a_label_with_a_space_needs_tabs(run, model_with, tmp_path):
    model = model_with("B-Job Title", [["a", "b"]])
    for text, refuses in (("a x\nb x\n", True), ("a\tx\nb\tx\n", False)):
        (tmp_path / "x.txt").write_text(text)
        result = run("tag", model, tmp_path / "x.txt", "--columns", "word,pos", "--nbest", 1)
        if refuses:
            refused(
                result,
                "cannot write the label",
                "holds a space, but spaces separate the columns of the file; use tabs",
            )
        else:
            assert result[1].splitlines()[1:] == ["a\tx\tB-Job Title", "b\tx\tB-Job Title", ""]
    (tmp_path / "x.txt").write_text("a b")
    out = run("tag", model, tmp_path / "x.txt", "--text", "--to", "columns", "--nbest", 1)[1]
    assert out.splitlines()[1:] == ["a\tB-Job Title", "b\tB-Job Title", ""]
