"""Item sequences: the features of a sentence as attributes with values."""

from collections.abc import Iterable
from typing import Any

from labelwright.features.attributes import AttributeList, attributes_of


class ItemSequence:
    """The features of one sentence, converted once.

    An item is a dict {name: value} or a collection of strings.  A string value makes the attribute `name:value`, a
    number or boolean is the value of the attribute, and dicts, lists, tuples and sets are read with `name:` in front.

    >>> ItemSequence([["foo"], {"bar": {"baz": 1}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0}]
    """

    __slots__ = ("attributes",)

    def __init__(self, pyseq: "Iterable[Any] | ItemSequence"):
        if isinstance(pyseq, ItemSequence):
            self.attributes: list[AttributeList] = pyseq.attributes
            return
        try:
            self.attributes = [attributes_of(item, ":") for item in pyseq]
        except (TypeError, ValueError) as error:
            raise item_error(error) from None

    def items(self) -> list[dict[str, float]]:
        """The attributes of every item, with their values."""
        return [dict(item) for item in self.attributes]

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


class ItemError(TypeError, ValueError):
    """An item that cannot be read."""


def items_of(xseq: "Iterable[Any] | ItemSequence") -> list[Any]:
    """The items of a sequence, converted where it was an ItemSequence."""
    return xseq.attributes if isinstance(xseq, ItemSequence) else list(xseq)  # type: ignore[return-value]


def text_of(label: Any) -> str:
    """A label, which may be given as bytes."""
    if isinstance(label, bytes):
        return label.decode()
    if not isinstance(label, str):
        raise TypeError(f"expected a label that is a string, got {type(label).__name__} {label!r}")
    return label


def item_error(error: Exception) -> ItemError:
    """What is wrong with an item, without the name that other interfaces give to the sequence."""
    return ItemError(str(error).removeprefix("X: sentence 0, "))
