"""labelwright calibrate: fit on held-out data how sure a model may be."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.common import (
    Columns,
    Format,
    Json,
    Label,
    Threads,
    aligned,
    check_target,
    corpus_for,
    counted,
    is_model,
    load_model,
    say,
    show,
    show_json,
)
from labelwright.cli.eval import gold_for
from labelwright.cli.options import DATA, OTHER, argument, option
from labelwright.cli.reading import has_attributes
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.cli.reading import Data
    from labelwright.evaluate import CalibrationReport


def command(
    model: Annotated[str, argument("A model file.", "MODEL")],
    data: Annotated[str, argument("Labelled sentences that the model was not trained on.", "DEV")],
    output: Annotated[str, option("The calibrated model.", "OUT", DATA, "-o", "--output", show_default=False)],
    method: Annotated[
        str,
        option(
            "temperature: divide all scores by one number; isotonic: then also map the probabilities of entities and "
            "labels by a rising curve (needs some hundred entities).",
            "NAME",
        ),
    ] = "temperature",
    folds: Annotated[
        int | None,
        option(
            "DEV is the training file: train N copies, each without one part of it, and judge them on that part.", "N"
        ),
    ] = None,
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    as_json: Json = False,
    threads: Threads = None,
    quiet: Annotated[bool, option("Print nothing.", None, OTHER, "--quiet", "-q")] = False,
) -> None:
    """Calibrate the probabilities of a model: of all entities to which it gives 0.9, nine in ten shall be right.

    \b
      labelwright calibrate model.crf dev.txt -o calibrated.crf
      labelwright calibrate model.crf dev.txt -o calibrated.crf --method isotonic
      labelwright calibrate model.crf train.txt -o calibrated.crf --folds 5
      labelwright eval calibrated.crf test.txt --calibration

    No label changes.  Every command shows the calibrated probabilities of OUT (--uncalibrated shows the others), and
    OUT may be MODEL itself.  Perceptrons and memory-based models have confidences once they are calibrated.

    The table shows the calibration error of the entities of DEV (of labels, where they make no chunks) before and
    after (not with --folds); that of sentences which were used for nothing is shown by `labelwright eval OUT TEST
    --calibration`.
    """
    from labelwright.taggers.registry import load

    _check(output, data)
    tagger = load_model(model, threads, attributes=True)
    gold = _held_out(tagger, data, columns, label, format)
    inputs, truth = calibrate_on(tagger, gold, method, folds)
    _with_calibration(load(model), tagger).save(output)
    before = after = {}
    if folds is None:  # on its training data a model is better than on others
        before, after = (_reports(each, inputs, truth) for each in (tagger.uncalibrated(), tagger))
    facts = {name: _facts(each, before.get(name), after.get(name)) for name, each in tagger._outputs.items()}
    if as_json:
        show_json(facts.get("", {"layers": facts}))
    elif not quiet:
        _show(facts)
    if not quiet:
        _warn(facts)


def calibrate_on(tagger: Any, gold: "Data", method: str, folds: int | None) -> tuple[Any, dict[str, Any]]:
    """Calibrate a trained model on labelled sentences; their input, and the labels of every output."""
    inputs = gold.X if has_attributes(gold) else corpus_for(tagger, gold)
    truth = {name: gold.column(name) if name else gold.y for name in tagger._outputs}
    tagger.calibrate(inputs, truth.get("", truth), method=method, folds=folds)
    return inputs, truth


def fitted_text(calibration: Mapping[str, Any]) -> str:
    """What a calibration is, in a phrase."""
    maps = ", monotone maps" if calibration["method"] == "isotonic" else ""
    data = counted(calibration["sentences"], "sentence") + _left_out(calibration.get("left_out", {}))
    return f"temperature {calibration['temperature']:.4g}{maps}, on {data}"


def _with_calibration(stored: Any, tagger: Any) -> Any:
    """The model as it is stored, threads and kinds of labels and all, with the calibration of another copy of it."""
    for name, output in stored._outputs.items():
        output._set_calibration(tagger._outputs[name].training_["calibration"])
    return stored


def _check(output: str, data: str) -> None:
    """Refuse an output that is no place for a model, or that holds something else."""
    if output == "-":
        raise OptionError("--output: expected the name of a model file to write, got '-'")
    check_target(output, [data], for_model=True)
    if os.path.isfile(output) and os.path.getsize(output) and not is_model(output):
        raise OptionError(f"{output}: is no model, and would be replaced; name another file to write")


def _held_out(model: Any, data: str, columns: str | None, label: str | None, format: str | None) -> "Data":
    from labelwright.corpus.file_formats import FileOptions

    gold = gold_for(model, data, columns, label, FileOptions(format, tokenizer=model.tokenizer()))
    if not len(gold.X):
        raise OptionError(f"{data}: no sentences to calibrate on")
    return gold


def _reports(model: Any, inputs: Any, truth: dict[str, Any]) -> "dict[str, CalibrationReport]":
    """How far the probabilities of every output can be trusted, where it has any."""
    from labelwright.evaluate import calibration_report

    sure = [name for name, tagger in model._outputs.items() if tagger._is_sure]
    return {name: calibration_report(model, inputs, truth[name], layer=name) for name in sure}


def _facts(tagger: Any, before: "CalibrationReport | None", after: "CalibrationReport | None") -> dict[str, Any]:
    """What was fitted, and the errors of probabilities before and after, ready for JSON."""
    reports = {"before": before, "after": after}
    errors = {
        name: {"ece": report.ece, "brier": report.brier, "said": report.said, "right": report.right}
        for name, report in reports.items()
        if report is not None
    }
    sizes = {} if after is None else {"n": after.n, "unit": after.unit, "measure": after.measure}
    return {"calibration": tagger.training_["calibration"], **sizes, **errors}


def _show(facts: dict[str, dict[str, Any]]) -> None:
    """For every output the temperature, and a table: what, before, after."""
    for name, each in facts.items():
        show(f"{f'{name}: ' if name else ''}{fitted_text(each['calibration'])}")
        if not each.get("n"):  # nothing to be judged
            continue
        columns = [column for column in ("before", "after") if column in each]
        rows: list[tuple[str, ...]] = [("", *columns)]
        rows.append(("calibration error", *(f"{100 * each[column]['ece']:.2f} %" for column in columns)))
        for key, title in (("brier", "Brier score"), ("said", f"mean {each['measure']}"), ("right", "right")):
            rows.append((title, *(f"{each[column][key]:.4f}" for column in columns)))
        for line in aligned(rows, {1, 2}):
            show(line)


def _left_out(numbers: dict[str, int]) -> str:
    """How many sentences the temperature was not fitted on, and why."""
    reasons = {"unknown": "without labels", "impossible": "with labels that the model cannot give"}
    given = [f"{numbers[name]:,} {reason}" for name, reason in reasons.items() if numbers.get(name)]
    return f"; left out: {', '.join(given)}" if given else ""


def _warn(facts: dict[str, dict[str, Any]]) -> None:
    from labelwright.inspection.warnings import few_held_out

    for name, each in facts.items():
        line = few_held_out(each["calibration"])
        if line is not None:
            say(f"labelwright: {name}: {line}" if name else f"labelwright: {line}")
