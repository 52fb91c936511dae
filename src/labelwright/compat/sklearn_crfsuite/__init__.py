"""The interface of sklearn-crfsuite on labelwright: `CRF`, `metrics`, `scorers`, `utils`."""

from labelwright.compat.sklearn_crfsuite import metrics, utils
from labelwright.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF", "metrics", "utils"]
