"""labelwright calibrate and export: a copy of a model that knows how sure it may be, or that is smaller."""

import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from labelwright.cli import decoding as how
from labelwright.cli.files import by_output, check_copy, file_options, gold_for, inputs_for, load_model
from labelwright.cli.options import (
    COLUMNS,
    DATA,
    FORMAT,
    JSON,
    LABEL,
    MAX_INPUT,
    SILENT,
    THREADS,
    Command,
    argument,
    changed,
    option,
)
from labelwright.cli.show import report, report_outputs, warn
from labelwright.errors import OptionError
from labelwright.settings import REQUIRED, AtLeast, Bounds, Number, OnlyWith, Whole
from labelwright.wording import align, counted, percent

if TYPE_CHECKING:
    from labelwright.cli.files import Data
    from labelwright.evaluate import CalibrationReport

Labels = dict[str, list[list[str]]]  # by output [N][T]

# -- labelwright calibrate --------------------------------------------------------------------------------------------

CALIBRATE_HELP = """\
Calibrate the probabilities of a model: of all entities to which it gives 0.9, nine in ten shall be right.

\b
  labelwright calibrate model.crf dev.txt -o calibrated.crf
  labelwright calibrate model.crf dev.txt -o calibrated.crf --method isotonic
  labelwright calibrate model.crf train.txt -o calibrated.crf --folds 5
  labelwright eval calibrated.crf test.txt --calibration

No label changes.  Every command shows the calibrated probabilities of OUT (--uncalibrated shows the others), and OUT
may be MODEL itself.  Perceptrons and memory-based models have confidences once they are calibrated.

The table shows the calibration error of the entities of DEV (of labels, where they make no chunks) before and after
(not with --folds); that of sentences which were used for nothing is shown by `labelwright eval OUT TEST
--calibration`.
"""
CALIBRATE_OPTIONS = [
    argument("model", "MODEL", "A model file."),
    argument("data", "DEV", "Labelled sentences that the model was not trained on."),
    option("-o --output OUT", "The calibrated model.", DATA, None, REQUIRED),
    COLUMNS,
    LABEL,
    FORMAT,
    MAX_INPUT,
    JSON,
    option(
        "--method NAME",
        "temperature: divide all scores by one number; isotonic: then also map the probabilities of entities and "
        "labels by a rising curve (needs some hundred entities).",
        default="temperature",
    ),
    option(
        "--folds N",
        "DEV is the training file: train N copies, each without one part of it, and judge them on that part.",
        kind=Whole(),
    ),
    THREADS,
    SILENT,
]


def _calibrate(o: Any) -> None:
    from labelwright.inspection.warnings import few_held_out
    from labelwright.taggers.registry import load

    check_copy(o.output, "--output", [o.data])
    tagger = load_model(o.model, o.n_jobs, attributes=True)
    gold = gold_for(tagger, o.data, o.columns, o.label, file_options(o, tagger.tokenizer()))
    if not len(gold.X):
        raise OptionError(f"{o.data}: no sentences to calibrate on")
    calibrate_on(tagger, gold, o.method, o.folds)
    stored = load(o.model)  # with its threads and kinds of labels
    for name, output in stored._outputs.items():
        output._set_calibration(tagger._outputs[name].training_["calibration"])
    stored.save(o.output)
    before = after = {}
    if o.folds is None:  # on its training data a model is better than on others
        before, after = (_reports(each, gold) for each in (tagger.uncalibrated(), tagger))
    facts = {name: _facts(each, before.get(name), after.get(name)) for name, each in tagger._outputs.items()}
    if o.json:
        report_outputs(facts, True, list)
    elif not o.quiet:
        report(facts, False, _calibration_lines)
    for name, each in {} if o.quiet else facts.items():
        line = few_held_out(each["calibration"])
        warn(f"{name}: {line}" if name and line is not None else line)


calibrate_command = Command(CALIBRATE_HELP, CALIBRATE_OPTIONS, _calibrate)


def calibrate_on(tagger: Any, gold: "Data", method: str, folds: int | None) -> None:
    """Calibrate a trained model on labelled sentences."""
    truth = by_output(tagger, gold)
    tagger.calibrate(inputs_for(tagger, gold), truth.get("", truth), method=method, folds=folds)


def fitted_text(calibration: Mapping[str, Any]) -> str:
    """What a calibration is, in a phrase."""
    maps = ", monotone maps" if calibration["method"] == "isotonic" else ""
    reasons = {"unknown": "without labels", "impossible": "with labels that the model cannot give"}
    left_out = calibration.get("left_out", {})
    given = [f"{left_out[name]:,} {reason}" for name, reason in reasons.items() if left_out.get(name)]
    data = counted(calibration["sentences"], "sentence") + (f"; left out: {', '.join(given)}" if given else "")
    return f"temperature {calibration['temperature']:.4g}{maps}, on {data}"


def _reports(model: Any, gold: "Data") -> "dict[str, CalibrationReport]":
    """How far the probabilities of every output can be trusted, where it has any."""
    from labelwright.evaluate import calibration_report

    inputs, truth = inputs_for(model, gold), by_output(model, gold)
    sure = [name for name, tagger in model._outputs.items() if tagger._is_sure]
    return {name: calibration_report(model, inputs, truth[name], layer=name) for name in sure}


def _facts(tagger: Any, before: "CalibrationReport | None", after: "CalibrationReport | None") -> dict[str, Any]:
    """What was fitted, and the errors of probabilities before and after."""
    errors = {
        name: {"ece": each.ece, "brier": each.brier, "said": each.said, "right": each.right}
        for name, each in {"before": before, "after": after}.items()
        if each is not None
    }
    sizes = {} if after is None else {"n": after.n, "unit": after.unit, "measure": after.measure}
    return {"calibration": tagger.training_["calibration"], **sizes, **errors}


def _calibration_lines(facts: dict[str, dict[str, Any]]) -> Iterator[str]:
    """For every output the temperature, and a table: what, before, after."""
    for name, each in facts.items():
        yield f"{f'{name}: ' if name else ''}{fitted_text(each['calibration'])}"
        if not each.get("n"):  # nothing to be judged
            continue
        columns = [column for column in ("before", "after") if column in each]
        rows: list[tuple[str, ...]] = [("", *columns)]
        rows.append(("calibration error", *(f"{100 * each[column]['ece']:.2f} %" for column in columns)))
        for key, title in (("brier", "Brier score"), ("said", f"mean {each['measure']}"), ("right", "right")):
            rows.append((title, *(f"{each[column][key]:.4f}" for column in columns)))
        yield from align(rows)


# -- labelwright export -----------------------------------------------------------------------------------------------

EXPORT_HELP = """\
Write a smaller copy of a model, and show what it saves and what it costs.

\b
  labelwright export model.crf small.crf                  weights as they are
  labelwright export model.crf small.crf --bits 16 --data dev.txt
  labelwright export model.crf small.crf --prune 0.05 --bits 8 --data dev.txt

The copy is a model like any other: every command and labelwright.load read it, and its answers are exact for its own
weights.  Labels and transitions between them stay.  With --bits 8 each kind of weights (state, edge, ...) has its own
scale, and weights that round to 0 are removed.  Memory-based models have no weights of features: they take neither
--prune nor --bits, but become smaller, too.
"""
EXPORT_OPTIONS = [
    argument("model", "MODEL", "A model file."),
    argument("output", "OUT", "The smaller model file."),
    option("--data FILE", "Labelled sentences: show scores before and after, and how many labels agree.", DATA),
    *(changed(setting, OnlyWith("data")) for setting in (COLUMNS, LABEL, FORMAT)),
    JSON,
    option(
        "--prune X",
        "Remove weights of features from -X to X, and features that have none left.",
        kind=Number(Bounds(AtLeast(0))),
        default=0.0,
    ),
    option("--bits N", "Bits of each weight: 32, 16 or 8.", kind=Whole(), default=32),
    THREADS,
    SILENT,
]


def _export(o: Any) -> None:
    from labelwright import modelfile
    from labelwright.interchange.formats import format_of
    from labelwright.taggers.registry import load

    check_copy(o.output, "OUT", [o.model, o.data])
    if format_of(o.output):
        raise OptionError(f"{o.output}: is for models of labelwright; then use labelwright convert for other programs")
    large, written = load(o.model), io.BytesIO()
    large.compressed(o.prune, o.bits).save(written)
    content = written.getvalue()
    before, after = large._sizes(), load(content)._sizes()
    facts: dict[str, Any] = {"bytes": [os.path.getsize(o.model), len(content)]}
    facts |= {name: [before[name], after[name]] for name in before}
    if o.data is not None:
        models = load_model(o.model, o.n_jobs, attributes=True), load_model(content, o.n_jobs, files=False)
        gold = gold_for(models[0], o.data, o.columns, o.label, file_options(o))
        facts["data"] = _scores(gold, models[0], *(_labels(model, gold) for model in models))
    modelfile.store(o.output, content)
    if o.json or not o.quiet:
        report(facts, o.json, _size_lines)


export_command = Command(EXPORT_HELP, EXPORT_OPTIONS, _export)


def _labels(model: Any, gold: "Data") -> Labels:
    """What a model says of the sentences, by output."""
    choices = how.chosen(model, {})

    def question(name: str, tagger: Any, batch: Any) -> list[list[str]]:
        choice = choices[name]
        return [d.labels for d in batch.decode(choice.decoder, probabilities=False, **choice.options)]

    answers: Labels = model._ask_outputs(inputs_for(model, gold), question)
    return answers


def _scores(gold: "Data", model: Any, before: Labels, after: Labels) -> dict[str, dict[str, Any]]:
    """Scores before and after, and the share of tokens and sentences whose labels agree, by output."""
    from labelwright.evaluate import evaluate

    scores = {}
    for name, truth in by_output(model, gold).items():
        reports = [evaluate(truth, labels[name]) for labels in (before, after)]
        same = evaluate(before[name], after[name], reading="token")
        facts: dict[str, Any] = {} if reports[0].f1 is None else {"f1": [each.f1 for each in reports]}
        facts["token_accuracy"] = [each.token_accuracy for each in reports]
        scores[name] = facts | {"agreement": {"tokens": same.token_accuracy, "sentences": same.sentence_accuracy}}
    return scores


def _size_lines(facts: dict[str, Any]) -> list[str]:
    """A table: what, before, after."""
    rows: list[tuple[str, ...]] = [("", "before", "after")]
    rows.append(("size", *(f"{n / 1e6:,.2f} MB" for n in facts["bytes"])))
    rows += [(name, *(f"{n:,}" for n in facts[name])) for name in ("features", "weights") if name in facts]
    for layer, scores in facts.get("data", {}).items():
        place = f"{layer} " if layer else ""
        for key, name in (("f1", "F1"), ("token_accuracy", "token accuracy")):
            if key in scores:
                rows.append((place + name, *(f"{100 * value:.2f}" for value in scores[key])))
        rows.append((f"{place}labels that agree", "", percent(scores["agreement"]["tokens"])))
        rows.append((f"{place}sentences that agree", "", percent(scores["agreement"]["sentences"])))
    return align(rows)
