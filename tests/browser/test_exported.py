"""The exported page in a real browser, opened as a file: labels while one types, and asks
nobody."""

import os
import shutil

import pytest

from labelwright import CRF
from labelwright.interchange.exporting import save_program

api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")

CHROMIUM = (
    os.environ.get("LABELWRIGHT_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
TEXT = "Ada Lovelace ran. They <b>ran</b> \U0001d518p."


def test_labels_while_one_types(tmp_path):
    X = [["Ada", "Lovelace", "ran", "."], ["They", "ran", "."], ["Grace", "Hopper", "ran", "."]]
    tagger = CRF(max_iter=30, n_jobs=1).fit(
        X, [["B-PER", "I-PER", "O", "O"], ["O"] * 3, ["B-PER", "I-PER", "O", "O"]]
    )
    page_file, script = tmp_path / "tagger.html", tmp_path / "tagger.mjs"
    for path in (page_file, script):
        save_program(tagger.compressed(bits=8), path)
    (spans,) = [[(s.start, s.end, s.type) for s in spans] for spans in tagger.predict_spans([X[0]])]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        page, wrong, asked = browser.new_page(), [], []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        page.locator("#text").press_sequentially(TEXT)
        assert page.locator("#result").inner_text().replace("PER", "") == TEXT
        marks = page.locator("mark").all_inner_texts()
        assert marks[0].startswith("Ada Lovelace")
        assert spans == [(0, 2, "PER")]
        assert "PER" in marks[0]
        answer = page.evaluate("(text) => tagger.tagText(text)", TEXT)
        assert [y for _, _, y in answer[0]] == tagger.predict([X[0]])[0]
        module = script.read_text(encoding="utf-8")
        labels = page.evaluate(
            "async (source) => { const url = URL.createObjectURL(new Blob([source], { type: "
            "'text/javascript' })); const { Tagger } = await import(url); return new "
            "Tagger().tag(['Ada', 'Lovelace', 'ran', '.']); }",
            module,
        )
        assert labels == tagger.predict([X[0]])[0]
        browser.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []
