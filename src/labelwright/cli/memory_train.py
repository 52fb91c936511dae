"""labelwright train --model memory: remember a file, with settings that are given or searched for."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from labelwright.cli.common import aligned, check_target, counted, read_labelled, say
from labelwright.cli.memory import check_inference
from labelwright.cli.recipe import Run, configured, place_of
from labelwright.cli.train import forget_run
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

REFUSED = {
    "start_from": "a memory starts from nothing; leave it out",
    "checkpoint_every": "a memory is learnt at once, without checkpoints; leave it out",
    "resume": "a memory is learnt at once, without checkpoints; train it anew",
    "plot": "draws what joint training changes, only with --model cascade",
}
SEARCHED = ("k", "metric", "weights", "votes", "mvdm_threshold")
SHOWN = 10  # settings of a search that are written out
GRAMS = {1: "labels", 3: "trigrams"}  # what classes are; further on 5-grams, ...

# Which setting of the search a value is like that it has none of: those with its likes are tried with it.
LIKE: dict[str, Callable[[Any], Any]] = {
    "k": lambda k: 3,
    "metric": lambda metric: "mvdm" if {"mvdm", "jeffrey", "jensen-shannon"} & set(_listed(metric)) else "overlap",
    "weights": lambda weights: "none",
    "votes": lambda votes: "none",
    "mvdm_threshold": lambda threshold: 2,
}


def train_memory(source: str, output: str, words: dict[str, Any], run: Run) -> None:
    """Remember a file, and write the memory to another."""
    _check(words, run)
    searched = bool(words.get("search"))
    words = _plain(words)
    model = configured("memory", words, run.recipe, open=[w for w in SEARCHED if searched and w not in words])
    model._check_parameters()
    settings = _settings(words, model.algorithm) if searched else []
    inputs = [source, *([run.recipe] if run.recipe else []), *(words[w] for w in ("dev", "template") if w in words)]
    check_target(output, inputs, for_model=True)
    corpus = read_labelled(source, words.get("columns"), words.get("label"), words.get("scheme"))
    dev = None
    if "dev" in words:
        dev = read_labelled(words["dev"], ",".join(corpus.names), corpus.label, words.get("scheme"))

    begun = time.perf_counter()
    found: dict[str, Any] = {}
    if searched:
        model, found = _searched(model, settings, corpus, words, run)
    else:
        model.fit(corpus)
    record: dict[str, Any] = {"seconds": round(time.perf_counter() - begun, 3)}
    if found:
        record |= {"stopped": found["stopped"], "search": found}
    _finish(model, corpus, dev, output, record, run)


def _check(words: dict[str, Any], run: Run) -> None:
    """Find out what is wrong before any sentence is read."""
    for name, asked in (("resume", run.resume), ("plot", run.plot is not None)):
        if asked:
            raise OptionError(f"--{name}: {REFUSED[name]}")
    for word in words:
        if word in REFUSED:
            raise OptionError(f"{place_of(word, run)}: {REFUSED[word]}")
    check_inference(words.get("inference"))


def _plain(words: dict[str, Any]) -> dict[str, Any]:
    """The words as the constructor takes them."""
    words = dict(words)
    if "decay" in words:
        given = words["decay"] if isinstance(words["decay"], list) else [words["decay"]]
        words["decay"] = tuple(given) if len(given) != 1 else (given[0], 1.0)
    weights = words.get("weights")
    if isinstance(weights, list) and not all(isinstance(w, float | int) and not isinstance(w, bool) for w in weights):
        raise OptionError(f"weights: expected a name, or a number for each column, got {weights!r:.60}")
    if not all(isinstance(metric, str) for metric in _listed(words.get("metric", []))):
        raise OptionError(f"metric: expected a name, or one for each column, got {words['metric']!r:.60}")
    return words


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# -- search -----------------------------------------------------------------------------------------------------------


def _settings(words: dict[str, Any], algorithm: str) -> list[dict[str, Any]]:
    """The settings to try: those of memory_settings with the values that were given."""
    from labelwright.memory.weights import WEIGHTS
    from labelwright.search.progressive import memory_settings

    found = memory_settings() if algorithm == "ib1" else [{"weights": weights} for weights in WEIGHTS]
    for word in SEARCHED:
        if word in words:
            wanted = words[word]
            same = [setting for setting in found if setting.get(word) == wanted]
            found = same or [s | {word: wanted} for s in found if s.get(word) == LIKE[word](wanted)]
    if len(found) < 2:
        raise OptionError("--search: all settings are given, nothing is left to search; leave it out")
    return found


def _searched(
    model: Any, settings: list[dict[str, Any]], corpus: "Corpus", words: dict[str, Any], run: Run
) -> tuple[Any, dict[str, Any]]:
    """The best of many settings, trained on all sentences, and what is worth knowing about the search."""
    from labelwright.search.progressive import ProgressiveSearch

    search = ProgressiveSearch(
        model, settings, random_state=words.get("random_state", 0), verbose=0 if run.quiet or run.verbose else 1
    )
    search.fit(corpus, progress=_Lines() if run.verbose else None)
    found = {
        "settings": search.n_settings_,
        "tried": search.n_tried_,
        "scoring": search.scoring_,
        "score": search.best_score_,
        "stopped": search.stopped_,
        "best": search.best_params_,
    }
    if not run.quiet:
        for line in table(search.table_, search.best_params_):
            say(line)
    return search.best_estimator_, found


class _Lines:
    """One line for each setting that was tried."""

    def __call__(self, row: Any, total: int) -> None:
        words = ", ".join(f"{word} {value}" for word, value in row["setting"].items())
        say(f"{row['n_train'] + row['n_test']:9,}  {_score(row):>6}  {row['seconds']:7.2f} s  {words}")


def table(rows: Any, chosen: dict[str, Any]) -> list[str]:
    """The settings that came furthest, the chosen one first: each with its last sample and its score there."""
    last: dict[int, Any] = {id(row["setting"]): row for row in rows}
    ranked = sorted(last.values(), key=lambda row: (-row["step"], -(row["score"] or 0.0)))
    ranked.sort(key=lambda row: row["setting"] is not chosen)
    names = [word for word in SEARCHED if any(word in row["setting"] for row in ranked)]
    titles = [{"mvdm_threshold": "threshold"}.get(word, word) for word in names]
    lines = [[*titles, "sentences", "score"]]
    for row in ranked[:SHOWN]:
        words = [_short(row["setting"].get(word, "")) for word in names]
        lines.append([*words, f"{row['n_train'] + row['n_test']:,}", _score(row)])
    right = [i for i, title in enumerate(lines[0]) if title in ("k", "threshold", "sentences", "score")]
    return [*aligned(lines, right), *([f"... and {len(ranked) - SHOWN:,} more"] if len(ranked) > SHOWN else [])]


def _score(row: Any) -> str:
    return "failed" if row["score"] is None else f"{100 * row['score']:.2f}"


def _short(value: Any) -> str:
    return "by column" if isinstance(value, list) else str(value)


# -- the end ----------------------------------------------------------------------------------------------------------


def _finish(model: Any, corpus: "Corpus", dev: "Corpus | None", output: str, record: dict[str, Any], run: Run) -> None:
    """Score and write the model, and say what it holds."""
    if dev is not None:
        from labelwright.evaluate import evaluate

        model.set_params(verbose=0 if run.quiet else 1)
        record["dev"] = evaluate(dev.y, model.predict(dev)).score
    model.training_ |= record | {"columns": list(corpus.names), "label": corpus.label}
    forget_run(model)
    model.save(output)
    if not run.quiet:
        say(_summary(model, output))
    if model.training_["stopped"] == "interrupted":
        say(f"labelwright: interrupted; {output} holds the best setting so far")
        raise typer.Exit(130)


def _summary(model: Any, output: str) -> str:
    """One line: how much is remembered, how long it took, and how good it is."""
    from labelwright.search.progressive import tried

    record, memory = model.training_, model.memory_
    dev = f", {100 * record['dev']:.2f} on the development data" if "dev" in record else ""
    search = record.get("search")
    how = "" if search is None else f" (the best of {tried(search['tried'], search['settings'])}; {search['stopped']})"
    return (
        f"{output}: {counted(int(memory['instances']), 'instance')}, {counted(len(model.windows_.names), 'column')}, "
        f"{counted(len(model.grams_), 'class')} ({grams(model.ngram)}), {counted(len(model.labels_), 'label')}; "
        f"{counted(record['sentences'], 'sentence')}, {record['seconds']:.1f} s, "
        f"{memory['bytes_per_instance']:,.0f} bytes an instance{dev}{how}"
    )


def grams(n: int) -> str:
    """What classes of so many labels are called.

    >>> grams(1), grams(3), grams(5)
    ('labels', 'trigrams', '5-grams')
    """
    return GRAMS.get(n, f"{n}-grams")
