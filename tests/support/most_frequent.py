"""A tagger of another package: the most frequent label of each word, on a chain lattice."""

from typing import Annotated

import numpy as np

from labelwright.corpus import Corpus, detect_scheme
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.settings import Above, Help, Signed
from labelwright.structures.states import state_space
from labelwright.taggers.arguments import labelled
from labelwright.taggers.chain import ChainTagger, LabelScores
from labelwright.taggers.packing import constructed, header_of, read_record, read_scheme


class MostFrequent(ChainTagger):
    """The most frequent label of each word; labels that a word never had get a little."""

    def __init__(self, smoothing: Annotated[float, Above(0), Signed(), Help("Count of a label never seen.")] = 0.1):
        self.smoothing = smoothing

    def fit(self, X, y=None):
        self._check_parameters()
        corpus, labels, codes, _ = labelled(X, y)
        words = corpus.tokens(corpus.input_names[0])
        self.words_ = {word: i for i, word in enumerate(dict.fromkeys(words))}
        self.counts_ = np.zeros((len(self.words_) + 1, len(labels)))  # the last row: words never seen
        np.add.at(self.counts_, ([self.words_[word] for word in words], codes), 1)
        self.labels_, self.scheme_, self.training_ = list(labels), detect_scheme(labels), {"tokens": len(words)}
        return self

    def label_scores(self, X):
        corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
        rows = [self.words_.get(word, -1) for word in corpus.tokens(corpus.input_names[0])]
        scores = np.log(self.counts_[rows] + self.smoothing)
        return LabelScores(scores, np.zeros((len(self.labels_),) * 2), corpus.offsets, state_space(self.labels_))

    def _features_read(self):
        return "words", None

    def pack(self):
        header = {"scheme": self.scheme_, "words": list(self.words_), "labels": self.labels_}
        return {"counts": self.counts_}, header_of(self) | header

    @classmethod
    def unpack(cls, tensors, header):
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        model = constructed(cls, header)
        words, model.labels_ = header.names("words"), header.names("labels")
        model.words_ = {word: i for i, word in enumerate(words)}
        model.counts_ = tensors.numbers("counts", np.float64, len(words) + 1, len(model.labels_), least=0)
        model.scheme_, (model.training_, _) = read_scheme(header), read_record(header)
        return model
