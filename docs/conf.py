"""The site: all pages of this repository, a gallery, a notebook of the tutorial, and a reference made from docstrings
and from the help of the commands.

`make docs` builds it into site/.  The source is the root of the repository, so that links between pages are the same
here and where the repository is shown.  Whatever does not resolve is an error.
"""

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import labelwright
from labelwright.cli import COMMANDS, command_named
from labelwright.taggers import registry

ROOT = Path(__file__).parent.parent

# -- Sphinx -----------------------------------------------------------------------------------------------------------

project, release = "labelwright", labelwright.__version__
copyright = "the labelwright developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_gallery.gen_gallery"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "docs/gallery/**.rst"]
exclude_patterns = ["README.md", "docs/examples"]
html_theme, html_title = "furo", "labelwright"
html_static_path, html_css_files = ["static"], ["site.css"]
html_favicon = "static/favicon.svg"
pygments_dark_style = "monokai"  # Furo's own underlines names of modules and classes, as links are
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
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
sphinx_gallery_conf = {
    "examples_dirs": "docs/examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 600,
    "write_computation_times": False,
    "remove_config_comments": True,
}
for address in metadata("labelwright").get_all("Project-URL") or ():  # given in pyproject.toml
    name, _, url = address.partition(", ")
    if name == "Source":
        html_theme_options |= {"source_repository": url, "source_branch": "main", "source_directory": ""}  # type: ignore[dict-item]

# -- navigation -------------------------------------------------------------------------------------------------------

# Headings and the pages under them, in order.  A pattern stands for all pages that are not named; pages that do not
# exist are left out.
NAVIGATION = {
    "Start": ["docs/tutorial", "docs/which_model", "docs/gallery/index", "docs/python", "docs/comparison"],
    "Tasks": [
        *("docs/tasks/ner", "docs/tasks/pos", "docs/tasks/chunking", "docs/tasks/chinese", "docs/tasks/g2p"),
        *("docs/tasks/addresses", "docs/tasks/*"),
    ],
    "Using it": [
        *("docs/text", "docs/files", "docs/templates", "docs/features", "docs/evaluation", "docs/errors"),
        *("docs/explanations", "docs/probabilities", "docs/search", "docs/active_learning", "docs/partial_labels"),
        *("docs/constraints", "docs/*", "docs/deployment", "docs/gpu", "docs/coming_from"),
    ],
    "Taggers": [
        *("docs/latent", "docs/many_labels", "docs/perceptron", "docs/segments", "docs/lattices", "docs/cascade"),
        "docs/memory",
    ],
    "Reference: train": ["docs/reference/taggers", "docs/reference/search"],
    "Reference: ask": [
        *("docs/reference/methods", "docs/reference/answers", "docs/reference/constraints", "docs/reference/dag"),
    ],
    "Reference: look inside": ["docs/reference/evaluate", "docs/reference/explanations", "docs/reference/*"],
    "Reference: files": ["docs/reference/corpus", "docs/reference/interchange", "docs/reference/errors"],
    "Reference: commands": ["docs/reference/commands"],
    "Research notes": [
        *("docs/benchmarks", "docs/research", "docs/papers/index", "docs/literature", "docs/decisions/index"),
    ],
    "The project": ["docs/architecture", "docs/glossary", "CONTRIBUTING", "CHANGELOG", "SECURITY"],
}
TITLES = {"docs/reference/commands": "Commands"}  # of pages whose heading says less beside the others
CHILDREN = {
    "docs/decisions/index": "docs/decisions/0*",
    "docs/papers/index": "docs/papers/[!i]*",
    "docs/reference/taggers": "docs/reference/taggers/*",
    "docs/reference/commands": "docs/reference/commands/*",
}
MADE = {"docs/gallery/index"}  # while the site is built


def navigation() -> dict[str, list[str]]:
    """The pages that exist, by heading."""
    named = {page for pages in NAVIGATION.values() for page in pages}
    return {heading: list(_existing(pages, named)) for heading, pages in NAVIGATION.items()}


def _existing(pages: Sequence[str], named: set[str]) -> Iterator[str]:
    for page in pages:
        paths = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob(f"{page}.md"))
        yield from [page] if page in paths or page in MADE else [path for path in paths if path not in named]


def _toctree(pages: Sequence[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *map(_entry, pages), "```", ""])


def _entry(page: str) -> str:
    return f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}"


def add_navigation(_app: Any, page: str, source: list[str]) -> None:
    """Give the first page, and pages with children, what Sphinx needs and others would show."""
    if page == root_doc:
        pages = {heading: [each for each in pages if each != root_doc] for heading, pages in navigation().items()}
        source[0] += "".join(_toctree(listed, heading) for heading, listed in pages.items() if listed)
    if page in CHILDREN:
        source[0] += _toctree(list(_existing([CHILDREN[page]], set())))
    if page == "docs/tutorial":
        source[0] = source[0].replace("\n\n", "\n\nAlso [as a notebook](tutorial.ipynb).\n\n", 1)
    source[0] = source[0].replace("](../README.md", "](index.md").replace("](../../README.md", "](../index.md")


def add_first_page(app: Any, _error: Exception | None) -> None:
    """Browsers and servers look for index.html."""
    first = f"{root_doc}.html"
    if (Path(app.outdir) / first).exists():
        text = f'<!doctype html><meta charset="utf-8"><title>{project}</title>'
        text += '<link rel="icon" href="_static/favicon.svg">'
        text += f'<meta http-equiv="refresh" content="0; url={first}"><a href="{first}">{project}</a>\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


# -- pages that are made ----------------------------------------------------------------------------------------------


def make_pages(_app: Any, _config: Any) -> None:
    """Write a page for each command, and the notebook of the tutorial, where Sphinx finds them."""
    folder = ROOT / "docs" / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    for name in COMMANDS:
        _write(folder / f"{name}.md", "\n".join([f"# {name}", "", *command_page(name)]))
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    _write(ROOT / "docs" / "tutorial.ipynb", json.dumps(notebook(tutorial), indent=1, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook: blocks that run become cells of code, what they print is left out."""
    cells = list[dict[str, Any]]()
    blocks = r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?"
    for n, piece in enumerate(re.split(blocks, page, flags=re.M | re.S)):
        if n % 3 == 0 and piece.strip():
            text = re.sub(r"\[([^]]+)\]\((?!http)[^)]*\)", r"\1", piece).strip()  # other pages are not beside it
            cells.append({"cell_type": "markdown", "metadata": {}, "source": text})
        if n % 3 == 1:
            language = piece
        if n % 3 == 2:
            code = piece.strip() if language == "python" else f"%%bash\n{piece.strip()}"
            cells.append({"cell_type": "code", "metadata": {}, "source": code, "outputs": [], "execution_count": None})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for n, cell in enumerate(cells):
        cell["id"] = f"cell-{n}"
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


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


def command_page(name: str) -> Iterator[str]:
    """A command as Markdown; `train` has also the further options of each tagger."""
    command, context, groups = _help(name, ["--help"])
    yield from ("```text", f"labelwright {name} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    yield from (*_described(command.help or ""), *_tables(groups))
    shown = {option for rows in groups.values() for option, _ in rows}
    for tagger in registry.command_line_names() if name == "train" else ():
        yield f"\n## `train --model {tagger}`\n"
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
    answers answers_to_few check_possible compares_symbols edited formula get_metadata_routing learns_together
    n_sequences pack respelled set_fit_request unpack weights_
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
        "config-inited": make_pages,
        "source-read": add_navigation,
        "autodoc-skip-member": skip_internal,
        "autodoc-process-docstring": to_rst,
        "autodoc-process-signature": hide_fields,
        "build-finished": add_first_page,
    }
    for event, handler in handlers.items():
        app.connect(event, handler)
