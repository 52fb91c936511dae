"""python-crfsuite's interface: the same answers as the original, where it is installed."""

import math
import sys

import pytest

from labelwright.compat import pycrfsuite as ours

X = [
    [
        {"walk": 1, "shop": 0.5},
        {"walk": 1},
        {"walk": 1, "clean": 0.5},
        {"shop": 0.5, "clean": 0.5},
        {},
    ],
    [
        {"clean": 1, "next": {"word": "sun", "tags": ["a", "b"]}},
        {"солнце": "не светит", "clean": True, "off": False},
    ],
    [["walk", "clean"], {"world": 2}],
]
Y = [["sunny", "sunny", "sunny", "rainy", "sunny"], ["rainy", "rainy"], ["sunny", "好"]]
ALGORITHMS = ["lbfgs", "l2sgd", "ap", "pa", "arow"]


def trained(module, path, algorithm="lbfgs", holdout=-1, **parameters):
    trainer = module.Trainer(algorithm, parameters, verbose=False)
    for n, (xseq, yseq) in enumerate(zip(X, Y, strict=True)):
        trainer.append(xseq, yseq, n)
    trainer.train(str(path), holdout)
    return trainer


def opened(module, path):
    tagger = module.Tagger()
    tagger.open(str(path))
    return tagger


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_trains_and_tags_with_every_algorithm(tmp_path, algorithm):
    trained(ours, tmp_path / "model", algorithm)
    tagger = opened(ours, tmp_path / "model")
    assert [len(tagger.tag(xseq)) for xseq in X] == [5, 2, 2]
    assert set(tagger.labels()) == {"sunny", "rainy", "好"}
    tagger.set(X[0])
    assert math.isclose(sum(tagger.marginal(y, 2) for y in tagger.labels()), 1.0, rel_tol=1e-9)


def test_same_optimum_and_probabilities_as_the_original(tmp_path):
    theirs = pytest.importorskip("pycrfsuite")
    for settings in (
        {"c2": 0.1},
        {"c1": 0.05, "c2": 0.01},
        {"c2": 0.1, "feature.possible_states": True, "feature.possible_transitions": True},
        {"c2": 0.1, "feature.minfreq": 2},
    ):
        for module, name in ((ours, "ours"), (theirs, "theirs")):
            trained(module, tmp_path / name, **settings)
        a, b = opened(ours, tmp_path / "ours").info(), opened(theirs, tmp_path / "theirs").info()
        assert set(a.labels) == set(b.labels)
        weights, expected = a.state_features | a.transitions, b.state_features | b.transitions
        for name in set(weights) | set(expected):
            assert weights.get(name, 0.0) == pytest.approx(expected.get(name, 0.0), abs=5e-3), (
                settings,
                name,
            )


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_each_reads_the_files_of_the_other(tmp_path, writer):
    theirs = pytest.importorskip("pycrfsuite")
    trained(ours if writer == "ours" else theirs, tmp_path / "model", c2=0.1)
    a, b = opened(ours, tmp_path / "model"), opened(theirs, tmp_path / "model")
    assert a.labels() == b.labels()
    for xseq, yseq in zip(X, Y, strict=True):
        assert a.tag(xseq) == b.tag(xseq)
        assert a.probability(yseq) == pytest.approx(b.probability(yseq), rel=1e-9)
        for t in range(len(xseq)):
            for y in a.labels():
                assert a.marginal(y, t) == pytest.approx(b.marginal(y, t), rel=1e-9)
    assert {k: round(v, 6) for k, v in a.info().state_features.items()} == b.info().state_features
    assert {k: round(v, 6) for k, v in a.info().transitions.items()} == b.info().transitions
    assert a.info().attributes == b.info().attributes
    assert a.info().header["num_features"] == b.info().header["num_features"]


def test_parameters_are_those_of_the_original():
    theirs = pytest.importorskip("pycrfsuite")
    for algorithm in ALGORITHMS:
        a, b = ours.Trainer(algorithm), theirs.Trainer(algorithm)
        assert a.params() == b.params()
        assert a.get_params() == b.get_params()


def test_holdout_is_evaluated_and_left_out(tmp_path):
    trainer = trained(ours, tmp_path / "model", holdout=2)
    last = trainer.logparser.last_iteration
    assert last["item_accuracy"].denominator <= 2
    assert set(last["scores"]) == {"sunny", "rainy", "好"}
    assert last["scores"]["好"].model == 0  # never seen in training
    assert "好" not in opened(ours, tmp_path / "model").labels()
    events = [name for name, _, _ in trainer.logparser.events]
    assert [events[0], events[-2], events[-1]] == ["start", "optimization_end", "end"]
    assert events.count("featgen_progress") == 51


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_figures_of_every_iteration_are_read_in_the_messages(tmp_path, algorithm):
    log = trained(ours, tmp_path / "model", algorithm, 2, max_iterations=3).logparser
    assert [figures["num"] for figures in log.iterations] == list(range(1, len(log.iterations) + 1))
    names = {
        "num",
        "loss",
        "feature_norm",
        "time",
        "scores",
        "avg_f1",
        "item_accuracy_float",
        "instance_accuracy",
    }
    names |= (
        {"error_norm", "active_features", "linesearch_trials"} if algorithm == "lbfgs" else set()
    )
    assert all(names <= set(figures) for figures in log.iterations)
    assert sum(score.ref for score in log.last_iteration["scores"].values()) == 2
    assert "".join(log.log).count("terminated") == (algorithm in ("lbfgs", "l2sgd"))


def test_methods_are_called_for_events(tmp_path, capsys):
    class Mine(ours.Trainer):
        def on_iteration(self, log, info):
            print(info["num"], log.splitlines()[0])

    trainer = Mine("ap", {"max_iterations": 2})
    trainer.append(X[0], Y[0])
    trainer.train(str(tmp_path / "model"))
    shown = capsys.readouterr().out
    assert "type: CRF1d\n" in shown
    assert "Loss" not in shown
    assert "2 ***** Iteration #2 *****\n" in shown


def test_items_are_converted_as_documented():
    seq = ours.ItemSequence(
        [["foo"], {"a": {"b": "c", "d": ["e"]}, "n": -1.5, "t": True, "f": False, "s": b"x"}]
    )
    assert seq.items() == [
        {"foo": 1.0},
        {"a:b:c": 1.0, "a:d:e": 1.0, "n": -1.5, "t": 1.0, "f": 0.0, "s:x": 1.0},
    ]
    assert repr(seq) == "<ItemSequence of size 2>"
    with pytest.raises(TypeError, match="feature 'a': expected a string, number"):
        ours.ItemSequence([{"a": None}])


def test_errors_are_those_of_the_original(tmp_path):
    trainer, tagger = ours.Trainer(verbose=False), ours.Tagger()
    with pytest.raises(ValueError, match="numbers of items and labels differ"):
        trainer.append([{}], ["a", "b"])
    with pytest.raises(ValueError, match="Parameter not found: foo"):
        trainer.set("foo", 1)
    with pytest.raises(ValueError, match="Bad arguments: algorithm='foo'"):
        trainer.select("foo")
    with pytest.raises(ValueError, match="not opened"):
        tagger.labels()
    with pytest.raises(FileNotFoundError):
        tagger.open(str(tmp_path / "none"))
    (tmp_path / "bad").write_bytes(b"lCRF" + b"\1" * 100)
    with pytest.raises(ValueError, match="Error opening"):
        tagger.open(str(tmp_path / "bad"))
    trained(ours, tmp_path / "model")
    with tagger.open(str(tmp_path / "model")):
        tagger.set(X[1])
        with pytest.raises(RuntimeError, match="label identifier: zz"):
            tagger.marginal("zz", 0)
        with pytest.raises(ValueError, match="out of range"):
            tagger.marginal("sunny", 5)
        assert tagger.tag([]) == []
    with pytest.raises(RuntimeError, match="closed"):
        tagger.info()
    with pytest.raises(OSError, match="No such file"):
        trained(ours, tmp_path / "missing" / "model")


def test_dump_is_what_info_says(tmp_path):
    from labelwright.compat.pycrfsuite.tagger import CRFsuiteDumpParser

    trained(ours, tmp_path / "model")
    tagger = opened(ours, tmp_path / "model")
    tagger.dump(str(tmp_path / "dump.txt"))
    parser = CRFsuiteDumpParser()
    for line in (tmp_path / "dump.txt").read_text(encoding="utf-8").splitlines(keepends=True):
        parser.feed(line)
    info = tagger.info()
    assert parser.result.header == info.header
    assert parser.result.attributes == info.attributes
    assert parser.result.state_features == pytest.approx(info.state_features, abs=1e-6)


def test_nothing_to_learn_writes_a_model_without_labels(tmp_path):
    ours.Trainer(verbose=False).train(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="without labels"):
        opened(ours, tmp_path / "model")


def test_replace_and_restore(monkeypatch):
    from labelwright import compat

    for name in [name for name in sys.modules if name.partition(".")[0] in compat.REPLACED]:
        monkeypatch.delitem(sys.modules, name)
    compat.replace()
    import pycrfsuite
    import sklearn_crfsuite
    from pycrfsuite._logparser import TrainLogParser

    assert pycrfsuite.Tagger is ours.Tagger
    assert sklearn_crfsuite.CRF.__module__.startswith("labelwright")
    assert TrainLogParser.__module__.startswith("labelwright")
    compat.restore()
    assert "pycrfsuite" not in sys.modules


def test_negative_values_make_negative_frequencies(tmp_path):
    theirs = pytest.importorskip("pycrfsuite")
    for module, name in ((ours, "ours"), (theirs, "theirs")):
        trainer = module.Trainer("lbfgs", verbose=False)
        for sign in (1.0, -1.5, 0.25):
            trainer.append([{"v": sign, "n": -1.0, "w": "a"}, {"v": -sign, "w": "b"}], ["x", "y"])
        trainer.train(str(tmp_path / name))
    a, b = opened(ours, tmp_path / "ours").info(), opened(theirs, tmp_path / "theirs").info()
    assert set(a.state_features) == set(b.state_features)
    assert ("n", "x") not in a.state_features


def test_names_that_no_file_can_hold_are_refused_before_training(tmp_path):
    for bad in ("a\0b", "\ud800"):
        trainer = ours.Trainer(verbose=False)
        trainer.append([[bad], ["b"]], ["x", "y"])
        with pytest.raises(ValueError, match="cannot hold"):
            trainer.train(str(tmp_path / "model"))


def test_parameters_are_read_as_generously_as_by_the_original():
    trainer = ours.Trainer("lbfgs", {"max_iterations": 1e3, "feature.possible_states": True})
    assert trainer.get("max_iterations") == 1000
    with pytest.raises(TypeError):
        trainer.append([{"a": 1}], ["x"], "group")
    trainer.append([{"a": 1}], [b"x"])
    with pytest.raises(TypeError):
        trainer.append([{"a": None}], ["x"])
