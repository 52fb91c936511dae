"""The build of the kernels: which compiler, for which processors, into which wheel."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from labelwright.kernels import processor

ROOT = Path(__file__).resolve().parent.parent
OVERRUN = """
import numpy as np
from labelwright.kernels import tables
ptr, items = np.array([0, 1]), np.array([7], np.int32)  # item 7 of 2
tables.invert(ptr, items, np.zeros(3, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int32))
"""


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_build_asks_for_a_compiler_where_there_is_none(build, monkeypatch):
    hook = build.KernelBuilder.__new__(build.KernelBuilder)
    monkeypatch.setattr(build.sys, "platform", "linux")
    monkeypatch.setattr(build.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert hook.dependencies() == []
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert hook.dependencies() == ["ziglang"]


def test_headers_that_are_missing_are_named(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(SystemExit, match=r"Python\.h is missing.*apt-get install python3\.\d+-dev"):
        build.check_headers()


def test_a_wheel_is_portable_and_an_editable_install_is_not(build, monkeypatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    assert build.levels_of("portable") == {"": "x86-64-v2", "v3": "x86-64-v3"}
    assert build.levels_of("native") == {"": "native"}
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    assert build.levels_of("portable") == {"": ""}


def test_sums_are_reordered_only_where_a_kernel_says_so(build):
    for file in sorted((ROOT / "src/labelwright/kernels").glob("[a-z]*.py")):
        says = "may be reordered" in file.read_text(encoding="utf-8")
        assert says == (file.stem in build.REORDERED), file.name
        flags = build.compiler_flags(file.stem, "portable", "")
        assert ("-fassociative-math" in flags) == says


@pytest.mark.skipif(not processor.is_checked(), reason="kernels check no bounds: make boundscheck")
def test_an_index_out_of_bounds_is_an_error():
    done = subprocess.run([sys.executable, "-c", OVERRUN], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Out of bounds on buffer access" in done.stderr
