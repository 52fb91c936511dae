"""labelwright eval: scores of predictions, or of a model on a test file."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.arrays import Arrays, rows_for
from labelwright.cli.common import (
    Columns,
    Format,
    Json,
    Label,
    LabelNames,
    SkipBadSpans,
    Strict,
    StrictScheme,
    Threads,
    check_columns,
    corpus_for,
    heading,
    input_names,
    is_model,
    label_place,
    layer_names,
    load_model,
    predicted_labels,
    read_labelled,
    say,
    show,
    show_json,
)
from labelwright.cli.options import OTHER, OUTPUT, SCORING, argument, option
from labelwright.cli.reading import has_attributes, open_for
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.cli.reading import Data
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.evaluate import CalibrationReport, ErrorAnalysis, Report


class Scored(NamedTuple):
    """The scores of one output of a model."""

    report: "Report"
    decoding: dict[str, Any] | None  # how, and how much is proven; None where a file has the predictions
    tally: how.Tally | None
    oracle: "Report | None"
    calibration: "CalibrationReport | None" = None


class Sources(NamedTuple):
    """What is scored: a model and a test file, in either order, or two files."""

    gold: str
    predicted: str
    columns: str | None
    label: str | None
    options: "FileOptions"
    threads: int | None
    arrays: str | None = None


class Tested(NamedTuple):
    """Predictions that were scored, and what made them."""

    scores: dict[str, Scored]
    inputs: Any  # the sentences, as the model reads them
    model: Any = None  # None where a file has the predictions

    def errors(self, train: Any = None) -> "dict[str, ErrorAnalysis]":
        """The errors of every output; `train` are sentences whose tokens are no longer unseen."""
        return {
            name: scored.report.errors(self.inputs, model=self.model, layer=name, train=train)
            for name, scored in self.scores.items()
        }


class Asked(NamedTuple):
    """How predictions are made and scored."""

    choices: dict[str, how.Choice]  # the decoder of every output of the model
    reading: str
    scheme: str | None
    oracle: bool
    proofs: bool  # shall be shown
    calibration: bool = False  # shall be measured


class Ways(NamedTuple):
    """What else is asked of a model."""

    oracle: bool = False
    verbose: bool = False
    proofs: bool = False
    calibration: bool = False
    uncalibrated: bool = False


@how.with_decoders
def command(
    gold: Annotated[str, argument("The true labels, or a model file.", "GOLD|MODEL")],
    predicted: Annotated[str, argument("Predictions, or the true labels.", "PREDICTED|TEST")],
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    label_names: LabelNames = None,
    skip_bad_spans: SkipBadSpans = False,
    arrays: Arrays = None,
    strict: Strict = False,
    scheme: StrictScheme = None,
    oracle: Annotated[
        bool,
        option(
            "Memory-based models: also the score of the best choice among the candidates of each token.",
            None,
            SCORING,
            "--oracle",
        ),
    ] = False,
    errors: Annotated[
        bool, option("Also what goes wrong, as labelwright errors shows it.", None, SCORING, "--errors")
    ] = False,
    calibration: Annotated[
        bool,
        option(
            "Also how far probabilities can be trusted: reliability, calibration error, what is kept at a precision.",
            None,
            SCORING,
            "--calibration",
        ),
    ] = False,
    decoding: Any = None,
    plot: Annotated[
        str | None,
        option("With --calibration: draw the reliability diagram and the curve of precision.", "FILE.png", OUTPUT),
    ] = None,
    uncalibrated: how.Uncalibrated = False,
    as_json: Json = False,
    threads: Threads = None,
    verbose: Annotated[
        bool, option("With a model: one line on stderr, how much is proven.", None, OTHER, "--verbose", "-v")
    ] = False,
) -> None:
    """Score predictions: precision, recall and F1 of chunks, accuracy of tokens and sentences.

    \b
      labelwright eval gold.txt tagged.txt     compare the last columns
      labelwright eval model.crf test.txt      tag and score in one step
      labelwright eval model.crf test.txt --calibration --plot reliability.png

    Decoding is for models, as in `labelwright tag`; --json then adds "decoding": how many sentences are proven exact,
    the largest gap and the seconds that it took; with --decoder ldi also the mean number of latent paths and labellings
    that were met and their mean probability, which are shown without --json, too.

    Labels that are not B-X, I-X, O, ... are scored one by one.  The last line is a signature: how the score was made.

    A cascade is scored layer by layer on a file with the labels of all layers; JSON is {"layers": {NAME: scores}}.
    """
    from labelwright.corpus.file_formats import FileOptions

    files = FileOptions(format, label_names, skip_bad_spans)
    sources = Sources(gold, predicted, columns, label, files, threads, arrays)
    if plot is not None:
        _check_plot(plot, calibration, [gold, predicted])
    ways = Ways(oracle, verbose, as_json, calibration, uncalibrated)
    tested = scored_on(sources, decoding, strict, scheme, ways)
    if verbose:
        for name, scored in tested.scores.items():
            say(f"{name}: {scored.tally}" if name else str(scored.tally))
    analyses = tested.errors() if errors else {}
    if plot is not None:
        from labelwright.cli.plots import draw_calibration

        draw_calibration({name: each.calibration for name, each in tested.scores.items() if each.calibration}, plot)
    if as_json:
        facts = {name: _facts(scored) for name, scored in tested.scores.items()}
        for name, analysis in analyses.items():
            facts[name]["errors"] = analysis.as_dict()
        show_json(facts.get("", {"layers": facts}))
    else:
        _show(tested.scores, {name: str(analysis) for name, analysis in analyses.items()})


def scored_on(
    sources: Sources,
    decoding: dict[str, Any],
    strict: bool,
    scheme: str | None,
    ways: "Ways | None" = None,
) -> Tested:
    """Score a model on a test file, or predictions; in either order."""
    from labelwright.inspection.warnings import trained_on

    gold, predicted, columns, label, files, threads, arrays = sources
    ways = ways or Ways()
    reading = "strict" if strict else "conlleval"
    if not is_model(gold) and not is_model(predicted):
        asked_of_model = {name: value or None for name, value in ways._asdict().items() if name != "proofs"}
        _refuse_without_model({**decoding, **asked_of_model, "arrays": arrays})
        truth = read_labelled(gold, columns, label, options=files)
        return _predictions(truth, predicted_labels(predicted, truth), reading, scheme)
    model_path, gold_path = (gold, predicted) if is_model(gold) else (predicted, gold)
    model = load_model(model_path, threads, attributes=True)
    if ways.uncalibrated:
        model = how.uncalibrated(model)
    proofs = ways.verbose or ways.proofs
    asked = Asked(how.chosen(model, decoding), reading, scheme, ways.oracle, proofs, ways.calibration)
    if ways.oracle:
        _check_oracle(model)
    if ways.calibration:
        _check_sure(model)
    rows = rows_for(model, arrays)
    data = gold_for(model, gold_path, columns, label, files._replace(tokenizer=model.tokenizer()))
    if rows is not None:
        data = rows.whole(data)
    if not has_attributes(data):
        how.warn(model, data, scored=True)
        if line := trained_on(model.training_.get("seen", ""), data):
            say(f"labelwright: {line}")
    how.show_progress(model, True)
    inputs = data.X if has_attributes(data) else corpus_for(model, data)
    return Tested(_scores(model, data, inputs, asked), inputs, model)


def _predictions(gold: "Corpus", predicted: list[list[str]], reading: str, scheme: str | None) -> Tested:
    """The scores of predictions that are there already."""
    from labelwright.corpus.partial_labels import check_known
    from labelwright.evaluate import evaluate

    check_known(gold.y, _place(gold, ""))
    report = evaluate(gold.y, predicted, reading=reading, scheme=scheme)
    return Tested({"": Scored(report, None, None, None)}, gold)


def _check_sure(model: Any) -> None:
    """Refuse a model without probabilities or confidences."""
    for name, tagger in model._outputs.items():
        with how.of_layer(name):
            if not tagger._is_sure:
                raise OptionError(f"--calibration: {how.why_unsure(tagger)}")


def _check_plot(plot: str, calibration: bool, inputs: list[str]) -> None:
    """Refuse a plot of nothing, or one that cannot be made."""
    from labelwright.cli.plots import check_plot

    if not calibration:
        raise OptionError("--plot: draws how far probabilities can be trusted; add --calibration")
    check_plot(plot, inputs)


def _check_oracle(model: Any) -> None:
    """Refuse a model that has no oracle."""
    from labelwright.taggers.base import ORACLE

    for name, tagger in model._outputs.items():
        with how.of_layer(name):
            if ORACLE not in tagger.can:
                raise OptionError("--oracle: only for memory-based models, which choose among proposals")


def _scores(model: Any, test: "Data", inputs: Any, asked: Asked) -> dict[str, Scored]:
    """The scores of every output on a test file."""
    data = model.encode(inputs) if asked.oracle else inputs  # asked twice

    def question(name: str, tagger: Any, batch: "Batch") -> list[Any]:
        choice, batch = asked.choices[name], ruled[name](batch)
        decodings = batch.decode(choice.decoder, probabilities=asked.proofs, **choice.options)
        entities: list[Any] = [None] * len(batch)
        if asked.calibration:
            batch.sure.check_possible()
            entities = batch.entities([decoding.labels for decoding in decodings])
        return list(zip(decodings, entities, strict=True))

    ruled = {name: choice.under_rules(inputs) for name, choice in asked.choices.items()}
    tallies = {name: how.Tally() for name in asked.choices}
    answers = model._ask_outputs(data, question, None, how.schemes_of(asked.choices))
    scores = {}
    for name, tagger in model._outputs.items():
        decodings = [decoding for decoding, _ in answers[name]]
        tallies[name].add(decodings)
        scored = _scored(name, tagger, test, data, [each.labels for each in decodings], tallies[name], asked)
        if asked.calibration:
            scored = scored._replace(calibration=_reliability(name, tagger, test, [each for _, each in answers[name]]))
        scores[name] = scored
    return scores


def _reliability(name: str, tagger: Any, test: "Data", entities: list[Any]) -> "CalibrationReport":
    """How far the probabilities of one output can be trusted."""
    from labelwright.evaluate.calibration import judged, measure_of, reliability

    seen = judged(entities, test.column(name) if name else test.y, tagger.classes_)
    return reliability(seen, measure=measure_of(tagger))


def _scored(
    name: str, tagger: Any, test: "Data", data: Any, labellings: list[list[str]], tally: how.Tally, asked: Asked
) -> Scored:
    """The scores of one output."""
    from labelwright.corpus.partial_labels import check_known
    from labelwright.evaluate import evaluate

    gold = test.column(name) if name else test.y
    check_known(gold, _place(test, name))
    strict = asked.reading == "strict" and not (name and tagger.scheme_ is None)
    reading = asked.reading if strict else "conlleval"
    scheme = asked.scheme if strict or not name else None
    report = evaluate(gold, labellings, reading=reading, scheme=scheme)
    ceiling = None
    if asked.oracle:
        ceiling = evaluate(gold, tagger.predict_oracle(data, gold), reading=reading, scheme=scheme)
    choice, word = asked.choices[name], tagger._decoder_flag.removeprefix("--")
    described: dict[str, Any] = {word: choice.decoder}
    if word == "decoder":
        described["options"] = choice.options
    return Scored(report, described | tally.as_dict(), tally, ceiling)


def _place(test: "Data", name: str) -> str:
    """What an error about true labels begins with."""
    source = getattr(test, "source", "gold")
    return f"{source}: column {name}" if name else source


def _facts(scored: Scored) -> dict[str, Any]:
    facts: dict[str, Any] = scored.report.as_dict()
    facts |= {} if scored.decoding is None else {"decoding": scored.decoding}
    facts |= {} if scored.calibration is None else {"calibration": scored.calibration.as_dict()}
    return facts if scored.oracle is None else facts | {"oracle": scored.oracle.as_dict()}


def _show(scores: dict[str, Scored], errors: dict[str, str]) -> None:
    """A table for every output, and the errors where they are asked for."""
    for number, (name, scored) in enumerate(scores.items()):
        if number:
            show()
        if name:
            heading(name)
        show(str(scored.report))
        searched = None if scored.tally is None else scored.tally.of_search()
        if searched is not None:
            show(searched)
        if scored.oracle is not None:
            show(_ceiling(scored.oracle.as_dict()))
        if scored.calibration is not None:
            show()
            show(str(scored.calibration))
        if name in errors:
            show()
            show(errors[name])


def _ceiling(scores: dict[str, Any]) -> str:
    """What no inference exceeds, in one line."""
    shown = {"f1": scores["f1"], "token accuracy": scores["token_accuracy"]}
    listed = ", ".join(f"{name} {100 * value:.2f}" for name, value in shown.items() if value is not None)
    return f"oracle: {listed} (the true label wherever it is a candidate)"


def gold_for(
    model: Any, path: "str | OpenFile", columns: str | None, label: str | None, files: "FileOptions"
) -> "Data":
    """The test file, its columns named as in training."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, read_corpus, records_of

    file = open_for(model, path, files.format, columns)
    if file.format == "crfsuite":
        from labelwright.features.attributes import read_crfsuite

        return read_crfsuite(file)
    layers = layer_names(model)
    if not layers:
        trained_on = label_place(model)[1]
        if file.format in RECORDS and file.format not in TEXTS:
            columns = columns or ",".join(input_names(model))
            label = label or (trained_on if trained_on in records_of(file).names else None)
        elif columns is None and label is None and file.format not in TEXTS:
            columns, label = _columns_for(model, file.format)
        return read_labelled(file, columns, label, options=files)
    if label is not None:
        raise OptionError("--label: a cascade has a label column for each layer, and all are scored; leave it out")
    if file.format == "conllu":
        gold = read_corpus(file)[0]
    elif file.format in RECORDS:
        gold = read_corpus(file, columns or [*input_names(model), *layers], False, files)[0]
    else:
        gold = read_corpus(file, columns, False)[0]
        if columns is None:
            gold = _named(model, gold)
    check_columns(gold, layers)
    return gold


def _named(model: Any, gold: "Corpus") -> "Corpus":
    """A test file for a cascade has the columns of the training file."""
    columns, _ = label_place(model)
    if len(gold.names) != len(columns):
        raise CorpusError(
            f"{gold.source}: expected the {len(columns)} columns {','.join(columns)}, with the labels of all layers, "
            f"got {len(gold.names)}; name them with --columns"
        )
    return gold.renamed(columns, None)


def _refuse_without_model(options: dict[str, Any]) -> None:
    """Two files leave nothing to decode."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{how.flag(name)}: only with a model, as in: labelwright eval MODEL TEST")


def _columns_for(model: Any, format: str) -> tuple[str | None, str | None]:
    """The names of the test file's columns are those of the training file."""
    names, label = label_place(model)
    assert label is not None
    if format == "conllu":  # its words are in `form`; a model that knows no name of its label gives upos
        other = {"word": "form", "label": "upos"}
        names, label = [other.get(name, name) for name in names], other.get(label, label)
    return ",".join(names), label
