"""labelwright inspect: what a model has learnt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from labelwright.cli.copies import calibration_text
from labelwright.cli.files import check_layer, input_names, inputs_of, load_model, read_for
from labelwright.cli.options import (
    DATA,
    JSON,
    NOT_NEGATIVE,
    OUTPUT,
    POSITIVE,
    THREADS,
    argument,
    command,
    option,
)
from labelwright.cli.plots import check_plot, draw_path_mass
from labelwright.cli.show import (
    Heading,
    Row,
    bar,
    curves,
    indented,
    named_rows,
    report,
    say,
    section,
    show,
)
from labelwright.errors import OptionError
from labelwright.settings import Texts
from labelwright.taggers.training_record import TrainingRecord
from labelwright.wording import align, counted, percent

Facts = dict[str, Any]
NO_COLUMNS = "(no columns: trained in Python on dicts, arrays or rows)"
MANY = 16  # passes whose mistakes are shown one by one
WHAT = {"state": "each label", "edge": "transitions", "triple": "triples"}  # by kind of feature
RARE = 0.01  # the share of its label below which a latent state is not shown
TYPES = 8  # types of segments beside each other in a table
WEIGHTS = 50  # columns whose weights are written out
PLACES = "tokens by their place in a segment (B first, I inside, E last, S single)"
PATHS = 2000  # the largest n of a plot
# by view
TAKEN = {"linear": ("data", "template", "plot"), "memory": ("data", "template"), "plain": ("data",)}
WHY = "why a token has its label is shown by labelwright explain MODEL FILE"


@command(
    argument("model", "MODEL", "A model file."),
    option("--layer NAME", "Show this layer of a cascade as a single model.", DATA),
    option(
        "--data FILE",
        "Show labels, or latent states, by their use on FILE (repeatable; -).",
        DATA,
        Texts(),
        [],
    ),
    option(
        "--columns NAMES",
        "Names of the columns of --data.",
        DATA,
        shown="those of the model",
        only_with="data",
    ),
    option("--top N", "Show this many features, words, transitions.", OUTPUT, NOT_NEGATIVE, 5),
    option("--template", "Print the feature template and nothing else.", OUTPUT),
    option(
        "--plot FILE.png",
        "Plot the probability of the n best labellings, or latent paths.",
        OUTPUT,
        only_with="data",
    ),
    option("--paths N", "The largest n of the plot.", OUTPUT, POSITIVE, PATHS, only_with="plot"),
    JSON,
    THREADS,
    moved={flag: f"{flag}: {WHY} {flag} N" for flag in ("--sentence", "--token")},
)
def inspect_command(o: Any) -> None:
    """Show what a model has learnt: settings, training, labels, strongest features and transitions.

    With --data FILE, it also shows how each label is used on that file: its share of the tokens,
    typical words, and the labels before and after it. For latent models it shows the states of each
    label in the same way; without --data, by their weights alone.

    Perceptrons: the mistakes of each pass, the share of separable training sentences, the mistake
    bound, and the temperature of the confidences.

    Memory-based models: the size of the memory and the weights of the columns. Why a token has its
    label, and its nearest neighbours in the training data: labelwright explain.

    Cascades: the layers, what they pass, and the training of each alone and of all together;
    --layer NAME shows one.

    \b
      labelwright inspect model.crf --data test.txt
      labelwright inspect latent.crf --data test.txt --plot mass.png
      labelwright inspect both.model --layer chunk
    """
    whole = load_model(o.model, o.n_jobs if o.data else None, files=bool(o.data))
    tagger, facts = _part(whole, o)
    if o.template:
        show(facts["template"]["text"].rstrip("\n") if facts["template"] else "")
        return
    corpora = {path: inputs_of(whole, read_for(whole, path, o.columns)) for path in o.data}
    if o.layer is not None:
        corpora = {path: whole._input(corpus) for path, corpus in corpora.items()}
    if corpora:
        facts |= tagger._describe_use(list(corpora.values()), o.top)
    if o.plot is not None:  # the curves as facts at n = 1, 2, 5, 10, ... and at the end
        curves = {path: tagger._path_mass(corpus, o.paths) for path, corpus in corpora.items()}
        draw_path_mass(curves, facts["paths"], o.plot)
        steps = sorted(
            {k * 10**power for power in range(7) for k in (1, 2, 5) if k * 10**power < o.paths}
            | {o.paths}
        )
        facts["path_mass"] = {
            path: {k: float(curve[k - 1]) for k in steps} for path, curve in curves.items()
        }
    name = o.model if o.layer is None else f"{o.model}, layer {o.layer}"
    turns = {output: part._trains_in for output, part in getattr(tagger, "_outputs", {}).items()}
    report(facts, o.json, lambda _: _lines(facts, name, turns, bool(o.data)))
    if o.plot is not None:
        say(f"{o.plot}: drawn")


def _part(whole: Any, o: Any) -> tuple[Any, Facts]:
    """The model, or the layer of a cascade, that is looked at, and the facts about it; options that
    say nothing about it are refused."""
    tagger, facts = whole, whole.describe(o.top)
    layers = list(facts.get("layers", {}))
    check_layer(o.layer, layers, o.model, facts["kind"])
    if o.layer is not None:
        if o.data and o.layer != layers[0]:
            why = (
                f"only with --layer {layers[0]}, the lowest; {o.layer} also reads the labels below "
                "it"
            )
            raise OptionError(f"--data: {why}")
        tagger = whole.layers_[o.layer]
        facts = tagger.describe(o.top) | {"columns": input_names(whole)}
    kind = facts["kind"]
    for name in ("data", "template", "plot"):
        if getattr(o, name) and name not in TAKEN.get(facts["view"], ()):
            why = f"a {kind} has none to show; leave it out"
            if "layers" in facts:
                why = f"of which layer? add --layer {' or --layer '.join(layers)}"
            elif name == "plot":
                why = f"draws probabilities of labellings, and a {kind} has none; leave it out"
            raise OptionError(f"--{name}: {why}")
    if o.plot is not None:
        if facts["paths"] is None:
            raise OptionError(
                f"--plot: a {kind} has scores, not probabilities: there is nothing to draw"
            )
        check_plot(o.plot, [o.model, *o.data])
    return tagger, facts


# -- text: rows of names and values, for whatever facts there are ----------------------------------


def _lines(facts: Facts, name: str, turns: Mapping[str, str], with_data: bool) -> Iterator[str]:
    layers, rows = facts.get("layers", {}), described_rows(facts, turns.get("", ""))
    cascade = f"cascade of {counted(len(layers), 'layer')}, passing {facts.get('passing')}"
    yield Heading(f"{name}: {cascade if layers else facts['signature']}")
    yield from named_rows(rows)
    for number, (layer, each) in enumerate(layers.items(), 1):
        how = "alone" if "joint" in facts["training"] else "training"
        yield from section(
            f"layer {number}: {layer}", named_rows([*_of_layer(each, how, turns[layer])])
        )
    for title, lines in _sections(facts, with_data):
        yield from section(title, lines)
    if layers:
        yield f"\nmore about a layer: labelwright inspect {name} --layer {next(reversed(layers))}"
    elif facts.get("labels_sentences") and facts["columns"]:
        yield "\nwhy a token has its label: labelwright explain MODEL FILE"


def described_rows(facts: Facts, turn: str) -> list[Row]:
    """What a model reads, how large it is, and how its training went."""
    return [*_of_model(facts), *_of_training(facts, turn)]


def _of_model(facts: Facts) -> Iterator[Row]:
    """What is read, and how large the model is."""
    parameters, training = facts["parameters"], facts["training"]
    if facts["view"] == "plain":
        yield "settings", ", ".join(f"{key} {value}" for key, value in parameters.items()) or "none"
    if "classes" in facts:
        from labelwright.structures.proposals import gram_name

        kind = f" {gram_name(parameters['ngram'])}" if facts["labels_sentences"] else ""
        yield "classes", f"{facts['classes']:,}{kind}"
    if "labels" in facts:
        yield _labels(facts)
        if "latent" in facts:
            yield "states", f"{len(facts['states'])} latent"
        yield "scheme", facts["scheme"] or "none"
    if "columns" in facts:
        yield "columns", ",".join(facts["columns"]) or NO_COLUMNS
        names, label = training.get("columns"), training.get("label")
        if names and label in names:
            yield "label", f"{label}, column {names.index(label) + 1} of {','.join(names)}"
    if "template" in facts:
        template = facts["template"] or {"name": "none", "text": ""}
        lines = [
            line
            for line in template["text"].splitlines()
            if line.strip() and not line.lstrip().startswith("#")
        ]
        yield (
            "template",
            ", ".join([template["name"], *([counted(len(lines), "line")] if lines else [])]),
        )
    yield from _weights(facts)
    memory = facts.get("memory")
    if memory is not None:
        is_tree = parameters["algorithm"] == "igtree"
        rows = f"a tree of {memory['rows']:,} nodes" if is_tree else f"{memory['rows']:,} different"
        size = (
            f"{memory['bytes_per_instance']:,.0f} bytes an instance, {memory['bytes'] / 1e6:.1f} MB"
        )
        yield "memory", f"{counted(int(memory['instances']), 'instance')}, {rows}; {size}"
    if facts.get("lexicon") is not None:
        words, layer = counted(facts["lexicon"]["words"], "word"), facts["lexicon"]["layer"]
        yield "lexicon", f"{words} with labels of {layer}"
    if parameters.get("jackknife"):
        yield (
            "jackknife",
            "upper layers are trained on labels predicted for sentences held out below",
        )
    if parameters.get("shares"):
        yield (
            "shares",
            ", ".join(f"{name} {share:g}" for name, share in parameters["shares"].items()),
        )


def _labels(facts: Facts) -> Row:
    return "labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"


def _weights(facts: Facts) -> list[Row]:
    if "n_weights" not in facts:
        return [("size", ", ".join(facts["size"]))] if "size" in facts else []
    counts = f"{facts['n_weights']:,} ({facts['n_nonzero']:,} not zero)"
    return [("features", f"{facts['n_features']:,}"), ("weights", counts)]


def _of_layer(layer: Facts, how: str, turn: str) -> Iterator[Row]:
    training, record = layer["training"], TrainingRecord.of(layer["training"])
    yield "model", layer["signature"]
    yield _labels(layer)
    yield from _weights(layer)
    if record.iterations is None:
        for seconds in record.time():
            yield "training", seconds
        return
    end = f", {percent(training.get('convergence', {}).get('separable') or 0.0)} separable"
    if layer["probabilistic"]:
        end = "" if record.loss is None else f", loss {record.loss:,.1f}"
    run = f"{counted(record.iterations, turn)}{end}"
    if record.stopped is None:
        yield how, f"{run} of partial_fit"
    else:
        yield how, f"{', '.join([run, *record.time()])}; {record.stopped}"
    if "calibration" in training:
        yield "calibration", calibration_text(training["calibration"])


def _of_training(facts: Facts, turn: str) -> Iterator[Row]:
    """How the training went; models made in Python, or by partial_fit, know less about it."""
    training, scheme, probabilistic = (
        facts["training"],
        facts.get("scheme"),
        facts.get("probabilistic", True),
    )
    record = TrainingRecord.of(training)
    if record.imported_from is not None:
        yield "imported from", record.imported_from
    # else no file's word for it
    read = next(iter(training["layers"].values())) if "layers" in facts else training
    data = TrainingRecord.of(read).counts(sentences="sentence", tokens="token")
    if data:  # lattices have no tokens
        yield "trained on", ", ".join(data)
    length = record.counts(iterations=turn) if turn else []
    if length and record.stopped is None and record.imported_from is None:
        yield "training", f"{length[0]} of partial_fit"
    elif record.labelwright is not None:
        stopped = f"; {record.stopped}" if length and record.stopped is not None else ""
        took = ", ".join([*length, *record.time()])
        if took:
            yield "training", f"{took}{stopped}"
        yield "version", f"labelwright {record.labelwright}"
    yield from _of_search(training, scheme, turn)
    if not probabilistic:
        yield from _of_passes(facts)
    if "calibration" in training or not probabilistic:
        calibrated = (
            "calibration" if probabilistic and "feature_weights" not in facts else "confidence"
        )
        yield calibrated, calibration_text(training.get("calibration"))
    joint = training.get("joint") if "layers" in facts else None
    if joint is not None:
        losses = f"loss {facts['history'][0]['loss']:,.1f} → {joint['loss']:,.1f}"
        yield (
            "together",
            f"{counted(joint['iterations'], 'iteration')}, {losses}; {joint['stopped']}",
        )
    yield from curves(facts.get("history", []), probabilistic)
    dev = training.get("dev", {})
    if not isinstance(dev, dict):
        yield "dev", f"{score_text(dev, scheme)} on the development data"
        return
    for name, after in dev.get("after", {}).items():
        score, before = (
            score_text(after, facts["layers"][name]["scheme"]),
            dev.get("before", {}).get(name),
        )
        if before is not None:  # joint training
            kind, _, number = score.partition(" ")
            score = f"{kind} {100 * before:.2f} before, {number} after"
        yield f"{name} on dev", score


def _of_search(training: Facts, scheme: str | None, turn: str) -> Iterator[Row]:
    """What was chosen: an iteration, numbers of states, a random start, settings."""
    if "best_iteration" in training:
        score = score_text(training["best_dev"], scheme)
        yield f"best {turn}", f"{training['best_iteration']}, {score} on the development data"
    runs = training.get("restarts")
    if runs:
        yield (
            "starts",
            f"{len(runs)}, losses {' '.join(format(run['loss'], ',.1f') for run in runs)}",
        )
        if "best_dev" in training:
            scores = " ".join(format(100 * run["merit"], ".2f") for run in runs)
            yield "", f"{score_text(0.0, scheme).split()[0]} on the development data {scores}"
    search = training.get("search")
    if search is not None:
        from labelwright.search.trials import tried

        how_many = tried(search.get("tried", search["settings"]), search["settings"])
        yield (
            "search",
            (
                f"the best of {how_many}, {100 * search['score']:.2f} in the last step; "
                f"{search['stopped']}"
            ),
        )


def score_text(score: float, scheme: str | None) -> str:
    """A score on development data by its name: of chunks F1, of other labels the accuracy of
    tokens.

    >>> score_text(0.75621, "iob2"), score_text(0.9, None)
    ('F1 75.62', 'accuracy 90.00')
    """
    return f"{'accuracy' if scheme is None else 'F1'} {100 * score:.2f}"


def _of_passes(facts: Facts) -> Iterator[Row]:
    """The mistakes of a perceptron, pass by pass, and what theory says of them (Sun et al.
    2009)."""
    training, parameters = facts["training"], facts["parameters"]
    made = [record["mistakes"] for record in facts["history"]]
    if made:
        shown = [f"{number:,}" for number in made]
        shown = shown if len(shown) <= MANY else [*shown[: MANY // 2], "...", *shown[-MANY // 2 :]]
        yield "mistakes", f"{sum(made):,}; by pass {' '.join(shown)}"
    convergence = training.get("convergence")
    if convergence is None:
        return
    # read in all passes
    sentences = (TrainingRecord.of(training).sentences or 0) * len(made)
    shares = percent(convergence["separable"])
    strictly = ""
    if "strictly_separable" in convergence and "n_latent" in parameters:
        strictly = (
            f", {percent(convergence['strictly_separable'])} strictly (by every path of their "
            "labels)"
        )
    yield "separable", f"{shares} of the training sentences{strictly}"
    bound = convergence.get("mistake_bound")
    if bound is not None:
        trivial = (
            f"; trivial: all passes read {counted(sentences, 'sentence')}"
            if bound >= sentences > 0
            else ""
        )
        theorem = f"by theorem {convergence['theorem']} of Sun et al. (2009)"
        yield "bound", f"{bound:,.0f} mistakes at most, {theorem}{trivial}"
    elif "mistake_bound" in convergence:
        why = "these weights or feature values (negative ones) give none"
        if parameters["update"] != "perceptron":
            why = (
                f"the theorems are about whole steps, which {parameters['update']} updates are not"
            )
        elif parameters["margin"]:
            why = (
                "the theorems are about mistakes alone, and with a margin right answers lead to "
                "updates, too"
            )
        elif parameters["averaging"] == "mavg":
            why = (
                "the theorems are about one sequence of updates, and with mavg passes begin from "
                "the mean"
            )
        yield "bound", f"none: {why}"
    # what theorem 1 says of data that are separable without latent states
    latent = convergence.get("latent")
    if latent is not None:
        text = (
            f"{latent['plain_margin']:.3g} without latent states, at least "
            f"{latent['margin_bound']:.3g} with them"
        )
        bound, text = latent["mistake_bound"], f"{text} (theorem 1, T = {latent['expansion']:.3g})"
        useful = bound is not None and bound < sentences
        yield "margin", f"{text}: {bound:,.0f} mistakes at most (theorem 2)" if useful else text


# -- text: tables ----------------------------------------------------------------------------------


def _sections(facts: Facts, with_data: bool) -> Iterator[tuple[str, Iterable[str]]]:
    """Tables under headings; those without lines are not shown."""
    segments, probabilistic = facts.get("segments"), facts.get("probabilistic")
    features = facts["features"] if "n_weights" in facts else {}
    if segments is not None:
        yield "weights of segments by length", _by_type(segments["lengths"])
        yield "weights of segments by dictionary", _by_type(segments["dictionaries"])
        yield "transitions from type to type", _by_type(segments["transitions"])
        yield "strongest features of segments by their text", _features(segments["texts"], "text")
    else:
        width = max((len(row["from"]) for row in facts.get("transitions", ())), default=0)
        paths = (
            (row["weight"], f"{row['from']:<{width}} → {row['to']}")
            for row in facts.get("transitions", ())
        )
        yield "strongest transitions", [f"  {weight:+8.3f}  {path}" for weight, path in paths]
        triples = (
            (row["weight"], row["first"], row["second"], row["third"])
            for row in facts.get("triples", ())
        )
        yield (
            "strongest triples",
            [f"  {weight:+8.3f}  {' → '.join(path)}" for weight, *path in triples],
        )
    if "latent" in facts:
        source = (
            "by their use on the data"
            if with_data
            else "by their weights alone; --data FILE shows their use"
        )
        counts = ", counted on best paths" if with_data and not probabilistic else ""
        yield f"latent states of each label ({source}{counts})", _latent(facts["latent"], with_data)
    if "use" in facts:
        counts = "expected counts" if probabilistic else "counted on the best labellings"
        width = max(len(view["label"]) for view in facts["use"])
        begin = {
            view["label"]: f"  {view['label']:<{width}}  {view['share']:>6.1%}"
            for view in facts["use"]
        }
        lines = [
            line
            for view in facts["use"]
            for line in _view(view, begin[view["label"]], width + 11, True)
        ]
        yield f"labels by their share of the tokens of the data ({counts})", lines
    for kind in features:
        if not (kind == "state" and "latent" in facts) and kind != "segment":
            what = PLACES if kind == "state" and "segment" in features else WHAT[kind]
            yield f"strongest features of {what}", _features(features[kind], "feature")
    if "path_mass" in facts:
        table = [["n", *map(str, next(iter(facts["path_mass"].values())))]]
        table += [
            [path, *(f"{p:.1%}" for p in row.values())] for path, row in facts["path_mass"].items()
        ]
        yield (
            f"probability of the n best {facts['paths']} together, mean over the sentences",
            indented(align(table)),
        )
    if "feature_weights" in facts:
        weights = facts["parameters"]["weights"]
        title = f"weights of columns ({weights if isinstance(weights, str) else 'as given'})"
        yield title, _bars({row["column"]: row["weight"] for row in facts["feature_weights"]})


def _by_type(rows: dict[str, dict[str, float]]) -> list[str]:
    """A table with a row for each name and a column for each type, some types at a time."""
    types, lines = list(next(iter(rows.values()), {})), list[str]()
    for begin in range(0, len(types), TYPES):
        part = types[begin : begin + TYPES]
        table = [
            [name, *(f"{weights[kind]:+.3f}" for kind in part)] for name, weights in rows.items()
        ]
        lines += indented(align([["", *part], *table]))
    return lines


def _features(by_name: dict[str, list[Facts]], key: str) -> list[str]:
    """The strongest features of each label, transition, triple or type of segment."""
    width = max([16, *(len(name) + 2 for name, rows in by_name.items() if rows)])
    return [
        f"  {'' if k else name:<{width}}{row['weight']:+8.3f}  {row[key]}"
        for name, rows in by_name.items()
        for k, row in enumerate(rows)
    ]


def _bars(weights: Mapping[str, float]) -> Iterator[str]:
    rows = sorted(weights.items(), key=lambda row: -row[1])
    width, highest = max(map(len, weights)), rows[0][1]
    for name, weight in rows[:WEIGHTS]:
        yield f"  {name:<{width}}  {weight:10.4f}  {bar(weight, highest)}".rstrip()
    if len(rows) > WEIGHTS:
        yield f"  ... and {len(rows) - WEIGHTS:,} more, with --json all"


def _latent(views: Sequence[Facts], with_data: bool) -> Iterator[str]:
    """The states of each label, with what tells them from the others and what is around them."""
    shown = [view for view in views if view["share"] >= RARE]
    for label, states in groupby(shown, key=lambda view: view["label"]):
        yield from ("", Heading(f"  {label}"))
        for view in states:
            begin = f"    {view['state'].removeprefix(label) or '#1':<4}{view['share']:>5.0%}"
            yield from _view(view, begin, 14, with_data)
    if len(shown) < len(views):
        yield (
            f"\n{counted(len(views) - len(shown), 'state')} below 1 % of their label left out; "
            "--json shows all"
        )


def _view(view: Facts, begin: str, width: int, with_data: bool) -> Iterator[str]:
    """A label or state in lines of its words, features and neighbours (probabilities on data, or
    weights); `begin` begins the first."""
    lines = {"words": "  ".join(word for word, _ in view["words"])}
    lines["features"] = ", ".join(f"{name} ({weight:+.2f})" for name, weight in view["features"])
    for where in ("before", "after"):
        near = [(name, value) for name, value in view[where] if not with_data or value >= 0.005]
        lines[f"{where} it"] = ", ".join(
            f"{name} {value:{'.0%' if with_data else '+.2f'}}" for name, value in near
        )
    for name, text in lines.items():
        if text:
            yield f"{begin:<{width}} {name:<10} {text}"
            begin = ""
    if begin:
        yield begin
