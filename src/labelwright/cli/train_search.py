"""labelwright train --search: the settings of a tagger that do best on growing samples of the training data."""

from typing import TYPE_CHECKING, Any

from labelwright.cli.common import aligned, say
from labelwright.cli.recipe import Request
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

SHOWN = 10  # settings of a search that are written out


def settings_to_try(model: Any, asked: Request) -> list[dict[str, Any]]:
    """The settings to try: those of the tagger with the values that were given."""
    given = {name: asked.values[name] for name in asked.kind.searched if name in asked.values}
    tried: list[dict[str, Any]] = model.searchable_settings(given)
    if len(tried) < 2:
        raise OptionError("--search: all settings are given, nothing is left to search; leave it out")
    return tried


def searched(
    model: Any, settings: list[dict[str, Any]], corpus: "Corpus", asked: Request
) -> tuple[Any, dict[str, Any]]:
    """The best of many settings, trained on all sentences, and what is worth knowing about the search."""
    from labelwright.search.progressive import ProgressiveSearch

    quiet, verbose = asked.get("quiet", False), asked.get("verbose", False)
    search = ProgressiveSearch(
        model, settings, random_state=asked.get("random_state", 0), verbose=0 if quiet or verbose else 1
    )
    search.fit(corpus, progress=_Lines() if verbose else None)
    record = {
        "settings": search.n_settings_,
        "tried": search.n_tried_,
        "scoring": search.scoring_,
        "score": search.best_score_,
        "stopped": search.stopped_,
        "best": search.best_params_,
    }
    if not quiet:
        for line in table(search.table_, search.best_params_):
            say(line)
    return search.best_estimator_, record


def how_many(record: dict[str, Any]) -> str:
    """How many settings were tried, and why no more."""
    from labelwright.search.progressive import tried

    return f"the best of {tried(record['tried'], record['settings'])}; {record['stopped']}"


class _Lines:
    """One line for each setting that was tried."""

    def __call__(self, row: Any, total: int) -> None:
        settings = ", ".join(f"{name} {value}" for name, value in row["setting"].items())
        say(f"{row['n_train'] + row['n_test']:9,}  {_score(row):>6}  {row['seconds']:7.2f} s  {settings}")


def table(rows: Any, chosen: dict[str, Any]) -> list[str]:
    """The settings that came furthest, the chosen one first: each with its last sample and its score there."""
    last: dict[int, Any] = {id(row["setting"]): row for row in rows}
    ranked = sorted(last.values(), key=lambda row: (-row["step"], -(row["score"] or 0.0)))
    ranked.sort(key=lambda row: row["setting"] is not chosen)
    names = list(dict.fromkeys(name for row in ranked for name in row["setting"]))
    titles = [name.rpartition("_")[2] for name in names]
    lines = [[*titles, "sentences", "score"]]
    for row in ranked[:SHOWN]:
        values = [_short(row["setting"].get(name, "")) for name in names]
        lines.append([*values, f"{row['n_train'] + row['n_test']:,}", _score(row)])
    right = [i for i, title in enumerate(lines[0]) if title in ("k", "threshold", "sentences", "score")]
    return [*aligned(lines, right), *([f"... and {len(ranked) - SHOWN:,} more"] if len(ranked) > SHOWN else [])]


def _score(row: Any) -> str:
    return "failed" if row["score"] is None else f"{100 * row['score']:.2f}"


def _short(value: Any) -> str:
    return "by column" if isinstance(value, list) else str(value)
