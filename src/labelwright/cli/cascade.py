"""What cascades have of their own in `tag`, `eval` and `inspect`: several layers, each with its labels."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli import tag
from labelwright.cli.common import (
    check_columns,
    corpus_for,
    counted,
    heading,
    input_names,
    inputs_of,
    is_conllu,
    label_place,
    percent,
    say,
    show,
    show_json,
    turns,
    why_stopped,
)
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus


# -- tag ------------------------------------------------------------------------------------------------------------


def requests(model: Any, asked: tag.Request, verbose: bool) -> dict[str, tag.Request]:
    """What is asked of each layer, after a check that all of it can be answered."""
    if asked.known is not None:
        raise OptionError("--known: not for a cascade, whose layers all find their own labels")
    if asked.nbest is not None and not asked.json:
        raise OptionError("--nbest: a cascade has a list for each layer; add --json")
    found = {}
    for name, (decoder, options) in decoders(model, asked.decoder or None, asked.options).items():
        layer = model.layers_[name]
        if asked.probabilities and not tag.is_sure(layer):
            raise OptionError(f"--probabilities: layer {name}: {layer.has_scores()}")
        found[name] = asked._replace(
            decoder=decoder,
            options=options,
            constraints=_constraints(model, layer, asked.constraints),
            tally=how.Tally() if verbose else None,
        )
    return found


def decoders(model: Any, decoder: str | None, options: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The decoder of each layer with its options.

    A decoder that is named holds for every layer; options without one go where the layer's own decoder takes them."""
    if decoder is not None:
        return {name: _of_layer(name, how.checked, layer, decoder, options) for name, layer in model.layers_.items()}
    found, taken = {}, set()
    for name, layer in model.layers_.items():
        own = {}
        for option, value in options.items():
            try:
                how.checked(layer, None, {option: value})
            except OptionError:
                continue
            own[option] = value
        found[name] = how.checked(layer, None, own)
        taken |= set(found[name][1])
    for option, value in options.items():
        if value is not None and option not in taken:
            name, layer = next(reversed(model.layers_.items()))
            _of_layer(name, how.checked, layer, None, {option: value})
    return found


def _of_layer(name: str, check: Callable[..., Any], *arguments: Any) -> Any:
    """A check whose error names the layer."""
    try:
        return check(*arguments)
    except OptionError as error:
        flag, _, rest = str(error).partition(": ")
        raise OptionError(f"{flag}: layer {name}: {rest}") from None


def _constraints(model: Any, layer: Any, constraints: str | None) -> str | None:
    """Constraints hold in the layers that have chunks."""
    if constraints is not None and not any(each.scheme_ for each in model.layers_.values()):
        raise OptionError("--constraints: no layer has labels that follow a chunk scheme (B-X, I-X, O, ...)")
    return constraints if layer.scheme_ is not None else None


def answer(model: Any, corpus: "Corpus", asked: dict[str, tag.Request], out: BinaryIO) -> None:
    """Label one piece in all layers and write it in the form that was asked for."""
    inputs = inputs_of(model, corpus)
    words = inputs.column(inputs.names[0])
    as_json = next(iter(asked.values())).json
    facts: list[dict[str, Any]] = [{"tokens": sentence, "layers": {}} for sentence in words]
    columns: dict[str, list[Any]] = {}
    for name, layer, below in model.climb(inputs):
        request, data = asked[name], layer.encode(below)
        limits = {"forced": None, "constraints": request.constraints}
        if as_json:
            for n, fact in enumerate(tag.facts(layer, words, data, request, limits)):
                facts[n]["layers"][name] = fact
        else:
            columns[name] = tag.added_columns(layer, data, request, limits)
    if as_json:
        tag.write_json(facts, out)
    else:
        _write_columns(corpus, columns, out)


def _write_columns(corpus: "Corpus", columns: dict[str, list[Any]], out: BinaryIO) -> None:
    """The input with the columns of all layers at the end; in CoNLL-U each takes the place of its column."""
    from labelwright.corpus import CONLLU_NAMES, read_conllu, write_columns, write_conllu

    if tuple(corpus.names) != CONLLU_NAMES:
        write_columns(corpus, out, extra=[column for added in columns.values() for column in added])
        return
    assert corpus.raw is not None
    text = corpus.raw.text
    for name, added in columns.items():
        if name not in CONLLU_NAMES or len(added) > 1:
            what = "probabilities" if name in CONLLU_NAMES else f"the layer {name}"
            raise OptionError(f"{corpus.source}: CoNLL-U has no column for {what}; add --json")
        piece = io.BytesIO()
        write_conllu(read_conllu(io.BytesIO(text), label=name), piece, extra=added)
        text = piece.getvalue()
    out.write(text)


# -- eval -----------------------------------------------------------------------------------------------------------


class Scoring(NamedTuple):
    """How a cascade is to be scored."""

    columns: str | None
    label: str | None
    strict: bool
    scheme: str | None
    decoder: str | None
    options: dict[str, Any]
    constraints: str | None
    verbose: bool
    json: bool


def evaluate(model: Any, path: str, how_to: Scoring) -> None:
    """A block for each layer: chunks where there are any, else labels of tokens."""
    from labelwright.corpus import read_columns, read_conllu
    from labelwright.evaluate import evaluate as score

    if how_to.label is not None:
        raise OptionError("--label: a cascade has a label column for each layer, and all are scored; leave it out")
    if is_conllu(path):
        gold = read_conllu(path)
    else:
        gold = read_columns(path, names=how_to.columns, label=False)
        if how_to.columns is None:
            gold = _named(model, gold)
    check_columns(gold, list(model.layers_))
    chosen = decoders(model, how_to.decoder, how_to.options)
    facts, tables, shown = {}, [], how_to.verbose or how_to.json
    for name, layer, below in model.climb(corpus_for(model, gold)):
        decoder, options = chosen[name]
        tally = how.Tally()
        limits = _constraints(model, layer, how_to.constraints)
        decodings = layer.decode(below, decoder, constraints=limits, probabilities=shown, **options)
        tally.add(decodings)
        strict = how_to.strict and layer.scheme_ is not None
        report = score(
            gold.column(name),
            [d.labels for d in decodings],
            reading="strict" if strict else "conlleval",
            scheme=how_to.scheme if strict else None,
        )
        facts[name] = report.as_dict() | {"decoding": {"decoder": decoder, "options": options, **tally.as_dict()}}
        tables.append((name, report))
        if how_to.verbose:
            say(f"{name}: {tally}")
    if how_to.json:
        show_json({"layers": facts})
        return
    for number, (name, report) in enumerate(tables):
        if number:
            show()
        heading(name)
        show(str(report))


def _named(model: Any, gold: "Corpus") -> "Corpus":
    """A test file has the columns of the training file."""
    columns, _ = label_place(model)
    if len(gold.names) != len(columns):
        raise CorpusError(
            f"{gold.source}: expected the {len(columns)} columns {','.join(columns)}, with the labels of all layers, "
            f"got {len(gold.names)}; name them with --columns"
        )
    return gold.renamed(columns, None)


# -- inspect --------------------------------------------------------------------------------------------------------


def layer_named(model: Any, name: str, path: str, with_data: bool) -> Any:
    """One layer of a cascade; data can show the use of the states of the lowest one alone."""
    if name not in model.layers_:
        raise OptionError(f"--layer: {path} has no layer {name!r}, expected one of {', '.join(model.layers_)}")
    lowest = next(iter(model.layers_))
    if with_data and name != lowest:
        raise OptionError(f"--data: only with --layer {lowest}, the lowest; {name} also reads the labels below it")
    return model.layers_[name]


def input_of_lowest(model: Any, corpus: "Corpus") -> "Corpus":
    """What the lowest layer reads of a file."""
    _, _, found = next(model.climb(corpus))
    lowest: Corpus = found
    return lowest


def refuse_without_layer(model: Any, options: dict[str, Any]) -> None:
    """These are about one model."""
    for name, value in options.items():
        if value:
            raise OptionError(f"{name}: of which layer? add --layer {' or --layer '.join(model.layers_)}")


def inspect(model: Any, path: str, as_json: bool) -> None:
    """The layers, what they pass, and how training went before and after they learnt together."""
    record, joint = model.training_, model.training_.get("joint")
    facts = {
        "kind": "Cascade",
        "passing": model.passing,
        "parameters": {name: value for name, value in model.get_params(deep=False).items() if name != "layers"},
        "columns": input_names(model),
        "layers": {name: _layer_facts(layer) for name, layer in model.layers_.items()},
        "training": record,
        "history": model.history_,
    }
    if as_json:
        show_json(facts)
        return
    from labelwright.cli.inspect import curves

    heading(f"{path}: cascade of {counted(len(model.layers_), 'layer')}, passing {model.passing}")
    rows = [("columns", ",".join(input_names(model)) or "(no columns: trained on dicts or arrays)")]
    if model.lexicon_ is not None:
        rows.append(("lexicon", f"{counted(len(model.lexicon_.words), 'word')} with labels of {model.lexicon}"))
    if model.jackknife:
        rows.append(("jackknife", "upper layers learnt from labels of sentences that the lower ones had not seen"))
    if model.shares:
        rows.append(("shares", ", ".join(f"{name} {share:g}" for name, share in model.shares.items())))
    first = next(iter(record["layers"].values()))
    rows.append(("trained on", f"{counted(first['sentences'], 'sentence')}, {counted(first['tokens'], 'token')}"))
    rows.append(("training", f"{record['seconds']:.1f} s in all; labelwright {record['labelwright']}"))
    if joint is not None:
        losses = f"loss {model.history_[0]['loss']:,.1f} -> {joint['loss']:,.1f}"
        rows.append(("together", f"{counted(joint['iterations'], 'iteration')}, {losses}; {joint['stopped']}"))
        rows += curves(model.history_, True)
    for name in record.get("dev", {}).get("after", {}):
        before, after = (record["dev"].get(when, {}).get(name) for when in ("before", "after"))
        shown = f"{100 * after:.2f}" if before is None else f"{100 * before:.2f} before, {100 * after:.2f} after"
        rows.append((f"{name} on dev", shown))
    _show_rows(rows)
    for number, (name, layer) in enumerate(model.layers_.items()):
        show()
        heading(f"layer {number + 1}: {name}")
        _show_rows(_layer_rows(layer, joint is not None))
    show()
    show(f"more about a layer: labelwright inspect {path} --layer {next(reversed(model.layers_))}")


def _layer_facts(layer: Any) -> dict[str, Any]:
    from labelwright.taggers.files import signature

    return {
        "kind": type(layer).__name__,
        "signature": signature(layer),
        "labels": layer.classes_,
        "n_features": layer.extractor_.n_features,
        "n_weights": len(layer.weights_),
        "training": layer.training_,
    }


def _layer_rows(layer: Any, joint: bool) -> list[tuple[str, str]]:
    facts, record = _layer_facts(layer), layer.training_
    length = counted(record["iterations"], turns(layer.probabilistic))
    separable = record.get("convergence", {}).get("separable")
    end = f"loss {record['loss']:,.1f}" if layer.probabilistic else f"{percent(separable or 0.0)} separable"
    return [
        ("model", facts["signature"]),
        ("labels", f"{len(layer.classes_)}: {' '.join(layer.classes_)}"),
        ("features", f"{facts['n_features']:,}"),
        ("weights", f"{facts['n_weights']:,}"),
        ("alone" if joint else "training", f"{length}, {end}, {record['seconds']:.1f} s; "
         f"{why_stopped(record, layer.probabilistic)}"),
    ]  # fmt: skip


def _show_rows(rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        show(f"  {name:<{width}}{value}")
