"""The site: all pages of this repository, with a reference made from docstrings and from the help of the commands.

`make docs` builds it into site/.  The source is the root of the repository, so that links between pages are the same
here and on GitHub.  Whatever does not resolve is an error.
"""

import inspect
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import labelwright
from labelwright.cli import COMMANDS, command_named
from labelwright.taggers import registry

ROOT = Path(__file__).parent.parent

# -- Sphinx -----------------------------------------------------------------------------------------------------------

project, release = "labelwright", labelwright.__version__
copyright = "the labelwright developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md"]
html_theme, html_title = "furo", "labelwright"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
smartquotes_action = "D"  # dashes; quotes stay as they are written
myst_heading_anchors = 4
default_role = "py:obj"  # `decode` in a docstring is a link where there is such a name, else code
nitpicky = True
nitpick_ignore_regex = [("py:(obj|class|data)", ".*")]  # types in signatures, and code in docstrings
autodoc_default_options = {"members": True, "inherited-members": "tuple,list,dict,Exception,object"}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 100
copybutton_prompt_text = ">>> "

# -- navigation -------------------------------------------------------------------------------------------------------

# Headings and the pages under them, in order.  A pattern stands for all pages that are not named; pages that do not
# exist are left out.
NAVIGATION = {
    "Start": ["docs/index", "docs/which_model", "docs/python"],
    "Tasks": [
        *("docs/tasks/ner", "docs/tasks/pos", "docs/tasks/chunking", "docs/tasks/chinese", "docs/tasks/g2p"),
        *("docs/tasks/addresses", "docs/tasks/*"),
    ],
    "Using it": [
        *("docs/probabilities", "docs/templates", "docs/features", "docs/text", "docs/files", "docs/evaluation"),
        *("docs/errors", "docs/explanations", "docs/search", "docs/coming_from", "docs/deployment"),
        *("docs/constraints", "docs/*"),
    ],
    "Taggers": [
        *(
            "docs/latent",
            "docs/many_labels",
            "docs/perceptron",
            "docs/segments",
            "docs/lattices",
            "docs/cascade",
            "docs/memory",
        ),
    ],
    "Behind it": [
        *("docs/glossary", "docs/architecture", "docs/decisions/index", "docs/papers/index"),
        *("docs/benchmarks", "docs/literature"),
        *("CONTRIBUTING", "CHANGELOG", "SECURITY"),
    ],
    "Reference": [
        *("docs/reference/taggers", "docs/reference/answers", "docs/reference/corpus", "docs/reference/evaluate"),
        *("docs/reference/search", "docs/reference/constraints", "docs/reference/errors", "docs/reference/dag"),
        *("docs/reference/interchange", "docs/reference/commands", "docs/reference/*"),
    ],
}
TITLES = {"docs/index": "All pages"}  # of pages whose heading says less beside the others
CHILDREN = {
    "docs/decisions/index": "docs/decisions/0*",
    "docs/papers/index": "docs/papers/[!i]*",
    "docs/reference/taggers": "docs/reference/taggers/*",
}


def navigation() -> dict[str, list[str]]:
    """The pages that exist, by heading."""
    named = {page for pages in NAVIGATION.values() for page in pages}
    return {heading: list(_existing(pages, named)) for heading, pages in NAVIGATION.items()}


def _existing(pages: Sequence[str], named: set[str]) -> Iterator[str]:
    for page in pages:
        found = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob(f"{page}.md"))
        yield from found if page in found else [other for other in found if other not in named]


def _toctree(pages: Sequence[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *map(_entry, pages), "```", ""])


def _entry(page: str) -> str:
    return f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}"


def add_navigation(_app: Any, page: str, source: list[str]) -> None:
    """Give the first page, and pages with children, what Sphinx needs and GitHub would show."""
    if page == root_doc:
        source[0] += "".join(_toctree(pages, heading) for heading, pages in navigation().items() if pages)
    if page in CHILDREN:
        source[0] += _toctree(list(_existing([CHILDREN[page]], set())))
    if page == "docs/reference/commands":
        source[0] += "\n".join(commands())


def add_first_page(app: Any, _error: Exception | None) -> None:
    """Browsers and servers look for index.html."""
    first = Path(app.outdir) / f"{root_doc}.html"
    if first.exists():
        shutil.copy(first, first.with_name("index.html"))


# -- commands ---------------------------------------------------------------------------------------------------------


class Recorder:
    """Takes the headings and rows of a command's help."""

    def __init__(self) -> None:
        self.groups: dict[str, list[tuple[str, str]]] = {}

    @contextmanager
    def section(self, heading: str) -> Iterator[None]:
        self.rows = self.groups.setdefault(heading, [])
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]], **_: Any) -> None:
        self.rows.extend(rows)


def commands() -> Iterator[str]:
    """All commands as Markdown; `train` has also the further options of each tagger."""
    for name, (_, line) in COMMANDS.items():
        yield from (f"\n## {name}\n", line, "")
        command, context, groups = _help(name, ["--help"])
        yield from ("```text", f"labelwright {name} {' '.join(command.collect_usage_pieces(context))}", "```", "")
        yield from (*_described(command.help or ""), *_tables(groups))
        shown = {option for rows in groups.values() for option, _ in rows}
        for tagger in registry.command_line_names() if name == "train" else ():
            yield f"\n### `train --model {tagger}`\n"
            yield from _tables(_help(name, ["--model", tagger, "--help"])[2], shown)


def _help(name: str, given: Sequence[str]) -> tuple[Any, Any, dict[str, list[tuple[str, str]]]]:
    """A command for what it is given, its context, and its options with their help by heading."""
    command = command_named(name, given)
    context = command.make_context(f"labelwright {name}", [], resilient_parsing=True)
    recorder = Recorder()
    command.format_options(context, recorder)
    return command, context, recorder.groups


def _tables(groups: Mapping[str, Sequence[tuple[str, str]]], shown: Collection[str] = ()) -> Iterator[str]:
    """Options with their help, without those that were shown."""
    for heading, rows in groups.items():
        new = [f"| {_code(option)} | {_cell(text)} |" for option, text in rows if option not in shown]
        yield from (f"| {heading} | |", "| --- | --- |", *new, "") if new else ()


def _described(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that begin with \\b keep their lines."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```text", inspect.cleandoc(paragraph.lstrip("\b\n")), "```", "")
        else:
            yield from (_plain(" ".join(paragraph.split())), "")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text whose signs mean nothing in Markdown, except for code."""
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", text) if "`" not in text else text
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<>\[\]{}$\\])", r"\\\1", p) for p in parts)


# -- docstrings -------------------------------------------------------------------------------------------------------

# Methods by which parts of labelwright speak to each other: no part of the reference.
INTERNAL = frozenset(
    """
    answers answers_to_few check_possible edited formula get_metadata_routing n_sequences pack respelled
    set_fit_request unpack weights_
    """.split()  # noqa: SIM905
)
PARAMETER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)")


def skip_internal(_app: Any, _what: str, name: str, _thing: Any, skip: bool, _options: Any) -> bool:
    return skip or name in INTERNAL


def hide_fields(
    _app: Any, what: str, _name: str, thing: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Records show their fields one by one, not as arguments."""
    is_record = what == "class" and (is_dataclass(thing) or hasattr(thing, "_fields"))
    return ("", None) if is_record else (signature, returned)


def to_rst(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings of this repository as reStructuredText: `name : sentence` is a parameter, all else is plain text."""
    lines[:] = _converted([line for line in lines if line.strip() not in ("Parameters", "----------")])


def _converted(lines: Sequence[str]) -> list[str]:
    converted, example, parameter = list[str](), False, False
    for line in lines:
        named = PARAMETER.match(line)
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if example:
            converted.append(line)
        elif named:
            converted += [] if parameter else [""]
            converted += [f":param {name.lstrip('*')}: {_escaped(named[2])}" for name in named[1].split(", ")]
        else:
            converted += ["", _escaped(line)] if parameter and line[:1].strip() else [_escaped(line)]
        parameter = not example and (bool(named) or (parameter and line.startswith(" ")))
    return [*converted, ""]


def _escaped(text: str) -> str:
    """Text whose signs mean nothing in reStructuredText, except for code and the indentation."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*|\\]|_\b|\b_)", r"\\\1", p) for p in parts)


def setup(app: Any) -> None:
    handlers: dict[str, Callable[..., Any]] = {
        "source-read": add_navigation,
        "autodoc-skip-member": skip_internal,
        "autodoc-process-docstring": to_rst,
        "autodoc-process-signature": hide_fields,
        "build-finished": add_first_page,
    }
    for event, handler in handlers.items():
        app.connect(event, handler)
