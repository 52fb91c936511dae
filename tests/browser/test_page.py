"""The page of `labelwright serve` in a real browser: Debian's Chromium, driven by Playwright.

make test-browser
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: make test-browser")

from stand_in import stand_in  # noqa: E402

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
FLAGS += ["--disable-sync", "--no-first-run"]
TEXT = "Hans Blix met Tony in London. We left 3 days later."


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    with stand_in() as (address, asked):
        yield address, asked


@pytest.fixture(scope="module")
def report(tmp_path_factory: Any) -> str:
    """The page of `labelwright report` about a small latent CRF."""
    from labelwright import LatentCRF
    from labelwright.cli import main

    folder = tmp_path_factory.mktemp("report")
    X, y = (
        [["Anna", "met", "Bo", "."], ["We", "met", "."]],
        [["B-PER", "O", "B-PER", "O"], ["O", "O", "O"]],
    )
    LatentCRF(n_latent=2, random_state=0, max_iter=20).fit(X, y, dev=(X, y)).save(
        folder / "tiny.crf"
    )
    (folder / "test.txt").write_text(
        "Anna B-PER\nmet O\nOslo B-LOC\n. O\n\nWe O\nmet B-PER\n", encoding="utf-8"
    )
    assert (
        main(
            [
                "report",
                *map(str, (folder / "tiny.crf", folder / "test.txt")),
                "-o",
                str(folder / "r.html"),
            ]
        )
        == 0
    )
    return (folder / "r.html").as_uri()


@pytest.fixture
def page(browser: Any, service: Any) -> Iterator[Any]:
    yield from opened(browser, service[0])


def opened(browser: Any, address: str, **settings: Any) -> Iterator[Any]:
    """A page without any mistake on its console, and that asks nobody but the service."""
    context = browser.new_context(
        **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | settings
    )
    page, wrong, elsewhere = context.new_page(), [], []
    page.set_default_timeout(10_000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console", lambda line: wrong.append(line.text) if "Content Security" in line.text else None
    )
    page.on(
        "request",
        lambda request: elsewhere.append(request.url) if not is_own(request.url, address) else None,
    )
    page.goto(address)
    yield page
    context.close()
    assert not wrong
    assert not elsewhere


def is_own(url: str, address: str) -> bool:
    return url.startswith((address, "data:"))


def type_text(page: Any, text: str) -> None:
    settled(page)
    page.fill("#text", text)
    settled(page)


def settled(page: Any) -> None:
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")


def spans(page: Any, column: int = 0) -> list[str]:
    found = page.locator(f".card[data-column='{column}'] .line .span").all_inner_texts()
    return [" ".join(each.split()) for each in found]


def expect(locator: Any) -> Any:
    return api.expect(locator)


def test_text_is_labelled_while_typing(page: Any, service: Any) -> None:
    expect(page.locator(".span").first).to_be_visible()  # the example
    page.fill("#text", "")
    expect(page.locator("#status")).to_have_text("Nothing to label yet.")
    before = len(service[1])
    page.locator("#text").press_sequentially(TEXT, delay=5)
    expect(page.locator(".card")).to_have_count(2)
    assert len(service[1]) - before <= 5  # not one request for each key
    assert spans(page) == ["Hans Blix PER 0.88", "Tony PER 0.88", "London LOC 0.88", "We PER 0.88"]
    expect(page.locator("#status")).to_have_text("2 sentences, 13 tokens")
    expect(page.locator(".proof").first).to_contain_text(
        "Proven: of all labellings, the model finds this the most probable."
    )
    page.hover(".token[data-token='1']")
    expect(page.locator("#tip")).to_contain_text("“Hans Blix” is PER: 0.88")


def test_the_latest_request_wins(page: Any) -> None:
    page.fill("#text", "Slow Anna.")
    page.wait_for_timeout(350)
    page.fill("#text", "Berta.")
    expect(page.locator(".span .word")).to_have_text(["Berta"])
    page.wait_for_timeout(1200)
    expect(page.locator(".span .word")).to_have_text(["Berta"])


def test_next_best_labellings_mark_differences(page: Any) -> None:
    type_text(page, TEXT)
    page.locator("[data-part=next] summary").first.click()
    rows = page.locator(".card").first.locator(".next > li")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("the labelling above")
    expect(rows.nth(1)).to_contain_text("0.11")
    expect(rows.nth(1).locator("mark")).to_have_text(["Hans"])
    expect(rows.nth(1)).to_contain_text("Hans B-PER → O")
    page.locator("[data-part=tokens] summary").first.click()
    expect(page.locator(".card").first.locator("tbody tr")).to_have_count(7)
    page.fill("#text", f"{TEXT} More.")  # what is open stays open
    expect(page.locator(".card")).to_have_count(3)
    expect(page.locator(".card").first.locator(".next > li")).to_have_count(2)


def test_why_and_hidden_states(page: Any) -> None:
    type_text(page, TEXT)
    page.select_option("[data-column='0'] [name=model]", "hidden")
    settled(page)
    page.click(".token[data-token='1']")
    why = page.get_by_role("complementary", name="Why this label")
    expect(why.get_by_role("heading", level=2)).to_have_text("Why is “Blix” I-PER?")
    expect(why).to_contain_text("7.4 times as probable as the best one with O here")
    rows = why.locator(".reasons:not(.states) > li")
    expect(rows.nth(0)).to_contain_text("+2.50")
    expect(rows.nth(0)).to_contain_text("word[0]=Blix")
    assert width(rows.nth(0)) == pytest.approx(2 * width(rows.nth(1)), rel=0.05)
    expect(rows.nth(1).locator(".against")).to_have_count(1)
    expect(rows.nth(2)).to_contain_text("transition into it: O → I-PER")
    expect(why.locator(".states")).to_contain_text("I-PER#1")
    page.get_by_role("button", name="Close the reasons").click()
    expect(why).to_contain_text("Choose a token")


def test_reasons_are_those_of_the_best_labelling(page: Any) -> None:
    type_text(page, TEXT)
    page.select_option("[data-column='0'] [name=decoder]", "marginal")
    settled(page)
    expect(page.locator(".proof").first).to_contain_text(
        "Not proven: a more probable labelling may exist."
    )
    page.click(".token[data-token='6']")
    expect(page.locator("#why .note")).to_contain_text("The decoder chose another labelling.")
    expect(page.locator("#why .note")).to_contain_text("which has O here, not B-ORG")


def width(row: Any) -> float:
    return float(row.locator(".axis > span").bounding_box()["width"])


def test_keyboard_alone(page: Any) -> None:
    type_text(page, TEXT)
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert focused(page) == "Hans"
    page.focus("#copy")
    page.keyboard.press("Tab")
    assert focused(page) == "Hans"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key, word in [
        ("ArrowRight", "Blix"),
        ("End", "."),
        ("ArrowRight", "We"),
        ("ArrowUp", "Hans"),
        ("ArrowLeft", "Hans"),
    ]:
        page.keyboard.press(key)
        assert focused(page) == word
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#why .reasons").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Close the reasons"
    page.keyboard.press("Escape")
    expect(page.locator("#why .reasons")).to_have_count(0)
    assert focused(page) == "Blix"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".next > li").first).to_be_visible()


def focused(page: Any) -> str:
    return str(
        page.evaluate(
            "document.activeElement.querySelector('.word')?.textContent ?? "
            "document.activeElement.id"
        )
    )


def test_columns_are_compared(page: Any) -> None:
    type_text(page, "United Nations in London.")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".card[data-column='1']")).to_be_visible()
    expect(page.locator("#differences")).to_have_text("A and B differ at 1 of 5 tokens (marked ≠).")
    assert page.locator(".differs .word").all_inner_texts() == ["Nations", "Nations"]
    assert "other column B-ORG" in page.locator(".differs").first.get_attribute("aria-label")
    page.select_option("[data-column='1'] [name=decoder]", "ldi")
    expect(page.locator(".card[data-column='1'] .proof")).to_contain_text(
        "more probable, by at most 0.02."
    )
    view = parse_qs(urlsplit(page.url).fragment)
    assert view == {
        "model": ["names"],
        "model2": ["hidden"],
        "decoder2": ["ldi"],
        "text": ["United Nations in London."],
    }
    page.reload()
    expect(page.locator("#differences")).to_contain_text("differ at 1")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".card")).to_have_count(1)


def test_labels_stand_below_tokens_where_there_are_no_spans(page: Any) -> None:
    type_text(page, TEXT)
    page.select_option("[data-column='0'] [name=model]", "words")
    expect(page.locator(".stacked").first.locator(".tag")).to_have_text(
        ["NNP", "NNP", "NN", "NNP", "NN", "NNP", "NN"]
    )
    expect(page.locator("[data-column='0'] [name=decoder]")).to_be_disabled()


def test_themes(browser: Any, service: Any) -> None:
    for page in opened(browser, service[0], color_scheme="dark"):
        ground = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(ground) == "rgb(13, 17, 23)"
        page.get_by_role("button", name="Theme: automatic").click()
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.reload()
        expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
        assert page.evaluate(ground) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_text(browser: Any, service: Any, scheme: str) -> None:
    for page in opened(browser, service[0], color_scheme=scheme):
        type_text(page, TEXT)
        page.click(".token[data-token='1']")
        expect(page.locator("#why .reasons").first).to_be_visible()
        page.locator("[data-part=next] summary").first.click()
        expect(page.locator(".next > li").first).to_be_visible()
        low = page.evaluate(CONTRAST)
        assert not low


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report(browser: Any, report: str, scheme: str) -> None:
    for page in opened(
        browser, report, color_scheme=scheme, viewport={"width": 360, "height": 700}
    ):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert not page.evaluate(CONTRAST)
        assert page.locator("nav a").all_inner_texts()[:3] == ["Scores", "Errors", "Calibration"]
        expect(page.locator("output")).to_have_text("2 of 2 errors")
        page.locator(".confusion .pick").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("output")).to_have_text("1 of 2 errors")
        expect(page.locator("article mark").first).to_contain_text("Oslo")
        expect(page.locator(".why")).to_have_count(1)
        page.locator(".tokens button[aria-pressed=true]").click()
        expect(page.locator(".why")).to_have_count(0)


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const luminance = (layers) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of layers) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes]
      .some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!hasText || !node.checkVisibility()) continue;
    const layers = [];
    for (let up = node; up; up = up.parentElement) {
      layers.unshift(getComputedStyle(up).backgroundColor);
    }
    const [a, b] = [luminance(layers), luminance([...layers, getComputedStyle(node).color])]
      .sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push([node.className, node.textContent.slice(0, 30), ratio]);
  }
  return low;
}"""


def test_the_width_of_a_phone(browser: Any, service: Any) -> None:
    for page in opened(
        browser, service[0], viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True
    ):
        type_text(page, f"{TEXT} {'Very' * 60}. " + "Hans met Anna in London " * 10)
        page.get_by_role("button", name="Compare").tap()
        expect(page.locator(".card[data-column='1']").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator(".card").last.locator(".token").last.tap()
        why = page.locator("#why")
        expect(why.locator(".reasons").first).to_be_visible()
        token, panel = page.locator(".token[aria-pressed=true]").bounding_box(), why.bounding_box()
        assert token["y"] + token["height"] <= panel["y"]  # the token stays in sight
        assert panel["x"] >= 0
        assert panel["width"] <= 360
        page.get_by_role("button", name="Close the reasons").tap()
        expect(why).to_be_hidden()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\n ",
        "😀 Anna 👩‍👩‍👧 met Bo 🇩🇪.",
        "שלום Anna עולם.",
        "<img src=x onerror=alert(1)> & <b>Bo</b>",
        "Anna met Bo. " * 770,
    ],
    ids=["empty", "blank", "emoji", "right-to-left", "markup", "10,000 characters"],
)
def test_odd_texts(page: Any, text: str) -> None:
    type_text(page, text)
    expect(page.locator("#status")).not_to_have_class(re.compile("error"))
    assert page.locator("#sentences img, #sentences b").count() == 0
    shown = "".join(page.locator(".card .line .word").all_text_contents())
    assert shown == re.sub(r"\s", "", text)
    if "😀" in text:
        # places count code points
        assert page.locator(".card .line").first.inner_text().startswith("😀 Anna")
    if "שלום" in text:
        assert page.evaluate("getComputedStyle(document.querySelector('.line')).direction") == "rtl"
    assert ("text=" in page.url) == (len(text) <= 2000)


def test_errors_stand_in_one_line_and_results_stay(page: Any) -> None:
    type_text(page, "Anna.")
    expect(page.locator(".card")).to_have_count(1)
    before = page.locator("#results").bounding_box()
    page.fill("#text", "Fail now.")
    expect(page.locator("#status")).to_have_text("text: too long, <b>at most</b> 10 tokens")
    expect(page.locator(".card")).to_have_count(1)
    assert page.locator("#results").bounding_box()["y"] == before["y"]
    page.fill("#text", "Berta.")
    expect(page.locator("#status")).to_have_text("1 sentence, 2 tokens")


def test_copy_as_json(browser: Any, service: Any) -> None:
    for page in opened(browser, service[0], permissions=["clipboard-read", "clipboard-write"]):
        type_text(page, "Anna.")
        expect(page.locator(".span .word")).to_have_text(["Anna"])
        page.get_by_role("button", name="Copy JSON").click()
        expect(page.locator("#status")).to_have_text("Copied as JSON.")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert copied["model"] == "names"
        assert copied["sentences"][0]["labels"] == ["B-PER", "O"]


def test_a_token_is_asked_for_and_kept(browser: Any) -> None:
    with stand_in(token="open-sesame") as (address, _):
        for page in opened(browser, address):
            field = page.get_by_label("This service needs an access token")
            field.fill("wrong")
            field.press("Enter")
            expect(page.locator("#status")).to_have_text("The access token was refused.")
            field.fill("open-sesame")
            field.press("Enter")
            expect(page.locator(".span").first).to_be_visible()
            expect(field).to_be_hidden()
            page.reload()
            expect(page.locator(".span").first).to_be_visible()
            assert page.evaluate("Object.keys(localStorage).length") == 0


def test_with_the_service_itself(browser: Any, tmp_path: Any) -> None:
    """Not the stand-in: a small latent CRF behind `labelwright serve`."""
    pytest.importorskip("fastapi", reason="needs the extra serve")
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    import subprocess
    import sys

    from labelwright import LatentCRF

    X, y = (
        [["Anna", "met", "Bo", "."], ["We", "met", "."]],
        [["B-PER", "O", "B-PER", "O"], ["O", "O", "O"]],
    )
    LatentCRF(n_latent=2, random_state=0, max_iter=20).fit(X, y).save(tmp_path / "tiny.crf")
    command = [
        sys.executable,
        "-m",
        "labelwright",
        "serve",
        str(tmp_path / "tiny.crf"),
        "--port",
        "0",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        try:
            address = ""
            while not address:
                line = running.stdout.readline()  # type: ignore[union-attr]
                assert line, "the service ended"
                address = next(iter(re.findall(r"http://\S+", line)), "")
            for page in opened(browser, f"{address}/"):
                type_text(page, "Anna met Bo.")
                expect(page.locator(".span .word")).to_have_text(["Anna", "Bo"])
                page.locator("[data-part=next] summary").click()
                expect(page.locator(".next > li").nth(1).locator("mark").first).to_be_visible()
                page.click(".token[data-token='0']")
                expect(page.locator("#why .states")).to_contain_text("B-PER#")
                expect(page.locator("#why")).to_contain_text("sum: the log-odds")
        finally:
            running.terminate()
