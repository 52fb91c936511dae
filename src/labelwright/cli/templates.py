"""labelwright templates: the built-in templates, what they expand to, and mistakes in one's own."""

from typing import Annotated, Any

from labelwright.cli.common import Json, say, show, show_json
from labelwright.cli.options import argument, option
from labelwright.errors import OptionError

MOST_COLUMNS = 100


def command(
    name: Annotated[str | None, argument("A built-in template, or a file with one.", "NAME|FILE")] = None,
    columns: Annotated[
        int | None, option("Input columns of the data, without the label. [default: as few as it needs]", "N")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in templates with a line on when to use each, those of papers apart; or print one for so many
    columns.

    \b
      labelwright templates
      labelwright templates ner --columns 2 > my.tpl
      labelwright templates my.tpl --columns 2

    A file is checked: likely mistakes are told, one on each line of standard error.
    """
    from labelwright.features.builtin import BUILTIN, PAPERS, template

    if columns is not None and not 1 <= columns <= MOST_COLUMNS:
        raise OptionError(f"--columns: expected 1 to {MOST_COLUMNS}, got {columns}")
    if name is None:
        _list({key: each.about for key, each in BUILTIN.items()}, list(PAPERS), as_json)
        return
    n_columns = columns or max(1, template(name, 1, below=True, check=False).n_columns)
    parsed = template(name, n_columns, below=True)
    complaints: list[str] = []
    if name not in BUILTIN:
        from labelwright.features.extract import mistakes

        complaints = mistakes(parsed)
    if as_json:
        about = BUILTIN[name].about if name in BUILTIN else None
        lines: list[dict[str, Any]] = [
            {"line": pattern.line, "name": pattern.name, "text": pattern.text} for pattern in parsed.patterns
        ]
        show_json({"name": parsed.name, "about": about, "columns": n_columns, "lines": lines, "mistakes": complaints})
        return
    show(parsed.text.rstrip("\n"))
    for line in complaints:
        say(f"labelwright: {line}")


def _list(about: dict[str, str], papers: list[str], as_json: bool) -> None:
    """The names of templates, each with its line; those of papers, which come last, apart."""
    if as_json:
        show_json({"templates": about, "papers": papers})
        return
    width = max(map(len, about))
    for name, line in about.items():
        if name == papers[0]:
            show("\nof papers, to compare with them:")
        show(f"{name:{width}}  {line}")
