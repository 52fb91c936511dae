"""Models on the Hugging Face Hub: `load("hf://owner/name@revision")` reads one, `push` writes one
with its card.

The model is the file model.safetensors of the repository, as `save` writes it: arrays and a JSON
header, no code. Transfer, cache, endpoint (HF_ENDPOINT) and access are those of huggingface_hub.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labelwright import __version__
from labelwright.errors import LabelwrightError, ModelFileError, OptionError

PREFIX, FILE, CARD = "hf://", "model.safetensors", "README.md"
ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
INSTALL = "needs huggingface_hub; install the extra: pip install 'labelwright[hub]'"
# scores of a report that a card names
LABELS = "f1", "precision", "recall", "token_accuracy", "sentence_accuracy"

USE = """\
```python
import labelwright

tagger = labelwright.load({address!r})
{example}
```
"""
SAFE = """\
## What the file may do

`model.safetensors` holds arrays of numbers and text, and a JSON header. **It runs no code**: it is
no pickle, nothing in it is executed or imported, and labelwright checks every array and every field
before it uses them. A file that was changed or cut short is refused by its checksum.
"""


def downloaded(address: str) -> str:
    """The path of the model file at hf://owner/name[@revision], from the cache where it is
    there."""
    repo, revision = parsed(address)
    with reported(address, ModelFileError):
        from huggingface_hub import hf_hub_download

        path: str = hf_hub_download(
            repo, FILE, revision=revision, library_name="labelwright", library_version=__version__
        )
    return path


def parsed(address: str) -> tuple[str, str | None]:
    """Repository and revision.

    >>> parsed("hf://ada/ner@v1"), parsed("hf://ada/ner")
    (('ada/ner', 'v1'), ('ada/ner', None))
    """
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise OptionError(f"{address}: expected hf://owner/name or hf://owner/name@revision")
    return found[1], found[2]


@contextmanager
def reported(address: str, kind: type[LabelwrightError]) -> Iterator[None]:
    """What goes wrong with the Hub, as one error of one line."""
    try:
        yield
    except ImportError:
        raise OptionError(f"{address}: {INSTALL}") from None
    except LabelwrightError:
        raise
    except Exception as error:  # of the network, the service and its client, which share no class
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise kind(f"{address}: {lines[0] if lines else type(error).__name__}") from error


def push(
    tagger: Any,
    address: str,
    *,
    report: Any = None,
    data: str = "",
    license: str | None = None,
    language: str | None = None,
    private: bool = False,
    message: str = "Model and card by labelwright",
) -> str:
    """Write a trained model and its card to a repository of the Hub, which is made where there is
    none, and return the address of this very version, for `load`.  Log in before: `hf auth login`.

    tagger : a trained model that `save` can write
    address : hf://owner/name, or hf://owner/name@branch
    report : what `evaluate` returned, for the card; of a cascade {layer: report}
    data : what it was trained and tested on, in words for the card
    license : of the model, as the Hub names it, such as mit
    language : of the data, such as en
    private : is a new repository private?
    message : of the commit
    """
    repo, branch = parsed(address)
    content = io.BytesIO()
    tagger.save(content)
    files = {
        FILE: content.getvalue(),
        CARD: model_card(tagger, address, report, data, license, language).encode(),
    }
    with reported(address, ModelFileError):
        from huggingface_hub import CommitOperationAdd, HfApi

        api = HfApi(library_name="labelwright", library_version=__version__)
        api.create_repo(repo, private=private, exist_ok=True)
        if branch is not None:
            api.create_branch(repo, branch=branch, exist_ok=True)
        operations = [CommitOperationAdd(name, file) for name, file in files.items()]
        commit = api.create_commit(repo, operations, commit_message=message, revision=branch)
    return f"{PREFIX}{repo}@{commit.oid}"


def model_card(
    tagger: Any,
    address: str,
    report: Any = None,
    data: str = "",
    license: str | None = None,
    language: str | None = None,
) -> str:
    """The card of a model, as Markdown: what it is, how to use it, its scores, and what its file
    may do.

    tagger, report, data, license, language : as for `push`
    address : hf://owner/name
    """
    repo, name = parsed(address)[0], type(tagger).__name__
    reports = report if isinstance(report, dict) else {} if report is None else {"": report}
    fields: dict[str, Any] = {
        "library_name": "labelwright",
        "pipeline_tag": "token-classification",
        "tags": ["labelwright", "sequence-labelling", name.lower()],
    }
    fields |= {key: value for key, value in (("license", license), ("language", language)) if value}
    if reports:
        results = [_result(layer, each) for layer, each in reports.items()]
        fields["model-index"] = [{"name": repo.split("/")[1], "results": results}]
    record, labels = getattr(tagger, "training_", {}), tagger.classes_
    named = labels if isinstance(labels, dict) else {"": labels}
    facts = [f"- model: `{name}` of labelwright {__version__}"]
    facts += [
        f"- labels{f' of {layer}' if layer else ''}: {', '.join(map(str, each))}"
        for layer, each in named.items()
    ]
    if "sentences" in record and "tokens" in record:
        facts.append(f"- trained on {record['sentences']:,} sentences, {record['tokens']:,} tokens")
    columns = tagger.reads().columns
    facts += [f"- columns: {', '.join(columns)}"] if columns else []
    is_text = len(columns or ()) == 1
    example = (
        'tagger.predict_entities(["Ada Lovelace ran."])' if is_text else "tagger.predict(sentences)"
    )
    scores = [
        f"### {layer}\n\n```text\n{each}\n```" if layer else f"```text\n{each}\n```"
        for layer, each in reports.items()
    ]
    parts = [
        "\n".join(
            ["---", *(f"{key}: {json.dumps(value)}" for key, value in fields.items()), "---"]
        ),
        f"# {repo}",
        "\n".join(facts),
        USE.format(address=f"{PREFIX}{repo}", example=example).rstrip(),
        *([f"## Data\n\n{data}"] if data else []),
        *(["## Evaluation", *scores] if scores else []),
        SAFE,
    ]
    return "\n\n".join(parts)


def _result(layer: str, report: Any) -> dict[str, Any]:
    """The scores of a report as the Hub lists them."""
    measured = [(name, getattr(report, name)) for name in LABELS]
    return {
        "task": {"type": "token-classification", **({"name": layer} if layer else {})},
        "dataset": {"name": "test data", "type": "unknown"},
        "metrics": [
            {"type": name, "value": round(value, 6)}
            for name, value in measured
            if value is not None
        ],
    }
