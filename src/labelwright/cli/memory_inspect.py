"""labelwright inspect of memory-based models: what is remembered, what columns weigh, and why a token has its label."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli.common import aligned, counted, heading, inputs_of, percent, read_for, show, show_json
from labelwright.cli.memory_train import grams
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

PLACE = re.compile(r"(.+)\[(-?\d+)\]")  # a column that is one of the file's columns at one place
BAR = 24  # letters of the longest bar
WEIGHTS = 50  # columns whose weights are written out
WIDEST = 120  # letters of a line, also where the terminal has room for more
LONG = 20  # letters of a word in a table
OUTSIDE = "_"


class Asked(NamedTuple):
    """What is to be looked at."""

    path: str  # of the model
    top: int
    data: Sequence[str]
    columns: str | None
    sentence: int | None
    token: int | None
    json: bool


def inspect(model: Any, asked: Asked) -> None:
    """Show the model or, where data are given, one sentence or one token as it sees them."""
    if not asked.data:
        facts = describe(model)
        if asked.json:
            show_json(facts)
        else:
            _show_model(facts, asked.path)
        return
    corpus, number = _sentence(model, asked)
    facts = _explained(model, corpus, number)
    if asked.token is not None:
        if not 0 <= asked.token < len(facts["tokens"]):
            raise OptionError(
                f"--token: sentence {number} of {asked.data[0]} has tokens 0 to {len(facts['tokens']) - 1}, "
                f"got {asked.token}"
            )
        facts = _token(model, corpus, facts, asked.token)
    if asked.json:
        show_json(facts)
    elif asked.token is not None:
        _show_token(facts, asked)
    else:
        _show_sentence(facts, asked)


# -- the model --------------------------------------------------------------------------------------------------------


def describe(model: Any) -> dict[str, Any]:
    """All that is worth knowing about a model, ready for JSON."""
    from labelwright.taggers.files import signature

    tagger = hasattr(model, "windows_")
    header = model.windows_.header() if tagger else {}
    weights = model.feature_weights_
    listed = weights.values() if tagger else weights.tolist()
    names = list(model.windows_.names) if tagger else [f"column {i}" for i in range(len(weights))]
    return {
        "signature": signature(model),
        "kind": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_ if tagger else None,
        "labels": model.classes_ if tagger else [str(label) for label in model.classes_.tolist()],
        "classes": len(model.grams_) if tagger else len(model.classes_),
        "columns": header.get("inputs", []),
        "template": header.get("template"),
        "memory": model.memory_,
        "feature_weights": [{"column": name, "weight": w} for name, w in zip(names, listed, strict=True)],
        "training": model.training_,
    }


def _inference(words: dict[str, Any]) -> str:
    lengths = words["lengths"]
    some = "" if lengths is None else f", of length {' and '.join(map(str, lengths))}"
    return f"{words['inference']}, constraints by {words['weighting']}{some}"


def _show_model(facts: dict[str, Any], path: str) -> None:
    words, memory, training = facts["parameters"], facts["memory"], facts["training"]
    tagger = "ngram" in words
    heading(f"{path}: {'memory-based tagger' if tagger else 'memory-based classifier'}")
    show_rows(
        [
            ("settings", _settings(words)),
            *([("inference", _inference(words))] if tagger else []),
            ("classes", f"{facts['classes']:,} {grams(words['ngram'])}" if tagger else f"{facts['classes']:,}"),
            ("labels", f"{len(facts['labels'])}: {' '.join(facts['labels'])}"),
            *([("scheme", facts["scheme"] or "none")] if tagger else []),
            *_columns(facts),
            ("memory", _memory(memory, words["algorithm"])),
            *_training(training),
        ]
    )
    show()
    heading(f"weights of columns ({words['weights'] if isinstance(words['weights'], str) else 'as given'})")
    rows = sorted(facts["feature_weights"], key=lambda row: -row["weight"])
    width, highest = max(len(row["column"]) for row in rows), max(row["weight"] for row in rows)
    for row in rows[:WEIGHTS]:
        show(f"  {row['column']:<{width}}  {row['weight']:10.4f}  {bar(row['weight'], highest)}".rstrip())
    if len(rows) > WEIGHTS:
        show(f"  ... and {len(rows) - WEIGHTS:,} more, with --json all")
    if tagger and facts["columns"]:
        show()
        show("why a token has its label: add --data FILE --token N")


def _settings(words: dict[str, Any]) -> str:
    """The words that say how neighbours are found."""
    shown = {"weights": words["weights"]}
    if words["algorithm"] == "ib1":
        shown = {"k": words["k"], "metric": words["metric"], **shown, "votes": words["votes"]}
        if set([words["metric"]] if isinstance(words["metric"], str) else words["metric"]) - {"overlap", "numeric"}:
            shown["threshold"] = words["mvdm_threshold"]
        if words["votes"] == "exponential-decay":
            shown["decay"] = "{:g},{:g}".format(*words["decay"])
    named = ", ".join(f"{word} {value if isinstance(value, str | int) else _run_lengths(value)}"
                      for word, value in shown.items())  # fmt: skip
    return f"{words['algorithm']}, {named}"


def _run_lengths(values: Iterable[Any]) -> str:
    """Values by column, equal ones that follow each other as one.

    >>> _run_lengths(["overlap", "overlap", "mvdm"])
    '2 x overlap, mvdm'
    """
    counts = [(value, len(list(same))) for value, same in groupby(values)]
    return ", ".join(f"{n} x {value}" if n > 1 else str(value) for value, n in counts)


def _columns(facts: dict[str, Any]) -> list[tuple[str, str]]:
    from labelwright.cli.inspect import label_row, template_row

    if facts["template"] is None:
        return [("columns", f"{len(facts['feature_weights'])} (trained in Python on dicts, arrays or rows)")]
    named = ("columns", ",".join(facts["columns"]))
    return [named, *label_row(facts["training"]), template_row(facts["template"])]


def _memory(memory: dict[str, float], algorithm: str) -> str:
    rows = f"{memory['rows']:,} different" if algorithm == "ib1" else f"a tree of {memory['rows']:,} nodes"
    size = f"{memory['bytes_per_instance']:,.0f} bytes an instance, {memory['bytes'] / 1e6:.1f} MB"
    return f"{counted(int(memory['instances']), 'instance')}, {rows}; {size}"


def _training(training: dict[str, Any]) -> list[tuple[str, str]]:
    """How the training went; models made in Python know less about it."""
    if "sentences" not in training:
        return []
    rows = [("trained on", f"{counted(training['sentences'], 'sentence')}, {counted(training['tokens'], 'token')}")]
    if "seconds" in training:
        rows.append(("training", f"{training['seconds']:.1f} s; labelwright {training['labelwright']}"))
    if "dev" in training:
        rows.append(("dev", f"{100 * training['dev']:.2f} on the development data"))
    if "search" in training:
        from labelwright.search.progressive import tried

        search = training["search"]
        how_many = tried(search.get("tried", search["settings"]), search["settings"])
        found = f"the best of {how_many}, {100 * search['score']:.2f} in the last step"
        rows.append(("search", f"{found}; {search['stopped']}"))
    return rows


# -- a sentence and a token -------------------------------------------------------------------------------------------


def _sentence(model: Any, asked: Asked) -> tuple["Corpus", int]:
    """The sentence that is asked for, of the only file."""
    if len(asked.data) > 1:
        raise OptionError("--data: expected one file here, of which --sentence is shown; leave out the others")
    corpus = inputs_of(model, read_for(model, asked.data[0], asked.columns))
    number = asked.sentence or 0
    if not 0 <= number < len(corpus):
        raise OptionError(f"--sentence: {asked.data[0]} has sentences 0 to {len(corpus) - 1}, got {number}")
    return corpus.take(slice(number, number + 1)), number


def _explained(model: Any, corpus: "Corpus", number: int) -> dict[str, Any]:
    """What the model says of each token of one sentence, ready for JSON."""
    data = model.encode(corpus)
    instances, _ = model.windows_.instances(corpus)
    found = model.learner_.answers(instances)
    (decoded,) = model.decode(data)
    (candidates,) = model.candidates(data)
    tokens = []
    for t, word in enumerate(corpus.column(corpus.names[0])[0]):
        a, b = found.ptr[t : t + 2].tolist()
        votes = dict(zip(found.classes[a:b].tolist(), found.votes[a:b].tolist(), strict=True))
        total = sum(votes.values())
        ranked = sorted(votes, key=lambda c: (c != found.best[t], -votes[c]))
        tokens.append(
            {
                "token": t,
                "word": word,
                "label": decoded.labels[t],
                "candidates": candidates[t],
                "distance": float(found.distance[t]) if model.algorithm == "ib1" else None,
                "classes": [{"labels": _gram(model, c), "share": votes[c] / total} for c in ranked],
            }
        )
    return {"sentence": number, "inference": model.inference, "score": decoded.score, "tokens": tokens}


def _gram(model: Any, code: int) -> list[str | None]:
    """The labels of a class; None outside the sentence."""
    return [model.labels_[label] if label >= 0 else None for label in model.grams_[code].tolist()]


def _token(model: Any, corpus: "Corpus", facts: dict[str, Any], t: int) -> dict[str, Any]:
    """One token with what is read of it and its neighbours, those with equal values and class as one."""
    names = list(model.windows_.names)
    instances, _ = model.windows_.instances(corpus)
    one = instances._replace(codes=instances.codes[t : t + 1])
    values = [known[code] for known, code in zip(one.values, one.codes[0].tolist(), strict=True)]
    found: dict[str, Any] = {
        **{name: facts[name] for name in ("sentence", "inference")},
        **facts["tokens"][t],
        "values": dict(zip(names, values, strict=True)),
    }
    if model.algorithm != "ib1":
        return found | {"neighbours": None}
    weights = model.learner_.feature_weights_.tolist()
    heaviest = sorted(range(len(names)), key=lambda i: -weights[i])
    together: dict[Any, dict[str, Any]] = {}
    for near in model.learner_.neighbours(one)[0]:
        row = together.setdefault(
            (near.distance, near.label, near.values),
            {
                "distance": near.distance,
                "labels": _gram(model, near.label),
                "instances": [],
                "values": dict(zip(names, near.values, strict=True)),
                "differs": {names[i]: near.values[i] for i in heaviest if near.values[i] != values[i]},
            },
        )
        row["instances"].append(near.instance)
    return found | {"neighbours": list(together.values())}


def _show_sentence(facts: dict[str, Any], asked: Asked) -> None:
    heading(f"sentence {facts['sentence']} of {asked.data[0]}, inference {facts['inference']}")
    rows = [("token", "word", "label", "predicted class", "votes", "distance")]
    for token in facts["tokens"]:
        best = token["classes"][0]
        near = "" if token["distance"] is None else f"{token['distance']:.4f}"
        word = token["word"] if len(token["word"]) <= LONG else f"{token['word'][: LONG - 3]}..."
        shown = str(token["token"]), word, token["label"], _text(best["labels"]), percent(best["share"]), near
        rows.append(shown)
    for line in aligned(rows, right={0, 4, 5}):
        show(f"  {line}")
    show()
    show("the neighbours of a token: add --token N")


def _show_token(facts: dict[str, Any], asked: Asked) -> None:
    heading(f"sentence {facts['sentence']}, token {facts['token']} of {asked.data[0]}: {facts['word']}")
    best = facts["classes"][0]
    middle = len(best["labels"]) // 2
    agree = sum(row["share"] for row in facts["classes"] if row["labels"][middle] == facts["label"])
    show_rows(
        [
            ("label", f"{facts['label']}, by inference {facts['inference']}; {percent(agree)} of its own votes"),
            ("candidates", " ".join(facts["candidates"])),
            ("class", f"{_text(best['labels'])}, predicted with {percent(best['share'])} of the votes"),
        ]
    )
    show()
    heading("what is read of it")
    show_rows(_in_place(facts["values"]))
    show()
    heading("votes")
    for row in facts["classes"][: asked.top]:
        show(f"  {percent(row['share']):>8}  {bar(row['share'], 1.0):<{BAR}}  {_text(row['labels'])}")
    _show_rest(facts["classes"], asked.top)
    show()
    if facts["neighbours"] is None:
        show("no neighbours: an igtree answers by classes, not by instances; use --algorithm ib1")
        return
    heading(f"nearest neighbours ({counted(len({row['distance'] for row in facts['neighbours']}), 'distance')})")
    for row in facts["neighbours"][: asked.top]:
        more = f" and {len(row['instances']) - 1:,} alike" if len(row["instances"]) > 1 else ""
        place = f"token {row['instances'][0]:,} of the training data{more}"
        show(f"  {row['distance']:9.4f}  {_text(row['labels'])}  ({place})")
        if all(PLACE.fullmatch(name) for name in row["values"]):
            show_rows(_in_place(row["values"]), indent=13)
        else:
            unlike = ", ".join(f"{name} {value}" for name, value in row["differs"].items())
            show_text(f"but {unlike}" if unlike else "alike in all columns", indent=13)
    _show_rest(facts["neighbours"], asked.top)


def _show_rest(rows: Sequence[Any], top: int) -> None:
    if len(rows) > top:
        show(f"  ... and {len(rows) - top:,} more, with --json all")


def _in_place(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Values as they stand in the sentence, where the columns are places: name[-1], name[0], ...; the token's own in
    brackets."""
    rows: dict[str, list[str]] = {}
    for name, value in values.items():
        place = PLACE.fullmatch(name)
        if place is None:
            rows[name] = [str(value)]
        else:
            rows.setdefault(place[1], []).append(f"[{value}]" if place[2] == "0" else str(value))
    if len({len(row) for row in rows.values()}) == 1:
        return list(zip(rows, aligned(list(rows.values())), strict=True))
    return [(name, "  ".join(row)) for name, row in rows.items()]


def _text(labels: Sequence[str | None]) -> str:
    return " ".join(OUTSIDE if label is None else label for label in labels)


# -- lines ------------------------------------------------------------------------------------------------------------


def bar(value: float, highest: float) -> str:
    """A bar as long as the value is large.

    >>> bar(1.0, 2.0), bar(0.0, 0.0)
    ('████████████', '')
    """
    return "█" * round(BAR * value / highest) if highest > 0 else ""


def show_rows(rows: Sequence[tuple[str, str]], indent: int = 2) -> None:
    """Names and values, broken into lines that fit the terminal; where one is, none keeps its columns."""
    width = indent + max(len(name) for name, _ in rows) + 2
    if any(width + len(value) > _room() for _, value in rows):
        rows = [(name, " ".join(value.split())) for name, value in rows]
    for name, value in rows:
        show_text(value, width, f"{' ' * indent}{name}".ljust(width))


def _room() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)


def show_text(text: str, indent: int, first: str = "") -> None:
    """Text in lines that fit the terminal, behind what stands before the first."""
    room, blank = _room(), " " * indent
    if indent + len(text) > room:
        text = " ".join(text.split())  # what was aligned is so no longer
    lines = textwrap.wrap(
        text,
        room,
        initial_indent=first or blank,
        subsequent_indent=blank,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [first.rstrip()]:
        show(line)
