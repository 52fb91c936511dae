"""Pages for a browser are made of the same parts."""

import re
from html.parser import HTMLParser

import pytest

from labelwright import CRF, Corpus, Decoding, LatentCRF, Span, show
from labelwright.cli import main
from labelwright.corpus.tokenizer import Entity
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.inspection.explanation import sentence_facts
from labelwright.inspection.report_page import explanation_page
from labelwright.pages import Curve, chart, html_page, marked, marked_words, table, tag

PAGES = "errors", "explanations", "report"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tagger = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    facts = sentence_facts(tagger, Corpus.from_sequences([["her", "brother"]]), 0)
    folder = tmp_path_factory.mktemp("report")
    X = [["Ada", "met", "Bo", "."], ["We", "met", "."], ["Bo", "saw", "Rome", "."]]
    y = [["B-PER", "O", "B-PER", "O"], ["O", "O", "O"], ["B-PER", "O", "B-LOC", "O"]]
    latent = LatentCRF(template="words", max_iter=6, random_state=0, n_jobs=1).fit(
        X, y, dev=(X[:2], y[:2])
    )
    latent.save(folder / "latent.crf")
    (folder / "test.txt").write_text(
        "Ada B-PER\nsaw O\nBo B-PER\n\nWe O\nsaw O\nOslo B-LOC\n", encoding="utf-8"
    )
    files = map(str, (folder / "latent.crf", folder / "test.txt"))
    assert main(["report", *files, "-o", str(folder / "report.html")]) == 0
    return {
        "errors": evaluate([["B", "I"]], [["B", "B"]])
        .errors([["her", "brother"]], model=tagger)
        .html("Errors"),
        "explanations": explanation_page(
            {"model": "m", "kind": "CRF", "file": "f", "sentences": [facts]}
        ),
        "report": (folder / "report.html").read_text(encoding="utf-8"),
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_page_uses_colours_of_the_palette_alone(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    used, known = set(re.findall(r"var\((--[a-z-]+)\)", page)), {*re.findall(r"(--[a-z-]+):", page)}
    assert used <= known
    assert page.count(":root {") == 3  # light, dark, printed
    assert not re.search(r"""src=|href="(?!#)|http""", page)


@pytest.mark.parametrize("name", PAGES)
def test_elements_are_closed(pages: dict[str, str], name: str) -> None:
    still_open: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "input"):
                still_open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert still_open.pop() == tag

    Reader().feed(pages[name])
    assert not still_open


def test_text_is_escaped() -> None:
    assert "&lt;t&gt;" in html_page("<t>", "", "")
    assert tag("p", "</script>", title='"') == '<p title="&quot;">&lt;/script&gt;</p>'
    assert "<b>" not in table(["<b>"], [["<b>"]])
    assert "<b>" not in marked("a <b>", [Entity(2, 5, "<i>", "<b>")])


def test_a_report_has_all_sections(pages: dict[str, str]) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", pages["report"])
    wanted = [
        "Scores",
        "Errors",
        "Calibration",
        "Explanations",
        "Training",
        "Weights",
        "Latent states",
    ]
    assert [title for title in titles if ":" not in title] == wanted
    assert pages["report"].count("<svg ") == 4  # reliability, precision, loss, development data
    assert "95 % interval" in pages["report"]


def test_the_rows_of_a_confusion_matrix_add_up() -> None:
    gold = [
        ["B-ORG", "I-ORG", "O", "B-PER"],
        ["B-LOC", "O", "O"],
        ["O", "B-PER", "I-PER"],
        ["B-PER", "O"],
    ]
    predicted = [
        ["B-ORG", "O", "O", "O"],
        ["B-ORG", "O", "B-PER"],
        ["O", "B-LOC", "O"],
        ["B-PER", "O"],
    ]
    page = evaluate(gold, predicted).errors([["w"] * len(row) for row in gold]).html()
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
    counts = {name: [int(n) for n in re.findall(r">(\d+)</td>", cells)] for name, cells in rows}
    assert {name: sum(row) for name, row in counts.items()} == {
        "LOC": 1,
        "ORG": 1,
        "PER": 3,
        "invented": 1,
    }
    assert 'data-gold="LOC" data-predicted="ORG"' in page
    assert 'data-predicted="PER" data-kind="invented"' in page


def test_a_chart_stays_within_its_frame() -> None:
    drawn = chart(
        "A", "x", "y", [Curve([(0.0, 0.5), (3.0, 2.5)]), Curve([(1.0, 1.0)], "dots", [5.0])]
    )
    numbers = [float(n) for n in re.findall(r'(?:cx|x1|x2)="([\d.]+)"', drawn)]
    heights = [float(n) for n in re.findall(r'(?:cy|y1|y2)="([\d.]+)"', drawn)]
    assert min(numbers) >= 0
    assert max(numbers) <= 420
    assert min(heights) >= 0
    assert max(heights) <= 250
    assert re.search(r'points="52.0,', drawn)


def test_spans_are_drawn_alike_in_pages_and_notebooks() -> None:
    tagger = CRF(n_jobs=1).fit(
        [["Ada", "ran", "."], ["he", "ran", "."]], [["B-PER", "O", "O"], ["O", "O", "O"]]
    )
    of_text, of_words = show(tagger, "Ada ran."), show(tagger, [["Ada", "ran", "."], []])
    assert of_text._repr_html_() == of_text
    assert re.fullmatch(
        r"<div .*?><p><mark .*?>Ada<small .*?>PER 0\.\d\d</small></mark> ran\.</p></div>", of_text
    )
    assert of_words.count("<mark ") == 1
    assert show(tagger, ["Ada ran.", "he ran."]).count("<p>") == 2
    (span,) = tagger.predict_spans([["Ada", "ran", "."]])[0]
    drawn = marked_words(["Ada", "ran", "."], [span])
    assert re.findall("<mark.*</mark>", drawn) == re.findall("<mark.*</mark>", of_words)
    assert "Ada" in Entity(0, 3, "PER", "Ada", 0.5)._repr_html_()
    assert "PER" in Span(0, 1, "PER")._repr_html_()
    with pytest.raises(OptionError, match="show: expected texts, or sentences"):
        show(tagger, [{"word": "Ada"}])


def test_a_decoding_is_drawn_with_what_is_known() -> None:
    drawn = Decoding(["B-PER", "O"], 1.0, -0.5, False, 0.25)._repr_html_()
    assert drawn.count("<mark ") == 1
    assert "probability 0.6065, gap at most 0.25" in drawn
    assert "confidence 0.9" in Decoding(["A"], 1.0, None, False, None, confidence=0.9)._repr_html_()


def test_types_of_a_tagger_without_chunks_are_shown_at_each_token() -> None:
    tagger = CRF(n_jobs=1).fit([["Ada", "ran"]], [["NN", "VB"]])
    assert re.findall(r"<small .*?>(\w+) ", show(tagger, "Ada ran")) == ["NN", "VB"]
