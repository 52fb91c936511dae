"""labelwright tag: label a file or a stream.

What is read (Source) is asked (Tagging.answers) piece by piece, and written in the form that was
asked for: columns, n best labellings, entities of texts, JSON.
"""

import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli import options as usual
from labelwright.cli.files import (
    check_target,
    inputs_of,
    is_conllu,
    layer_names,
    load_model,
    refuse_inputs,
    rows_for,
)
from labelwright.cli.options import DATA, OUTPUT, POSITIVE, argument, changed, command, option
from labelwright.cli.show import say, warn
from labelwright.cli.tag_input import Source, ToTag, is_pattern, tokenizer_given, with_targets
from labelwright.cli.workers import DASK, SKIP_BAD, Aside, Progress, cluster_of
from labelwright.corpus.limits import max_input
from labelwright.errors import OptionError
from labelwright.settings import AtLeast, AtMost, Bounds, Choice, NotWith, Number
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.decode import Decoding
FREE = "_"  # in the column of known labels: the model may choose


@command(
    argument("model", "MODEL", "A model file that `labelwright train` wrote."),
    argument(
        "input",
        "INPUT",
        "Column files, .conllu, text (--text), folders; - is a stream.",
        None,
        several=True,
    ),
    usual.ALL_COLUMNS,
    usual.FORMAT,
    option("--text", "INPUT is plain text: write its entities, with places in characters.", DATA),
    *usual.SPLITTING,
    usual.ARRAYS,
    option(
        "--known COLUMN",
        "A column of known labels, or sets of them (A|B); _ where the model chooses.",
        DATA,
    ),
    usual.MAX_INPUT,
    *how.OPTIONS,
    option("-o --output OUT", "Where to write.", OUTPUT, default="-", shown="standard output"),
    option(
        "--probabilities",
        "One more column: the probability of each label, or the confidence in it.",
        OUTPUT,
    ),
    option(
        "--min-confidence P",
        (
            "Leave out entities less probable than P: their labels become O (or _, where labels "
            "make no chunks)."
        ),
        OUTPUT,
        Number(Bounds(AtLeast(0), AtMost(1))),
        not_with="nbest",
    ),
    usual.UNCALIBRATED,
    option(
        "--nbest N",
        "The N most probable labellings of each sentence, or those of highest score.",
        OUTPUT,
        POSITIVE,
    ),
    option(
        "--distinct LABEL",
        "--nbest: sum labellings that are the same without LABEL.",
        OUTPUT,
        only_with="nbest",
    ),
    option("--json", "One JSON object per sentence.", OUTPUT),
    option(
        "--to NAME",
        "Text: jsonl, brat, columns or words (segmented).",
        OUTPUT,
        Choice(("jsonl", "brat", "columns", "words")),
        not_with="json",
        shown="jsonl",
    ),
    usual.THREADS,
    changed(DASK, NotWith("verbose")),
    SKIP_BAD,
    option("-v --verbose", "At the end one line on stderr: how much is proven, largest gap."),
)
def tag_command(o: Any) -> None:
    """Label sentences: copies the input and adds a column with the predicted label (a cascade: one
    for each layer).

    \b
      labelwright tag model.crf test.txt -o tagged.txt
      labelwright tag model.crf < test.txt | less
      labelwright tag model.crf test.txt --columns word,pos,hint --known hint
      labelwright tag latent.crf test.txt --decoder ldi --n 1000 --verbose
      labelwright tag names.crf letters/ more.txt --text -o out/
      labelwright tag names.crf letter.txt --text --to brat -o letter.ann
      labelwright tag model.crf "in/*.xz" -o out/ --dask local:4

    File formats: `labelwright convert --help`. Calibrate a model before you rely on
    --min-confidence: `labelwright calibrate --help`. The documentation, in the folder docs of the
    source, shows what --json, --nbest and --probabilities write, and describes plain text and
    decoders.
    """
    format = text_format(o)
    if o.to is not None and format != "text":
        raise OptionError("--to: says what the entities of a text are written as; add --text")
    paths = with_targets(o.input or ["-"], o.output, format, o.to)
    for source, target in paths:
        if o.nbest is not None and (format == "conllu" or is_conllu(source)) and not o.json:
            raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")
        if target == o.output or os.path.isdir(o.output):  # else in a new folder
            check_target(target, [o.model])
        if format == "text":  # which would be lost
            refuse_inputs(target, [source])
    model = how.uncalibrated(load_model(o.model, o.n_jobs, attributes=True), o.uncalibrated)
    of_text = format == "text" and not o.json and o.to != "columns"
    if o.skip_bad is not None:
        check_target(o.skip_bad, [o.model, *map(itemgetter(0), paths)])
    job = Job(model, o, format, of_text)
    tagging, n = job.tagging(), len(paths)
    if any(map(is_pattern, o.input or ())):  # an interrupted run is resumed
        paths = [(path, target) for path, target in paths if not os.path.exists(target)]
        if len(paths) < n:
            say(f"{o.output}: {n - len(paths):,} of {counted(n, 'file')} are there and stay")
    aside = Aside(o.skip_bad, len(paths) < n)
    if o.dask is not None:
        _on_cluster(job, paths, aside)
        return
    how.show_progress(model, bool(o.input) and o.input != ["-"])
    tokenizer, rows = tokenizer_given(model.tokenizer(), o), rows_for(model, o.arrays)
    for path, target in paths:
        bad = None if o.skip_bad is None else list[Any]()
        _run(tagging, Source(path, format, o.columns, o.known, tokenizer, rows, bad), target, aside)
    warn(aside.told)
    tagging.report()


class Job(NamedTuple):
    """What is asked of every file."""

    model: Any
    o: Any
    format: str | None
    of_text: bool  # are entities written?

    def tagging(self) -> "Tagging":
        entities = EntityWriter(self.model, self.o.to or "jsonl") if self.of_text else None
        return Tagging(self.model, self.o, entities)


def _on_cluster(job: Job, paths: list[tuple[str, str]], aside: Aside) -> None:
    """Label files side by side, each written whole or not at all."""
    from labelwright.scale.cluster import Cluster, Shared
    from labelwright.storage import remove_abandoned

    o = job.o
    if "-" in (o.input or ["-"]) or o.output == "-" or o.arrays is not None:
        raise OptionError("--dask: labels files, without --arrays; name INPUT and -o DIR")
    if not paths:
        return
    absolute = [(os.path.abspath(path), os.path.abspath(target)) for path, target in paths]
    try:
        with cluster_of(o.dask, False) as client:
            job.model.n_jobs = o.n_jobs or 1  # of each piece of work
            done = Cluster(client, Progress(False, "file")).each(
                _tag_file, absolute, Shared(job), what="tagging"
            )
            for (_, target), (output, bad) in zip(absolute, done, strict=True):
                aside.add(bad)  # before the output appears
                if output != target:
                    os.replace(output, target)
    finally:  # what killed workers have left
        for part in Path(absolute[0][1]).parent.glob(".*.part"):
            remove_abandoned(part.with_name(part.name[1:-18]))
        for _, target in absolute:
            Path(target).with_name(f".part.{os.path.basename(target)}").unlink(missing_ok=True)
    warn(aside.told)


def _tag_file(paths: tuple[str, str], job: Job) -> tuple[str, list[Any]]:
    """Label a file; where the output is, beside its place with --skip-bad, and sentences that could
    not be read."""
    (path, output), o = paths, job.o
    bad = None if o.skip_bad is None else list[Any]()
    if bad is not None:
        output = os.path.join(os.path.dirname(output), f".part.{os.path.basename(output)}")
    source = Source(
        path, job.format, o.columns, o.known, tokenizer_given(job.model.tokenizer(), o), bad=bad
    )
    with nullcontext() if o.max_input is None else max_input(o.max_input):
        _run(job.tagging(), source, output)
    return output, bad or []


def text_format(o: Any) -> str | None:
    """The format of the input, with --text among its options."""
    if o.text and o.format not in (None, "text"):
        raise OptionError(
            f"--text: the input is plain text, but --format says {o.format}; leave one of both out"
        )
    return "text" if o.text else o.format


def _run(tagging: "Tagging", source: Source, output: str, aside: Aside | None = None) -> None:
    from labelwright.corpus.compressed import written

    pieces = source.pieces(tagging.model)
    pieces = chain(list(islice(pieces, 1)), pieces)  # what cannot be read leaves no folder behind
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with written(output) as write:
        for piece in pieces:
            write(tagging.written(piece, tagging.answers(piece)))
            del piece  # before the next one is read
        if aside is not None:  # before the output appears
            aside.add(source.bad or [])


# -- questions and answers -------------------------------------------------------------------------


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: "Decoding"
    spans: "list[Span]"
    nbest: list[tuple[list[str], float]]
    marginals: list[dict[str, float]]
    labels: list[str]  # that are shown: without entities that are not probable enough

    def chosen(self) -> list[float]:
        """The probability (or confidence) of each label that is shown; where none is (_), of the
        one left out."""
        pairs = zip(self.marginals, self.labels, self.decoding.labels, strict=True)
        return [row[shown if shown in row else predicted] for row, shown, predicted in pairs]


Answers = dict[str, list[Answer]]  # by output of the model [N]


class Tagging:
    """What is asked about every sentence; what the model has no answer to is refused before any is
    read."""

    def __init__(self, model: Any, o: Any, entities: "EntityWriter | None"):
        self.model, self.o, self.entities = model, o, entities
        self.choices = how.chosen(model, o)
        self.tallies = {name: how.Tally() for name in model._outputs} if o.verbose else {}
        self.unsummed = 0  # sentences whose probabilities under the rules are not known
        self._check()

    def _check(self) -> None:
        from labelwright.taggers.base import FORCED

        o, listed = self.o, self.o.nbest is not None and not self.o.json
        if o.nbest is not None and self.entities is not None:
            raise OptionError(
                "--nbest: entities have no place for several labellings; add --json or --to columns"
            )
        for name in ("min_confidence", "probabilities"):
            if name in o.given:
                how.check_sure(self.model, how.flag(name))
        if layer_names(self.model) and o.known is not None:
            raise OptionError("--known: not for a cascade, whose layers all find their own labels")
        if layer_names(self.model) and listed:
            raise OptionError("--nbest: a cascade has a list for each layer; add --json")
        for name, tagger in self.model._outputs.items():
            with how.of_layer(name):
                if o.known is not None and FORCED not in tagger.can:
                    raise OptionError(
                        f"--known: {tagger._lacks(FORCED)}: it chooses among proposals of its own"
                    )
        if not listed:
            return  # JSON has a place for both, what follows does not
        ((_, tagger),), ((_, choice),) = self.model._outputs.items(), self.choices.items()
        if not tagger._ranks(choice.decoder):
            decoder = f"{tagger._decoder_flag} {choice.decoder}"
            raise OptionError(
                f"--nbest: lists the best labellings as a whole, which {decoder} does not look for"
            )
        if "time_limit" in choice.options:
            raise OptionError(
                "--time-limit: does not apply to --nbest; use --max-expansions, or add --json"
            )
        if o.verbose:
            why = "sums up what a decoder proves, which --nbest does not use; add --json for both"
            raise OptionError(f"--verbose: {why}")

    def answers(self, piece: ToTag) -> Answers:
        corpus, forced, model, o = piece.corpus, None, self.model, self.o
        annotated = piece.split is not None and piece.write is not None and not o.json
        inputs: Any = piece.data.X if corpus is None else inputs_of(model, corpus)
        if o.nbest is not None and piece.write and not o.json:
            raise OptionError(
                "--nbest: this format has no place for several labellings; add --json"
            )
        if o.known is not None:
            forced = {
                name: _forced(piece.data, o.known, part.classes_)
                for name, part in model._outputs.items()
            }
        ruled = {name: choice.under_rules(inputs) for name, choice in self.choices.items()}

        def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
            return self._asked(tagger, ruled[name](batch), self.choices[name], annotated)

        try:
            answers: Answers = model._ask_outputs(
                inputs, question, forced, how.schemes_of(self.choices)
            )
        except OptionError as error:
            name, _, rest = str(error).partition(": ")
            if name != "forced":
                raise
            raise OptionError(f"--known: {piece.data.source}: {rest}") from None
        for name, rows in answers.items():
            if name in self.tallies:
                self.tallies[name].add([answer.decoding for answer in rows])
            if (
                self.choices[name].rules
                and model._outputs[name]._is_sure
                and (o.json or self.entities is not None)
            ):
                self.unsummed += sum(map(self._lacks_probability, rows))
        return answers

    def _lacks_probability(self, answer: Answer) -> bool:
        """Whether a probability that is shown without being asked for is not known."""
        lacks = (
            self.o.json
            and answer.decoding.log_probability is None
            and answer.decoding.confidence is None
        )
        return lacks or any(span.probability is None for span in answer.spans)

    def _asked(
        self, tagger: Any, batch: "Batch", choice: how.Choice, annotated: bool
    ) -> list[Answer]:
        """All answers about sentences that are scored once."""
        o, nothing = self.o, [[]] * len(batch)  # type: tuple[Any, list[Any]]
        decodings: list[Any] = [None] * len(batch)
        if o.nbest is None or o.json:
            decodings = batch.decode(
                choice.decoder, probabilities=o.json or o.verbose, **choice.options
            )
        nbest: Sequence[Any] = nothing
        if o.nbest is not None:
            nbest = batch.nbest(o.nbest, choice.options.get("max_expansions"), o.distinct)
        marginals = batch.sure.marginals() if o.probabilities else nothing
        labels = [[] if each is None else each.labels for each in decodings]
        of_texts, spans = self.entities is not None or annotated, nothing
        if o.min_confidence is not None:
            shown = batch.confident(labels, o.min_confidence, tagger.scheme_)
            labels = [row for row, _ in shown]
            if of_texts or tagger.scheme_ is not None:  # without, no spans in JSON
                spans = [entities for _, entities in shown]
        elif of_texts:
            spans = batch.entities(labels)
        elif o.json:
            spans = batch.sure.spans(labels)
        return [
            Answer(*parts) for parts in zip(decodings, spans, nbest, marginals, labels, strict=True)
        ]

    def report(self) -> None:
        """What is worth knowing at the end."""
        if self.unsummed:
            why = (
                "the rules leave too many possibilities there; give fewer rules, or name fewer "
                "labels in them"
            )
            warn(f"{counted(self.unsummed, 'sentence')} without probabilities: {why}")
        for name, tally in self.tallies.items():
            say(f"{name}: {tally}" if name else str(tally))

    # -- writing -----------------------------------------------------------------------------------

    def written(self, piece: ToTag, answers: Answers) -> bytes:
        """The answers about one piece in the form that was asked for."""
        if self.o.json:
            lines = (
                json.dumps(fact, ensure_ascii=False) for fact in self._json_facts(piece, answers)
            )
            return b"".join(line.encode("utf-8", "backslashreplace") + b"\n" for line in lines)
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        if self.entities is not None:
            return self.entities.written(piece, spans[self.entities.output])
        if self.o.nbest is not None:
            return self._nbest_lines(piece.data, answers)
        if piece.split is not None and piece.write is not None:
            return piece.write({name: [piece.split.entities(rows)] for name, rows in spans.items()})
        return self._labels(piece, answers)

    def _labels(self, piece: ToTag, answers: Answers) -> bytes:
        """The input with the labels of all outputs at the end; in CoNLL-U each takes the place of
        its column."""
        from labelwright.corpus import CONLLU_NAMES, write_columns

        added: dict[str, list[Any]] = {}
        for name, rows in answers.items():
            added[name] = [[answer.labels for answer in rows]]
            if self.o.probabilities:
                added[name].append([[f"{p:.4f}" for p in answer.chosen()] for answer in rows])
        if piece.write is not None:
            return piece.write(added)
        if tuple(piece.data.names) == CONLLU_NAMES:
            return _conllu(piece.data, added)
        out = io.BytesIO()
        write_columns(
            piece.data, out, extra=[column for columns in added.values() for column in columns]
        )
        return out.getvalue()

    def _nbest_lines(self, corpus: "Corpus", answers: Answers) -> bytes:
        """Every labelling as a sentence of its own, after a line with its rank and its probability
        or score; labels that would be read back differently are refused."""
        from labelwright.corpus.columns import separator_for
        from labelwright.corpus.labels import check_column, check_written

        ((name, rows),) = answers.items()
        columns, raw = [*map(corpus.tokens, corpus.names)], corpus.raw
        all_labels = [label for answer in rows for labels, _ in answer.nbest for label in labels]
        separator = (
            raw.separator.decode() if raw is not None else separator_for([*columns, all_labels])
        )
        for column in columns if raw is None else ():
            check_column(column, corpus.offsets, corpus.source, separator, is_label=False)
        check_written(all_labels, corpus.source, separator)
        tokens = [separator.join(row) for row in zip(*columns, strict=True)]
        form = ".4g" if self.model._outputs[name]._probabilistic else ".4f"
        begin, lines = 0, list[str]()
        for n, answer in enumerate(rows):
            for rank, (labels, value) in enumerate(answer.nbest, 1):
                lines.append(f"# nbest {rank} {value:{form}}")
                for t, label in enumerate(labels):
                    sure = (
                        f"{separator}{answer.marginals[t][label]:.4f}"
                        if self.o.probabilities
                        else ""
                    )
                    lines.append(f"{tokens[begin + t]}{separator}{label}{sure}")
                lines.append("")
            begin += int(corpus.offsets[n + 1] - corpus.offsets[n])
        return "".join(f"{line}\n" for line in lines).encode()

    def _json_facts(self, piece: ToTag, answers: Answers) -> Iterator[dict[str, Any]]:
        """One object for each sentence; the outputs of a cascade by layer; of plain text the places
        of tokens, too."""
        sentences: Sequence[list[str] | None] = [None] * len(next(iter(answers.values())))
        if piece.corpus is not None:
            inputs = inputs_of(self.model, piece.corpus)
            sentences = inputs.column(inputs.names[0])
        places: Sequence[Any] = [None] * len(sentences)
        # those of several texts would not say of which text
        if piece.split is not None and piece.write is None:
            places = [
                [[piece.begin + a, piece.begin + b] for a, b in tokens]
                for tokens in piece.split.places
            ]
        for n, (words, offsets) in enumerate(zip(sentences, places, strict=True)):
            facts = {name: self._facts(name, words, rows[n]) for name, rows in answers.items()}
            fact = {} if words is None else {"tokens": words}
            fact |= {} if offsets is None else {"offsets": offsets}
            yield fact | ({"layers": facts} if layer_names(self.model) else facts[""])

    def _facts(self, name: str, words: list[str] | None, answer: Answer) -> dict[str, Any]:
        """What is to be said about a sentence: how good its labelling is, by its probability, or by
        its score and, from a calibrated model, the confidence in it; and counters where the decoder
        keeps them."""
        from labelwright.corpus.tokenizer import joined_text

        tagger, decoding, log_p = (
            self.model._outputs[name],
            answer.decoding,
            answer.decoding.log_probability,
        )
        value, sure, values = ("probability", "probability", "probabilities")
        worth = None if log_p is None else math.exp(log_p)
        if not tagger._probabilistic:
            value, sure, values, worth = "score", "confidence", "confidences", decoding.score
        fact: dict[str, Any] = {"labels": answer.labels, value: _rounded(worth)}
        if tagger._is_sure and not tagger._probabilistic:
            fact["confidence"] = _rounded(decoding.confidence)
        fact |= {"exact": decoding.exact, "gap": decoding.gap}
        counters = {key: getattr(decoding, key) for key in how.COUNTERS}
        fact |= {key: n for key, n in counters.items() if n is not None}
        fact |= (
            {}
            if decoding.status is None
            else {"status": decoding.status, "method": decoding.method}
        )
        fact["spans"] = []
        for span in answer.spans:
            shown: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.type}
            shown |= {sure: _rounded(span.probability)} if tagger._is_sure else {}
            fact["spans"].append(
                shown
                | ({} if words is None else {"text": joined_text(words[span.start : span.end])})
            )
        if self.o.probabilities:
            fact[values] = [round(p, 6) for p in answer.chosen()]
        if self.o.nbest is not None:
            fact["nbest"] = [{"labels": row, value: round(p, 6)} for row, p in answer.nbest]
        return fact


def _forced(corpus: "Corpus", known: str, labels: Sequence[str]) -> list[list[Any]]:
    """What a column says of labels: a label, a set of labels, or None where the model may
    choose."""
    from labelwright.corpus.partial_labels import sets_among

    values = corpus.values(known)
    members = sets_among(values, frozenset(labels))
    says = {
        v: v if found is None else found or None for v, found in zip(values, members, strict=True)
    } | {FREE: None}
    return [[says[label] for label in sentence] for sentence in corpus.column(known)]


def _rounded(p: float | None) -> float | None:
    """A number for JSON; null where rules leave too many labellings for sums."""
    return None if p is None else round(float(p), 6)


def _conllu(corpus: "Corpus", added: dict[str, list[Any]]) -> bytes:
    from labelwright.corpus import CONLLU_NAMES, read_conllu, write_conllu

    assert corpus.raw is not None
    text = corpus.raw.text
    for name, columns in added.items():
        if len(columns) > 1:
            raise OptionError(
                f"--probabilities: {corpus.source}: CoNLL-U has no column for them; add --json"
            )
        if name and name not in CONLLU_NAMES:
            raise OptionError(
                f"{corpus.source}: CoNLL-U has no column for the layer {name}; add --json"
            )
        piece = io.BytesIO()
        source = read_conllu(io.BytesIO(text), label=name) if name else corpus
        write_conllu(source, piece, extra=columns)
        text = piece.getvalue()
    return text


class EntityWriter:
    """Writes the entities of a text, piece after piece."""

    def __init__(self, model: Any, target: str):
        name, self._tagger = list(model._outputs.items())[-1]
        self.output, self._target = name, target  # of a cascade the highest layer
        self._n = 0  # entities so far

    def written(self, piece: ToTag, spans: Sequence[Sequence["Span"]]) -> bytes:
        """The entities that the spans of a piece are."""
        from labelwright.corpus.annotations import brat_lines
        from labelwright.corpus.labels import check_written
        from labelwright.corpus.token_records import dumped

        assert piece.split is not None
        if self._target == "words":
            return "".join(
                f"{' '.join(row)}\n" for row in piece.split.segmented(spans) if row
            ).encode()
        entities = [
            entity for of_text in piece.split.entities(spans, piece.begin) for entity in of_text
        ]
        first = self._n + 1 if piece.begin else 1  # of this text
        self._n = first - 1 + len(entities)
        if self._target == "brat":
            check_written((entity.type for entity in entities), piece.data.source)
            return brat_lines(entities, first).encode()
        sure, lines = "probability" if self._tagger._probabilistic else "confidence", []
        for shown in (entity._asdict() for entity in entities):
            probability = shown.pop("probability")
            lines.append(
                dumped(shown | ({} if probability is None else {sure: _rounded(probability)}))
                + b"\n"
            )
        return b"".join(lines)
