"""The source files of the package as the tests of its architecture read them."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import labelwright

ROOT = Path(labelwright.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = ["labelwright", *file.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


def name_of(file: Path) -> str:
    """A file as messages name it: its path inside the package."""
    return file.relative_to(ROOT).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below this one, except what stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            for other in child.orelse:
                yield other
                yield from executed(other)
            continue
        yield child
        yield from executed(child)


def imports_of(file: Path) -> Iterator[str]:
    """Modules and names of the package that a file imports anywhere, in functions too."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("labelwright"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            if node.module == "labelwright":
                yield from (f"labelwright.{alias.name}" for alias in node.names)
            elif node.module and node.module.startswith("labelwright."):
                yield node.module


def files_imported(file: Path) -> set[str]:
    """Modules that a file imports when it is loaded or when one of its functions is called."""
    modules = set()
    for node in executed(tree_of(file)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {name if name in MODULES else _home(name) for name in whole}
    return (modules & MODULES.keys()) - {module_of(file)}


def _home(name: str) -> str:
    """The module that a name is imported from; names of the package itself are those of the file
    that has them."""
    module, _, last = name.rpartition(".")
    return labelwright._HOMES.get(last, module) if module == "labelwright" else module


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of more than one module that all reach each other (strongly connected components, by
    Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            start = stack.index(module)
            group = sorted(stack[start:])
            del stack[start:]
            if len(group) > 1:
                groups.append(group)

    for module in graph:
        if module not in number:
            visit(module)
    return groups


def tests_of_kind(file: Path, classes: set[str], names: set[str]) -> Iterator[str]:
    """Expressions that ask which tagger an object is: by class, class name, registered name or what
    it learnt."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            asked = node.args[1]
            inside = {part.id for part in ast.walk(asked) if isinstance(part, ast.Name)}
            inside |= {part.attr for part in ast.walk(asked) if isinstance(part, ast.Attribute)}
            by_class = node.func.id in ("isinstance", "issubclass") and inside & classes
            by_attribute = node.func.id in ("hasattr", "getattr") and isinstance(
                asked, ast.Constant
            )
            if by_class or (by_attribute and _is_learnt(asked.value)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if any(side.startswith("type(") for side in sides) or names & set(_texts(node)):
                yield ast.unparse(node)


def _is_learnt(attribute: object) -> bool:
    """Whether only some trained models have an attribute of this name; all have `training_`."""
    name = str(attribute)
    return name.endswith("_") and not name.endswith("__") and name != "training_"


def _texts(node: ast.AST) -> Iterator[str]:
    return (
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
