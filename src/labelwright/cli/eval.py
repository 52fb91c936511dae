"""labelwright eval, errors, report and compare: scores of predictions, or of a model on a test
file; what goes wrong in them; all of it as a page; and whether one of two is better."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli import files
from labelwright.cli import options as usual
from labelwright.cli.options import DATA, NOT_NEGATIVE, OUTPUT, SCORING, argument, command, option
from labelwright.cli.plots import check_plot, draw_calibration
from labelwright.cli.show import BLOCKS, report, report_outputs, say, warn
from labelwright.errors import OptionError
from labelwright.settings import Whole
from labelwright.wording import counted, plain

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.cli.files import Data
    from labelwright.evaluate import (
        CalibrationReport,
        ConfusionMatrix,
        DocumentScore,
        ErrorAnalysis,
        PartialScore,
        Report,
    )

# -- labelwright eval ------------------------------------------------------------------------------

# options that need a model
OF_MODELS = ("oracle", "verbose", "calibration", "uncalibrated", "arrays")


class Scored(NamedTuple):
    """The scores of one output of a model."""

    report: "Report"
    # how, and how much is proven; None where a file has the predictions
    decoding: dict[str, Any] | None = None
    tally: how.Tally | None = None
    calibration: "CalibrationReport | None" = None
    oracle: "Report | None" = None
    errors: "ErrorAnalysis | None" = None
    partial: "dict[str, PartialScore] | None" = None
    confusion: "ConfusionMatrix | None" = None
    documents: "list[DocumentScore] | None" = None

    def as_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.report.as_dict()
        facts |= {} if self.decoding is None else {"decoding": self.decoding}
        parts = {
            name: getattr(self, name) for name in ("calibration", "oracle", "errors", "confusion")
        }
        facts |= {name: part.as_dict() for name, part in parts.items() if part is not None}
        tables = {name: getattr(self, name) for name in ("partial", "documents")}
        return facts | {name: plain(table) for name, table in tables.items() if table is not None}

    def lines(self) -> Iterator[str]:
        yield str(self.report)
        searched = None if self.tally is None else self.tally.of_search()
        if searched is not None:
            yield searched
        if self.oracle is not None:
            shown = {"f1": self.oracle.f1, "token accuracy": self.oracle.token_accuracy}
            listed = ", ".join(
                f"{name} {100 * value:.2f}" for name, value in shown.items() if value is not None
            )
            yield f"oracle: {listed} (the true label wherever it is a candidate)"
        from labelwright.evaluate.matches import document_lines, partial_lines

        for table in (partial_lines(self.partial or {}), document_lines(self.documents or [])):
            yield from ["", *table] if table[1:] else []
        for part in (self.confusion, self.calibration, self.errors):
            yield from [] if part is None else ["", str(part)]


class Tested(NamedTuple):
    """Predictions that were scored, and what made them."""

    scores: dict[str, Scored]
    test: "Data"
    inputs: Any  # the sentences, as the model reads them
    model: Any = None  # None where a file has the predictions

    def documents(self) -> Any:
        """Where the documents of the test file begin."""
        documents = getattr(self.test, "documents", ())
        if not len(documents):
            raise OptionError(
                "--documents: the test file marks none (-DOCSTART- lines, or # newdoc in CoNLL-U)"
            )
        return documents

    def errors(self, train: Any = None) -> "dict[str, ErrorAnalysis]":
        """The errors of every output; `train` are sentences whose tokens are no longer unseen."""
        more: Any = {"model": self.model, "train": train}
        return {
            name: each.report.errors(self.inputs, layer=name, **more)
            for name, each in self.scores.items()
        }


@command(
    argument("gold", "GOLD|MODEL", "The true labels, or a model file."),
    argument("predicted", "PREDICTED|TEST", "Predictions, or the true labels."),
    *usual.LABELLED,
    usual.ARRAYS,
    usual.MAX_INPUT,
    *usual.STRICT,
    option(
        "--oracle",
        "Memory-based models: also the best choice among the candidates of each token.",
        SCORING,
    ),
    option("--errors", "Also what goes wrong, as labelwright errors shows it.", SCORING),
    option(
        "--partial", "Also scores of partial matches: boundaries alone, overlap, type.", SCORING
    ),
    option("--confusion", "Also the confusion matrix of types or labels.", SCORING),
    option("--documents", "Also the scores of every document.", SCORING),
    option(
        "--calibration",
        "How far probabilities can be trusted: reliability, calibration error, precision.",
        SCORING,
    ),
    *how.OPTIONS,
    option(
        "--plot FILE.png",
        "Draw the reliability diagram and the precision.",
        OUTPUT,
        only_with="calibration",
    ),
    usual.UNCALIBRATED,
    usual.JSON,
    usual.THREADS,
    option("-v --verbose", "With a model: one line on stderr, how much is proven."),
)
def eval_command(o: Any) -> None:
    """Score predictions: precision, recall and F1 of chunks, accuracy of tokens and sentences.

    \b
      labelwright eval gold.txt tagged.txt     compare the last columns
      labelwright eval model.crf test.txt      tag and score in one step
      labelwright eval model.crf test.txt --calibration --plot reliability.png
      labelwright eval gold.txt tagged.txt --partial --confusion --documents

    Decoding is for models, as in `labelwright tag`; --json then adds "decoding": how many sentences
    are proven exact, the largest gap and the seconds that it took; with --decoder ldi also the mean
    number of latent paths and labellings that were met and their mean probability, which are shown
    without --json, too.

    Labels that are not B-X, I-X, O, ... are scored one by one.  The last line is a signature: how
    the score was made.

    A cascade is scored layer by layer on a file with the labels of all layers; JSON is {"layers":
    {NAME: scores}}.
    """
    if o.plot is not None:
        check_plot(o.plot, [o.gold, o.predicted])
    tested = scored_on(o)
    scores = tested.scores
    if o.verbose:
        for name, scored in scores.items():
            say(f"{name}: {scored.tally}" if name else str(scored.tally))
    for name, analysis in tested.errors().items() if o.errors else ():
        scores[name] = scores[name]._replace(errors=analysis)
    for name, (facts, *_) in scores.items():
        scores[name] = scores[name]._replace(
            partial=facts.partial()
            if o.partial and (facts.chunks is not None or len(scores) == 1)
            else None,
            confusion=facts.confusion() if o.confusion else None,
            documents=facts.by_document(tested.documents()) if o.documents else None,
        )
    if o.plot is not None:
        draw_calibration(
            {name: each.calibration for name, each in scores.items() if each.calibration}, o.plot
        )
    report_outputs(
        {name: each.as_dict() if o.json else each for name, each in scores.items()},
        o.json,
        Scored.lines,
    )


def scored_on(o: Any, calibration: bool = False) -> Tested:
    """Score a model on a test file, or predictions; in either order.

    calibration : judge probabilities, where the model has any"""
    from labelwright.inspection.warnings import trained_on
    from labelwright.taggers.base import ORACLE

    if not files.is_model(o.gold) and not files.is_model(o.predicted):
        for name in o.given:
            if name in (*how.NAMES, *OF_MODELS):
                raise OptionError(
                    f"{how.flag(name)}: only with a model, as in: labelwright eval MODEL TEST"
                )
        truth = files.read_labelled(o.gold, o.columns, o.label, options=files.file_options(o))
        return Tested(
            {"": Scored(_evaluated(truth, "", files.predicted_labels(o.predicted, truth), o))},
            truth,
            truth,
        )
    model_path, gold_path = (
        (o.gold, o.predicted) if files.is_model(o.gold) else (o.predicted, o.gold)
    )
    model = files.load_model(model_path, o.n_jobs, attributes=True)
    model = how.uncalibrated(model, "uncalibrated" in o.given)
    choices = how.chosen(model, o)
    for name, tagger in model._outputs.items() if "oracle" in o.given else ():
        with how.of_layer(name):
            if ORACLE not in tagger.can:
                raise OptionError(
                    "--oracle: only for memory-based models, which choose among proposals"
                )
    if "calibration" in o.given:
        how.check_sure(model, "--calibration")
        calibration = True
    rows = files.rows_for(model, o.arrays)
    data = files.gold_for(
        model, gold_path, o.columns, o.label, files.file_options(o, model.tokenizer())
    )
    data = data if rows is None else rows.beside(data)
    if not files.has_attributes(data):
        how.warn_about(model, data, scored=True)
        warn(trained_on(model.training_.get("seen", ""), data))
    how.show_progress(model, True)
    inputs = files.inputs_for(model, data)
    return Tested(_scores(model, data, inputs, choices, o, calibration), data, inputs, model)


def _scores(
    model: Any,
    test: "Data",
    inputs: Any,
    choices: Mapping[str, how.Choice],
    o: Any,
    calibration: bool,
) -> dict[str, Scored]:
    from labelwright.evaluate.calibration import judged, measure_of, reliability

    proofs = "verbose" in o.given or getattr(o, "json", False)
    data = model.encode(inputs) if "oracle" in o.given else inputs  # asked twice
    ruled = {name: choice.under_rules(inputs) for name, choice in choices.items()}
    tallies = {name: how.Tally() for name in choices}

    def question(name: str, tagger: Any, batch: "Batch") -> list[Any]:
        choice, batch = choices[name], ruled[name](batch)
        decodings = batch.decode(choice.decoder, probabilities=proofs, **choice.options)
        entities: list[Any] = [None] * len(batch)
        if calibration and tagger._is_sure:
            batch.sure.check_possible()
            entities = batch.entities([decoding.labels for decoding in decodings])
        return list(zip(decodings, entities, strict=True))

    answers = model._ask_outputs(data, question, None, how.schemes_of(choices))
    scores = {}
    for name, tagger in model._outputs.items():
        decodings, tally, choice = (
            [decoding for decoding, _ in answers[name]],
            tallies[name],
            choices[name],
        )
        tally.add(decodings)
        word, gold = tagger._decoder_flag.removeprefix("--"), files.gold_of(test, name)
        described: dict[str, Any] = {word: choice.decoder} | (
            {"options": choice.options} if word == "decoder" else {}
        )
        scored = _evaluated(test, name, [each.labels for each in decodings], o, tagger)
        trust = best = None
        if calibration and tagger._is_sure:
            entities = judged([each for _, each in answers[name]], gold, tagger.classes_)
            trust = reliability(entities, measure=measure_of(tagger))
        if "oracle" in o.given:
            best = _evaluated(test, name, tagger.predict_oracle(data, gold), o, tagger)
        scores[name] = Scored(scored, described | tally.as_dict(), tally, trust, best)
    return scores


def _evaluated(
    test: "Data", name: str, labels: list[list[str]], o: Any, tagger: Any = None
) -> "Report":
    """The scores of labels; a layer without chunks has no strict reading."""
    from labelwright.corpus.partial_labels import check_known
    from labelwright.evaluate import evaluate

    gold, source = files.gold_of(test, name), getattr(test, "source", "gold")
    check_known(gold, f"{source}: column {name}" if name else source)
    strict = o.strict and not (name and tagger.scheme_ is None)
    scheme = o.scheme if strict or not name else None
    return evaluate(gold, labels, reading="strict" if strict else "conlleval", scheme=scheme)


# -- labelwright errors ----------------------------------------------------------------------------

CHOICE = "Which examples"
TESTED = (  # what errors and report look at
    argument("gold", "MODEL|GOLD", "A model file, or the true labels."),
    argument("predicted", "TEST|PREDICTED", "The true labels, or predictions."),
    *usual.LABELLED,
    usual.ARRAYS,
    option(
        "--train FILE",
        "Training data: tokens not in them are unseen.",
        DATA,
        shown="what the model knows",
    ),
    usual.MAX_INPUT,
    *usual.STRICT,
)


@command(
    *TESTED,
    option(
        "--kind NAMES",
        "missed, invented, type, boundary, type+boundary; several by commas.",
        CHOICE,
    ),
    option("--type NAMES", "Errors that concern these types or labels.", CHOICE),
    option("--search TEXT", "Errors whose phrase has this text.", CHOICE, default=""),
    option("--examples N", "Examples to show.", CHOICE, NOT_NEGATIVE, 10),
    *how.OPTIONS,
    option("--top N", "Rows of each table.", OUTPUT, NOT_NEGATIVE, 10),
    usual.JSON,
    option("--html FILE", "Write a page to look through all errors in a browser.", OUTPUT),
    usual.THREADS,
)
def errors_command(o: Any) -> None:
    """See what goes wrong: kinds of errors, confused types, phrases that are missed or invented,
    unseen tokens, and examples with the probability of the gold and of the predicted label.

    \b
      labelwright errors model.crf test.txt
      labelwright errors model.crf test.txt --html errors.html
      labelwright errors model.crf test.txt --kind type --type ORG --examples 50
      labelwright errors gold.txt tagged.txt --train train.txt

    Probabilities need a model that has them; unseen tokens need a model that knows its words, or
    --train.
    """
    from labelwright.evaluate.error_views import page, text_of

    if o.html is not None:
        files.check_target(o.html, [o.gold, o.predicted, o.train])
    options = files.file_options(o)
    train = (
        None
        if o.train is None
        else files.read_labelled(o.train, o.columns, o.label, options=options)
    )
    analyses = scored_on(o).errors(train)
    kinds, types = files.split_names(o.kind), files.split_names(o.type)
    for flag, names, field in (("--kind", kinds, "kinds"), ("--type", types, "per_type")):
        known = list(
            dict.fromkeys(name for each in analyses.values() for name in getattr(each, field))
        )
        unknown = [name for name in names if name not in known]
        if unknown:
            raise OptionError(f"{flag}: no {unknown[0]!r} here, expected one of {', '.join(known)}")
    chosen = {
        name: _chosen(analysis, kinds, types, o.search) for name, analysis in analyses.items()
    }
    if o.html is not None:
        n_errors = counted(sum(len(each["errors"]) for each in chosen.values()), "error")
        files.write_page(
            o.html,
            page(chosen, f"Errors: {o.gold}, {o.predicted}"),
            f"{n_errors}; open it in a browser",
        )
    if o.json or o.html is None:
        report_outputs(chosen, o.json, lambda facts: text_of(facts, o.top, o.examples))


def _chosen(
    analysis: "ErrorAnalysis", kinds: list[str], types: list[str], search: str
) -> dict[str, Any]:
    """The analysis as a dict, with the chosen errors alone; its counts are those of all errors."""
    here = (
        [kind for kind in kinds if kind in analysis.kinds],
        [name for name in types if name in analysis.per_type],
    )
    # another layer of the cascade has them
    none = (kinds and not here[0]) or (types and not here[1])
    errors = [] if none else analysis.select(*here, search)
    return analysis.as_dict() | {"errors": replace(analysis, errors=errors).as_dict()["errors"]}


# -- labelwright report ----------------------------------------------------------------------------

EXPLAINED = 8  # sentences


@command(
    *TESTED,
    *how.OPTIONS,
    option("-o --output FILE", "The page to write; - is standard output.", OUTPUT, default="-"),
    option(
        "--top N", "Features, words, transitions of each label or state.", OUTPUT, NOT_NEGATIVE, 8
    ),
    usual.UNCALIBRATED,
    usual.THREADS,
)
def report_command(o: Any) -> None:
    """Write a page about a model: scores with 95 % intervals, a confusion matrix, errors to look
    through, calibration, explanations of errors, the training, weights, latent states.

    \b
      labelwright report model.crf test.txt -o report.html
      labelwright report gold.txt tagged.txt -o report.html

    The page is one file that loads nothing from outside. What a model does not have is left out: of
    two files of labels there are scores and errors alone. The text of TEST is in the page.
    """
    from labelwright.inspection.report_page import report_page

    files.check_target(o.output, [o.gold, o.predicted, o.train])
    train = (
        None
        if o.train is None
        else files.read_labelled(o.train, o.columns, o.label, options=files.file_options(o))
    )
    tested = scored_on(o, calibration=True)
    analyses = tested.errors(train)
    outputs = {name: _of_output(tested, name, analyses[name], o.top) for name in tested.scores}
    about = [f"{o.gold}, {o.predicted}"]
    if tested.model is not None:
        how.show_progress(tested.model, False)  # not one of its settings
        about = [str(tested.model), *about]
    facts = {"title": f"Report: {Path(o.gold).name}", "about": about, "outputs": outputs}
    score = ", ".join(
        f"{name} {100 * each.report.score:.2f}".lstrip() for name, each in tested.scores.items()
    )
    files.write_page(o.output, report_page(facts), f"{score}; open it in a browser")


def _of_output(tested: Tested, name: str, analysis: "ErrorAnalysis", top: int) -> dict[str, Any]:
    """All that the page of a report shows of one output."""
    from labelwright.cli.inspect import described_rows
    from labelwright.corpus.table import Corpus
    from labelwright.evaluate.counts import count_system
    from labelwright.evaluate.error_views import striking
    from labelwright.evaluate.significance import intervals
    from labelwright.inspection.explanation import sentence_facts
    from labelwright.taggers.base import EXPLANATION

    scored, model, inputs = tested.scores[name], tested.model, tested.inputs
    assert scored.report.labels is not None
    facts: dict[str, Any] = {
        "errors": analysis.as_dict(),
        "intervals": intervals(count_system(*scored.report.labels, 1)),
    }
    facts["scores"] = scored.report.as_dict()
    if model is None:
        return facts
    tagger, is_lowest = model._outputs[name], name == next(iter(model._outputs))
    facts["model"] = tagger.describe(top)
    rows = described_rows(facts["model"], tagger._trains_in)
    # curves are drawn
    facts["rows"] = [(title, value) for title, value in rows if not set(value) & set(BLOCKS)]
    if scored.calibration is not None:
        facts["calibration"] = scored.calibration.as_dict()
    if not isinstance(inputs, Corpus):  # attributes have no words
        return facts
    # upper layers read the labels below them, too
    if is_lowest and facts["model"]["view"] == "linear":
        facts["model"] |= tagger._describe_use([model._input(inputs) if name else inputs], top)
    else:
        facts["model"].pop("latent", None)
    if EXPLANATION in tagger.can:
        numbers, column = striking(facts["errors"], EXPLAINED), name or tested.test.label
        gold, facts["sentences"] = (
            files.gold_labels(tagger, tested.test, column, inputs.offsets, numbers),
            [],
        )
        for n in numbers:
            sentence = sentence_facts(model, inputs, n, gold={name: gold[n]})
            wrong = [token for token in sentence["layers"][name] if token["wrong"]]
            facts["sentences"].append(sentence | {"layers": {"": wrong}})
    return facts


# -- labelwright compare ---------------------------------------------------------------------------


@command(
    argument("gold", "GOLD", "The true labels."),
    argument("a", "A", "One prediction: a file that `tag` wrote, or a model."),
    argument("b", "B", "The other."),
    usual.COLUMNS,
    usual.LABEL,
    usual.MAX_INPUT,
    *usual.STRICT,
    option("--samples N", "Samples of the bootstrap.", SCORING, Whole(), 10_000),
    option("--seed N", "Seed of the bootstrap.", SCORING, NOT_NEGATIVE, 0, name="random_state"),
    usual.JSON,
    usual.THREADS,
)
def compare_command(o: Any) -> None:
    """Compare two predictions of the same sentences: scores, McNemar's test and a paired
    bootstrap."""
    from labelwright.corpus.file_formats import TEXTS, opened
    from labelwright.evaluate import compare

    paths = list(dict.fromkeys((o.a, o.b)))
    models = {path: files.load_model(path, o.n_jobs) for path in paths if files.is_model(path)}
    for path, model in models.items():
        if files.layer_names(model):
            raise OptionError(
                f"{path}: a cascade gives labels for each layer, and this command compares one; "
                f"tag first, as in: labelwright tag {path} {o.gold} -o tagged.txt"
            )
    file = opened(o.gold, None, named=o.columns is not None or o.label is not None)
    tokenizers = (
        {model.tokenizer(): path for path, model in models.items()} if file.format in TEXTS else {}
    )
    if len(tokenizers) > 1:  # texts are split as the models split them
        both = " and ".join(tokenizers.values())
        raise OptionError(f"{both} split texts differently; tag with both, and compare the files")
    options = files.file_options(o, next(iter(tokenizers), None))
    truth = files.read_labelled(file, o.columns, o.label, options=options)
    predicted = {
        path: files.predicted_by(models[path], truth)[""]
        if path in models
        else files.predicted_labels(path, truth)
        for path in paths
    }
    names = (Path(o.a).name, Path(o.b).name) if Path(o.a).name != Path(o.b).name else (o.a, o.b)
    comparison = compare(
        truth.y,
        predicted[o.a],
        predicted[o.b],
        reading="strict" if o.strict else "conlleval",
        scheme=o.scheme,
        samples=o.samples,
        random_state=o.random_state,
        names=("a", "b") if o.a == o.b else names,
    )
    report(comparison.as_dict(), o.json, lambda _: [str(comparison)])
