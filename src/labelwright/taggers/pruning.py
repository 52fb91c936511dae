"""Models with many labels: a zero-order model prunes the labels of every token, training and decoding take the rest."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.answers.candidate_chains import PrunedChains
from labelwright.errors import OptionError
from labelwright.features.extract import Encoded, Extractor
from labelwright.features.incidence import Incidence
from labelwright.kernels import compiled
from labelwright.learn.monitor import Monitor
from labelwright.learn.owlqn import minimised
from labelwright.learn.pruned_objective import PrunedLikelihood
from labelwright.learn.zero_order import learn_pruning
from labelwright.parallel import Workers
from labelwright.scoring.candidate_scores import CandidateScores, pruned_parameters
from labelwright.scoring.parameters import Trained, make_parameters
from labelwright.structures.candidates import LabelLists, label_space, pieces_between
from labelwright.structures.supervision import Supervision
from labelwright.taggers.linear import Constrained
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.packing import (
    FITTED,
    Packed,
    check_calibration,
    check_token_labels,
    constructed,
    read_record,
    template_setting,
)
from labelwright.taggers.pruned_packing import pack_pruned, read_pruned
from labelwright.taggers.training import Data, Labels
from labelwright.validation import HeaderReader, TensorReader

Array = NDArray[Any]
SHORT = 0.01  # a share that is missing and worth a warning
SHARE = 0.999  # of gold labels that are kept, by default
MANY = 200  # labels from which "auto" prunes
ARCS_PER_SECOND = 1e9  # of an unpruned model: about what one core sums in training
PATIENCE = 10.0  # seconds of one iteration of an unpruned model that are worth a warning


class PrunedData(NamedTuple):
    """The training data as integers, with the candidates of every token."""

    incidences: dict[str, Incidence]
    offsets: Array  # [N+1]
    gold: Array  # [T]  labels
    said: Supervision
    lists: LabelLists
    prior: Array  # [slots]  what the zero-order model adds to their scores
    lost: Array  # [T] bool  tokens whose gold label was pruned


class PrunableModel(LogLinearModel):
    """A log-linear model that prunes labels where it has many of them."""

    prune_labels: float | str

    # -- training -----------------------------------------------------------------------------------------------------

    def _with_parameters(self, data: Data, labels: Labels, extractor: Extractor) -> tuple[Data, Trained]:
        share = self._share(len(labels.labels), extractor, data.said)
        if share is None:
            self._warn_of_size(len(labels.labels), int(data.offsets[-1]))
            return super()._with_parameters(data, labels, extractor)
        space = label_space(labels.labels, labels.constraints)
        incidences, offsets, gold, _ = data
        cells = make_parameters(incidences, extractor.n_features, gold, offsets, space, self.cells).cells
        L, seed = space.n_labels, self.random_state or 0
        workers = Workers(self.n_jobs)
        features = incidences["state"], cells["state"], gold, offsets
        pruning, lists, scores, lost = learn_pruning(*features, L, share, seed, workers)
        self._warn_of_share(pruning.share)
        parameters: Any = pruned_parameters(cells, lists, gold, pieces_between(offsets, lost), L)
        none = np.zeros(parameters.n_weights, np.float32)
        trained = Trained(extractor, space, parameters, none, labels.scheme, pruning=pruning)
        return cast(
            Data, PrunedData(incidences, offsets, gold, data.said, lists, pruning.prior * scores, lost)
        ), trained

    def _share(self, n_labels: int, extractor: Extractor, said: Supervision) -> float | None:
        """The share of gold labels that pruning shall keep; None where nothing is pruned."""
        if self.prune_labels == "off":
            return None
        why_not = self._why_not_pruned(extractor, said)
        if self.prune_labels == "auto":
            return SHARE if n_labels >= MANY and why_not is None and compiled() else None
        if why_not is not None:
            raise OptionError(f"prune_labels: {why_not}; use prune_labels='off'")
        return float(self.prune_labels)

    def _warn_of_share(self, kept: float) -> None:
        """Say so where the candidates have clearly fewer of the gold labels than was asked for."""
        if self.prune_labels != "auto" and kept < float(self.prune_labels) - SHORT:
            warnings.warn(
                f"prune_labels={self.prune_labels}: candidates have {100 * kept:.1f} % of held-out gold labels, since "
                "more of them would be too many per token",
                RuntimeWarning,
                stacklevel=5,
            )

    def _why_not_pruned(self, extractor: Extractor, said: Supervision) -> str | None:
        """What the candidates of a token cannot have."""
        if self.order != 1:
            return f"candidates are pairs of labels, got order={self.order}"
        if not said.plain or self.entity_rate is not None:
            return "candidates are trained on complete labels that all count alike, without entity_rate"
        if self.forbidden_transitions or self.required_transitions:
            return "candidates know no forbidden or required transitions"
        if self.optimizer != "lbfgs":
            return f"candidates are trained by L-BFGS, got optimizer={self.optimizer!r}"
        if tuple(extractor.cell_kinds) != ("state",):
            return "the template has features on pairs or triples of labels"
        return None

    def _warn_of_size(self, n_labels: int, n_tokens: int) -> None:
        """Say so where an unpruned model needs absurdly long."""
        seconds = float(n_labels) ** (self.order + 1) * n_tokens / ARCS_PER_SECOND
        if seconds > PATIENCE:
            warnings.warn(
                f"{n_labels:,} labels without pruning: about {seconds:,.0f} s for each iteration over {n_tokens:,} "
                f"tokens; use prune_labels={SHARE} (which needs order 1, optimizer='lbfgs' and no features on pairs of "
                "labels)",
                RuntimeWarning,
                stacklevel=5,
            )

    def _optimise(
        self, start: Trained, data: Data, monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        if start.pruning is None:
            return super()._optimise(start, data, monitor, workers, state)
        incidences, offsets, gold, _, lists, prior, lost = cast(PrunedData, data)
        parameters: Any = start.parameters
        known = incidences["state"], offsets, gold, parameters, lists
        problem = PrunedLikelihood(*known, workers, start.space, prior, lost)
        return minimised(problem, start.weights, self.l1, self.l2, monitor, workers, state)

    def _record(self, data: Data, best: Monitor, monitors: list[Monitor]) -> dict[str, Any]:
        record = super()._record(data, best, monitors)
        if self._trained.pruning is None:
            return record
        pruning = self._trained.pruning
        return record | {
            "pruning": {
                "kept": pruning.share,
                "cutoff": pruning.cutoff,
                "most": pruning.most,
                "candidates": cast(PrunedData, data).lists.mean,
            }
        }

    def _facts_of_run(self) -> list[str]:
        pruning = self.training_.get("pruning")
        if not isinstance(pruning, Mapping):
            return super()._facts_of_run()
        kept = f"{100 * pruning['kept']:.2f} % of held-out gold labels"
        return [*super()._facts_of_run(), f"pruned to {pruning['candidates']:.1f} labels per token ({kept})"]

    def _check_can_grow(self) -> None:
        if self._trained.pruning is not None:
            raise OptionError("partial_fit: a model with pruned labels cannot grow; fit again on all data")

    def _joint_objective(self, *arguments: Any, **options: Any) -> Any:
        self._check_fitted()
        if self._trained.pruning is not None:
            raise OptionError(
                "joint training: a layer with pruned labels cannot learn with others; use prune_labels='off'"
            )
        return super()._joint_objective(*arguments, **options)

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _scored_blocks(
        self, trained: Trained, constrained: Constrained, data: Encoded, permitted: Array | None, workers: Workers
    ) -> tuple[list[tuple[int, int]], Callable[[int, int], Batch]]:
        if trained.pruning is None:
            return super()._scored_blocks(trained, constrained, data, permitted, workers)
        scores = CandidateScores(trained, constrained.space, data, permitted)

        def scored(begin: int, end: int) -> Batch:
            sentences: Sequence[Any] = PrunedChains.of(scores, begin, end).sentences
            return self._batch(sentences, begin)

        return scores.blocks, scored

    def _under(self, trained: Trained, scheme: str | None) -> Constrained:
        if trained.pruning is None:
            return super()._under(trained, scheme)
        return Constrained(trained.space if scheme is None else trained.space.constrained(scheme), None)

    # -- model file ---------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        trained = self._learnt()
        return super().pack() if trained.pruning is None else pack_pruned(self, trained)

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        arrays, fields = TensorReader.of(tensors), HeaderReader.of(header)
        if "pruning" not in fields:
            return super().unpack(tensors, header)
        model: Self = constructed(cls, fields, **template_setting(fields.part("features")))
        model._trained = read_pruned(arrays, fields)
        check_token_labels(arrays, model._trained.space.labels)
        model._take_back(model._trained.extractor)
        model.training_, model.history_ = read_record(fields, FITTED, cls._of_iteration)
        check_calibration(HeaderReader(model.training_, "header: training"), model.weights_)
        return model
