"""SIGTERM and SIGHUP end training as the first Ctrl-C does; programs around it keep their own
handlers."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from command import COMMAND, one_line

from labelwright import CRF, load, signals
from labelwright.corpus import builtin_corpus, write_columns

pty = pytest.importorskip("pty")
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORD = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
X, Y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"], ["D", "N", "V"]] * 3
FIT = {"n_jobs": 1, "max_iter": 6, "tol": 0}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def at_iteration(n, *sent):
    def progress(record, limit):
        if record["iteration"] == n:
            for number in sent:
                signal.raise_signal(number)

    return progress


@pytest.fixture
def data(tmp_path):
    write_columns(
        builtin_corpus(20, random_state=1, columns=["word", "chunk"]), tmp_path / "train.txt"
    )
    return tmp_path / "train.txt"


@pytest.fixture
def own_handlers():
    """Whatever a test does to the handlers is undone."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("sent", ENDING)
def test_training_on_the_command_line_ends_with_a_model_and_a_checkpoint(
    run, data, tmp_path, monkeypatch, sent
):
    options = [
        "train",
        data,
        "-o",
        tmp_path / "m",
        "--iterations",
        6,
        "--tol",
        0,
        "--checkpoint-every",
        1000,
    ]
    assert run(*options, "-q") == (0, "", "")
    whole = load(tmp_path / "m").weights_
    handlers = {number: signal.getsignal(number) for number in ENDING}
    with monkeypatch.context() as patch:
        patch.setattr(
            "labelwright.learn.monitor.ProgressBar.__call__",
            lambda bar, *given: at_iteration(2, sent)(*given),
        )
        code, out, err = run(*options)
    assert (code, out) == (STATUS[sent], "")
    one_line(
        err,
        f"{WORD[sent]} after 2 iterations; ",
        "m holds the model so far; go on with: labelwright ",
        "--resume",
    )
    assert {number: signal.getsignal(number) for number in ENDING} == handlers
    assert load(tmp_path / "m").training_["stopped"] == "interrupted"
    assert (tmp_path / "m.checkpoint").exists()
    assert run(*options, "--resume", "-q") == (0, "", "")
    np.testing.assert_array_equal(load(tmp_path / "m").weights_, whole)
    assert sorted(os.listdir(tmp_path)) == ["m", "train.txt"]


@pytest.mark.parametrize("sent", ENDING)
def test_a_second_signal_aborts(run, data, tmp_path, monkeypatch, sent):
    twice = at_iteration(2, signal.SIGTERM, sent)
    monkeypatch.setattr(
        "labelwright.learn.monitor.ProgressBar.__call__", lambda bar, *given: twice(*given)
    )
    code, _, err = run("train", data, "-o", tmp_path / "m", "--iterations", 6)
    assert code == STATUS[sent]
    one_line(err, WORD[sent])
    assert os.listdir(tmp_path) == ["train.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("sent", ENDING)
def test_other_commands_end_with_one_line(data, sent):
    with subprocess.Popen(
        [*COMMAND, "convert", "-", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        child.stdin.write(data.read_bytes())
        child.stdin.flush()
        wait_until_it_reads(child.pid)
        child.send_signal(sent)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (STATUS[sent], b"")
    one_line(err.decode(), WORD[sent])


def wait_until_it_reads(pid):
    """Until the process takes care of SIGTERM and waits."""
    deadline = time.monotonic() + 60
    mask, state = 0, ""
    while (not mask >> (signal.SIGTERM - 1) & 1 or state != "S") and time.monotonic() < deadline:
        time.sleep(0.05)
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        mask, state = int(fields["SigCgt"], 16), fields["State"][0]


@pytest.mark.slow
def test_a_terminal_that_is_gone_costs_no_model(data, tmp_path):
    child, terminal = pty.fork()
    if not child:
        command = [
            *COMMAND,
            "train",
            str(data),
            "-o",
            str(tmp_path / "m"),
            "--iterations",
            "100000",
            "--tol",
            "0",
        ]
        os.execv(command[0], [*command, "--checkpoint-every", "0"])
    deadline = time.monotonic() + 60
    while not (tmp_path / "m.checkpoint").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
        os.set_blocking(terminal, False)
        with suppress(BlockingIOError):
            os.read(terminal, 1 << 16)
    os.close(terminal)  # the kernel sends SIGHUP
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    assert load(tmp_path / "m").training_["stopped"] == "interrupted"
    assert (tmp_path / "m.checkpoint").exists()


# -- programs that use labelwright as a library ----------------------------------------------------


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_with_a_handler_keeps_it(tmp_path, own_handlers, sent):
    seen = []
    handler = lambda number, frame: seen.append(number)  # noqa: E731
    signal.signal(sent, handler)
    model = CRF(**FIT).fit(X, Y, progress=at_iteration(2, sent), checkpoint=tmp_path / "c")
    assert seen == [sent]
    assert model.training_["iterations"] == 6
    assert signal.getsignal(sent) is handler


@pytest.mark.parametrize("sent", ENDING)
def test_what_is_ignored_stays_ignored(tmp_path, own_handlers, sent):
    signal.signal(sent, signal.SIG_IGN)  # as nohup does
    model = CRF(**FIT).fit(X, Y, progress=at_iteration(2, sent), checkpoint=tmp_path / "c")
    assert model.training_["iterations"] == 6
    with signals.ending_command():
        signal.raise_signal(sent)
    assert signal.getsignal(sent) == signal.SIG_IGN


PROGRAM = """
import os, signal, sys
from labelwright import CRF
X, Y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"], ["D", "N", "V"]] * 3
send = lambda record, limit: record["iteration"] == 2 and os.kill(os.getpid(), int(sys.argv[2]))
place = {"checkpoint": sys.argv[1]} if sys.argv[1] else {}
CRF(n_jobs=1, max_iter=6, tol=0).fit(X, Y, progress=send, **place)
print("still here")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "checkpoint"), [(signal.SIGTERM, "c"), (signal.SIGHUP, "c"), (signal.SIGTERM, "")]
)
def test_a_program_without_a_handler_ends_after_the_checkpoint(tmp_path, sent, checkpoint):
    place = str(tmp_path / checkpoint) if checkpoint else ""
    command = [sys.executable, "-c", PROGRAM, place, str(int(sent))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-sent, b"")
    assert os.listdir(tmp_path) == ([checkpoint] if checkpoint else [])
    if checkpoint:
        resumed = CRF(**FIT).fit(X, Y, checkpoint=place, resume=True)
        np.testing.assert_array_equal(resumed.weights_, CRF(**FIT).fit(X, Y).weights_)


def test_training_in_a_thread_touches_no_handler(tmp_path):
    before, seen = {number: signal.getsignal(number) for number in ENDING}, []

    def progress(record, limit):
        seen.append({number: signal.getsignal(number) for number in ENDING} == before)

    def train():
        CRF(**FIT).fit(X, Y, progress=progress, checkpoint=tmp_path / "c")
        with signals.ending_command():
            progress(None, None)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(seen) == 8
    assert all(seen)
