"""Sentences as a stream, a batch at a time, and questions of several threads at once: the answers
of a list."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import small_models

from labelwright import CRF, Cascade, LatentCRF, MemoryTagger, Perceptron, SemiCRF
from labelwright.corpus import builtin_corpus
from labelwright.errors import CorpusError, NotFittedError, OptionError

TAGGERS = ["crf", "crf-dicts", "semi-crf", "perceptron", "memory"]


class Counted:
    """An iterator that knows how many sentences were read."""

    def __init__(self, sentences):
        self.sentences, self.read = iter(sentences), 0

    def __iter__(self):
        return self

    def __next__(self):
        sentence = next(self.sentences)
        self.read += 1
        return sentence


@pytest.mark.parametrize("name", TAGGERS)
def test_a_stream_is_answered_like_a_list(name):
    model, X = small_models.trained(name), small_models.asked(name)
    expected = model.predict(X)
    stream = Counted(X)
    answers = model.predict_stream(stream, batch_size=2)
    assert stream.read == 0
    assert next(answers) == expected[0]
    assert stream.read == 2
    assert [expected[0], *answers] == expected
    assert model.predict(iter(X)) == expected


def test_a_cascade_gives_the_labels_of_all_layers():
    model, X = small_models.trained("cascade"), small_models.asked("cascade")
    labels = model.predict(X)
    expected = [{name: labels[name][n] for name in labels} for n in range(len(X))]
    assert list(model.predict_stream(iter(X), batch_size=4)) == expected


def test_errors_count_sentences_over_the_whole_stream():
    model, X = small_models.trained("crf"), small_models.asked("crf")
    with pytest.raises(CorpusError, match="sentence 5 is one string"):
        list(model.predict_stream([*X[:5], "no list"], batch_size=2))
    with pytest.raises(OptionError, match="batch_size"):
        model.predict_stream(X, batch_size=0)
    with pytest.raises(NotFittedError):
        model._untrained().predict_stream(X)


THREADED = {
    "crf": CRF(max_iter=5, n_jobs=1),
    "latent-crf": LatentCRF(n_latent=2, max_iter=3, n_jobs=1, random_state=0),
    "perceptron": Perceptron(max_iter=2, n_jobs=1, random_state=0),
    "semi-crf": SemiCRF(max_iter=3, n_jobs=1),
    "memory": MemoryTagger(n_jobs=1),
    "cascade": Cascade(
        [("pos", CRF(max_iter=3, n_jobs=1)), ("chunk", CRF(max_iter=3, n_jobs=1))], n_jobs=1
    ),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", list(THREADED))
def test_answers_do_not_depend_on_other_threads(name):
    columns = ["word", "pos", "chunk"] if name == "cascade" else ["word", "chunk"]
    corpus = builtin_corpus(40, random_state=1, columns=columns)
    tagger = (
        THREADED[name].fit(corpus)
        if name != "cascade"
        else THREADED[name].fit(corpus.select(columns))
    )
    sentences = corpus.select(["word"]).X
    alone = [(tagger.predict([x]), tagger.predict_spans([x])) for x in sentences]
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(lambda x: (tagger.predict([x]), tagger.predict_spans([x])), sentences * 3)
        )
    assert together == alone * 3
