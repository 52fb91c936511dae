"""Taggers in one file: the program (exported_tagger.py, .js, .html) and, as base64 text in it, the
model.

    [4 x 4 bytes: lengths] [JSON: what the model is] [whole numbers] [strings] [weights]

Whole numbers take seven bits of each byte.  Strings are sorted, and begin with as many characters
of the one before as they share.  Features are sorted by the strings that their cells read, table by
table, and found cell by cell: a code is (what is known so far) * (strings of the reader) + (number
of the string), and its place among the sorted codes is what is known after this cell, at last the
feature.  Weights are q * scale, as in model files of few bytes.
"""

import ast
import base64
import importlib.util
import json
import re
import struct
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from labelwright import __version__, modelfile
from labelwright.arrays import ranges
from labelwright.corpus.labels import text_of
from labelwright.corpus.tokenizer import UNSPACED
from labelwright.errors import ModelFileError
from labelwright.features.expressions import CLASSES
from labelwright.features.extract import ColumnFeatures
from labelwright.features.template import REGEX_READERS
from labelwright.features.vocabulary import patterns_of, table_of
from labelwright.interchange.chains import checked
from labelwright.interchange.exported_tagger import READERS
from labelwright.scoring.parameters import Trained

HERE = "labelwright.interchange"
# of files -> of the program in them
SUFFIXES = {".py": ".py", ".js": ".js", ".mjs": ".js", ".html": ".js"}
HOLDS = "latent states", "features on pairs of labels", "forbidden transitions"
FORMS = {"int8": "b", "float16": "e", "float32": "f", "float64": "d"}
PLACE = "@DATA@"


def suffix_of(path: str | Path) -> str | None:
    """The suffix of a path that is one of a program; None for all else.

    path : of the file

    >>> suffix_of("tagger.py"), suffix_of("model.crf")
    ('.py', None)
    """
    suffix = Path(path).suffix.lower()
    return suffix if suffix in SUFFIXES else None


def save_program(tagger: Any, target: str | Path) -> None:
    """Write a trained tagger as a program that needs no labelwright: .py (Python's standard
    library), .js (Node, or a script of a page), .mjs (the same as an ES module), .html (a page that
    labels what is typed).  Its labels are those of this tagger, so compress it before:
    `save_program(crf.compressed(bits=16), "tagger.py")`.

    tagger : a CRF, latent CRF or perceptron of order 1 with a template
    target : a path; its suffix names the program
    """
    modelfile.store(target, program(tagger, str(target)))


def program(tagger: Any, target: str) -> bytes:
    """The same as the content of the file; whatever it cannot hold is one ModelFileError."""
    suffix = suffix_of(target)
    if suffix is None:
        raise ModelFileError(f"{target}: expected a name that ends with {', '.join(SUFFIXES)}")
    is_python = suffix == ".py"
    try:
        content = _content(tagger, is_python)
        if suffix == ".html" and len(tagger._extractor.names) > 1:
            raise _cannot(
                "several columns", "a page reads text: train on words alone, or export tagger.js"
            )
    except ModelFileError as error:
        raise ModelFileError(f"{target}: {error}") from error
    text = base64.b64encode(zlib.compress(content, 9) if is_python else content).decode()
    data = "\n" + "\n".join(text[i : i + 120] for i in range(0, len(text), 120)) + "\n"
    files = resources.files(HERE)
    source = (files / f"exported_tagger{SUFFIXES[suffix]}").read_text(encoding="utf-8")
    if is_python:
        source = re.sub(r"from (labelwright\S+) import (.*)\n", _inlined, source)
        source = source.replace('DATA = ""', f'DATA = """{PLACE}"""')
    if suffix == ".mjs":
        source = re.sub(
            r"\nif \(typeof module.*", "\nexport { Tagger };\n", source, flags=re.DOTALL
        )
    if suffix == ".html":
        source = (
            (files / "exported_tagger.html")
            .read_text(encoding="utf-8")
            .replace("@PROGRAM@", source)
        )
    return source.replace("@VERSION@", __version__).replace(PLACE, data).encode()


def _inlined(found: re.Match[str]) -> str:
    """The source of what is imported from a module of labelwright, and of all there that it
    uses."""
    place = importlib.util.find_spec(found[1])
    source = Path(str(place and place.origin)).read_text(encoding="utf-8")
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        targets = getattr(node, "targets", [getattr(node, "target", node)])
        names = [getattr(each, "id", getattr(each, "name", "")) for each in targets]
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        nodes |= dict.fromkeys(names, node)
    wanted, waiting = set[str](), [name.strip() for name in found[2].split(",")]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in wanted:
            wanted.add(name)
            parts = list(ast.walk(nodes[name]))
            read = [each for each in parts if isinstance(each, ast.Name)]
            # local names, and parameters
            own = {each.id for each in read if isinstance(each.ctx, ast.Store)}
            own |= {each.arg for each in parts if isinstance(each, ast.arg)}
            waiting += [each.id for each in read if each.id not in own]
    used = sorted({nodes[name].lineno: nodes[name] for name in wanted}.items())
    return "\n\n".join(str(ast.get_source_segment(source, node)) for _, node in used) + "\n"


# -- the model -------------------------------------------------------------------------------------


def _content(tagger: Any, is_python: bool) -> bytes:
    """The model: what it is, whole numbers, strings, weights."""
    trained = checked(tagger, "an exported tagger", HOLDS)
    extractor, space = trained.extractor, trained.space
    if not isinstance(extractor, ColumnFeatures):
        raise _cannot(f"features of {extractor.kind}", "train on columns, with a template")
    if extractor.sources.order or extractor.numbers.n_features:
        raise _cannot("dictionaries, clusters, vectors or numbers", "train without them")
    vocabulary, names = extractor.vocabulary, extractor.names
    other = next(
        (reader.function for reader in vocabulary.values if reader.function not in READERS), None
    )
    if other is not None:
        raise _cannot(f"%{other} in the template", f"use other lines, with {', '.join(READERS)}")
    marks, rows = (
        2 * vocabulary.reach,
        {table: rows for table, rows in vocabulary.rows.items() if len(rows)},
    )
    readers = list(dict.fromkeys(reader for table in rows for reader in table.readers))
    numbers, text, renumbered = [list[int]()], list[str](), {}
    for reader in readers:
        strings, before = vocabulary.values[reader], ""
        order = sorted(range(len(strings)), key=strings.__getitem__)
        renumbered[reader] = np.arange(marks + len(strings))
        renumbered[reader][marks:][order] = marks + np.arange(len(strings))
        for string in sorted(strings):
            n = next(
                (n for n, (a, b) in enumerate(zip(before, string, strict=False)) if a != b),
                len(before),
            )
            text.append(string[n:])
            numbers[0] += [_length(string[:n], is_python), _length(text[-1], is_python)]
            before = string
    tables, features = [], [np.empty(0, np.int64)]
    for table, read in rows.items():
        levels, node = list[Any](), np.zeros(len(read), np.int64)
        for i, reader in enumerate(table.readers):
            codes = node * len(renumbered[reader]) + renumbered[reader][read[:, i]]
            level, node = np.unique(codes, return_inverse=True)
            levels.append(len(level))
            numbers.append(np.diff(level, prepend=0).tolist())
        tables.append([[readers.index(reader) for reader in table.readers], levels])
        features.append(vocabulary.first[table] + np.argsort(node))
    stored, weights = _weights(trained, np.concatenate(features), numbers)
    place, lines = {table: i for i, table in enumerate(rows)}, []
    for kind, patterns in patterns_of(vocabulary.template).items():
        for table, cells in ((table_of(pattern), pattern.cells) for pattern in patterns):
            cells_of_line = [
                [cell.row, cell.absolute, readers.index(cell.reader)]
                for cell in cells
                if table in place
            ]
            lines += [[kind, place[table], cells_of_line]] if table in place else []
    about = {
        "labels": text_of(space.labels),
        "states": np.diff(space.first).tolist(),
        "columns": names,
        "exact": bool(space.latent and tagger._default_decoder == "exact"),
        "reach": vocabulary.reach,
        "readers": [[reader.column, reader.function, _argument(reader)] for reader in readers],
        "strings": [len(vocabulary.values[reader]) for reader in readers],
        "tables": tables,
        "lines": lines,
        "kinds": list(trained.parameters.cells),
        "weights": stored,
        **{
            name: "".join(map(str, getattr(space, name).ravel().astype(int)))
            for name in ("start", "arc", "end")
        },
        "tokenizer": None if len(names) > 1 else _tokenizer(tagger.tokenizer(), is_python),
    }
    parts = [
        json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode(),
        _varints([number for part in numbers for number in part]),
        "".join(text).encode(),
        weights,
    ]
    return struct.pack("<4I", *map(len, parts)) + b"".join(parts)


def _cannot(what: str, remedy: str) -> ModelFileError:
    return ModelFileError(f"{what}: an exported tagger cannot hold this; {remedy}")


def _length(text: str, is_python: bool) -> int:
    """The length of a string in the units of the language."""
    return len(text) if is_python else len(text.encode("utf-16-le")) // 2


def _weights(
    trained: Trained, features: Any, numbers: list[list[int]]
) -> tuple[list[list[Any]], bytes]:
    """The weights in this order of features: name, form, scale and number of each kind, and all of
    them as bytes; how many each feature has, and of which states or pairs of states, are added to
    `numbers`."""
    parts = {}
    for kind, cells in trained.parameters.cells.items():
        count = np.diff(cells.ptr)[features]
        at = ranges(cells.ptr[features], count)
        numbers += [count.tolist(), cells.column[at].tolist()]
        parts[kind] = trained.weights[trained.parameters.slices[kind]][at]
    parts["transitions"] = trained.weights[trained.parameters.slices["transitions"]]
    arrays, how = modelfile.packed(parts, parts)
    stored = [
        [name, FORMS[q.dtype.name], how[name][2] if name in how else 1.0, len(q)]
        for name, q in arrays.items()
    ]
    return stored, b"".join(q.astype(q.dtype.newbyteorder("<")).tobytes() for q in arrays.values())


def _varints(numbers: Sequence[int]) -> bytes:
    # [n, 9]  what is left of each
    digits = np.array(numbers, np.int64)[:, None] >> 7 * np.arange(9)
    used = digits > 0
    used[:, 0] = True
    content = (digits & 127) | np.where(digits > 127, 128, 0)
    return content[used].astype(np.uint8).tobytes()


def _argument(reader: Any) -> Any:
    """What a reader takes; a regular expression as [anchored, [[kind, letter, sign], ...]]."""
    if reader.function not in REGEX_READERS:
        return reader.argument
    items, regex = [], reader.argument.removeprefix("^")
    for found in re.finditer(r"(\\.|[^\\])([*?]?)", regex, re.DOTALL):
        atom, sign = found.groups()
        is_end = atom == "$" and found.end(1) == len(regex)
        is_class = len(atom) > 1 and atom[1].lower() in CLASSES
        items.append(
            [
                "end" if is_end else "class" if is_class else "any" if atom == "." else "letter",
                atom[-1],
                sign,
            ]
        )
    return [reader.argument.startswith("^"), items]


# -- text ------------------------------------------------------------------------------------------

# \w, and \w without digits and _, as Python reads them
WORD, LETTER = r"\p{L}\p{N}_", r"\p{L}\p{Nl}\p{No}"
SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
AT_A_WORD = rf"(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"
ESCAPES = {"w": f"[{WORD}]", "d": r"\p{Nd}", "s": f"[{SPACE}]", "S": f"[^{SPACE}]", "b": AT_A_WORD}
TOKENS = r"\[\^\\S\\n\]|\[\^\\W(\\d)?_((?:\\.|[^\]\\])*)\]|\\u[0-9a-f]{4}|\\.|\(\?i:|."
ALSO = {"s": "\u017f", "k": "\u212a"}  # letters that are s and k without case


def _tokenizer(tokenizer: Any, is_python: bool) -> dict[str, Any]:
    """What splits text into sentences of tokens."""
    from labelwright.corpus import tokenizer as module

    if tokenizer.pattern is not None and not is_python:
        raise _cannot("a token pattern of your own, which is Python's,", "export tagger.py")
    # which only saves time there
    pattern = tokenizer.pattern or tokenizer.rule().pattern.replace("++", "")
    about = {
        "token": pattern if is_python else _javascript(pattern), "marks": tokenizer.pattern is None,
        "characters": tokenizer.characters, "sentences": tokenizer.sentences,
    }  # fmt: skip
    if not is_python:
        names = "ENDS", "WIDE_ENDS", "CLOSERS", "MOST_CLOSERS", "ABBREVIATIONS", "JOINERS"
        values = ((name, getattr(module, name)) for name in names)
        about |= {
            name: sorted(value) if isinstance(value, frozenset) else value for name, value in values
        }
        about["UNSPACED"] = UNSPACED.pattern
    return about


def _javascript(pattern: str) -> str:
    """A regular expression of the tokenizer for JavaScript, which knows letters of ASCII alone as
    \\w, and no part without case."""
    out, in_class, depth = list[str](), False, list[bool]()  # of open groups: without case?
    for found in re.finditer(TOKENS, pattern, re.DOTALL):
        part = found[0]
        if part == r"[^\S\n]":
            part = rf"(?!\n)[{SPACE}]"
        elif part.startswith(r"[^\W"):
            but = f"(?![{found[2]}])" if found[2] else ""
            part = f"(?:{but}[{LETTER if found[1] else WORD[:-1]}])"
        elif part[0] == "\\" and part[1] in ESCAPES:
            part = ESCAPES[part[1]]
            part = part.strip("[]") if in_class and part[0] == "[" else part
        elif part[0] == "\\" and not (part[1].isalnum() or part[1] in r"^$\.*+?()[]{}|/-"):
            part = part[1]
        elif part in "[]":
            in_class = part == "["
        elif part[0] == "(" and not in_class:
            depth.append(len(part) > 1 or (bool(depth) and depth[-1]))
            part = "(?:" if len(part) > 1 else part
        elif part == ")" and not in_class:
            depth.pop()
        elif len(part) == 1 and part.isalpha() and depth and depth[-1]:
            letters = part.lower() + part.upper() + ALSO.get(part, "")
            part = letters if in_class else f"[{letters}]"
        out.append(part)
    return "".join(out)
