"""Semi-Markov conditional random fields (Sarawagi & Cohen, 2004): labels of whole segments instead
of tokens."""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch, check_lengths
from labelwright.answers.graphs import DECODERS, SegmentSentence
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus, taken
from labelwright.errors import ModelFileError, OptionError
from labelwright.features.extract import ColumnFeatures, Extractor, learn
from labelwright.features.layered import LayeredFeatures
from labelwright.features.segments import SegmentFeatures
from labelwright.features.sources import Given
from labelwright.features.template import Pattern
from labelwright.kernels import segments as kernels
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.segments import (
    PartialSegmentExpectations,
    SegmentAssembly,
    SegmentExpectations,
    carry_segments,
    gold_of,
    segment_parameters,
)
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import Workers, sentence_ranges
from labelwright.scoring.assembly import BLOCK_TOKENS, Rows
from labelwright.scoring.parameters import Trained
from labelwright.settings import AtLeast, AtMost, Default, Flag, OneOf, Signed
from labelwright.structures.passing import Candidates, Passed
from labelwright.structures.segments import (
    LONGEST_SEGMENT,
    Segments,
    SegmentSpace,
    arcs_for,
    check_arcs,
    check_rows,
    cut_segments,
    grown_space,
    label_of_role,
    read_segment_space,
    row_offsets,
    segment_space,
    segments_in,
    too_long,
)
from labelwright.structures.states import state_space
from labelwright.taggers.arguments import (
    Data,
    codes_among,
    labelled,
    supervision_of,
    with_outside,
    writes,
)
from labelwright.taggers.chain_structure import Blocks, Constrained, Scoring, Source
from labelwright.taggers.crf import Likelihood
from labelwright.taggers.declared import LOG_LINEAR, chosen, declared
from labelwright.taggers.linear import LinearTagger
from labelwright.taggers.packing import (
    Packed,
    Shape,
    check_first_order,
    check_token_labels,
    pack_linear,
    read_trained,
)
from labelwright.wording import counted

Array = NDArray[Any]
ROWS_PER_TOKEN = 64  # candidates that take as much room in a block as a token

# fmt: off
OWN = declared(
    max_length=(int | None, None, (
        "Most tokens of a segment; longer ones of the training data are "
        "cut."
    ),
        AtLeast(1), AtMost(LONGEST_SEGMENT), Signed(), Flag("--max-length"),
        Default("the longest in the training data, or more (up to 8) where labels are unknown")),
    optimizer=(str, "lbfgs", "L-BFGS.", OneOf("lbfgs"), Signed()),
)
# fmt: on


class SegmentStructure:
    """What a SemiCRF does with sentences: learn features and types of segments, score, be
    stored."""

    # -- training ----------------------------------------------------------------------------------

    def carry(self, before: Trained, now: Trained, shake: bool = False) -> Array:
        """The weights of another model of segments by the numbers of this one; 0 for what it
        lacks."""
        return carry_segments(before, now)

    def prepare(self, model: Any, source: Source) -> tuple[Data, Trained]:
        """As that of chains; the segments of the training data become its gold."""
        X, y, sample_weight, more, old = source
        corpus, labels, codes, sets = labelled(X, y, () if old is None else old.space.labels)
        known, filled = _filled(labels, codes)
        given = Given(
            model.dictionaries,
            model.clusters,
            model.vectors,
            (known, filled),
            dictionary_lines=False,
        )
        if old is not None:  # nothing is held out of further data
            before = cast(SegmentFeatures, old.extractor).tokens
            given = given._replace(labels=None, numbers=getattr(before, "numbers", None))
        tokens, incidences, offsets = learn(
            corpus, model.template, model.min_count, old is not None, given
        )
        _refuse_pairs(tokens)
        if set(incidences) != {"state"}:
            raise OptionError(
                "X: a SemiCRF has no features on pairs of labels; give it features of tokens alone"
            )
        if y is not None:
            check_lengths(y, np.diff(offsets).tolist())
        if old is not None:
            space, segments = grown_space(
                _fitting(old, known), known, filled, offsets, model.max_length
            )
        elif model._given is None:
            pairs = pairs_of_codes(labels, codes, offsets)
            asked = pairs, model.max_length, codes >= len(labels)
            space, segments = segment_space(known, filled, offsets, *asked)
        else:
            space, segments = model._given, segments_in(model._given, known, filled, offsets)
        check_rows(offsets, space.max_length)
        long = too_long(segments, space.max_length)
        if long.any() and not space.has_neighbours and isinstance(X, Corpus | list):
            kept = _without(offsets, segments.start[long], space.max_length)
            X, y, weights = (
                None if given is None else taken(given, kept) for given in (X, y, sample_weight)
            )
            return self.prepare(model, source._replace(X=X, y=y, sample_weight=weights))
        if long.any():
            cut = (
                f"{counted(int(long.sum()), 'longer segment')} of the training data cut into "
                "several"
            )
            warnings.warn(f"max_length={space.max_length}: {cut}", RuntimeWarning, stacklevel=3)
        segments = cut_segments(segments, offsets, space)
        part = more or model._of_part or old is not None
        said = supervision_of(sets, codes, offsets, labels, model.class_weight, sample_weight, part)
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        features = SegmentFeatures.learn(
            tokens, corpus, segments, space, model.min_count, model.dictionaries
        )
        held = features.held_out(corpus, segments, space) if old is None else None
        if old is not None:
            features = cast(SegmentFeatures, old.extractor.merged(features))
            incidences, _ = features.tokens.encode(corpus)
        incidences = incidences | {"segment": features.incidence(corpus, offsets, held)}
        gold = gold_of(segments, offsets, space)
        gold.roles[codes >= len(labels)] = -1  # their features are seen with no label
        parameters = segment_parameters(
            incidences, features, gold, offsets, space, model.cells, old
        )
        none = np.zeros(parameters.n_weights, np.float32)
        trained = Trained(
            features, state_space(space.labels), parameters, none, space.scheme, space
        )
        data = Data(incidences, offsets, gold.kinds, said)
        if not said.plain:
            _, _, codes, sets = labelled(X, y, space.labels)
            data = _with_labels(data, space, segments, codes, sets)
        return data, trained

    def layer_data(
        self, model: Any, incidences: Any, offsets: Array, y: Any, weights: tuple[Any, Any]
    ) -> Data:
        """Sentences with their labels as joint training takes them; with any labels where there are
        none."""
        kept, space = np.unique(offsets), model.segments_  # sentences without tokens teach nothing
        if y is None:
            return Data(incidences, kept, np.full(len(incidences["segment"].keys), -1, np.int32))
        labels, codes, sets = codes_among(y, space.labels)
        known, filled = _filled(labels, codes)
        segments = segments_in(space, known, filled, offsets)
        check_rows(offsets, space.max_length)
        segments = cut_segments(segments, kept, space)
        said = supervision_of(sets, codes, offsets, labels, *weights, part=True)
        data = Data(incidences, kept, gold_of(segments, kept, space).kinds, said)
        return data if said.plain else _with_labels(data, space, segments, codes, sets)

    def objective(
        self,
        trained: Trained,
        data: Data,
        workers: Workers,
        dtype: Any = np.float32,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ) -> LogLikelihood:
        """The likelihood of these data; `slots` and `candidates` are what a layer of a cascade is
        passed and passes."""
        incidences, offsets, gold, said, codes = data
        assert trained.segments is not None
        assembly = SegmentAssembly(trained.segments, trained.parameters)
        expectations = SegmentExpectations(assembly, gold, offsets, candidates)
        if codes is not None:
            expectations = PartialSegmentExpectations(assembly, codes, said, offsets, candidates)
        features = incidences, trained.extractor.n_features, offsets, gold
        model = trained.space, trained.parameters, workers, dtype
        passing: dict[str, Any] = {"slots": slots, "candidates": candidates}
        return LogLikelihood(
            *features, *model, supervision=said, expectations=expectations, **passing
        )

    def facts(self, trained: Trained, data: Data) -> dict[str, Any]:
        """What the record of training has of this structure: nothing."""
        return {}

    # -- scoring -----------------------------------------------------------------------------------

    def under(self, trained: Trained, scheme: str | None) -> Constrained:
        """Everything: a segmentation keeps the scheme of the labels."""
        assert trained.segments is not None
        return Constrained(trained.space, SegmentAssembly(trained.segments, trained.parameters))

    def scored_blocks(self, scoring: Scoring) -> Blocks:
        """Ranges of sentences, which depend on the data alone, and what gives the scored sentences
        of one of them."""
        trained, constrained, data, permitted, workers, _ = scoring
        assert trained.segments is not None
        space, offsets = trained.segments, data.offsets
        arc = constrained.assembly.plain(trained.weights).arc.reshape(
            space.n_types + 1, space.n_types + 1
        )
        rows, row_starts = (
            Rows(trained, constrained.assembly, data, workers),
            row_offsets(offsets, space.max_length),
        )
        longest = int(np.diff(offsets).max())
        check_arcs(space, longest)
        graphs = arcs_for(space, longest)  # of the longest sentence: it serves all

        def scored(begin: int, end: int) -> list[SegmentSentence | None]:
            first, first_row = int(offsets[begin]), int(row_starts[begin])
            tokens = rows.of("state", first, int(offsets[end]))
            segments = rows.of("segment", first_row, int(row_starts[end]))
            inner, sentences = np.empty((longest + 1, space.n_long)), list[SegmentSentence | None]()
            for n, (t0, t1) in enumerate(pairwise(offsets[begin : end + 1].tolist()), begin):
                if t0 == t1:
                    sentences.append(None)
                    continue
                arcs = graphs.of(t1 - t0)
                scores = np.empty(len(arcs.first))
                places = t0 - first, segments, row_starts[n] - first_row
                kernels.arc_scores(tokens, *places, arc, *space.shape, t1 - t0, inner, scores)
                sentence = SegmentSentence(arcs, scores)
                sentences.append(
                    sentence if permitted is None else sentence.restricted(permitted[t0:t1])
                )
            return sentences

        sizes = np.maximum(np.diff(offsets), np.diff(row_starts) // ROWS_PER_TOKEN)
        return sentence_ranges(offsets_from(sizes), BLOCK_TOKENS), scored

    # -- files -------------------------------------------------------------------------------------

    def pack(self, model: Any, trained: Trained) -> Packed:
        """The tensors and the header of the model file."""
        tensors, header = pack_linear(model, trained)
        return tensors, header | {"segments": model.segments_._asdict()}

    def read(self, model: Any, tensors: TensorReader, header: HeaderReader) -> Trained:
        """What `pack` stored, after checking that everything fits together."""
        trained = read_trained(tensors, header, _shape)
        check_token_labels(tensors, trained.space.labels)
        features = cast(SegmentFeatures, trained.extractor)
        if trained.parameters.cells["segment"].ptr[features.tokens.n_features]:
            raise ModelFileError(
                "tensor segment.ptr: expected weights of segments at none of the features of tokens"
            )
        model.dictionaries = features.texts.lists() or None
        return trained


def _shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of the parts of the weight vector, and the segments."""
    check_first_order(trained, header)
    segments = read_segment_space(header.part("segments"), trained.space.labels, trained.scheme)
    features = trained.extractor
    if (
        not isinstance(features, SegmentFeatures)
        or features.texts.max_length != segments.max_length
    ):
        raise header.refuse("extractor", f"segments of up to {segments.max_length} tokens")
    shape = Shape({"state": segments.n_roles, "segment": segments.n_types}, segments.n_types + 1, 1)
    return shape, trained._replace(segments=segments)


SEGMENTS = SegmentStructure()


class SemiCRF(LinearTagger):
    """Semi-Markov conditional random field: the best segmentation into chunks, whatever scheme
    writes them down.

    The score of a segment is that of its tokens (as first, inner, last or only token of its type,
    by the U lines of the template), of its length, of its text where that was a segment in
    training, and of the dictionaries that have it; to that come the transitions from type to type.

    >>> X = [["Ada", "Lovelace", "met", "Charles", "Babbage"], ["they", "met", "Ada", "Lovelace"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER", "I-PER"], ["O", "O", "B-PER", "I-PER"]]
    >>> SemiCRF(n_jobs=1).fit(X, y).predict([["Charles", "Babbage", "met", "Ada", "Lovelace"]])
    [['B-PER', 'I-PER', 'O', 'B-PER', 'I-PER']]
    """

    _training_options: ClassVar[frozenset[str]] = LinearTagger._training_options - {
        "init",
        "client",
    }
    _structure: ClassVar[Any] = SEGMENTS
    _learner: ClassVar[Any] = Likelihood
    decoders: ClassVar[tuple[str, ...]] = DECODERS
    _rule_options: ClassVar[tuple[str, ...]] = ("probabilities",)
    _given: SegmentSpace | None = None  # by `_like`: the space that fit shall use

    _declared = chosen(
        "template max_length dictionaries cells min_count l1 l2 optimizer max_iter tol n_jobs "
        "random_state verbose clusters vectors class_weight",
        LOG_LINEAR | OWN,
    )

    max_length: int | None

    @property
    def segments_(self) -> SegmentSpace:
        """The types of segments and how they are written as labels."""
        segments = self._learnt().segments
        assert segments is not None
        return segments

    def _like(self) -> Self:
        """An untrained copy of a trained model that will have the same labels, scheme, types and
        max_length, whatever part of its training data it is trained on."""
        copy = super()._like()
        copy._given = self.segments_
        return copy

    def _weights_of(self, other: "SemiCRF") -> Array:
        mine, others = self.segments_, other.segments_
        if (mine.scheme, mine.types) != (others.scheme, others.types):
            raise OptionError(
                "weights_of: the other model has other types of segments; train it by `_like`"
            )
        return super()._weights_of(other)

    def _passed_by(self, batch: Batch, cut: float) -> Passed:
        label_of_role(self.segments_)  # an error where labels depend on the neighbours
        return super()._passed_by(batch, cut)


def _filled(labels: list[str], codes: Array) -> tuple[Sequence[str], Array]:
    """Labels and codes [T] with O where a label is not known: the segments that are."""
    if len(codes) and codes.max() >= len(labels) and detect_scheme(labels) is None:
        raise OptionError(
            "y: a SemiCRF needs every label where labels follow no chunk scheme (B-X, I-X, O, ...)"
        )
    return with_outside(labels, codes)


def _fitting(old: Trained, labels: Sequence[str]) -> SegmentSpace:
    """The segments of a trained model, whose scheme has all these labels."""
    assert old.segments is not None
    scheme = old.segments.scheme
    unfit = next(
        (label for label in labels if scheme is not None and not writes(scheme, label)), None
    )
    if unfit is not None:
        raise OptionError(
            f"labels: those of the model follow {scheme}, which has no {unfit!r}; convert the "
            "labels, or fit again"
        )
    return old.segments


def _with_labels(
    data: Data, space: SegmentSpace, segments: Segments, codes: Array, sets: Array
) -> Data:
    """The data with the labels of all tokens, by the numbers of the segment space.

    Sentences whose labels are all known have those that their segments are written as: others,
    where labels break the scheme or long segments were cut."""
    number = {label: code for code, label in enumerate(space.labels)}
    for a, b in pairwise(data.offsets.tolist()):
        if (codes[a:b] < len(space.labels)).all():
            own = slice(*np.searchsorted(segments.start, [a, b]).tolist())
            written = space.labels_of(
                Segments(segments.start[own], segments.end[own], segments.kind[own])
            )
            codes[a:b] = [number[label] for label in written]
    said = data.said._replace(sets=sets)
    return data._replace(said=said, more=codes)


def _without(offsets: Array, places: Array, max_length: int) -> Array:
    """The sentences without segments that begin at these places; a warning counts the others."""
    gone = np.unique(np.searchsorted(offsets, places, side="right") - 1)
    kept = np.setdiff1d(np.arange(len(offsets) - 1), gone)
    if not np.diff(offsets)[kept].any():
        raise OptionError(
            f"max_length: every sentence has a segment of more than {max_length} tokens; use a "
            "larger one"
        )
    warnings.warn(
        f"max_length={max_length}: {counted(len(gone), 'sentence')} with longer segments left out "
        "of training",
        RuntimeWarning,
        stacklevel=4,
    )
    return kept


def _refuse_pairs(tokens: Extractor) -> None:
    """A template must not have lines on pairs or triples of labels, neither on the input nor on the
    labels below."""
    base, patterns = tokens, list[Pattern]()
    if isinstance(tokens, LayeredFeatures):
        base = tokens.base
        patterns += tokens.above.template.patterns
    if isinstance(base, ColumnFeatures):
        patterns += base.vocabulary.template.patterns
    for pattern in patterns:
        if pattern.kind == "T" or (pattern.kind in "B*" and pattern.cells):
            # Of an upper layer, the lines on the input and on the labels below are counted apart.
            place = f"line {pattern.line}, " if base is tokens else ""
            raise OptionError(
                f"template: {place}{pattern.text!r}: a SemiCRF has no features on pairs of labels; "
                "use U lines"
            )
