"""Linear-chain conditional random fields (Lafferty, McCallum & Pereira, 2001)."""

from typing import ClassVar

from labelwright.taggers import declared
from labelwright.taggers.pruning import PrunableModel


class CRF(PrunableModel):
    """Conditional random field over sequences of strings, column tuples, feature dicts or rows of numbers.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> CRF(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    _can_start_from: ClassVar[tuple[str, ...]] = ("crf", "latent-crf")

    def __init__(
        self,
        template: declared.Template = "default",
        order: declared.Order = 1,
        cells: declared.Cells = "observed",
        min_count: declared.MinCount = 1,
        l1: declared.L1 = 0.0,
        l2: declared.L2 = 1.0,
        optimizer: declared.Optimizer = "lbfgs",
        averaging: declared.SgdAveraging = "none",
        max_iter: declared.MaxIter = None,
        tol: declared.Tol = 1e-5,
        constraints: declared.Constraints = None,
        prune_labels: declared.PruneLabels = "auto",
        warm_start: declared.WarmStart = False,
        n_jobs: declared.Jobs = None,
        random_state: declared.Seed = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
        vectors: declared.Vectors = None,
        class_weight: declared.ClassWeight = None,
        forbidden_transitions: declared.ForbiddenTransitions = None,
        required_transitions: declared.RequiredTransitions = None,
        entity_rate: declared.EntityRate = None,
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
        self.prune_labels = prune_labels
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.dictionaries = dictionaries
        self.clusters = clusters
        self.vectors = vectors
        self.class_weight = class_weight
        self.forbidden_transitions = forbidden_transitions
        self.required_transitions = required_transitions
        self.entity_rate = entity_rate
