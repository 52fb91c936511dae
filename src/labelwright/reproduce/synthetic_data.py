"""Sun, Matsuzaki, Okanohara & Tsujii (2009), section 4: latent dependencies in synthetic data
(figure 3).

The data are drawn from a hidden Markov model, so that the accuracy of the best possible decoder is
known exactly.
"""

from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import Any

from labelwright import Corpus
from labelwright.corpus import builtin_corpus, synthetic_hmm
from labelwright.reproduce.measured import averaged, model_of, rows_of, trained
from labelwright.reproduce.work import (
    AS_PUBLISHED,
    OURS,
    VARIANTS,
    Figure,
    Findings,
    Panel,
    Result,
    Step,
    Work,
)
from labelwright.taggers.true_model import bayes_ceiling, expected_ceiling

STRENGTHS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
HEADLINE = 0.9
GROWING = (0.6, 0.75, HEADLINE)  # strengths at which gaps are compared
# its ceiling is 84.98 at P = 0.9
FAMILY: dict[str, Any] = {"length": 6, "emission": 0.1, "self_transitions": False}
EXACT = "computed"
TABLE = f"Figure 3 at P = {HEADLINE}: label accuracy"
POINTS = "Figure 3: label accuracy at all points"
BEST_DECODER = "the best possible decoder, expected"
ACCURACY, SEPARABLE = "accuracy", "separable (%)"
THEOREMS = "Mistakes of the latent perceptron on training data, and the bounds of theorems 1 to 3"
SEPARATED, NOT_SEPARATED = (
    "separable: the built-in corpus, 300 sentences",
    "not separable: P = 0.9, 3,000 sequences",
)
PERCEPTRONS = ("Lat-Perc", "Perc")
UNAVERAGED = ", without averaging, ten data sets"


# -- steps -----------------------------------------------------------------------------------------


def _model(name: str, variant: str, seed: int, latent: int) -> Any:
    settings: dict[str, Any] = {} if name == "CRF" else {"random_state": seed}
    if name in ("Lat-Perc", "DPLVM"):
        settings["n_latent"] = latent
    if name.endswith("Perc") and variant == AS_PUBLISHED:
        settings["max_iter"] = 50
    return model_of(name, variant, "U:%x[0,0]\nB", **settings)


def _drawn(p: float, seed: int, work: Work, **family: Any) -> list[Corpus]:
    """Sequences to train on, for development, and to test on."""
    sizes = (300, 100, 200) if work.quick else (3000, 1000, 3000)
    return [synthetic_hmm(n, p=p, seed=1000 * i + seed, **family) for i, n in enumerate(sizes)]


def _measured(p: float, variant: str, seed: int, latent: int, work: Work) -> Result:
    """Accuracy of every model on data of one strength; the ceiling and, of perceptrons, the
    separable share."""
    train, dev, test = _drawn(p, seed, work, **FAMILY)
    family = {name: value for name, value in FAMILY.items() if name != "length"}
    result: Result = {
        "ceiling": {ACCURACY: 100 * expected_ceiling(p=p, **FAMILY)},
        "true model": {
            ACCURACY: 100 * bayes_ceiling(test, p, decoder="marginal", **family),
            "seconds": 0.0,
        },
    }
    for name in work.task.published:
        perceptron = name.endswith("Perc")
        model, seconds = trained(
            _model(name, variant, seed, latent), train, **({"dev": dev} if perceptron else {})
        )
        result[name] = {ACCURACY: 100 * model.score(test), "seconds": seconds}
        if perceptron:
            result[name][SEPARABLE] = 100 * model.training_["convergence"]["separable"]
    shown = ", ".join(f"{name} {result[name][ACCURACY]:.1f}" for name in work.task.published)
    return result | {"shown": shown}


def _unaveraged(name: str, work: Work) -> Result:
    """A perceptron as published but for its averaging, on ten data sets."""
    runs = []
    for seed in work.some(range(10), 2):
        train, dev, test = _drawn(HEADLINE, seed, work, **FAMILY)
        model, seconds = trained(
            _model(name, AS_PUBLISHED, seed, 2).set_params(averaging="none"), train, dev=dev
        )
        runs.append({ACCURACY: 100 * model.score(test), "seconds": seconds})
    return {"runs": runs, "shown": ", ".join(f"{run[ACCURACY]:.1f}" for run in runs)}


def _theorems(work: Work) -> Result:
    """How many mistakes figure 1's algorithm makes, and how many the theorems allow: theorem 3 by
    the weights that it ends with, theorems 1 and 2 by those of a plain perceptron, where that
    separates the data."""
    found: Result = {}
    separable = builtin_corpus(50 if work.quick else 300, random_state=0)
    drawn = _drawn(HEADLINE, 0, work, **FAMILY)[0]
    for name, data, template in (
        (SEPARATED, separable, "default"),
        (NOT_SEPARATED, drawn, "U:%x[0,0]\nB"),
    ):
        options: dict[str, Any] = {"n_latent": 2, "averaging": "avg", "random_state": 0}
        options |= {"max_iter": 50, "all_passes": False}
        model, seconds = trained(model_of("Lat-Perc", AS_PUBLISHED, template, **options), data)
        split, _ = trained(
            model_of("Lat-Perc", AS_PUBLISHED, template, **options | {"start": "split"}), data
        )
        found[name] = {"mistakes": model.training_["mistakes"], "seconds": seconds}
        found[name]["theorem 3"] = model.training_["convergence"]["mistake_bound"]
        if "latent" in split.training_["convergence"]:
            found[name]["theorems 1 and 2"] = split.training_["convergence"]["latent"][
                "mistake_bound"
            ]
    return found


def _strengths(work: Work) -> Sequence[float]:
    return (0.6, HEADLINE) if work.quick else STRENGTHS


def steps(work: Work) -> list[Step]:
    steps = [
        Step(f"P = {p}, {variant}, seed {seed}", 0.4, partial(_measured, p, variant, seed, 2))
        for p in _strengths(work)
        for variant in VARIANTS
        for seed in work.seeds
    ]
    steps.append(Step("more latent states", 0.5, partial(_measured, HEADLINE, OURS, 0, 4)))
    steps += [Step(name + UNAVERAGED, 1.0, partial(_unaveraged, name)) for name in PERCEPTRONS]
    return [*steps, Step("theorems", 0.1, _theorems)]


# -- findings --------------------------------------------------------------------------------------


def _runs(system: str, variant: str, work: Work, p: float = HEADLINE) -> list[Result]:
    """The results of a system, or of what was computed, with each seed."""
    return [work.results[f"P = {p}, {variant}, seed {seed}"][system] for seed in work.seeds]


def _rows(work: Work) -> list[Any]:
    systems, nothing = work.task.published, {ACCURACY: None}
    rows = []
    for variant in VARIANTS:
        for system, published in systems.items():
            runs = _runs(system, variant, work)
            separable = {SEPARABLE: None} if SEPARABLE in runs[0] else {}
            rows += rows_of(TABLE, system, {ACCURACY: published} | separable, runs, variant)
    for name in PERCEPTRONS:
        rows += rows_of(
            TABLE,
            name + UNAVERAGED,
            {ACCURACY: systems[name]},
            work.results[name + UNAVERAGED]["runs"],
        )
    computed = {
        "the model that drew the data": _runs("true model", OURS, work),
        BEST_DECODER: _runs("ceiling", OURS, work)[:1],
    }
    for name, runs in computed.items():
        rows += rows_of(TABLE, name, nothing, runs, EXACT)
    points = [
        (p, BEST_DECODER, EXACT, _runs("ceiling", OURS, work, p)[:1]) for p in _strengths(work)
    ]
    for variant in VARIANTS:
        points += [
            (p, name, variant, _runs(name, variant, work, p))
            for name in systems
            for p in _strengths(work)
        ]
    for p, name, variant, runs in points:
        rows += [
            row._replace(metric=f"P = {p:g}")
            for row in rows_of(POINTS, name, nothing, runs, variant)
        ]
    for name in (SEPARATED, NOT_SEPARATED):
        counts = work.results["theorems"][name]
        rows += rows_of(
            THEOREMS,
            name,
            dict.fromkeys(metric for metric in counts if metric != "seconds"),
            [counts],
        )
    # the text does not tell all of how data are drawn
    return [row._replace(comparable=False) for row in rows]


def findings(work: Work) -> Findings:
    strengths, claims, panels = _strengths(work), [], []
    for variant in VARIANTS:
        by_p = {
            name: [_runs(name, variant, work, p) for p in strengths]
            for name in ("ceiling", *work.task.published)
        }
        runs = {
            name: [[run[ACCURACY] for run in each] for each in zip(*points, strict=True)]
            for name, points in by_p.items()
        }
        curves = {name: (strengths, values) for name, values in runs.items()}
        paper = {name: [(HEADLINE, accuracy)] for name, accuracy in work.task.published.items()}
        panels.append(Panel(f"P ({variant})", "label accuracy (%)", curves, paper=paper))
        _, latperc, dplvm, crf, perceptron = (
            dict(zip(strengths, map(mean, zip(*values, strict=True)), strict=True))
            for values in runs.values()
        )
        gains = {
            p: min(latperc[p], dplvm[p]) - max(crf[p], perceptron[p])
            for p in GROWING
            if p in strengths
        }
        grows = min(gains.values()) > 0 and sorted(gains.values()) == list(gains.values())
        shown = ", ".join(f"{gain:.2f} at P = {p:g}" for p, gain in gains.items())
        claims.append(work.claim("gap", grows, variant=variant, gains=shown))
        gap, p = max((abs(latperc[p] - dplvm[p]), p) for p in strengths)
        claims.append(work.claim("identical", gap < 1, variant=variant, gap=gap, p=p))
    for latent in ("Lat-Perc", "DPLVM"):
        two = _runs(latent, OURS, work)[0][ACCURACY]
        four = work.results["more latent states"][latent][ACCURACY]
        claims.append(
            work.claim("more_states", abs(two - four) < 1, system=latent, two=two, four=four)
        )
    plain, share = (
        averaged(_runs(name, AS_PUBLISHED, work), SEPARABLE)[0] for name in ("Perc", "Lat-Perc")
    )
    claims.append(work.claim("separable", plain < 10 and share > 40, plain=plain, latent=share))
    a, b = (averaged(_runs(name, AS_PUBLISHED, work), ACCURACY)[0] for name in ("CRF", "Perc"))
    claims.append(work.claim("crf", a > b, crf=a, perceptron=b))
    caption = (
        "Label accuracy against the strength P of the latent dependency: mean and range of three "
        "seeds."
    )
    return Findings(_rows(work), claims, [Figure("figure-3", caption, panels)])
