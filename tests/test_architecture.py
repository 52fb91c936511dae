"""The shape of the package: one direction, kernels in one place, no prints, and an import that touches nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import labelwright

ROOT = Path(labelwright.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A stage imports only from earlier lines (and from itself).
STAGES = [
    {"errors", "storage"},
    {"kernels"},
    {"modelfile", "parallel"},
    {"corpus"},
    {"structures"},
    {"features"},
    {"scoring", "memory"},
    {"decode", "evaluate"},
    {"rules"},
    {"constraints"},
    {"learn"},
    {"taggers"},
    {"search", "inspection"},
    {"cli", "reproduce", "scale", "serve", "compat"},
    {"__main__"},
]
RANK = {name: i for i, stage in enumerate(STAGES) for name in stage}


def stage_of(module):
    return module.split(".")[1] if "." in module else ""


def module_of(file):
    parts = ["labelwright", *file.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file):
    """Modules of the package that a file imports anywhere."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("labelwright"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            if node.module == "labelwright":
                yield from (f"labelwright.{alias.name}" for alias in node.names)
            elif node.module and node.module.startswith("labelwright."):
                yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_stage_imports_only_earlier_stages(file):
    here = stage_of(module_of(file))
    if not here:  # the package itself only points at names
        return
    assert here in RANK, f"{here}: give this stage its place in STAGES"
    for module in imports_of(file):
        there = stage_of(module)
        if there.startswith("__") or there in ("", here):
            continue
        if there in getattr(labelwright, "__all__", ()) and there not in RANK:
            assert RANK[here] >= RANK["cli"], f"{file.name} imports {there} from the top: name its home"
            continue
        assert RANK[there] < RANK[here], f"{here} imports {there}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_compiled_code_lives_in_kernels_and_prints_in_the_command_line(file):
    here = stage_of(module_of(file))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            whole = [getattr(node, "module", None) or "", *names]
            if here != "kernels":
                assert not any(name.split(".")[0] == "numba" for name in whole), f"{file.name} imports numba"
                assert not {"kernel", "literal_kernel"} & set(names), f"{file.name} takes the decorator of kernels"
            if here not in ("scale", "serve", "compat", "reproduce"):
                if file.name == "ngram.py" and here == "taggers":  # matrices for classifiers of scikit-learn
                    continue
                assert "scipy" not in {name.split(".")[0] for name in whole}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or here == "cli", f"{file.name}:{node.lineno} prints"


@pytest.mark.parametrize("file", [f for f in FILES if "kernels" in f.parts and f.name != "__init__.py"])
def test_kernels_know_nothing_of_the_package(file):
    assert all(module.startswith("labelwright.kernels") for module in imports_of(file))
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            assert [ast.unparse(d) for d in node.decorator_list] in ([], ["kernel"], ["literal_kernel"]), node.name


def run(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_costs_nothing_and_changes_nothing():
    run(
        "import os, sys, signal, threading, warnings, logging\n"
        "def world():\n"
        "    return (dict(os.environ), sys.path[:], list(warnings.filters), signal.getsignal(signal.SIGINT),\n"
        "            threading.active_count(), logging.root.handlers[:], sys.getrecursionlimit())\n"
        "before = world()\n"
        "import labelwright\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'scipy', 'rich', 'typer', 'safetensors', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert world() == before\n"
    )


def test_the_core_loads_neither_scikit_learn_nor_scipy():
    run(
        "import os, sys\n"
        "import numpy\n"
        "before, random = dict(os.environ), numpy.random.get_state()[1].tolist()\n"
        "errors = numpy.geterr()\n"
        "from labelwright import CRF\n"
        "model = CRF(n_jobs=1, max_iter=2).fit([['a', 'b']], [['A', 'B']])\n"
        "model.predict([['a']]), model.predict_nbest([['a']]), repr(model), model.get_params()\n"
        # Numba itself loads scipy.linalg where there is one.
        "heavy = {'sklearn', 'scipy.optimize', 'scipy.sparse', 'pandas', 'rich', 'typer', 'matplotlib'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert dict(os.environ) == before and numpy.geterr() == errors\n"
        "assert numpy.random.get_state()[1].tolist() == random\n"
        "import numba\n"
        "assert numba.config.CACHE_DIR == os.environ.get('NUMBA_CACHE_DIR', '')\n"
    )


def test_every_public_name_can_be_had():
    for name in labelwright.__all__:
        assert getattr(labelwright, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        labelwright.nonsense  # noqa: B018
