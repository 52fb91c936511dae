"""labelwright train: from a column file to a model file."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from labelwright.cli.common import (
    Columns,
    Label,
    Scheme,
    Threads,
    check_target,
    counted,
    percent,
    read_labelled,
    refuse_inputs,
    say,
    turns,
    why_stopped,
)
from labelwright.cli.recipe import (
    WORDS,
    Run,
    by_column,
    decay_numbers,
    dictionary_files,
    latent_numbers,
    margin_number,
    read_recipe,
    untrained,
)
from labelwright.errors import OptionError


def command(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Column file (.gz .bz2 .xz too), .conllu, or -.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="MODEL", help="The model file to write.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to train: crf, latent-crf, perceptron, latent-perceptron, semi-crf (labels of whole segments), "
            "memory (nearest neighbours), or cascade (layers of the former, but memory, from a recipe). "
            "[default: crf]",
        ),
    ] = None,
    latent: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Latent models: states of each label, one number or B-NP=3,O=2,... for all labels. [default: 4]",
        ),
    ] = None,
    n_restarts: Annotated[
        int | None,
        typer.Option(
            "--restarts",
            metavar="N",
            help="Latent models: random starts; the best on --dev, else by loss. [default: 1]",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(metavar="N", help="semi-crf: most tokens of a segment. [default: the longest in TRAIN]"),
    ] = None,
    passing: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="cascade: what layers pass upwards: best labels, marginal probabilities, joint (marginals, and all "
            "layers learn together), sample or nbest. [default: joint]",
        ),
    ] = None,
    jackknife: Annotated[
        bool | None,
        typer.Option(
            "--jackknife/--no-jackknife",
            help="cascade: upper layers learn from what lower ones say of sentences unseen by them. [default: no]",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", metavar="K", help="memory: neighbours at the K nearest distances count. [default: 1]"),
    ] = None,
    metric_given: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="memory: distance of two values: overlap, mvdm, jeffrey, jensen-shannon or numeric; or one for each "
            "line of the template, as in overlap,mvdm,... [default: overlap]",
        ),
    ] = None,
    mvdm_threshold: Annotated[
        int | None,
        typer.Option(metavar="N", help="memory: values seen less often are compared by overlap. [default: 1]"),
    ] = None,
    weights_given: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="NAME",
            help="memory: weights of the lines of the template: gain-ratio, information-gain, chi-squared, "
            "shared-variance or none; or a number for each, as in 0.5,1,... [default: gain-ratio]",
        ),
    ] = None,
    votes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="memory: what a neighbour counts: none (1), inverse-distance, inverse-linear or exponential-decay. "
            "[default: none]",
        ),
    ] = None,
    decay_given: Annotated[
        str | None,
        typer.Option("--decay", metavar="A[,B]", help="memory: exponential decay is exp(-A d^B). [default: 1,1]"),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="memory: ib1 (asks all instances) or igtree (a decision tree by weights: fast, coarser). "
            "[default: ib1]",
        ),
    ] = None,
    ngram: Annotated[
        int | None,
        typer.Option(metavar="N", help="memory: labels that are predicted at once, 1, 3, 5, ... [default: 3]"),
    ] = None,
    inference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="memory: how they become one labelling: csi (satisfies the most constraints), vote or none. "
            "[default: csi]",
        ),
    ] = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="memory: what a constraint is worth: confidence, count, squared, log or length. [default: confidence]",
        ),
    ] = None,
    search_asked: Annotated[
        bool,
        typer.Option(
            "--search",
            help="memory: find k, metric, weights, votes and threshold, those that are not given, by trying many on "
            "growing samples of TRAIN. Takes a while: minutes, on large files hours.",
        ),
    ] = False,
    columns: Columns = None,
    label: Label = None,
    scheme: Scheme = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Features: default, words, chunking, ner, bioner, letters, window, or a file in CRF++ syntax. "
            "[default: default, memory window]",
        ),
    ] = None,
    order: Annotated[
        int | None, typer.Option(metavar="1|2", help="A label depends on so many before it. [default: 1]")
    ] = None,
    cells: Annotated[
        str | None,
        typer.Option(metavar="WHICH", help="Weights for observed (feature, label) pairs or all. [default: observed]"),
    ] = None,
    l1: Annotated[
        float | None, typer.Option("--l1", metavar="X", help="CRFs: penalty l1 |w|; above 0: OWL-QN. [default: 0]")
    ] = None,
    l2: Annotated[
        float | None, typer.Option("--l2", metavar="X", help="CRFs: penalty l2/2 |w|^2. [default: 1]")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(metavar="NAME", help="CRFs: lbfgs or sgd. [default: lbfgs]")] = None,
    averaging: Annotated[
        str | None,
        typer.Option(
            metavar="none|avg|mavg",
            help="Perceptrons: the last weights, their mean after every sentence, or mavg: passes begin from the mean, "
            "too. [default: avg, latent-perceptron mavg]  CRFs with sgd: none, or avg: all passes, then the mean of "
            "the last third. [default: none]",
        ),
    ] = None,
    reset_every: Annotated[
        int | None, typer.Option(metavar="K", help="mavg: every K-th pass begins from the mean. [default: 4]")
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Perceptrons: perceptron (a whole step) or passive-aggressive (as much as the margin needs). "
            "[default: perceptron]",
        ),
    ] = None,
    margin_given: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="X|auto",
            help="Perceptrons: gold must score above others by X for each wrong label. [default: 0, "
            "passive-aggressive 1, latent-perceptron auto]",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="latent-perceptron: split (the states of a plain perceptron), likelihood (those of a latent CRF), "
            "random, or auto. [default: auto]",
        ),
    ] = None,
    aggressiveness: Annotated[
        float | None, typer.Option(metavar="C", help="passive-aggressive: the largest step. [default: 1]")
    ] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option(
            "--shuffle/--no-shuffle",
            help="Perceptrons: each pass in another order. [default: shuffle]",
            show_default=False,
        ),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            metavar="N",
            help="Limit of iterations or passes; of a cascade, of joint training. [default: till it converges; "
            "perceptrons 50]",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(metavar="X", help="CRFs: stop when ten iterations gain a smaller share. [default: 1e-5]"),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(metavar="N", help="Leave out features seen less often. [default: 1]")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Development data: keep the best weights, stop when no better; perceptrons learn from them how "
            "confident they may be; cascades (joint training) keep the best sum of their layers' scores; memory is "
            "scored on them.",
        ),
    ] = None,
    n_jobs: Threads = None,
    random_state: Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of all randomness.")] = None,
    constraints: Annotated[
        str | None, typer.Option(metavar="scheme", help="Let only labellings exist that the label scheme permits.")
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Start from the settings and weights of another model: a CRF from a CRF, a perceptron from a "
            "perceptron, a latent one also from one without latent states.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from MODEL.checkpoint, to the very model of an undisturbed run.")
    ] = False,
    checkpoint_every: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How often MODEL.checkpoint is written. [default: 10]")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help="Take options from a file; those given here win.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.png",
            help="cascade, joint training with --dev: draw the scores before and after, and what changed labels did "
            "to the layer above.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="One line per iteration on stderr.")] = False,
) -> None:
    """Train a model from a file with one token per line, columns parted by blanks, a blank line after each sentence.

    \b
      labelwright train train.txt -o model.crf --columns word,pos,chunk --template chunking --dev dev.txt
      labelwright train train.txt -o latent.crf --model latent-crf --latent 4 --start-from model.crf
      labelwright train train.txt -o second.crf --order 2 --constraints scheme
      labelwright train train.txt -o fast.model --model perceptron --dev dev.txt
      labelwright train train.txt -o latent.model --model latent-perceptron --latent 4 --reset-every 4
      labelwright train train.txt -o names.model --model semi-crf --max-length 8
      labelwright train train.txt -o near.model --model memory --k 7 --metric mvdm --votes inverse-distance
      labelwright train train.txt -o both.model --model cascade --recipe cascade.toml --columns word,pos,chunk

    The first Ctrl-C ends the iteration and writes the model so far; the second one aborts.  A recipe holds the words of
    the Python constructor (template, order, cells, min_count, averaging, max_iter, constraints, n_jobs, random_state;
    for CRFs l1, l2, optimizer, tol; for perceptrons reset_every, update, margin, aggressiveness, shuffle; for latent
    models n_latent, a number or a table by label, and n_restarts; for semi-crf max_length and dictionaries, a table of
    files, by the recipe's folder, or lists of phrases; for memory k, metric, mvdm_threshold, weights, votes, decay,
    algorithm, ngram, inference, weighting, lengths) and model, columns, label, scheme, dev, start_from,
    checkpoint_every, search.

    Memory-based models keep all tokens with what the template says of them; a new token gets the labels of its nearest
    neighbours.  They learn at once, without passes or checkpoints, and take their time to answer.

    A cascade labels in layers, each of which reads the labels below it.  Its recipe has a table for each layer, the
    lowest first: the name of its column, its model (crf unless given), and the words of that model:

    \b
      passing = "joint"
      [[layers]]
      name = "pos"
      [[layers]]
      name = "chunk"
      model = "latent-crf"
      n_latent = 2

    Beside them it may say passing, shares (a table by layer), jackknife, cut, lexicon, max_iter and tol (of joint
    training), n_jobs, random_state, columns and dev.  No checkpoint is written.
    """
    n_latent = None if latent is None else latent_numbers(latent)  # words like the others
    margin = None if margin_given is None else margin_number(margin_given)
    metric = None if metric_given is None else by_column("--metric", metric_given, "names")
    weights = None if weights_given is None else by_column("--weights", weights_given, "numbers")
    decay = None if decay_given is None else decay_numbers(decay_given)
    search = search_asked or None
    given = {name: value for name, value in locals().items() if name in WORDS and value is not None}
    words = (read_recipe(recipe) if recipe else {}) | given
    run = Run(recipe, tuple(given), resume, plot, quiet, verbose)
    if words.get("model") == "cascade":
        from labelwright.cli.cascade_train import train_cascade

        train_cascade(train, output, words, run)
        return
    if words.get("model") == "memory":
        from labelwright.cli.memory_train import train_memory

        train_memory(train, output, words, run)
        return
    if plot is not None:
        raise OptionError("--plot: draws what joint training changes, only with --model cascade; see inspect --plot")
    if words.get("checkpoint_every", 0.0) < 0:
        raise OptionError(f"--checkpoint-every: expected seconds, 0 or more, got {words['checkpoint_every']}")
    inputs = [train, *([recipe] if recipe else []), *(words[name] for name in ("dev", "template") if name in words)]
    inputs += dictionary_files(recipe, words)
    check_target(output, inputs, for_model=True)  # but a model may be trained further in its place
    checkpoint = Path(f"{output}.checkpoint")
    for place in (checkpoint, *_further(checkpoint)):
        if place.is_dir():
            raise OptionError(f"{place}: is a folder, but a checkpoint of this run goes there; name another MODEL")
        refuse_inputs(str(place), inputs)
    estimator, start = untrained(words, recipe)

    corpus = read_labelled(train, words.get("columns"), words.get("label"), words.get("scheme"))
    development = None
    if "dev" in words:
        names = words.get("columns") or ",".join(corpus.names)
        development = read_labelled(words["dev"], names, corpus.label, words.get("scheme"))
    if checkpoint.exists() != resume and not quiet:
        say(
            f"{checkpoint}: no such file, so there is nothing to resume: starting anew"
            if resume
            else f"{checkpoint}: left by an unfinished run; starting anew (--resume would go on from it)"
        )

    bar = None if quiet or verbose else estimator.progress_bar()
    try:
        estimator.fit(
            corpus,
            dev=development,
            init=start,
            checkpoint=checkpoint,
            checkpoint_every=words.get("checkpoint_every", 10.0),
            resume=resume,
            progress=Lines() if verbose else bar,
        )
    finally:
        if bar is not None:
            bar.close()
    _finish(estimator, corpus, output, checkpoint, quiet)


def _finish(model: Any, corpus: Any, output: str, checkpoint: Path, quiet: bool) -> None:
    """Write the model; then the checkpoint goes, unless the run was interrupted."""
    from math import isfinite

    record, turn = model.training_, turns(model.probabilistic)
    if not isfinite(record["loss"] or 0.0):
        remedy = "raise --l2 or use --optimizer lbfgs" if model.probabilistic else "lower --margin and --aggressiveness"
        raise OptionError(f"{output}: not written, the loss is no longer a number; {remedy}")
    if record["stopped"] == "interrupted" and not record["iterations"]:
        say(f"labelwright: interrupted before the first {turn}; {output} is not written")
        raise typer.Exit(130)
    record |= {"columns": list(corpus.names), "label": corpus.label}
    forget_run(model)
    model.save(output)
    if record["stopped"] == "interrupted":
        again = shlex.join(["labelwright", *(a for a in sys.argv[1:] if a != "--resume"), "--resume"])
        say(
            f"labelwright: interrupted after {counted(record['iterations'], turn)}; "
            f"{output} holds the model so far; go on with: {again}"
        )
        raise typer.Exit(130)
    for place in (checkpoint, *_further(checkpoint)):
        place.unlink(missing_ok=True)
    if not quiet:
        scores = [entry["dev"] for entry in model.history_ if "dev" in entry]
        best = f", best on the development data {100 * max(scores):.2f}" if scores else ""
        say(
            f"{output}: {_weights(model)}, {counted(record['features'], 'feature')}, "
            f"{counted(len(model.classes_), 'label')}{_states(model)}; {counted(record['sentences'], 'sentence')}, "
            f"{counted(record['iterations'], turn)}{_mistakes(model)}, "
            f"{record['seconds']:.1f} s{best}{_spread(record)} ({why_stopped(record, model.probabilistic)})"
        )


def _weights(model: Any) -> str:
    """How many weights were learnt, and how many of them are not zero."""
    used = int((model.weights_ != 0).sum())
    return counted(len(model.weights_), "weight") + (f" ({used:,} not zero)" if used < len(model.weights_) else "")


def forget_run(model: Any) -> None:
    """Settings that belong to the run, not to the model, are as they were made."""
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in {"n_jobs": None, "verbose": 0, "warm_start": False}.items() if k in known})


def _mistakes(model: Any) -> str:
    """How many mistakes a perceptron made on the way, and how many sentences its weights get right."""
    if model.probabilistic:
        return ""
    record = model.training_
    return f", {counted(record['mistakes'], 'mistake')}, {percent(record['convergence']['separable'])} separable"


def _states(model: Any) -> str:
    return f", {model.space_.n_states} latent states" if model.space_.latent else ""


def _spread(record: dict[str, Any]) -> str:
    """How far the random starts lie apart."""
    runs = record.get("restarts")
    if not runs:
        return ""
    losses = [run["loss"] for run in runs]
    spread = f", best of {len(runs)} starts with losses of {min(losses):,.1f} to {max(losses):,.1f}"
    if "best_dev" in record:
        scores = [100 * run["merit"] for run in runs]
        spread += f" and {min(scores):.2f} to {max(scores):.2f} on the development data"
    return spread


def _further(checkpoint: Path) -> list[Path]:
    """The checkpoints of the second and further starts: MODEL.checkpoint.2, ..."""
    if not checkpoint.parent.is_dir():
        return []
    begin = f"{checkpoint.name}."
    return sorted(
        path
        for path in checkpoint.parent.iterdir()
        if path.name.startswith(begin) and path.name.removeprefix(begin).isdecimal()
    )


class Lines:
    """One line per iteration on stderr, and one before each further random start."""

    def __init__(self) -> None:
        self._last, self._starts = -1, 1

    def __call__(self, record: Any, max_iter: int) -> None:
        if record["iteration"] <= self._last:
            self._starts += 1
            say(f"start {self._starts}")
        self._last = record["iteration"]
        dev = f"  dev {100 * record['dev']:.2f}" if "dev" in record else ""
        what = f"loss {record['loss']:14.4f}"
        if "mistakes" in record:
            what = f"mistakes {record['mistakes']:9,}  separable {percent(record['separable']):>8}"
        say(f"{record['iteration']:5d}  {what}  {record['seconds']:8.2f} s{dev}")
