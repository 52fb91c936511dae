"""The formats by name: how a file is recognised, and what reads and writes it.  Nothing is imported until asked for."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.errors import LabelwrightError, ModelFileError, OptionError

if TYPE_CHECKING:
    from labelwright.interchange.chains import ChainModel


class Format(NamedTuple):
    """A kind of model file of another program."""

    title: str
    magic: bytes  # its first bytes
    suffix: str
    module: str  # which has read(data, source) -> ChainModel and write(model) -> bytes


FORMATS = {"crfsuite": Format("CRFsuite", b"lCRF", ".crfsuite", "labelwright.interchange.crfsuite")}


def load(content: bytes, source: str) -> Any:
    """The CRF in the bytes of a file of another program; whatever is wrong with the file is one ModelFileError.

    content : the bytes of the file
    source : its path, for messages
    """
    from labelwright.interchange.chains import to_crf

    known = next((known for known in FORMATS.values() if content.startswith(known.magic)), None)
    if known is None:
        raise ModelFileError(f"{source}: begins with {content[:4]!r}, expected a model of another program")
    model = import_module(known.module).read(content, source)
    try:
        return to_crf(model, known.title)
    except LabelwrightError as error:  # more labels than a CRF can have
        raise ModelFileError(f"{source}: {error}") from error


def save(tagger: Any, target: Any, form: str = "crfsuite") -> "ChainModel":
    """Write a trained tagger for another program, to a path or a binary file object, and return what was written; what
    the format cannot hold is one ModelFileError (see labelwright.interchange.chains.from_crf).

    tagger : a trained CRF
    target : a path, or a binary file object
    form : the format: crfsuite
    """
    from labelwright import modelfile
    from labelwright.interchange.chains import from_crf

    if form not in FORMATS:
        raise OptionError(f"form: expected one of {', '.join(FORMATS)}, got {form!r}")
    try:
        model = from_crf(tagger)
        content = import_module(FORMATS[form].module).write(model)
    except ModelFileError as error:
        raise ModelFileError(f"{modelfile.name_of(target)}: {error}") from error
    modelfile.store(target, content)
    return model


def format_of(path: str | Path) -> str | None:
    """The format that the suffix of a path names; None for a model of labelwright.

    path : of a model file

    >>> format_of("ner.crfsuite"), format_of("ner.safetensors")
    ('crfsuite', None)
    """
    return next((name for name, known in FORMATS.items() if str(path).lower().endswith(known.suffix)), None)
