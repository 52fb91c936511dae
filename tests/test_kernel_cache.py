"""Machine code travels: shared and read-only folders are used, folders that others can write are
not."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from labelwright.engine import cache

pytest.importorskip("numba")

pytestmark = pytest.mark.skipif(
    not hasattr(os, "getuid"), reason="owners and permissions are those of POSIX"
)

PROGRAM = """
import numpy as np
from labelwright.kernels import common
heap_, priority, tie = np.zeros(4, np.int64), np.array([1.0, 2.0]), np.array([0, 0])
common.push(priority, tie, heap_, 0, 1)
assert heap_[0] == 1
"""


COMPILING = "labelwright: compiling kernels, once for this version on this machine ..."


@pytest.fixture
def fresh():
    """No folder is remembered, before and after."""
    remembered = (cache.folders, cache.writable_folder, cache._is_trusted)
    for function in remembered:
        function.cache_clear()
    yield
    for function in remembered:
        function.cache_clear()


@pytest.fixture
def places(tmp_path, monkeypatch, fresh):
    """A named cache and a home, both below a folder that nobody else can write."""
    named, home = tmp_path / "named", tmp_path / "home"
    named.mkdir(mode=0o755)
    home.mkdir(mode=0o755)
    monkeypatch.setenv("LABELWRIGHT_CACHE", str(named))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return named, home


def run(**environment):
    """Call one kernel in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**os.environ, "LABELWRIGHT_ENGINE": "compiled", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def files(folder):
    return sorted(path.name for path in folder.rglob("*.kernel"))


@pytest.mark.slow
def test_a_named_folder_is_filled_and_read(places):
    named, home = places
    run()
    stored = files(named)
    assert [name.split("-")[0] for name in stored] == ["common.push"]
    assert {path.stat().st_mode & 0o777 for path in named.rglob("*.kernel")} == {0o644}
    run()
    assert files(named) == stored
    assert files(home) == []


@pytest.mark.slow
def test_damaged_code_is_compiled_again(places):
    run()
    (file,) = places[0].rglob("*.kernel")
    whole = file.read_bytes()
    code, third = cache.read(file), len(whole) // 3
    for damaged in (b"", whole[:20], whole[:third], whole[:-1], whole + b"\0", b"\0" * len(whole)):
        file.write_bytes(damaged)
        assert cache.read(file) is None
    for at in (0, 31, 32, third, 2 * third, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.read(file) is None
    run()
    assert cache.read(file) is not None
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]
    cache.write(file, code)
    assert file.read_bytes() == whole
    run()


@pytest.mark.slow
def test_code_for_every_processor_is_used_on_this_one(places):
    named, home = places
    run(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    stored = files(named)
    run()
    assert files(named) == stored
    assert files(home) == []


def test_what_a_read_only_folder_lacks_is_kept_at_home(places):
    named, home = places
    folder = named / cache.folder_name("x")
    folder.mkdir(mode=0o755)
    assert cache.writable_folder("x") == folder
    if os.getuid() != 0:  # root may write everywhere
        folder.chmod(0o555)
        cache.writable_folder.cache_clear()
        assert cache.writable_folder("x") == home / "labelwright" / cache.folder_name("x")
        assert cache.folders("x") == [folder, home / "labelwright" / cache.folder_name("x")]


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_folder_that_others_can_write_is_refused(places, mode):
    named, home = places
    named.chmod(mode)
    with pytest.warns(
        RuntimeWarning, match=r"code in .*named is not used: others can write .*; run: chmod go-w"
    ):
        folder = cache.writable_folder("x")
    assert folder == home / "labelwright" / cache.folder_name("x")
    assert cache.folders("x") == [folder]


def test_folders_are_made_for_their_readers_whatever_the_umask(tmp_path, monkeypatch, fresh):
    for umask in (0o002, 0o077):
        before = os.umask(umask)
        try:
            for name, trailing in (("a", ""), ("b", "/")):
                named, home = (
                    tmp_path / f"{umask}{name}" / "named",
                    tmp_path / f"{umask}{name}" / "home",
                )
                monkeypatch.setenv("LABELWRIGHT_CACHE", f"{named}{trailing}")
                monkeypatch.setenv("XDG_CACHE_HOME", str(home))
                cache.writable_folder.cache_clear()
                folder = cache.writable_folder("x")
                assert folder.parent == named
                assert folder.stat().st_mode & 0o777 == named.stat().st_mode & 0o777 == 0o755
                monkeypatch.delenv("LABELWRIGHT_CACHE")
                cache.writable_folder.cache_clear()
                folder = cache.writable_folder("x")
                assert folder.parent == home / "labelwright"
                assert (
                    folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
                )
        finally:
            os.umask(before)


@pytest.mark.skipif(
    getattr(os, "getuid", lambda: 0)() != 0, reason="only root can become another user"
)
def test_a_home_that_cannot_be_looked_at_is_passed_over(tmp_path):
    program = (
        "import os\n"
        "from labelwright.engine import cache\n"
        "cache.folder_name('x')\n"  # reads the sources, which may lie in a folder of root's alone
        "os.setuid(4711)\n"
        "print(cache.folders('x'), cache.writable_folder('x').parent)"
    )
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    # everybody can reach it, unlike tmp_path
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        os.chown(temporary, 4711, -1)
        for name in ("HOME", "LABELWRIGHT_CACHE"):
            environment = {
                **os.environ,
                "TMPDIR": temporary,
                "HOME": str(home),
                name: str(home / "below"),
            }
            environment.pop("XDG_CACHE_HOME", None)
            command = [sys.executable, "-c", program]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip().endswith(os.path.join(temporary, "labelwright-4711"))


def test_so_is_one_below_a_folder_that_everybody_can_write(places):
    named, _ = places
    below = named / "a" / "b" / "c"
    below.mkdir(parents=True)
    assert cache.why_unsafe(below) is None
    (named / "a").chmod(0o777)
    assert "others can write" in cache.why_unsafe(below)
    (named / "a").chmod(0o1777)  # with the sticky bit nobody can put another folder in its place
    assert cache.why_unsafe(below) is None
    link = named / "link"
    link.symlink_to(below)
    assert cache.why_unsafe(link) is None
    below.chmod(0o1777)
    assert "others can write" in cache.why_unsafe(below)
    below.chmod(0o755)
    below.parent.chmod(0o775)
    assert "others can write" in cache.why_unsafe(link)


def test_a_folder_of_another_user_is_refused(places, monkeypatch):
    named, _ = places
    monkeypatch.setattr(os, "getuid", lambda: named.stat().st_uid + 1)
    assert (cache.why_unsafe(named) is None) == (named.stat().st_uid == 0)
    if os.geteuid() == 0:
        os.chown(named, 4711, -1)
        assert "belongs to another user (uid 4711)" in cache.why_unsafe(named)


def test_files_that_others_can_write_are_not_read(places):
    named, _ = places
    file = named / "f.kernel"
    cache.write(file, b"code")
    assert cache.read(file) == b"code"
    file.chmod(0o664)
    assert cache.read(file) is None
    assert cache.read(named / "missing") is None


@pytest.mark.slow
def test_a_version_that_was_not_tested_uses_the_cache_of_numba(places, tmp_path):
    program = (
        "import warnings, numba\n"
        "numba.__version__ = '9.9.0'\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    import labelwright.engine.machine as machine\n"
        "assert not machine.OWN_CACHE\n"
        "print([str(w.message) for w in told if 'labelwright' in str(w.message)])\n" + PROGRAM
    )
    environment = {
        **os.environ,
        "LABELWRIGHT_ENGINE": "compiled",
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        "Numba 9.9.0 is not among the tested versions (0.60 to 0.68); kernels are kept by Numba's "
        "own"
    ) in done.stdout
    assert list((tmp_path / "numba").rglob("*.nbi"))
    assert files(places[0]) == []


PROMPT = "sys.ps1 = '>>> '"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (PROMPT, 1),
        ("pass", 0),
        (f"{PROMPT}; sys.stderr.close()", 0),
        (f"{PROMPT}; sys.stderr = None", 0),
    ],
)
def test_somebody_at_a_prompt_is_told_once_that_kernels_are_compiled(places, setting, told):
    program = f"import sys\n{setting}\n{PROGRAM}"
    for lines in (told, 0):  # compiled, then taken from the cache
        environment = {**os.environ, "LABELWRIGHT_ENGINE": "compiled"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, f"{COMPILING}\n" * lines)


def test_a_kernel_has_copies_of_its_own_of_those_that_it_calls(places):
    """Else the copy that a process loads first serves all, and the last bits of sums depend on
    which that is."""
    from llvmlite.binding import Linkage

    from labelwright.engine import machine
    from labelwright.kernels import chain

    kernel, numbers = chain.messages_by_step, np.ones((2, 4), np.float32)
    _ = kernel.dispatcher  # from here on Numba knows what kernels are
    made = machine.dispatcher(kernel.function, kernel.fast, kernel.options)
    messages, scale = (numbers.copy() for _ in range(3)), (np.ones(2, np.float32) for _ in range(2))
    made(numbers, np.ones((1, 16), np.float32), np.array([0, 2]), *messages, *scale)
    (overload,) = made.overloads.values()
    functions = [
        each for each in overload.library._final_module.functions if not each.is_declaration
    ]
    assert not [each.name for each in functions if each.linkage == Linkage.linkonce_odr]
