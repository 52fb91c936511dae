"""Sun & Tsujii (2009): latent-dynamic inference on Bio-NER (table 3, figure 4) and NP chunking
(tables 4 and 5).

Both tasks run the same steps: variances and numbers of latent states on development data, figures
on development data with the chosen model, then three seeds of each variant, decoded by every method
on the test data.
"""

import time
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from labelwright import Corpus
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
    VARIANTS,
    Claim,
    Figure,
    Findings,
    Panel,
    Result,
    Step,
    Work,
)

NEAR = 0.05  # points of F1 that are no difference
MANY = 800  # paths that have 90 % of the probability
LATENT = "latent CRF"
PAIRS = "Pairs of systems (seed 0): paired bootstrap on F1, McNemar's test on tokens"
SWEEPS = "Sweeps on development data (F1)"
LIMITS = "Limits on the search, on development data"
STARTS = "Random starts, as published, on development data; the best start on the test data"
USUAL = 0.01  # the standard deviation of the random weights


# -- steps -----------------------------------------------------------------------------------------


def _model(kind: str, variant: str, seed: int, settings: dict[str, Any], work: Work) -> Any:
    """An untrained model, as published but for these settings."""
    latent = {"n_latent": work.task.states, "random_state": seed} if kind == LATENT else {}
    quick = {"max_iter": 5} if work.quick else {}
    return model_of(
        kind, variant, device=work.device, **latent | work.task.settings | settings | quick
    )


def _decoded(name: str, model: Any, test: Corpus, how: dict[str, Any], work: Work) -> Result:
    """Scores and seconds of a decoder on encoded data, what it has proven, and its labels kept
    under a name."""
    data = model.encode(test)
    model.decode(model.encode(test.take(slice(0, 1))), **how)  # a first call reads compiled code
    begun = time.perf_counter()
    answers = model.decode(data, **how)
    seconds = time.perf_counter() - begun
    labels = [answer.labels for answer in answers]
    work.keep_labels(name, labels)
    result = scored(test.y, labels) | {"time": seconds, "seconds": seconds}
    paths = mean(each.latent_paths or 0 for each in answers)
    return result | {"exact (%)": 100 * mean(each.exact for each in answers), "latent paths": paths}


def _sweeps(work: Work) -> dict[str, tuple[str, dict[str, Any], str]]:
    """What is compared on development data: a kind of model, settings and their variant, by the
    name of the step."""
    variances = (0.1, 1.0, 10.0) if work.quick else work.task.variances
    sweeps = {
        f"{kind}, variance {v:g}": (kind, {"l2": 1 / v}, AS_PUBLISHED)
        for kind in ("CRF", LATENT)
        for v in variances
    }
    for n in work.some(work.task.states_tried):
        sweeps[f"latent states {n}"] = (LATENT, {"n_latent": n}, AS_PUBLISHED)
    for kind, choices in work.task.ours.items():
        sweeps |= {
            f"our {kind} {n}": (kind, each, OURS) for n, each in enumerate(work.some(choices), 1)
        }
    return sweeps


def _swept(name: str, work: Work) -> Result:
    """F1 on development data of one setting, trained on a part of the training data; ours on all of
    it, latent models once for each seed."""
    (kind, settings, variant), parts = _sweeps(work)[name], parts_of(work)
    train, shown, seeds = parts.train.take(slice(0, work.task.sweep)), "", [0]
    if variant == OURS:
        train, shown = (
            parts.train,
            ", ".join(f"{key} {value}" for key, value in settings.items()) + ": ",
        )
        seeds = list(work.some(work.task.seeds_tried)) if kind == LATENT else seeds
    runs = []
    for seed in seeds:
        model, seconds = trained(_model(kind, variant, seed, settings, work), train)
        runs.append({"F1": scored(parts.dev.y, model.predict(parts.dev))["F1"], "seconds": seconds})
    f1 = mean(run["F1"] for run in runs)
    return {"F1": f1, "runs": runs, "shown": f"{shown}F1 {f1:.2f} on development data"}


def _curves(seed: int, work: Work) -> Result:
    """Figures 2, 4 and 5 and the alpha rule: a model of the training part, decoded on development
    data."""
    parts, ns = parts_of(work), work.some(work.task.steps, work.task.steps.index(100) + 1)
    model, _ = trained(_model(LATENT, AS_PUBLISHED, seed, {}, work), parts.train)
    curves: Result = {"n": {}, "alpha": {}}
    for rule, value in [*(("n", n) for n in ns), *(("alpha", a) for a in work.task.alphas)]:
        how = {"decoder": "ldi", "n": ns[-1], rule: value}
        curves[rule][f"{value:g}"] = _decoded(
            f"dev {rule}={value:g}, seed {seed}", model, parts.dev, how, work
        )
    mass = [float(share) for share in model._path_mass(parts.dev, 100 if work.quick else 2000)]
    at = curves["n"]["30"]
    shown = (
        f"n = 30: F1 {at['F1']:.2f}, {at['exact (%)']:.0f} % exact, {at['latent paths']:.0f} "
        "latent paths"
    )
    return curves | {"mass": mass, "shown": shown}


def _tested(kind: str, variant: str, seed: int, work: Work) -> Result:
    """One seed: the model, decoded by every method."""
    parts, settings = parts_of(work), {}
    if variant == OURS:
        swept = {
            name: work.results[name]["F1"]
            for name in _sweeps(work)
            if name.startswith(f"our {kind} ")
        }
        settings = _sweeps(work)[best(swept)][1]
    model, _ = trained(_model(kind, variant, seed, settings, work), parts.whole)
    answers = {}
    for system, options in (
        work.task.decoders if kind == LATENT else {"CRF": work.task.decoders["BHP"]}
    ).items():
        limited = options | ({"n": 300} if work.quick and options.get("n", 0) > 300 else {})
        answers[system] = _decoded(
            f"{system}, {variant}, seed {seed}", model, parts.test, limited, work
        )
    shown = ", ".join(f"{name} {answer['F1']:.2f}" for name, answer in answers.items())
    return {
        "systems": answers,
        "l2": model.l2,
        "settings": settings_of(model),
        "shown": f"F1 {shown}",
    }


def _started(deviation: float, seed: int, work: Work) -> Result:
    """A start with random weights of this standard deviation: F1 and exactitude on development
    data, F1 on the test data of the model of the training part."""
    parts, model = parts_of(work), _model(LATENT, AS_PUBLISHED, seed, {}, work)
    usual = model._begun

    def begun(*how: Any) -> Any:
        start = usual(*how)
        return start._replace(weights=start.weights * np.float32(deviation / USUAL))

    model._begun = begun
    trained(model, parts.train)
    name, approximate = f"start {deviation:g}, seed {seed}", work.task.decoders["LDI-A"]
    dev = _decoded(name, model, parts.dev, approximate, work)
    one = _decoded(name, model, parts.dev, approximate | {"n": 1}, work)["exact (%)"]
    test = _decoded(name, model, parts.test, approximate, work)["F1"]
    shown = f"F1 {dev['F1']:.2f} on development data, {dev['exact (%)']:.0f} % exact"
    return dev | {"exact at n = 1 (%)": one, "F1, test": test, "shown": shown}


def _starts(work: Work) -> dict[float, list[str]]:
    """The names of the steps of each standard deviation, by seed."""
    return {
        d: [f"start {d:g}, seed {seed}" for seed in work.seeds]
        for d in work.some(work.task.deviations, 2)
    }


def _compared(variant: str, work: Work) -> Result:
    """Tests between all pairs of systems, of the first seed."""
    names = {system: f"{system}, {variant}, seed 0" for system in ("CRF", *work.task.decoders)}
    return {"pairs": work.differences(parts_of(work).test.y, names)}


def steps(work: Work) -> list[Step]:
    takes = work.task.minutes
    steps = [
        Step(name, takes[f"our {kind}" if variant == OURS else kind], partial(_swept, name))
        for name, (kind, _, variant) in _sweeps(work).items()
    ]
    steps += [
        Step(f"search steps, seed {seed}", takes["curves"], partial(_curves, seed))
        for seed in work.seeds
    ]
    for deviation, names in _starts(work).items():
        steps += [
            Step(name, takes["start"], partial(_started, deviation, seed))
            for seed, name in enumerate(names)
        ]
    for variant in VARIANTS:
        steps.append(
            Step(f"CRF, {variant}", takes["CRF test"], partial(_tested, "CRF", variant, 0), 1)
        )
    for variant in VARIANTS:
        for seed in work.seeds:
            name = f"{LATENT}, {variant}, seed {seed}"
            steps.append(Step(name, takes[variant], partial(_tested, LATENT, variant, seed), 1))
    return [
        *steps,
        *(
            Step(f"significance, {variant}", 0.5, partial(_compared, variant), 2)
            for variant in VARIANTS
        ),
    ]


# -- findings --------------------------------------------------------------------------------------


def _runs(system: str, variant: str, work: Work) -> list[Result]:
    """The results of a system on the test data, one for each seed."""
    latent = [f"{LATENT}, {variant}, seed {seed}" for seed in work.seeds]
    return [
        work.results[name]["systems"][system]
        for name in ([f"CRF, {variant}"] if system == "CRF" else latent)
    ]


def findings(work: Work) -> Findings:
    task, rows, claims = work.task, [], []
    for system in (*work.task.decoders, "CRF"):
        paper = dict.fromkeys(("S.A.", "P", "R", "F1", "time")) | task.published.get(system, {})
        for variant in VARIANTS:
            settings = f"l2 {work.results[f'CRF, {variant}']['l2']:g}" if system == "CRF" else ""
            rows += rows_of(
                task.table, system, paper, _runs(system, variant, work), variant, settings
            )
    for variant in VARIANTS:
        claims += _orders(variant, work)
        for pair, tests in work.results[f"significance, {variant}"]["pairs"].items():
            paper = dict.fromkeys(
                ("p, F1", "p, tokens", "only first correct", "only second correct")
            )
            rows += rows_of(PAIRS, pair, paper, [tests], variant)
    for name, (_, _, variant) in _sweeps(work).items():
        settings = work.results[name]["shown"].partition(":")[0] if variant == OURS else ""
        rows += rows_of(SWEEPS, name, {"F1": None}, work.results[name]["runs"], variant, settings)
    searches = [work.results[f"search steps, seed {seed}"] for seed in work.seeds]
    for rule in ("n", "alpha"):
        for limit in searches[0][rule]:
            paper = dict.fromkeys(("F1", "exact (%)", "latent paths", "time"))
            paper |= task.published_curve.get(f"{rule} = {limit}", {})
            rows += rows_of(
                LIMITS, f"{rule} = {limit}", paper, [search[rule][limit] for search in searches]
            )
    starts = {
        deviation: [work.results[name] for name in names]
        for deviation, names in _starts(work).items()
    }
    for deviation, runs in starts.items():
        metrics = dict.fromkeys(("F1", "exact (%)", "exact at n = 1 (%)"))
        rows += rows_of(STARTS, f"standard deviation {deviation:g}", metrics, runs)
    chosen = max((run for runs in starts.values() for run in runs), key=lambda run: run["F1"])
    rows += rows_of(
        STARTS, "the best on development data", {"F1": None, "F1, test": None}, [chosen]
    )
    published, ours = (
        work.results[f"{LATENT}, {variant}, seed 0"]["settings"] for variant in VARIANTS
    )
    notes = [note.format(published=published, ours=ours) for note in task.notes]
    return Findings(
        rows, [*claims, *_search_claims(searches[0], work)], _figures(task, searches), notes
    )


def _orders(variant: str, work: Work) -> list[Claim]:
    """Which system is better than which."""
    task = work.task
    f1 = {
        system: mean(run["F1"] for run in _runs(system, variant, work))
        for system in (*work.task.decoders, "CRF")
    }
    pairs = work.results[f"significance, {variant}"]["pairs"]
    claims = [claimed(pairs, a, task.relation, b, f" (F1), {variant}", f1) for a, b in task.orders]
    a, b = f1["LDI-A"], f1["LDI-E"]
    return [
        *claims,
        work.claim("as_well", abs(a - b) < 0.1, variant=variant, approximate=a, exact=b),
    ]


def _search_claims(search: Result, work: Work) -> list[Claim]:
    """What the paper says of choices on development data, and of the search."""
    prefix = f"{LATENT}, variance "
    variances = {
        name.removeprefix(prefix): result["F1"]
        for name, result in work.results.items()
        if prefix in name
    }
    chosen, *others = sorted(variances, key=lambda v: -variances[v])
    other = others[0] if chosen == "1" else "1"
    figures = {
        "chosen": chosen,
        "f1": variances[chosen],
        "other": other,
        "other_f1": variances[other],
    }
    claims = [work.claim("variance", chosen == "1", **figures, n=work.task.sweep)]
    curve, longest = search["n"], list(search["n"])[-1]
    one, thirty, goal = (curve[n]["F1"] for n in ("1", "30", longest))
    figures = {"one": one, "thirty": thirty, "gain": goal - thirty, "longest": longest}
    claims.append(work.claim("steps", goal < thirty + 0.15, **figures))
    needs = []  # of either rule: the fewest latent paths that reach the F1 of the longest search
    for rule in ("n", "alpha"):
        reached = [
            (each["latent paths"], limit)
            for limit, each in search[rule].items()
            if each["F1"] >= goal - NEAR
        ]
        needs.append(min(reached, default=(float("inf"), "none")))
    (paths, n), (more, alpha) = needs
    claims.append(
        work.claim("rules", paths < more, near=NEAR, n=n, paths=paths, alpha=alpha, more_paths=more)
    )
    if work.task.mass:
        # in a quick run fewer paths are asked for
        of_many = dict(enumerate(search["mass"], 1)).get(MANY)
        shown = "not asked for" if of_many is None else f"{100 * of_many:.1f} % of {MANY}"
        claims.append(
            work.claim("mass", None if of_many is None else of_many >= 0.9, many=MANY, shown=shown)
        )
    if "n = 30" in work.task.published_curve:
        at, published = curve["30"]["exact (%)"], work.task.published_curve["n = 30"]["exact (%)"]
        claims.append(work.claim("exact", at >= published, published=published, ours=at))
    return claims


def _figures(task: Any, searches: list[Result]) -> list[Figure]:
    def values(rule: str, metric: str) -> list[list[float]]:
        return [[curve[metric] for curve in search[rule].values()] for search in searches]

    f1, ns = "F1 on development data (%)", [int(n) for n in searches[0]["n"]]
    labels = {
        "F1": f1,
        "exact (%)": "exactitude (%)",
        "latent paths": "latent paths",
        "seconds": "seconds",
    }
    published = {
        limit.removeprefix("n = "): figures for limit, figures in task.published_curve.items()
    }
    panels = []
    for metric, label in labels.items():
        points = [
            (int(n), figures[metric]) for n, figures in published.items() if metric in figures
        ]
        panels.append(
            Panel("n", label, {"": (ns, values("n", metric))}, log_x=True, paper={"": points})
        )
    names = {"limit on n": "n", "alpha rule": "alpha"}
    paths = {
        rule: np.mean(values(rule, "latent paths"), axis=0).tolist() for rule in names.values()
    }
    rules = {name: (paths[rule], values(rule, "F1")) for name, rule in names.items()}
    panels.append(Panel("mean number of latent paths", f1, rules, log_x=True))
    masses = [[100 * share for share in search["mass"]] for search in searches]
    paper = {"": [(MANY, 90.0)]} if task.mass else {}
    mass = Panel(
        "n", "probability mass (%)", {"": (range(1, len(masses[0]) + 1), masses)}, paper=paper
    )
    caption = (
        "F1, exactitude, latent paths and time against the search steps n, on development data; "
        "and both limits on the search against the paths that they visit."
    )
    return [
        Figure(
            "figure-2",
            "Probability mass of the n best latent paths, mean over development sentences.",
            [mass],
        ),
        Figure(task.figure, caption, panels),
    ]
