"""labelwright calibrate and export: a copy of a model that knows how sure it may be, or that is
smaller."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labelwright.cli import options as usual
from labelwright.cli.files import (
    check_copy,
    check_target,
    file_options,
    gold_for,
    gold_of,
    inputs_for,
    load_model,
    predicted_by,
)
from labelwright.cli.options import DATA, argument, changed, command, option
from labelwright.cli.show import report, report_outputs, warn
from labelwright.errors import OptionError
from labelwright.settings import NOT_NEGATIVE, REQUIRED, OnlyWith, Whole
from labelwright.wording import align, counted, percent

if TYPE_CHECKING:
    from labelwright.cli.files import Data

# -- labelwright calibrate -------------------------------------------------------------------------


@command(
    argument("model", "MODEL", "A model file."),
    argument("data", "DEV", "Labelled sentences that the model was not trained on."),
    option("-o --output OUT", "The calibrated model.", DATA, None, REQUIRED),
    usual.COLUMNS,
    usual.LABEL,
    usual.FORMAT,
    usual.MAX_INPUT,
    usual.JSON,
    option(
        "--method NAME",
        "temperature: divide all scores by one number; isotonic: then also map the probabilities "
        "of entities and labels by a rising curve (needs some hundred entities).",
        default="temperature",
    ),
    option(
        "--folds N",
        "DEV is the training file: judge N copies, each on a part that it has not seen.",
        kind=Whole(),
    ),
    usual.THREADS,
    usual.SILENT,
)
def calibrate_command(o: Any) -> None:
    """Calibrate the probabilities of a model: of all entities to which it gives 0.9, nine in ten
    shall be right.

    \b
      labelwright calibrate model.crf dev.txt -o calibrated.crf
      labelwright calibrate model.crf dev.txt -o calibrated.crf --method isotonic
      labelwright calibrate model.crf train.txt -o calibrated.crf --folds 5
      labelwright eval calibrated.crf test.txt --calibration

    No label changes.  Every command shows the calibrated probabilities of OUT (--uncalibrated shows
    the others), and OUT may be MODEL itself.  Perceptrons and memory-based models have confidences
    once they are calibrated.

    The table shows the calibration error of the entities of DEV (of labels, where they make no
    chunks) before and after (not with --folds); that of sentences which were used for nothing is
    shown by `labelwright eval OUT TEST --calibration`.
    """
    from labelwright.evaluate import calibration_report
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
    # of its training data a model knows too much
    models = {"before": tagger.uncalibrated(), "after": tagger} if o.folds is None else {}
    facts = {
        name: {"calibration": each.training_["calibration"]}
        for name, each in tagger._outputs.items()
    }
    for when, model in models.items():
        for name, each in model._outputs.items():
            if each._is_sure:
                judged = calibration_report(
                    model, inputs_for(model, gold), gold_of(gold, name), layer=name
                )
                errors = {key: getattr(judged, key) for key in ("ece", "brier", "said", "right")}
                facts[name] |= {
                    "n": judged.n,
                    "unit": judged.unit,
                    "measure": judged.measure,
                    when: errors,
                }
    if o.json or not o.quiet:
        report_outputs(facts, o.json, _calibration_lines)
    for name, each in {} if o.quiet else facts.items():
        line = few_held_out(each["calibration"])
        warn(f"{name}: {line}" if name and line is not None else line)


def calibrate_on(tagger: Any, gold: "Data", method: str, folds: int | None) -> None:
    """Calibrate a trained model on labelled sentences."""
    truth = {name: gold_of(gold, name) for name in tagger._outputs}
    tagger.calibrate(inputs_for(tagger, gold), truth.get("", truth), method=method, folds=folds)


def calibration_text(calibration: Mapping[str, Any] | None) -> str:
    """What a calibration is, and on how many sentences it was fitted."""
    if calibration is None:
        return "not calibrated; train with --dev FILE, or use labelwright calibrate"
    maps = ", monotone maps" if calibration.get("method") == "isotonic" else ""
    reasons = {"unknown": "without labels", "impossible": "with labels that the model cannot give"}
    left_out = calibration.get("left_out", {})
    given = [
        f"{left_out[name]:,} {reason}" for name, reason in reasons.items() if left_out.get(name)
    ]
    data = counted(calibration["sentences"], "sentence") + (
        f"; left out: {', '.join(given)}" if given else ""
    )
    fitted = f"{calibration['log_likelihood_per_token']:.4f} log-likelihood per token"
    return f"temperature {calibration['temperature']:.4g}{maps}, on {data}; {fitted}"


def _calibration_lines(facts: dict[str, Any]) -> list[str]:
    """The temperature, and a table: what, before, after."""
    columns = [when for when in ("before", "after") if when in facts]
    rows = [("", *columns)]
    titles = {"brier": "Brier score", "said": f"mean {facts.get('measure')}", "right": "right"}
    if facts.get("n"):  # otherwise nothing is there to be judged
        rows.append(
            ("calibration error", *(f"{100 * facts[when]['ece']:.2f} %" for when in columns))
        )
        rows += [
            (title, *(f"{facts[when][key]:.4f}" for when in columns))
            for key, title in titles.items()
        ]
    return [calibration_text(facts["calibration"]), *(align(rows) if rows[1:] else [])]


# -- labelwright export ----------------------------------------------------------------------------


@command(
    argument("model", "MODEL", "A model file."),
    argument(
        "output", "OUT", "The smaller model file, or tagger.py, .js, .mjs or .html, by suffix."
    ),
    option(
        "--data FILE",
        "Labelled sentences: show scores before and after, and how many labels agree.",
        DATA,
    ),
    *(changed(setting, OnlyWith("data")) for setting in (usual.COLUMNS, usual.LABEL, usual.FORMAT)),
    usual.JSON,
    option(
        "--prune X",
        "Remove weights of features from -X to X, and features without any.",
        kind=NOT_NEGATIVE,
        default=0.0,
    ),
    option(
        "--bits N",
        "Bits of each weight: 32, 16 or 8.",
        kind=Whole(),
        shown="32; 16 in tagger.py and the like",
    ),
    usual.THREADS,
    usual.SILENT,
)
def export_command(o: Any) -> None:
    """Write a smaller copy of a model, or a program of one file, and show what it
    saves and what it costs.

    \b
      labelwright export model.crf small.crf                  weights as they are
      labelwright export model.crf small.crf --bits 16 --data dev.txt
      labelwright export model.crf small.crf --prune 0.05 --bits 8 --data dev.txt
      labelwright export model.crf tagger.py     needs nothing but Python
      labelwright export model.crf tagger.js     Node, scripts of pages; or .mjs
      labelwright export model.crf tagger.html --bits 8      labels what is typed

    The copy is a model like any other: every command and labelwright.load read it, and its answers
    are exact for its own weights.  Labels and transitions between them stay.  With --bits 8 each
    kind of weights (state, edge, ...) has its own scale, and weights that round to 0
    are removed.  Memory-based models have no weights of features: they take neither --prune nor
    --bits, but become smaller, too.

    Programs hold CRFs, latent CRFs and perceptrons of order 1 with a template, and give the labels
    of the copy.
    """
    from labelwright import modelfile
    from labelwright.interchange.exporting import program, suffix_of
    from labelwright.interchange.formats import format_of
    from labelwright.taggers.registry import load

    is_program = suffix_of(o.output) is not None
    if is_program:
        check_target(o.output, [o.model, o.data])
    else:
        check_copy(o.output, "OUT", [o.model, o.data])
    if format_of(o.output):
        raise OptionError(
            f"{o.output}: is for models of labelwright; then use labelwright convert for other "
            "programs"
        )
    large, written = load(o.model), io.BytesIO()
    small = large.compressed(o.prune, o.bits or (16 if is_program else 32))
    small.save(written)
    copy = written.getvalue()
    content = program(small, o.output) if is_program else copy
    before, after = large._sizes(), load(copy)._sizes()
    facts: dict[str, Any] = {"bytes": [len(modelfile.content_of(o.model)), len(content)]}
    facts |= {name: [before[name], after[name]] for name in before}
    if o.data is not None:
        models = (
            load_model(o.model, o.n_jobs, attributes=True),
            load_model(copy, o.n_jobs, files=False),
        )
        facts["data"] = _scores(
            gold_for(models[0], o.data, o.columns, o.label, file_options(o)), *models
        )
    modelfile.store(o.output, content)
    if o.json or not o.quiet:
        report(facts, o.json, _size_lines)


def _scores(gold: "Data", *models: Any) -> dict[str, dict[str, Any]]:
    """Scores before and after, and the share of tokens and sentences whose labels agree, by
    output."""
    from labelwright.evaluate import evaluate

    answers, scores = [predicted_by(model, gold) for model in models], {}
    for name in models[0]._outputs:
        labels = [answer[name] for answer in answers]
        reports = [evaluate(gold_of(gold, name), each) for each in labels]
        same = evaluate(labels[0], labels[1], reading="token")
        facts: dict[str, Any] = (
            {} if reports[0].f1 is None else {"f1": [each.f1 for each in reports]}
        )
        facts["token_accuracy"] = [each.token_accuracy for each in reports]
        scores[name] = facts | {
            "agreement": {"tokens": same.token_accuracy, "sentences": same.sentence_accuracy}
        }
    return scores


def _size_lines(facts: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "before", "after")]
    rows.append(("size", *(f"{n / 1e6:,.2f} MB" for n in facts["bytes"])))
    rows += [
        (name, *(f"{n:,}" for n in facts[name]))
        for name in ("features", "weights")
        if name in facts
    ]
    for layer, scores in facts.get("data", {}).items():
        place = f"{layer} " if layer else ""
        for key, name in (("f1", "F1"), ("token_accuracy", "token accuracy")):
            rows += (
                [(place + name, *(f"{100 * value:.2f}" for value in scores[key]))]
                if key in scores
                else []
            )
        for key, name in (("tokens", "labels"), ("sentences", "sentences")):
            rows.append((f"{place}{name} that agree", "", percent(scores["agreement"][key])))
    return align(rows)
