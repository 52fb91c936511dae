"""Checkpoints: when they are written, what they hold, which files belong to a run."""

import os

import numpy as np
import pytest

from labelwright import CRF, modelfile
from labelwright.errors import ModelFileError, OptionError
from labelwright.learn import monitor as checkpoints
from labelwright.learn.monitor import (
    KEPT,
    LIMIT,
    Checkpoints,
    Monitor,
    checkpoint_files,
    remove_checkpoints,
)

X, Y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"], ["D", "N", "V"]] * 3
WEIGHTS = np.arange(3, dtype=np.float32)


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(checkpoints.time, "monotonic", lambda: self.now)


def test_the_first_one_is_written_after_a_second_and_then_by_the_interval(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    saved, place = [], Checkpoints(tmp_path / "c", every=10.0).of("f")
    for clock.now in np.arange(0, 25, 0.5):
        if place.due():
            saved.append(float(clock.now))
            place.write({"x": WEIGHTS}, {})
    assert saved == [1.0, 11.0, 21.0]
    often = Checkpoints(tmp_path / "d", every=0.5).of("f")
    clock.now += 0.5
    assert often.due()


def test_a_disk_that_fails_is_told_of_once_and_tried_again(tmp_path):
    run = Checkpoints(tmp_path / "c", every=0.0)
    (tmp_path / "c.layer1").mkdir()
    with pytest.warns(
        RuntimeWarning, match=r"c\.layer1: cannot be written: .*; training continues"
    ):
        run.part("layer1").of("f").write({"x": WEIGHTS}, {})
    # without a second warning, which would be an error
    run.part("layer1").of("f").write({"x": WEIGHTS}, {})
    (tmp_path / "c.layer1").rmdir()
    run.part("layer1").of("f").write({"x": WEIGHTS}, {})
    assert [file.name for file in checkpoint_files(tmp_path / "c")] == ["c.layer1"]


def test_a_checkpoint_of_a_version_with_other_last_digits_is_refused(tmp_path, monkeypatch):
    place = Checkpoints(tmp_path / "c").of("f")
    place.write({"x": WEIGHTS}, {})
    assert place.read() is not None
    monkeypatch.setattr(checkpoints, "DIGITS", checkpoints.DIGITS + 1)
    with pytest.raises(ModelFileError, match="written by another version, whose sums have other"):
        place.read()


def test_the_files_of_a_run_are_known_by_their_names(tmp_path):
    own = ["c", "c.2", "c.first12", "c.layer1", "c.layer1.part2", "c.layer2.2"]
    for name in [*own, "c.bak", "c.layer", "c.2.txt", "d", "cc", "c2"]:
        (tmp_path / name).touch()
    assert [file.name for file in checkpoint_files(tmp_path / "c")] == sorted(own)
    assert checkpoint_files(tmp_path / "none" / "c") == []


def test_a_new_run_removes_the_files_of_an_earlier_one_when_it_has_its_own(tmp_path):
    for name in ("c", "c.2", "c.layer1"):
        (tmp_path / name).write_bytes(b"old")
    run = Checkpoints(tmp_path / "c")
    place = run.part("layer2").of("f")
    assert len(os.listdir(tmp_path)) == 3
    place.write({"x": WEIGHTS}, {})
    assert os.listdir(tmp_path) == ["c.layer2"]
    Checkpoints(tmp_path / "c", resume=True).of("f").write({"x": WEIGHTS}, {})
    assert sorted(os.listdir(tmp_path)) == ["c", "c.layer2"]


def test_what_killed_processes_left_of_checkpoints_goes_with_them(tmp_path):
    half, other = tmp_path / ".c.layer1.0123456789ab.part", tmp_path / ".c.bak1.0123456789ab.part"
    for path in (half, other, tmp_path / "c.layer1", tmp_path / "c"):
        path.touch()
    remove_checkpoints(tmp_path / "c")
    assert os.listdir(tmp_path) == [other.name]


def test_resume_needs_a_checkpoint():
    with pytest.raises(OptionError, match="resume: name the checkpoint"):
        CRF().fit(X, Y, resume=True)


# -- what is kept of a finished run ----------------------------------------------------------------


def finished(place, max_iter=3, reason=None):
    """A run of three iterations; how often it was trained."""
    monitor, begun = Monitor(max_iter, -np.inf, checkpoint=place), []

    def optimise(state):
        begun.append(state)
        done = 0 if state is None else int(state["done"])
        while not monitor.stop:
            done += 1
            if reason is not None and done == 3:
                monitor.finish(reason)
            state = {"done": np.array(done)}
            monitor.report(loss=10.0 - done, weights=WEIGHTS, state=lambda now=state: now)
        return WEIGHTS * done

    return monitor.run(optimise, WEIGHTS), begun


@pytest.mark.parametrize("reason", [None, "converged"])
@pytest.mark.parametrize("part", [False, True])
def test_a_finished_run_is_not_trained_again(tmp_path, part, reason):
    def place(resume):
        run = Checkpoints(tmp_path / "c", 0.0, resume)
        return (run.part("layer1") if part else run).of("f")

    weights, begun = finished(place(False), 4 if reason else 3 - 1, reason)
    assert begun == [None]
    state, header = modelfile.read(place(True).path)
    whole = reason is None and not part  # it may be resumed with a higher limit
    assert (KEPT in state, header["finished"]) == (not whole, None if whole else reason or LIMIT)
    again, begun = finished(place(True), 4 if reason else 2, reason)
    assert len(begun) == int(whole)
    np.testing.assert_array_equal(again, weights)


def test_a_part_that_reached_its_limit_begins_anew_with_a_higher_one(tmp_path):
    run = Checkpoints(tmp_path / "c", 0.0)
    finished(run.part("layer1").of("f"), 2)
    again = Checkpoints(tmp_path / "c", 0.0, resume=True).part("layer1")
    weights, begun = finished(again.of("f"), 5)
    assert begun == [None]
    np.testing.assert_array_equal(weights, finished(None, 5)[0])


def test_a_loss_that_is_no_number_is_not_saved(tmp_path):
    monitor = Monitor(9, 0.0, checkpoint=Checkpoints(tmp_path / "c", 0.0).of("f"))

    def optimise(state):
        monitor.report(loss=np.nan, weights=WEIGHTS, state=lambda: {"x": WEIGHTS})
        return WEIGHTS * np.nan

    monitor.run(optimise, WEIGHTS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda state, header: state.update(kept=state["kept"][:-1]),
            "tensor kept: expected float32",
        ),
        (
            lambda state, header: state.update(kept=state["kept"] * np.float32(np.nan)),
            "expected finite numbers",
        ),
        (
            lambda state, header: state.update(kept=np.full_like(state["kept"], 1e35)),
            "finite numbers from -1e.30",
        ),
        (lambda state, header: header.update(finished=None), "why the run ended"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, complaint):
    place = tmp_path / "c"
    CRF(n_jobs=1).fit(X, Y, checkpoint=place, checkpoint_every=0)
    state, header = modelfile.read(place)
    assert list(state) == [KEPT]
    change(state, header)
    modelfile.write(place, state, header)
    with pytest.raises(ModelFileError, match=f"c: .*{complaint}.*; delete it to start again"):
        CRF(n_jobs=1).fit(X, Y, checkpoint=place, resume=True)


def test_what_no_check_has_foreseen_is_one_line_too(tmp_path, monkeypatch):
    def fail(record):
        raise KeyError("two\nlines")

    place = tmp_path / "c"
    CRF(n_jobs=1).fit(X, Y, checkpoint=place, checkpoint_every=0)
    monkeypatch.setattr("labelwright.learn.monitor._read_record", fail)
    with pytest.raises(
        ModelFileError,
        match=r"c: the file does not fit together \(KeyError: .*\); delete it to start",
    ):
        CRF(n_jobs=1).fit(X, Y, checkpoint=place, resume=True)
