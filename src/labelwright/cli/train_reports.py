"""What `labelwright train` reports beside the model: progress, cross-validation, a learning curve,
the scores of layers before and after joint training, plots."""

from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from labelwright.cli.copies import calibrate_on, calibration_text
from labelwright.cli.files import gold_of
from labelwright.cli.plots import draw_changes
from labelwright.cli.recipe import Request
from labelwright.cli.show import say
from labelwright.errors import LabelwrightError, OptionError
from labelwright.wording import counted, duration, percent

if TYPE_CHECKING:
    from labelwright.cli.files import Data
    from labelwright.corpus.table import Corpus

USUAL = 50  # iterations, where no limit is set
MINUTE = 60.0
FOLDS = 5  # of cross-fitting
SHOWN = 5  # changes of labels that are written out


def cross_validated(
    model: Any, data: Any, asked: Request, weights: list[Any] | None = None
) -> dict[str, Any]:
    """The scores of a model on each part of the data, with their mean and spread, for the record of
    training."""
    from labelwright.search.folds import cross_validate

    folds, quiet, done = asked.values["folds"], bool(asked.get("quiet")), count(1)

    def progress(fold: Any) -> None:
        sizes = f"{fold.n_train:,} + {fold.n_test:,} sentences"
        say(f"fold {next(done)}/{folds}  {sizes}  {100 * fold.score:6.2f}  {fold.seconds:.2f} s")

    how: Any = {
        "folds": folds,
        "random_state": asked.get("random_state") or 0,
        "sample_weight": weights,
    }
    result = cross_validate(model, data, progress=None if quiet else progress, **how)
    if not quiet:
        say(
            f"{folds} folds: {100 * result.mean:.2f}, standard deviation "
            f"{100 * result.deviation:.2f}"
        )
    return result.as_dict()


def curve_of(
    model: Any, data: Any, dev: Any, asked: Request, weights: list[Any] | None = None
) -> Any:
    from labelwright.search.folds import learning_curve

    if not asked.get("learning_curve"):
        return None

    def progress(part: Any) -> None:
        sentences = counted(part.n_train, "sentence")
        say(f"learning curve  {sentences:>18}  {100 * part.score:6.2f}  {part.seconds:.2f} s")

    shown = None if asked.get("quiet") else progress
    return learning_curve(model, data, dev=dev, progress=shown, sample_weight=weights)


def calibrated(model: Any, data: Any, dev: Any, asked: Request) -> None:
    """Calibrate a trained model on development data, or by cross-fitting, where that is asked
    for."""
    if asked.get("calibrate") is None:
        return
    folds = None if dev is not None else FOLDS
    try:
        calibrate_on(model, data if dev is None else dev, asked.values["calibrate"], folds)
    except LabelwrightError as error:
        told = f"{asked.place('calibrate')}: {str(error).removeprefix('calibrate: ')}"
        raise OptionError(
            f"{told}; {asked.values['output']} holds the model without calibration"
        ) from None
    how = "on development data" if folds is None else f"by cross-fitting in {folds} parts"
    for name, tagger in {} if asked.get("quiet") else model._outputs.items():
        say(
            f"{name + ': ' if name else ''}calibrated {how}: "
            f"{calibration_text(tagger.training_['calibration'])}"
        )


def say_beforehand(model: Any, data: Any, asked: Request) -> None:
    """What training will take, where that is minutes; measured on a few sentences."""
    from labelwright.search.estimate import estimate, may_take_minutes

    label = getattr(data, "label", None)
    if (
        asked.get("quiet")
        or label is None
        or not asked.can("checkpoint")
        or asked.can("layer_progress")
    ):
        return
    settings = model.get_params(deep=False)
    latent = settings.get("n_latent", 1)
    states = latent if isinstance(latent, int) else max(latent.values())
    if not may_take_minutes(
        data.n_tokens, len(data.values(label)), states, settings.get("order", 1)
    ):
        return
    expected = estimate(model, data)
    limit = settings.get("max_iter") or USUAL
    if expected.seconds * limit >= MINUTE:
        turns = counted(limit, model._trains_in)
        say(
            f"training: {expected.tokens:,} tokens, {expected.states:,} states, {expected.arcs:,} "
            f"arcs; about {expected.seconds:.2g} s for each {model._trains_in}, "
            f"{duration(expected.seconds * limit)} for {turns}"
        )


# -- progress --------------------------------------------------------------------------------------


class Lines:
    """One line per iteration on stderr, perhaps under a title, and one before each further random
    start."""

    def __init__(self, title: str | None = None) -> None:
        self._title, self._last, self._starts = title, -1, 1

    def __call__(self, record: Any, max_iter: int) -> None:
        if self._title is not None:
            say(self._title)
            self._title = None
        if record["iteration"] <= self._last:
            self._starts += 1
            say(f"start {self._starts}")
        self._last = record["iteration"]
        dev = f"  dev {100 * record['dev']:.2f}" if "dev" in record else ""
        what = f"loss {record['loss']:14.4f}"
        if "mistakes" in record:
            what = f"mistakes {record['mistakes']:9,}  separable {percent(record['separable']):>8}"
        say(f"{record['iteration']:5d}  {what}  {record['seconds']:8.2f} s{dev}")

    def close(self) -> None:
        """Nothing is left open."""


class LayerProgress:
    """What a person sees of the training: a bar for each layer, one for each part of the jackknife,
    one for the end."""

    def __init__(self, quiet: bool, verbose: bool):
        self._quiet, self._verbose = quiet, verbose
        self._parts: dict[str, int] = {}

    def started(self, name: str, model: Any) -> Any:
        part = self._parts[name] = self._parts.get(name, -1) + 1
        title = f"{name} without part {part}" if part else name
        if self._quiet:
            return None
        return Lines(title) if self._verbose else model._progress_bar(title)


# -- scores on development data --------------------------------------------------------------------

Predictions = dict[str, dict[str, list[list[str]]]]  # "before" and "after": labels by output


def score_name(report: Any) -> str:
    return "accuracy" if report.f1 is None else "F1"


def dev_scores(dev: "Data", predicted: Predictions) -> tuple[dict[str, Any], str]:
    """The scores of every output, and all of them in a phrase."""
    from labelwright.evaluate import evaluate

    reports = {
        when: {name: evaluate(gold_of(dev, name), labels) for name, labels in by_output.items()}
        for when, by_output in predicted.items()
    }
    phrases = []
    for name, report in reports["after"].items():
        scores = " -> ".join(f"{100 * reports[when][name].score:.2f}" for when in reports)
        phrases.append(f"{name}{' ' if name else ''}{score_name(report)} {scores}")
    scores_of = {
        when: {name: report.score for name, report in by.items()} for when, by in reports.items()
    }
    return scores_of, ", ".join(phrases)


def plot_layers(
    path: str, scores: dict[str, Any], dev: "Corpus", predicted: Predictions, quiet: bool
) -> None:
    """Draw the scores before and after joint training, and what changed labels of each layer did to
    the layer above."""
    from labelwright.evaluate.changes import Versions, label_changes

    versions = {
        name: Versions(dev.column(name), *(predicted[when][name] for when in ("before", "after")))
        for name in predicted["after"]
    }
    by_layers = {
        (low, high): label_changes(versions[low], versions[high])
        for low, high in pairwise(versions)
    }
    draw_changes(scores["before"], scores["after"], by_layers, path)
    for (lower, upper), changes in {} if quiet else by_layers.items():
        n, right, wrong = (
            sum(getattr(change, name) for change in changes) for name in ("n", "right", "wrong")
        )
        say(
            f"{dev.source}: joint training changed {counted(n, 'label')} of {lower}; near them, "
            f"labels of {upper} became right at {right:,}, wrong at {wrong:,}, neither at "
            f"{n - right - wrong:,}"
        )
        width = max(
            (len(f"{change.before} -> {change.after}") for change in changes[:SHOWN]), default=0
        )
        for change in changes[:SHOWN]:
            say(
                f"  {f'{change.before} -> {change.after}':<{width}}  {change.n:6,}: "
                f"{change.right:,} right, {change.wrong:,} wrong, {change.same:,} neither "
                f"({change.corrected:,} corrected in {lower}, {change.broken:,} broken)"
            )
