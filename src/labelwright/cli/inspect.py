"""labelwright inspect: what a model file holds."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from labelwright.cli.common import Json, heading, show, show_json

BLOCKS = "▁▂▃▄▅▆▇█"


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    top: Annotated[int, typer.Option(metavar="N", help="How many features per label, and transitions.")] = 5,
    template: Annotated[bool, typer.Option("--template", help="Print the template, and nothing else.")] = False,
    as_json: Json = False,
) -> None:
    """Look into a model: how it was made and trained, its labels, its strongest features and transitions."""
    from labelwright.models.files import load

    tagger = load(model)
    facts = describe(tagger, max(top, 0))
    if template:
        show(facts["template"]["text"].rstrip("\n") if facts["template"] else "")
    elif as_json:
        show_json(facts)
    else:
        _show(facts, model)


def describe(model: Any, top: int) -> dict[str, Any]:
    """All that is worth knowing about a model, ready for JSON."""
    import numpy as np

    from labelwright.models.files import signature

    space, parameters = model.space_, model.parameters_
    names = [space.labels[label] for label in space.label_of]
    parts = parameters.slices
    S = space.n_states
    transitions = model.weights_[parts["transitions"]].reshape(S, S)
    order = np.argsort(-np.abs(transitions), axis=None)[:top].tolist()
    header = model.extractor_.header()
    return {
        "signature": signature(model),
        "kind": type(model).__name__,
        "parameters": model.get_params(),
        "scheme": model.scheme_,
        "labels": list(space.labels),
        "columns": list(header.get("columns", [])),
        "template": header.get("template"),
        "n_features": model.extractor_.n_features,
        "n_weights": len(model.weights_),
        "n_nonzero": int(np.count_nonzero(model.weights_)),
        "training": model.training_,
        "transitions": [
            {"from": names[k // S], "to": names[k % S], "weight": float(transitions[k // S, k % S])} for k in order
        ],
        "features": {
            layer: _strongest(model, layer, names, top)
            for layer in parameters.cells
            if len(parameters.cells[layer].ptr)
        },
        "history": model.history_,
    }


def _strongest(model: Any, layer: str, names: Sequence[str], top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest positive weights, for each label or (arc features) pair of labels."""
    import numpy as np

    cells = model.parameters_.cells[layer]
    weights = model.weights_[model.parameters_.slices[layer]]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    found: dict[str, list[dict[str, Any]]] = {}
    if layer == "state":
        groups = [(name, np.flatnonzero(cells.column == s)) for s, name in enumerate(names)]
    else:
        S = len(names)
        arcs = np.unique(cells.column)
        best = sorted(arcs.tolist(), key=lambda arc: -float(weights[cells.column == arc].max()))[:top]
        groups = [(f"{names[arc // S]} → {names[arc % S]}", np.flatnonzero(cells.column == arc)) for arc in best]
    for name, mine in groups:
        chosen = mine[np.argsort(-weights[mine], kind="stable")[:top]]
        found[name] = [
            {"feature": model.extractor_.name(int(feature[k])), "weight": float(weights[k])}
            for k in chosen
            if weights[k] > 0
        ]
    return found


def _show(facts: dict[str, Any], path: str) -> None:
    training = facts["training"]
    heading(f"{path}: {facts['signature']}")
    rows = [
        ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
        ("scheme", facts["scheme"] or "none"),
        ("columns", ",".join(facts["columns"]) or "(no columns: trained on dicts or arrays)"),
        (
            "template",
            f"{facts['template']['name']}, {_lines(facts['template']['text'])} lines" if facts["template"] else "-",
        ),
        ("features", f"{facts['n_features']:,}"),
        ("weights", f"{facts['n_weights']:,} ({facts['n_nonzero']:,} not zero)"),
    ]
    if training:
        rows += [
            ("trained on", f"{training['sentences']:,} sentences, {training['tokens']:,} tokens"),
            ("training", f"{training['iterations']} iterations, {training['seconds']:.1f} s; {training['stopped']}"),
            ("with", f"labelwright {training['labelwright']}"),
        ]
    rows += _curves(facts["history"])
    for name, value in rows:
        show(f"  {name:<12}{value}")
    if facts["transitions"]:
        show()
        heading("strongest transitions")
        width = max(len(row["from"]) for row in facts["transitions"])
        for row in facts["transitions"]:
            show(f"  {row['weight']:+8.3f}  {row['from']:<{width}} → {row['to']}")
    for layer, labels in facts["features"].items():
        if any(labels.values()):
            show()
            heading("strongest features of each label" if layer == "state" else "strongest features of transitions")
            for label, features in labels.items():
                for k, row in enumerate(features):
                    show(f"  {label if k == 0 else '':<16}{row['weight']:+8.3f}  {row['feature']}")


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _curves(history: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The loss (on a logarithmic scale) and the development score as small curves."""
    losses = [record["loss"] for record in history if record["loss"] > 0]
    scores = [100 * record["dev"] for record in history if "dev" in record]
    rows = []
    if len(losses) > 1:
        curve = sparkline([math.log(loss) for loss in losses])
        rows.append(("loss", f"{losses[0]:,.1f} {curve} {losses[-1]:,.1f}"))
    if len(scores) > 1:
        rows.append(("dev", f"{scores[0]:.2f} {sparkline(scores)} {max(scores):.2f}"))
    return rows


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of text.

    >>> sparkline([0.0, 1.0, 2.0, 3.0])
    '▁▃▆█'
    """
    if len(values) > width:
        values = [values[round(k * (len(values) - 1) / (width - 1))] for k in range(width)]
    low, high = min(values), max(values)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in values)
