"""Training and labelling by partitions give what one machine gives."""

import gc
import gzip
import itertools
import json
import re
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from distributed import get_worker

from labelwright import (
    CRF,
    Cascade,
    LatentCRF,
    MemoryTagger,
    Perceptron,
    ProgressiveSearch,
    SemiCRF,
    load,
    read_columns,
)
from labelwright.cli import tag
from labelwright.corpus import max_input
from labelwright.corpus.file_formats import FileOptions
from labelwright.errors import ClusterError, CorpusError, OptionError
from labelwright.scale import Partitions, cluster, held
from labelwright.scale.cluster import Cluster, Shared
from labelwright.scale.partitions import Partition

NAMES = "word,pos,chunk"


def weights_by_name(model):
    """The weights that are not 0, by what they are about: their order depends on the partitions."""
    rows = [(row.feature, row.label, row.weight) for row in model.state_features_]
    rows += [(row.source, row.target, row.weight) for row in model.transition_features_]
    return {row[:2]: row[2] for row in rows}


def alike(model, other, rel=1e-3):
    ours, theirs = weights_by_name(model), weights_by_name(other)
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose(
        [ours[k] for k in theirs], list(theirs.values()), rtol=0.05, atol=rel
    )


def test_a_cluster_reaches_the_optimum_of_one_machine(client, files):
    settings = {
        "tol": 0,
        "max_iter": 400,
        "min_count": 3,
        "l2": 100.0,
        "n_jobs": 1,
        "constraints": "iob2",
    }
    model = CRF(**settings).fit(Partitions(f"{files}/part*.txt", NAMES), client=client)
    here = CRF(**settings).fit(read_columns(files / "all.txt", NAMES))
    assert model.training_["loss"] == pytest.approx(here.training_["loss"], rel=1e-8)
    assert model.training_["sentences"] == 60
    assert {"features", "weights", "tokens"} <= {
        k for k in model.training_ if model.training_[k] == here.training_[k]
    }
    assert model.scheme_ == here.scheme_
    assert model.classes_ == here.classes_
    alike(model, here)
    X = read_columns(files / "all.txt", NAMES)
    assert model.predict(X) == here.predict(X)
    assert not held._held  # nothing is left on the workers


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2, "template": "chunking", "class_weight": "balanced"},
        {"cells": "all", "forbidden_transitions": [("O", "I-NP")], "l1": 0.1},
        {"class_weight": {"B-NP": 2.0}, "template": "pos"},
    ],
)
def test_settings_mean_what_they_mean_on_one_machine(client, files, settings):
    settings = {"tol": 0, "max_iter": 12, "n_jobs": 1, **settings}
    model = CRF(**settings).fit(Partitions(f"{files}/all.txt", NAMES, size=3000), client=client)
    here = CRF(**settings).fit(read_columns(files / "all.txt", NAMES))
    assert model.training_["weights"] == here.training_["weights"]
    assert model.training_["loss"] == pytest.approx(here.training_["loss"], rel=1e-3)


def test_latent_states_and_partial_labels(client, files, tmp_path):
    text = (files / "all.txt").read_text().replace(" B-NP", " _", 5).replace("\tB-NP", "\t_", 5)
    (tmp_path / "some.txt").write_text(text)
    settings = {"max_iter": 1, "cells": "all", "n_jobs": 1, "random_state": 0}
    model = LatentCRF(**settings).fit(
        Partitions(f"{tmp_path}/some.txt", NAMES, size=3000), client=client
    )
    here = LatentCRF(**settings).fit(read_columns(tmp_path / "some.txt", NAMES))
    assert model.training_["weights"] == here.training_["weights"]
    # from other random weights
    assert model.history_[0]["loss"] == pytest.approx(here.history_[0]["loss"], rel=0.01)
    assert "_" not in model.classes_


def test_the_bits_do_not_depend_on_the_number_of_workers(client, files):
    def train(n_threads):
        spread = Partitions(f"{files}/all.txt", NAMES, size=3000).on(client)
        spread.cluster.n_threads = n_threads  # cuts the tree into other blocks
        with spread:
            return CRF(max_iter=2, n_jobs=1).fit(spread).weights_

    assert train(1).tobytes() == train(8).tobytes()


def test_what_a_killed_client_left_goes_with_the_next_run(client, files):
    held._held["Client-gone/0", 0, held.CORPUS] = held._held[f"{client.id}/0", 0, held.CORPUS] = (
        "sentences"
    )
    CRF(max_iter=1, n_jobs=1).fit(Partitions(f"{files}/all.txt", NAMES), client=client)
    # of another run of a client that is there
    assert [*held._held] == [(f"{client.id}/0", 0, held.CORPUS)]
    held._held.clear()


@pytest.mark.slow
def test_mixed_perceptrons_learn(client, files):
    for averaging in ("none", "avg", "mavg"):
        model = Perceptron(max_iter=6, averaging=averaging, n_jobs=1)
        model.fit(Partitions(f"{files}/part*.txt", NAMES), client=client)
        assert model.score(read_columns(files / "all.txt", NAMES)) > 0.9
        assert model.training_["iterations"] <= 6


def test_a_perceptron_on_one_partition_is_that_of_one_machine(client, files):
    settings = {"max_iter": 3, "averaging": "avg", "n_jobs": 1, "calibration": False}
    model = Perceptron(**settings).fit(Partitions(f"{files}/all.txt", NAMES), client=client)
    here = Perceptron(**settings).fit(read_columns(files / "all.txt", NAMES))
    assert model.training_["mixed_partitions"] == 1
    assert model.history_[0]["mistakes"] == here.history_[0]["mistakes"]
    np.testing.assert_allclose(model.weights_, here.weights_, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("passing", ["best", "marginal", "joint"])
def test_cascades(client, files, passing):
    layers = [("pos", CRF(max_iter=4)), ("chunk", CRF(max_iter=4, min_count=2))]
    settings = {"passing": passing, "max_iter": 3, "n_jobs": 1}
    corpus = read_columns(files / "all.txt", NAMES)
    model = Cascade(layers, **settings).fit(
        Partitions(f"{files}/part*.txt", NAMES), client=client, dev=corpus
    )
    here = Cascade(layers, **settings).fit(corpus, dev=corpus)
    for name, layer in model.layers_.items():
        assert layer.training_["weights"] == here.layers_[name].training_["weights"]
    record, other = (
        each.training_.get("joint") or each.layers_["chunk"].training_ for each in (model, here)
    )
    assert record["loss"] == pytest.approx(other["loss"], rel=1e-4)
    assert model.predict(corpus).keys() == {"pos", "chunk"}


def test_json_lines_and_parquet(files, tmp_path):
    corpus = read_columns(files / "all.txt", NAMES)
    rows = [
        {"tokens": [word for word, _ in x], "labels": y}
        for x, y in zip(corpus.X, corpus.y, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        read = Partitions(str(tmp_path / name), size=2000)
        corpora = [read.reading.corpus(part)[0] for part in read.parts()]
        assert [y for each in corpora for y in each.y] == corpus.y
    address = Partitions(f"file://{tmp_path}/*.jsonl", size=2000)
    assert len(address.parts()) > 2
    assert address.head.y == corpus.y[: len(address.head)]


def test_partitions_are_cut_behind_sentences(files):
    whole = Partitions(f"{files}/all.txt", NAMES)
    parts = Partitions(f"{files}/all.txt", NAMES, size=700).parts()
    read = [whole.reading.corpus(part)[0] for part in parts]
    assert len(parts) > 5
    assert [x for corpus in read for x in corpus.X] == read_columns(files / "all.txt", NAMES).X
    assert all(a.end == b.begin for a, b in itertools.pairwise(parts))


def test_bad_sentences_are_named_and_set_aside(client, files, tmp_path):
    lines = (files / "all.txt").read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if n > 300 and line.strip())
    lines[at] = b"lonely\n"
    (tmp_path / "bad.txt").write_bytes(b"".join(lines))
    files_of = Partitions(f"{tmp_path}/bad.txt", NAMES, size=900)
    with pytest.raises(CorpusError, match=rf"bad\.txt:{at + 1}:"):
        CRF(max_iter=1).fit(files_of, client=client)
    files_of = Partitions(f"{tmp_path}/bad.txt", NAMES, size=900, skip_bad=True)
    model = CRF(max_iter=1, n_jobs=1).fit(files_of, client=client)
    assert model.training_["sentences"] == 59
    ((reason, text),) = files_of.bad
    assert f"bad.txt:{at + 1}:" in reason
    assert b"lonely" in text


def test_workers_of_another_version_are_refused(client, monkeypatch):
    monkeypatch.setattr(cluster, "__version__", "0.0.1")
    monkeypatch.setattr(cluster, "_version", lambda: "0.0.2")
    with pytest.raises(ClusterError, match=r"expected labelwright 0\.0\.1, got 0\.0\.2"):
        Cluster(client)
    search = ProgressiveSearch(CRF(), {"max_iter": [1, 2]}, n_jobs=1)
    with pytest.raises(ClusterError, match=r"expected labelwright 0\.0\.1, got 0\.0\.2"):
        search.fit([["a"], ["b"]] * 9, [["A"], ["B"]] * 9, client=client)


def test_what_needs_one_machine_is_refused(client, files):
    spread = Partitions(f"{files}/all.txt", NAMES)
    for model, why in [
        (CRF(optimizer="sgd"), "optimizer"),
        (CRF(entity_rate=0.1), "entity_rate"),
        (CRF(dictionaries={"a": ["b"]}), "dictionaries"),
        (CRF(prune_labels=0.99), "prune_labels"),
        (SemiCRF(), "SemiCRF"),
        (Perceptron(update="arow", margin=1.0), "arow"),
        (Cascade([("chunk", CRF())], jackknife=True), "jackknife"),
        (CRF(class_weight={"B-NPP": 2.0}), "class_weight: no label 'B-NPP'"),
    ]:
        with pytest.raises(OptionError, match=why):
            model.fit(spread, client=client)
    with pytest.raises(OptionError, match="Partitions"):
        CRF().fit([["a"]], [["A"]], client=client)
    with pytest.raises(OptionError, match="sample_weight"):
        CRF().fit(spread, client=client, sample_weight=[1.0])
    with pytest.raises(CorpusError, match="no such files"):
        CRF().fit(Partitions(f"{files}/none*.txt"), client=client)
    assert "client" not in MemoryTagger._training_options


def test_a_search_tries_settings_on_workers(client, files, monkeypatch):
    tried, each = [], Cluster.each

    def noted(self, function, items, *shared):
        tried.extend(items)
        return each(self, function, items, *shared)

    monkeypatch.setattr(Cluster, "each", noted)
    corpus = read_columns(files / "all.txt", NAMES)
    search = {
        "settings": {"max_iter": [1, 3], "l2": [0.1, 100.0]},
        "first": 30,
        "steps": 2,
        "refit": False,
        "n_jobs": 1,
    }
    there = ProgressiveSearch(CRF(), **search).fit(corpus, client=client)
    assert len(tried) == len(there.table_)
    here = ProgressiveSearch(CRF(), **search).fit(corpus)
    assert there.best_params_ == here.best_params_
    assert [row["score"] for row in there.table_] == [row["score"] for row in here.table_]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("dask.bag", "labels"),
        pytest.param("dask.dataframe", "frame", marks=pytest.mark.slow),
        pytest.param("datasets", "dataset", marks=pytest.mark.slow),
    ],
)
def test_the_recipes_of_the_documentation_give_what_predict_gives(client, files, library, name):
    pytest.importorskip(library)
    page = Path(__file__).parents[2] / "docs" / "scale.md"
    (recipe,) = re.findall(
        rf"```text\n(import {library}\n.*?)```", page.read_text(encoding="utf-8"), re.S
    )
    corpus = read_columns(files / "all.txt", NAMES).select(["word", "chunk"])
    model = CRF(max_iter=2, n_jobs=1).fit(corpus)
    here = {"X": corpus.X, "model": model}
    if library == "dask.dataframe":
        here["table"] = pytest.importorskip("pandas").DataFrame(
            {"text": [" ".join(words) for words in corpus.X]}
        )
    exec(recipe, here)
    labels = here["labels"] if name == "labels" else list(here["done"]["labels"])
    if name == "frame":
        labels = [text.split() for text in here["done"].compute()["labels"]]
    assert labels == model.predict(corpus.X)


def _number(number, shared):
    return [number * shared]


def test_results_are_combined_in_order(client):
    spread = Cluster(client)
    for n in (1, 2, 7, 40):
        assert spread.reduced(_number, list.__add__, n, Shared(10)) == [10 * k for k in range(n)]
    assert list(spread.each(_number, [3, 1, 2], Shared(1))) == [[3], [1], [2]]


def _worker(number):
    return [get_worker().address]


def test_workers_have_equal_shares_and_keep_them(client):
    spread = Cluster(client)
    first = spread.reduced(_worker, list.__add__, 33)
    assert sorted(Counter(first).values()) == [16, 17]
    assert spread.reduced(_worker, list.__add__, 33) == first


def test_shares_of_lost_workers_go_to_those_that_have_few(client, monkeypatch):
    spread = Cluster(client)
    monkeypatch.setattr(spread, "n_threads", 4)

    def places(*workers):
        monkeypatch.setattr(spread, "workers", lambda: dict.fromkeys(workers, 1))
        return spread._dealt(8)[1]

    assert "".join(places(*"abcd")) == "aabbccdd"
    assert sorted(places(*"abc")) == [*"aaabbbcc"]
    assert sorted(Counter(places(*"abce")).values()) == [2, 2, 2, 2]  # another has come
    assert sorted(Counter(places(*"ab")).values()) == [4, 4]


def _in_memory(dask_scheduler):
    return sum(task.state == "memory" for task in dask_scheduler.tasks.values())


def test_results_of_earlier_iterations_are_not_kept(client, files):
    kept = []
    data = Partitions(f"{files}/all.txt", NAMES, size=500)

    def progress(*_):
        time.sleep(0.05)  # for what is on its way out
        kept.append(client.run_on_scheduler(_in_memory))

    gc.collect()  # what other tests have left
    CRF(max_iter=8, tol=0, n_jobs=1).fit(data, client=client, progress=progress)
    assert len(data.parts()) > 10
    assert max(kept) - min(kept) <= 6  # weights and sums


def test_the_command_trains_and_tags(run, files, tmp_path, monkeypatch, client):
    monkeypatch.setattr(cluster, "connected", lambda _: nullcontext(client))
    model, out = tmp_path / "model", tmp_path / "out"
    train = [
        "train",
        f"{files}/part*.txt",
        "-o",
        model,
        "--columns",
        NAMES,
        "--iterations",
        2,
        "--dask",
        "local:2",
    ]
    code, _, told = run(*train, "--dev", files / "all.txt", "--threads", 1)
    assert code == 0, told
    assert "dask: 2 workers, 2 threads" in told
    assert "60 sentences" in told
    code, _, told = run(
        "tag", model, f"{files}/part*.txt", "-o", out, "--columns", NAMES, "--dask", "local:2"
    )
    assert code == 0, told
    assert "dask: 2 workers, 2 threads" in told
    there = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(there) == ["part0.txt", "part1.txt", "part2.txt"]
    (out / "part1.txt").unlink()
    # on one machine
    code, _, told = run("tag", model, f"{files}/part*.txt", "-o", out, "--columns", NAMES)
    assert code == 0, told
    assert "2 of 3 files are there and stay" in told
    assert {path.name: path.read_bytes() for path in out.iterdir()} == there
    code, _, told = run(
        "train",
        files / "all.txt",
        "-o",
        tmp_path / "more",
        "--continue",
        model,
        "--dask",
        "local:2",
    )
    assert code != 0
    assert "--dask" in told


def test_tagging_sets_bad_sentences_aside(run, files, tmp_path):
    model, aside = tmp_path / "model", tmp_path / "aside.txt"
    assert (
        run("train", files / "all.txt", "-o", model, "--columns", NAMES, "--iterations", 1, "-q")[0]
        == 0
    )
    lines = (files / "all.txt").read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if n > 100 and line.strip())
    lines[at] = b"lonely\n"
    (tmp_path / "bad.txt").write_bytes(b"".join(lines))
    code, _, told = run("tag", model, tmp_path / "bad.txt", "-o", tmp_path / "out.txt")
    assert code != 0
    assert f"bad.txt:{at + 1}:" in told
    code, _, told = run(
        "tag", model, tmp_path / "bad.txt", "-o", tmp_path / "out.txt", "--skip-bad", aside
    )
    assert code == 0
    assert "1 sentence that cannot be read" in told
    assert f"bad.txt:{at + 1}:" in aside.read_text()
    assert len(read_columns(tmp_path / "out.txt")) == 59


@pytest.fixture
def bad_files(files, tmp_path, run):
    """A model, and a folder with three files, of which two have a sentence that cannot be read."""
    model, folder = tmp_path / "model", tmp_path / "in"
    assert (
        run("train", files / "all.txt", "-o", model, "--columns", NAMES, "--iterations", 1, "-q")[0]
        == 0
    )
    folder.mkdir()
    for name, bad in {"a": b"first\n\n", "b": b"", "c": b"second\n\n"}.items():
        (folder / f"{name}.txt").write_bytes((files / "part0.txt").read_bytes() + bad)
    return model, folder


def test_an_interruption_loses_no_bad_sentence(run, bad_files, tmp_path, monkeypatch):
    (model, folder), aside, out = bad_files, tmp_path / "aside.txt", tmp_path / "out"
    command = ["tag", model, f"{folder}/*.txt", "-o", out, "--skip-bad", aside]
    run_file = tag._run

    def interrupted(tagging, source, *rest):
        if source.path.endswith("b.txt"):
            raise KeyboardInterrupt
        run_file(tagging, source, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(tag, "_run", interrupted)
        assert run(*command)[0] != 0
    assert [path.name for path in out.iterdir()] == ["a.txt"]
    assert "first" in aside.read_text()
    code, _, told = run(*command)
    assert code == 0
    assert "1 of 3 files are there and stay" in told
    # as if it had been killed when the list was written and the output was not
    (out / "c.txt").unlink()
    assert run(*command)[0] == 0
    assert aside.read_text().count("first\n\n") == aside.read_text().count("second\n\n") == 1


def test_a_cluster_sets_bad_sentences_aside(run, bad_files, tmp_path, monkeypatch, client):
    (model, folder), aside, out = bad_files, tmp_path / "aside.txt", tmp_path / "out"
    monkeypatch.setattr(cluster, "connected", lambda _: nullcontext(client))
    (out / "sub").mkdir(parents=True)
    (out / ".a.txt.0123456789ab.part").write_bytes(b"")  # of a run that was killed
    code, _, told = run(
        "tag", model, f"{folder}/*.txt", "-o", out, "--skip-bad", aside, "--dask", "local:2"
    )
    assert code == 0, told
    assert sorted(path.name for path in out.iterdir()) == ["a.txt", "b.txt", "c.txt", "sub"]
    assert re.findall("^(first|second)$", aside.read_text(), re.M) == ["first", "second"]


def _without_space(number, shared):
    raise OSError(28, "No space left on device", "out.txt")


def test_an_error_of_a_piece_of_work_is_not_that_of_the_scheduler(client):
    for started in (
        lambda: Cluster(client).reduced(_without_space, list.__add__, 2, Shared(1)),
        lambda: list(Cluster(client).each(_without_space, [1], Shared(1))),
    ):
        with pytest.raises(CorpusError, match=r"^out\.txt: no space left on device$"):
            started()
    with pytest.raises(FileNotFoundError), cluster.explained(client):
        raise FileNotFoundError("model")


def test_all_partitions_stand_for_the_training_data(run, files, tmp_path, monkeypatch, client):
    monkeypatch.setattr(cluster, "connected", lambda _: nullcontext(client))
    (tmp_path / "a.txt").write_text("He PRP O\n\n")
    (tmp_path / "b.txt").write_bytes((files / "all.txt").read_bytes())
    train = [
        "train",
        f"{tmp_path}/?.txt",
        "-o",
        tmp_path / "model",
        "--columns",
        NAMES,
        "--iterations",
        1,
    ]
    code, _, told = run(*train, "--dask", "local:2", "--dev", files / "part1.txt")
    assert code == 0, told
    assert "labels that the training data lack" not in told
    assert "100 % of its sentences" in told
    (tmp_path / "whole").write_bytes(
        (tmp_path / "a.txt").read_bytes() + (tmp_path / "b.txt").read_bytes()
    )
    train[1:4] = [tmp_path / "whole", "-o", tmp_path / "other"]
    assert run(*train)[0] == 0
    assert load(tmp_path / "model").training_["seen"] == load(tmp_path / "other").training_["seen"]


def test_limits_on_input_hold_on_workers(files, tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress((files / "all.txt").read_bytes()))
    with max_input("1K"):
        read = Partitions(str(tmp_path / "a.gz"), NAMES).reading
        with pytest.raises(CorpusError, match="more than 1K"):
            Partitions(f"{files}/all.txt", NAMES).parts()
    with pytest.raises(CorpusError, match="more than 1K"):
        read.corpus(Partition(str(tmp_path / "a.gz"), 0, None, "columns"))


def test_formats_that_have_no_partitions_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("He ran.\n")
    with pytest.raises(CorpusError, match="one machine"):
        Partitions(str(tmp_path / "a.txt"), options=FileOptions("text")).parts()
