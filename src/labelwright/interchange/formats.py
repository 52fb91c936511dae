"""Models for CRFsuite, read and written by path; nothing is imported until asked for."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelwright.errors import ModelFileError, OptionError

if TYPE_CHECKING:
    from labelwright.interchange.chains import ChainModel

FORMATS = {"crfsuite": ".crfsuite"}  # that are written, and how paths of such files end


def load(content: bytes, source: str) -> Any:
    """The CRF in the bytes of a file of CRFsuite's; whatever is wrong with the file is one
    ModelFileError.

    content : the bytes of the file
    source : its path, for messages
    """
    from labelwright.interchange import chains, crfsuite

    return chains.to_crf(crfsuite.read(content, source))


def save(tagger: Any, target: Any, form: str = "crfsuite") -> "ChainModel":
    """Write a trained tagger for another program, to a path or a binary file object, and return
    what was written; what the format cannot hold is one ModelFileError (see
    labelwright.interchange.chains.from_crf).

    tagger : a trained CRF
    target : a path, or a binary file object
    form : the format: crfsuite
    """
    from labelwright import modelfile
    from labelwright.interchange import chains, crfsuite

    if form not in FORMATS:
        raise OptionError(f"form: expected one of {', '.join(FORMATS)}, got {form!r}")
    try:
        model = chains.from_crf(tagger)
        content = crfsuite.write(model)
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
    return next(
        (name for name, suffix in FORMATS.items() if str(path).lower().endswith(suffix)), None
    )
