"""Pages for a browser are made of the same parts."""

import re
from html.parser import HTMLParser

import pytest

from labelwright import CRF, Corpus
from labelwright.cli.explain import page as explanation_page
from labelwright.evaluate import evaluate
from labelwright.inspection.explanation import sentence_facts
from labelwright.wording import html_page, marked, table, tag


def pages() -> dict[str, str]:
    tagger = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    facts = sentence_facts(tagger, Corpus.from_sequences([["her", "brother"]]), 0)
    return {
        "errors": evaluate([["B", "I"]], [["B", "B"]]).errors([["her", "brother"]], model=tagger).html("Errors"),
        "explanations": explanation_page({"model": "m", "kind": "CRF", "file": "f", "sentences": [facts]}),
    }


@pytest.mark.parametrize("name", ["errors", "explanations"])
def test_a_page_uses_colours_of_the_palette_alone(name: str) -> None:
    page = pages()[name]
    used, known = set(re.findall(r"var\((--[a-z-]+)\)", page)), set(re.findall(r"(--[a-z-]+):", page))
    assert used <= known
    assert page.count(":root {") == 2  # light and dark
    assert not re.search(r"""(?:src|href)=["']""", page)


@pytest.mark.parametrize("name", ["errors", "explanations"])
def test_elements_are_closed(name: str) -> None:
    still_open: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "input"):
                still_open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert still_open.pop() == tag

    Reader().feed(pages()[name])
    assert not still_open


def test_text_is_escaped() -> None:
    assert "&lt;t&gt;" in html_page("<t>", "", "")
    assert tag("p", "</script>", title='"') == '<p title="&quot;">&lt;/script&gt;</p>'
    assert "<b>" not in table(["<b>"], [["<b>"]])
    assert marked(["a", "<b>", "c"], 1, 2) == "<span>a <mark>&lt;b&gt;</mark> c</span>"
