"""scikit-learn's estimator conventions without scikit-learn: parameters are what the constructor names."""

import inspect
from typing import Any, Self


class Estimator:
    """get_params, set_params and a readable repr; constructors only store, `fit` checks."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name."""
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                from labelwright.errors import OptionError

                raise OptionError(f"{type(self).__name__}: no parameter {name!r}, expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{k}={v!r}"
            for k, v in self.get_params(deep=False).items()
            if v is not defaults[k].default and not _equal(v, defaults[k].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Called by scikit-learn alone, so that it is never imported for its own sake."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, string=True),
        )


def _equal(a: Any, b: Any) -> bool:
    """Are two parameters the same?  Arrays are, where all their numbers are."""
    same = a == b
    return bool(same if isinstance(same, bool) else getattr(same, "all", lambda: same)())
