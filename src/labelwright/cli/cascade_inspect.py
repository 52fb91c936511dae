"""labelwright inspect of cascades: the layers, what they pass, and training alone and together."""

from collections.abc import Mapping
from typing import Any

from labelwright.cli.common import counted, heading, percent, show
from labelwright.cli.layout import (
    NO_COLUMNS,
    calibration_text,
    curves,
    score_text,
    show_rows,
    size_of_data,
    weights_text,
)


def show_facts(facts: dict[str, Any], path: str, turns: Mapping[str, str]) -> None:
    """All facts about a cascade as text; `turns` are what the training of each layer is counted in."""
    heading(f"{path}: cascade of {counted(len(facts['layers']), 'layer')}, passing {facts['passing']}")
    show_rows(_rows(facts))
    for number, (name, layer) in enumerate(facts["layers"].items(), 1):
        show()
        heading(f"layer {number}: {name}")
        show_rows(_layer_rows(layer, "joint" in facts["training"], turns[name]))
    show()
    show(f"more about a layer: labelwright inspect {path} --layer {next(reversed(facts['layers']))}")


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    training, parameters, lexicon = facts["training"], facts["parameters"], facts["lexicon"]
    rows = [("columns", ",".join(facts["columns"]) or NO_COLUMNS)]
    if lexicon is not None:
        rows.append(("lexicon", f"{counted(lexicon['words'], 'word')} with labels of {lexicon['layer']}"))
    if parameters["jackknife"]:
        rows.append(("jackknife", "upper layers are trained on labels predicted for sentences held out below"))
    if parameters["shares"]:
        rows.append(("shares", ", ".join(f"{name} {share:g}" for name, share in parameters["shares"].items())))
    rows.append(("trained on", size_of_data(next(iter(training["layers"].values())))))
    rows.append(("training", f"{training['seconds']:.1f} s in all; labelwright {training['labelwright']}"))
    joint = training.get("joint")
    if joint is not None:
        losses = f"loss {facts['history'][0]['loss']:,.1f} → {joint['loss']:,.1f}"
        rows.append(("together", f"{counted(joint['iterations'], 'iteration')}, {losses}; {joint['stopped']}"))
        rows += curves(facts["history"], True)
    return rows + _dev_rows(facts)


def _dev_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The score of each layer on the development data, before and after joint training."""
    dev = facts["training"].get("dev", {})
    rows = []
    for name, after in dev.get("after", {}).items():
        score, before = score_text(after, facts["layers"][name]["scheme"]), dev.get("before", {}).get(name)
        if before is not None:
            kind, _, number = score.partition(" ")
            score = f"{kind} {100 * before:.2f} before, {number} after"
        rows.append((f"{name} on dev", score))
    return rows


def _layer_rows(layer: dict[str, Any], joint: bool, turn: str) -> list[tuple[str, str]]:
    training = layer["training"]
    if "size" in layer:  # no weights
        return [
            ("model", layer["signature"]),
            ("labels", f"{len(layer['labels'])}: {' '.join(layer['labels'])}"),
            ("size", ", ".join(layer["size"])),
            ("training", f"{training['seconds']:.1f} s"),
        ]
    took = f", {training['seconds']:.1f} s; {training['stopped']}" if "stopped" in training else " of partial_fit"
    length = counted(training["iterations"], turn)
    separable = training.get("convergence", {}).get("separable")
    end = f", {percent(separable or 0.0)} separable"
    if layer["probabilistic"]:
        end = "" if training["loss"] is None else f", loss {training['loss']:,.1f}"
    calibration = training.get("calibration")
    return [
        ("model", layer["signature"]),
        ("labels", f"{len(layer['labels'])}: {' '.join(layer['labels'])}"),
        ("features", f"{layer['n_features']:,}"),
        ("weights", weights_text(layer)),
        ("alone" if joint else "training", f"{length}{end}{took}"),
        *([] if calibration is None else [("calibration", calibration_text(calibration))]),
    ]
