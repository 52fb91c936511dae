"""Chains of labels or latent states as a structure of linear taggers: dense ones, and those of
candidates, where a zero-order model prunes the labels of every token."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import check_lengths
from labelwright.answers.chains import Chains
from labelwright.answers.pruned_sentences import PrunedChains
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes, validate
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import ColumnFeatures, Extractor, learn
from labelwright.features.sources import Given
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.pruned import PrunedLikelihood, learn_pruning
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import Workers
from labelwright.scoring.assembly import Assembly, LatticeScores, bounds_of
from labelwright.scoring.candidate_scores import CandidateScores, pruned_parameters
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Before, Trained, make_parameters
from labelwright.structures.candidates import LabelLists, label_space, pieces_between
from labelwright.structures.passing import Candidates
from labelwright.structures.states import StateSpace, state_space
from labelwright.structures.supervision import Supervision
from labelwright.taggers.arguments import (
    OUTSIDE,
    Data,
    check_paths,
    codes_among,
    cut,
    forbidden_codes,
    labelled,
    scheme_named,
    supervision_of,
    with_outside,
    writes,
)
from labelwright.taggers.packing import (
    Packed,
    chain_shape,
    check_token_labels,
    pack_linear,
    read_pruned,
    read_trained,
)

Array = NDArray[Any]
SHORT = 0.01  # a share that is missing and worth a warning
SHARE = 0.999  # of gold labels that are kept, by default
MANY = 200  # labels from which "auto" prunes
ARCS_PER_SECOND = 1e9  # of an unpruned model: about what one core sums in training
PATIENCE = 10.0  # seconds of one iteration of an unpruned model that are worth a warning
Blocks = tuple[list[tuple[int, int]], Callable[[int, int], Sequence[Any]]]


class Constrained(NamedTuple):
    """What a label scheme leaves of a model."""

    space: StateSpace
    assembly: Any  # how weights become scores of its lattices, or of segment graphs


class Source(NamedTuple):
    """Sentences to learn from, as they were given."""

    X: Any
    y: Sequence[Sequence[Any]] | None  # None: those of a corpus
    sample_weight: Any = None
    more: bool = False  # may further labels come later?
    # a model that grows by the features, labels and cells of these data, and keeps its own
    old: Trained | None = None


class Scoring(NamedTuple):
    """Sentences to score."""

    trained: Trained
    constrained: Constrained
    data: Any  # encoded
    permitted: Array | None  # [T, L]  labels that are possible
    workers: Workers
    by_paths: bool  # is a labelling worth its best path?


class Pruned(NamedTuple):
    """The candidates of every token of the training data."""

    lists: LabelLists
    prior: Array  # [slots]  what the zero-order model adds to their scores
    lost: Array  # [T] bool  tokens whose gold label was pruned


class ChainStructure:
    """What linear taggers over chains do with sentences: learn features and states, score, be
    stored."""

    carry = staticmethod(carry_over)

    # -- training ----------------------------------------------------------------------------------

    def prepare(self, model: Any, source: Source) -> tuple[Data, Trained]:
        """Learn the features and the state space: the training data as integers, and what is known
        before training (all weights are zero)."""
        X, y, sample_weight, more, old = source
        if old is not None and old.pruning is not None:
            raise OptionError(
                "partial_fit: a model with pruned labels cannot grow; fit again on all data"
            )
        if old is not None and model.order != (order := old.space.graph.order):
            raise OptionError(
                f"order: the model was trained with {order}, got {model.order}; fit again"
            )
        corpus, labels, gold, sets = labelled(X, y, () if old is None else old.space.labels)
        given = Given(model.dictionaries, model.clusters, model.vectors, with_outside(labels, gold))
        if old is not None:  # nothing is held out of further data
            given = given._replace(labels=None, numbers=getattr(old.extractor, "numbers", None))
        extractor, incidences, offsets = learn(
            corpus, model.template, model.min_count, old is not None, given
        )
        patterns = (
            extractor.vocabulary.template.patterns if isinstance(extractor, ColumnFeatures) else ()
        )
        if model.order == 1 and any(pattern.kind == "T" for pattern in patterns):
            raise OptionError("template: T lines are features on three labels; use order=2")
        if y is not None:
            check_lengths(y, np.diff(offsets).tolist())
        before = None
        if old is not None:
            extractor = old.extractor.merged(extractor)
            incidences, _ = extractor.encode(corpus)
            before = Before(old.parameters, old.space, old.extractor.numbers_in(extractor))
        part = more or model._of_part or old is not None
        pairs = pairs_of_codes(labels, gold, offsets)
        scheme = _scheme_of(model, labels, pairs, old)
        enforced = None
        if model.constraints is not None:
            known = [] if len(sets) else cut([labels[code] for code in gold], offsets)
            enforced = _checked_scheme(model.constraints, scheme, known)
        rate = model.entity_rate
        said = supervision_of(
            sets, gold, offsets, labels, model.class_weight, sample_weight, part, rate
        )
        states = model._latent_states(labels, part)
        transitions = model.forbidden_transitions, model.required_transitions
        forbidden = forbidden_codes(transitions, labels, pairs, part)
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        data = Data(incidences, offsets, gold, said)
        share = None if old is not None else _share(model, len(labels), extractor, said)
        if share is not None:
            return _pruned(model, data, label_space(labels, enforced), extractor, scheme, share)
        if old is None and model.device == "cpu" and "prune_labels" in model._parameter_names():
            _warn_of_size(model.order, len(labels), int(offsets[-1]))
        space = state_space(labels, states, model.order, enforced, forbidden)
        check_paths(said, gold, offsets, space)
        inputs = incidences, extractor.n_features, gold, offsets, space, model.cells
        parameters = make_parameters(
            *inputs, before, said.sets, outside_code(model.entity_rate, labels)
        )
        return data, Trained(
            extractor, space, parameters, np.zeros(parameters.n_weights, np.float32), scheme
        )

    def layer_data(
        self, model: Any, incidences: Any, offsets: Array, y: Any, weights: tuple[Any, Any]
    ) -> Data:
        """Sentences with their labels as joint training takes them; with any labels where there are
        none.  `weights` are those of labels and of sentences."""
        kept = np.unique(offsets)
        if y is None:
            return Data(incidences, kept, np.zeros(int(offsets[-1]), np.int32))
        labels, gold, sets = codes_among(y, model._space.labels)
        said = supervision_of(sets, gold, offsets, labels, *weights, part=True)
        return Data(incidences, kept, gold, said)

    def objective(
        self,
        trained: Trained,
        data: Data,
        workers: Workers,
        dtype: Any = np.float32,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ) -> Any:
        """The likelihood of these data; `slots` and `candidates` are what a layer of a cascade is
        passed and passes."""
        incidences, offsets, gold, said, pruned = data
        if pruned is not None:
            known = incidences["state"], offsets, gold, trained.parameters, pruned.lists
            return PrunedLikelihood(*known, workers, trained.space, pruned.prior, pruned.lost)
        features = incidences, trained.extractor.n_features, offsets, gold
        model = trained.space, trained.parameters, workers, dtype
        return LogLikelihood(
            *features, *model, slots=slots, candidates=candidates, supervision=said
        )

    def facts(self, trained: Trained, data: Data) -> dict[str, Any]:
        """What the record of training has of this structure."""
        if trained.pruning is None:
            return {}
        pruning = {
            "kept": trained.pruning.share,
            "cutoff": trained.pruning.cutoff,
            "most": trained.pruning.most,
        }
        return {"pruning": pruning | {"candidates": data.more.lists.mean}}

    # -- scoring -----------------------------------------------------------------------------------

    def under(self, trained: Trained, scheme: str | None) -> Constrained:
        """The states with only the transitions that a label scheme allows."""
        space = trained.space if scheme is None else trained.space.constrained(scheme)
        return Constrained(
            space, None if trained.pruning is not None else Assembly(space, trained.parameters)
        )

    def scored_blocks(self, scoring: Scoring) -> Blocks:
        """Ranges of sentences, which depend on the data alone, and what gives the scored sentences
        of one of them."""
        trained, constrained, data, permitted, workers, by_paths = scoring
        if trained.pruning is not None:
            candidates = CandidateScores(trained, constrained.space, data, permitted)
            return (
                candidates.blocks,
                lambda begin, end: PrunedChains.of(candidates, begin, end).sentences,
            )
        scores = LatticeScores(trained, constrained.assembly, data, workers)

        def scored(begin: int, end: int) -> Sequence[Any]:
            node, arc = scores.of(begin, end)
            offsets = data.offsets[begin : end + 1]
            chains = Chains(
                node, arc, bounds_of(offsets), constrained.space, trained.scheme, by_paths
            )
            if permitted is not None:
                chains.restrict(permitted[offsets[0] : offsets[-1]][:, trained.space.label_of])
            return chains.sentences

        return scores.blocks, scored

    # -- files -------------------------------------------------------------------------------------

    def pack(self, model: Any, trained: Trained) -> Packed:
        """The tensors and the header of the model file."""
        return pack_linear(model, trained)

    def read(self, model: Any, tensors: TensorReader, header: HeaderReader) -> Trained:
        """What `pack` stored, after checking that everything fits together."""
        is_pruned = "pruning" in header and "prune_labels" in model._parameter_names()
        trained = (
            read_pruned(tensors, header)
            if is_pruned
            else read_trained(tensors, header, chain_shape)
        )
        check_token_labels(tensors, trained.space.labels)
        return trained


CHAINS = ChainStructure()


def outside_code(rate: float | None, labels: Sequence[Any]) -> int:
    """What most tokens of unknown labels are where an entity rate is expected: O; else -1, no
    label."""
    if rate is None:
        return -1
    if OUTSIDE not in labels:
        raise OptionError("entity_rate: the training data have no label O; leave it out")
    return list(labels).index(OUTSIDE)


# -- label schemes ---------------------------------------------------------------------------------


def _checked_scheme(constraints: str, of_labels: str | None, sentences: list[list[str]]) -> str:
    """The scheme that the constraints name, after a check that the training labels keep it."""
    scheme = scheme_named(constraints, of_labels)
    problems = validate(sentences, scheme)
    if problems:
        p = problems[0]
        raise CorpusError(
            f"training labels: sentence {p.sentence}, token {p.token}: {p.message}; "
            f"repair them (labelwright convert --repair) or train without constraints"
        )
    return scheme


def _scheme_of(
    model: Any, labels: list[Any], pairs: Mapping[Any, int], old: Trained | None
) -> str | None:
    """The scheme of the labels: that of the old model, unless it had none or new labels do not fit
    it; `pairs`: how often each follows each other."""
    if old is not None:
        scheme, new = old.scheme, labels[old.space.n_labels :]
        unfit = next(
            (label for label in new if scheme is not None and not writes(scheme, label)), None
        )
        if unfit is not None and model.constraints == "scheme":
            raise OptionError(
                f"constraints='scheme': the labels follow {scheme}, which has no {unfit!r}; "
                "convert the labels, or fit again"
            )
        if unfit is None and (scheme is not None or not new):
            return scheme
    return detect_scheme(labels, pairs=pairs)


# -- pruned labels ---------------------------------------------------------------------------------


def _pruned(
    model: Any,
    data: Data,
    space: StateSpace,
    extractor: Extractor,
    scheme: str | None,
    share: float,
) -> tuple[Data, Trained]:
    """The training data with the candidates of every token, and which weights exist."""
    incidences, offsets, gold = data[:3]
    cells = make_parameters(
        incidences, extractor.n_features, gold, offsets, space, model.cells
    ).cells
    L, seed = space.n_labels, model.random_state or 0
    features = incidences["state"], cells["state"], gold, offsets
    pruning, lists, scores, lost = learn_pruning(*features, L, share, seed, Workers(model.n_jobs))
    if model.prune_labels != "auto" and pruning.share < float(model.prune_labels) - SHORT:
        warnings.warn(
            f"prune_labels={model.prune_labels}: candidates have {100 * pruning.share:.1f} % of "
            "held-out gold labels, since more of them would be too many per token",
            RuntimeWarning,
            stacklevel=5,
        )
    parameters = pruned_parameters(cells, lists, gold, pieces_between(offsets, lost), L)
    none = np.zeros(parameters.n_weights, np.float32)
    trained = Trained(extractor, space, parameters, none, scheme, pruning=pruning)
    return data._replace(more=Pruned(lists, pruning.prior * scores, lost)), trained


def _share(model: Any, n_labels: int, extractor: Extractor, said: Supervision) -> float | None:
    """The share of gold labels that pruning shall keep; None where nothing is pruned."""
    if model.prune_labels == "off":
        return None
    why_not = None
    if model.order != 1:
        why_not = f"candidates are pairs of labels, got order={model.order}"
    elif not said.plain or model.entity_rate is not None:
        why_not = (
            "candidates are trained on complete labels that all count alike, without entity_rate"
        )
    elif model.forbidden_transitions or model.required_transitions:
        why_not = "candidates know no forbidden or required transitions"
    elif model.optimizer != "lbfgs":
        why_not = f"candidates are trained by L-BFGS, got optimizer={model.optimizer!r}"
    elif tuple(extractor.cell_kinds) != ("state",):
        why_not = "the template has features on pairs or triples of labels"
    elif model.device != "cpu":
        why_not = f"candidates are trained on the CPU, got device={model.device!r}"
    if model.prune_labels == "auto":
        return SHARE if n_labels >= MANY and why_not is None else None
    if why_not is not None:
        raise OptionError(f"prune_labels: {why_not}; use prune_labels='off'")
    return float(model.prune_labels)


def _warn_of_size(order: int, n_labels: int, n_tokens: int) -> None:
    """Say so where an unpruned model needs absurdly long."""
    seconds = float(n_labels) ** (order + 1) * n_tokens / ARCS_PER_SECOND
    if seconds > PATIENCE:
        warnings.warn(
            f"{n_labels:,} labels without pruning: about {seconds:,.0f} s for each iteration over "
            f"{n_tokens:,} tokens; use prune_labels={SHARE} (which needs order 1, "
            "optimizer='lbfgs' and no features on pairs of labels)",
            RuntimeWarning,
            stacklevel=5,
        )
