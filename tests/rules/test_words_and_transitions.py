"""Labels that words may have, forbidden and required transitions at tagging time: every tagger
keeps them."""

import itertools

import pytest

import labelwright
from labelwright import (
    CRF,
    Cascade,
    LatentCRF,
    LatentPerceptron,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    SemiCRF,
)
from labelwright.constraints import forbid, lexicon, require
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b"], ["a", "c"], ["b", "b", "a", "c"]]
Y = [["A", "B", "C"], ["B", "A"], ["C", "C", "B"], ["A", "C"], ["B", "B", "A", "C"]]
NEW = [["a", "c", "b"], ["c", "b", "x", "a"], ["a"]]
ALLOWED = {"a": ["B", "C"], "x": ["A"]}
RULES = [lexicon(ALLOWED), forbid("B", after="C"), require("C", after="A")]
TAGGERS = {
    "crf": lambda: CRF(max_iter=5, n_jobs=1),
    "crf, order 2": lambda: CRF(max_iter=5, order=2, n_jobs=1),
    "latent": lambda: LatentCRF(2, max_iter=5, n_jobs=1, random_state=0),
    "latent, order 2": lambda: LatentCRF(2, max_iter=5, order=2, n_jobs=1, random_state=0),
    "segments": lambda: SemiCRF(max_iter=5, n_jobs=1),
    "perceptron": lambda: Perceptron(max_iter=3, n_jobs=1),
    "latent perceptron": lambda: LatentPerceptron(2, max_iter=3, n_jobs=1, random_state=0),
    "memory": lambda: MemoryTagger(n_jobs=1, inference="csi"),
    "n-grams": lambda: NgramTagger(classifier(), n_jobs=1),
}


def classifier():
    return pytest.importorskip("sklearn.tree").DecisionTreeClassifier(random_state=0)


@pytest.fixture(scope="module", params=list(TAGGERS))
def tagger(request):
    return TAGGERS[request.param]().fit(X, Y)


def keeps_rules(words, labels):
    pairs = list(itertools.pairwise(labels))
    return (
        all(label in ALLOWED.get(word, label) for word, label in zip(words, labels, strict=True))
        and ("C", "B") not in pairs
        and all(after == "C" for before, after in pairs if before == "A")
    )


def test_labels_keep_them_in_python(tagger):
    free = [d.labels for d in tagger.decode(NEW)]
    assert not all(map(keeps_rules, NEW, free))
    for words, record in zip(NEW, tagger.decode(NEW, constraints=RULES), strict=True):
        assert keeps_rules(words, record.labels)
        assert record.status == "optimal"
    for words, rows in zip(NEW, tagger.predict_nbest(NEW, 3, constraints=RULES), strict=True):
        assert all(keeps_rules(words, labels) for labels, _ in rows)


def test_labels_keep_them_on_the_command_line(tagger, run, tmp_path):
    if isinstance(tagger, NgramTagger):
        pytest.skip("has no model file")
    tagger.save(tmp_path / "m")
    (tmp_path / "new.txt").write_text(
        "".join("".join(f"{word}\n" for word in words) + "\n" for words in NEW)
    )
    (tmp_path / "words.txt").write_text("a B C\nx A\n")
    (tmp_path / "rules.txt").write_text(
        f"lexicon({str(tmp_path / 'words.txt')!r})\nforbid('B', after='C')\n"
        "require('C', after='A')\n"
    )
    code, out, err = run(
        "tag", tmp_path / "m", tmp_path / "new.txt", "--rules", tmp_path / "rules.txt"
    )
    assert (code, err) == (0, "")
    rows = [[line.split()[1] for line in part.splitlines()] for part in out.strip().split("\n\n")]
    assert all(map(keeps_rules, NEW, rows))


def test_the_layers_of_a_cascade(run, tmp_path):
    rows = [[(word,) for word in words] for words in X]
    labels = [[(label, label.lower()) for label in row] for row in Y]
    corpus = Corpus.from_sequences(
        [[(*x, *y) for x, y in zip(*both, strict=True)] for both in zip(rows, labels, strict=True)],
        names=["word", "upper", "lower"],
    )
    layers = [("upper", CRF(max_iter=5, n_jobs=1)), ("lower", Perceptron(max_iter=3, n_jobs=1))]
    cascade = Cascade(layers, passing="best").fit(corpus)
    records = cascade.decode(NEW, constraints={"upper": RULES, "lower": [forbid("b", after="c")]})
    assert all(keeps_rules(words, d.labels) for words, d in zip(NEW, records["upper"], strict=True))
    assert not any(("c", "b") in itertools.pairwise(d.labels) for d in records["lower"])
    cascade.save(tmp_path / "m")
    (tmp_path / "new.txt").write_text(
        "".join("".join(f"{word}\n" for word in words) + "\n" for words in NEW)
    )
    rules = (
        'upper:lexicon({"a": ["B", "C"], "x": "A"})',
        "upper:forbid('B', after='C')",
        "upper:require('C', after='A')",
    )
    options = [part for rule in rules for part in ("--rule", rule)]
    code, out, _ = run("tag", tmp_path / "m", tmp_path / "new.txt", *options)
    assert code == 0
    rows = [[line.split()[1] for line in part.splitlines()] for part in out.strip().split("\n\n")]
    assert all(map(keeps_rules, NEW, rows))


@pytest.mark.parametrize("inference", ["none", "vote"])
def test_inference_by_single_tokens_says_what_takes_rules(inference, run, tmp_path):
    tagger = MemoryTagger(n_jobs=1, inference=inference).fit(X, Y)
    with pytest.raises(
        OptionError, match=f"constraints: inference '{inference}' looks at single tokens; use 'csi'"
    ):
        tagger.decode(NEW, constraints=RULES)
    assert keeps_rules(NEW[0], tagger.decode(NEW, inference="csi", constraints=RULES)[0].labels)
    tagger.save(tmp_path / "m")
    (tmp_path / "new.txt").write_text("a\n\n")
    code, _, err = run("tag", tmp_path / "m", tmp_path / "new.txt", "--rule", "once")
    assert code != 0
    assert f"inference {inference}: rules are for the inference csi" in err
    code, out, _ = run(
        "tag", tmp_path / "m", tmp_path / "new.txt", "--rule", "forbid('A')", "--inference", "csi"
    )
    assert (code, out.split()[1] in "BC") == (0, True)


def test_transitions_are_settings_of_training_on_the_command_line(run, tmp_path):
    lines = [
        "".join(f"{x} {y}\n" for x, y in zip(*both, strict=True)) for both in zip(X, Y, strict=True)
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    options = "--columns", "word,label", "--require", "A B", "--require", "A C", "--forbid", "C A"
    code, _, err = run("train", tmp_path / "train.txt", "-o", tmp_path / "m", *options)
    assert code == 0, err
    model = labelwright.load(tmp_path / "m")
    assert [tuple(pair) for pair in model.required_transitions] == [("A", "B"), ("A", "C")]
    log_p = model.sequence_log_probabilities([["a", "a"]] * 2, [["A", "A"], ["C", "A"]])
    assert log_p == [-float("inf")] * 2
    code, _, err = run(
        "train",
        tmp_path / "train.txt",
        "-o",
        tmp_path / "m",
        "--columns",
        "word,label",
        "--require",
        "A B",
    )
    assert code != 0
    assert (
        "C follows A, which required_transitions exclude" in err
        or "C follows A, which --require exclude" in err
    )
