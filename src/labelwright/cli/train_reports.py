"""What `labelwright train` reports beside the model: cross-validation, a learning curve, plots."""

from typing import Any, NamedTuple

from labelwright.cli.common import counted, say
from labelwright.cli.plots import draw_training
from labelwright.cli.reading import has_attributes
from labelwright.cli.recipe import Request
from labelwright.errors import LabelwrightError, OptionError
from labelwright.wording import duration

USUAL = 50  # iterations, where no limit is set
MINUTE = 60.0
FOLDS = 5  # of cross-fitting


class Drawn(NamedTuple):
    """What a plot of training shows."""

    search: Any = None  # of cli.train_search
    curve: Any = None  # of search.folds


def check_divisible(data: Any, asked: Request) -> None:
    """Refuse data of which no samples can be taken."""
    for name in ("search", "folds", "learning_curve"):
        if has_attributes(data) and asked.get(name):
            raise OptionError(f"{asked.place(name)}: takes samples of columns, not of CRFsuite's data; leave it out")


def cross_validated(model: Any, data: Any, asked: Request, weights: list[Any] | None = None) -> dict[str, Any]:
    """The scores of a model on each part of the data, with their mean and spread, for the record of training."""
    from labelwright.search.folds import cross_validate

    folds, quiet, done = asked.values["folds"], bool(asked.get("quiet")), list[Any]()

    def progress(fold: Any) -> None:
        done.append(fold)
        say(
            f"fold {len(done)}/{folds}  {fold.n_train:,} + {fold.n_test:,} sentences  {100 * fold.score:6.2f}  "
            f"{fold.seconds:.2f} s"
        )

    result = cross_validate(
        model,
        data,
        folds=folds,
        random_state=asked.get("random_state") or 0,
        progress=None if quiet else progress,
        sample_weight=weights,
    )
    if not quiet:
        say(f"{folds} folds: {100 * result.mean:.2f}, standard deviation {100 * result.deviation:.2f}")
    return result.as_dict()


def curve_of(model: Any, data: Any, dev: Any, asked: Request, weights: list[Any] | None = None) -> Any:
    """A learning curve, where it is asked for, or where a plot has nothing else to show."""
    from labelwright.search.folds import learning_curve

    if not asked.get("learning_curve"):
        return None

    def progress(part: Any) -> None:
        sentences = counted(part.n_train, "sentence")
        say(f"learning curve  {sentences:>18}  {100 * part.score:6.2f}  {part.seconds:.2f} s")

    shown = None if asked.get("quiet") else progress
    return learning_curve(model, data, dev=dev, progress=shown, sample_weight=weights)


def check_calibrate(asked: Request, weighted: bool) -> None:
    """Refuse cross-fitting where copies of the model would be trained in another way."""
    if asked.get("calibrate") is None or "dev" in asked.values:
        return
    if weighted or asked.get("start_from") is not None:
        other = "weights" if weighted else asked.place("start_from")
        raise OptionError(f"{asked.place('calibrate')}: cross-fitting trains copies without {other}; add --dev FILE")


def calibrated(model: Any, data: Any, dev: Any, asked: Request) -> None:
    """Calibrate a trained model on development data, or by cross-fitting, where that is asked for."""
    if asked.get("calibrate") is None:
        return
    from labelwright.cli.calibrate import calibrate_on, fitted_text

    folds = None if dev is not None else FOLDS
    try:
        calibrate_on(model, data if dev is None else dev, asked.values["calibrate"], folds)
    except LabelwrightError as error:
        told = f"{asked.place('calibrate')}: {str(error).removeprefix('calibrate: ')}"
        raise OptionError(f"{told}; {asked.values['output']} holds the model without calibration") from None
    if asked.get("quiet"):
        return
    how = "on development data" if folds is None else f"by cross-fitting in {folds} parts"
    for name, tagger in model._outputs.items():
        say(f"{name + ': ' if name else ''}calibrated {how}: {fitted_text(tagger.training_['calibration'])}")


def say_beforehand(model: Any, data: Any, asked: Request) -> None:
    """What training will take, where that is minutes; measured on a few sentences."""
    from labelwright.search.estimate import estimate, may_take_minutes

    label = getattr(data, "label", None)
    if asked.get("quiet") or label is None or not asked.can("checkpoint") or asked.can("layer_progress"):
        return
    settings = model.get_params(deep=False)
    latent = settings.get("n_latent", 1)
    states = latent if isinstance(latent, int) else max(latent.values())
    if not may_take_minutes(data.n_tokens, len(data.values(label)), states, settings.get("order", 1)):
        return
    expected = estimate(model, data)
    limit = settings.get("max_iter") or USUAL
    if expected.seconds * limit >= MINUTE:
        turns = counted(limit, model._trains_in)
        say(
            f"training: {expected.tokens:,} tokens, {expected.states:,} states, {expected.arcs:,} arcs; about "
            f"{expected.seconds:.2g} s for each {model._trains_in}, {duration(expected.seconds * limit)} for {turns}"
        )


def draw(path: str, model: Any, drawn: Drawn) -> None:
    """A plot of the history of training, of a search and of a learning curve, as far as there are such."""
    histories = {name: vars(part).get("history_", []) for name, part in model._outputs.items()}
    if not any(histories.values()):
        histories = {"": vars(model).get("history_", [])}
    search = None if drawn.search is None else (drawn.search.rows, drawn.search.record["best"], drawn.search.sizes)
    draw_training({name: each for name, each in histories.items() if each}, search, drawn.curve, path)
