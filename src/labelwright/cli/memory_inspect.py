"""labelwright inspect of memory-based models: what is remembered, and what columns weigh."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from labelwright.cli.common import counted, heading, show
from labelwright.cli.layout import bar, calibration_text, label_row, score_text, show_rows, size_of_data, template_row
from labelwright.structures.proposals import gram_name

WEIGHTS = 50  # columns whose weights are written out


def show_facts(facts: dict[str, Any], path: str) -> None:
    """All facts about a memory-based model as text."""
    settings, tagger = facts["parameters"], facts["labels_sentences"]
    heading(f"{path}: {'memory-based tagger' if tagger else 'memory-based classifier'}")
    show_rows(
        [
            ("settings", _settings(settings)),
            *([("inference", _inference(settings))] if tagger else []),
            ("classes", f"{facts['classes']:,} {gram_name(settings['ngram'])}" if tagger else f"{facts['classes']:,}"),
            ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
            *([("scheme", facts["scheme"] or "none")] if tagger else []),
            *_columns(facts),
            ("memory", _memory(facts["memory"], settings["algorithm"])),
            *_training(facts["training"], facts["scheme"]),
            *_confidence(facts["training"].get("calibration")),
        ]
    )
    _show_weights(facts["feature_weights"], settings["weights"])
    if tagger and facts["columns"]:
        show()
        show("why a token has its label: labelwright explain MODEL FILE")


def _show_weights(weights: Sequence[dict[str, Any]], setting: Any) -> None:
    """The weights of the columns, the heaviest first, with bars."""
    show()
    heading(f"weights of columns ({setting if isinstance(setting, str) else 'as given'})")
    rows = sorted(weights, key=lambda row: -row["weight"])
    width, highest = max(len(row["column"]) for row in rows), max(row["weight"] for row in rows)
    for row in rows[:WEIGHTS]:
        show(f"  {row['column']:<{width}}  {row['weight']:10.4f}  {bar(row['weight'], highest)}".rstrip())
    if len(rows) > WEIGHTS:
        show(f"  ... and {len(rows) - WEIGHTS:,} more, with --json all")


def _inference(settings: dict[str, Any]) -> str:
    lengths = settings["lengths"]
    some = "" if lengths is None else f", of length {' and '.join(map(str, lengths))}"
    return f"{settings['inference']}, constraints weighted by {settings['weighting']}{some}"


def _settings(settings: dict[str, Any]) -> str:
    """The settings that say how neighbours are found."""
    shown = {"weights": settings["weights"]}
    if settings["algorithm"] == "ib1":
        shown = {"k": settings["k"], "metric": settings["metric"], **shown, "votes": settings["votes"]}
        metrics = [settings["metric"]] if isinstance(settings["metric"], str) else settings["metric"]
        if set(metrics) - {"overlap", "numeric"}:
            shown["threshold"] = settings["mvdm_threshold"]
        if settings["votes"] == "exponential-decay":
            shown["decay"] = "{:g},{:g}".format(*settings["decay"])
    texts = {name: value if isinstance(value, str | int) else _run_lengths(value) for name, value in shown.items()}
    return ", ".join([settings["algorithm"], *(f"{name} {text}" for name, text in texts.items())])


def _run_lengths(values: Iterable[Any]) -> str:
    """Values by column, equal ones that follow each other as one.

    >>> _run_lengths(["overlap", "overlap", "mvdm"])
    '2 x overlap, mvdm'
    """
    counts = [(value, len(list(same))) for value, same in groupby(values)]
    return ", ".join(f"{n} x {value}" if n > 1 else str(value) for value, n in counts)


def _columns(facts: dict[str, Any]) -> list[tuple[str, str]]:
    if facts["template"] is None:
        return [("columns", f"{len(facts['feature_weights'])} (trained in Python on dicts, arrays or rows)")]
    named = ("columns", ",".join(facts["columns"]))
    return [named, *label_row(facts["training"]), template_row(facts["template"])]


def _memory(memory: dict[str, float], algorithm: str) -> str:
    rows = f"{memory['rows']:,} different" if algorithm == "ib1" else f"a tree of {memory['rows']:,} nodes"
    size = f"{memory['bytes_per_instance']:,.0f} bytes an instance, {memory['bytes'] / 1e6:.1f} MB"
    return f"{counted(int(memory['instances']), 'instance')}, {rows}; {size}"


def _confidence(calibration: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [] if calibration is None else [("confidence", calibration_text(calibration))]


def _training(training: dict[str, Any], scheme: str | None) -> list[tuple[str, str]]:
    """How the training went; models made in Python know less about it."""
    if "sentences" not in training:
        return []
    rows = [("trained on", size_of_data(training))]
    if "seconds" in training:
        rows.append(("training", f"{training['seconds']:.1f} s; labelwright {training['labelwright']}"))
    if "dev" in training:
        rows.append(("dev", f"{score_text(training['dev'], scheme)} on the development data"))
    if "search" in training:
        rows.append(("search", _search(training["search"])))
    return rows


def _search(search: dict[str, Any]) -> str:
    from labelwright.search.shown import tried

    how_many = tried(search.get("tried", search["settings"]), search["settings"])
    return f"the best of {how_many}, {100 * search['score']:.2f} in the last step; {search['stopped']}"
