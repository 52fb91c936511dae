"""labelwright train: from a column file to a model file.

The command is made for the tagger that is asked for: its options are the settings of the run and those that the
tagger's constructor declares.
"""

import inspect
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from labelwright.cli import train_labels as labels
from labelwright.cli import train_reports as reports
from labelwright.cli import train_search as search
from labelwright.cli.files import (
    TokenRows,
    check_target,
    check_writable,
    file_options,
    has_attributes,
    read_labelled,
    refuse_inputs,
    sentences_of,
)
from labelwright.cli.options import Command
from labelwright.cli.plots import check_plot
from labelwright.cli.recipe import (
    RUN,
    TRAIN,
    Request,
    for_tagger,
    in_order,
    offered,
    read_recipe,
    request,
    settings_for_all,
    start_model,
    tagger,
    unknown_option,
)
from labelwright.cli.show import ended_by_signal, say, warn
from labelwright.cli.tag_input import tokenizer_given
from labelwright.engine import choice
from labelwright.errors import LabelwrightError, OptionError
from labelwright.settings import Setting, settings_of
from labelwright.taggers import registry
from labelwright.wording import counted, did_you_mean, shown

if TYPE_CHECKING:
    from labelwright.cli.files import Data
    from labelwright.corpus.file_formats import OpenFile

SEARCH_AGAIN = "; the same command resumes the search"
BLANK = "\n\n"  # between paragraphs

# -- the command ------------------------------------------------------------------------------------------------------

ABOUT = """Train a tagger from a file with one token per line, columns separated by spaces or tabs, and an empty line
after each sentence.
"""
AFTER = """\b
  labelwright train train.txt -o model.crf --columns word,pos,chunk
  labelwright train train.txt -o model.crf --template chunking --dev dev.txt
  labelwright train train.txt -o model.crf --search l2=0.1,1,10 --dev dev.txt

Taggers: {names}.  The options below are those of most taggers; all of one: labelwright train --model crf --help,
labelwright train --model memory --help, ...

Ctrl-C, SIGTERM or SIGHUP writes the model so far; a second one aborts.
"""


class TrainCommand(Command):
    """A command for one tagger, which knows the options of the others, and the grid of a search."""

    def __init__(self, name: str, text: str, settings: Sequence[Setting], run: Callable[[Any], None]):
        self.tagger = name
        super().__init__(text, [TRAIN, *settings], run, f"Settings of {name}")

    def check(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """The settings of a tagger are checked together with those of its recipe."""

    def unknown(self, option: str) -> str:
        refusal = unknown_option(option, self.tagger, RUN)
        if refusal is not None:
            raise OptionError(refusal)
        return super().unknown(option)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(argument.startswith("--search") for argument in args):
            args = search.joined_grid(args, search.settings_by_name(registry.model_class(self.tagger)))
        return super().parse_args(ctx, args)


def train_command(given: Sequence[str]) -> Command:
    """The command for the tagger that these arguments ask for."""
    named = any(_given(given, flag) for flag in ("--model", "--recipe", "--start-from", "--continue"))
    if {"-h", "--help"} & set(given) and not named:
        text = f"{ABOUT}\n{AFTER.format(names=', '.join(registry.command_line_names()))}"
        return TrainCommand("crf", text, settings_for_all(), lambda o: None)
    name = asked_tagger(given)
    settings = settings_of_run(name)
    return TrainCommand(name, f"{ABOUT}\n{_about(name)}", in_order(settings), lambda o: _train(o.train, name, o.given))


def settings_of_run(name: str, keep: Callable[[Setting], bool] = lambda _: True) -> list[Setting]:
    """The settings of a run with this tagger, of which one may keep some, and those of the tagger."""
    kind = registry.model_class(name)
    of_run = {key: for_tagger(kind, each) for key, each in RUN.items() if keep(each) and offered(kind, each)}
    return list({**of_run, **{key: each for key, each in settings_of(kind).items() if each.in_options}}.values())


def asked_tagger(given: Sequence[str]) -> str:
    """The name of the tagger that arguments ask for, or their recipe; without one, that of the model to start from or
    to continue."""
    recipe, names = _given(given, "--recipe"), registry.command_line_names()
    table = read_recipe(recipe) if recipe else {}
    asked, place = _given(given, "--model"), "--model"
    if asked is None:
        asked, place = table.get("model"), f"{recipe}: model"
    if asked is None:
        further = _name_of_file(_given(given, "--continue"), "partial_fit")
        return further or _name_of_file(_given(given, "--start-from") or table.get("start_from"), "init") or "crf"
    if asked not in names:
        near = did_you_mean(asked, names) if isinstance(asked, str) else ""
        raise OptionError(f"{place}: expected one of {', '.join(names)}, got {shown(asked, 60)}{near}")
    return str(asked)


def _about(name: str) -> str:
    """What the help of one tagger says of it, and of the settings that only a recipe can give."""
    kind = registry.model_class(name)
    text = f"{(inspect.getdoc(kind) or kind.__name__).partition(BLANK)[0]}\n"
    only = [setting for setting in settings_of(kind).values() if setting.in_recipes and not setting.in_options]
    if only:
        keys = "\n\n".join(f"{setting.name}: {setting.help}" for setting in only)
        text += f"\nSettings for recipes only (--recipe FILE.toml):\n\n{keys}\n"
    for setting in only:
        if setting.kind.example:
            text += "\n\b\n" + "\n".join(f"  {line}" for line in setting.kind.example.splitlines()) + "\n"
    return text


def _given(arguments: Sequence[str], flag: str) -> str | None:
    """The last value of an option among arguments."""
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

    if path is None:
        return None
    try:
        kind = modelfile.read(path)[1].get("kind")
    except LabelwrightError:  # said when it is loaded
        return None
    name = registry.class_names().get(str(kind))
    return name if name and ability in registry.model_class(name)._training_options else None


# -- the run ----------------------------------------------------------------------------------------------------------


def _train(source: str, name: str, options: Mapping[str, Any]) -> None:
    """Train a tagger, write it, and say how the training went."""
    options = {key: value for key, value in options.items() if key != TRAIN.name}
    if "continue_from" in options:
        from labelwright.cli.train_further import train_further

        train_further(source, name, options)
        return
    asked = request(name, RUN, options)
    output = asked.values["output"]
    _check_arrays(asked)
    inputs = [source, *asked.files()]
    check_target(output, inputs, for_model=True)  # but a model may be trained further in its place
    checkpoint = _checkpoint(output, inputs) if asked.can("checkpoint") else None
    start, kept = start_model(asked)
    model = tagger(asked, kept)
    schemes = asked.kind._label_columns(asked.table)
    if asked.get("plot") is not None:
        if not (asked.can("progress") or asked.get("search") or asked.get("learning_curve")):
            raise OptionError(f"--plot: --model {asked.name} has no history of training to draw; add --learning-curve")
        check_plot(asked.values["plot"], [*inputs, output])
    tried = search.settings_to_try(model, asked)
    data, dev = read_data(source, asked, schemes)
    data, weights = labels.weighted_data(data, asked)
    reports.check_calibrate(asked, weights is not None)
    data = labels.opened_labels(data, asked)
    labels.say_known(data, schemes, asked)
    labels.set_rate(model, dev, asked)
    begun = time.perf_counter()
    record: dict[str, Any] = {}
    trials = Path(f"{output}.search")
    drawn = reports.Drawn()
    reports.check_divisible(data, asked)
    search.check_choices(model, tried, data, asked)
    with asked.named():
        if tried:
            drawn = reports.Drawn(search.searched(model, tried, data, dev, asked, trials, weights))
            model, record["search"] = drawn.search.model, drawn.search.record
        if "folds" in asked.values:
            record["folds"] = reports.cross_validated(model, data, asked, weights)
        drawn = drawn._replace(curve=reports.curve_of(model, data, dev, asked, weights))
        reports.say_beforehand(model, data, asked)
        _fit(model, data, dev, start, checkpoint, asked, weights)
    if tried:
        record["seconds"] = round(time.perf_counter() - begun, 3)
        if record["search"]["stopped"] == "interrupted" or "stopped" not in model.training_:
            record["stopped"] = record["search"]["stopped"]
    _finish(model, record, data, dev, checkpoint, asked, drawn)
    trials.unlink(missing_ok=True)


def _check_arrays(asked: Request) -> None:
    """Training and development data must both have arrays, or neither."""
    given = {name for name in ("arrays", "dev", "dev_arrays") if name in asked.values}
    if "dev_arrays" in given and given != {"arrays", "dev", "dev_arrays"}:
        raise OptionError(f"{asked.place('dev_arrays')}: only with --dev and --arrays; add them")
    if given == {"arrays", "dev"}:
        raise OptionError(
            f"{asked.place('arrays')}: the development data need a row for each token, too; add --dev-arrays FILE"
        )


def _checkpoint(output: str, inputs: Sequence[str]) -> Path:
    """Where the state of the run goes, checked."""
    from labelwright.learn.monitor import checkpoint_files

    checkpoint = Path(f"{output}.checkpoint")
    for place in (checkpoint, *checkpoint_files(checkpoint)):
        if place.is_dir():
            raise OptionError(f"{place}: is a folder, but a checkpoint of this run goes there; name another MODEL")
        refuse_inputs(str(place), inputs)
    return checkpoint


def read_data(source: str, asked: Request, schemes: Mapping[str, str | None] | None) -> "tuple[Data, Data | None]":
    """The training and the development data."""
    from labelwright.corpus.file_formats import TEXTS, opened
    from labelwright.corpus.tokenizer import Tokenizer, shown_by
    from labelwright.inspection.warnings import hashes_of, trained_on

    columns, label, scheme = (asked.get(name) for name in ("columns", "label", "scheme"))
    splitting = SimpleNamespace(
        **{name: asked.get(name) for name in ("tokenizer", "characters", "token_pattern", "sentences")}
    )
    files = file_options(asked.values, tokenizer_given(Tokenizer(), splitting))
    file = opened(source, files.format, named=columns is not None or label is not None or schemes is not None)

    def read(part: "OpenFile", names: str | None, name: str | None) -> Any:
        if schemes is not None:
            return labels.read_layers(part, names, schemes, files)
        if file.format == "crfsuite":
            return _read_attributes(part, asked)
        return read_labelled(part, names, name, scheme, files)

    data: Any = read(file, columns, label)
    if not has_attributes(data):
        data = replace(data, raw=None)  # the text of the file is no longer needed
        of_words = data.tokenizer or shown_by(data) or Tokenizer()
        data = data.split_by(tokenizer_given(of_words, splitting) or data.tokenizer)
    file.close()
    data = _with_arrays(data, "arrays", asked)
    if "dev" not in asked.values:
        return data, None
    dev = opened(asked.values["dev"], files.format or ("crfsuite" if file.format == "crfsuite" else None), named=True)
    if has_attributes(data) or dev.format in TEXTS:
        held_out: Any = read(dev, None, None)
    else:
        held_out = labels.read_dev(lambda names: read(dev, names, data.label), columns or ",".join(data.names), asked)
    labels.check_known_labels(held_out, schemes, data)
    if not has_attributes(held_out) and not asked.get("quiet"):
        warn(trained_on("".join(hashes_of(data)), held_out))
    return data, _with_arrays(held_out, "dev_arrays", asked)


def _read_attributes(file: "OpenFile", asked: Request) -> "Data":
    """CRFsuite's data."""
    from labelwright.corpus.schemes import convert
    from labelwright.features.attributes import read_crfsuite

    for name in ("columns", "label", "template"):
        if name in asked.values:
            raise OptionError(f"{asked.place(name)}: {file.name} has attributes, not columns; leave it out")
    data, scheme = read_crfsuite(file), asked.get("scheme")
    return data._replace(y=convert(data.y, None, scheme)) if scheme else data


def _with_arrays(data: "Data", name: str, asked: Request) -> "Data":
    """The data with the rows of numbers that an option gives."""
    if name not in asked.values:
        return data
    if has_attributes(data):
        raise OptionError(f"{asked.place(name)}: CRFsuite's data have numbers of their own; leave it out")
    return TokenRows(asked.values[name], asked.place(name)).whole(data)


def _fit(
    model: Any,
    data: "Data",
    dev: "Data | None",
    start: Any,
    checkpoint: Path | None,
    asked: Request,
    weights: list[Any] | None = None,
) -> None:
    """Train with all that this tagger's fit takes."""
    from labelwright.learn.monitor import checkpoint_files

    quiet, verbose, resume = (bool(asked.get(name)) for name in ("quiet", "verbose", "resume"))
    options: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
    if not quiet and getattr(data, "n_tokens", 0) >= choice.ENOUGH and not choice.available():
        warn(f"training without compiled code takes several times as long: {choice.why_not_available()}")
    if asked.can("dev"):
        options["dev"] = dev
    if asked.can("init"):
        options["init"] = start
    if checkpoint is not None:
        if bool(checkpoint_files(checkpoint)) != resume and not quiet:
            nothing = "no such file, so there is nothing to resume: starting anew"
            left = "left by an unfinished run; starting anew (--resume would go on from it)"
            say(f"{checkpoint}: {nothing if resume else left}")
        every = asked.get("checkpoint_every", 10.0)
        options |= {"checkpoint": checkpoint, "checkpoint_every": every, "resume": resume}
    if asked.get("memory_map") is not None:
        options["memory_map"] = asked.get("memory_map")
    if asked.can("layer_progress"):
        layers = reports.LayerProgress(quiet, verbose)
        options |= {"layer_progress": layers.started, "progress": layers.started("all layers", model)}
    elif asked.can("progress") and not quiet:
        options["progress"] = reports.Lines() if verbose else model._progress_bar()
    try:
        model.fit(*(data if has_attributes(data) else [data]), **options)
    except KeyboardInterrupt:
        if checkpoint is None or not checkpoint_files(checkpoint):
            raise
        raise ended_by_signal(f"; {_go_on()}") from None
    finally:
        if options.get("progress") is not None:
            options["progress"].close()


# -- the end ----------------------------------------------------------------------------------------------------------


def _finish(
    model: Any,
    more: dict[str, Any],
    data: "Data",
    dev: "Data | None",
    checkpoint: Path | None,
    asked: Request,
    drawn: reports.Drawn,
) -> None:
    """Write the model; then the checkpoint goes, unless the run was interrupted."""
    from labelwright.inspection.warnings import few_features, sample_of
    from labelwright.learn.monitor import remove_checkpoints
    from labelwright.taggers.estimator import is_interrupted

    output, quiet = asked.values["output"], bool(asked.get("quiet"))
    check_writable(model, output)
    if not has_attributes(data):
        model._remember_input(list(data.names), data.label)
        model.training_["seen"] = sample_of(data)
    for part in () if quiet else model._outputs.values():
        warn(few_features(part))
    record = model.training_
    record |= more
    interrupted = is_interrupted(model)
    if interrupted and checkpoint is not None and record.get("iterations") == 0 and "rounds" not in record:
        raise ended_by_signal(f" before the first {model._trains_in}; {output} is not written")
    on_dev, draw_joint = _on_dev(model, dev, asked)
    try:
        if not interrupted:
            reports.calibrated(model, data, dev, asked)
    finally:  # what was trained is kept
        model._forget_run()
        model.save(output)
    if interrupted:
        resumable = checkpoint is not None and "search" not in record
        raise ended_by_signal(_left_behind(model, output, resumable) + (SEARCH_AGAIN if "search" in record else ""))
    if checkpoint is not None:
        remove_checkpoints(checkpoint)
    if not quiet:
        say(f"{output}: {_summary(model, on_dev)}")
    if draw_joint is not None:
        draw_joint()
    elif asked.get("plot") is not None:
        reports.draw(asked.values["plot"], model, drawn)
        if not quiet:
            say(f"{asked.values['plot']}: drawn")


def _on_dev(model: Any, dev: "Data | None", asked: Request) -> tuple[str, Callable[[], None] | None]:
    """How good the model is on the development data, in a phrase, and what draws it where that is asked for."""
    if dev is None:
        return "", None
    from labelwright.evaluate import evaluate

    if asked.kind._label_columns(asked.table) is not None:
        before = vars(model).get("before_")  # the layers learnt together
        predicted = {} if before is None else {"before": reports.predictions(before, dev)}
        predicted["after"] = reports.predictions(model, dev)
        scores, phrase = reports.dev_scores(dev, predicted)
        model.training_["dev"] = scores
        path, quiet = asked.get("plot"), bool(asked.get("quiet"))
        drawn = "before" in predicted and path is not None
        told = f"on the development data {phrase}"
        return told, (lambda: reports.plot_layers(path, scores, dev, predicted, quiet)) if drawn else None
    seen = [entry["dev"] for entry in vars(model).get("history_", []) if "dev" in entry]
    if seen:
        return f"best {reports.score_name(evaluate(dev.y, dev.y))} on the development data {100 * max(seen):.2f}", None
    if asked.can("dev"):
        return "", None
    if "verbose" in model.get_params(deep=False):
        model.set_params(verbose=0 if asked.get("quiet") else 1)
    report = evaluate(dev.y, model.predict(sentences_of(dev)))
    model.training_["dev"] = report.score
    return f"{reports.score_name(report)} {100 * report.score:.2f} on the development data", None


def _left_behind(model: Any, output: str, resumable: bool) -> str:
    """After how much training a signal came, what is left, and how to resume."""
    turns = model.training_.get("iterations")
    after = f" after {counted(turns, model._trains_in)}" if resumable and turns is not None else ""
    return f"{after}; {output} holds the model so far{f'; {_go_on()}' if resumable else ''}"


def _go_on() -> str:
    """How to resume."""
    return f"go on with: {shlex.join(['labelwright', *(a for a in sys.argv[1:] if a != '--resume'), '--resume'])}"


def _summary(model: Any, on_dev: str) -> str:
    """How large the model is, how the run went, how good it is, and why training stopped."""
    summary = model._summary()
    stopped = summary.stopped
    if "search" in model.training_:
        stopped = search.how_many(model.training_["search"])
    run = ", ".join(filter(None, [*summary.run, on_dev]))
    name = model.tokenizer().name
    sizes = [*summary.sizes, f"tokenizer {name}"] if name != "words" else summary.sizes
    return "; ".join(filter(None, [", ".join(sizes), run])) + (f" ({stopped})" if stopped else "")
