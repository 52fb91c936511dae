"""labelwright inspect of CRFs, perceptrons and segment models: training, weights, latent states, use on data."""

from collections.abc import Sequence
from typing import Any

from labelwright.cli.common import aligned, counted, heading, percent, show
from labelwright.cli.layout import (
    NO_COLUMNS,
    calibration_text,
    curves,
    label_row,
    score_text,
    show_rows,
    size_of_data,
    template_row,
    weights_text,
)

MANY = 16  # passes whose mistakes are shown one by one
WHAT = {"state": "each label", "edge": "transitions", "triple": "triples"}  # by kind of feature
RARE = 0.01  # the share of its label below which a latent state is not shown
TYPES = 8  # types of segments beside each other in a table
PLACES = "tokens by their place in a segment (B first, I inside, E last, S single)"


def show_facts(facts: dict[str, Any], name: str, with_data: bool, turn: str) -> None:
    """All facts about a linear model as text; `turn` is what its training is counted in."""
    heading(f"{name}: {facts['signature']}")
    show_rows(_rows(facts, turn))
    if "segments" in facts:
        _show_segments(facts["segments"])
    else:
        _show_transitions(facts["transitions"], facts["triples"])
    if "latent" in facts:
        _show_latent(facts["latent"], with_data, facts["probabilistic"])
    if "use" in facts:
        show_use(facts["use"], facts["probabilistic"])
    for layer, labels in facts["features"].items():
        if not (layer == "state" and "latent" in facts) and layer != "segment":
            _show_features(PLACES if layer == "state" and "segment" in facts["features"] else WHAT[layer], labels)
    if "path_mass" in facts:
        _show_mass(facts["path_mass"], facts["paths"])


# -- rows at the top --------------------------------------------------------------------------------------------------


def _rows(facts: dict[str, Any], turn: str) -> list[tuple[str, str]]:
    training, probabilistic = facts["training"], facts["probabilistic"]
    rows = [
        ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
        *([("states", f"{len(facts['states'])} latent")] if "latent" in facts else []),
        ("scheme", facts["scheme"] or "none"),
        ("columns", ",".join(facts["columns"]) or NO_COLUMNS),
        *label_row(training),
        template_row(facts["template"]),
        ("features", f"{facts['n_features']:,}"),
        ("weights", weights_text(facts)),
    ]
    if training:
        rows += _training(training, facts["scheme"], turn)
    if not probabilistic:
        rows += _passes(facts["history"], training, facts["parameters"])
    elif training.get("calibration") is not None:
        rows.append(("calibration", calibration_text(training["calibration"])))
    return rows + curves(facts["history"], probabilistic)


def _training(training: dict[str, Any], scheme: str | None, turn: str) -> list[tuple[str, str]]:
    """How the training went; a model that partial_fit made knows less about it."""
    if "imported_from" in training:
        return [("imported from", str(training["imported_from"]))]
    length = counted(training["iterations"], turn)
    rows = [("trained on", size_of_data(training))]
    if "stopped" in training:
        rows.append(("training", f"{length}, {training['seconds']:.1f} s; {training['stopped']}"))
        rows.append(("version", f"labelwright {training['labelwright']}"))
    else:
        rows.append(("training", f"{length} of partial_fit"))
    if "best_iteration" in training:
        best = f"{training['best_iteration']}, {score_text(training['best_dev'], scheme)} on the development data"
        rows.append((f"best {turn}", best))
    if "rounds" in training:
        rows.append(("states", _rounds(training["rounds"])))
    return rows + _starts(training.get("restarts"), scheme, "best_dev" in training)


def _rounds(rounds: Sequence[dict[str, Any]]) -> str:
    """How the numbers of latent states were learnt."""
    numbers = " > ".join(str(sum(record["states"].values())) for record in rounds)
    kept = next(record["states"] for record in rounds if record.get("kept"))
    listed = ", ".join(f"{label} {number}" for label, number in kept.items())
    return f"{numbers} by splitting and merging; kept {sum(kept.values())}: {listed}"


def _starts(runs: Sequence[dict[str, Any]] | None, scheme: str | None, with_dev: bool) -> list[tuple[str, str]]:
    """The spread of the random starts."""
    if not runs:
        return []
    rows = [("starts", f"{len(runs)}, losses {' '.join(format(run['loss'], ',.1f') for run in runs)}")]
    if with_dev:
        name = score_text(0.0, scheme).split()[0]
        scores = " ".join(format(100 * run["merit"], ".2f") for run in runs)
        rows.append(("", f"{name} on the development data {scores}"))
    return rows


def _passes(
    history: Sequence[dict[str, Any]], training: dict[str, Any], parameters: dict[str, Any]
) -> list[tuple[str, str]]:
    """The mistakes of a perceptron, pass by pass, and what they show about the data."""
    made = [record["mistakes"] for record in history]
    shown = [f"{number:,}" for number in made]
    if len(shown) > MANY:
        shown = [*shown[: MANY // 2], "...", *shown[-MANY // 2 :]]
    rows = [("mistakes", f"{sum(made):,}; by pass {' '.join(shown)}")] if made else []
    convergence = training.get("convergence")
    if convergence is not None:
        shares = f"{percent(convergence['separable'])} of the training sentences"
        if "strictly_separable" in convergence and "n_latent" in parameters:
            shares += f", {percent(convergence['strictly_separable'])} strictly (by every path of their labels)"
        rows.append(("separable", shares))
        if "mistake_bound" in convergence:
            rows.append(("bound", _bound(convergence, parameters, training["sentences"] * len(made))))
        if "latent" in convergence:
            rows.append(("margin", _latent_margin(convergence["latent"], training["sentences"] * len(made))))
    return [*rows, ("confidence", calibration_text(training.get("calibration")))]


def _bound(convergence: dict[str, Any], parameters: dict[str, Any], sentences: int) -> str:
    """How many mistakes the theory allows, or why it gives no bound; `sentences` were read in all passes together."""
    bound = convergence["mistake_bound"]
    if bound is not None:
        text = f"{bound:,.0f} mistakes at most, by theorem {convergence['theorem']} of Sun et al. (2009)"
        return text + (f"; trivial: all passes read {counted(sentences, 'sentence')}" if bound >= sentences else "")
    why = "these weights or feature values (negative ones) give none"
    if parameters["update"] != "perceptron":
        why = f"the theorems are about whole steps, which {parameters['update']} updates are not"
    elif parameters["margin"]:
        why = "the theorems are about mistakes alone, and with a margin right answers lead to updates, too"
    elif parameters["averaging"] == "mavg":
        why = "the theorems are about one sequence of updates, and with mavg passes begin from the mean"
    return f"none: {why}"


def _latent_margin(seen: dict[str, Any], sentences: int) -> str:
    """What theorem 1 says of data that are separable without latent states; all passes read so many sentences."""
    text = f"{seen['plain_margin']:.3g} without latent states, at least {seen['margin_bound']:.3g} with them"
    text += f" (theorem 1, T = {seen['expansion']:.3g})"
    bound = seen["mistake_bound"]
    trivial = bound is None or bound >= sentences
    return text if trivial else f"{text}: {bound:,.0f} mistakes at most (theorem 2)"


# -- tables -----------------------------------------------------------------------------------------------------------


def _show_transitions(transitions: Sequence[dict[str, Any]], triples: Sequence[dict[str, Any]]) -> None:
    if transitions:
        show()
        heading("strongest transitions")
        width = max(len(row["from"]) for row in transitions)
        for row in transitions:
            show(f"  {row['weight']:+8.3f}  {row['from']:<{width}} → {row['to']}")
    if triples:
        show()
        heading("strongest triples")
        for row in triples:
            show(f"  {row['weight']:+8.3f}  {row['first']} → {row['second']} → {row['third']}")


def _show_segments(segments: dict[str, Any]) -> None:
    """The weights of segments: all lengths, dictionaries and transitions, and the strongest texts."""
    _show_by_type("weights of segments by length", segments["lengths"])
    _show_by_type("weights of segments by dictionary", segments["dictionaries"])
    _show_by_type("transitions from type to type", segments["transitions"])
    if any(segments["texts"].values()):
        rows = {name: [{"feature": row["text"], **row} for row in texts] for name, texts in segments["texts"].items()}
        _show_features("segments by their text", rows)


def _show_by_type(title: str, rows: dict[str, dict[str, float]]) -> None:
    """A table with a row for each name and a column for each type, some types at a time."""
    if not rows:
        return
    show()
    heading(title)
    types = list(next(iter(rows.values())))
    for begin in range(0, len(types), TYPES):
        part = types[begin : begin + TYPES]
        table = [["", *part]]
        table += [[name, *(f"{weights[kind]:+.3f}" for kind in part)] for name, weights in rows.items()]
        for line in aligned(table, right=range(1, len(part) + 1)):
            show(f"  {line}")


def _show_features(what: str, labels: dict[str, list[dict[str, Any]]]) -> None:
    """The strongest features of each label, transition, triple or type of segment."""
    if not any(labels.values()):
        return
    show()
    heading(f"strongest features of {what}")
    width = max(16, *(len(label) + 2 for label, features in labels.items() if features))
    for label, features in labels.items():
        for k, row in enumerate(features):
            show(f"  {label if k == 0 else '':<{width}}{row['weight']:+8.3f}  {row['feature']}")


def _show_mass(mass: dict[str, dict[int, float]], paths: str) -> None:
    show()
    heading(f"probability of the n best {paths} together, mean over the sentences")
    numbers = list(next(iter(mass.values())))
    table = [["n", *map(str, numbers)]]
    table += [[path, *(f"{value:.1%}" for value in row.values())] for path, row in mass.items()]
    for line in aligned(table, right=range(1, len(numbers) + 1)):
        show(f"  {line}")


# -- labels and states on data --------------------------------------------------------------------------------------


def show_use(views: Sequence[dict[str, Any]], probabilistic: bool) -> None:
    """The labels, the most frequent first, with their typical words and what is around them."""
    show()
    counts = "expected counts" if probabilistic else "counted on the best labellings"
    heading(f"labels by their share of the tokens of the data ({counts})")
    width = max(len(view["label"]) for view in views)
    for view in views:
        _show_view(view, f"  {view['label']:<{width}}  {view['share']:>6.1%}", width + 11, True)


def _show_latent(views: Sequence[dict[str, Any]], with_data: bool, probabilistic: bool) -> None:
    """The states of each label, with what tells them from the others and what is around them."""
    show()
    source = "by their use on the data" if with_data else "by their weights alone; --data FILE shows their use"
    if with_data and not probabilistic:
        source += ", counted on best paths"
    heading(f"latent states of each label ({source})")
    label = None
    shown = [view for view in views if view["share"] >= RARE]
    for view in shown:
        if view["label"] != label:
            label = view["label"]
            show()
            heading(f"  {label}")
        begin = f"    {view['state'].removeprefix(label) or '#1':<4}{view['share']:>5.0%}"
        _show_view(view, begin, 14, with_data)
    if len(shown) < len(views):
        show()
        show(f"{counted(len(views) - len(shown), 'state')} below 1 % of their label left out; --json shows all")


def _show_view(view: dict[str, Any], begin: str, width: int, with_data: bool) -> None:
    """A label or state in lines of its words, features and neighbours; `begin` begins the first."""
    lines = [
        ("words", "  ".join(word for word, _ in view["words"])),
        ("features", ", ".join(f"{name} ({weight:+.2f})" for name, weight in view["features"])),
        ("before it", _neighbours(view["before"], with_data)),
        ("after it", _neighbours(view["after"], with_data)),
    ]
    for name, text in lines:
        if text:
            show(f"{begin:<{width}} {name:<10} {text}")
            begin = ""
    if begin:
        show(begin)


def _neighbours(states: Sequence[tuple[str, float]], with_data: bool) -> str:
    """States with their probabilities (but those of 0 %) or, without data, with the weights of the transitions."""
    if with_data:
        return ", ".join(f"{name} {value:.0%}" for name, value in states if value >= 0.005)
    return ", ".join(f"{name} {value:+.2f}" for name, value in states)
