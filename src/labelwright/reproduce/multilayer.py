"""Azuma & Matsumoto (2011), table 2: POS tags and chunks of CoNLL-2000 from words, and three ways
to pass tags."""

from functools import partial
from pathlib import Path

from labelwright import CRF, Cascade
from labelwright.evaluate import evaluate
from labelwright.reproduce.measured import (
    SIGNIFICANT,
    claimed,
    difference,
    read_part,
    rows_of,
    scored,
    trained,
)
from labelwright.reproduce.work import OURS, Findings, Parts, Result, Step, Work


def _read(folder: Path) -> Parts:
    train, test = (
        read_part(folder, "conll2000", part, "word,pos,chunk") for part in ("train", "test")
    )
    return Parts(train, train, test, train)


def _tested(variant: str, system: str, work: Work) -> Result:
    """Scores of both layers on the test data, and the seconds of training."""
    parts, table_1 = work.read(_read), work.task.templates["table_1"]
    templates = (
        work.task.templates[OURS]
        if variant == OURS
        else (table_1, f"{table_1}\n{work.task.above[variant]}")
    )
    limit, together = (10, 10) if work.quick else (None, work.task.together)
    lower, upper = (
        CRF(template=template, max_iter=limit, device=work.device) for template in templates
    )
    how = {
        setting: value
        for setting, value in work.task.systems[system].items()
        if setting != "minutes"
    }
    model = Cascade(
        [("pos", lower), ("chunk", upper)], **how, lexicon="pos", max_iter=together, random_state=0
    )
    model, seconds = trained(model, parts.train)
    labels = model.predict(parts.test)
    for layer, predicted in labels.items():
        work.keep_labels(f"{system}, {variant}, {layer}", predicted)
    pos = 100 * evaluate(parts.test.column("pos"), labels["pos"], reading="token").token_accuracy
    chunk = scored(parts.test.column("chunk"), labels["chunk"])["F1"]
    shown = f"POS accuracy {pos:.2f}, chunk F1 {chunk:.2f}"
    return {"POS accuracy": pos, "chunk F1": chunk, "seconds": seconds, "shown": shown}


def _compared(variant: str, work: Work) -> Result:
    """How all pairs of systems differ in each layer."""
    test, systems = work.read(_read).test, work.task.systems
    return {
        layer: work.differences(
            test.column(layer), {name: f"{name}, {variant}, {layer}" for name in systems}
        )
        for layer in ("pos", "chunk")
    }


def steps(work: Work) -> list[Step]:
    steps = []
    for variant in (*work.task.above, OURS):
        for system, how in work.task.systems.items():
            steps.append(
                Step(f"{system}, {variant}", how["minutes"], partial(_tested, variant, system))
            )
        steps.append(Step(f"significance, {variant}", 0.3, partial(_compared, variant), 1))
    return steps


# -- findings --------------------------------------------------------------------------------------


def findings(work: Work) -> Findings:
    task = work.task
    rows, claims = [], []
    for variant in (*task.above, OURS):
        pairs = work.results[f"significance, {variant}"]
        for system in task.systems:
            paper = task.published[system.removesuffix(", jackknife")]
            rows += rows_of(
                task.table, system, paper, [work.results[f"{system}, {variant}"]], variant
            )
        claims += [
            claimed(pairs["chunk"], a, relation, b, f" on chunks, {variant}")
            for a, relation, b in task.claims
        ]
        first, _, other = task.claims[0]
        after, before = (
            work.results[f"{system}, {variant}"]["POS accuracy"] for system in (first, other)
        )
        p = difference(pairs["pos"], first, other)["p, tokens"]
        is_so = after > before and p >= SIGNIFICANT
        claims.append(
            work.claim("tags", is_so, first=first, variant=variant, after=after, before=before, p=p)
        )
    return Findings(rows, claims)
