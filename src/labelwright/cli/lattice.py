"""labelwright lattice: train a model of paths through lattices, and find the best ones."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labelwright.cli.files import check_target
from labelwright.cli.options import DATA, MAX_INPUT, OUTPUT, POSITIVE, Command, argument, option
from labelwright.cli.show import ended_by_signal, report, say
from labelwright.errors import ModelFileError, OptionError
from labelwright.settings import OfTheRun, settings_of
from labelwright.taggers import registry

if TYPE_CHECKING:
    from labelwright.structures.feature_lattice import LatticeData

NAME = "lattice-crf"
ABOUT = """Train a LatticeCRF on lattices, or find the best paths of lattices with a model.

A lattice is one JSON object on a line: arcs with source, target, label and features, and in training the true path.

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
        "--model MODEL", "A trained model, which adds its best path to every lattice; without, one is trained.", DATA
    ),
    option("--dev FILE", "Training: keep the weights that do best on these lattices.", DATA, not_with="model"),
    MAX_INPUT,
]
OF_OUTPUT = [
    option(
        "-o --output FILE",
        "The model that is trained, or the lattices with their paths.",
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
        "--probabilities", "With --model: the probability of every arc.", OUTPUT, only_with="model", not_with="score"
    ),
    option("--score", "With --model: precision, recall and F1 of arcs by the true paths.", OUTPUT, only_with="model"),
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
                raise OptionError(f"{settings[name].flag}: only in training; leave out --model to train")
        _answer(o)

    return Command(ABOUT, [*OPTIONS, *settings.values(), *OF_OUTPUT], run, "Training")


def _train(o: Any, settings: dict[str, Any]) -> None:
    """Train a model and write it."""
    from labelwright.taggers.estimator import is_interrupted

    if o.output is None:
        raise OptionError("-o: name the model file to write; or give --model to use a trained one")
    check_target(o.output, [o.source, o.dev], for_model=True)
    model = registry.model_class(NAME)(**settings)
    model._check_parameters()
    dev = _read(o.dev) if o.dev else None
    X, y = _read(o.source)
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


def _read(path: str) -> "LatticeData":
    from labelwright.structures.feature_lattice import read_lattices

    return read_lattices(path, paths=True)


def _answer(o: Any) -> None:
    """Write the lattices with their best paths, or score the model."""
    from labelwright.corpus.compressed import name_of, read_bytes, write_bytes
    from labelwright.corpus.token_records import parse_json_lines
    from labelwright.structures.feature_lattice import lattices_in

    model = registry.load(o.model)
    if model.reads().kind != "lattices":
        raise ModelFileError(f"{o.model}: expected a LatticeCRF, got a {type(model).__name__}")
    model.set_params(n_jobs=o.n_jobs)
    if o.score:
        scores = model.report(*_read(o.source))
        report(scores.as_dict(), o.json, lambda _: [str(scores)])
        return
    target = o.output or "-"
    check_target(target, [o.source, o.model])
    lines = parse_json_lines(read_bytes(o.source), name_of(o.source))
    answers = [_fields(each, o) for each in model.scored(lattices_in(lines, paths=False).X)]
    write_bytes(target, lines.extended(answers))


def _fields(scored: Any, o: Any) -> dict[str, Any]:
    """What is added to a lattice."""
    paths = scored.best(o.nbest or 1)
    best = paths[0]
    fields = {
        "best": scored.lattice.ends(best.arcs),
        "best_arcs": best.arcs,
        "probability": math.exp(best.log_probability),
    }
    if o.nbest:
        fields["nbest"] = [{"arcs": path.arcs, "probability": math.exp(path.log_probability)} for path in paths]
    if o.probabilities:
        fields["probabilities"] = scored.marginals().tolist()
    return fields
