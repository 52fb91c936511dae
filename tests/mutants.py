"""Do the tests notice small mistakes?  Changes one function in one place at a time and runs the
tests that call it.

python tests/mutants.py [--root CHECKOUT] [--mutants 100] [--seed 0] [--seconds 40]

Each test of the packages and of the taggers runs once to learn which functions it calls.  A mutant
gets the tests that call the changed function, those of its own package and the fastest first, then
the other tests of their files, so many seconds of CPU time in all.  It is killed when a test fails
or takes far too long.  Nothing is written to the checkout.
"""

import argparse
import ast
import gc
import itertools
import json
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import defaultdict
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

PACKAGES = ("structures", "learn", "decode", "answers")
SWAPPED = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}
SWAPPED |= {ast.Add: ast.Sub, ast.And: ast.Or}
SWAPPED |= {new: old for old, new in SWAPPED.items()}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
# messages, annotations, what runs at definition
HIDDEN = (ast.JoinedStr, ast.Raise, ast.arguments, ast.AnnAssign)


def changes(node):
    """(kind, expression, what stands in its place) for all that can be changed at a node."""
    new = deepcopy(node)
    match new:
        case ast.Compare(ops=[operator, *_]):
            new.ops[0] = SWAPPED[type(operator)]()
            yield "comparison", node, new
        case ast.BinOp(op=ast.Add() | ast.Sub()) | ast.BoolOp():
            new.op = SWAPPED[type(new.op)]()
            yield "sum" if isinstance(new, ast.BinOp) else "and, or", node, new
        case ast.Constant(value=bool() | int() | float() as value):
            yield (
                "constant",
                node,
                ast.Constant(not value if isinstance(value, bool) else value + 1),
            )
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, new.operand
        case ast.Name(id=name) if name in EXTREMES:
            yield "extreme", node, ast.Name(EXTREMES[name])
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "returned value", node.value, ast.Constant(None)
        case ast.Slice():
            for end in filter(None, (node.lower, node.upper)):
                yield "slice", end, ast.BinOp(end, ast.Add(), ast.Constant(1))


def mutants(path):
    """(kind, path, line and name of the function, line of the change, the change, all of the new
    text)."""
    text = path.read_bytes()
    starts = [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]

    def visit(node, function):
        for kind, old, new in changes(node) if function else ():
            begin, end = (
                starts[old.lineno - 1] + old.col_offset,
                starts[old.end_lineno - 1] + old.end_col_offset,
            )
            shown = f"{' '.join(text[begin:end].decode().split())} -> {ast.unparse(new)}"
            yield (
                kind,
                path,
                function,
                old.lineno,
                shown,
                text[:begin] + f"({ast.unparse(new)})".encode() + text[end:],
            )
        if isinstance(node, ast.FunctionDef) and function is None:
            function = min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.name
        for child in node.body if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node):
            if not isinstance(child, HIDDEN):
                yield from visit(child, function)

    return visit(ast.parse(text), None)


def drawn(asked, functions):
    """So many mutants of all packages, as many of each kind as there are."""
    kinds, source = defaultdict(list), asked.root.resolve() / "src/labelwright"
    for path in sorted(path for package in PACKAGES for path in (source / package).glob("*.py")):
        for mutant in mutants(path):
            if (str(path), mutant[2][0]) in functions:
                kinds[mutant[0]].append(mutant)
    for kind, of_kind in kinds.items():
        random.Random(f"{asked.seed} {kind}").shuffle(of_kind)
    in_turn = itertools.chain.from_iterable(
        itertools.zip_longest(*(kinds[kind] for kind in sorted(kinds)))
    )
    return itertools.islice(filter(None, in_turn), asked.mutants)


def code_at(code, function):
    """The code of a function (line, name), in that of its module."""
    for part in (part for part in code.co_consts if isinstance(part, CodeType)):
        if (
            inner := part
            if (part.co_firstlineno, part.co_name) == function
            else code_at(part, function)
        ):
            return inner
    return None


def status_of(work):
    """Do something in a process of its own: 0 where it ends well."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def record(items, path):
    """Run all tests, and write for each that passes: its name, its CPU time, the functions that it
    calls."""
    with open(path, "w", encoding="utf-8") as file:
        for item in items:
            called, begin = set(), time.process_time()

            def note(frame, event, argument, called=called):
                called.add(f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}")

            sys.settrace(note)
            threading.settrace(note)
            reports = runtestprotocol(item, log=False, nextitem=None)
            sys.settrace(None)
            threading.settrace(None)
            if not any(report.failed for report in reports):
                own = [function for function in called if "/src/labelwright/" in function]
                file.write(json.dumps([item.nodeid, time.process_time() - begin, own]) + "\n")
    return 0


def chosen(package, function, calls, seconds):
    """The names of the tests for a mutant of a function, as the docstring above says."""
    files = {name.partition("::")[0] for name, _, called in calls if function in called}
    wanted = [call for call in calls if call[0].partition("::")[0] in files]
    wanted.sort(
        key=lambda call: (function not in call[2], f"tests/{package}/" not in call[0], call[1])
    )
    totals = itertools.accumulate(cost for _, cost, _ in wanted)
    return [name for (name, _, _), total in zip(wanted, totals, strict=True) if total < seconds]


def run_mutant(functions, code, tests, seconds):
    """Run tests on a mutant; 1 as soon as one fails."""
    resource.setrlimit(resource.RLIMIT_CPU, (60 + 2 * seconds,) * 2)
    for function in functions:
        function.__code__ = code
    pairs = zip(tests, [*tests[1:], None], strict=True)
    return int(
        any(
            report.failed for test, after in pairs for report in runtestprotocol(test, False, after)
        )
    )


class Mutants:
    """The plugin that runs mutants in the place of tests."""

    def __init__(self, asked):
        self.asked = asked

    def pytest_runtestloop(self, session):
        items, seconds = {item.nodeid: item for item in session.items}, self.asked.seconds
        with tempfile.TemporaryDirectory() as folder:
            status_of(lambda: record(session.items, f"{folder}/calls"))
            calls = [
                json.loads(line) for line in Path(folder, "calls").read_text("utf-8").splitlines()
            ]
        functions, n_survived = defaultdict(list), 0
        for function in (each for each in gc.get_objects() if isinstance(each, FunctionType)):
            functions[function.__code__.co_filename, function.__code__.co_firstlineno].append(
                function
            )
        for kind, path, function, line, change, text in drawn(self.asked, functions):
            tests = [
                items[name]
                for name in chosen(path.parent.name, f"{path}:{function[0]}", calls, seconds)
            ]
            code = code_at(compile(text, str(path), "exec"), function)
            work = partial(run_mutant, functions[str(path), function[0]], code, tests, seconds)
            if not tests or status_of(work) == 0:
                n_survived += 1
                print(f"{path}:{line}: {kind}: {change} ({len(tests)} tests)", flush=True)
        print(f"{n_survived} of {self.asked.mutants} survived")
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    for name, default in {"mutants": 100, "seed": 0, "seconds": 40}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    os.chdir(asked.root)
    options = [
        "-n0",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "-m",
        "not slow and not corpora",
    ]
    pytest.main(
        [*options, *(f"tests/{name}" for name in (*PACKAGES, "taggers"))], plugins=[Mutants(asked)]
    )


if __name__ == "__main__":
    main()
