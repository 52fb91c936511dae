"""The reference: every public name has a place in it, and a docstring that describes all its
parameters.

No documentation tool is needed here; `make docs` builds the pages.
"""

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import labelwright
from labelwright.settings import Help, settings_of
from labelwright.taggers import registry

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "reference").rglob("*.md"))
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data|exception):: ([\w.]+)$", re.M)
MODULES = ("", ".corpus", ".evaluate", ".search", ".constraints")  # that have __all__
BESIDE = {"__version__"}  # names that need no entry
HELPFUL = 3  # words of a docstring that says something
MOST_NAMES = 45  # of a fitted CRF beside its settings


def load_configuration() -> ModuleType:
    """docs/conf.py, which needs no Sphinx until it is asked to set it up."""
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs" / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONF = load_configuration()


def named(path: str) -> Any:
    """What a dotted path names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


ENTRIES = [path for page in PAGES for path in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
CLASSES = [path for path in ENTRIES if inspect.isclass(named(path))]
FUNCTIONS = [path for path in ENTRIES if inspect.isfunction(named(path))]


def parameters_of(thing: Callable[..., Any]) -> list[str]:
    """The names of the parameters that a caller gives."""
    return [
        p.name
        for p in inspect.signature(thing).parameters.values()
        if p.name not in ("self", "cls")
    ]


def described_in(text: str) -> set[str]:
    """The parameters that a docstring describes, as in `X, y : the sentences and their labels`."""
    matches = (CONF.PARAMETER.match(line) for line in inspect.cleandoc(text).splitlines())
    return {name.strip("* ") for match in matches if match for name in match[1].split(",")}


@cache
def fields_of(kind: type[Any]) -> set[str]:
    """The fields of a record that have a comment `#: what it is`."""
    return {
        name
        for base in kind.__mro__
        if base.__module__.startswith("labelwright")
        for name in _commented(base)
    }


def _commented(kind: type[Any]) -> list[str]:
    source = inspect.getsource(kind)
    beside = re.findall(r"^    (\w+): .*#: \S", source, re.M)
    above = re.findall(r"^    #: \S.*\n(?:    #: .*\n)*    (\w+): ", source, re.M)
    return beside + above


def members_of(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that labelwright wrote, without those by which its parts speak
    to each other."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        ours = (getattr(function, "__module__", None) or "").startswith("labelwright")
        if (
            not name.startswith("_")
            and name not in CONF.INTERNAL
            and inspect.isfunction(function)
            and ours
        ):
            yield name, getattr(kind, name)


def check_docstring(place: str, thing: Any, described: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """Refuse a thing without a docstring, or one with parameters that it does not describe."""
    text = inspect.getdoc(thing) or ""
    assert len(text.split()) >= HELPFUL, f"{place}: has no docstring"
    if callable(thing):
        missing = set(parameters_of(thing)) - described_in(text) - described
        assert not missing, (
            f"{place}: describe {', '.join(sorted(missing))} as in `name : what it is`"
        )


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    written = {path.rpartition(".")[2] for path in ENTRIES}
    public = importlib.import_module(f"labelwright{module}").__all__
    assert not set(public) - written - BESIDE, "give it a place in docs/reference"


@pytest.mark.parametrize("path", FUNCTIONS)
def test_every_function_is_described(path: str) -> None:
    check_docstring(path, named(path))


@pytest.mark.parametrize("path", CLASSES)
def test_every_class_is_described(path: str) -> None:
    kind = named(path)
    if issubclass(kind, Exception):
        assert kind.__doc__, path
        return
    check_docstring(path, kind, fields_of(kind))
    for name, member in members_of(kind):
        check_docstring(f"{path}.{name}", member)


@pytest.mark.parametrize("name", registry.tagger_names())
def test_settings_in_the_reference_are_those_of_train(name: str) -> None:
    kind = registry.model_class(name)
    text = " ".join((kind.__doc__ or "").split())
    for setting in settings_of(kind).values():
        assert setting.marker(Help) is not None, setting.name
        assert f"{setting.name} : {' '.join(setting.help.split())}" in text


def test_what_tab_completion_shows_of_a_tagger_is_grouped_in_the_reference() -> None:
    tagger = labelwright.CRF(max_iter=1, n_jobs=1).fit([["a", "b"]], [["X", "Y"]])
    shown = {name for name in dir(tagger) if not name.startswith("_")} - set(tagger.get_params())
    page = (
        (ROOT / "docs" / "reference" / "taggers.md")
        .read_text(encoding="utf-8")
        .partition("## Methods and attributes")[2]
    )
    rows = [line for line in page.splitlines() if line.startswith("|")]
    named = re.findall(r"`(\w+)`", "\n".join(rows))
    assert sorted(named) == sorted(shown - CONF.INTERNAL)
    assert len(shown) <= MOST_NAMES


def test_internal_names_exist() -> None:
    kinds = [named(path) for path in CLASSES]
    for name in CONF.INTERNAL:
        assert any(
            hasattr(kind, name) or name in getattr(kind, "__annotations__", ()) for kind in kinds
        ), name


def test_every_page_is_in_the_navigation() -> None:
    listed = [page for pages in CONF.navigation().values() for page in pages]
    assert len(listed) == len(set(listed))
    children = [path for pattern in CONF.CHILDREN.values() for path in ROOT.glob(f"{pattern}.md")]
    pages = set((ROOT / "docs").rglob("*.md")) - set(children)
    assert {ROOT / f"{page}.md" for page in listed} >= pages


def test_a_command_and_its_options_are_a_page_of_the_reference() -> None:
    train = "\n".join(CONF.command_page("train"))
    assert train.startswith("```text\nlabelwright train [OPTIONS] TRAIN\n```\n")
    assert "| `--template NAME\\|FILE` |" in train
    assert train.index("\n## `train --model perceptron`\n") < train.index(
        "| `--aggressiveness C` |"
    )
    assert "| `--decoder NAME` |" in "\n".join(CONF.command_page("tag"))


def test_a_page_becomes_a_notebook() -> None:
    page = (
        "# A [page](a.md)\n\n```sh\nls\n```\n\n```text\na.md\n```\n\nThen:\n\n```python\n1 + 1\n"
        "```\n"
    )
    cells = [(cell["cell_type"], cell["source"]) for cell in CONF.notebook(page)["cells"]]
    code = [("code", "%%bash\nls"), ("markdown", "Then:"), ("code", "1 + 1")]
    assert cells == [("markdown", "# A page"), *code]


def test_every_method_is_described_once() -> None:
    """On the page of methods, or on that of the tagger that adds or changes it."""
    page = (ROOT / "docs" / "reference" / "methods.md").read_text(encoding="utf-8")
    described = re.findall(r"^\.\. auto(?:method|attribute):: labelwright\.\w+\.(\w+)$", page, re.M)
    assert len(described) == len(set(described))
    inherited = {
        name for kind in (labelwright.CRF, labelwright.Perceptron) for name, _ in members_of(kind)
    }
    assert set(described) == inherited


def test_docstrings_become_field_lists() -> None:
    lines = [
        "Score y_true *now*.",
        "",
        "X : the sentences",
        "    of a file",
        "y, z : `labels_`",
        "",
        ">>> f_(x)",
        "1",
    ]
    assert CONF._converted(lines) == [
        "Score y_true \\*now\\*.",
        "",
        "",
        ":param X: the sentences",
        "    of a file",
        ":param y: `labels_`",
        ":param z: `labels_`",
        "",
        ">>> f_(x)",
        "1",
        "",
    ]
