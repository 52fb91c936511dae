"""Azuma & Matsumoto (2011), table 2: POS tags and chunks of CoNLL-2000 from words, and three ways to pass tags."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from labelwright import CRF, Cascade, Corpus
from labelwright.evaluate import evaluate
from labelwright.reproduce.data import read_part
from labelwright.reproduce.experiment import AS_PUBLISHED, OURS, Claim, Experiment, Findings, Result, Step
from labelwright.reproduce.measured import (
    SIGNIFICANT,
    difference,
    difference_shown,
    differences,
    is_better,
    rows_of,
    scored,
    trained,
)
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
ITERATIONS = {AS_PUBLISHED: (80, 60), OURS: (100, 100)}  # of each layer, then of both jointly; rivals have the sum
PASSING = {"CRF + CRF": "best", "CRF + CRF-MF": "marginal", "CRF + CRF-BP": "joint"}
MINUTES = {"CRF + CRF": 6, "CRF + CRF-MF": 10, "CRF + CRF-BP": 15}
PAPER: dict[str, dict[str, float | None]] = {
    "CRF + CRF": {"POS accuracy": 95.6, "chunk F1": 92.1},
    "CRF + CRF-MF": {"POS accuracy": 95.6, "chunk F1": 92.7},
    "CRF + CRF-BP": {"POS accuracy": 95.8, "chunk F1": 93.1},
}
PROPOSED = "CRF + CRF-BP"
PAIRS = ((PROPOSED, "CRF + CRF"), (PROPOSED, "CRF + CRF-MF"), ("CRF + CRF-MF", "CRF + CRF"))
TABLE = "Table 2: POS tagging and base-phrase chunking"


def _read(folder: Path) -> tuple[Corpus, Corpus]:
    train, test = (read_part(folder, "conll2000", part, "word,pos,chunk") for part in ("train", "test"))
    return train, test


def _parts(work: Work) -> tuple[Corpus, Corpus]:
    train, test = work.read(_read)
    return (train.take(slice(0, 300)), test.take(slice(0, 200))) if work.quick else (train, test)


def _tested(variant: str, system: str, work: Work) -> Result:
    """Scores of both layers on the test data, and the seconds of training."""
    (train, test), passing = _parts(work), PASSING[system]
    alone, together = (10, 10) if work.quick else ITERATIONS[variant]
    if passing != "joint":
        alone += together
    lower, upper = (CRF(template=template, max_iter=alone) for template in TEMPLATES[variant])
    model = Cascade([("pos", lower), ("chunk", upper)], passing, lexicon="pos", max_iter=together, random_state=0)
    model, seconds = trained(model, train)
    labels = model.predict(test)
    for layer, predicted in labels.items():
        work.keep_labels(f"{system}, {variant}, {layer}", predicted)
    pos = 100 * evaluate(test.column("pos"), labels["pos"], reading="token").token_accuracy
    chunk = scored(test.column("chunk"), labels["chunk"])["F1"]
    shown = f"POS accuracy {pos:.2f}, chunk F1 {chunk:.2f}"
    return {"POS accuracy": pos, "chunk F1": chunk, "seconds": seconds, "shown": shown}


def _significance(variant: str, work: Work) -> Result:
    """How all pairs of systems differ in each layer."""
    _, test = _parts(work)
    return {
        layer: differences(work, test.column(layer), [f"{system}, {variant}, {layer}" for system in PASSING])
        for layer in ("pos", "chunk")
    }


def _steps(quick: bool) -> list[Step]:
    steps = []
    for variant in TEMPLATES:
        for system, minutes in MINUTES.items():
            steps.append(Step(f"{system}, {variant}", minutes, partial(_tested, variant, system)))
        steps.append(Step(f"significance, {variant}", 0.3, partial(_significance, variant)))
    return steps


def _findings(results: Mapping[str, Result], quick: bool) -> Findings:
    rows, claims = [], []
    for variant in TEMPLATES:
        pairs = results[f"significance, {variant}"]
        for system, paper in PAPER.items():
            rows += rows_of(TABLE, system, paper, [results[f"{system}, {variant}"]], variant)
        for better, worse in PAIRS:
            pair = difference(pairs["chunk"], f"{better}, {variant}, chunk", f"{worse}, {variant}, chunk")
            is_new = better == PROPOSED
            text = f"{better} is {'significantly ' if is_new else ''}better than {worse} on chunks, {variant}"
            is_kept = is_better(pair) if is_new else pair["F1"][0] > pair["F1"][1]
            claims.append(Claim(text, is_kept, difference_shown(pair)))
        after, before = (results[f"{system}, {variant}"]["POS accuracy"] for system in PAIRS[0])
        p = difference(pairs["pos"], *(f"{system}, {variant}, pos" for system in PAIRS[0]))["p, tokens"]
        text = f"CRF + CRF-BP improves POS tags, though not significantly, {variant}"
        evidence = f"{after:.2f} and {before:.2f}, p = {p:.2g} (McNemar)"
        claims.append(Claim(text, after > before and p >= SIGNIFICANT, evidence))
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
            "features of the first and the last node and arc.",
            "CRF + CRF-BP trains each layer for 80 iterations (ours: 100) and both jointly for 60 (100) more. Each "
            "layer of its rivals has as many in all, 140 (200), so that no system gains by longer training. The paper "
            "gives no numbers; it starts CRF + CRF-BP from the trained CRF + CRF-MF, which is then trained for longer "
            'than its rivals. That reading is under "What was checked".',
            "Ours: the templates `multilayer` and `multilayer-above`, which also read the neighbouring words.",
            "The paper does not say how significance was tested: a paired bootstrap over sentences, 10,000 samples, "
            "on the F1 of chunks, and McNemar's test on tokens.",
            "Its first two systems share a POS tagger; so do ours.",
        ],
    )
}
