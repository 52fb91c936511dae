"""labelwright lattice: train, find paths, score; every mistake is one line."""

import json

import pytest

import labelwright

TRAIN = [
    {"arcs": [[0, 1, "w", ["a"]], [1, 2, "w", ["b"]], [0, 2, "w", ["ab"]]], "path": [2]},
    {
        "arcs": [[0, 1, "w", ["a"]], [1, 2, "w", ["c"]], [0, 2, "w", ["ac"]]],
        "path": [[0, 1, "w"], [1, 2, "w"]],
    },
]


@pytest.fixture
def files(tmp_path, run):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, TRAIN)) + "\n")
    (tmp_path / "new.jsonl").write_text(
        '{"id": 7,  "arcs": [[0, 1, "w", ["a"]], [1, 2, "w", ["c"]]]}\n'
    )
    status, out, err = run(
        "lattice", tmp_path / "train.jsonl", "-o", tmp_path / "m", "--l2", "0.1", "--threads", 1
    )
    assert (status, out) == (0, "")
    assert "m: 5 weights, 5 features, 1 label; 2 lattices" in err
    return tmp_path


def test_paths_are_added_to_the_lines(files, run):
    model = labelwright.load(files / "m")
    assert (model.l2, model.n_jobs) == (0.1, None)
    status, out, err = run(
        "lattice", files / "train.jsonl", "--model", files / "m", "--nbest", 2, "--probabilities"
    )
    assert (status, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert first["best"] == [[0, 2, "w"]]
    assert second["best_arcs"] == [0, 1]
    X, _ = labelwright.read_lattices(files / "train.jsonl")
    expected = model.predict_marginals(X)
    assert first["probabilities"] == pytest.approx(expected[0])
    assert second["probabilities"] == pytest.approx(expected[1])
    assert sum(path["probability"] for path in first["nbest"]) == pytest.approx(1)
    run("lattice", files / "new.jsonl", "--model", files / "m", "-o", files / "out.jsonl")
    assert (files / "out.jsonl").read_text().startswith('{"id": 7,  "arcs": ')
    assert run("inspect", files / "m")[0] == 0


def test_scores(files, run):
    status, out, err = run("lattice", files / "train.jsonl", "--model", files / "m", "--score")
    assert (status, err) == (0, "")
    assert "micro average" in out
    report = json.loads(
        run("lattice", files / "train.jsonl", "--model", files / "m", "--score", "--json")[1]
    )
    assert report["chunks"]["f1"] == 1


def test_scores_of_a_lattice_with_a_large_gap_between_nodes(files, run):
    (files / "far.jsonl").write_text('{"arcs": [[0, 2000000000, "w"]], "path": [0]}\n')
    report = json.loads(
        run("lattice", files / "far.jsonl", "--model", files / "m", "--score", "--json")[1]
    )
    assert report["chunks"]["f1"] == 1


def test_development_data_and_a_smaller_model(files, run):
    train = files / "train.jsonl"
    assert run("lattice", train, "-o", files / "n", "--dev", train, "-q", "--iterations", 3) == (
        0,
        "",
        "",
    )
    assert labelwright.load(files / "n").training_["best_dev"] == 1
    assert run("export", files / "m", files / "s", "--bits", 8)[0] == 0
    X, y = labelwright.read_lattices(train)
    assert labelwright.load(files / "s").score(X, y) == 1


def test_other_commands_and_other_models(files, run, tmp_path):
    (tmp_path / "words.txt").write_text("a A\nb B\n")
    assert "trained on feature lattices" in run("tag", files / "m", tmp_path / "words.txt")[2]
    labelwright.CRF(max_iter=1, n_jobs=1).fit([["a", "b"]], [["A", "B"]]).save(tmp_path / "crf")
    assert (
        "expected a LatticeCRF, got a CRF"
        in run("lattice", files / "new.jsonl", "--model", tmp_path / "crf")[2]
    )
