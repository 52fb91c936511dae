"""Label Studio's machine-learning backend: tasks in, predictions out, named as the labelling
interface names them."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from labelwright.corpus.annotations import prediction
from labelwright.corpus.tokenizer import Entity
from labelwright.errors import OptionError

_TAG = re.compile(r"<(\w+)\b([^<>]*)>")
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
LABELS = ("Labels", "HyperTextLabels")
MOST_TASKS = 1000
LONGEST = 200_000  # characters of a labelling interface


class Interface(NamedTuple):
    """The names of a labelling interface that predictions refer to."""

    from_name: str = "label"
    to_name: str = "text"
    key: str | None = None  # of the text in the data of a task


def interface_of(config: Any) -> Interface:
    """The first list of labels of an interface, and the text that it labels.

    >>> interface_of('<View><Labels name="ner" toName="t"/><Text name="t" value="$body"/></View>')
    Interface(from_name='ner', to_name='t', key='body')
    """
    if not isinstance(config, str) or len(config) > LONGEST:
        return Interface()
    tags = [
        (name, {k: a or b for k, a, b in _ATTRIBUTE.findall(rest)})
        for name, rest in _TAG.findall(config)
    ]
    labels = next(
        (each for name, each in tags if name in LABELS and {"name", "toName"} <= each.keys()), None
    )
    if labels is None:
        return Interface()
    to_name = labels["toName"]
    value = next(
        (
            each.get("value", "")
            for _, each in tags
            if each.get("name") == to_name and "value" in each
        ),
        "",
    )
    return Interface(labels["name"], to_name, value[1:] if value.startswith("$") else None)


def tasks_in(body: Any) -> tuple[Interface, list[str]]:
    """The interface and the text of every task of a request."""
    tasks = body.get("tasks") if isinstance(body, dict) else None
    if not isinstance(tasks, list):
        raise OptionError("tasks: expected a list of tasks")
    if len(tasks) > MOST_TASKS:
        raise OptionError(f"tasks: expected at most {MOST_TASKS:,}, got {len(tasks):,}")
    interface = interface_of(body.get("label_config"))
    return interface, [_text_of(task, interface.key, n) for n, task in enumerate(tasks)]


def _text_of(task: Any, key: str | None, number: int) -> str:
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict):
        raise OptionError(f"tasks[{number}]: expected an object with data")
    name = key or (
        "text"
        if "text" in data
        else next((k for k, v in data.items() if isinstance(v, str)), "text")
    )
    text = data.get(name)
    if not isinstance(text, str):
        raise OptionError(f"tasks[{number}].data.{name[:40]}: expected a text")
    return text


def predictions(
    texts: Sequence[str], sentences: Sequence[dict[str, Any]], interface: Interface, version: str
) -> list[dict[str, Any]]:
    """A prediction for each text, from the facts about all sentences; its score is the mean of
    those of sentences."""
    names = {"from_name": interface.from_name, "to_name": interface.to_name}
    by_text: list[list[dict[str, Any]]] = [[] for _ in texts]
    for sentence in sentences:
        by_text[sentence["document"]].append(sentence)
    listed = []
    for text, of_text in zip(texts, by_text, strict=True):
        spans = [span for sentence in of_text for span in sentence["spans"]]
        keys = ("start", "end", "label", "text", "probability")
        made = prediction(
            text, [Entity(*(span[key] for key in keys)) for span in spans], names, version
        )
        scores = [
            s["confidence"] if s["probability"] is None else s["probability"] for s in of_text
        ]
        known = [score for score in scores if score is not None]
        listed.append(made | ({"score": sum(known) / len(known)} if known else {}))
    return listed
