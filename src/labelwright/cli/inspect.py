"""labelwright inspect: what a model has learnt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from labelwright.cli.files import check_layer, input_names, inputs_of, load_model, read_for
from labelwright.cli.options import DATA, JSON, NOT_NEGATIVE, OUTPUT, POSITIVE, THREADS, Command, argument, option
from labelwright.cli.plots import check_plot, draw_path_mass
from labelwright.cli.show import Heading, Row, bar, curves, indented, named_rows, report, say, section, show
from labelwright.errors import OptionError
from labelwright.settings import Texts
from labelwright.wording import align, counted, percent

Facts = dict[str, Any]
NO_COLUMNS = "(no columns: trained on dicts or arrays)"
MANY = 16  # passes whose mistakes are shown one by one
WHAT = {"state": "each label", "edge": "transitions", "triple": "triples"}  # by kind of feature
RARE = 0.01  # the share of its label below which a latent state is not shown
TYPES = 8  # types of segments beside each other in a table
WEIGHTS = 50  # columns whose weights are written out
PLACES = "tokens by their place in a segment (B first, I inside, E last, S single)"
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
        corpora = {path: whole._input(corpus) for path, corpus in corpora.items()}
    if corpora:
        facts |= tagger._describe_use(list(corpora.values()), o.top)
    if o.plot is not None:
        facts["path_mass"] = _plotted(tagger, corpora, facts["paths"], o)
    name = o.model if o.layer is None else f"{o.model}, layer {o.layer}"
    turns = {output: part._trains_in for output, part in getattr(tagger, "_outputs", {}).items()}
    report(facts, o.json, lambda _: VIEWS[facts["view"]](facts, name, turns, bool(o.data)))
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


def _part(whole: Any, o: Any) -> tuple[Any, Facts]:
    """The model, or the layer of a cascade, that is looked at, and the facts about it."""
    facts: Facts = whole.describe(o.top)
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


def _refuse(facts: Facts, o: Any) -> None:
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


# -- text: rows that several views have -------------------------------------------------------------------------------


def _labels(facts: Facts) -> Row:
    return "labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"


def _scheme(facts: Facts) -> Row:
    return "scheme", facts["scheme"] or "none"


def _input(facts: Facts) -> list[Row]:
    """The columns, the label among those of the training file (models made in Python do not know), the template."""
    rows = [("columns", ",".join(facts["columns"]) or NO_COLUMNS)]
    names, label = facts["training"].get("columns"), facts["training"].get("label")
    if names and label in names:
        rows.append(("label", f"{label}, column {names.index(label) + 1} of {','.join(names)}"))
    template, described = facts["template"], "none"
    if template is not None:
        lines = [line for line in template["text"].splitlines() if line.strip() and not line.lstrip().startswith("#")]
        described = f"{template['name']}, {counted(len(lines), 'line')}"
    return [*rows, ("template", described)]


def _trained_on(training: Facts) -> Row:
    return "trained on", f"{counted(training['sentences'], 'sentence')}, {counted(training['tokens'], 'token')}"


def _weights(facts: Facts) -> list[Row]:
    counts = f"{facts['n_weights']:,} ({facts['n_nonzero']:,} not zero)"
    return [("features", f"{facts['n_features']:,}"), ("weights", counts)]


def score_text(score: float, scheme: str | None) -> str:
    """A score on development data by its name: of chunks F1, of other labels the accuracy of tokens.

    >>> score_text(0.75621, "iob2"), score_text(0.9, None)
    ('F1 75.62', 'accuracy 90.00')
    """
    return f"{'accuracy' if scheme is None else 'F1'} {100 * score:.2f}"


def calibration_text(calibration: Facts | None) -> str:
    """What was fitted on held-out data, and on how many."""
    if calibration is None:
        return "not calibrated; train with --dev FILE, or use labelwright calibrate"
    maps = ", monotone maps" if calibration.get("method") == "isotonic" else ""
    fitted = f"temperature {calibration['temperature']:.4g}{maps}"
    temperature = f"{fitted}, on {counted(calibration['sentences'], 'sentence')}"
    return f"{temperature}; {calibration['log_likelihood_per_token']:.4f} log-likelihood per token"


def _calibration(training: Facts, name: str) -> list[Row]:
    calibration = training.get("calibration")
    return [] if calibration is None else [(name, calibration_text(calibration))]


# -- CRFs, perceptrons, segment models --------------------------------------------------------------------------------


def _linear(facts: Facts, name: str, turns: Mapping[str, str], with_data: bool) -> Iterator[str]:
    yield Heading(f"{name}: {facts['signature']}")
    yield from named_rows(_linear_rows(facts, turns[""]))
    if "segments" in facts:
        yield from _segments(facts["segments"])
    else:
        yield from _transitions(facts["transitions"], facts["triples"])
    if "latent" in facts:
        yield from _latent(facts["latent"], with_data, facts["probabilistic"])
    yield from _use(facts, facts["probabilistic"])
    for layer, labels in facts["features"].items():
        if not (layer == "state" and "latent" in facts) and layer != "segment":
            what = PLACES if layer == "state" and "segment" in facts["features"] else WHAT[layer]
            yield from _features(what, labels)
    if "path_mass" in facts:
        numbers = list(next(iter(facts["path_mass"].values())))
        table = [["n", *map(str, numbers)]]
        table += [[path, *(f"{p:.1%}" for p in row.values())] for path, row in facts["path_mass"].items()]
        title = f"probability of the n best {facts['paths']} together, mean over the sentences"
        yield from section(title, indented(align(table)))


def _linear_rows(facts: Facts, turn: str) -> list[Row]:
    training, probabilistic = facts["training"], facts["probabilistic"]
    states = [("states", f"{len(facts['states'])} latent")] if "latent" in facts else []
    rows = [_labels(facts), *states, _scheme(facts), *_input(facts), *_weights(facts)]
    if training:
        rows += _training(training, facts["scheme"], turn)
    rows += _calibration(training, "calibration") if probabilistic else _passes(facts)
    return rows + curves(facts["history"], probabilistic)


def _training(training: Facts, scheme: str | None, turn: str) -> list[Row]:
    """How the training went; a model that partial_fit made knows less about it."""
    if "imported_from" in training:
        return [("imported from", str(training["imported_from"]))]
    length = counted(training["iterations"], turn)
    rows = [_trained_on(training)]
    if "stopped" in training:
        rows.append(("training", f"{length}, {training['seconds']:.1f} s; {training['stopped']}"))
        rows.append(("version", f"labelwright {training['labelwright']}"))
    else:
        rows.append(("training", f"{length} of partial_fit"))
    if "best_iteration" in training:
        best = f"{training['best_iteration']}, {score_text(training['best_dev'], scheme)} on the development data"
        rows.append((f"best {turn}", best))
    if "rounds" in training:
        numbers = " > ".join(str(sum(record["states"].values())) for record in training["rounds"])
        kept = next(record["states"] for record in training["rounds"] if record.get("kept"))
        listed = ", ".join(f"{label} {number}" for label, number in kept.items())
        rows.append(("states", f"{numbers} by splitting and merging; kept {sum(kept.values())}: {listed}"))
    runs = training.get("restarts")
    if runs:
        rows.append(("starts", f"{len(runs)}, losses {' '.join(format(run['loss'], ',.1f') for run in runs)}"))
    if runs and "best_dev" in training:
        scores = " ".join(format(100 * run["merit"], ".2f") for run in runs)
        rows.append(("", f"{score_text(0.0, scheme).split()[0]} on the development data {scores}"))
    return rows


def _passes(facts: Facts) -> list[Row]:
    """The mistakes of a perceptron, pass by pass, and what they show about the data."""
    training, parameters = facts["training"], facts["parameters"]
    made = [record["mistakes"] for record in facts["history"]]
    shown = [f"{number:,}" for number in made]
    if len(shown) > MANY:
        shown = [*shown[: MANY // 2], "...", *shown[-MANY // 2 :]]
    rows = [("mistakes", f"{sum(made):,}; by pass {' '.join(shown)}")] if made else []
    convergence = training.get("convergence")
    if convergence is not None:
        shares = f"{percent(convergence['separable'])} of the training sentences"
        if "strictly_separable" in convergence and "n_latent" in parameters:
            shares += f", {percent(convergence['strictly_separable'])} strictly (by every path of their labels)"
        rows.append(("separable", shares))
        sentences = training["sentences"] * len(made)
        if "mistake_bound" in convergence:
            rows.append(("bound", _bound(convergence, parameters, sentences)))
        if "latent" in convergence:
            rows.append(("margin", _latent_margin(convergence["latent"], sentences)))
    return [*rows, ("confidence", calibration_text(training.get("calibration")))]


def _bound(convergence: Facts, parameters: Facts, sentences: int) -> str:
    """How many mistakes the theory allows, or why it gives no bound; `sentences` were read in all passes together."""
    bound = convergence["mistake_bound"]
    if bound is not None:
        text = f"{bound:,.0f} mistakes at most, by theorem {convergence['theorem']} of Sun et al. (2009)"
        return text + (f"; trivial: all passes read {counted(sentences, 'sentence')}" if bound >= sentences else "")
    why = "these weights or feature values (negative ones) give none"
    if parameters["update"] != "perceptron":
        why = f"the theorems are about whole steps, which {parameters['update']} updates are not"
    elif parameters["margin"]:
        why = "the theorems are about mistakes alone, and with a margin right answers lead to updates, too"
    elif parameters["averaging"] == "mavg":
        why = "the theorems are about one sequence of updates, and with mavg passes begin from the mean"
    return f"none: {why}"


def _latent_margin(seen: Facts, sentences: int) -> str:
    """What theorem 1 says of data that are separable without latent states; all passes read so many sentences."""
    text = f"{seen['plain_margin']:.3g} without latent states, at least {seen['margin_bound']:.3g} with them"
    text += f" (theorem 1, T = {seen['expansion']:.3g})"
    bound = seen["mistake_bound"]
    trivial = bound is None or bound >= sentences
    return text if trivial else f"{text}: {bound:,.0f} mistakes at most (theorem 2)"


def _transitions(transitions: Sequence[Facts], triples: Sequence[Facts]) -> Iterator[str]:
    if transitions:
        width = max(len(row["from"]) for row in transitions)
        rows = [f"  {row['weight']:+8.3f}  {row['from']:<{width}} → {row['to']}" for row in transitions]
        yield from section("strongest transitions", rows)
    if triples:
        rows = [f"  {row['weight']:+8.3f}  {row['first']} → {row['second']} → {row['third']}" for row in triples]
        yield from section("strongest triples", rows)


def _segments(segments: Facts) -> Iterator[str]:
    """The weights of segments: all lengths, dictionaries and transitions, and the strongest texts."""
    yield from _by_type("weights of segments by length", segments["lengths"])
    yield from _by_type("weights of segments by dictionary", segments["dictionaries"])
    yield from _by_type("transitions from type to type", segments["transitions"])
    texts = {name: [{"feature": row["text"], **row} for row in rows] for name, rows in segments["texts"].items()}
    yield from _features("segments by their text", texts)


def _by_type(title: str, rows: dict[str, dict[str, float]]) -> list[str]:
    """A table with a row for each name and a column for each type, some types at a time."""
    types, lines = list(next(iter(rows.values()), {})), list[str]()
    for begin in range(0, len(types), TYPES):
        part = types[begin : begin + TYPES]
        table = [["", *part]]
        table += [[name, *(f"{weights[kind]:+.3f}" for kind in part)] for name, weights in rows.items()]
        lines += indented(align(table))
    return section(title, lines) if rows else []


def _features(what: str, labels: dict[str, list[Facts]]) -> list[str]:
    """The strongest features of each label, transition, triple or type of segment."""
    if not any(labels.values()):
        return []
    width = max(16, *(len(label) + 2 for label, features in labels.items() if features))
    lines = [
        f"  {label if k == 0 else '':<{width}}{row['weight']:+8.3f}  {row['feature']}"
        for label, features in labels.items()
        for k, row in enumerate(features)
    ]
    return section(f"strongest features of {what}", lines)


# -- labels and states on data ----------------------------------------------------------------------------------------


def _use(facts: Facts, probabilistic: bool = False) -> Iterator[str]:
    """The labels, the most frequent first, with their typical words and what is around them."""
    if "use" not in facts:
        return
    counts = "expected counts" if probabilistic else "counted on the best labellings"
    yield from section(f"labels by their share of the tokens of the data ({counts})", [])
    width = max(len(view["label"]) for view in facts["use"])
    for view in facts["use"]:
        yield from _view(view, f"  {view['label']:<{width}}  {view['share']:>6.1%}", width + 11, True)


def _latent(views: Sequence[Facts], with_data: bool, probabilistic: bool) -> Iterator[str]:
    """The states of each label, with what tells them from the others and what is around them."""
    source = "by their use on the data" if with_data else "by their weights alone; --data FILE shows their use"
    if with_data and not probabilistic:
        source += ", counted on best paths"
    yield from section(f"latent states of each label ({source})", [])
    shown = [view for view in views if view["share"] >= RARE]
    for label, states in groupby(shown, key=lambda view: view["label"]):
        yield from section(f"  {label}", [])
        for view in states:
            begin = f"    {view['state'].removeprefix(label) or '#1':<4}{view['share']:>5.0%}"
            yield from _view(view, begin, 14, with_data)
    if len(shown) < len(views):
        yield ""
        yield f"{counted(len(views) - len(shown), 'state')} below 1 % of their label left out; --json shows all"


def _view(view: Facts, begin: str, width: int, with_data: bool) -> Iterator[str]:
    """A label or state in lines of its words, features and neighbours; `begin` begins the first."""
    lines = [
        ("words", "  ".join(word for word, _ in view["words"])),
        ("features", ", ".join(f"{name} ({weight:+.2f})" for name, weight in view["features"])),
        ("before it", _neighbours(view["before"], with_data)),
        ("after it", _neighbours(view["after"], with_data)),
    ]
    for name, text in lines:
        if text:
            yield f"{begin:<{width}} {name:<10} {text}"
            begin = ""
    if begin:
        yield begin


def _neighbours(states: Sequence[tuple[str, float]], with_data: bool) -> str:
    """States with their probabilities (but those of 0 %) or, without data, with the weights of the transitions."""
    if with_data:
        return ", ".join(f"{name} {value:.0%}" for name, value in states if value >= 0.005)
    return ", ".join(f"{name} {value:+.2f}" for name, value in states)


# -- memory-based models ----------------------------------------------------------------------------------------------


def _memory(facts: Facts, name: str, turns: Mapping[str, str], with_data: bool) -> Iterator[str]:
    from labelwright.structures.proposals import gram_name

    settings, tagger, training = facts["parameters"], facts["labels_sentences"], facts["training"]
    yield Heading(f"{name}: {'memory-based tagger' if tagger else 'memory-based classifier'}")
    columns = _input(facts)
    if facts["template"] is None:
        columns = [("columns", f"{len(facts['feature_weights'])} (trained in Python on dicts, arrays or rows)")]
    classes = f"{facts['classes']:,} {gram_name(settings['ngram'])}" if tagger else f"{facts['classes']:,}"
    yield from named_rows(
        [
            ("settings", _settings(settings)),
            *([("inference", _inference(settings))] if tagger else []),
            ("classes", classes),
            _labels(facts),
            *([_scheme(facts)] if tagger else []),
            *columns,
            ("memory", _size(facts["memory"], settings["algorithm"])),
            *_memorised(training, facts["scheme"]),
            *_calibration(training, "confidence"),
        ]
    )
    rows = sorted(facts["feature_weights"], key=lambda row: -row["weight"])
    width, highest = max(len(row["column"]) for row in rows), max(row["weight"] for row in rows)
    weights = settings["weights"] if isinstance(settings["weights"], str) else "as given"
    yield from section(f"weights of columns ({weights})", [])
    for row in rows[:WEIGHTS]:
        yield f"  {row['column']:<{width}}  {row['weight']:10.4f}  {bar(row['weight'], highest)}".rstrip()
    if len(rows) > WEIGHTS:
        yield f"  ... and {len(rows) - WEIGHTS:,} more, with --json all"
    if tagger and facts["columns"]:
        yield from ("", "why a token has its label: labelwright explain MODEL FILE")
    yield from _use(facts)


def _inference(settings: Facts) -> str:
    lengths = settings["lengths"]
    some = "" if lengths is None else f", of length {' and '.join(map(str, lengths))}"
    return f"{settings['inference']}, constraints weighted by {settings['weighting']}{some}"


def _settings(settings: Facts) -> str:
    """The settings that say how neighbours are found."""
    shown = {"weights": settings["weights"]}
    if settings["algorithm"] == "ib1":
        shown = {"k": settings["k"], "metric": settings["metric"], **shown, "votes": settings["votes"]}
        metrics = [settings["metric"]] if isinstance(settings["metric"], str) else settings["metric"]
        if set(metrics) - {"overlap", "numeric"}:
            shown["threshold"] = settings["mvdm_threshold"]
        if settings["votes"] == "exponential-decay":
            shown["decay"] = "{:g},{:g}".format(*settings["decay"])
    texts = {name: value if isinstance(value, str | int) else _run_lengths(value) for name, value in shown.items()}
    return ", ".join([settings["algorithm"], *(f"{name} {text}" for name, text in texts.items())])


def _run_lengths(values: Iterable[Any]) -> str:
    """Values by column, equal ones that follow each other as one.

    >>> _run_lengths(["overlap", "overlap", "mvdm"])
    '2 x overlap, mvdm'
    """
    counts = [(value, len(list(same))) for value, same in groupby(values)]
    return ", ".join(f"{n} x {value}" if n > 1 else str(value) for value, n in counts)


def _size(memory: dict[str, float], algorithm: str) -> str:
    rows = f"{memory['rows']:,} different" if algorithm == "ib1" else f"a tree of {memory['rows']:,} nodes"
    size = f"{memory['bytes_per_instance']:,.0f} bytes an instance, {memory['bytes'] / 1e6:.1f} MB"
    return f"{counted(int(memory['instances']), 'instance')}, {rows}; {size}"


def _memorised(training: Facts, scheme: str | None) -> list[Row]:
    """How the training went; models made in Python know less about it."""
    from labelwright.search.trials import tried

    if "sentences" not in training:
        return []
    rows = [_trained_on(training)]
    if "seconds" in training:
        rows.append(("training", f"{training['seconds']:.1f} s; labelwright {training['labelwright']}"))
    if "dev" in training:
        rows.append(("dev", f"{score_text(training['dev'], scheme)} on the development data"))
    search = training.get("search")
    if search is not None:
        how_many = tried(search.get("tried", search["settings"]), search["settings"])
        told = f"the best of {how_many}, {100 * search['score']:.2f} in the last step; {search['stopped']}"
        rows.append(("search", told))
    return rows


# -- cascades, and all others -----------------------------------------------------------------------------------------


def _cascade(facts: Facts, path: str, turns: Mapping[str, str], with_data: bool) -> Iterator[str]:
    yield Heading(f"{path}: cascade of {counted(len(facts['layers']), 'layer')}, passing {facts['passing']}")
    yield from named_rows(_cascade_rows(facts))
    for number, (name, layer) in enumerate(facts["layers"].items(), 1):
        rows = _layer_rows(layer, "joint" in facts["training"], turns[name])
        yield from section(f"layer {number}: {name}", named_rows(rows))
    yield ""
    yield f"more about a layer: labelwright inspect {path} --layer {next(reversed(facts['layers']))}"


def _cascade_rows(facts: Facts) -> list[Row]:
    training, parameters, lexicon = facts["training"], facts["parameters"], facts["lexicon"]
    rows = [("columns", ",".join(facts["columns"]) or NO_COLUMNS)]
    if lexicon is not None:
        rows.append(("lexicon", f"{counted(lexicon['words'], 'word')} with labels of {lexicon['layer']}"))
    if parameters["jackknife"]:
        rows.append(("jackknife", "upper layers are trained on labels predicted for sentences held out below"))
    if parameters["shares"]:
        rows.append(("shares", ", ".join(f"{name} {share:g}" for name, share in parameters["shares"].items())))
    rows.append(_trained_on(next(iter(training["layers"].values()))))
    rows.append(("training", f"{training['seconds']:.1f} s in all; labelwright {training['labelwright']}"))
    joint = training.get("joint")
    if joint is not None:
        losses = f"loss {facts['history'][0]['loss']:,.1f} → {joint['loss']:,.1f}"
        rows.append(("together", f"{counted(joint['iterations'], 'iteration')}, {losses}; {joint['stopped']}"))
        rows += curves(facts["history"], True)
    dev = training.get("dev", {})
    for name, after in dev.get("after", {}).items():
        score, before = score_text(after, facts["layers"][name]["scheme"]), dev.get("before", {}).get(name)
        if before is not None:  # joint training
            kind, _, number = score.partition(" ")
            score = f"{kind} {100 * before:.2f} before, {number} after"
        rows.append((f"{name} on dev", score))
    return rows


def _layer_rows(layer: Facts, joint: bool, turn: str) -> list[Row]:
    training = layer["training"]
    rows = [("model", layer["signature"]), _labels(layer)]
    if "size" in layer:  # no weights
        return [*rows, ("size", ", ".join(layer["size"])), ("training", f"{training['seconds']:.1f} s")]
    took = f", {training['seconds']:.1f} s; {training['stopped']}" if "stopped" in training else " of partial_fit"
    end = f", {percent(training.get('convergence', {}).get('separable') or 0.0)} separable"
    if layer["probabilistic"]:
        end = "" if training["loss"] is None else f", loss {training['loss']:,.1f}"
    how = "alone" if joint else "training", f"{counted(training['iterations'], turn)}{end}{took}"
    return [*rows, *_weights(layer), how, *_calibration(training, "calibration")]


def _plain(facts: Facts, name: str, turns: Mapping[str, str], with_data: bool) -> Iterator[str]:
    yield Heading(f"{name}: {facts['signature']}")
    settings = ", ".join(f"{key} {value}" for key, value in facts["parameters"].items()) or "none"
    yield from named_rows([("settings", settings), _labels(facts), _scheme(facts)])
    yield from _use(facts)


VIEWS = {"linear": _linear, "memory": _memory, "cascade": _cascade, "plain": _plain}
