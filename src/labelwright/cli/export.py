"""labelwright export: a smaller copy of a model, and what that costs."""

import io
import os
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli import decoding as how
from labelwright.cli.common import (
    Columns,
    Format,
    Json,
    Label,
    Threads,
    aligned,
    check_target,
    corpus_for,
    is_model,
    load_model,
    percent,
    show,
    show_json,
)
from labelwright.cli.eval import gold_for
from labelwright.cli.options import DATA, OTHER, argument, option
from labelwright.cli.reading import has_attributes
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.cli.reading import Data

Labels = dict[str, list[list[str]]]  # by output [N][T]


def command(
    model: Annotated[str, argument("A model file.", "MODEL")],
    output: Annotated[str, argument("The smaller model file.", "OUT")],
    prune: Annotated[
        float, option("Remove weights of features from -X to X, and features that have none left.", "X")
    ] = 0.0,
    bits: Annotated[int, option("Bits of each weight: 32, 16 or 8.", "N")] = 32,
    data: Annotated[
        str | None,
        option("Labelled sentences: show scores before and after, and how many labels agree.", "FILE", DATA),
    ] = None,
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    as_json: Json = False,
    threads: Threads = None,
    quiet: Annotated[bool, option("Print nothing.", None, OTHER, "--quiet", "-q")] = False,
) -> None:
    """Write a smaller copy of a model, and show what it saves and what it costs.

    \b
      labelwright export model.crf small.crf                              indices in fewer bytes, weights as they are
      labelwright export model.crf small.crf --bits 16 --data dev.txt
      labelwright export model.crf small.crf --prune 0.05 --bits 8 --data dev.txt

    The copy is a model like any other: every command and labelwright.load read it, and its answers are exact for its
    own weights.  Labels and transitions between them stay.  With --bits 8 each kind of weights (state, edge, ...) has
    its own scale, and weights that round to 0 are removed.  Memory-based models have no weights of features: they take
    neither --prune nor --bits, but become smaller, too.
    """
    from labelwright import modelfile
    from labelwright.corpus.file_formats import FileOptions
    from labelwright.taggers.registry import load

    _check(model, output, data)
    if data is None and (columns or label or format):
        raise OptionError("--columns, --label, --format: describe the file of --data; name it, or leave them out")
    large = load(model)
    written = io.BytesIO()
    large.compressed(prune, bits).save(written)
    content = written.getvalue()
    facts: dict[str, Any] = _sizes(large, load(content), os.path.getsize(model), len(content))
    if data is not None:
        large = load_model(model, threads, attributes=True)
        gold = gold_for(large, data, columns, label, FileOptions(format))
        facts["data"] = _scores(gold, large, _labels(large, gold), _labels(_same_kind(content, threads), gold))
    modelfile.store(output, content)
    if as_json:
        show_json(facts)
    elif not quiet:
        _show(facts)


def _check(model: str, output: str, data: str | None) -> None:
    """Refuse an output that is no place for a model, or that holds something else."""
    from labelwright.interchange.formats import format_of

    if output == "-":
        raise OptionError("OUT: expected the name of a model file to write, got '-'")
    check_target(output, [model, *([data] if data else [])], for_model=True)
    if os.path.isfile(output) and os.path.getsize(output) and not is_model(output):
        raise OptionError(f"{output}: is no model, and would be replaced; name another file to write")
    if format_of(output):
        raise OptionError(f"{output}: is for models of labelwright; then use labelwright convert for other programs")


def _same_kind(content: bytes, threads: int | None) -> Any:
    """The smaller model, as `load_model` has the large one."""
    from labelwright.taggers.packing import with_text_labels
    from labelwright.taggers.registry import load

    model = with_text_labels(load(content))
    if threads is not None:
        for part in {id(part): part for part in (model, *model._outputs.values())}.values():
            part.set_params(n_jobs=threads)
    return model


def _sizes(large: Any, small: Any, *sizes: int) -> dict[str, Any]:
    """Bytes, features and weights before and after."""
    before, after = large._sizes(), small._sizes()
    return {"bytes": list(sizes)} | {name: [before[name], after[name]] for name in before}


def _labels(model: Any, gold: "Data") -> Labels:
    """What a model says of the sentences, by output."""
    choices = how.chosen(model, dict.fromkeys(how.OPTIONS))
    inputs = gold.X if has_attributes(gold) else corpus_for(model, gold)

    def question(name: str, tagger: Any, batch: Any) -> list[list[str]]:
        choice = choices[name]
        return [d.labels for d in batch.decode(choice.decoder, probabilities=False, **choice.options)]

    answers: Labels = model._ask_outputs(inputs, question)
    return answers


def _scores(gold: "Data", model: Any, before: Labels, after: Labels) -> dict[str, dict[str, Any]]:
    """Scores before and after, and the share of tokens and sentences whose labels agree, by output."""
    from labelwright.evaluate import evaluate

    scores = {}
    for name in model._outputs:
        truth = gold.column(name) if name else gold.y
        reports = [evaluate(truth, labels[name]) for labels in (before, after)]
        same = evaluate(before[name], after[name], reading="token")
        facts: dict[str, Any] = {} if reports[0].f1 is None else {"f1": [report.f1 for report in reports]}
        facts["token_accuracy"] = [report.token_accuracy for report in reports]
        scores[name] = facts | {"agreement": {"tokens": same.token_accuracy, "sentences": same.sentence_accuracy}}
    return scores


def _show(facts: dict[str, Any]) -> None:
    """A table: what, before, after."""
    rows: list[tuple[str, ...]] = [("", "before", "after")]
    rows.append(("size", *(f"{n / 1e6:,.2f} MB" for n in facts["bytes"])))
    rows += [(name, *(f"{n:,}" for n in facts[name])) for name in ("features", "weights") if name in facts]
    for layer, scores in facts.get("data", {}).items():
        place = f"{layer} " if layer else ""
        for key, name in (("f1", "F1"), ("token_accuracy", "token accuracy")):
            if key in scores:
                rows.append((place + name, *(f"{100 * value:.2f}" for value in scores[key])))
        rows.append((f"{place}labels that agree", "", percent(scores["agreement"]["tokens"])))
        rows.append((f"{place}sentences that agree", "", percent(scores["agreement"]["sentences"])))
    for line in aligned(rows, {1, 2}):
        show(line)
