"""Perceptrons with and without latent states (Collins 2002; Sun, Matsuzaki, Okanohara & Tsujii 2009, figure 1)."""

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.features.extract import Encoded
from labelwright.features.template import Template
from labelwright.kernels.perceptron import Rule
from labelwright.learn.convergence import convergence
from labelwright.learn.monitor import Monitor
from labelwright.learn.perceptron import EARLY, Averaged, Passes, perceptron
from labelwright.parallel import Workers
from labelwright.scoring.carry import Trained, carry_over
from labelwright.structures.lattice import Lattice, Margins, margins
from labelwright.taggers.growth import grow
from labelwright.taggers.latent_crf import LatentCRF
from labelwright.taggers.scored import ScoredModel
from labelwright.taggers.training import INTEGER, REAL, Data, Development, LatentStates, TrainableModel, listed

Array = NDArray[Any]
M = TypeVar("M", bound=TrainableModel)
AVERAGING = ("none", "avg", "mavg")
UPDATES = ("perceptron", "passive-aggressive")
PASSES = 50
PATIENCE = 20  # passes without a better score on development data
OF_A_FIT = "stopped", "seconds", "best_iteration", "best_dev", "restarts", "calibration", "mistakes", "convergence"
STARTS = ("auto", "split", "likelihood", "random")
PLAIN = 12  # passes of the perceptron whose states are split,
GOOD = 1 / 3  # and the share of the training sentences that it has to separate for that
LIKELY = 50  # iterations of the latent CRF whose states are taken over
NOISE = 1e-3  # standard deviation of the first weights of latent states,
SPLIT = 0.1  # and of what is added to those of states that are split


class Perceptron(ScoredModel):
    """Structured perceptron: decode each sentence; where labels are wrong, add the features of the gold path and take
    away those of the best one.

    Parameters
    ----------
    template, order, cells, min_count, constraints, warm_start, n_jobs, verbose : as in CRF
    averaging : "avg" (the mean of the weights after every sentence), "mavg" (the same, and every `reset_every`-th pass
        begins from it) or "none" (the last weights)
    reset_every : "mavg": passes between restarts; 2 to 8, by development data
    update : "perceptron" (a whole step) or "passive-aggressive" (no more than brings gold above the others by the
        margin, and no more than `aggressiveness` steps)
    margin : by how much each wrong label must lower the score: a number (None: 0, or 1 for passive-aggressive updates)
        or "auto": as much as an update moves the score of a token, and 2.5 times that in the first nine passes
    aggressiveness : largest step of a passive-aggressive update
    shuffle : look at the sentences of each pass in another order
    max_iter : limit of passes (50); a pass without mistakes is the last
    random_state : seed of the shuffling

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> Perceptron(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    averaging: str
    reset_every: int
    update: str
    margin: float | str | None
    aggressiveness: float
    shuffle: bool

    _numbers: ClassVar[dict[str, tuple[Any, float]]] = {
        "reset_every": (INTEGER, 1),
        "aggressiveness": (REAL, 0),
        **TrainableModel._numbers,
    }
    _online: tuple[Averaged, Rule] | None = None  # of partial_fit: weights, in the order of weights_, and its margin
    _norm: float | None = None  # of the features of a sentence, at most, where the theorems on mistakes apply
    _start_norm: float = 0.0

    def __init__(
        self,
        template: str | Template = "default",
        order: int = 1,
        cells: str = "observed",
        min_count: int = 1,
        averaging: str = "avg",
        reset_every: int = 4,
        update: str = "perceptron",
        margin: float | str | None = None,
        aggressiveness: float = 1.0,
        shuffle: bool = True,
        max_iter: int | None = None,
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
        self.averaging = averaging
        self.reset_every = reset_every
        self.update = update
        self.margin = margin
        self.aggressiveness = aggressiveness
        self.shuffle = shuffle
        self.max_iter = max_iter
        self.constraints = constraints
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> Self:
        """Look once at each of these sentences, in their order, after all that came before.

        Features and labels that are new here become part of the model.  A loaded model goes on from its weights.  Calls
        are no passes: "mavg" is "avg" here, and a margin that is ours to choose is that of the first call."""
        begun = time.perf_counter()
        self._check_parameters()
        grown = copy.copy(self)  # whatever fails, this model stays as it is
        if not hasattr(self, "weights_"):
            data = grown._prepare(X, y, more=True)
            run, rule = Averaged(grown._start(0, False)), self._rule()
            grown.history_, grown.training_ = [], {"sentences": 0, "tokens": 0}
        else:
            run, rule = self._online or (Averaged(self.weights_), self._rule())
            before = Trained(self.extractor_, self.space_, self.parameters_, run.weights)
            data = grow(grown, X, y)
            now = Trained(grown.extractor_, grown.space_, grown.parameters_, grown._start(0, False))
            none = now._replace(weights=np.zeros(grown.parameters_.n_weights))
            sums = carry_over(before._replace(weights=run.sums), none)
            run = Averaged(carry_over(before, now), sums, run.taken)
        passes = Passes(*data, grown.space_, grown.parameters_, rule, None)
        there, back = passes.layout.laid_out, passes.layout.taken_back
        run = Averaged(there(run.weights), there(run.sums), run.taken)
        mistakes, loss = passes.one_pass(run, EARLY)
        grown._online = Averaged(back(run.weights), back(run.sums), run.taken), passes.rule
        grown.weights_ = back(run.weights if self.averaging == "none" else run.mean())
        record = {
            "iteration": len(grown.history_) + 1,
            "loss": loss,
            "mistakes": mistakes,
            "separable": passes.share_without(mistakes),
            "seconds": time.perf_counter() - begun,
        }
        grown.history_ = [*grown.history_, record]
        grown.training_ = {name: value for name, value in grown.training_.items() if name not in OF_A_FIT} | {
            "sentences": grown.training_["sentences"] + passes.n,
            "tokens": grown.training_["tokens"] + len(data.gold),
            "features": grown.extractor_.n_features,
            "weights": len(grown.weights_),
            "iterations": record["iteration"],
            "loss": loss,
        }
        self.__dict__.update(grown.__dict__)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("averaging", AVERAGING)
        self._check_choice("update", UPDATES)
        number = isinstance(self.margin, REAL) and not isinstance(self.margin, bool) and 0 <= self.margin < np.inf
        if not number and self.margin not in (None, "auto"):
            raise OptionError(f"margin: expected a number of 0 or more, or 'auto', got {self.margin!r}")
        if self.aggressiveness == 0:
            raise OptionError("aggressiveness: expected a number above 0, got 0, with which nothing is learnt")
        if self.update == "passive-aggressive" and self.margin == 0:
            raise OptionError("margin: passive-aggressive updates need one above 0")

    def _stopping(self) -> dict[str, Any]:
        limit = self.max_iter or PASSES
        return {"max_iter": limit, "tol": -np.inf, "first": 1, "dev_every": 1, "patience": PATIENCE}

    def _rule(self) -> Rule:
        passive = self.update == "passive-aggressive"
        margin = passive if self.margin is None else np.nan if self.margin == "auto" else self.margin
        return Rule(float(margin), passive, float(self.aggressiveness))

    def _optimise(
        self, data: Data, weights: Array, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        self._online = None
        seed = (self.random_state or 0) if self.shuffle else None
        passes = Passes(*data, self.space_, self.parameters_, self._rule(), seed)
        plain = not passes.rule.passive and passes.rule.margin == 0 and self.averaging != "mavg"
        self._norm = passes.largest_norm() if plain else None
        self._start_norm = float(np.linalg.norm(weights.astype(np.float64)))
        return perceptron(passes, weights, monitor, self.averaging, self.reset_every, state)

    def _after(self, data: Data, development: Development | None) -> None:
        super()._after(data, development)
        gold, starts = data.gold, data.offsets

        def question(n: int, lattice: Lattice) -> Margins:
            return margins(lattice, gold[starts[n] : starts[n + 1]])

        encoded = Encoded(data.layers, data.offsets, self._owner)
        found = self._each(encoded, question, Margins(0.0, 0.0, -np.inf))
        norm = float(np.linalg.norm(self.weights_.astype(np.float64)))
        seen = convergence(found, norm, self._norm, len(self.history_), self._start_norm)
        self.training_["mistakes"] = sum(record["mistakes"] for record in self.history_)
        self.training_["convergence"] = seen._asdict()


class LatentPerceptron(LatentStates, Perceptron):
    """A perceptron over latent states: each label owns private states, and the score of a labelling is that of its best
    path.

    Parameters
    ----------
    n_latent : latent states per label: one number for all, or {label: number}
    start : "split" (the states of a plain perceptron of twelve passes), "likelihood" (the states of a latent CRF of 50
        iterations), "random" (small weights) or "auto" (split where the plain perceptron separates a third of the
        training sentences, else likelihood); `fit(init=model)` goes before it
    n_restarts : train from so many random starts and keep the best on development data (or by loss)
    random_state : seed of the random starts, and of the shuffling
    All other parameters are those of Perceptron; by default averaging is "mavg" and margin "auto" (0 is the paper's).

    >>> X = [["her", "brother", "ran"], ["he", "saw", "her"]]
    >>> y = [["B", "I", "O"], ["B", "O", "B"]]
    >>> LatentPerceptron(n_latent=2, n_jobs=1, random_state=0).fit(X, y).predict([["her", "brother", "ran"]])
    [['B', 'I', 'O']]
    """

    def __init__(
        self,
        n_latent: int | Mapping[str, int] = 4,
        template: str | Template = "default",
        order: int = 1,
        cells: str = "observed",
        min_count: int = 1,
        averaging: str = "mavg",
        reset_every: int = 4,
        update: str = "perceptron",
        margin: float | str | None = "auto",
        aggressiveness: float = 1.0,
        shuffle: bool = True,
        max_iter: int | None = None,
        start: str = "auto",
        n_restarts: int = 1,
        constraints: str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            template, order, cells, min_count, averaging, reset_every, update, margin, aggressiveness, shuffle,
            max_iter, constraints, warm_start, n_jobs, random_state, verbose,
        )  # fmt: skip
        self.n_latent = n_latent
        self.start = start
        self.n_restarts = n_restarts

    def fit(self, X: Any, y: Sequence[Sequence[str]] | None = None, *, init: Any = None, **options: Any) -> Self:
        """Train as Perceptron.fit does; without `init`, from the start that the parameter `start` names."""
        self._check_parameters()
        X = listed(X)
        again = self.warm_start and hasattr(self, "weights_")
        record: dict[str, Any] | None = None
        if init is None and not again and self.start != "random" and max(self._numbers_of_states()) > 1:
            record = {"of": self.start}
            if self.start != "likelihood":
                init = self._plain(X, y)
                record["plain_separable"] = init.training_["convergence"]["separable"]
                enough = self.start == "split" or record["plain_separable"] >= GOOD
                record["of"] = "split" if enough else "likelihood"
            if record["of"] == "likelihood":
                init = self._likely(X, y)
        super().fit(X, y, init=init, **options)
        if record is not None:
            self.training_["start"] = record
        return self

    def _plain(self, X: Any, y: Sequence[Sequence[str]] | None) -> Perceptron:
        """A perceptron with the same words but one state for each label."""
        own = {"averaging": "avg", "max_iter": min(PLAIN, self.max_iter or PLAIN), "verbose": 0, "warm_start": False}
        words = {name: value for name, value in self.get_params().items() if name in Perceptron._parameter_names()}
        return _whole(Perceptron(**words | own).fit(X, y))

    def _likely(self, X: Any, y: Sequence[Sequence[str]] | None) -> LatentCRF:
        """A latent CRF with the same words: sums over all paths tell states apart where single paths get stuck."""
        own = {"averaging": "none", "max_iter": LIKELY, "verbose": 0, "warm_start": False, "n_restarts": 1}
        words = {name: value for name, value in self.get_params().items() if name in LatentCRF._parameter_names()}
        return _whole(LatentCRF(**words | own).fit(X, y))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("start", STARTS)

    def _start(self, restart: int, split: bool) -> Array:
        """Small random weights: equal states would stay equal for ever."""
        if not self.space_.latent:
            return super()._start(restart, split)
        rng = np.random.default_rng([self.random_state or 0, restart])
        return rng.normal(0, SPLIT if split else NOISE, self.parameters_.n_weights).astype(np.float32)


def _whole(model: M) -> M:
    """A model whose training was not interrupted."""
    if model.training_["stopped"] == "interrupted":
        raise KeyboardInterrupt
    return model
