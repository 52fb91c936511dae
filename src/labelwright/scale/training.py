"""Training on the workers of a cluster: what `fit` asks of its data, answered by partitions.

files -> vocabularies and label sets, united -> partitions encoded where they are -> cells and
counts, united weights -> all workers -> loss and gradient of each partition, added along a tree ->
L-BFGS, on this machine
"""

import secrets
from collections.abc import Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.file_formats import FileOptions
from labelwright.corpus.limits import limit_of
from labelwright.corpus.partial_labels import label_codes
from labelwright.corpus.schemes import allowed, detect_scheme
from labelwright.corpus.table import Corpus
from labelwright.corpus.tokenizer import shown_by
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import columns_within
from labelwright.features.incidence import NO_VALUES, on_tokens
from labelwright.learn.perceptron import Averaged, Outcome, UpdateRule
from labelwright.parallel import computed_once
from labelwright.scale import held
from labelwright.scale.cluster import Cluster, Shared, Told
from labelwright.scale.held import Cells, Known, OfCascade, OfTagger, Pass, Read, Source
from labelwright.scale.partitions import Bad, Partition, Reading, found, parts_of, size_of
from labelwright.scoring.parameters import Before, Parameters, Trained, make_parameters
from labelwright.scoring.parameters import Cells as LabelCells
from labelwright.structures.states import state_space
from labelwright.structures.supervision import Supervision
from labelwright.taggers.arguments import class_weights, forbidden_codes, scheme_named
from labelwright.taggers.chain_structure import CHAINS
from labelwright.taggers.estimator import untrained

Array = NDArray[Any]
# bytes of a partition, or more where these would be more than so many
SIZE, MOST = 1 << 22, 1 << 12
ONE_MACHINE = {  # settings that need all sentences in one place, and the values without them
    "optimizer": "lbfgs", "entity_rate": None, "dictionaries": None, "vectors": None,
}  # fmt: skip


class Partitions:
    """Labelled sentences in files, to train on by the workers of a Dask cluster.

    Give them to `fit`: `CRF().fit(Partitions("x/*.txt"), client=client)`.

    files : a path, an address of fsspec (s3://...), a glob, or a list of them; workers must reach
        them, too
    columns, label : names of the columns, and that of the label, as `read_columns` takes them
    scheme : rewrite the labels in this scheme
    format : columns, conllu, jsonl, parquet; by default as each file looks
    options : what else is said of the files (corpus.file_formats.FileOptions)
    size : bytes of a partition, cut behind the end of a sentence; by default 4 MB, or more where
        these are many
    skip_bad : leave out sentences that cannot be read; after `fit` they are in `bad`
    told : called with what is done, the pieces done, all pieces and the seconds left, while data
        are read
    """

    bad: list[Bad]  #: sentences that were left out

    def __init__(
        self,
        files: str | Sequence[str],
        columns: str | Sequence[str] | None = None,
        label: str | None = None,
        scheme: str | None = None,
        format: str | None = None,
        options: FileOptions | None = None,
        size: int | None = None,
        skip_bad: bool = False,
        told: Told | None = None,
    ):
        given = (options or FileOptions())._replace(
            format=format or (options or FileOptions()).format
        )
        self.reading = Reading(columns, label, scheme, given, skip_bad, limit_of(held=False))
        self.files = [files] if isinstance(files, str) else list(files)
        self.size, self.told, self.bad, self.hashes = size, told, [], list[str]()
        self.labels: dict[str, list[Any]] = {}  # by layer, once they are read

    def parts(self) -> list[Partition]:
        """Where every partition begins and ends."""
        return self._parts

    @computed_once
    def _parts(self) -> list[Partition]:
        paths = [path for pattern in self.files for path in found(pattern)]
        size = self.size or max(SIZE, sum(map(size_of, paths)) // MOST)
        return [part for path in paths for part in parts_of(path, size, self.reading)]

    @computed_once
    def head(self) -> Corpus:
        """The sentences of the first partition that has some."""
        corpora = (self.reading.corpus(part)[0] for part in self.parts())
        return next(filter(None, corpora), Corpus((), (), np.zeros(1, np.int64)))

    def on(self, client: Any) -> Any:
        """These sentences on the workers of a client, which `fit` reads there; a context.

        client : of a Dask cluster
        """
        parts = self.parts()
        if not parts:
            raise CorpusError(f"{self.files[0]}: no file there has sentences")
        return OnWorkers(self, parts, Cluster(client, self.told))


class OnWorkers:
    """Labelled sentences on the workers of a cluster, as X of `fit`; a context, which leaves
    nothing behind."""

    def __init__(self, partitions: Partitions, parts: list[Partition], cluster: Cluster):
        self.partitions, self.cluster = partitions, cluster
        run = f"{cluster.client.id}/{secrets.token_hex(8)}"
        self._source = Source(run, tuple(parts), partitions.reading, None, (), (), None, None)

    def __enter__(self) -> "OnWorkers":
        self.cluster.everywhere(held.forget_runs, self.cluster.clients())
        self.cluster.keep_copies(True)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.everywhere(held.end, self._source.run)
        self.cluster.keep_copies(False)

    # -- as the layers of a cascade read them ------------------------------------------------------

    def layered(self, cascade: Any) -> "OnWorkers":
        """The same without the labels of the layers of a cascade among its input."""
        if cascade.jackknife or cascade.lexicon is not None:
            setting = "jackknife" if cascade.jackknife else "lexicon"
            raise OptionError(
                f"{setting}: needs all sentences in one place; leave it out, or train on one "
                "machine"
            )
        return self._with(
            layers=tuple(name for name, _ in cascade.layers), cascade=untrained(cascade)
        )

    def of_layer(self, name: str) -> "OnWorkers":
        """The same with the labels of a layer."""
        return self._with(label=name)

    def over(self, name: str, trained: Any) -> "OnWorkers":
        """What the layer above a trained one reads."""
        return self._with(below=(*self._source.below, (name, _alone(trained))))

    def _with(self, **changed: Any) -> "OnWorkers":
        made = copy(self)
        made._source = self._source._replace(**changed)
        return made

    @property
    def tokenizer(self) -> Any:
        """How the words at the beginning look split."""
        return shown_by(self.partitions.head)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The columns that the lowest layer reads."""
        return tuple(held.inputs_of(self.partitions.head, self._source.layers))

    # -- what `fit` asks ---------------------------------------------------------------------------

    def prepared_for(self, model: Any) -> tuple["SpreadData", Trained]:
        """Learn the features and the state space: the training data, and what is known before
        training."""
        _check(model)
        cluster = self.cluster
        cluster.everywhere(held.forget, self._source.run, held.CORPUS)
        source = self._source._replace(model=model._untrained())
        found = cluster.reduced(
            held.read, Read.plus, len(source.parts), Shared(source), what="reading"
        )
        if found.extractor is None:
            raise CorpusError(f"{self.partitions.files[0]}: no file there has sentences")
        self.partitions.bad, self.partitions.hashes = found.bad, found.hashes
        self.partitions.labels[source.label or ""] = list(found.values)
        labels = label_codes(
            list(found.values), np.arange(len(found.values)), str(self.partitions.files[0])
        ).labels
        full = [number for number, size in sorted(found.sizes.items()) if size[1]]
        if len(full) < len(source.parts):  # others have other numbers from here on
            cluster.everywhere(held.forget, source.run)
            source = source._replace(parts=tuple(source.parts[number] for number in full))
            self._source = self._source._replace(parts=source.parts)
        source = source._replace(
            extractor=self._frequent(source, found.extractor, model), labels=tuple(labels)
        )
        shared = Shared(source)
        counted = cluster.reduced(held.count, Cells.plus, len(full), shared, what="encoding")
        known, trained = _known(model, source, counted)
        sizes = dict(
            zip(
                ("sentences", "tokens"),
                map(sum, zip(*found.sizes.values(), strict=True)),
                strict=True,
            )
        )
        return SpreadData(cluster, shared, known, counted, sizes), trained

    def _frequent(self, source: Source, extractor: Any, model: Any) -> Any:
        """The extractor of the features that occur `min_count` times."""
        columns = columns_within(extractor)
        if columns is None or columns.numbers.lines:
            raise OptionError(
                "template: reads numbers, whose scale is that of all data; train on one machine"
            )
        if model.min_count == 1:
            return extractor
        shared = Shared(source._replace(extractor=extractor))
        counts = self.cluster.reduced(held.seen, np.add, len(source.parts), shared, what="counting")
        extractor = extractor.reduced(counts >= model.min_count)[0]
        if not extractor.n_features:
            raise CorpusError(
                f"no feature occurs {model.min_count} times in the training data; lower min_count"
            )
        return extractor

    def objective(self, cascade: Any) -> "SpreadObjective":
        """What layers that were trained one after the other minimise together."""
        self.cluster.everywhere(held.forget, self._source.run, held.CORPUS)
        layers = {name: _alone(layer) for name, layer in cascade.layers_.items()}
        known = OfCascade(layers, cascade.shares or {})
        source = Shared(self._source._replace(model=untrained(cascade)))
        return SpreadObjective(self.cluster, source, known, len(self._source.parts))


def _alone(trained: Any) -> Any:
    """A trained layer for workers, which have a thread for each piece of work."""
    made = copy(trained)
    made.n_jobs = made.n_jobs or 1
    return made


def _check(model: Any) -> None:
    """Refuse what cannot be trained by partitions."""
    kind, settings = type(model).__name__, model.get_params(deep=False)
    if model._structure is not CHAINS:
        raise OptionError(
            f"client: a {kind} is trained on one machine; a cluster trains CRFs, latent CRFs, "
            "perceptrons"
        )
    for name, without in ONE_MACHINE.items():
        if settings.get(name, without) != without:
            raise OptionError(
                f"{name}: {settings[name]!r:.40} needs all sentences in one place; train on one "
                "machine"
            )
    if settings.get("prune_labels", "off") not in ("off", "auto"):
        raise OptionError("prune_labels: labels are pruned on one machine; use prune_labels='off'")
    if settings.get("update") == "arow":
        raise OptionError("update: arow has variances, which are not mixed; use update='pa'")


def _known(model: Any, source: Source, counted: Cells) -> tuple[OfTagger, Trained]:
    """The state space and the weights that there are."""
    assert source.extractor is not None
    labels, pairs, n = source.labels, counted.pairs, source.extractor.n_features
    scheme = detect_scheme(labels, pairs=pairs)
    enforced = None if model.constraints is None else scheme_named(model.constraints, scheme)
    if enforced is not None:
        _check_pairs(labels, pairs, enforced)
    transitions = model.forbidden_transitions, model.required_transitions
    forbidden = forbidden_codes(transitions, labels, pairs, model._of_part)
    space = state_space(
        labels, model._latent_states(labels, model._of_part), model.order, enforced, forbidden
    )
    of_labels = {name: LabelCells(*each) for name, each in counted.cells.items()}
    before = Before(Parameters(of_labels, len(labels)), state_space(labels), np.arange(n))
    nothing = {name: on_tokens(np.zeros(1), [], NO_VALUES) for name in of_labels}
    none, begin = np.empty(0, np.int32), np.zeros(1, np.int64)
    parameters = make_parameters(nothing, n, none, begin, space, model.cells, before)
    weights = class_weights(getattr(model, "class_weight", None), labels, counted.of_labels)
    trained = Trained(
        source.extractor, space, parameters, np.zeros(parameters.n_weights, np.float32), scheme
    )
    by_label = None if weights is None else dict(zip(labels, weights.tolist(), strict=True))
    return OfTagger(space, parameters, by_label), trained


def _check_pairs(labels: tuple[Any, ...], pairs: Any, scheme: str) -> None:
    """Refuse labels that do not keep the scheme."""
    rules, code = allowed(labels, scheme), {label: i for i, label in enumerate(labels)}
    for (before, after), n in pairs.items():
        if before is None:
            fits, what = rules.start[code[after]], f"{after} begins a sentence"
        elif after is None:
            fits, what = rules.end[code[before]], f"{before} ends a sentence"
        else:
            fits, what = rules.arc[code[before], code[after]], f"{after} follows {before}"
        if not fits:
            raise CorpusError(
                f"training labels: {what} in {n:,} places, which {scheme} does not allow; repair "
                "them (labelwright convert --repair) or train without constraints"
            )


class SpreadData:
    """Training data on workers: what a learner asks of them."""

    def __init__(
        self,
        cluster: Cluster,
        source: Shared,
        known: OfTagger,
        counted: Cells,
        sizes: dict[str, int],
    ):
        self.cluster, self.source, self.known, self.sizes = cluster, source, known, sizes
        # counted, where data on one machine have the features themselves
        self.incidences = counted.often
        self.arrays = [np.frombuffer(b"".join(counted.digests), np.uint8)]
        self.n = len(counted.digests)
        # partial, as far as anyone here can tell
        self.said = Supervision(np.ones((1, 1), np.bool_))

    def likelihood(self, trained: Trained) -> "SpreadObjective":
        """The loss of all partitions."""
        return SpreadObjective(self.cluster, self.source, self.known, self.n)

    def passes(self, trained: Trained, rule: UpdateRule, seed: int | None) -> "MixedPasses":
        """Passes over all partitions at once."""
        self.sizes["mixed_partitions"] = self.n  # so that `training_` says how it was trained
        return MixedPasses(self, rule, seed)


class SpreadObjective:
    """The sum of the objectives of all partitions; weights travel to every worker once."""

    def __init__(
        self, cluster: Cluster, source: Shared, known: Known, n: int, dtype: Any = np.float32
    ):
        self.cluster, self.source, self.known, self.n, self.dtype = (
            cluster,
            source,
            Shared(known),
            n,
            dtype,
        )

    def __call__(self, weights: Array, gradient: Array) -> float:
        """Fill `gradient` and return the loss."""
        given = self.source, self.known, Shared(weights.astype(self.dtype, copy=True))
        loss: float
        loss, gradient[:] = self.cluster.reduced(held.evaluate, held.added, self.n, *given)
        return loss

    def precise(self) -> "SpreadObjective | None":
        """The same in float64; None where it is in float64 already, or the device has none."""
        if self.dtype == np.float64 or getattr(self.source.value.model, "device", None) == "mps":
            return None
        made = copy(self)
        made.dtype = np.float64
        return made


class MixedPasses:
    """Iterative parameter mixing (McDonald, Hall & Mann 2010): a pass runs over every partition
    from the same weights, and their mean, by the number of their sentences, is where the next
    begins.  An automatic margin is that of each partition."""

    # weights in the order of the model
    layout = SimpleNamespace(laid_out=np.asarray, taken_back=np.asarray)

    def __init__(self, data: SpreadData, rule: UpdateRule, seed: int | None):
        self.data, self.rule, self.seed, self.n = data, rule, seed, data.sizes["sentences"]
        self.known = Shared(data.known)

    def one_pass(self, run: Averaged, number: int) -> Outcome:
        """One pass; the run goes on from the mixture."""
        asked = Shared(Pass(number, self.rule, self.seed, run.weights))
        given = self.data.source, self.known, asked
        mixed = self.data.cluster.reduced(held.one_pass, held.Mixed.plus, self.data.n, *given)
        mean = run.mean().astype(np.float64) * run.taken + mixed.means
        run.weights, run.taken = (mixed.weights / mixed.n).astype(np.float32), run.taken + mixed.n
        run.sums = (run.weights - mean / run.taken) * run.taken
        return Outcome(mixed.mistakes, mixed.loss, mixed.errors)

    def mean_loss(self, outcome: Outcome) -> float:
        """The loss per sentence, or the share of wrong labels."""
        return (outcome.loss if self.rule.passive else outcome.errors) / max(1, self.n)

    def share_without(self, mistakes: int) -> float:
        """The share of the sentences that led to no update."""
        return 1 - mistakes / self.n if self.n else 1.0

    def largest_norm(self) -> None:
        """Unknown: the theorems on mistakes are about passes over all sentences, one after the
        other."""
