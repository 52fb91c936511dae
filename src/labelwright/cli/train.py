"""labelwright train: from a column file to a model file.

The command is made for the tagger that is asked for: its options are the settings of the run and
those that the tagger's constructor declares.
"""

import inspect
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labelwright.cli import recipe, train_data, workers
from labelwright.cli import train_reports as reports
from labelwright.cli import train_search as search
from labelwright.cli.files import (
    check_target,
    has_attributes,
    layer_names,
    load_model,
    predicted_by,
    refuse_inputs,
)
from labelwright.cli.options import Command
from labelwright.cli.plots import check_plot, draw_training
from labelwright.cli.recipe import RUN, TRAIN, Request
from labelwright.cli.show import ended_by_signal, say, warn
from labelwright.errors import ClusterError, LabelwrightError, OptionError
from labelwright.settings import OfTheRun, Setting, check_together, settings_of
from labelwright.taggers import registry
from labelwright.wording import counted, did_you_mean, shown, some_of

if TYPE_CHECKING:
    from labelwright.cli.files import Data

SHOWN = 5  # new labels that are named
BLANK = "\n\n"  # between paragraphs

# -- the command -----------------------------------------------------------------------------------

ABOUT = """Train a tagger from a file with one token per line, columns separated by spaces or tabs,
and an empty line after each sentence.
"""
AFTER = """\b
  labelwright train train.txt -o model.crf --columns word,pos,chunk
  labelwright train train.txt -o model.crf --template chunking --dev dev.txt
  labelwright train train.txt -o model.crf --search l2=0.1,1,10 --dev dev.txt

Taggers: {names}.  The options below are those of most taggers; all of one:
labelwright train --model crf --help, labelwright train --model memory --help, ...

Ctrl-C, SIGTERM or SIGHUP writes the model so far; a second one aborts.
"""


class TrainCommand(Command):
    """A command for one tagger, which knows the options of the others, and the grid of a search."""

    def __init__(
        self,
        name: str,
        text: str,
        settings: Sequence[Setting],
        run: Callable[[str, str, dict[str, Any]], None],
    ):
        def run_it(o: Any) -> None:
            run(o.train, name, {key: value for key, value in o.given.items() if key != TRAIN.name})

        self.tagger = name
        super().__init__(text, [TRAIN, *settings], run_it, f"Settings of {name}")

    def check(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Check the options of the run; the settings of a tagger are checked together with those of
        its recipe."""
        check_together(values, self.settings, [name for name in given if name in RUN])

    def unknown(self, option: str) -> str:
        refusal = recipe.unknown_option(option, self.tagger, RUN)
        if refusal is not None:
            raise OptionError(refusal)
        return super().unknown(option)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(argument.startswith("--search") for argument in args):
            args = search.joined_grid(
                args, search.settings_by_name(registry.model_class(self.tagger))
            )
        return super().parse_args(ctx, args)


def train_command(given: Sequence[str]) -> Command:
    """The command for the tagger that these arguments ask for."""
    named = any(
        _given(given, flag) for flag in ("--model", "--recipe", "--start-from", "--continue")
    )
    if {"-h", "--help"} & set(given) and not named:
        text = f"{ABOUT}\n{AFTER.format(names=', '.join(registry.command_line_names()))}"
        return TrainCommand("crf", text, recipe.settings_for_all(), _train)
    name = asked_tagger(given)
    return TrainCommand(
        name, f"{ABOUT}\n{_about(name)}", recipe.in_order(settings_of_run(name)), _train
    )


def settings_of_run(name: str, keep: Callable[[Setting], bool] = lambda _: True) -> list[Setting]:
    """The settings of a run with this tagger, of which one may keep some, and those of the
    tagger."""
    kind = registry.model_class(name)
    of_run = {
        key: recipe.for_tagger(kind, each)
        for key, each in RUN.items()
        if keep(each) and recipe.offered(kind, each)
    }
    return list(
        {
            **of_run,
            **{key: each for key, each in settings_of(kind).items() if each.in_options},
        }.values()
    )


def asked_tagger(given: Sequence[str]) -> str:
    """The name of the tagger that arguments ask for, or their recipe; without one, that of the
    model to start from or to continue."""
    path, names = _given(given, "--recipe"), registry.command_line_names()
    table = recipe.read_recipe(path) if path else {}
    asked, place = _given(given, "--model"), "--model"
    if asked is None:
        asked, place = table.get("model"), f"{path}: model"
    if asked is None:
        further = _name_of_file(_given(given, "--continue"), "partial_fit")
        return (
            further
            or _name_of_file(_given(given, "--start-from") or table.get("start_from"), "init")
            or "crf"
        )
    if asked not in names:
        near = did_you_mean(asked, names) if isinstance(asked, str) else ""
        raise OptionError(
            f"{place}: expected one of {', '.join(names)}, got {shown(asked, 60)}{near}"
        )
    return str(asked)


def _about(name: str) -> str:
    """What the help of one tagger says of it, and of the settings that only a recipe can give."""
    kind = registry.model_class(name)
    text = f"{(inspect.getdoc(kind) or kind.__name__).partition(BLANK)[0]}\n"
    only = [
        setting
        for setting in settings_of(kind).values()
        if setting.in_recipes and not setting.in_options
    ]
    if only:
        keys = "\n\n".join(f"{setting.name}: {setting.help}" for setting in only)
        text += f"\nSettings for recipes only (--recipe FILE.toml):\n\n{keys}\n"
    for setting in only:
        if setting.kind.example:
            text += (
                "\n\b\n"
                + "\n".join(f"  {line}" for line in setting.kind.example.splitlines())
                + "\n"
            )
    return text


def _given(arguments: Sequence[str], flag: str) -> str | None:
    value = None
    for i, argument in enumerate(arguments):
        if argument == flag and i + 1 < len(arguments):
            value = arguments[i + 1]
        elif argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
    return value


def _name_of_file(path: Any, ability: str) -> str | None:
    """The name of a trained tagger that has this ability."""
    from labelwright import modelfile

    try:
        kind = None if path is None else modelfile.read(path)[1].get("kind")
    except LabelwrightError:  # said when it is loaded
        return None
    name = registry.class_names().get(str(kind))
    return name if name and ability in registry.model_class(name)._training_options else None


# -- the run ---------------------------------------------------------------------------------------


def _train(source: str, name: str, options: dict[str, Any]) -> None:
    """Train a tagger, write it, and say how the training went."""
    asked = recipe.request(name, RUN, options, complete="continue_from" not in options)
    output, inputs = asked.values["output"], [source, *asked.files()]
    check_target(output, inputs, for_model=True)  # but a model may be trained further in its place
    if "continue_from" in options:
        _train_further(source, asked)
        return
    checkpoint = _check(asked, inputs)
    spread = None if "dask" not in asked.values else workers.partitions_of(source, asked)
    with workers.cluster_of(asked.get("dask"), bool(asked.get("quiet"))) as client:
        _run(source, asked, checkpoint, spread, client)


def _run(source: str, asked: Request, checkpoint: Path | None, spread: Any, client: Any) -> None:
    """Read, search, train, write; on a cluster where there are partitions, `spread`, and a
    client."""
    output = asked.values["output"]
    start, kept = recipe.start_model(asked)
    model = recipe.tagger(asked, kept)
    schemes = asked.kind._label_columns(asked.table)
    tried = search.settings_to_try(model, asked)
    head = None if spread is None or tried else spread.head  # a search samples all data
    data, dev = train_data.read_data(source, asked, schemes, head)
    data, weights = train_data.weighted_data(data, asked)
    if weights is not None and asked.get("calibrate") is not None and dev is None:
        raise OptionError(
            f"{asked.place('calibrate')}: cross-fitting trains copies without weights; add --dev "
            "FILE"
        )
    data = train_data.opened_labels(data, asked)
    train_data.say_known(data, schemes, asked)
    train_data.set_rate(model, dev, asked)
    for option in train_data.SAMPLED:
        if has_attributes(data) and asked.get(option):
            raise OptionError(
                f"{asked.place(option)}: takes samples of columns, not of CRFsuite's data; leave "
                "it out"
            )
    search.check_choices(model, tried, data, asked)
    begun, record, result = time.perf_counter(), dict[str, Any](), None
    trials = Path(f"{output}.search")
    with asked.named():
        if tried:
            result, record["search"] = search.searched(
                model, tried, data, dev, asked, trials, weights, client
            )
            model = result.best_model()
        if "folds" in asked.values:
            record["folds"] = reports.cross_validated(model, data, asked, weights)
        curve = reports.curve_of(model, data, dev, asked, weights)
        if spread is None:
            reports.say_beforehand(model, data, asked)
        # An interrupted search goes on another time, perhaps to other settings: no run of the best
        # so far is to be resumed then.
        cut_short = record.get("search", {}).get("stopped") == "interrupted"
        place = None if cut_short else checkpoint
        _fit(model, spread or data, dev, start, place, asked, weights, client)
    if spread is not None:
        told = workers.Aside(asked.get("skip_bad")).add(spread.bad)
        warn(None if asked.get("quiet") else told)
        model.training_["seen"] = "".join(spread.hashes)
        if head is not None and dev is not None:  # now that all partitions have been read
            train_data.warn_about_dev(dev, schemes, spread.labels.values(), spread.hashes, asked)
    if tried:
        record["seconds"] = round(time.perf_counter() - begun, 3)
        if record["search"]["stopped"] == "interrupted" or "stopped" not in model.training_:
            record["stopped"] = record["search"]["stopped"]
    _finish(
        model,
        record,
        data,
        dev,
        checkpoint,
        asked,
        lambda: _draw(model, result, curve, asked.values["plot"]),
    )
    trials.unlink(missing_ok=True)


def _check(asked: Request, inputs: Sequence[str]) -> Path | None:
    """Refuse what makes no sense together, before anything is read; where the state of the run
    goes, if it has one."""
    from labelwright.learn.monitor import checkpoint_files

    given, output = (
        {name for name in ("arrays", "dev", "dev_arrays") if name in asked.values},
        asked.values["output"],
    )
    if "dev_arrays" in given and len(given) < 3:
        raise OptionError(f"{asked.place('dev_arrays')}: only with --dev and --arrays; add them")
    if given == {"arrays", "dev"}:
        why = "the development data need a row for each token, too; add --dev-arrays FILE"
        raise OptionError(f"{asked.place('arrays')}: {why}")
    if (
        asked.get("calibrate") is not None
        and "dev" not in given
        and asked.get("start_from") is not None
    ):
        why = f"cross-fitting trains copies without {asked.place('start_from')}; add --dev FILE"
        raise OptionError(f"{asked.place('calibrate')}: {why}")
    if asked.get("plot") is not None:
        if not (asked.can("progress") or asked.get("search") or asked.get("learning_curve")):
            raise OptionError(
                f"--plot: --model {asked.name} has no history of training to draw; add "
                "--learning-curve"
            )
        check_plot(asked.values["plot"], [*inputs, output])
    if not asked.can("checkpoint"):
        return None
    checkpoint = Path(f"{output}.checkpoint")
    for place in (checkpoint, *checkpoint_files(checkpoint)):
        if place.is_dir():
            raise OptionError(
                f"{place}: is a folder, but a checkpoint of this run goes there; name another MODEL"
            )
        refuse_inputs(str(place), inputs)
    return checkpoint


def _fit(
    model: Any,
    data: "Data",
    dev: "Data | None",
    start: Any,
    checkpoint: Path | None,
    asked: Request,
    weights: list[Any] | None = None,
    client: Any = None,
) -> None:
    from labelwright.learn.monitor import checkpoint_files

    quiet, verbose, resume = (bool(asked.get(name)) for name in ("quiet", "verbose", "resume"))
    given = {"sample_weight": weights, "memory_map": asked.get("memory_map"), "client": client}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {
        name: value for name, value in {"dev": dev, "init": start}.items() if asked.can(name)
    }
    if checkpoint is not None:
        if bool(checkpoint_files(checkpoint)) != resume and not quiet:
            nothing = "no such file, so there is nothing to resume: starting anew"
            left = "left by an unfinished run; starting anew (--resume would go on from it)"
            say(f"{checkpoint}: {nothing if resume else left}")
        every = asked.get("checkpoint_every", 10.0)
        options |= {"checkpoint": checkpoint, "checkpoint_every": every, "resume": resume}
    if asked.can("layer_progress"):
        layers = reports.LayerProgress(quiet, verbose)
        options |= {
            "layer_progress": layers.started,
            "progress": layers.started("all layers", model),
        }
    elif asked.can("progress") and not quiet:
        options["progress"] = reports.Lines() if verbose else model._progress_bar()
    try:
        model.fit(*(data if has_attributes(data) else [data]), **options)
    except KeyboardInterrupt:
        if checkpoint is None or not checkpoint_files(checkpoint):
            raise
        raise ended_by_signal(f"; {_go_on()}") from None
    except ClusterError as error:
        if checkpoint is None or not checkpoint_files(checkpoint):
            raise
        raise ClusterError(f"{error}; {_go_on()}") from None
    finally:
        if options.get("progress") is not None:
            options["progress"].close()


def _go_on() -> str:
    return (
        "go on with: "
        f"{shlex.join(['labelwright', *(a for a in sys.argv[1:] if a != '--resume'), '--resume'])}"
    )


# -- the end ---------------------------------------------------------------------------------------


def _finish(
    model: Any,
    more: dict[str, Any],
    data: "Data",
    dev: Any,
    checkpoint: Path | None,
    asked: Request,
    draw: Callable[[], None],
) -> None:
    """Write the model; then the checkpoint goes, unless the run was interrupted."""
    from labelwright.inspection.warnings import few_features
    from labelwright.learn.monitor import remove_checkpoints
    from labelwright.taggers.estimator import is_interrupted

    output, plot, quiet = asked.values["output"], asked.get("plot"), bool(asked.get("quiet"))
    _remember(model, data, output, anew=True)
    model.training_.update(more)
    for part in () if quiet else model._outputs.values():
        warn(few_features(part))
    record, interrupted = model.training_, is_interrupted(model)
    turns = record.get("iterations")
    if interrupted and checkpoint is not None and turns == 0:
        raise ended_by_signal(f" before the first {model._trains_in}; {output} is not written")
    on_dev, joint = _on_dev(model, dev, asked)
    try:
        if not interrupted:
            reports.calibrated(model, data, dev, asked)
    finally:  # what was trained is kept
        model._forget_run()
        model.save(output)
    if interrupted:
        resumable, searched = checkpoint is not None and "search" not in record, "search" in record
        after = (
            f" after {counted(turns, model._trains_in)}" if resumable and turns is not None else ""
        )
        resume = (
            f"; {_go_on()}"
            if resumable
            else "; the same command resumes the search"
            if searched
            else ""
        )
        raise ended_by_signal(f"{after}; {output} holds the model so far{resume}")
    if checkpoint is not None:
        remove_checkpoints(checkpoint)
    if not quiet:
        say(f"{output}: {_summary(model, on_dev)}")
    if plot is not None and joint is not None:
        reports.plot_layers(plot, record["dev"], dev, joint, quiet)
    elif plot is not None:
        draw()
    if plot is not None and not quiet:
        say(f"{plot}: drawn")


def _remember(model: Any, data: "Data", output: str, anew: bool = False) -> None:
    """Store the columns of the (first) training and a sample of what was seen; a model that has
    learnt nothing sound is refused."""
    from labelwright.inspection.warnings import sample_of

    trouble = model._trouble()
    if trouble is not None:
        raise OptionError(f"{output}: not written, {trouble}")
    if not has_attributes(data):
        if anew or "columns" not in model.training_:
            model._remember_input(list(data.names), data.label)
        model.training_["seen"] = sample_of(data, model.training_.get("seen", ""))


def _draw(model: Any, result: Any, curve: Any, path: str) -> None:
    """A plot of the history of training, of a search and of a learning curve, as far as there are
    such."""
    histories = {name: vars(part).get("history_", []) for name, part in model._outputs.items()}
    if not any(histories.values()):
        histories = {"": vars(model).get("history_", [])}
    trials = None if result is None else (result.table_, result.best_params_, result.sizes_)
    draw_training({name: each for name, each in histories.items() if each}, trials, curve, path)


def _on_dev(
    model: Any, dev: "Data | None", asked: Request
) -> tuple[str, reports.Predictions | None]:
    """How good the model is on the development data, in a phrase; of layers that were trained
    together also what they predicted before and after."""
    from labelwright.evaluate import evaluate

    seen = [entry["dev"] for entry in vars(model).get("history_", []) if "dev" in entry]
    if dev is None:
        return "", None
    if asked.kind._label_columns(asked.table) is not None:
        before = vars(model).get("before_")  # the layers learnt together
        predicted = {} if before is None else {"before": predicted_by(before, dev)}
        predicted["after"] = predicted_by(model, dev)
        model.training_["dev"], phrase = reports.dev_scores(dev, predicted)
        return f"on the development data {phrase}", None if before is None else predicted
    if seen:
        return (
            f"best {reports.score_name(evaluate(dev.y, dev.y))} on the development data "
            f"{100 * max(seen):.2f}",
            None,
        )
    if asked.can("dev"):
        return "", None
    if "verbose" in model.get_params(deep=False):
        model.set_params(verbose=0 if asked.get("quiet") else 1)
    report = evaluate(dev.y, predicted_by(model, dev)[""])
    model.training_["dev"] = report.score
    return f"{reports.score_name(report)} {100 * report.score:.2f} on the development data", None


def _summary(model: Any, on_dev: str) -> str:
    """How large the model is, how the run went, how good it is, and why training stopped."""
    from labelwright.search.trials import tried

    sizes, run, stopped = model._summary()
    record = model.training_.get("search")
    if record is not None:
        stopped = f"the best of {tried(record['tried'], record['settings'])}; {record['stopped']}"
    run, name = ", ".join(filter(None, [*run, on_dev])), model.tokenizer().name
    sizes = ", ".join([*sizes, f"tokenizer {name}"] if name != "words" else sizes)
    return "; ".join(filter(None, [sizes, run])) + (f" ({stopped})" if stopped else "")


# -- a trained model, continued by its `partial_fit` -----------------------------------------------


def _train_further(source: str, asked: Request) -> None:
    """Continue a trained model with the sentences of a file, write it, and say what is new."""
    from labelwright.taggers.estimator import is_interrupted

    path, output = asked.values["continue_from"], asked.values["output"]
    for key, setting in asked.settings.items():
        if key in asked.values and not setting.has(OfTheRun):
            why = f"the model that --continue names keeps its settings; leave {setting.flag} out"
            raise OptionError(f"{setting.flag}: {why}")
    model = load_model(path, asked.get("n_jobs"), attributes=True)
    kind = registry.name_of(type(model))
    if "partial_fit" not in model._training_options:
        raise OptionError(
            f"--continue: {path} is a {kind}, which cannot learn further; train again on all data"
        )
    if kind != asked.name:
        raise OptionError(f"--model: {path} is a {kind}, got {asked.name}; leave --model out")
    if "device" in asked.values:
        model.set_params(device=asked.values["device"])
    data, dev = train_data.read_further(model, source, asked), None
    if "dev" in asked.values:
        dev = train_data.read_further(model, asked.values["dev"], asked, held_out=True)
    data, weights = train_data.weighted_data(data, asked)
    data = train_data.columns_for(model, data)
    known = {name: list(part.classes_) for name, part in model._outputs.items()}
    features = {name: part.training_.get("features") or 0 for name, part in model._outputs.items()}
    data = train_data.opened_labels(data, asked, known.get("", ()))
    train_data.say_known(data, dict.fromkeys(layer_names(model)) or None, asked, known)
    predicted, begun = (
        {} if dev is None else {"before": predicted_by(model, dev)},
        time.perf_counter(),
    )
    model.partial_fit(*(data if has_attributes(data) else [data]), sample_weight=weights)
    seconds = time.perf_counter() - begun
    _remember(model, data, output)
    model._forget_run()
    model.save(output)
    told = []
    for name, part in model._outputs.items():
        labels, size = part.classes_, part.training_.get("features")
        new = [label for label in labels if label not in known[name]]
        named = f" (new: {some_of(new, SHOWN)})" if new else ""
        more = (
            "" if size is None else f", {counted(size, 'feature')} ({size - features[name]:,} new)"
        )
        told.append(f"{name}{' ' if name else ''}{counted(len(labels), 'label')}{named}{more}")
    told.append(f"{counted(len(data.X), 'further sentence')}, {seconds:.1f} s")
    if dev is not None:
        phrase = reports.dev_scores(dev, predicted | {"after": predicted_by(model, dev)})[1]
        told.append(f"{phrase} on the development data")
    if not asked.get("quiet"):
        say(f"{output}: {'; '.join(told)}")
    if any(map(is_interrupted, model._outputs.values())):
        raise ended_by_signal(f"; {output} holds the model so far")
