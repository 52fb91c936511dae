"""One trained model may be asked by several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from labelwright import CRF, Cascade, LatentCRF, MemoryTagger, Perceptron, SemiCRF
from labelwright.corpus import builtin_corpus

TAGGERS = {
    "crf": CRF(max_iter=5, n_jobs=1),
    "latent-crf": LatentCRF(n_latent=2, max_iter=3, n_jobs=1, random_state=0),
    "perceptron": Perceptron(max_iter=2, n_jobs=1, random_state=0),
    "semi-crf": SemiCRF(max_iter=3, n_jobs=1),
    "memory": MemoryTagger(n_jobs=1),
    "cascade": Cascade([("pos", CRF(max_iter=3, n_jobs=1)), ("chunk", CRF(max_iter=3, n_jobs=1))], n_jobs=1),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", list(TAGGERS))
def test_answers_do_not_depend_on_other_threads(name):
    columns = ["word", "pos", "chunk"] if name == "cascade" else ["word", "chunk"]
    corpus = builtin_corpus(40, random_state=1, columns=columns)
    tagger = TAGGERS[name].fit(corpus) if name != "cascade" else TAGGERS[name].fit(corpus.select(columns))
    sentences = corpus.select(["word"]).X
    alone = [(tagger.predict([x]), tagger.predict_spans([x])) for x in sentences]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: (tagger.predict([x]), tagger.predict_spans([x])), sentences * 3))
    assert together == alone * 3
