"""Two engines, one result: which one runs, and that each NumPy form of a kernel stands for that
kernel."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from threading import Thread

import numpy as np
import pytest

from labelwright import CRF, Corpus, FeatureLattice, LatticeCRF, MemoryBased, MemoryTagger, kernels
from labelwright.engine import choice
from labelwright.errors import LabelwrightError, OptionError
from labelwright.kernels import Kernel, vectorised
from labelwright.kernels.scoring import pool_rows

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="Numba is not installed")


def test_every_numpy_form_has_the_name_and_the_parameters_of_a_kernel():
    parameters = lambda function: list(inspect.signature(function).parameters)  # noqa: E731
    for module in pkgutil.iter_modules(kernels.__path__):
        of_module = vars(importlib.import_module(f"labelwright.kernels.{module.name}"))
        for name, original in of_module.items():
            if isinstance(original, Kernel) and (
                not name.startswith("_") or original.vectorised.__name__ == "_"
            ):
                assert parameters(original.vectorised) == parameters(original.function), (
                    f"{module.name}.{name}"
                )
    for module in pkgutil.iter_modules(vectorised.__path__):
        twins = importlib.import_module(f"labelwright.kernels.vectorised.{module.name}")
        originals = importlib.import_module(f"labelwright.kernels.{module.name}")
        for name, twin in vars(twins).items():
            if (
                inspect.isfunction(twin)
                and twin.__module__ == twins.__name__
                and not name.startswith("_")
            ):
                assert getattr(originals, name).vectorised is twin, (
                    f"vectorised/{module.name}.py: {name} is no kernel"
                )


def run(program, **environment):
    environment = {k: v for k, v in os.environ.items() if k != "LABELWRIGHT_ENGINE"} | environment
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


PROGRAM = """
import sys
from labelwright import CRF
from labelwright.engine import choice
from labelwright.kernels import compiled
%s
print(compiled(), "numba" in sys.modules)
"""


BACKGROUND = "choice.expect(choice.ENOUGH); choice._State.loader and choice._State.loader.join()"


@pytest.mark.slow
@needs_numba
def test_small_requests_are_answered_by_numpy_until_enough_has_come():
    assert run(PROGRAM % "choice.expect(choice.ENOUGH - choice.REQUEST - 1)") == "False False"
    assert run(PROGRAM % BACKGROUND) == "False True"
    assert run(PROGRAM % BACKGROUND, LABELWRIGHT_ENGINE="numpy") == "False False"
    assert run(PROGRAM % "choice.is_own_process(); choice.expect(choice.ENOUGH)") == "True True"
    assert run(PROGRAM % "choice.expect_much()") == "True True"
    assert run(PROGRAM % "choice.expect_much()", LABELWRIGHT_ENGINE="numpy") == "False False"
    assert run(PROGRAM % "choice.expect_much()", NUMBA_DISABLE_JIT="1") == "False False"
    assert run(PROGRAM % "", LABELWRIGHT_ENGINE="compiled") == "True True"


PUSH = """
import os, signal, sys, threading, warnings
import numpy as np
from labelwright.engine import choice
from labelwright.kernels import common as heap
def push():
    heap_, ran = np.zeros(4, np.int64), []
    vectorised = heap.push.vectorised
    heap.push.vectorised = lambda *a: ran.append(1) or vectorised(*a)
    heap.push(np.array([1.0, 2.0]), np.array([0, 0]), heap_, 0, 1)
    heap.push.vectorised = vectorised
    assert heap_[0] == 1
    return "numpy" if ran else "machine code"
def refuse(*_):
    raise AssertionError("compiled in a request")
warnings.simplefilter("always")
"""
SERVED = """
os.chdir(sys.argv[1])
with warnings.catch_warnings(record=True) as told:
    choice.expect(choice.ENOUGH)
    answers = [push()]
    choice._State.loader.join()
    heap.push.dispatcher.compile = refuse
    %s
    answers += [push(), push()]
    choice._State.loader.join()
    answers += [push(), push()]
    choice._State.loader is None or choice._State.loader.join()
print(answers, *[str(w.message) for w in told])
"""

SLOW = "from labelwright.engine import machine; machine.SECONDS = 0.1"
STRANGE = "os.environ['NUMBA_CPU_NAME'] = 'generic'; os.environ['NUMBA_CPU_FEATURES'] = '+nonsense'"


def empty_cache(folder):
    return {name: str(folder) for name in ("XDG_CACHE_HOME", "LOCALAPPDATA")} | {
        "LABELWRIGHT_CACHE": ""
    }


@pytest.mark.cases(1)
@needs_numba
@pytest.mark.parametrize(
    "failure", ["", "os.rmdir(os.getcwd())", "sys.executable = '/usr/sbin/httpd'", SLOW, STRANGE]
)
def test_no_request_compiles_and_a_failure_is_one_warning(tmp_path, failure):
    folder = tmp_path / "working"
    folder.mkdir()
    program = PUSH + SERVED.replace("sys.argv[1]", repr(str(folder))) % failure
    told = run(program, **empty_cache(tmp_path))
    if failure:
        assert told.startswith(str(["numpy"] * 5)), told
        assert told.count("labelwright: no machine code (") == 1
        assert told.endswith("NumPy goes on")
        assert {SLOW: "timed out after 0.1 seconds", STRANGE: "for this processor"}.get(
            failure, ""
        ) in told
    else:
        assert told == str(["numpy"] * 3 + ["machine code"] * 2)


def test_no_request_waits_for_another_while_machine_code_is_loaded(monkeypatch):
    monkeypatch.setattr(choice._State, "loader", Thread())
    with choice._State.starting:
        asking = Thread(target=choice.start_loading, daemon=True)
        asking.start()
        asking.join(10)
        assert not asking.is_alive()


IN_THE_FOREGROUND = """
def fail(*_):
    raise RuntimeError("Failed in nopython mode\\nand so on")
with warnings.catch_warnings(record=True) as told:
    choice.expect_much()
    heap.push.dispatcher.targetctx.refresh = fail
    answers = [push(), push()]
print(answers, *[str(w.message) for w in told])
"""


@needs_numba
@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_a_failure_to_compile_in_a_request_is_one_warning(tmp_path, engine):
    told = run(PUSH + IN_THE_FOREGROUND, **empty_cache(tmp_path), LABELWRIGHT_ENGINE=engine)
    warning = "labelwright: no machine code (Failed in nopython mode); NumPy goes on"
    assert told == f"{['numpy'] * 2} {warning}"


FORKED = """
%s
held, done = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
if os.fork() == 0:
    signal.alarm(60)  # ends a child that waits for ever
    choice.expect(choice.ENOUGH)
    answers = [push(), push()]
    with warnings.catch_warnings(record=True) as told:
        choice.load_wanted()
        choice.expect_much()
    print(answers + [push()], *[str(w.message) for w in told], flush=True)
    os._exit(0)
os.wait()
done.set()
"""


@needs_numba
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("compiles", [True, False])
def test_a_process_forked_while_another_thread_loads_or_compiles_stays_with_numpy(
    tmp_path, compiles
):
    compiling = (
        "choice.expect_much()\nfrom labelwright.engine.machine import global_compiler_lock as lock"
    )
    program = PUSH + FORKED % (compiling if compiles else "lock = choice._State.importing")
    warning = (
        "labelwright: no machine code (this process was forked while its parent loaded it); NumPy "
        "goes on"
    )
    assert run(program, **empty_cache(tmp_path)) == f"{['numpy'] * 3} {warning}"


def test_without_numba_everything_is_numpy():
    hidden = "sys.modules['numba'] = None\nchoice.expect_much()"
    assert run(PROGRAM % hidden).startswith("False")
    wanted = run(PROGRAM % "sys.modules['numba'] = None", LABELWRIGHT_ENGINE="compiled")
    assert "LABELWRIGHT_ENGINE=compiled: Numba" in wanted


ARRAYS, LABELS = [np.eye(3)[:2], np.eye(3)], [["A", "B"], ["A", "B", "A"]]
LATTICE = FeatureLattice([(0, 1, "A", ["a"]), (0, 1, "B", ["b"])])
WORDS = Corpus.from_sequences([["a", "b"], ["c", "a", "b"]]).with_arrays(ARRAYS)


@pytest.mark.parametrize(
    ("tagger", "X", "y", "named"),
    [
        (CRF(max_iter=2), ARRAYS, LABELS, "X: the model reads arrays; give"),
        (MemoryTagger(), ARRAYS, LABELS, "X: the model reads arrays; give"),
        (MemoryBased(), np.eye(3), ["A", "B", "A"], "X: the model reads rows; give"),
        (LatticeCRF(max_iter=2), [LATTICE], [[0]], "X: the model reads lattices; give"),
        (CRF(max_iter=2), WORDS, LABELS, "arrays: the model reads"),
        (MemoryTagger(), [[{"a": "x"}] * len(labels) for labels in LABELS], LABELS, None),
    ],
)
def test_warming_up_names_the_sentences_that_it_needs(tagger, X, y, named):
    tagger.fit(X, y)
    assert tagger.warm_up(X) is tagger
    with pytest.raises(LabelwrightError, match=named) if named else nullcontext():
        tagger.warm_up()


def test_an_unknown_engine_is_refused(monkeypatch):
    monkeypatch.setenv("LABELWRIGHT_ENGINE", "fortran")
    with pytest.raises(OptionError, match="expected one of auto, numpy, compiled, got 'fortran'"):
        choice.chosen()


@needs_numba
def test_asking_for_memory_ahead_changes_nothing():
    rows, owner = (
        np.arange(2400, dtype=np.float32).reshape(100, 24),
        np.arange(99, -1, -1, dtype=np.int32),
    )
    item, ptr, none = np.arange(100, dtype=np.int32), np.arange(101), np.empty(0, np.float32)
    for form in (pool_rows.dispatcher, pool_rows.function, pool_rows.vectorised):
        out = np.zeros_like(rows)
        form(item, ptr, owner, none, rows, out, 0, 100)
        assert (out == rows[::-1]).all()


REFUSED = """
from labelwright import CRF, Perceptron, SemiCRF
X, y = [["the", "dog"], ["a", "bird"]] * 4, [["B-NP", "I-NP"], ["B-NP", "I-NP"]] * 4
CRF(max_iter=1).fit(X, y)
for model in (Perceptron(), CRF(optimizer="sgd"), SemiCRF(), CRF(prune_labels=0.9)):
    try:
        model.fit(X, y)
        print("trained")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("hidden", "engine", "remedy"),
    [
        (
            "import sys; sys.modules['numba'] = None",
            "auto",
            "Numba is not installed; pip install 'labelwright[fast]'",
        ),
        ("", "numpy", "LABELWRIGHT_ENGINE=numpy; unset it"),
    ],
)
def test_training_without_compiled_code_is_refused_in_one_line(hidden, engine, remedy):
    names = (
        "a perceptron",
        "by optimizer='sgd'",
        "a segment model",
        "with pruned labels (prune_labels)",
    )
    lines = run(hidden + REFUSED, LABELWRIGHT_ENGINE=engine).splitlines()
    assert lines == [
        f"OptionError training {name} needs compiled code, but {remedy}" for name in names
    ]
