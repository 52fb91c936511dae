"""Text models of CRF++ (`crf_learn -t` writes them beside its binary ones).

    version: 100                 five parts, with an empty line between them: sizes,
    cost-factor: 1
    maxid: 8                     (how many weights)
    xsize: 1                     (how many columns)

    B-NP                         labels,
    O

    U01:%x[0,0]                  templates,
    B

    4 B                          the number of the first weight of every feature, and the feature,
    0 U01:the

    0.5371027158904217           weights: of a U feature one for each label, of a B feature one for
                                 each pair of labels
    ...

CRF++ rounds weights to float32 before it labels, and so does this reader.
"""

import math
import re

import numpy as np

from labelwright.errors import ModelFileError
from labelwright.interchange.observations import (
    Line,
    Observations,
    checked_labels,
    shown,
    trained_crf,
)
from labelwright.modelfile import LARGEST_WEIGHT
from labelwright.taggers.crf import CRF

REACH = 8  # the largest row of a template
MOST_COLUMNS = 10_000
SIZES = "version", "cost-factor", "maxid", "xsize"
CELL = re.compile(r"%x\[(-?)([0-9]+),([0-9]+)\]")


def looks_like(data: bytes) -> bool:
    """Do these bytes begin like a text model of CRF++?"""
    return data.startswith(b"version: ") and b"\ncost-factor: " in data[:100]


def read(data: bytes, source: str) -> CRF:
    """The model as a trained CRF that reads columns by its templates; `source` is the file that
    errors speak of."""
    if not looks_like(data):
        raise ModelFileError(
            f"{source}: expected a text model of CRF++, which begins with version: and cost-factor:"
        )
    parts = data.split(b"\n\n", 4)
    if len(parts) < 5:
        raise ModelFileError(
            f"{source}: expected sizes, labels, templates, features and weights with an empty line "
            f"between them, got {len(parts)} of these 5 parts; copy or write the model again"
        )
    head, labels, templates, features, weights = parts
    cost_factor, n_weights, n_columns = _sizes(_decoded(head, source), source)
    names = checked_labels(_decoded(labels, source).split("\n"), source, len(data))
    lines = [_line(line, n_columns, source) for line in _decoded(templates, source).split("\n")]
    texts, first = _features(features, len(names), n_weights, source)
    weight = (cost_factor * _weights(weights, n_weights, cost_factor, source)).astype(np.float32)
    number = np.flatnonzero(weight)
    observations = Observations(texts, first, number, weight[number])
    return trained_crf("CRF++", source, names, lines, observations, "_B{:+}".format, n_columns)


def _decoded(part: bytes, source: str) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError:
        raise ModelFileError(
            f"{source}: is not in UTF-8; convert it, as in iconv -f EUC-JP -t UTF-8, and your data "
            "too"
        ) from None


def _sizes(head: str, source: str) -> tuple[float, int, int]:
    """Cost factor, number of weights, number of columns."""
    fields = dict(line.partition(": ")[::2] for line in head.split("\n"))
    if tuple(fields) != SIZES:
        raise ModelFileError(
            f"{source}: expected {', '.join(SIZES)}, got {', '.join(fields)!r:.60}"
        )
    version, n_weights, n_columns = (
        _whole(fields[name], name, source) for name in ("version", "maxid", "xsize")
    )
    if version // 100 != 1:
        raise ModelFileError(f"{source}: version: expected 100, got {version}")
    if not 1 <= n_columns <= MOST_COLUMNS:
        raise ModelFileError(
            f"{source}: xsize: expected from 1 to {MOST_COLUMNS} columns, got {n_columns}"
        )
    try:
        cost_factor = float(fields["cost-factor"])
    except ValueError:
        cost_factor = math.nan
    if not 0 < cost_factor <= LARGEST_WEIGHT:
        raise ModelFileError(
            f"{source}: cost-factor: expected a number above 0, got {fields['cost-factor']!r:.20}"
        )
    return cost_factor, n_weights, n_columns


def _whole(text: str, name: str, source: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
        raise ModelFileError(f"{source}: {name}: expected a whole number, got {text!r:.20}")
    return int(text)


def _line(template: str, n_columns: int, source: str) -> Line:
    if template[:1] not in ("U", "B"):
        raise ModelFileError(f"{source}: template {template!r:.60}: expected U or B first")
    pieces = CELL.split(template)
    literals = tuple(pieces[::4])
    if any("%" in literal for literal in literals):
        raise ModelFileError(
            f"{source}: template {template!r:.60}: expected %x[row,column], got another %"
        )
    for row, column in zip(pieces[2::4], pieces[3::4], strict=True):
        if len(row) > 9 or len(column) > 9 or int(row) > REACH or int(column) >= n_columns:
            raise ModelFileError(
                f"{source}: template {template!r:.60}: expected rows from -{REACH} to {REACH} and "
                f"columns below {n_columns}"
            )
    return Line(template, template, literals)


def _features(
    part: bytes, n_labels: int, n_weights: int, source: str
) -> tuple[list[bytes], np.ndarray]:
    """The features in the order of their weights, and the number of the first weight of each."""
    entries = []
    for line in part.split(b"\n"):
        digits, space, text = line.partition(b" ")
        if not space or not digits.isdigit() or len(digits) > 15 or text[:1] not in (b"U", b"B"):
            raise ModelFileError(
                f"{source}: feature {shown(line)}: expected a number and a feature of U or B"
            )
        entries.append((int(digits), text))
    entries.sort()
    at = 0
    for number, text in entries:
        if number != at:
            raise ModelFileError(
                f"{source}: feature {shown(text)}: expected the number {at}, got {number}"
            )
        at += n_labels if text[:1] == b"U" else n_labels**2
    if at != n_weights:
        raise ModelFileError(
            f"{source}: maxid: expected {at} weights of all features, got {n_weights}"
        )
    texts = [text for _, text in entries]
    if len(set(texts)) < len(texts):
        raise ModelFileError(f"{source}: a feature occurs twice; copy or write the model again")
    return texts, np.array([number for number, _ in entries], np.int64)


def _weights(part: bytes, n_weights: int, cost_factor: float, source: str) -> np.ndarray:
    lines = part.removesuffix(b"\n").split(b"\n")
    if len(lines) != n_weights:
        raise ModelFileError(
            f"{source}: expected {n_weights} weights, got {len(lines)}; copy or write the model "
            "again"
        )
    try:
        weights = np.array(list(map(float, lines)))
    except ValueError as error:
        raise ModelFileError(f"{source}: weights: {error!s:.60}") from error
    largest = LARGEST_WEIGHT / max(1.0, cost_factor)
    if not (np.abs(weights) <= largest).all():
        raise ModelFileError(f"{source}: weights: expected finite numbers up to {largest:g}")
    return weights
