"""The shape of the package: one direction, kernels in one place, no prints, and an import that
touches nothing."""

import ast
import importlib
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import sources
from sources import FILES, MODULES, imports_of, module_of, name_of

import labelwright
from labelwright.taggers import registry

# A stage imports only from earlier lines (and from itself).
STAGES = [
    {"errors", "pages", "signals", "storage", "wording"},
    {"parallel"},
    {"settings", "hub", "arrays"},
    {"kernels"},
    {"modelfile"},
    {"corpus"},
    {"structures"},
    {"features"},
    {"scoring", "memory"},
    {"decode", "evaluate"},
    {"rules"},
    {"constraints", "answers"},
    {"learn", "inspection"},
    {"device"},
    {"taggers"},
    {"scale"},
    {"search", "interchange"},
    {"active"},
    {"reproduce"},
    {"serve"},
    {"cli", "compat"},
    {"__main__"},
]
RANK = {name: i for i, stage in enumerate(STAGES) for name in stage}

# these ask for no kind of tagger
SETTINGS_OF_THE_SAME_NAME = {"parameters['update'] != 'perceptron'"}

# Two files of one name: a kernel file is named like its caller; the others are listed here.
SHARED_NAMES = {  # segments have features and learning of their own
    "chains": {"answers", "interchange"},
    "errors": {"errors", "evaluate"},  # of labels, and exceptions
    "lattice": {"cli", "structures"},
    "perceptron": {"learn", "taggers"},
    "segments": {"features", "learn", "structures"},
}

DEEPEST = 4  # of our classes from an estimator to `object`


def stage_of(module):
    return module.split(".")[1] if "." in module else ""


def test_no_estimator_is_deeper_than_four_classes():
    for place in (*registry.TAGGERS.values(), *registry.CLASSIFIERS.values()):
        module, _, name = place.partition(":")
        assert _depth(getattr(importlib.import_module(module), name)) <= DEEPEST, name


def _depth(kind):
    ours = [base for base in kind.__bases__ if base.__module__.startswith("labelwright")]
    return 1 + max(map(_depth, ours), default=0)


@pytest.mark.parametrize("file", FILES, ids=name_of)
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
            assert RANK[here] >= RANK["reproduce"], (
                f"{file.name} imports {there} from the top: name its home"
            )
            continue
        assert RANK[there] < RANK[here], f"{here} imports {there}"


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions count; imports for type checkers do not."""
    graph = {module: sources.files_imported(file) for module, file in MODULES.items()}
    groups = sources.circles(graph)
    edges = [
        f"{module} -> {other}"
        for group in groups
        for module in group
        for other in sorted(graph[module] & set(group))
    ]
    assert not groups, "circles of imports:\n" + "\n".join(edges)


def test_only_taggers_know_the_kind_of_a_tagger():
    """The command line, searches and inspection ask what a tagger can do, not what it is."""
    classes = set(registry.class_names())
    for file in FILES:
        if stage_of(module_of(file)) == "taggers":
            classes |= {
                node.name
                for node in ast.walk(sources.tree_of(file))
                if isinstance(node, ast.ClassDef)
            }
    tests = defaultdict(set)
    for file in FILES:
        if stage_of(module_of(file)) in ("cli", "search", "inspection"):
            for expression in sources.tests_of_kind(file, classes, set(registry.tagger_names())):
                if expression not in SETTINGS_OF_THE_SAME_NAME:
                    tests[name_of(file)].add(expression)
    assert not tests, f"tests of the kind of tagger: {dict(tests)}"


def test_a_name_of_a_file_means_one_thing():
    folders = defaultdict(set)
    for file in FILES:
        if (
            file.name not in ("__init__.py", "__main__.py")
            and stage_of(module_of(file)) != "kernels"
        ):
            folders[file.stem].add(stage_of(module_of(file)))
    assert {name: rooms for name, rooms in folders.items() if len(rooms) > 1} == SHARED_NAMES


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_only_the_command_line_prints_and_the_core_needs_no_scipy(file):
    here = stage_of(module_of(file))
    for node in ast.walk(sources.tree_of(file)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            whole = [getattr(node, "module", None) or "", *names]
            if here not in ("scale", "serve", "compat", "reproduce"):
                # matrices for classifiers of scikit-learn
                if file.name == "ngram.py" and here == "taggers":
                    continue
                assert "scipy" not in {name.split(".")[0] for name in whole}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or here in ("cli", "compat"), (
                f"{file.name}:{node.lineno} prints"
            )


KERNELS = sorted(Path(labelwright.__file__).parent.glob("kernels/*.py"))
KERNELS = [file for file in KERNELS if file.name != "__init__.py"]


@pytest.mark.parametrize("file", KERNELS, ids=name_of)
def test_a_kernel_is_compiled_and_knows_nothing_of_the_package(file):
    module = importlib.import_module(module_of(file))
    assert not module.__file__.endswith(".py"), f"{file.name} runs uncompiled: run make"
    assert file.with_suffix(".pxd").exists()
    for node in ast.walk(sources.tree_of(file)):
        if isinstance(node, ast.ImportFrom):
            known = "cython.cimports.libc.", "cython.cimports.labelwright.kernels."
            assert node.module.startswith(known), f"{file.name} imports {node.module}"


def test_compiled_code_lives_in_kernels():
    root = Path(labelwright.__file__).parent
    assert {file.parent for file in root.rglob("*.pxd")} == {root / "kernels"}


def run(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_costs_nothing_and_changes_nothing():
    run(
        "import os, sys, signal, threading, warnings, logging\n"
        "def world():\n"
        "    return (dict(os.environ), sys.path[:], list(warnings.filters), "
        "signal.getsignal(signal.SIGINT),\n"
        "            threading.active_count(), logging.root.handlers[:], sys.getrecursionlimit())\n"
        "before = world()\n"
        "import labelwright\n"
        "heavy = {'numpy', 'sklearn', 'scipy', 'rich', 'typer', 'safetensors', 'pandas'} "
        "& set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert world() == before\n"
    )


@pytest.mark.slow
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
        "heavy = {'sklearn', 'scipy.optimize', 'scipy.sparse', 'pandas', 'rich', 'typer', "
        "'matplotlib'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert dict(os.environ) == before and numpy.geterr() == errors\n"
        "assert numpy.random.get_state()[1].tolist() == random\n"
    )


def test_every_public_name_can_be_had():
    for name in labelwright.__all__:
        assert getattr(labelwright, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        labelwright.nonsense  # noqa: B018


def test_fit_and_predict_pass_the_files_that_the_documentation_names():
    page = Path(__file__, "../../docs/architecture.md").resolve().read_text(encoding="utf-8")
    _, fit, predict = page.partition("## One sentence")[2].partition("\n## ")[0].split("(X")
    named = [re.findall(r"`(\w+/\w+\.py)`", part) for part in (fit, predict)]
    X, y = [["the", "dog", "barks"]], [["B", "I", "O"]]
    model, of_fit = _files_passed(lambda: labelwright.CRF(max_iter=3, n_jobs=1).fit(X, y))
    _, of_predict = _files_passed(lambda: model.predict(X))
    assert all(named)
    assert set(named[0]) <= of_fit
    assert set(named[1]) <= of_predict


def _files_passed(call):
    """What a call returns, and the files whose functions it calls."""
    root, passed = f"{labelwright.__path__[0]}/", set()

    def note(frame, event, argument):
        if frame.f_code.co_filename.startswith(root):
            passed.add(frame.f_code.co_filename.removeprefix(root))

    sys.setprofile(note)
    try:
        return call(), passed
    finally:
        sys.setprofile(None)
