"""labelwright demo: the main job on built-in data, explained; labelwright reproduce: the
experiments of the papers."""

import io
import os
import shlex
import time
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labelwright import signals
from labelwright.cli.options import OTHER, OUTPUT, POSITIVE, argument, command, option
from labelwright.cli.show import Heading, say, show
from labelwright.errors import OptionError
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

# -- labelwright demo ------------------------------------------------------------------------------

# The ambiguity that Sun, Matsuzaki, Okanohara and Tsujii (2009) open with; only words, so that no
# tag gives it away.
GIVEN = ["He", "gave", "her", "flowers", "."]
SEEN = ["He", "saw", "her", "brother", "."]
FILES = {
    "train.txt": slice(0, 35),
    "dev.txt": slice(35, 45),
    "test.txt": slice(45, 55),
    "new.txt": slice(55, 60),
}
# written and labelled by hand, for the tutorial
TEXTS = ("lives.jsonl", "lives-dev.jsonl", "lives-new.txt")
WRITE = (
    f"Only write the files of the docs: {', '.join(FILES)} (columns word, pos, chunk) and "
    f"{', '.join(TEXTS)} (short texts with names)."
)


@command(option("--quick", "Fewer sentences, less accurate."), option("--write DIR", WRITE))
def demo_command(o: Any) -> None:
    """Train a chunker on built-in sentences, score it, and label two sentences with their
    probabilities."""
    from labelwright.corpus import builtin_corpus

    if o.write is not None:
        _write(builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"]), Path(o.write))
        return
    corpus = builtin_corpus(1500 if o.quick else 3000, random_state=0, columns=["word", "chunk"])
    train, test = corpus.split(0.8, random_state=0)
    show(
        Heading(
            "1. The data: one word per line with its label (B- begins a chunk, I- continues it, O "
            "is outside)"
        )
    )
    show("", *(f"    {word:<14}{label}" for word, label in _example(test)))
    show(f"\n   {len(train):,} such sentences for training, {len(test):,} others for testing.\n")
    show(Heading("2. Training a conditional random field (CRF)"))
    model = _train(train, test)
    show(
        Heading(
            "3. How good is it?  Scores in percent on sentences that were not used for training"
        )
    )
    show("", *_scores(model, test))
    show(Heading("4. How does it label a sentence, and where is it uncertain?"))
    show(
        '\n   "her" can be a phrase of its own ("gave her flowers") or begin a longer one ("saw '
        'her brother").'
    )
    for words in (GIVEN, SEEN):
        show(*_explained(model, words))
    show(
        Heading(
            "5. The same with files: your own, or small ones to try it (labelwright demo --write .)"
        )
    )
    show(OWN_FILES)


OWN_FILES = """
   labelwright train train.txt -o model.crf --columns word,pos,chunk --dev dev.txt
   labelwright tag model.crf new.txt -o tagged.txt\
               copies new.txt and adds the predicted label
   labelwright tag model.crf new.txt --nbest 3 --probabilities\
   shows where it is uncertain (--json for programs)
   labelwright eval model.crf test.txt                           the table above
   labelwright inspect model.crf                                 what it has learnt

   In Python: from labelwright import CRF, read_columns
              model = CRF().fit(read_columns("train.txt"))
              model.predict_spans(read_columns("new.txt"))"""


def _write(corpus: "Corpus", folder: Path) -> None:
    """Write the files of the docs; none in the place of one that holds something else."""
    from labelwright.corpus import write_columns

    contents = {name: (files("labelwright.corpus") / name).read_bytes() for name in TEXTS}
    for name, part in FILES.items():
        columns = io.BytesIO()
        write_columns(corpus.take(part), columns)
        contents[name] = columns.getvalue()
    for name, content in contents.items():
        if (folder / name).exists() and (folder / name).read_bytes() != content:
            raise OptionError(
                f"{folder / name}: is there already, with other content; name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    parts = [f"{name} ({part.stop - part.start} sentences)" for name, part in FILES.items()]
    parts += [f"{name} ({len(contents[name].splitlines())} texts)" for name in TEXTS]
    show(f"{folder}: {', '.join(parts)}")


def _example(corpus: "Corpus") -> list[tuple[str, str]]:
    """The words and labels of a short sentence in which `her` belongs to what follows."""
    rows = [list(zip(*pair, strict=True)) for pair in zip(corpus.X, corpus.y, strict=True)]
    fit = (
        row
        for row in rows
        if len(row) < 9 and any(a[0] == "her" and b[1] == "I-NP" for a, b in pairwise(row))
    )
    return next(fit, rows[0])


def _train(train: "Corpus", test: "Corpus") -> Any:
    """Train, with a line of progress."""
    from labelwright import CRF
    from labelwright.learn.monitor import ProgressBar

    begun = time.perf_counter()
    bar = ProgressBar()
    try:
        model = CRF(constraints="scheme").fit(train, progress=bar)
    finally:
        bar.close()
    seconds, record = time.perf_counter() - begun, model.training_
    weights, iterations = f"{record['weights']:,} weights", f"{record['iterations']} iterations"
    show(f"\n   {weights} in {iterations}, {seconds:.1f} s; {record['stopped']}.\n")
    return model


def _scores(model: Any, test: "Corpus") -> list[str]:
    from labelwright.evaluate import evaluate

    begun = time.perf_counter()
    predicted = model.predict(test)
    seconds = time.perf_counter() - begun
    return [
        *(f"   {line}".rstrip() for line in str(evaluate(test.y, predicted)).splitlines()),
        (
            "\n   precision: the share of predicted chunks that are right; recall: the share of "
            "true chunks found;"
        ),
        (
            f"   f1: their harmonic mean.  Labelling took {seconds:.2f} s: "
            f"{test.n_tokens / seconds:,.0f} words a second,"
        ),
        "   not counting the time to start and to compile.\n",
    ]


def _explained(model: Any, words: list[str]) -> Iterator[str]:
    """The best labellings of a sentence, and the spans of the best one, each with its
    probability."""
    best, at = model.predict_nbest([words], 3)[0], words.index("her") + 1
    yield f"\n   {' '.join(words)}\n\n      probability   labelling"
    for labels, probability in best:
        yield f"      {100 * probability:9.1f} %   {bracketed(words, labels)}"
    yield f"      {100 * max(0.0, 1 - sum(p for _, p in best)):9.1f} %   all others together"
    yield "\n      probability   span of the best labelling"
    for span in model.predict_spans([words])[0]:
        yield (
            f"      {100 * span.probability:9.1f} %   {span.type:<5} "
            f"{' '.join(words[span.start : span.end])}"
        )
    marginals = sorted(model.predict_marginals([words])[0][at].items(), key=lambda item: -item[1])[
        :3
    ]
    listed = ", ".join(f"{label} ({100 * p:.1f} %)" for label, p in marginals)
    alone = model.predict([words])[0][at] == "B-NP"
    yield f"\n      after `her`, {words[at]!r} is {listed}"
    yield f"      so `her` {'is a phrase of its own' if alone else 'belongs to what follows'}.\n"


def bracketed(words: list[str], labels: list[str]) -> str:
    """A sentence with its chunks in brackets.

    >>> bracketed(["He", "ran", "."], ["B-NP", "B-VP", "O"])
    '[NP He] [VP ran] .'
    """
    from labelwright.corpus import spans_of

    pieces, done = [], 0
    for span in spans_of(labels):
        pieces += words[done : span.start]
        pieces.append(f"[{span.type} {' '.join(words[span.start : span.end])}]")
        done = span.end
    return " ".join(pieces + words[done:])


# -- labelwright reproduce -------------------------------------------------------------------------

CORPORA = "LABELWRIGHT_CORPORA"


@command(
    argument("name", "NAME", "Which experiment; `all` runs one after the other."),
    option(
        "-o --out DIR",
        "Folder for the report and for what a resumed run needs.",
        OUTPUT,
        default=".",
    ),
    option("--corpora DIR", f"Folder with a folder for each corpus; otherwise that of {CORPORA}."),
    option("--quick", "A run of a minute or two on small parts of the data: figures mean nothing."),
    option("--fresh", "Begin anew, whatever an earlier run has left."),
    option("--device NAME", "Train CRFs and latent CRFs on a GPU: cuda, mps.", default="cpu"),
    option(
        "--jobs N", "Run N steps at once, in processes that share the cores.", OTHER, POSITIVE, 1
    ),
)
def reproduce_command(o: Any) -> None:
    """Run the experiments of a paper and report their figures beside the published ones.

    \b
      labelwright reproduce latperc-synthetic -o papers
      labelwright reproduce ldi-np --corpora corpora -o papers
      labelwright reproduce all --corpora corpora -o papers --quick

    \b
    ldi-np, ldi-bioner    latent-dynamic inference (Sun & Tsujii 2009)
    latperc-synthetic, latperc-np, latperc-bioner
                          the latent perceptron (Sun et al. 2009)
    multilayer            jointly trained cascades (Azuma & Matsumoto 2011)
    csi                   constraint satisfaction inference (Canisius et al. 2006)

    Writes NAME.md, NAME.html, NAME.results.json and figures.  An interrupted run resumes with the
    same command.
    """
    from labelwright.reproduce import ALL, PAPERS, experiment
    from labelwright.reproduce.experiment_report import write_report
    from labelwright.reproduce.work import Work

    experiments = [experiment(each) for each in (PAPERS if o.name == ALL else [o.name])]
    place, folder = o.corpora or os.environ.get(CORPORA), Path(o.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OptionError(f"{o.out}: cannot make this folder: {problem.strerror}") from None
    corpora_at = None if place is None else Path(place)
    works = [
        Work(each, corpora_at, folder, o.quick, say, o.fresh, o.device, o.jobs)
        for each in experiments
    ]
    for each, work in zip(experiments, works, strict=True):
        try:
            findings = work.run()
        except KeyboardInterrupt:
            done = f"{signals.what_happened()} after {counted(len(work.results), 'step')}"
            say(f"{each.name}: {done}; the same command resumes there")
            raise click.exceptions.Exit(signals.exit_status()) from None
        asked = [
            "labelwright",
            "reproduce",
            each.name,
            *(["--corpora", "CORPORA"] if each.corpora else []),
        ]
        chosen = ["--quick"] if o.quick else []
        chosen += ["--device", o.device] if o.device != "cpu" else []
        chosen += ["--jobs", str(o.jobs)] if o.jobs > 1 else []
        line = shlex.join([*asked, "-o", "DIR", *chosen])
        show(*map(str, write_report(work, findings, line)))
