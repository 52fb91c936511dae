"""Sun, Matsuzaki, Okanohara & Tsujii (2009): the latent perceptron on Bio-NER (table 2) and NP
chunking (table 4).

Every system is a line of a table: what it is, its settings, and the paper's figures.  Its number of
passes is chosen on development data.
"""

from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import Any

from labelwright.reproduce.measured import (
    best,
    claimed,
    model_of,
    parts_of,
    rows_of,
    scored,
    settings_of,
    trained,
)
from labelwright.reproduce.work import (
    AS_PUBLISHED,
    OURS,
    Figure,
    Findings,
    Panel,
    Result,
    Step,
    Work,
)
from labelwright.wording import counted

METRICS = ("F1", "iterations", "train time")
PLATEAU = 30  # passes until it is reached
TIMED = ("Lat-Perc, cc=15, odr=1", "DPLVM-BFGS, cc=15, odr=1")


def _variant(name: str) -> str:
    return OURS if name.endswith(f", {OURS}") else AS_PUBLISHED


def _seeds(name: str, work: Work) -> Sequence[int]:
    """The seeds of a system; one alone does not depend on chance, or takes too long."""
    return work.some(range(work.task.systems[name].get("seeds", 1)))


def _run(name: str, seed: int) -> str:
    """The name of a system's step, and of its labels."""
    return f"{name}, seed {seed}"


# -- steps -----------------------------------------------------------------------------------------


def _chosen(what: str, choices: Sequence[int], work: Work) -> int:
    """The best of several settings on development data."""
    return int(best({n: work.results[f"{what} {n}"]["F1"] for n in choices}))


def _model(kind: str, variant: str, seed: int, settings: dict[str, Any], work: Work) -> Any:
    """An untrained model of a system; latent ones have the number of states, and the k, that was
    chosen."""
    task = work.task
    options: dict[str, Any] = {"template": task.templates[settings.get("order", 1) - 1]}
    if kind in task.averaging:
        options["averaging"] = task.averaging[kind]
    options |= settings
    if kind in ("Lat-Perc", "DPLVM") and "n_latent" not in options:
        options["n_latent"] = task.latent
        if variant == OURS:
            options["n_latent"] = _chosen("latent states", work.some(task.states), work)
    if options.get("averaging") == "mavg" and "reset_every" not in options:
        options["reset_every"] = _chosen("k =", work.some(task.resets, 2), work)
    if kind != "CRF":
        options["random_state"] = seed
    if work.quick:
        options["max_iter"] = min(3, options["max_iter"])
    return model_of(kind, variant, device=work.device, **options)


def _tuned(variant: str, settings: dict[str, Any], work: Work) -> Result:
    """The best F1 on development data of a latent perceptron with these settings."""
    parts, options = parts_of(work), {"averaging": "mavg"} | work.task.tuning | settings
    model, seconds = trained(
        _model("Lat-Perc", variant, 0, options, work), parts.train, dev=parts.dev
    )
    f1 = 100 * max(record["dev"] for record in model.history_)
    return {"F1": f1, "seconds": seconds, "shown": f"F1 {f1:.2f} on development data"}


def _tested(name: str, seed: int, work: Work) -> Result:
    """Scores on the test data; perceptrons after the number of passes that was best on development
    data.

    Seconds are those of all passes up to it, without the reading of features."""
    parts, system = parts_of(work), work.task.systems[name]
    settings = {
        setting: value
        for setting, value in system.items()
        if setting not in ("kind", "minutes", "seeds")
    }
    kind = system["kind"]
    model = partial(_model, kind, _variant(name), seed)
    if kind.endswith("Perc"):
        tagger, _ = trained(model(settings, work), parts.train, dev=parts.dev)
        scores = [record["dev"] for record in tagger.history_]
        passes = 1 + scores.index(max(scores))
        if parts.whole is not parts.train:
            tagger, _ = trained(model(settings | {"max_iter": passes}, work), parts.whole)
        seconds = tagger.history_[passes - 1]["seconds"]
    else:
        tagger, _ = trained(model(settings, work), parts.whole)
        passes, seconds = tagger.training_["iterations"], tagger.history_[-1]["seconds"]
    labels = tagger.predict(parts.test)
    work.keep_labels(_run(name, seed), labels)
    result = scored(parts.test.y, labels)
    shown = f"F1 {result['F1']:.2f}, {counted(passes, tagger._trains_in)}"
    effort = {"iterations": passes, "train time": seconds, "seconds": seconds}
    return result | effort | {"settings": settings_of(tagger), "shown": shown}


def _stability(averaging: str, work: Work) -> Result:
    """F1 on development data after every pass, with order 1."""
    parts, passes = parts_of(work), PLATEAU + work.task.stability
    settings = work.task.tuning | {"averaging": averaging, "max_iter": 6 if work.quick else passes}
    model, seconds = trained(
        _model("Lat-Perc", AS_PUBLISHED, 0, settings, work), parts.train, dev=parts.dev
    )
    scores = [100 * record["dev"] for record in model.history_]
    late = scores[len(scores) // 2 if work.quick else PLATEAU :]
    shown = f"from {min(late):.2f} to {max(late):.2f} after the plateau"
    return {
        "scores": scores,
        "low": min(late),
        "high": max(late),
        "seconds": seconds,
        "shown": shown,
    }


def _compared(work: Work) -> Result:
    """Tests between all pairs of systems, of the first seed."""
    return {
        "pairs": work.differences(
            parts_of(work).test.y, {name: _run(name, 0) for name in work.task.systems}
        )
    }


def steps(work: Work) -> list[Step]:
    task = work.task
    steps = [
        Step(f"k = {k}", task.tuning_minutes, partial(_tuned, AS_PUBLISHED, {"reset_every": k}))
        for k in work.some(task.resets, 2)
    ]
    for n in work.some(task.states):
        steps.append(
            Step(
                f"latent states {n}", task.tuning_minutes, partial(_tuned, OURS, {"n_latent": n}), 1
            )
        )
    steps += [
        Step(_run(name, seed), system["minutes"], partial(_tested, name, seed), 2)
        for name, system in task.systems.items()
        for seed in _seeds(name, work)
    ]
    for averaging in ("avg", "mavg") if task.stability else ():
        steps.append(
            Step(
                f"stability of {averaging}",
                task.tuning_minutes * 10,
                partial(_stability, averaging),
                1,
            )
        )
    return [*steps, Step("significance", 1.5, _compared, 3)]


# -- findings --------------------------------------------------------------------------------------


def findings(work: Work) -> Findings:
    task = work.task
    rows, means = [], {}
    for name in task.systems:
        runs = [work.results[_run(name, seed)] for seed in _seeds(name, work)]
        system, paper = (
            name.removesuffix(f", {OURS}"),
            dict.fromkeys(METRICS) | task.published.get(name, {}),
        )
        rows += rows_of(task.table, system, paper, runs, _variant(name), f"`{runs[0]['settings']}`")
        means[name] = mean(run["F1"] for run in runs)
    for name, result in work.results.items():
        if name.startswith(("k = ", "latent states")):
            variant = AS_PUBLISHED if name.startswith("k") else OURS
            rows += rows_of("Choices on development data", name, {"F1": None}, [result], variant)
    pairs = work.results["significance"]["pairs"]
    claims = [claimed(pairs, a, relation, b, means=means) for a, relation, b in task.claims]
    figures = []
    if task.stability:
        stable = {
            averaging: work.results[f"stability of {averaging}"] for averaging in ("avg", "mavg")
        }
        avg, mavg = ((run["high"] - run["low"]) / 2 for run in stable.values())
        claims.append(work.claim("stable", mavg < avg, avg=avg, mavg=mavg))
        curves = {
            name: (range(1, 1 + len(run["scores"])), [run["scores"]])
            for name, run in stable.items()
        }
        caption = "F1 of the latent perceptron on development data after each pass (order 1)."
        figures = [Figure("stability", caption, [Panel("pass", "F1 (%)", curves)])]
    if all(name in task.systems for name in TIMED):
        each = [
            run["seconds"] / run["iterations"]
            for run in (work.results[_run(name, 0)] for name in TIMED)
        ]
        # the paper's numbers of iterations
        whole = [seconds * n for seconds, n in zip(each, (45, 300), strict=True)]
        ratio = whole[1] / whole[0]
        # which trains batches, not perceptrons
        on_gpu = "device=" in work.results[_run(TIMED[1], 0)]["settings"]
        holds = None if on_gpu else ratio >= 130
        claims.append(work.claim("fast", holds, a_pass=each[0], iteration=each[1], ratio=ratio))
    return Findings(rows, claims, figures)
