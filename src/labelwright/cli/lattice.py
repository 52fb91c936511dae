"""labelwright lattice: train a model of paths through lattices, and find the best ones."""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelwright.cli.common import check_target, ended_by_signal, say, show, show_json
from labelwright.cli.options import DATA, OUTPUT, GroupedCommand, command_of
from labelwright.errors import ModelFileError, OptionError
from labelwright.settings import AtLeast, Default, Flag, Group, Help, OptionOnly, Setting, settings_of
from labelwright.taggers import registry

if TYPE_CHECKING:
    from labelwright.structures.feature_lattice import LatticeData

NAME = "lattice-crf"
ABOUT = """Train a LatticeCRF on lattices, or find the best paths of lattices with a model.

A lattice is one JSON object on a line: arcs with source, target, label and features, and in training the true path.

\b
  {"arcs": [[0, 1, "word", {"text": "a"}], [1, 2, "word", ["b"]], [0, 2, "word", ["ab"]]], "path": [2]}

\b
  labelwright lattice train.jsonl -o words.model
  labelwright lattice new.jsonl --model words.model --nbest 3 -o best.jsonl
  labelwright lattice test.jsonl --model words.model --score
"""
FILE = inspect.Parameter(
    "source",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            rich_help_panel=DATA,
            help="Lattices as JSON lines (.gz .bz2 .xz), or -.",
        ),
    ],
)


def of_lattice(
    *,
    model: Annotated[
        str | None,
        Group(DATA),
        Flag(metavar="MODEL"),
        Help("A trained model, which adds its best path to every lattice; without, one is trained."),
    ] = None,
    dev: Annotated[
        str | None,
        Group(DATA),
        Flag(metavar="FILE"),
        Help("Training: keep the weights that do best on these lattices."),
    ] = None,
    output: Annotated[
        str | None,
        Group(OUTPUT),
        Flag("-o", "--output", metavar="FILE"),
        Help("The model that is trained, or the lattices with their paths."),
        Default("standard output"),
    ] = None,
    nbest: Annotated[
        int | None, AtLeast(1), Group(OUTPUT), Help("With --model: the N best paths of each lattice.")
    ] = None,
    probabilities: Annotated[
        bool, Group(OUTPUT), OptionOnly(), Help("With --model: the probability of every arc."), Default("")
    ] = False,
    score: Annotated[
        bool,
        Group(OUTPUT),
        OptionOnly(),
        Help("With --model: precision, recall and F1 of arcs by the true paths."),
        Default(""),
    ] = False,
    as_json: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("--json"), Help("With --score: print JSON."), Default("")
    ] = False,
    quiet: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("-q", "--quiet"), Help("No progress, no summary."), Default("")
    ] = False,
) -> None:
    """What is asked beside the settings of the model."""


OWN = settings_of(of_lattice)


def command_for(given: Sequence[str]) -> tuple[Callable[..., None], type[GroupedCommand]]:
    """The command with an option for each setting of a LatticeCRF."""
    of_model = {key: each for key, each in settings_of(registry.model_class(NAME)).items() if each.in_options}
    settings = {**OWN, **of_model}

    def run(source: str, **values: Any) -> None:
        asked = {key: _value(settings[key], value) for key, value in values.items() if value is not None}
        own = {key: asked.get(key, setting.default) for key, setting in OWN.items()}
        chosen = {key: value for key, value in asked.items() if key in of_model}
        if own["model"] is None:
            _train(source, own, chosen)
        else:
            _answer(source, own, {of_model[key].flag: value for key, value in chosen.items()})

    places = {DATA: 0, OUTPUT: 2}
    shown = sorted(settings.values(), key=lambda setting: places.get(setting.group or "", 1))
    return command_of(run, [FILE], shown, "Training", ABOUT), GroupedCommand


def _value(setting: Setting, value: Any) -> Any:
    return setting.parsed(value) if isinstance(value, str) else value


def _train(source: str, own: dict[str, Any], settings: dict[str, Any]) -> None:
    """Train a model and write it."""
    from labelwright.taggers.estimator import is_interrupted

    for key in ("nbest", "probabilities", "score", "as_json"):
        if own[key]:
            raise OptionError(f"{OWN[key].flag}: only with --model")
    target, inputs = own["output"], [source, *([own["dev"]] if own["dev"] else [])]
    if target is None:
        raise OptionError("-o: name the model file to write; or give --model to use a trained one")
    check_target(target, inputs, for_model=True)
    model = registry.model_class(NAME)(**settings)
    model._check_parameters()
    dev = _read(own["dev"], paths=True) if own["dev"] else None
    X, y = _read(source, paths=True)
    bar = None if own["quiet"] else model._progress_bar()
    try:
        model.fit(X, y, dev=dev, progress=bar)
    finally:
        if bar is not None:
            bar.close()
    model._forget_run()
    model.save(target)
    if is_interrupted(model):
        raise ended_by_signal(f"; {target} holds the model so far")
    if not own["quiet"]:
        sizes, run, stopped = model._summary()
        say(f"{target}: {', '.join(sizes)}; {', '.join(run)}; {stopped}")


def _read(path: str, paths: bool) -> "LatticeData":
    from labelwright.structures.feature_lattice import read_lattices

    return read_lattices(path, paths)


def _answer(source: str, own: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write the lattices with their best paths, or score the model."""
    threads = settings.pop("--threads", None)
    if settings or own["dev"]:
        raise OptionError(f"{next(iter(settings), '--dev')}: only in training; leave out --model to train")
    paths = {"--nbest": own["nbest"], "--probabilities": own["probabilities"], "-o": own["output"]}
    ignored = next((flag for flag, value in paths.items() if value), None) if own["score"] else None
    if ignored is not None:
        raise OptionError(f"{ignored}: --score prints scores and no paths; leave out one of the two")
    if own["as_json"] and not own["score"]:
        raise OptionError("--json: lattices are written as JSON lines anyway; it belongs to --score")
    model = registry.load(own["model"])
    if model.reads().kind != "lattices":
        raise ModelFileError(f"{own['model']}: expected a LatticeCRF, got a {type(model).__name__}")
    model.set_params(n_jobs=threads)
    if own["score"]:
        report = model.report(*_read(source, paths=True))
        show_json(report.as_dict()) if own["as_json"] else show(str(report))
        return
    from labelwright.corpus.compressed import name_of, read_bytes, write_bytes
    from labelwright.corpus.token_records import parse_json_lines
    from labelwright.structures.feature_lattice import lattices_in

    target = own["output"] or "-"
    check_target(target, [source, own["model"]])
    lines = parse_json_lines(read_bytes(source), name_of(source))
    answers = [_fields(each, own) for each in model.scored(lattices_in(lines, paths=False).X)]
    write_bytes(target, lines.extended(answers))


def _fields(scored: Any, own: dict[str, Any]) -> dict[str, Any]:
    """What is added to a lattice."""
    import math

    paths = scored.best(own["nbest"] or 1)
    best = paths[0]
    fields = {
        "best": scored.lattice.ends(best.arcs),
        "best_arcs": best.arcs,
        "probability": math.exp(best.log_probability),
    }
    if own["nbest"]:
        fields["nbest"] = [{"arcs": path.arcs, "probability": math.exp(path.log_probability)} for path in paths]
    if own["probabilities"]:
        fields["probabilities"] = scored.marginals().tolist()
    return fields
