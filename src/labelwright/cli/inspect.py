"""labelwright inspect: what a model file holds."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from labelwright.cli.common import (
    Json,
    Threads,
    counted,
    heading,
    input_names,
    inputs_of,
    is_memory,
    layers_of,
    load_model,
    percent,
    read_for,
    say,
    show,
    show_json,
    turns,
    why_stopped,
)
from labelwright.cli.plots import check_plot, draw_path_mass
from labelwright.errors import OptionError

BLOCKS = "▁▂▃▄▅▆▇█"
MANY = 16  # passes whose mistakes are shown one by one


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    top: Annotated[int, typer.Option(metavar="N", help="How many features, words, neighbours and transitions.")] = 5,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Show the latent states by their use on this file (repeatable); of a memory-based model, what it says "
            "of a sentence of this file, or of - .",
        ),
    ] = None,
    sentence: Annotated[
        int | None,
        typer.Option(metavar="N", help="Memory-based models: this sentence of --data, from 0 on. [default: 0]"),
    ] = None,
    token: Annotated[
        int | None,
        typer.Option(metavar="N", help="Memory-based models: this token of it, from 0 on, with its neighbours."),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.png",
            help="Draw the probability of the n best latent paths of each --data file (not for perceptrons).",
        ),
    ] = None,
    paths: Annotated[int | None, typer.Option(metavar="N", help="The largest n of the plot. [default: 2000]")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Names of the columns of --data, if unlike the model's."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Look into this layer of a cascade as into a single model.")
    ] = None,
    template: Annotated[bool, typer.Option("--template", help="Print the template, and nothing else.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Look into a model: how it was made and trained, its labels, its strongest features and transitions.

    Of a latent model it shows the states of each label: how much of the label's tokens each takes, the words and
    features that tell it from the label's other states, and what stands before and after it.  That needs --data FILE;
    without it the weights alone speak: the share of features that favour a state, and its strongest transitions.

    Of a perceptron it shows the mistakes of each pass, the share of the training sentences that its weights separate
    from all wrong labellings, how many mistakes the theory allows, and the temperature of its confidences.

    Of a memory-based model it shows how much is remembered and what the columns of the template weigh; with --data FILE
    what it says of a sentence, and with --token N why: what is read of that token, the votes for its classes, and its
    nearest neighbours in the training data with what they have of their own.

    Of a cascade it shows the layers, what they pass, and the training of each alone and of all together; --layer NAME
    shows one of them as it would a single model.

    \b
      labelwright inspect latent.crf --data test.txt
      labelwright inspect latent.crf --data test.txt --plot mass.png      needs the extra labelwright[plots]
      labelwright inspect near.model --data test.txt --sentence 3 --token 0
      labelwright inspect both.model --layer chunk
    """
    from labelwright.taggers.files import load

    files = data or []
    _check(files, plot, paths, {"--columns": columns, "--sentence": sentence, "--token": token})
    tagger = whole = load_model(model, threads) if files else load(model)
    if layer is not None and not layers_of(whole):
        raise OptionError(f"--layer: {model} is a {type(whole).__name__}, which has no layers; leave it out")
    if hasattr(whole, "memory_"):
        if plot is not None:
            raise OptionError("--plot: draws the mass of latent paths, and memory-based models have none")
        if template:
            kept = whole.windows_.template if is_memory(whole) else None
            show(kept.text.rstrip("\n") if kept is not None else "")
            return
        from labelwright.cli import memory_inspect

        memory_inspect.inspect(
            whole, memory_inspect.Asked(model, max(top, 0), files, columns, sentence, token, as_json)
        )
        return
    for name, value in (("--sentence", sentence), ("--token", token)):
        if value is not None:
            raise OptionError(f"{name}: shows neighbours, which only memory-based models have; leave it out")
    if layers_of(whole):
        from labelwright.cli import cascade

        if layer is None:
            cascade.refuse_without_layer(whole, {"--data": files, "--template": template})
            cascade.inspect(whole, model, as_json)
            return
        tagger = cascade.layer_named(whole, layer, model, bool(files))
    if plot is not None:
        if not tagger.probabilistic:
            raise OptionError(f"--plot: {tagger.has_scores()}, so its latent paths have no mass to draw")
        check_plot(plot, [model, *files])
    from labelwright.inspection import linear as inspection

    facts = inspection.describe(tagger, max(top, 0))
    if layer is not None:
        facts["columns"] = input_names(whole)
    if template:
        show(facts["template"]["text"].rstrip("\n") if facts["template"] else "")
        return
    corpora = {path: inputs_of(whole, read_for(whole, path, columns)) for path in files}
    if layer is not None:
        corpora = {path: cascade.input_of_lowest(whole, corpus) for path, corpus in corpora.items()}
    if tagger.space_.latent:
        use = inspection.expected_use(tagger, list(corpora.values())) if corpora else None
        facts["latent"] = [view._asdict() for view in inspection.latent_states(tagger, use, max(top, 0))]
    if plot is not None:
        curves = {path: inspection.path_mass(tagger, corpus, paths or 2000) for path, corpus in corpora.items()}
        draw_path_mass(curves, plot)
        facts["path_mass"] = {path: _milestones(curve) for path, curve in curves.items()}
    if as_json:
        show_json(facts)
    else:
        _show(facts, model if layer is None else f"{model}, layer {layer}", bool(files), tagger.probabilistic)
        if plot is not None:
            say(f"{plot}: drawn")


WHAT = {
    "state": "each label",
    "edge": "transitions",
    "triple": "triples",
    "segment": "segments",
}  # what the features of a layer are about


def _check(files: list[str], plot: str | None, paths: int | None, others: dict[str, Any]) -> None:
    """Find out what is wrong before any file is read."""
    for name, value in {"--plot": plot, **others}.items():
        if value is not None and not files:
            raise OptionError(f"{name}: nothing to look at; name the sentences with --data FILE")
    if paths is not None and plot is None:
        raise OptionError("--paths: is about the plot; add --plot FILE.png")
    if paths is not None and paths < 1:
        raise OptionError(f"--paths: expected 1 or more, got {paths}")


def _milestones(curve: Any) -> dict[int, float]:
    """The mass at n = 1, 2, 5, 10, ... and at the end."""
    steps = [n for power in range(7) for n in (10**power, 2 * 10**power, 5 * 10**power)]
    return {n: float(curve[n - 1]) for n in sorted({*steps, len(curve)}) if n <= len(curve)}


def _show(facts: dict[str, Any], path: str, with_data: bool, probabilistic: bool) -> None:
    training = facts["training"]
    heading(f"{path}: {facts['signature']}")
    rows = [
        ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
        ("scheme", facts["scheme"] or "none"),
        ("columns", ",".join(facts["columns"]) or "(no columns: trained on dicts or arrays)"),
        *label_row(training),
        template_row(facts["template"]),
        ("features", f"{facts['n_features']:,}"),
        ("weights", f"{facts['n_weights']:,} ({facts['n_nonzero']:,} not zero)"),
    ]
    if training:
        rows += _training(training, probabilistic)
    if not probabilistic:
        rows += _passes(facts["history"], training, facts["parameters"])
    if "latent" in facts:
        rows.insert(1, ("states", f"{len(facts['states'])} latent"))
    rows += curves(facts["history"], probabilistic)
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        show(f"  {name:<{width}}{value}")
    if facts["transitions"]:
        show()
        heading("strongest transitions")
        width = max(len(row["from"]) for row in facts["transitions"])
        for row in facts["transitions"]:
            show(f"  {row['weight']:+8.3f}  {row['from']:<{width}} → {row['to']}")
    if facts["triples"]:
        show()
        heading("strongest triples")
        for row in facts["triples"]:
            show(f"  {row['weight']:+8.3f}  {row['first']} → {row['second']} → {row['third']}")
    if "latent" in facts:
        _show_latent(facts["latent"], with_data, probabilistic)
    for layer, labels in facts["features"].items():
        if any(labels.values()) and not (layer == "state" and "latent" in facts):
            show()
            heading(f"strongest features of {WHAT[layer]}")
            for label, features in labels.items():
                for k, row in enumerate(features):
                    show(f"  {label if k == 0 else '':<16}{row['weight']:+8.3f}  {row['feature']}")
    if "path_mass" in facts:
        _show_mass(facts["path_mass"])


def _show_mass(mass: dict[str, dict[int, float]]) -> None:
    show()
    heading("probability of the n best latent paths together, mean over the sentences")
    width = max(len(path) for path in mass)
    show(f"  {'n':<{width}}" + "".join(f"{n:>7}" for n in next(iter(mass.values()))))
    for path, row in mass.items():
        show(f"  {path:<{width}}" + "".join(f"{value:>7.1%}" for value in row.values()))


def _show_latent(views: Sequence[dict[str, Any]], with_data: bool, probabilistic: bool) -> None:
    """The states of each label, with what tells them from the others and what stands around them."""
    show()
    source = "by their use on the data" if with_data else "by their weights alone; --data FILE shows their use"
    if with_data and not probabilistic:
        source += ", counted on best paths"
    heading(f"latent states of each label ({source})")
    number = "{:.0%}" if with_data else "{:+.2f}"
    label = None
    for view in views:
        if view["label"] != label:
            label = view["label"]
            show()
            heading(f"  {label}")
        lines = [
            ("words", ", ".join(word for word, _ in view["words"])),
            ("features", ", ".join(f"{name} ({weight:+.2f})" for name, weight in view["features"])),
            ("before it", ", ".join(f"{name} {number.format(value)}" for name, value in view["before"])),
            ("after it", ", ".join(f"{name} {number.format(value)}" for name, value in view["after"])),
        ]
        begin = f"    {view['state'].removeprefix(label) or '#1':<4}{view['share']:>5.0%}"
        for name, text in lines:
            if text:
                show(f"{begin:<14} {name:<10} {text}")
                begin = ""
        if begin:
            show(begin)


def template_row(template: dict[str, str] | None) -> tuple[str, str]:
    """What the template is called, and how long it is."""
    return "template", f"{template['name']}, {counted(_lines(template['text']), 'line')}" if template else "-"


def label_row(training: dict[str, Any]) -> list[tuple[str, str]]:
    """Which column of the training file is the label; models made in Python do not know."""
    names, label = training.get("columns"), training.get("label")
    if not names or label not in names:
        return []
    return [("label", f"{label}, column {names.index(label) + 1} of {','.join(names)}")]


def _training(training: dict[str, Any], probabilistic: bool) -> list[tuple[str, str]]:
    """How the training went; a model that partial_fit made knows less about it."""
    turn, length = turns(probabilistic), counted(training["iterations"], turns(probabilistic))
    rows = [("trained on", f"{counted(training['sentences'], 'sentence')}, {counted(training['tokens'], 'token')}")]
    if "stopped" in training:
        reason = why_stopped(training, probabilistic)
        rows.append(("training", f"{length}, {training['seconds']:.1f} s; {reason}"))
        rows.append(("with", f"labelwright {training['labelwright']}"))
    else:
        rows.append(("training", f"{length} of partial_fit"))
    if "best_iteration" in training:
        best = f"{training['best_iteration']}, with {100 * training['best_dev']:.2f} on the development data"
        rows.append((f"best {turn}", best))
    return rows + _starts(training.get("restarts"), "best_dev" in training)


def _passes(
    history: Sequence[dict[str, Any]], training: dict[str, Any], parameters: dict[str, Any]
) -> list[tuple[str, str]]:
    """The mistakes of a perceptron, pass by pass, and what they say about the data."""
    made = [record["mistakes"] for record in history]
    shown = [f"{number:,}" for number in made]
    if len(shown) > MANY:
        shown = [*shown[: MANY // 2], "...", *shown[-MANY // 2 :]]
    rows = [("mistakes", f"{sum(made):,}; by pass {' '.join(shown)}")]
    seen = training.get("convergence")
    if seen is not None:
        shares = f"{percent(seen['separable'])} of the training sentences"
        if "n_latent" in parameters:
            shares += f", {percent(seen['strictly_separable'])} strictly (by every path of their labels)"
        rows.append(("separable", shares))
        rows.append(("bound", _bound(seen, parameters, training["sentences"] * len(made))))
    calibration = training.get("calibration")
    if calibration is not None:
        number = counted(calibration["sentences"], "sentence")
        found = f"temperature {calibration['temperature']:.4g}, on {number}"
        rows.append(("confidence", f"{found}; {calibration['log_likelihood_per_token']:.4f} log-likelihood per token"))
    else:
        rows.append(("confidence", "not calibrated; train with --dev FILE"))
    return rows


def _bound(seen: dict[str, Any], parameters: dict[str, Any], looks: int) -> str:
    """How many mistakes the theory allows, or why it has nothing to say."""
    if seen["mistake_bound"] is not None:
        bound = f"{seen['mistake_bound']:,.0f} mistakes at most, by theorem {seen['theorem']} of Sun et al. (2009)"
        trivial = f"; says nothing, since {counted(looks, 'sentence')} were looked at in all passes"
        return bound + (trivial if seen["mistake_bound"] >= looks else "")
    why = "these weights or feature values (negative ones) give none"
    if parameters["update"] != "perceptron":
        why = f"the theorems are about whole steps, which {parameters['update']} updates are not"
    elif parameters["margin"]:
        why = "the theorems are about mistakes alone, and with a margin right answers lead to updates, too"
    elif parameters["averaging"] == "mavg":
        why = "the theorems are about one course of updates, and with mavg passes begin from the mean"
    return f"none: {why}"


def _starts(runs: Sequence[dict[str, Any]] | None, with_dev: bool) -> list[tuple[str, str]]:
    """The spread of the random starts."""
    if not runs:
        return []
    rows = [("starts", f"{len(runs)}, losses {' '.join(format(run['loss'], ',.1f') for run in runs)}")]
    if with_dev:
        rows.append(("", f"on development data {' '.join(format(100 * run['merit'], '.2f') for run in runs)}"))
    return rows


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def curves(history: Sequence[dict[str, Any]], with_loss: bool) -> list[tuple[str, str]]:
    """The loss (on a logarithmic scale) and the development score as small curves."""
    losses = [record["loss"] for record in history if record["loss"] > 0 and with_loss]
    scores = [100 * record["dev"] for record in history if "dev" in record]
    rows = []
    if len(losses) > 1:
        curve = sparkline([math.log(loss) for loss in losses])
        rows.append(("loss", f"{losses[0]:,.1f} {curve} {losses[-1]:,.1f}"))
    if len(scores) > 1:
        rows.append(("dev", f"{scores[0]:.2f} {sparkline(scores)} {scores[-1]:.2f}"))
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
