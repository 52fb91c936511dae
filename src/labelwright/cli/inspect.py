"""labelwright inspect: what a model has learnt."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from labelwright.cli.common import (
    Json,
    Threads,
    heading,
    input_names,
    inputs_of,
    load_model,
    read_for,
    say,
    show,
    show_json,
)
from labelwright.cli.options import DATA, OUTPUT, GroupedCommand, argument, option
from labelwright.errors import OptionError

PATHS = 2000  # the largest n of a plot


class Asked(NamedTuple):
    """What is to be shown."""

    path: str  # of the model
    layer: str | None
    top: int
    files: list[str]
    columns: str | None
    plot: str | None
    paths: int | None
    template: bool
    json: bool

    @property
    def name(self) -> str:
        """What is looked at."""
        return self.path if self.layer is None else f"{self.path}, layer {self.layer}"


def command(
    model: Annotated[str, argument("A model file.", "MODEL")],
    layer: Annotated[str | None, option("Show this layer of a cascade as a single model.", "NAME", DATA)] = None,
    data: Annotated[
        list[str] | None,
        option(
            "Show the labels (or latent states) by their use on this file (repeatable); - is standard input.",
            "FILE",
            DATA,
        ),
    ] = None,
    columns: Annotated[
        str | None, option("Names of the columns of --data. [default: those of the model]", "NAMES", DATA)
    ] = None,
    top: Annotated[int, option("Show this many features, words, transitions.", "N", OUTPUT)] = 5,
    template: Annotated[
        bool, option("Print the feature template and nothing else.", None, OUTPUT, "--template")
    ] = False,
    plot: Annotated[
        str | None,
        option(
            "Plot the probability of the n best labellings (latent models: latent paths) on each --data file; needs "
            "labelwright[plots].",
            "FILE.png",
            OUTPUT,
        ),
    ] = None,
    paths: Annotated[int | None, option(f"The largest n of the plot. [default: {PATHS}]", "N", OUTPUT)] = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Show what a model has learnt: settings, training, labels, strongest features and transitions.

    With --data FILE, it also shows how each label is used on that file: its share of the tokens, typical words, and
    the labels before and after it. For latent models it shows the states of each label in the same way; without
    --data, by their weights alone.

    Perceptrons: the mistakes of each pass, the share of separable training sentences, the mistake bound, and the
    temperature of the confidences.

    Memory-based models: the size of the memory and the weights of the columns. Why a token has its label, and its
    nearest neighbours in the training data: labelwright explain.

    Cascades: the layers, what they pass, and the training of each alone and of all together; --layer NAME shows one.

    \b
      labelwright inspect model.crf --data test.txt
      labelwright inspect latent.crf --data test.txt --plot mass.png
      labelwright inspect both.model --layer chunk
    """
    asked = Asked(model, layer, top, data or [], columns, plot, paths, template, as_json)
    _check(asked)
    whole = _loaded(asked, threads)
    tagger, facts = _part(whole, asked)
    view = VIEWS[facts["view"]]
    _refuse(view, facts, asked)
    if asked.template:
        show(facts["template"]["text"].rstrip("\n") if facts["template"] else "")
        return
    corpora = _corpora(whole, asked)
    if corpora:
        facts |= tagger._describe_use(list(corpora.values()), asked.top)
    if asked.plot is not None:
        facts["path_mass"] = _plotted(tagger, corpora, facts["paths"], asked)
    if asked.json:
        show_json(facts)
    else:
        view.show(whole, tagger, facts, asked)
    if asked.plot is not None:
        say(f"{asked.plot}: drawn")


class Command(GroupedCommand):
    """A command that says where two of its former options are."""

    def unknown(self, option: str) -> str:
        if option in ("--sentence", "--token"):
            raise OptionError(
                f"{option}: why a token has its label is shown by labelwright explain MODEL FILE {option} N"
            )
        return super().unknown(option)


def command_for(given: Sequence[str]) -> tuple[Callable[..., None], type[GroupedCommand]]:
    """The command, whatever it is given."""
    return command, Command


# -- checks -----------------------------------------------------------------------------------------------------------


def _check(asked: Asked) -> None:
    """Refuse what is wrong with the options before any file is read."""
    if asked.top < 0:
        raise OptionError(f"--top: expected 0 or more, got {asked.top}")
    for name in ("plot", "columns"):
        if getattr(asked, name) is not None and not asked.files:
            raise OptionError(f"--{name}: nothing to look at; name the sentences with --data FILE")
    if asked.paths is not None and asked.plot is None:
        raise OptionError("--paths: is about the plot; add --plot FILE.png")
    if asked.paths is not None and asked.paths < 1:
        raise OptionError(f"--paths: expected 1 or more, got {asked.paths}")


def _loaded(asked: Asked, threads: int | None) -> Any:
    """The model; it must be able to read files only where there are any."""
    from labelwright import load
    from labelwright.taggers.packing import with_text_labels

    return load_model(asked.path, threads) if asked.files else with_text_labels(load(asked.path))


def _part(whole: Any, asked: Asked) -> tuple[Any, dict[str, Any]]:
    """The model, or the layer of a cascade, that is looked at, and the facts about it."""
    facts: dict[str, Any] = whole.describe(asked.top)
    if asked.layer is None:
        return whole, facts
    layers = list(facts.get("layers", {}))
    if not layers:
        raise OptionError(f"--layer: {asked.path} is a {facts['kind']}, which has no layers; leave it out")
    if asked.layer not in layers:
        raise OptionError(f"--layer: {asked.path} has no layer {asked.layer!r}, expected one of {', '.join(layers)}")
    if asked.files and asked.layer != layers[0]:
        raise OptionError(
            f"--data: only with --layer {layers[0]}, the lowest; {asked.layer} also reads the labels below it"
        )
    layer = whole.layers_[asked.layer]
    return layer, layer.describe(asked.top) | {"columns": input_names(whole)}


def _refuse(view: "View", facts: dict[str, Any], asked: Asked) -> None:
    """Refuse the options that say nothing about this kind of model."""
    for name in ("data", "template", "plot"):
        given = asked.files if name == "data" else getattr(asked, name)
        if given not in (None, False, []) and name not in view.options:
            raise OptionError(f"--{name}: {view.refusal(name, facts)}")
    if asked.plot is not None:
        if facts["paths"] is None:
            raise OptionError(f"--plot: a {facts['kind']} has scores, not probabilities: there is nothing to draw")
        from labelwright.cli.plots import check_plot

        check_plot(asked.plot, [asked.path, *asked.files])


def _refusal(name: str, facts: dict[str, Any]) -> str:
    if name == "plot":
        return f"draws probabilities of labellings, and a {facts['kind']} has none; leave it out"
    return f"a {facts['kind']} has none to show; leave it out"


def _which_layer(name: str, facts: dict[str, Any]) -> str:
    return f"of which layer? add --layer {' or --layer '.join(facts['layers'])}"


# -- views ----------------------------------------------------------------------------------------------------------


class View(NamedTuple):
    """How facts of one kind are shown, and which options they have."""

    show: Callable[[Any, Any, dict[str, Any], Asked], None]
    options: frozenset[str]
    refusal: Callable[[str, dict[str, Any]], str] = _refusal


def _corpora(whole: Any, asked: Asked) -> dict[str, Any]:
    """The columns of each file that the model, or the layer that is looked at, reads."""
    corpora = {path: inputs_of(whole, read_for(whole, path, asked.columns)) for path in asked.files}
    if asked.layer is None:
        return corpora
    return {path: whole.input_of_lowest(corpus) for path, corpus in corpora.items()}


def _show_linear(whole: Any, tagger: Any, facts: dict[str, Any], asked: Asked) -> None:
    from labelwright.cli.linear_inspect import show_facts

    show_facts(facts, asked.name, bool(asked.files), tagger._trains_in)


def _plotted(tagger: Any, corpora: dict[str, Any], paths: str, asked: Asked) -> dict[str, dict[int, float]]:
    """Draw the probability of the n best paths on each file, and return it at n = 1, 2, 5, 10, ... and at the end."""
    from labelwright.cli.plots import draw_path_mass

    n = asked.paths or PATHS
    curves = {path: tagger._path_mass(corpus, n) for path, corpus in corpora.items()}
    draw_path_mass(curves, paths, asked.plot or "")
    steps = {k * 10**power for power in range(7) for k in (1, 2, 5)}
    shown = sorted({k for k in steps if k <= n} | {n})
    return {path: {k: float(curve[k - 1]) for k in shown} for path, curve in curves.items()}


def _show_memory(whole: Any, tagger: Any, facts: dict[str, Any], asked: Asked) -> None:
    from labelwright.cli.linear_inspect import show_use
    from labelwright.cli.memory_inspect import show_facts

    show_facts(facts, asked.name)
    if "use" in facts:
        show_use(facts["use"], False)


def _show_cascade(whole: Any, tagger: Any, facts: dict[str, Any], asked: Asked) -> None:
    from labelwright.cli.cascade_inspect import show_facts

    show_facts(facts, asked.path, {name: layer._trains_in for name, layer in whole._outputs.items()})


def _show_plain(whole: Any, tagger: Any, facts: dict[str, Any], asked: Asked) -> None:
    from labelwright.cli.layout import show_rows
    from labelwright.cli.linear_inspect import show_use

    heading(f"{asked.name}: {facts['signature']}")
    show_rows(
        [
            ("settings", ", ".join(f"{name} {value}" for name, value in facts["parameters"].items()) or "none"),
            ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
            ("scheme", facts["scheme"] or "none"),
        ]
    )
    if "use" in facts:
        show_use(facts["use"], False)


VIEWS = {
    "linear": View(_show_linear, frozenset({"data", "template", "plot"})),
    "memory": View(_show_memory, frozenset({"data", "template"})),
    "cascade": View(_show_cascade, frozenset(), _which_layer),
    "plain": View(_show_plain, frozenset({"data"})),
}
