"""Perceptrons with and without latent states (Collins 2002; Sun, Matsuzaki, Okanohara & Tsujii
2009, figure 1), with passive-aggressive updates and AROW."""

import copy
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch
from labelwright.answers.chains import PATH_DECODERS
from labelwright.errors import OptionError
from labelwright.features.extract import Encoded
from labelwright.learn.monitor import Checkpoints, Monitor
from labelwright.learn.perceptron import (
    EARLY,
    Averaged,
    Averaging,
    Passes,
    UpdateRule,
    convergence,
    latent_separability,
    perceptron,
)
from labelwright.parallel import Workers
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Trained
from labelwright.structures.lattice import Margins, margins
from labelwright.taggers.arguments import Data
from labelwright.taggers.base import CONFIDENCE, JOINT, PROBABILITY, Confidences
from labelwright.taggers.crf import LatentCRF
from labelwright.taggers.declared import PERCEPTRON, chosen
from labelwright.taggers.linear import LinearTagger, Noise, State, finished, lasting

Array = NDArray[Any]
PASSES = 50
PATIENCE = 20  # passes without a better score on development data
PLAIN = 12  # passes of the perceptron whose states are split,
GOOD = 1 / 3  # and the share of the training sentences that it has to separate for that
LIKELY = 50  # iterations of the latent CRF whose states are taken over
# of a step, which all latent states of a label take: as l2_latent = 3 l2 of latent CRFs
SHARED = 0.75
CAN = LinearTagger.can - {PROBABILITY, JOINT} | {CONFIDENCE}
# the power of the number of wrong labels that the margin is multiplied with; is it there in
# decoding?
COSTS = {
    "augmented": (1.0, True),
    "labels": (1.0, False),
    "root": (0.5, False),
    "sentence": (0.0, False),
}


class Online:
    """Weights that are changed by mistakes, sentence by sentence."""

    remedy = "use a smaller margin and aggressiveness"
    of_iteration: tuple[str, ...] = ("loss", "mistakes")
    recorded: tuple[str, ...] = ("mistakes", "separable")
    noise = Noise(1e-3, 0.1)
    tolerance = None
    may_change = ("max_iter",)

    def __init__(self, model: Any):
        self.model = model
        self.facts: dict[str, Any] = {}
        self.start_norm = 0.0  # of the weights to start from
        # of the features of a sentence, at most, where the theorems on mistakes apply;
        self.norm: float | None = None
        self.has_norm = False  # not known where the run was finished before it was resumed
        self.plain: Any = None  # the plain perceptron of this fit, where it separates the data

    def check(self) -> None:
        """Refuse settings that do not fit together."""
        model = self.model
        if model.update != "perceptron" and model.margin == 0:
            raise OptionError(f"margin: {model.update} updates need one above 0")
        if model.all_passes and model.epsilon > 0:
            raise OptionError(
                "epsilon: with all_passes, no loss ends the training; leave one of them out"
            )

    def stopping(self) -> dict[str, Any]:
        """When training stops: arguments of Monitor."""
        limit = self.model.max_iter or PASSES
        patience = limit + 1 if self.model.all_passes else PATIENCE
        return {"max_iter": limit, "tol": -np.inf, "first": 1, "dev_every": 1, "patience": patience}

    def rule(self) -> UpdateRule:
        """How much a mistake changes."""
        model = self.model
        passive, adaptive = model.update != "perceptron", model.update == "arow"
        share = SHARED if getattr(model, "share", False) else 0.0
        margin = float(
            passive if model.margin is None else np.nan if model.margin == "auto" else model.margin
        )
        if not passive:
            return UpdateRule(margin, False, np.inf, share=share)
        power, augmented = COSTS[model.cost]
        if adaptive:
            return UpdateRule(
                margin, True, np.inf, float(model.gamma), power, augmented, float(model.variance)
            )
        limit = float(model.aggressiveness) if model.slack == "linear" else np.inf
        damping = 0.5 / float(model.aggressiveness) if model.slack == "quadratic" else 0.0
        return UpdateRule(margin, True, limit, damping, power, augmented, share=share)

    def begin(self, start: Trained) -> None:
        """Before a run from a starting point."""
        vars(self.model).pop("_online", None)
        self.start_norm, self.has_norm = (
            float(np.linalg.norm(start.weights.astype(np.float64))),
            False,
        )

    def optimise(
        self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: State | None
    ) -> Array:
        """The best weights from a starting point; `state` is that of a run to resume."""
        passes = self._passes(start, data, workers)
        self._measure(passes)
        averaging = Averaging(self.model.averaging, self.model.reset_every)
        epsilon = None if self.model.all_passes else self.model.epsilon
        return perceptron(passes, start.weights, monitor, averaging, epsilon, state)

    def _passes(self, trained: Trained, data: Data, workers: Workers) -> Passes:
        model = self.model
        seed = (model.random_state or 0) if model.shuffle else None
        if not isinstance(data, Data):  # on the workers of a cluster
            return data.passes(trained, self.rule(), seed)
        return Passes(
            *data[:4],
            trained.space,
            trained.parameters,
            self.rule(),
            seed,
            model.batch_size,
            workers,
        )

    def _measure(self, passes: Passes) -> None:
        rule = passes.rule
        plain = (
            not rule.passive
            and rule.margin == 0
            and not rule.share
            and self.model.averaging != "mavg"
        )
        self.norm, self.has_norm = passes.largest_norm() if plain else None, True

    def finish(self, data: Data, development: Any) -> None:
        """Calibrate on development data, and tell how far the weights separate the training
        data."""
        model = self.model
        if development is not None and model.calibration:
            with suppress(OptionError):  # none of its labellings is possible
                model.calibrate(development.X, development.y)
        record = model.training_
        record["mistakes"] = sum(each["mistakes"] for each in model.history_)
        if data.said.partial:  # which of several labellings is right is not known
            record["convergence"] = {"separable": model.history_[-1]["separable"]}
            return
        if not self.has_norm:
            self._measure(self._passes(model._trained, data, Workers(model.n_jobs)))
        gold, starts = data.gold, data.offsets

        def question(batch: Batch) -> list[Margins]:
            codes = (
                gold[starts[n] : starts[n + 1]]
                for n in range(batch.first, batch.first + len(batch))
            )
            return [margins(s.lattice, y) for s, y in zip(batch, codes, strict=True)]  # type: ignore[union-attr]

        encoded = Encoded(data.incidences, data.offsets, model._extractor.mark)
        norm = float(np.linalg.norm(model.weights_.astype(np.float64)))
        seen = convergence(
            model._ask(encoded, question), norm, self.norm, len(model.history_), self.start_norm
        )
        record["convergence"] = seen._asdict()
        if self.plain is not None and "margin" in record["convergence"]:
            plain, margin = self.plain
            copied = carry_over(
                plain, model._trained._replace(weights=np.zeros_like(model.weights_))
            )
            norms = [
                float(np.linalg.norm(weights.astype(np.float64)))
                for weights in (copied, plain.weights)
            ]
            latent = latent_separability(margin, norms[0] / norms[1], self.norm, self.start_norm)
            record["convergence"]["latent"] = latent._asdict()

    def learn_further(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Look once at each sentence, in their order; a loaded model goes on from its weights."""
        begun, model = time.perf_counter(), self.model
        grown = copy.copy(model)  # whatever fails, this model stays as it is
        if not model._is_fitted():
            data, trained = model._prepare(X, y, sample_weight, more=True)
            rule = self.rule()
            run = Averaged.begin(model._begun(trained, 0, False).weights, rule)
            grown.history_, grown.training_ = [], {"sentences": 0, "tokens": 0}
        else:
            run, rule = vars(model).get("_online") or (
                Averaged.begin(model.weights_, self.rule()),
                self.rule(),
            )
            old = model._trained
            data, trained = model._prepare(X, y, sample_weight, old=old)
            run = _carried(run, old, model._begun(trained, 0, False), rule)
        incidences, offsets, gold, said, _ = data
        passes = Passes(
            incidences, offsets, gold, said, trained.space, trained.parameters, rule, None
        )
        run = run.moved(passes.layout.laid_out)
        mistakes, loss, _ = passes.one_pass(run, EARLY)
        run = run.moved(passes.layout.taken_back)
        grown._online = run, passes.rule
        grown._trained = trained._replace(
            weights=run.weights if model.averaging == "none" else run.mean()
        )
        seconds = time.perf_counter() - begun
        record = {
            "iteration": len(grown.history_) + 1,
            "loss": loss,
            "mistakes": mistakes,
            "separable": passes.share_without(mistakes),
            "seconds": seconds,
        }
        before = grown.training_
        grown.history_ = [*grown.history_, record]
        grown.training_ = lasting(before) | {
            "sentences": before.get("sentences", 0) + passes.n,
            "tokens": before.get("tokens", 0) + len(gold),
            "features": trained.extractor.n_features,
            "weights": len(grown.weights_),
            "iterations": record["iteration"],
            "loss": loss,
            "seconds": round(before.get("seconds", 0.0) + seconds, 3),
            "labelwright": __version__,
        }
        vars(model).update(vars(grown))


def _carried(run: Averaged, old: Trained, now: Trained, rule: UpdateRule) -> Averaged:
    """A run whose model has grown: new weights have no past."""
    new = Averaged.begin(now.weights, rule)

    def carried(before: Array, start: Array) -> Array:
        return (
            carry_over(old._replace(weights=before), now._replace(weights=start))
            if len(start)
            else start
        )

    weights, sums = carried(run.weights, new.weights), carried(run.sums, new.sums)
    return Averaged(weights, sums, run.taken, carried(run.variances, new.variances))


class ByMistakes(Confidences):
    """What perceptrons have in common: scores of paths, which are no probabilities."""

    _trains_in: ClassVar[str] = "pass"
    _learner: ClassVar[Any] = Online
    can: ClassVar[frozenset[str]] = CAN
    decoders: ClassVar[tuple[str, ...]] = PATH_DECODERS
    _by_paths: ClassVar[bool] = True


class Perceptron(ByMistakes, LinearTagger):
    """Structured perceptron: decode each sentence; where labels are wrong, add the features of the
    gold path and take away those of the best one.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> Perceptron(n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    [['D', 'N', 'V']]
    """

    _can_start_from: ClassVar[tuple[str, ...]] = ("perceptron",)

    _declared = chosen(
        "template order cells min_count averaging reset_every update margin cost aggressiveness "
        "slack variance gamma shuffle batch_size max_iter epsilon constraints warm_start n_jobs "
        "random_state verbose dictionaries clusters vectors calibration class_weight "
        "forbidden_transitions required_transitions all_passes",
        PERCEPTRON,
    )


class LatentPerceptron(ByMistakes, LinearTagger):
    """A perceptron over latent states: each label owns private states, and the score of a labelling
    is that of its best path.

    >>> X = [["her", "brother", "ran"], ["he", "saw", "her"]]
    >>> y = [["B", "I", "O"], ["B", "O", "B"]]
    >>> tagger = LatentPerceptron(n_latent=2, n_jobs=1, random_state=0).fit(X, y)
    >>> tagger.predict([["her", "brother", "ran"]])
    [['B', 'I', 'O']]
    """

    _can_start_from: ClassVar[tuple[str, ...]] = ("perceptron", "latent-perceptron")

    _declared = chosen(
        "n_latent template order cells min_count averaging reset_every update margin cost "
        "aggressiveness slack variance gamma share shuffle batch_size max_iter epsilon start "
        "n_restarts constraints warm_start n_jobs random_state verbose dictionaries clusters "
        "vectors calibration class_weight forbidden_transitions required_transitions all_passes",
        PERCEPTRON,
        averaging="mavg",
        margin="auto",
    )

    n_latent: int | Mapping[str, int]
    share: bool
    update: str
    start: str

    def _first_model(
        self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None, learner: Any
    ) -> LinearTagger | None:
        """What the parameter `start` names: a plain perceptron, whose states are split, or a latent
        CRF, whose sums over all paths tell states apart where single paths get stuck."""
        most = max(self.n_latent.values()) if isinstance(self.n_latent, Mapping) else self.n_latent
        if self.start == "random" or most == 1:
            return None
        plain = None
        learner.facts["start"] = {"of": self.start}
        if self.start != "likelihood":
            own = {
                "averaging": "avg",
                "max_iter": min(PLAIN, self.max_iter or PLAIN),
                "all_passes": False,
            }
            plain = finished(self._other(Perceptron, own, X, y, places, "first1"))
            seen = plain.training_["convergence"]
            if (seen.get("margin") or 0.0) > 0:
                learner.plain = plain._trained, seen["margin"]
            enough = self.start == "split" or seen["separable"] >= GOOD
            of = "split" if enough else "likelihood"
            learner.facts["start"] = {"of": of, "plain_separable": seen["separable"]}
        if learner.facts["start"]["of"] == "split":
            return plain
        own = {
            "averaging": "none",
            "max_iter": LIKELY,
            "n_restarts": 1,
            "share": self.share and self.update != "arow",
        }
        likely: LinearTagger = finished(self._other(LatentCRF, own, X, y, places, "first2"), plain)
        return likely

    def _other(
        self,
        kind: type[Any],
        own: dict[str, Any],
        X: Any,
        y: Any,
        places: Checkpoints | None,
        part: str,
    ) -> Any:
        """A tagger of another kind with the same settings, but for its own ones, trained to start
        from."""
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name in kind._parameter_names()
        }
        place = None if places is None else places.part(part)
        return kind(**settings | {"verbose": 0, "warm_start": False} | own).fit(
            X, y, checkpoint=place
        )
