"""scikit-learn's estimator conventions without scikit-learn: parameters are what the constructor
names."""

import copy
import hashlib
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from labelwright import __version__, modelfile
from labelwright.corpus.token_records import listed
from labelwright.errors import ModelFileError, NotFittedError, OptionError
from labelwright.evaluate.scorers import Scoring, scorer_of
from labelwright.features.builtin import BUILTIN
from labelwright.inspection import facts, use
from labelwright.modelfile import BITS
from labelwright.settings import NOT_NEGATIVE, Help, OfTheRun, Signed, plain_signature, settings_of
from labelwright.taggers.declared import Table, constructor
from labelwright.taggers.registry import name_of
from labelwright.wording import did_you_mean, either

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer

M = TypeVar("M")


class Summary(NamedTuple):
    """What a training run came to, in short phrases."""

    sizes: list[str]  #: of the model: "12 labels"
    run: list[str]  #: of the run: "35 sentences", "3 passes"
    stopped: str = ""  #: why it ended


class InputSchema(NamedTuple):
    """What a model reads: sentences as columns of a file, as feature dicts, as arrays; or rows of a
    table."""

    kind: str  #: "columns", "dicts", "arrays", "rows"
    columns: tuple[str, ...] = ()  #: names of the columns that are read


class Estimator:
    """get_params, set_params, save and a readable repr; constructors only store, `fit` checks.

    A setting is declared once, in a table or in the constructor's signature; see
    labelwright.settings."""

    # of which the constructor is made; a class may also have one of its own
    _declared: ClassVar[Table]
    if TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any): ...

    # What the command line asks a class; the answers of a tagger that is learnt at once, from one
    # label column.
    training_: dict[str, Any]  #: the record of training: sizes, seconds, why it ended
    # arguments of fit: dev, init, checkpoint, progress, ...
    _training_options: ClassVar[frozenset[str]] = frozenset()
    _trains_in: ClassVar[str] = "iteration"  # what training is counted in
    # the names of taggers whose weights it can begin with
    _can_start_from: ClassVar[tuple[str, ...]] = ()
    # of the constructor, without what is declared beside the types
    __signature__: ClassVar[inspect.Signature]
    #: its abilities, such as probability, n-best and explanation
    can: ClassVar[frozenset[str]] = frozenset()
    scheme_: str | None = None  #: the scheme of the labels, where they follow one
    _searched: ClassVar[tuple[str, ...]] = ()  # settings that a search can choose
    # that answers depend on, and training does not
    _answer_settings: ClassVar[frozenset[str]] = frozenset()
    # trained on a part of the data, which may lack labels that settings name
    _of_part: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Write the sentences of the settings into the docstring, and a signature that a person can
        read."""
        super().__init_subclass__(**options)
        if "_declared" in vars(cls):
            cls.__init__ = constructor(cls._declared)  # type: ignore[method-assign]
        if "__init__" not in vars(cls):
            return
        cls.__signature__ = plain_signature(cls)
        described = [s for s in settings_of(cls).values() if s.has(Help)]
        if described:
            lines = [
                textwrap.fill(f"{s.name} : {s.help}", 110, subsequent_indent="    ")
                for s in described
            ]
            # Python 3.13 has removed the indentation already
            written = inspect.cleandoc(cls.__doc__ or "")
            cls.__doc__ = "\n".join([written, "", "Parameters", "----------", *lines, ""])

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(settings_of(cls))

    def _check_parameters(self) -> None:
        """Refuse settings out of range; subclasses add what settings must hold together."""
        for name, setting in settings_of(type(self)).items():
            setting.check(getattr(self, name))

    def _signature(self) -> str:
        """One line that says how the model was made: its kind, its template and its settings, as in
        crf|template:default|order:1|...|labelwright:0.1.0; or the program that it was imported
        from."""
        signed = {
            name: getattr(self, name)
            for name, s in settings_of(type(self)).items()
            if s.has(Signed)
        }
        shown = [f"template:{_template_name(*self._features_read())}"]
        program = getattr(self, "training_", {}).get("imported_from")
        for name, value in ({"imported_from": program} if program else signed).items():
            if isinstance(value, Mapping):
                shown.append(
                    f"{name}:{','.join(f'{key}={number:g}' for key, number in value.items())}"
                )
            elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
                shown.append(f"{name}:{','.join(map(str, value))}")
            elif value not in (None, 0.0, "none"):
                shown.append(f"{name}:{value}")
        shown += [
            f"{name}:{value:g}"
            for name, value in self._compression.items()
            if (name, value) != ("bits", 32) and value
        ]
        return "|".join([type(self).__name__.lower(), *shown, f"labelwright:{__version__}"])

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        """The kind of features, and the name and text of their template."""
        return "words", None

    @classmethod
    def _why_not_from(cls, old: Any) -> str | None:
        """Why training cannot start from this model, if it cannot."""
        name, this = name_of(type(old)), name_of(cls)
        names = cls._can_start_from or (this,)
        if "init" not in getattr(old, "_training_options", ()):
            return f"a {name}, from which no model can start"
        if name in names:
            return None
        alike = set(names) & set(old._can_start_from)
        why = "its labels have several states each" if alike else "its weights are of another size"
        return f"a {name}: {why}; a {this} can start from a {either(names)}"

    @classmethod
    def _refusal(cls, setting: str) -> str | None:
        """What to say of a setting that only other taggers have, where there is more to say than
        that."""
        return None

    @classmethod
    def _label_columns(cls, recipe: Mapping[str, Any]) -> dict[str, str | None] | None:
        """The columns with labels that a recipe names, each with the scheme to rewrite it in; None:
        one, by --label."""
        return None

    def _searchable_settings(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The settings that a search shall try, with these values that were given."""
        return []

    def _remember_input(self, columns: list[str], label: str | None) -> None:
        """Keep in the record which columns the training file had, and which of them is the
        label."""
        vars(self).setdefault("training_", {}).update(columns=columns, label=label)

    def _tokenizer_of(self, X: Any) -> "Tokenizer | None":
        """How the texts of training data are split, where that is known; refused if no model could
        remember it."""
        from labelwright.corpus.tokenizer import shown_by

        tokenizer: Tokenizer | None = getattr(X, "tokenizer", None) or shown_by(X)
        return None if tokenizer is None else tokenizer.check()

    def _remember_tokenizer(self, tokenizer: Any) -> None:
        """Keep in the record how the texts of the training data were split."""
        if tokenizer is not None:
            self.__dict__["training_"]["tokenizer"] = tokenizer._asdict()

    def tokenizer(self) -> "Tokenizer":
        """How to split text: as the texts of the training data were split, if it was made of
        texts."""
        from labelwright.corpus.tokenizer import tokenizer_of

        return tokenizer_of(getattr(self, "training_", {}).get("tokenizer"))

    def _forget_run(self) -> None:
        """Put settings that belong to the run, not to the model, back to their defaults."""
        settings = settings_of(type(self)).values()
        self.set_params(
            **{setting.name: setting.default for setting in settings if setting.has(OfTheRun)}
        )

    @contextmanager
    def _shown(self, progress: Any) -> Iterator[Any]:
        """What is called with every iteration: what the caller gave, or a bar."""
        if progress is not None or not self.verbose:  # type: ignore[attr-defined]
            yield progress
            return
        bar = self._progress_bar()  # type: ignore[attr-defined]
        bar.lines = True
        try:
            yield bar
        finally:
            bar.close()

    def _trouble(self) -> str | None:
        """Why a trained model is of no use, with the remedy."""
        return None

    def _summary(self) -> Summary:
        """What a training run came to."""
        return Summary([type(self).__name__], [])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; with `deep` those of models among them, too:
        `classifier__k`, or where they stand in a list of pairs, as the layers of a cascade,
        `pos__l2`.

        deep : also those of models inside this one
        """
        parameters = {name: getattr(self, name) for name in self._parameter_names()}
        inner = models_in(parameters) if deep else {}
        for part, model in inner.items():
            parameters |= {f"{part}__{name}": value for name, value in model.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, those of models among them as get_params names them.

        **parameters : settings and their new values
        """
        known = self._parameter_names()
        inner: dict[str, dict[str, Any]] = {}  # a new model first, then all that is changed in it
        for name, value in parameters.items():
            part, nested, rest = name.partition("__")
            if nested:
                inner.setdefault(part, {})[rest] = value
            elif name not in known:
                expected = f"expected one of {', '.join(known)}{did_you_mean(name, known)}"
                raise OptionError(f"{type(self).__name__}: no parameter {name!r}, {expected}")
            else:
                setattr(self, name, value)
        models = models_in(self.get_params(deep=False)) if inner else {}
        for part, changed in inner.items():
            if part not in models:
                has = f"expected one of {', '.join(models)}" if models else "and none at all"
                name = f"{part}__{next(iter(changed))}"
                raise OptionError(
                    f"{type(self).__name__}: no model {part!r} within it for {name!r}, {has}"
                )
            models[part].set_params(**changed)
        return self

    def _is_fitted(self) -> bool:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet: call fit, or labelwright.load a "
                "model file"
            )

    def score(self, X: Any, y: Any = None, *, scoring: Scoring = None) -> float:
        """F1 of chunks or entities (micro average) where the labels make some, else the token
        accuracy; or what a scorer measures.  Of a cascade it is that of the highest layer.

        X, y : sentences and their labels (of a cascade, those of all layers), or a Corpus
        scoring : "f1", "accuracy" (of tokens), "sentence" (all labels right), one of
            labelwright.evaluate.scorers, or a function of model, X and y
        """
        self._check_fitted()
        return float(scorer_of(scoring)(self, listed(X), listed(y)))

    def save(self, path: Any) -> Self:
        """Write the model to one safetensors file, whole or not at all; or to a binary file object.

        path : a path, or a binary file object
        """
        self._check_fitted()
        tensors, header = self.pack()
        modelfile.write(path, tensors, header, self._weight_names() if self._compression else None)
        return self

    def compressed(self, prune: float = 0.0, bits: int = 32) -> Self:
        """A smaller copy of this model, whose file takes as few bytes as it needs.

        prune : weights of features whose absolute value is this or less are removed, then features
            without weights and strings that no feature reads; labels stay
        bits : of each weight, 32, 16 or 8; weights of 8 bits that round to 0 are removed, too

        It is a model of its own: all answers are exact for its own weights."""
        self._check_fitted()
        if not NOT_NEGATIVE.accepts(prune):
            raise OptionError(f"prune: expected a number of 0 or more, got {prune!r}")
        if not isinstance(bits, Integral) or bits not in BITS:
            raise OptionError(f"bits: expected {either(map(str, BITS))}, got {bits!r}")
        smaller = self._compressed(float(prune), int(bits))
        before = self._compression
        record = {
            "prune": max(float(prune), before.get("prune", 0.0)),
            "bits": min(int(bits), before.get("bits", 32)),
        }
        smaller.training_ = getattr(smaller, "training_", {}) | {"compressed": record}
        return smaller

    def _compressed(self, prune: float, bits: int) -> Self:
        """A copy with fewer weights; models without weights are copied as they are."""
        for name, given, idle in (("prune", prune, 0.0), ("bits", bits, 32)):
            if given != idle:
                raise OptionError(
                    f"{name}: a {type(self).__name__} has no weights of features to reduce; leave "
                    "it out"
                )
        return copy.copy(self)

    @property
    def _compression(self) -> dict[str, Any]:
        """How the model was compressed; nothing where it was not."""
        record = getattr(self, "training_", {}).get("compressed")
        return record if isinstance(record, dict) else {}

    def _sizes(self) -> dict[str, int]:
        """How many features and weights other than 0 it has; nothing where it has none."""
        return {}

    def _weight_names(self) -> frozenset[str]:
        """The tensors of the model file that are weights of features or transitions."""
        return frozenset()

    @property
    def _outputs(self) -> dict[str, Any]:
        """The models whose labels are answered, by the name of their layer: of a cascade its
        layers, else this one."""
        return {"": self}

    def reads(self) -> InputSchema:
        """What the model reads; by default the columns of its training file that are no labels."""
        record = self.__dict__.get("training_", {})
        labels = {record.get("label")}
        return InputSchema(
            "columns", tuple(name for name in record.get("columns") or () if name not in labels)
        )

    def describe(self, top: int = 5) -> dict[str, Any]:
        """What the model has learnt, ready for JSON: what `inspect` shows; "view" says how it is
        drawn.

        top : features to show for each label
        """
        self._check_fitted()
        return facts.plain(self)

    def _describe_use(self, corpora: Sequence[Any], top: int = 5) -> dict[str, Any]:
        """How the model uses its labels on data, ready for JSON."""
        self._check_fitted()
        return use.answered_use(self, corpora, top)

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        """Which of these words were in the training data; None where the model does not tell.

        words : any words
        """
        return None

    def pack(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tensors and the header of the model file."""
        raise NotImplementedError

    @classmethod
    def unpack(cls, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored; what does not fit together is a ModelFileError."""
        raise ModelFileError(f"a {cls.__name__} cannot be stored in a model file")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._changed())})"

    def _changed(self, but: tuple[str, ...] = ()) -> list[str]:
        """The settings that are not at their default, as they are written."""
        defaults = settings_of(type(self))
        return [
            f"{k}={_shown(v)}"
            for k, v in self.get_params(deep=False).items()
            if k not in but and v is not defaults[k].default and not _equal(v, defaults[k].default)
        ]

    # -- what scikit-learn asks: called by it alone, so that it is never imported for its own sake -

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """What `check_is_fitted` asks; an estimator that does not tell has attributes such as
        `classes_`."""
        try:
            self._check_fitted()
        except NotFittedError:
            return False
        except NotImplementedError:
            return any(
                name.endswith("_") and value is not None for name, value in vars(self).items()
            )
        return True

    def get_metadata_routing(self) -> Any:
        """Which arguments of `fit` scikit-learn's tools pass on, where metadata routing is
        enabled."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = self.__dict__.get("_metadata_request")
        if request is None:
            request = MetadataRequest(owner=type(self).__name__)
            for name in _arguments_of_fit(type(self)):
                request.fit.add_request(param=name, alias=None)
        return request

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Say which arguments of `fit` scikit-learn's tools shall pass on:
        `set_fit_request(dev=True)`."""
        known = _arguments_of_fit(type(self))
        for name in requests:
            if name not in known:
                expected = f"one of {', '.join(known)}" if known else "none"
                raise OptionError(
                    f"set_fit_request: fit has no argument {name!r}, expected {expected}"
                )
        request = self.get_metadata_routing()
        for name, wanted in requests.items():
            request.fit.add_request(param=name, alias=wanted)
        self._metadata_request = request  # the name under which `clone` copies it
        return self

    def _repr_html_(self) -> str | None:
        """A diagram for notebooks, where scikit-learn is installed."""
        try:
            from sklearn.utils import estimator_html_repr
        except ImportError:
            return None
        return str(estimator_html_repr(self))


def _arguments_of_fit(kind: type[Any]) -> list[str]:
    """The arguments of `fit` beside the data."""
    named = inspect.signature(kind.fit).parameters.values()
    return [
        p.name for p in named if p.name not in ("self", "X", "y") and p.kind is not p.VAR_KEYWORD
    ]


def models_in(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Models among parameters, by name; those in lists of pairs, as of a cascade, too."""
    models = {}
    for name, value in parameters.items():
        pairs = value if isinstance(value, list | tuple) else []
        named = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
        for key, part in [(name, value), *named]:
            if isinstance(key, str) and hasattr(part, "set_params") and not isinstance(part, type):
                models[key] = part
    return models


def untrained(value: Any, part: bool = False) -> Any:
    """An untrained copy of a model and the models within it, and a copy of anything else.

    part : it is for a part of the data, which may lack labels that the settings name"""
    if hasattr(value, "get_params") and not isinstance(value, type):
        model = type(value)(
            **{name: untrained(given, part) for name, given in value.get_params(deep=False).items()}
        )
        if isinstance(model, Estimator) and (part or value._of_part):
            model._of_part = True
        return model
    if type(value) in (list, tuple):
        return type(value)(untrained(each, part) for each in value)
    return copy.deepcopy(value)


def uninterrupted(model: M) -> M:
    """A trained model that others are made of; where Ctrl-C ended its training, it ends theirs."""
    if is_interrupted(model):
        raise KeyboardInterrupt
    return model


def is_interrupted(model: Any) -> bool:
    """Whether Ctrl-C ended the training of a model, or of a model within it; it holds what was
    learnt so far."""
    record = model if isinstance(model, Mapping) else getattr(model, "training_", None)
    if not isinstance(record, Mapping):
        return False
    here = record.get("stopped") == "interrupted" or record.get("interrupted") is True
    return here or any(map(is_interrupted, record.values()))


def _shown(value: Any) -> str:
    """A setting as it is written; of functions, and of tables of phrases or words, only their
    names."""
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, Mapping) and any(
        isinstance(part, list | tuple | set | Mapping) for part in value.values()
    ):
        return "{" + ", ".join(f"{name!r}: ..." for name in itertools.islice(value, 10)) + "}"
    return repr(value)


def _equal(a: Any, b: Any) -> bool:
    """Are two parameters the same?  Arrays are, where all their numbers are."""
    same = a == b
    return bool(same if isinstance(same, bool) else getattr(same, "all", lambda: same)())


def _template_name(kind: str, template: Mapping[str, str] | None) -> str:
    """The name of a built-in template; a file's name with a hash of its text; or the kind of
    features."""
    if template is None:
        return kind
    if template["name"] in BUILTIN:
        return template["name"]
    digest = hashlib.sha256(template["text"].encode()).hexdigest()[:8]
    return f"{Path(template['name']).stem}@{digest}"
