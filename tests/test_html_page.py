"""Pages for a browser share one palette and one helper."""

import json
import re

import pytest

from labelwright import CRF, Corpus
from labelwright.evaluate import evaluate
from labelwright.html_page import html_page
from labelwright.inspection import explanation_page
from labelwright.inspection.explanation import sentence_facts


def pages() -> dict[str, str]:
    tagger = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    facts = sentence_facts(tagger, Corpus.from_sequences([["her", "brother"]]), 0)
    return {
        "errors": evaluate([["B", "I"]], [["B", "B"]]).errors([["her", "brother"]], model=tagger).html("Errors"),
        "explanations": explanation_page.page({"model": "m", "kind": "CRF", "file": "f", "sentences": [facts]}),
    }


@pytest.mark.parametrize("name", ["errors", "explanations"])
def test_a_page_uses_colours_of_the_palette_alone(name: str) -> None:
    page = pages()[name]
    used, known = set(re.findall(r"var\((--[a-z-]+)\)", page)), set(re.findall(r"(--[a-z-]+):", page))
    assert used <= known
    assert page.count(":root {") == 2  # light and dark
    assert len(re.findall(r"function make\(|const make =", page)) == 1
    assert not re.search(r"""(?:src|href)=["']""", page)


def test_data_cannot_end_the_script() -> None:
    page = html_page("<t>", "", "", "", {"text": "</script><b>"})
    inside = re.search(r'id="data">(.*?)</script>', page)
    assert inside is not None
    assert json.loads(inside[1]) == {"text": "</script><b>"}
    assert "&lt;t&gt;" in page
