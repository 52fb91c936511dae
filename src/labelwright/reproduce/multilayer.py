"""Azuma & Matsumoto (2011), table 2: POS tags and chunks of CoNLL-2000 from words, and three ways to pass tags."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from labelwright import CRF, Cascade, Corpus
from labelwright.evaluate import compare, evaluate
from labelwright.reproduce.data import read_part
from labelwright.reproduce.experiment import AS_PUBLISHED, OURS, Claim, Experiment, Findings, Result, Step
from labelwright.reproduce.measured import SIGNIFICANT, rows_of, trained
from labelwright.reproduce.work import Work

WINDOW = range(-2, 3)
LOWER = "\n".join(
    [
        "B",
        'Usource:%t[-1,0,"."]',
        'Usink:%t[1,0,"."]',
        'Bsource:%t[-2,0,"."]',
        'Bsink:%t[1,0,"."]',
        "Uword:%x[0,0]",
        *(f"Usuffix{n}:%suffix[0,0,{n}]" for n in (1, 2, 3)),
        *(f'Ucapital[{row}]:%t[{row},0,"^\\u"]' for row in WINDOW),
        *(f'Ucapitals[{row}]:%t[{row},0,"^\\u*$"]' for row in WINDOW),
        *(f'Udigit[{row}]:%t[{row},0,"\\d"]' for row in WINDOW),
        *(f"Uvocabulary[{row}]:%each[{row},1]" for row in WINDOW),
    ]
)
UPPER = "\n".join([LOWER, *(f"Uy[{row}]:%y[{row}]" for row in WINDOW), "By:%y[-1]/%y[0]"])
TEMPLATES = {AS_PUBLISHED: (LOWER, UPPER), OURS: ("multilayer", "multilayer-above")}
ITERATIONS = {AS_PUBLISHED: (80, 60), OURS: (100, 100)}  # of each layer, and of joint training
PASSING = {"CRF + CRF": "best", "CRF + CRF-MF": "marginal", "CRF + CRF-BP": "joint"}
PAPER: dict[str, dict[str, float | None]] = {
    "CRF + CRF": {"POS accuracy": 95.6, "chunk F1": 92.1},
    "CRF + CRF-MF": {"POS accuracy": 95.6, "chunk F1": 92.7},
    "CRF + CRF-BP": {"POS accuracy": 95.8, "chunk F1": 93.1},
}
PROPOSED = "CRF + CRF-BP"
PAIRS = (("CRF + CRF", PROPOSED), ("CRF + CRF-MF", PROPOSED), ("CRF + CRF", "CRF + CRF-MF"))
TABLE = "Table 2: POS tagging and base-phrase chunking"


def _read(folder: Path) -> tuple[Corpus, Corpus]:
    train, test = (read_part(folder, "conll2000", part, "word,pos,chunk") for part in ("train", "test"))
    return train, test


def _parts(work: Work) -> tuple[Corpus, Corpus]:
    train, test = work.read(_read)
    return (train.take(slice(0, 300)), test.take(slice(0, 200))) if work.quick else (train, test)


def _fitted(variant: str, passing: str, train: Corpus, quick: bool) -> tuple[Cascade, float]:
    alone, together = (10, 10) if quick else ITERATIONS[variant]
    lower, upper = (CRF(template=template, max_iter=alone) for template in TEMPLATES[variant])
    model = Cascade([("pos", lower), ("chunk", upper)], passing, lexicon="pos", max_iter=together, random_state=0)
    fitted, seconds = trained(model, train)
    return fitted, seconds


def _measured(work: Work, name: str, model: Any, test: Corpus, seconds: float) -> Result:
    labels = model.predict(test)
    for layer, found in labels.items():
        work.keep_labels(f"{name}, {layer}", found)
    pos = evaluate(test.column("pos"), labels["pos"], reading="token").token_accuracy
    chunk = evaluate(test.column("chunk"), labels["chunk"]).f1
    return {"POS accuracy": 100 * pos, "chunk F1": 100 * (chunk or 0.0), "seconds": seconds}


def _best(variant: str, work: Work) -> Result:
    train, test = _parts(work)
    model, seconds = _fitted(variant, "best", train, work.quick)
    result = _measured(work, f"CRF + CRF, {variant}", model, test, seconds)
    return {"CRF + CRF": result, "shown": f"chunk F1 {result['chunk F1']:.2f}"}


def _joint(variant: str, work: Work) -> Result:
    """Joint training starts from the model that passes marginals, which is the second system."""
    train, test = _parts(work)
    model, seconds = _fitted(variant, "joint", train, work.quick)
    together = model.history_[-1]["seconds"]  # of joint training
    before = _measured(work, f"CRF + CRF-MF, {variant}", model.before_, test, seconds - together)
    after = _measured(work, f"CRF + CRF-BP, {variant}", model, test, seconds)
    shown = f"chunk F1 {before['chunk F1']:.2f}, jointly {after['chunk F1']:.2f}"
    return {"CRF + CRF-MF": before, "CRF + CRF-BP": after, "shown": shown}


def _significance(variant: str, work: Work) -> Result:
    """p-values of the paired bootstrap between neighbours in the table."""
    _, test = _parts(work)
    p = {}
    for a, b in PAIRS:
        for layer in ("pos", "chunk"):
            one, other = (work.labels(f"{name}, {variant}, {layer}") for name in (a, b))
            p[f"{layer}: {a} / {b}"] = compare(test.column(layer), one, other).bootstrap.p_value
    return {"p": p}


def _steps(quick: bool) -> list[Step]:
    steps = []
    for variant in TEMPLATES:
        steps.append(Step(f"one label passed, {variant}", 6, partial(_best, variant)))
        steps.append(Step(f"marginals and joint training, {variant}", 20, partial(_joint, variant)))
        steps.append(Step(f"significance, {variant}", 0.3, partial(_significance, variant)))
    return steps


def _findings(results: Mapping[str, Result], quick: bool) -> Findings:
    rows, claims = [], []
    for variant in TEMPLATES:
        runs = results[f"one label passed, {variant}"] | results[f"marginals and joint training, {variant}"]
        p = results[f"significance, {variant}"]["p"]
        for system, paper in PAPER.items():
            rows += rows_of(TABLE, system, paper, [runs[system]], variant)
        for worse, better in PAIRS:
            a, b = (runs[system]["chunk F1"] for system in (worse, better))
            chance = p[f"chunk: {worse} / {better}"]
            evidence = f"{a:.2f} and {b:.2f}, p = {chance:.2g}"
            is_new = better == PROPOSED
            text = f"{better} is {'significantly ' if is_new else ''}better than {worse} on chunks, {variant}"
            claims.append(Claim(text, b > a and (chance < SIGNIFICANT or not is_new), evidence))
        a, b = (runs[system]["POS accuracy"] for system in PAIRS[0])
        chance = p[f"pos: {' / '.join(PAIRS[0])}"]
        text = f"CRF + CRF-BP improves POS tags, though not significantly, {variant}"
        claims.append(Claim(text, b > a and chance >= SIGNIFICANT, f"{a:.2f} and {b:.2f}, p = {chance:.2g}"))
    return Findings(rows, claims)


EXPERIMENTS = {
    "multilayer": Experiment(
        "multilayer",
        "Jointly trained cascades",
        "Azuma & Matsumoto 2011",
        ["conll2000"],
        _steps,
        _findings,
        __file__,
        [
            "As published: features of table 1, with the word and its suffixes at the same token only, and with "
            "features of the first and the last node and arc; a layer is trained for 80 iterations, both together for "
            "60.",
            "Ours: the templates `multilayer` and `multilayer-above`, which also read the neighbouring words.",
            "The paper does not say how significance was tested: a paired bootstrap over sentences, 10,000 samples.",
            "Its first two systems share a POS tagger; so do ours.",
        ],
    )
}
