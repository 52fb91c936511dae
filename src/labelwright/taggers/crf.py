"""Linear-chain conditional random fields (Lafferty, McCallum & Pereira, 2001)."""

from labelwright.features.template import Template
from labelwright.taggers.loglinear import LogLinearModel


class CRF(LogLinearModel):
    """Conditional random field over sequences of strings, column tuples, feature dicts or rows of numbers.

    Parameters
    ----------
    template : name of a built-in template, path of a template file, or its text; for columns and strings
    order : 1: a label depends on the one before it; 2: on the two before it, and templates may have T lines
    cells : "observed" (a weight for every feature and label seen together) or "all"
    min_count : features seen less often in training are left out
    l1, l2 : the penalty is l1 |w| + l2/2 |w|^2
    optimizer : "lbfgs" (OWL-QN when l1 > 0) or "sgd"
    averaging : "none", or "avg": with SGD, run all max_iter passes and take the mean of the weights after each of the
        last third of them (with development data, the best of these means)
    max_iter : limit of iterations (1000, or 50 passes of SGD)
    tol : training stops when the loss falls by less than this share in ten iterations (SGD: 100 times this, in five)
    constraints : None, or "scheme": only labellings that the label scheme permits exist
    warm_start : fit again from the weights of the last fit
    n_jobs : threads, one per core by default; the result does not depend on it
    random_state : seed of the shuffling of SGD
    verbose : show progress on a terminal

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> CRF(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    def __init__(
        self,
        template: str | Template = "default",
        order: int = 1,
        cells: str = "observed",
        min_count: int = 1,
        l1: float = 0.0,
        l2: float = 1.0,
        optimizer: str = "lbfgs",
        averaging: str = "none",
        max_iter: int | None = None,
        tol: float = 1e-5,
        constraints: str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ):
        self.template = template
        self.order = order
        self.cells = cells
        self.min_count = min_count
        self.l1 = l1
        self.l2 = l2
        self.optimizer = optimizer
        self.averaging = averaging
        self.max_iter = max_iter
        self.tol = tol
        self.constraints = constraints
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
