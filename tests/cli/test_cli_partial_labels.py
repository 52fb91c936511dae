"""Partial labels and weights on the command line."""

from pathlib import Path

import pytest
from command import refused

import labelwright

FULL = "John B-PER\nSmith I-PER\nsleeps O\n\nMary B-PER\nsees O\nParis B-LOC\n\n" * 3
PARTIAL = (
    "John 2 B-PER\nSmith 2 I-PER|B-LOC\nsleeps 2 _\n\nMary 1 B-PER\nsees 1 O\nParis 1 B-LOC\n\n" * 3
)
QUICK = ["--iterations", 5, "--columns", "word,n,ner"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "full.txt").write_text(FULL)
    (tmp_path / "partial.txt").write_text(PARTIAL)
    return tmp_path


def test_train_says_how_much_is_known(run, files: Path) -> None:
    status, _, err = run("train", files / "partial.txt", "-o", files / "m", *QUICK)
    assert status == 0
    assert err.startswith(
        f"{files / 'partial.txt'}: 12 tokens with a label, 3 tokens with a set, 3 tokens unknown\n"
    )
    assert sorted(labelwright.load(files / "m").classes_) == ["B-LOC", "B-PER", "I-PER", "O"]
    assert run("train", files / "partial.txt", "-o", files / "m", *QUICK, "-q") == (0, "", "")


@pytest.mark.parametrize("option", ["--sentence-weight", "--token-weight"])
def test_weights_in_a_column_are_no_feature(run, files: Path, option: str) -> None:
    weights = [2.0, 1.0] * 3 if option == "--sentence-weight" else [[2.0] * 3, [1.0] * 3] * 3
    status, *_ = run(
        "train",
        files / "partial.txt",
        "-o",
        files / "m",
        *QUICK,
        option,
        "n",
        "--dev",
        files / "full.txt",
    )
    model = labelwright.load(files / "m")
    assert status == 0
    assert model.reads().columns == ("word",)
    corpus = labelwright.read_columns(files / "partial.txt", names="word,n,ner").select(
        ["word", "ner"]
    )
    twin = labelwright.CRF(max_iter=5).fit(corpus, dev=model_dev(files), sample_weight=weights)
    assert twin.score(model_dev(files)) == model.score(model_dev(files))
    assert twin.weights_ == pytest.approx(model.weights_, abs=1e-5)


@pytest.mark.parametrize(
    "how", [["--folds", 2], ["--search", "l2=0.1,1"], ["--learning-curve"]], ids=str
)
def test_weights_go_with_the_parts_of_the_data(run, files: Path, how: list[object]) -> None:
    """Sentences of weight 0, whose labels are wrong, change nothing."""
    wrong = "John 0 O\nSmith 0 O\nsleeps 0 B-LOC\n\nMary 0 O\nsees 0 B-LOC\nParis 0 O\n\n" * 9
    right = FULL.replace(" ", " 1 ") * 3
    (files / "weighted.txt").write_text(right + wrong)
    model, dev = files / "m", [] if how[0] == "--folds" else ["--dev", files / "full.txt"]
    status, _, err = run(
        "train", files / "weighted.txt", "-o", model, *QUICK, "--sentence-weight", "n", *how, *dev
    )
    assert status == 0, err
    if how[0] == "--folds":
        assert "standard deviation" in err
        assert run("eval", model, files / "full.txt")[0] == 0
    else:
        assert "100.00" in err


def model_dev(files: Path) -> labelwright.Corpus:
    return labelwright.read_columns(files / "full.txt", names="word,ner")


def test_class_weights_come_back_from_the_model_file(run, files: Path) -> None:
    for given, kept in (("O=0.5,B-PER=2", {"O": 0.5, "B-PER": 2.0}), ("balanced", "balanced")):
        assert (
            run("train", files / "full.txt", "-o", files / "m", "-q", "--class-weight", given)[0]
            == 0
        )
        assert labelwright.load(files / "m").class_weight == kept


@pytest.mark.filterwarnings("default:no token is surely O")
def test_unmarked_tokens_may_be_unknown(run, files: Path) -> None:
    status, _, err = run(
        "train", files / "full.txt", "-o", files / "m", "--unmarked", "unknown", "--iterations", 5
    )
    assert status == 0
    assert "12 tokens with a label, 6 tokens with a set, 0 tokens unknown" in err
    assert (
        "\nlabelwright: no token is surely O, so nothing says what lies outside of entities" in err
    )


@pytest.mark.filterwarnings("default:no token is surely O")
def test_the_entity_rate_is_given_or_estimated(run, files: Path) -> None:
    train = [
        "train",
        files / "full.txt",
        "-o",
        files / "m",
        "--unmarked",
        "unknown",
        "--iterations",
        5,
    ]
    for options, rate in ((["--entity-rate", 0.5], 0.5), (["--dev", files / "full.txt"], 0.6667)):
        status, _, err = run(*train, *options)
        assert status == 0
        assert "surely" not in err
        assert labelwright.load(files / "m").entity_rate == rate
        assert f"|entity_rate:{rate}|" in run("inspect", files / "m")[1]
    assert f"--entity-rate 0.6667: estimated from {files / 'full.txt'}\n" in err
    assert run(*train, "--dev", files / "full.txt", "-q") == (0, "", "")
    sgd = run(*train, "--dev", files / "full.txt", "--optimizer", "sgd")[2]
    assert (
        "--entity-rate: not estimated, since SGD has no term for it; use --optimizer lbfgs\n" in sgd
    )
    (files / "all-o.txt").write_text("a O\nb O\n")
    none = run(*train, "--dev", files / "all-o.txt")[2]
    assert f"--entity-rate: not estimated, since it is 0 in {files / 'all-o.txt'}\n" in none
    run(*train, "--dev", files / "full.txt", "--entity-rate", 0.5)
    assert labelwright.load(files / "m").entity_rate == 0.5
    (files / "r.toml").write_text("entity_rate = 0.4\n")
    assert run(*train, "--recipe", files / "r.toml")[0] == 0
    assert labelwright.load(files / "m").entity_rate == 0.4
    _, out, _ = run("train", "--model", "crf", "--help")
    assert "--entity-rate" in out


def test_allowed_labels_and_forbidden_transitions(run, files: Path) -> None:
    (files / "words.txt").write_text("sleeps O\nSmith I-PER B-LOC\n")
    options = [
        "--allowed-labels",
        files / "words.txt",
        "--forbid",
        "O I-PER",
        "--forbid",
        "B-LOC I-PER",
    ]
    status, _, err = run("train", files / "partial.txt", "-o", files / "m", *QUICK, *options)
    assert status == 0, err
    assert "15 tokens with a label, 3 tokens with a set, 0 tokens unknown" in err
    assert labelwright.load(files / "m").forbidden_transitions == [
        ["O", "I-PER"],
        ["B-LOC", "I-PER"],
    ]


def test_class_weights_may_be_repeated_and_are_signed(run, files: Path) -> None:
    train = ["train", files / "full.txt", "-o", files / "m", "-q", "--iterations", 2]
    weights = ["--class-weight", "O=0.5", "--class-weight", "B-PER=2"]
    assert run(*train, *weights) == (0, "", "")
    assert labelwright.load(files / "m").class_weight == {"O": 0.5, "B-PER": 2.0}
    assert "|class_weight:O=0.5,B-PER=2|" in run("inspect", files / "m")[1]


def test_known_labels_may_be_sets(run, files: Path) -> None:
    assert (
        run("train", files / "full.txt", "-o", files / "m", "-q", "--columns", "word,ner")[0] == 0
    )
    (files / "hint.txt").write_text("Paris B-PER|I-PER\nsleeps _\n\n")
    tag = ["tag", files / "m", files / "hint.txt", "--columns", "word,hint", "--known", "hint"]
    code, out, _ = run(*tag)
    assert code == 0
    assert out.split()[2] in ("B-PER", "I-PER")
    for label, part in (("B-PRE", "'B-PRE'"), ("B-PER|B-PRE", "'B-PRE'"), ("B-PER|", "'B-PER|'")):
        (files / "hint.txt").write_text(f"Paris {label}\n\n")
        refused(
            run(*tag),
            f"--known: {files / 'hint.txt'}: sentence 0, token 0: no label {part} in this model",
        )
