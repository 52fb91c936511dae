"""CoNLL-2000: the published score, and CRFsuite's optimum on the same cells."""

import itertools

import pytest

from labelwright import CRF, read_columns
from labelwright.evaluate import evaluate
from labelwright.features.vocabulary import patterns_of

pytestmark = pytest.mark.corpora


@pytest.fixture(scope="module")
def conll2000(corpora):
    folder = corpora / "conll2000"
    names = ("word", "pos", "chunk")
    return read_columns(folder / "train.txt", names=names), read_columns(
        folder / "test.txt", names=names
    )


def test_chunking_reaches_the_published_score(conll2000):
    train, test = conll2000
    model = CRF(template="chunking", max_iter=100).fit(train)
    report = evaluate(test.y, model.predict(test))
    assert 100 * report.f1 >= 93.4
    assert report.n_tokens == 47377


def feature_strings(corpus, template):
    """What CRFsuite is given: the features of each token as text, read through the template's own
    cells."""
    from labelwright.features.template import apply

    names = corpus.input_names
    patterns = patterns_of(template)["state"]
    read = {}
    for reader in {cell.reader for pattern in patterns for cell in pattern.cells}:
        values = apply(reader, corpus.values(names[reader.column]))
        read[reader] = [values[code] for code in corpus.codes(names[reader.column]).tolist()]
    bounds = corpus.offsets.tolist()
    sentences = []
    for a, b in itertools.pairwise(bounds):
        sentence = []
        for t in range(a, b):
            cells = [[_cell(read[c.reader], t + c.row, a, b) for c in p.cells] for p in patterns]
            sentence.append(
                [_expanded(p.literals, texts) for p, texts in zip(patterns, cells, strict=True)]
            )
        sentences.append(sentence)
    return sentences


def _expanded(literals, texts):
    """The text of a feature: what is fixed in its line, around what cells read."""
    return literals[0] + "".join(
        itertools.chain.from_iterable(zip(texts, literals[1:], strict=True))
    )


def _cell(values, at, begin, end):
    if at < begin:
        return f"_B{at - begin}"
    return values[at] if at < end else f"_B+{at - end + 1}"


def test_crfsuite_finds_the_same_optimum(conll2000, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    train = conll2000[0]
    part = train.take(slice(0, len(train) // 8))
    ours = CRF(template="chunking", l2=1.0, tol=1e-6).fit(part)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 0.5,  # CRFsuite's penalty is c2 |w|^2, ours l2/2 |w|^2
            "feature.possible_states": False,
            "feature.possible_transitions": True,
            "max_iterations": 200,
            "delta": 1e-6,
        }
    )
    for features, labels in zip(
        feature_strings(part, ours._extractor.vocabulary.template), part.y, strict=True
    ):
        trainer.append(features, labels)
    trainer.train(str(tmp_path / "crfsuite"))
    theirs = trainer.logparser.last_iteration
    assert theirs["active_features"] == ours.training_["weights"]
    assert ours.training_["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
