"""scikit-learn's estimator conventions without scikit-learn: parameters are what the constructor names."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any, Self

from labelwright.errors import OptionError


class Estimator:
    """get_params, set_params, save and a readable repr; constructors only store, `fit` checks."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; with `deep` those of models among them, too: `classifier__k`, or where they
        stand in a list of pairs, as the layers of a cascade, `pos__l2`."""
        own = {name: getattr(self, name) for name in self._parameter_names()}
        inner = models_in(own) if deep else {}
        return own | {f"{part}__{name}": v for part, model in inner.items() for name, v in model.get_params().items()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, those of models among them as get_params names them."""
        known = self._parameter_names()
        inner: dict[str, dict[str, Any]] = {}  # a new model first, then all that is changed in it
        for name, value in parameters.items():
            part, nested, rest = name.partition("__")
            if nested:
                inner.setdefault(part, {})[rest] = value
            elif name not in known:
                raise OptionError(f"{type(self).__name__}: no parameter {name!r}, expected one of {', '.join(known)}")
            else:
                setattr(self, name, value)
        models = models_in(self.get_params(deep=False)) if inner else {}
        for part, words in inner.items():
            if part not in models:
                has = f"expected one of {', '.join(models)}" if models else "and none at all"
                name = f"{part}__{next(iter(words))}"
                raise OptionError(f"{type(self).__name__}: no model {part!r} within it for {name!r}, {has}")
            models[part].set_params(**words)
        return self

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def save(self, path: Any) -> Self:
        """Write the model to one safetensors file, whole or not at all."""
        from labelwright.taggers.files import save

        self._check_fitted()
        save(self, path)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._changed())})"

    def _changed(self, but: tuple[str, ...] = ()) -> list[str]:
        """The parameters that are not as they are by themselves, as they are written."""
        defaults = inspect.signature(type(self).__init__).parameters
        return [
            f"{k}={v!r}"
            for k, v in self.get_params(deep=False).items()
            if k not in but and v is not defaults[k].default and not _equal(v, defaults[k].default)
        ]

    def __sklearn_tags__(self) -> Any:
        """Called by scikit-learn alone, so that it is never imported for its own sake."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, string=True),
        )


def models_in(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Models among parameters, by name; those in lists of pairs, as of a cascade, too."""
    found = {}
    for name, value in parameters.items():
        pairs = value if isinstance(value, list | tuple) else []
        named = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
        for key, part in [(name, value), *named]:
            if isinstance(key, str) and hasattr(part, "set_params") and not isinstance(part, type):
                found[key] = part
    return found


def untrained(value: Any) -> Any:
    """An untrained copy of a model and the models within it, and a copy of anything else."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value)(**{name: untrained(given) for name, given in value.get_params(deep=False).items()})
    if type(value) in (list, tuple):
        return type(value)(map(untrained, value))
    return copy.deepcopy(value)


def _equal(a: Any, b: Any) -> bool:
    """Are two parameters the same?  Arrays are, where all their numbers are."""
    same = a == b
    return bool(same if isinstance(same, bool) else getattr(same, "all", lambda: same)())
