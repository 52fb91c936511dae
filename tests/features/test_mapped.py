"""Encoded data in files: the same model, nothing left behind."""

import os

import numpy as np
import pytest

from labelwright import CRF, LatentCRF, Perceptron, SemiCRF
from labelwright.errors import OptionError
from labelwright.features import incidence as mapped
from labelwright.features.incidence import NO_VALUES, Incidence


@pytest.mark.parametrize(
    "make",
    [
        lambda: CRF(max_iter=4),
        lambda: LatentCRF(2, max_iter=3, random_state=0),
        Perceptron,
        SemiCRF,
    ],
)
def test_the_model_is_the_same(make, chunks, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "LEAST", 1)
    maps = []
    monkeypatch.setattr(
        mapped.Folder,
        "mapped",
        lambda self, x, old=mapped.Folder.mapped: maps.append(x) or old(self, x),
    )
    corpus = chunks.take(slice(0, 40)).select(["word", "pos", "chunk"])
    X, y = corpus.column("word"), corpus.column("chunk")
    settings = {"n_jobs": 1, "max_iter": 3}
    plain = make().set_params(**settings).fit(X, y)
    in_files = make().set_params(**settings).fit(X, y, memory_map=tmp_path)
    assert maps
    assert (plain.weights_ == in_files.weights_).all()
    assert os.listdir(tmp_path) == []


def test_arrays_know_their_folder(tmp_path):
    many = np.arange(1 << 16, dtype=np.int32)
    incidence = Incidence(
        many.reshape(-1, 2), np.arange(3), many[:4], np.arange(3), many[:0], NO_VALUES
    )
    folder = mapped.Folder(tmp_path)
    in_files = folder.mapped(incidence)
    assert all(
        (a == b).all() and a.dtype == b.dtype for a, b in zip(incidence, in_files, strict=True)
    )
    assert mapped.folder_of(in_files.keys[3:9, 1]) is folder
    assert mapped.folder_of(in_files.key_feature) is None
    assert os.listdir(tmp_path) == [] or os.name == "nt"


def test_refusals(tmp_path):
    with pytest.raises(OptionError, match=r"memory_map: .*none: no such folder"):
        CRF().fit([["a"]], [["b"]], memory_map=tmp_path / "none")
