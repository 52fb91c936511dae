"""Every answer of a tagger about a sentence against the probabilities of all its labellings."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from labelwright import Span
from labelwright.corpus import spans_of


def runs(labels: Any) -> list[Span]:
    """The spans of labels that follow no scheme: runs of the same label."""
    found, at = [], 0
    for kind, run in itertools.groupby(labels):
        end = at + len(list(run))
        found.append(Span(at, end, kind))
        at = end
    return found


def check_answers(
    model: Any, sentence: Any, truth: dict, digits: float = 1e-9, **restriction: Any
) -> None:
    """truth: {labelling: probability} of all labellings that the restriction leaves."""
    ranked, T = sorted(truth.values(), reverse=True), len(sentence)
    in_scheme = model.scheme_ is not None
    spans = Counter[Any]()
    for labels, p in truth.items():
        spans.update(
            {span[:3]: p for span in (spans_of(list(labels)) if in_scheme else runs(labels))}
        )

    def near(value: float) -> Any:
        return pytest.approx(value, abs=digits)

    for decoder in model.decoders:
        (record,) = model.decode(
            [sentence], decoder, **({"n": 0} if decoder == "ldi" else {}), **restriction
        )
        p = truth.get(tuple(record.labels), 0.0)
        assert math.exp(record.log_probability) == near(p)
        assert not record.exact or (p, record.gap) == (near(ranked[0]), 0.0)
        assert record.gap is None or ranked[0] <= p + record.gap + digits
        assert record.exact or decoder not in ("exact", "ldi")
    (best,) = model.decode([sentence], **restriction)
    assert (math.exp(best.log_probability), best.exact, best.gap) == (near(ranked[0]), True, 0)

    (nbest,) = model.predict_nbest([sentence], n=1000, **restriction)
    assert [p for _, p in nbest] == near(ranked)
    assert {tuple(y): p for y, p in nbest} == near(truth)
    assert model.predict_nbest([sentence], n=3, **restriction)[0] == nbest[:3]

    (marginals,) = model.predict_marginals([sentence], **restriction)
    for t, row in enumerate(marginals):
        assert list(row) == model.classes_
        assert row == near(
            {label: sum(p for y, p in truth.items() if y[t] == label) for label in row}
        )

    (predicted,) = model.predict_spans([sentence], **restriction)
    own = spans_of(best.labels) if in_scheme else runs(best.labels)
    assert [span[:3] for span in predicted] == [span[:3] for span in own]
    kinds = sorted({kind for *_, kind in spans})
    places = [
        Span(a, b, kind) for a, b in itertools.combinations(range(T + 1), 2) for kind in kinds
    ]
    (every,) = model.span_probabilities([sentence], [places], **restriction)
    for span in (*predicted, *every):
        assert span.probability == near(spans[span[:3]])
    likely = {
        span[:3]: span.probability
        for span in model.likely_spans([sentence], 0.01, **restriction)[0]
    }
    assert likely == near({span: p for span, p in spans.items() if p >= 0.01})
    for kind in kinds if in_scheme else ():
        wanted = sum(
            p for y, p in truth.items() if any(span.type == kind for span in spans_of(list(y)))
        )
        assert model.occurrence_probabilities([sentence], kind, **restriction)[0] == near(wanted)

    p = np.array([p for p in ranked if p > 0])
    assert model.sequence_entropies([sentence], **restriction)[0] == pytest.approx(
        -(p @ np.log(p)), abs=0.3 if getattr(model, "n_latent", 1) != 1 else 10 * digits
    )
    if not restriction:
        others = [
            tuple(y) for y in itertools.product(model.classes_, repeat=T) if tuple(y) not in truth
        ]
        asked = [*truth, *others[:20]]
        log_p = model.sequence_log_probabilities([sentence] * len(asked), [list(y) for y in asked])
        assert np.exp(log_p) == near([truth.get(y, 0.0) for y in asked])
        some = {label for y in list(truth)[:2] for label in y}
        agreeing = sum(p for y, p in truth.items() if y[-1] in some)
        (log_p,) = model.sequence_log_probabilities([sentence], [[*[None] * (T - 1), some]])
        assert math.exp(log_p) == near(agreeing)
