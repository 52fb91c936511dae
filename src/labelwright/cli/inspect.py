"""labelwright inspect: what a model has learnt."""

from collections.abc import Mapping
from typing import Any

from labelwright.cli import inspect_text
from labelwright.cli.files import check_layer, input_names, inputs_of, load_model, read_for
from labelwright.cli.options import DATA, JSON, NOT_NEGATIVE, OUTPUT, POSITIVE, THREADS, Command, argument, option
from labelwright.cli.plots import check_plot, draw_path_mass
from labelwright.cli.show import report, say, show
from labelwright.errors import OptionError
from labelwright.settings import Texts

PATHS = 2000  # the largest n of a plot
HELP = """\
Show what a model has learnt: settings, training, labels, strongest features and transitions.

With --data FILE, it also shows how each label is used on that file: its share of the tokens, typical words, and the
labels before and after it. For latent models it shows the states of each label in the same way; without --data, by
their weights alone.

Perceptrons: the mistakes of each pass, the share of separable training sentences, the mistake bound, and the
temperature of the confidences.

Memory-based models: the size of the memory and the weights of the columns. Why a token has its label, and its nearest
neighbours in the training data: labelwright explain.

Cascades: the layers, what they pass, and the training of each alone and of all together; --layer NAME shows one.

\b
  labelwright inspect model.crf --data test.txt
  labelwright inspect latent.crf --data test.txt --plot mass.png
  labelwright inspect both.model --layer chunk
"""
OPTIONS = [
    argument("model", "MODEL", "A model file."),
    option("--layer NAME", "Show this layer of a cascade as a single model.", DATA),
    option(
        "--data FILE",
        "Show the labels (or latent states) by their use on this file (repeatable); - is standard input.",
        DATA,
        Texts(),
        [],
    ),
    option("--columns NAMES", "Names of the columns of --data.", DATA, shown="those of the model", only_with="data"),
    option("--top N", "Show this many features, words, transitions.", OUTPUT, NOT_NEGATIVE, 5),
    option("--template", "Print the feature template and nothing else.", OUTPUT),
    option(
        "--plot FILE.png",
        "Plot the probability of the n best labellings (latent models: latent paths) on each --data file; needs "
        "labelwright[plots].",
        OUTPUT,
        only_with="data",
    ),
    option("--paths N", "The largest n of the plot.", OUTPUT, POSITIVE, shown=str(PATHS), only_with="plot"),
    JSON,
    THREADS,
]
TAKEN = {  # by the view of a model: options that say something about it
    "linear": ("data", "template", "plot"),
    "memory": ("data", "template"),
    "plain": ("data",),
    "cascade": (),
}


def _inspect(o: Any) -> None:
    whole = load_model(o.model, o.n_jobs if o.data else None, files=bool(o.data))
    tagger, facts = _part(whole, o)
    _refuse(facts, o)
    if o.template:
        show(facts["template"]["text"].rstrip("\n") if facts["template"] else "")
        return
    corpora = {path: inputs_of(whole, read_for(whole, path, o.columns)) for path in o.data}
    if o.layer is not None:
        corpora = {path: whole.input_of_lowest(corpus) for path, corpus in corpora.items()}
    if corpora:
        facts |= tagger._describe_use(list(corpora.values()), o.top)
    if o.plot is not None:
        facts["path_mass"] = _plotted(tagger, corpora, facts["paths"], o)
    name = o.model if o.layer is None else f"{o.model}, layer {o.layer}"
    turns = {output: part._trains_in for output, part in getattr(tagger, "_outputs", {}).items()}
    report(facts, o.json, lambda _: inspect_text.VIEWS[facts["view"]](facts, name, turns, bool(o.data)))
    if o.plot is not None:
        say(f"{o.plot}: drawn")


class _Command(Command):
    """A command that says where two of its former options are."""

    def unknown(self, option: str) -> str:
        if option in ("--sentence", "--token"):
            why = f"why a token has its label is shown by labelwright explain MODEL FILE {option} N"
            raise OptionError(f"{option}: {why}")
        return super().unknown(option)


inspect_command = _Command(HELP, OPTIONS, _inspect)


def _part(whole: Any, o: Any) -> tuple[Any, dict[str, Any]]:
    """The model, or the layer of a cascade, that is looked at, and the facts about it."""
    facts: dict[str, Any] = whole.describe(o.top)
    if o.layer is None:
        return whole, facts
    layers = list(facts.get("layers", {}))
    check_layer(o.layer, layers, o.model, facts["kind"])
    if o.data and o.layer != layers[0]:
        raise OptionError(
            f"--data: only with --layer {layers[0]}, the lowest; {o.layer} also reads the labels below it"
        )
    layer = whole.layers_[o.layer]
    return layer, layer.describe(o.top) | {"columns": input_names(whole)}


def _refuse(facts: dict[str, Any], o: Any) -> None:
    """Refuse the options that say nothing about this kind of model."""
    kind, taken = facts["kind"], TAKEN[facts["view"]]
    for name in ("data", "template", "plot"):
        if getattr(o, name) and name not in taken:
            why = f"a {kind} has none to show; leave it out"
            if "layers" in facts:
                why = f"of which layer? add --layer {' or --layer '.join(facts['layers'])}"
            elif name == "plot":
                why = f"draws probabilities of labellings, and a {kind} has none; leave it out"
            raise OptionError(f"--{name}: {why}")
    if o.plot is not None:
        if facts["paths"] is None:
            raise OptionError(f"--plot: a {kind} has scores, not probabilities: there is nothing to draw")
        check_plot(o.plot, [o.model, *o.data])


def _plotted(tagger: Any, corpora: Mapping[str, Any], paths: str, o: Any) -> dict[str, dict[int, float]]:
    """Draw the probability of the n best paths on each file, and return it at n = 1, 2, 5, 10, ... and at the end."""
    n = o.paths or PATHS
    curves = {path: tagger._path_mass(corpus, n) for path, corpus in corpora.items()}
    draw_path_mass(curves, paths, o.plot)
    steps = {k * 10**power for power in range(7) for k in (1, 2, 5)}
    shown = sorted({k for k in steps if k <= n} | {n})
    return {path: {k: float(curve[k - 1]) for k in shown} for path, curve in curves.items()}
