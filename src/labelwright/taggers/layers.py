"""The layers of a cascade as a recipe writes them: tables [[layers]], each with a name, a tagger and its settings."""

from collections.abc import Sequence
from typing import Any

from labelwright.errors import OptionError
from labelwright.settings import Kind, OfTheRun, Place, Setting, read_table, settings_of, without_use
from labelwright.taggers import registry
from labelwright.taggers.base import LAYER
from labelwright.wording import did_you_mean, either, shown

OF_A_LAYER = ("name", "model", "scheme")  # keys of a table beside the settings of its tagger


class LayerTables(Kind):
    """Pairs of a name and a tagger."""

    expected = "tables, [[layers]]"
    hint = 'add a table [[layers]] with name = "COLUMN" for each layer'
    example = (
        'passing = "joint"\n[[layers]]\nname = "pos"\n[[layers]]\nname = "chunk"\nmodel = "latent-crf"\nn_latent = 2'
    )

    def complaint(self, value: Any) -> str | None:
        listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
        if not listed or not all(isinstance(layer, Sequence) and len(layer) == 2 for layer in value):
            return "expected a list of pairs, [('pos', CRF()), ('chunk', CRF())]"
        names = [name for name, _ in value]
        for name, model in value:
            if not isinstance(name, str) or not name:
                return f"the name of a layer must be a string, got {name!r}"
            if names.count(name) > 1:
                return f"two layers are named {name!r}; give each a name of its own"
            if LAYER not in getattr(model, "can", ()) or isinstance(model, type):
                return (
                    f"{name}: expected a tagger (CRF, LatentCRF, SemiCRF, a perceptron, MemoryTagger, NgramTagger, "
                    f"LatticeTagger), got {type(model).__name__}; the labels of others can be a column"
                )
        return None

    def from_recipe(self, value: Any, place: Place) -> Any:
        file = place.name.partition(": ")[0]
        if not isinstance(value, list):
            raise OptionError(f"{place.name}: expected {self.expected}, got {shown(value, 60)}")
        if not value:
            raise OptionError(f"{file}: no layers; {self.hint}")
        return [_layer(file, number, table) for number, table in enumerate(value, 1)]

    def files(self, value: Any, place: Place) -> list[str]:
        tables = [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []
        return [file for table in tables for file in _files(table, place)]


def _layer(file: str, number: int, table: Any) -> tuple[str, Any]:
    """One layer, checked by itself."""
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or not name:
        got = shown(name, 60)
        raise OptionError(f'{file}: layer {number}: expected name = "COLUMN", a column of the file, got {got}')
    part = f"layer {name}: "
    model = table.get("model", "crf")
    names = layer_names()
    if model not in names:
        raise OptionError(f"{file}: {part}model: expected one of {', '.join(names)}, got {shown(model, 60)}")
    if not isinstance(table.get("scheme", ""), str):
        raise OptionError(f"{file}: {part}scheme: expected a string, got {shown(table['scheme'], 60)}")
    kind, settings = registry.model_class(model), layer_settings(model)
    given = {key: value for key, value in table.items() if key not in OF_A_LAYER}

    def unknown(key: str) -> str:
        takers = [other for other in names if key in layer_settings(other)]
        if takers:
            return f"{key}: not for a {model}, only for {either(takers)}"
        return f"unknown key {key!r}{did_you_mean(key, [*settings, *OF_A_LAYER])}"

    tagger = kind(**read_table(given, settings, file, unknown, part))
    for setting, wanted in without_use(tagger.get_params(deep=False), settings, given):
        value = getattr(tagger, wanted.setting)
        choices = " or ".join(map(repr, wanted.values))
        raise OptionError(f"{file}: {part}{setting.name}: only with {wanted.setting} = {choices}, got {value!r}")
    try:
        tagger._check_parameters()
    except OptionError as error:
        raise OptionError(f"{file}: {part}{error}") from None
    return name, tagger


def layer_names() -> list[str]:
    """The taggers that can be a layer in a recipe."""
    return [name for name in registry.command_line_names() if LAYER in registry.model_class(name).can]


def layer_settings(model: str) -> dict[str, Setting]:
    """The settings that a table of this tagger may have: all but those of the run, which the cascade has."""
    settings = settings_of(registry.model_class(model))
    return {name: s for name, s in settings.items() if s.in_recipes and not s.has(OfTheRun)}


def _files(table: dict[str, Any], place: Place) -> list[str]:
    """The files that a table names."""
    model = table.get("model", "crf")
    settings = layer_settings(model) if model in layer_names() else {}
    return [file for key, s in settings.items() if key in table for file in s.kind.files(table[key], place)]
