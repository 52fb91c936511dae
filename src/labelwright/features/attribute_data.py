"""Files of attributes as training data: no token becomes a dict."""

from typing import NamedTuple

from labelwright.corpus.attribute_lines import parse_attribute_lines
from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.features.attributes import Collected


class AttributeData(NamedTuple):
    """Sentences as attributes with values, and their labels: what `fit` takes, and development data."""

    X: Collected
    y: list[list[str]]


def read_crfsuite(path: Source) -> AttributeData:
    """Read a data file of CRFsuite's: in each line a label and the attributes of a token, separated by tabs.

    path : a path, plain or compressed, or a binary file object

    >>> import io
    >>> X, y = read_crfsuite(io.BytesIO(b"B-NP\\tw=He\\tlength:2\\nB-VP\\tw=ran\\n"))
    >>> list(X.names), y
    (['w=He', 'length', 'w=ran'], [['B-NP', 'B-VP']])
    """
    lines = parse_attribute_lines(read_bytes(path), name_of(path), first_line_of(path))
    return AttributeData(Collected.from_lines(lines), lines.labels.y)
