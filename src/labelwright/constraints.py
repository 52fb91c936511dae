"""Rules of your own that labellings must keep, or had better keep: `tagger.decode(X, constraints=[at_least(1, "VP")])`.

They are solved exactly (inference.solver, inference.lattices), with the help of the extra labelwright[constraints].
"""

from labelwright.inference.rules import (
    Rule,
    Sentence,
    agree,
    at_least,
    at_most,
    differ,
    exactly,
    forbid,
    implies,
    linear,
    only,
    soft,
    valid_scheme,
)

__all__ = [
    "Rule",
    "Sentence",
    "agree",
    "at_least",
    "at_most",
    "differ",
    "exactly",
    "forbid",
    "implies",
    "linear",
    "only",
    "soft",
    "valid_scheme",
]
