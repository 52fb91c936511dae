"""What memory-based models have of their own in `tag` and `eval`: inference in place of decoders."""

from typing import Any

from labelwright.errors import OptionError

INFERENCES = ("none", "vote", "csi")
LABELS_ALONE = "memory-based models have scores, not probabilities"


def refuse_inference(inference: str | None, oracle: bool = False) -> None:
    """These are about memory-based models."""
    for name, given in (("--inference", inference is not None), ("--oracle", oracle)):
        if given:
            raise OptionError(f"{name}: only for memory-based models; others have --decoder")


def check_inference(inference: str | None) -> None:
    """Refuse what is no way to a labelling."""
    if inference == "oracle":
        raise OptionError("--inference: the oracle needs the true labels; use labelwright eval MODEL TEST --oracle")
    if inference is not None and inference not in INFERENCES:
        raise OptionError(f"--inference: expected one of {', '.join(INFERENCES)}, got {inference!r}")


def refuse_decoder(decoder: str | None, options: dict[str, Any]) -> None:
    """Decoders are about lattices."""
    for name, value in {"decoder": decoder, **options}.items():
        if value is not None:
            raise OptionError(
                f"--{name.replace('_', '-')}: not for memory-based models, which have no decoders; "
                f"use --inference {', '.join(INFERENCES[:-1])} or {INFERENCES[-1]}"
            )


class Tagger:
    """A memory-based model that answers as other models without probabilities do.

    show_progress : a bar on the terminal, where a whole file is to be classified"""

    probabilistic = False
    temperature_ = None

    def __init__(self, model: Any, inference: str | None, constraints: str | None, show_progress: bool) -> None:
        check_inference(inference)
        self.model = model.set_params(verbose=1 if show_progress else 0)
        self.inference = inference or model.inference
        self.scheme_, self.windows_, self.training_ = model.scheme_, model.windows_, model.training_
        if constraints is not None:
            if self.inference != "csi":
                raise OptionError(f"--constraints: inference {self.inference} looks at single tokens; use csi")
            model._allowed(constraints)

    def encode(self, X: Any) -> Any:
        """Ask the memory once."""
        return self.model.encode(X)

    def decode(self, data: Any, _decoder: str = "", *, constraints: str | None, **_: Any) -> list[Any]:
        """The labelling of each sentence, by the inference that was asked for."""
        found: list[Any] = self.model.decode(data, self.inference, constraints=constraints)
        return found

    def predict_nbest(self, data: Any, n: int, *, constraints: str | None, **_: Any) -> list[Any]:
        """The labellings that satisfy most."""
        found: list[Any] = self.model.predict_nbest(data, n, constraints=constraints)
        return found

    def predict_oracle(self, data: Any, gold: list[list[str]]) -> list[list[str]]:
        """The true label wherever it is among the candidates."""
        found: list[list[str]] = self.model.predict_oracle(data, gold)
        return found


def check_request(tagger: Tagger, nbest: int | None, probabilities: bool, known: str | None, verbose: bool) -> None:
    """Refuse what a memory-based model has no answer to; `nbest` where it is asked for without JSON."""
    if probabilities:
        raise OptionError(f"--probabilities: {LABELS_ALONE}; inspect --data FILE shows the votes for a token's labels")
    if known is not None:
        raise OptionError("--known: not for memory-based models, which choose among candidates of their own")
    if nbest is not None and tagger.inference != "csi":
        raise OptionError(
            f"--nbest: lists labellings by what they satisfy, which --inference {tagger.inference} does not look for"
        )
    if nbest is not None and verbose:
        raise OptionError("--verbose: sums up what is proven, which --nbest does not use; add --json for both")


def ceiling(scores: dict[str, Any]) -> str:
    """What no inference exceeds, in one line."""
    shown = {"f1": scores["f1"], "token accuracy": scores["token_accuracy"]}
    listed = ", ".join(f"{name} {100 * value:.2f}" for name, value in shown.items() if value is not None)
    return f"oracle: {listed} (the true label wherever it is a candidate)"
