"""labelwright lattice: train a model of paths through lattices, and find the best ones."""

import math
from collections.abc import Sequence
from typing import Any

from labelwright.cli.files import check_target
from labelwright.cli.options import DATA, MAX_INPUT, OUTPUT, POSITIVE, Command, argument, option
from labelwright.cli.show import ended_by_signal, report, say
from labelwright.errors import ModelFileError, OptionError
from labelwright.settings import OfTheRun, settings_of
from labelwright.taggers import registry

NAME = "lattice-crf"
ABOUT = """Train a LatticeCRF on lattices, or find the best paths of lattices with a model.

A lattice is one JSON object on a line: arcs with source, target, label and features, and in
training the true path.

\b
  {"arcs": [[0, 1, "a", {"text": "ab"}], [0, 1, "b", ["ab"]]], "path": [0]}

\b
  labelwright lattice train.jsonl -o words.model
  labelwright lattice new.jsonl --model words.model --nbest 3 -o best.jsonl
  labelwright lattice test.jsonl --model words.model --score
"""
OPTIONS = [
    argument("source", "FILE", "Lattices as JSON lines (.gz .bz2 .xz), or -."),
    option(
        "--model MODEL",
        "A trained model, which adds its best path to lattices; without, one is trained.",
        DATA,
    ),
    option(
        "--dev FILE",
        "Training: keep the weights that do best on these lattices.",
        DATA,
        not_with="model",
    ),
    MAX_INPUT,
]
OF_OUTPUT = [
    option(
        "-o --output FILE",
        "The trained model, or lattices with paths.",
        OUTPUT,
        not_with="score",
        shown="standard output",
    ),
    option(
        "--nbest N",
        "With --model: the N best paths of each lattice.",
        OUTPUT,
        POSITIVE,
        only_with="model",
        not_with="score",
    ),
    option(
        "--probabilities",
        "With --model: the probability of every arc.",
        OUTPUT,
        only_with="model",
        not_with="score",
    ),
    option(
        "--score",
        "With --model: precision, recall and F1 of arcs by the true paths.",
        OUTPUT,
        only_with="model",
    ),
    option("--json", "With --score: print JSON.", OUTPUT, only_with="score"),
    option("-q --quiet", "No progress, no summary.", OUTPUT),
]


def lattice_command(given: Sequence[str]) -> Command:
    """The command with an option for each setting of a LatticeCRF."""
    settings = settings_of(registry.model_class(NAME))

    def run(o: Any) -> None:
        chosen = {name: value for name, value in o.given.items() if name in settings}
        if o.model is None:
            _train(o, chosen)
            return
        for name in chosen:
            if not settings[name].has(OfTheRun):
                raise OptionError(
                    f"{settings[name].flag}: only in training; leave out --model to train"
                )
        _answer(o)

    return Command(ABOUT, [*OPTIONS, *settings.values(), *OF_OUTPUT], run, "Training")


def _train(o: Any, settings: dict[str, Any]) -> None:
    from labelwright.structures.feature_lattice import read_lattices
    from labelwright.taggers.estimator import is_interrupted

    if o.output is None:
        raise OptionError("-o: name the model file to write; or give --model to use a trained one")
    check_target(o.output, [o.source, o.dev], for_model=True)
    model = registry.model_class(NAME)(**settings)
    model._check_parameters()
    dev = read_lattices(o.dev, paths=True) if o.dev else None
    X, y = read_lattices(o.source, paths=True)
    bar = None if o.quiet else model._progress_bar()
    try:
        model.fit(X, y, dev=dev, progress=bar)
    finally:
        if bar is not None:
            bar.close()
    model._forget_run()
    model.save(o.output)
    if is_interrupted(model):
        raise ended_by_signal(f"; {o.output} holds the model so far")
    if not o.quiet:
        sizes, run, stopped = model._summary()
        say(f"{o.output}: {', '.join(sizes)}; {', '.join(run)}; {stopped}")


def _answer(o: Any) -> None:
    """Write the lattices with their best paths, or score the model."""
    from labelwright.corpus.compressed import name_of, read_bytes, write_bytes
    from labelwright.corpus.token_records import parse_json_lines
    from labelwright.structures.feature_lattice import lattices_in, read_lattices

    model = registry.load(o.model)
    if model.reads().kind != "lattices":
        raise ModelFileError(f"{o.model}: expected a LatticeCRF, got a {type(model).__name__}")
    model.set_params(n_jobs=o.n_jobs)
    if o.score:
        scores = model.report(*read_lattices(o.source, paths=True))
        report(scores.as_dict(), o.json, lambda _: [str(scores)])
        return
    check_target(o.output or "-", [o.source, o.model])
    lines = parse_json_lines(read_bytes(o.source), name_of(o.source))
    answers = []
    for scored in model.scored(lattices_in(lines, paths=False).X):
        paths = [(path.arcs, math.exp(path.log_probability)) for path in scored.best(o.nbest or 1)]
        best, probability = paths[0]
        fields = {"best": scored.lattice.ends(best), "best_arcs": best, "probability": probability}
        fields |= (
            {"nbest": [{"arcs": arcs, "probability": p} for arcs, p in paths]} if o.nbest else {}
        )
        answers.append(
            fields | ({"probabilities": scored.marginals().tolist()} if o.probabilities else {})
        )
    write_bytes(o.output or "-", lines.extended(answers))
