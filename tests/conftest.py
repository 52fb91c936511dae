"""What all tests share: drawn examples, small corpora, where the large ones are.  See README.md in
this folder."""

import io
import os
import signal
import sys
from pathlib import Path

import drawn
import pytest

# no doctests in these, and two modules of one name cannot both be imported
collect_ignore_glob = ["*conftest.py"]

drawn.load_profile()

# as in the background of a script; some tests send it
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# as under nohup
if getattr(signal, "SIGHUP", None) and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

try:
    import ortools  # noqa: F401
except ImportError:  # no wheels for the newest Python
    from labelwright.rules import lattices, solver

    lattices.cp_sat = solver.cp_sat = lambda: pytest.skip("OR-Tools is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of tests marked `cases(n)` all but n cases, taken evenly, are slow."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one_test in cases.values():
        mark = of_one_test[0].get_closest_marker("cases")
        if mark is not None:
            kept = {
                round(i * (len(of_one_test) - 1) / max(1, mark.args[0] - 1))
                for i in range(mark.args[0])
            }
            for place, item in enumerate(of_one_test):
                if place not in kept:
                    item.add_marker("slow")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of corpora that LABELWRIGHT_CORPORA names; without it the tests that ask for it
    are skipped."""
    folder = os.environ.get("LABELWRIGHT_CORPORA")
    if not folder:
        pytest.skip("LABELWRIGHT_CORPORA is not set: tests on real corpora are skipped")
    return Path(folder)


@pytest.fixture(scope="session")
def chunks():
    """Some hundred generated sentences with words, tags and chunks."""
    from labelwright.corpus import builtin_corpus

    return builtin_corpus(n_sentences=150, random_state=1)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command in this process: (exit code, stdout, stderr)."""
    from labelwright.cli import main

    def runner(*arguments: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        before = sys.stdin
        if stdin is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
        try:
            code = main([str(a) for a in arguments])
        finally:
            sys.stdin = before
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return runner


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, dev.txt, test.txt (word, pos, chunk), words.txt (word, pos) and a
    model."""
    from labelwright.cli import main
    from labelwright.corpus import builtin_corpus, write_columns

    folder = tmp_path_factory.mktemp("cli")
    corpus = builtin_corpus(300, random_state=3, columns=["word", "pos", "chunk"])
    for name, part in {
        "train": slice(0, 200),
        "dev": slice(200, 250),
        "test": slice(250, 300),
    }.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    write_columns(corpus.take(slice(250, 300)).select(["word", "pos"]), folder / "words.txt")
    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "crf",
        "--columns",
        "word,pos,chunk",
        "-q",
    ]
    assert main([str(a) for a in arguments]) == 0
    return folder
