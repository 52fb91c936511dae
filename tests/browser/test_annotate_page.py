"""Labelling sessions with `labelwright annotate` in a real browser, by keys, by mouse, and with a
kill in the middle.

apt-get install chromium; pip install playwright; pytest tests/browser -m slow
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from test_page import CHROMIUM, FLAGS, expect, opened, pytestmark  # noqa: E402, F401

TEXTS = [
    "Ada met Alan Turing.",
    "Grace left Paris in May.",
    "Nobody came.",
    "Emmy Noether saw Kurt.",
    "It rained.",
]


class Service:
    """The command in a process of its own, which can be killed and started again at the same
    port."""

    def __init__(self, folder: Path):
        self.folder, self.port = folder, 0
        (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n")
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "labelwright",
            "annotate",
            "texts.txt",
            "-o",
            "answers.jsonl",
            "--sentences",
        ]
        command += [
            "lines",
            "--labels",
            "PER,LOC",
            "--seed-words",
            "PER=Ada,Emmy",
            "--port",
            str(self.port),
        ]
        self.process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.address = re.search(r"http://\S+:(\d+)", line)[0] + "/"  # type: ignore[index]
        self.port = int(self.address.rpartition(":")[2][:-1])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def answers(self) -> dict[str, Any]:
        lines = (self.folder / "answers.jsonl").read_bytes().splitlines()
        records = [json.loads(line) for line in lines]
        assert len({record["text"] for record in records}) == len(records)
        return {record.pop("text"): record for record in records}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.kill()


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    yield from opened(browser, service.address)


def shown(page: Any) -> str:
    """The sentence on the page, by its words."""
    expect(page.locator("#card")).to_have_attribute("aria-busy", "false")
    words = page.locator("#line .token .word").all_inner_texts()
    return next(text for text in TEXTS if re.findall(r"\w+|\S", text) == words)


def find(page: Any, text: str) -> None:
    shown(page)
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.get_by_role("button", name=text).click()
    expect(page.locator("#line")).to_be_focused()
    assert shown(page) == text


def marks(page: Any) -> list[str]:
    return [" ".join(each.split()) for each in page.locator("#line .span").all_inner_texts()]


def accept(page: Any, key: str = "Enter") -> None:
    before = page.locator("#line").inner_text()
    page.keyboard.press(key)
    page.wait_for_function(
        "before => document.querySelector('#line').innerText !== before", arg=before
    )
    expect(page.locator("#card")).to_have_attribute("aria-busy", "false")


def test_a_session_by_keys_alone_with_a_kill_in_the_middle(page: Any, service: Service) -> None:
    assert shown(page) in (TEXTS[0], TEXTS[3])  # with a seed word, which is suggested
    expect(page.locator("#line .suggested")).to_have_count(1)
    find(page, TEXTS[0])
    assert marks(page) == ["Ada PER"]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Shift+ArrowRight", "p"):
        page.keyboard.press(key)
    assert marks(page) == ["Ada PER", "Alan Turing PER"]
    expect(page.locator("#status")).to_have_text("PER: Alan Turing")
    accept(page)
    assert service.answers() == {TEXTS[0]: {"label": [[0, 3, "PER"], [8, 19, "PER"]]}}

    find(page, TEXTS[1])
    for key in ("ArrowRight", "1", "ArrowRight", "ArrowRight", "2"):  # types by their numbers, too
        page.keyboard.press(key)
    assert marks(page) == ["Grace PER", "Paris LOC"]
    service.kill()
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("The service does not answer")
    assert marks(page) == ["Grace PER", "Paris LOC"]
    service.start()
    expect(page.locator("#count")).to_contain_text("2 of 5", timeout=30_000)  # it was sent again
    assert service.answers()[TEXTS[1]] == {"label": [[0, 5, "PER"], [11, 16, "LOC"]]}

    expect(page.locator("#card")).to_have_attribute("aria-busy", "false")  # with the next sentence
    accept(page, "Control+z")  # the answer is taken back, and shown again
    assert shown(page) == TEXTS[1]
    assert list(service.answers()) == [TEXTS[0]]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Backspace")
    assert marks(page) == ["Paris LOC"]
    page.keyboard.press("Control+z")  # a change is taken back
    assert marks(page) == ["Grace PER", "Paris LOC"]
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    page.keyboard.press("?")  # the last token stays open
    accept(page)
    assert service.answers()[TEXTS[1]] == {
        "label": [[0, 5, "PER"], [11, 16, "LOC"]],
        "unknown": [[23, 24]],
    }

    find(page, TEXTS[3])
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("p")
    page.keyboard.press("Escape")
    page.keyboard.press("?")  # all but the own marks
    accept(page)
    assert service.answers()[TEXTS[3]] == {"label": [[0, 12, "PER"]], "unknown": [[13, 22]]}

    first = shown(page)
    accept(page, "Shift+Enter")
    second = shown(page)
    assert {first, second} == {TEXTS[2], TEXTS[4]}
    accept(page)
    assert shown(page) == first  # which was skipped
    accept(page)
    expect(page.locator("#line")).to_have_text("All sentences are labelled.")
    assert service.answers().keys() == set(TEXTS)
    expect(page.locator("#count")).to_have_text("5 of 5 sentences (2 in part)")


def test_marking_by_mouse_new_types_and_corrections(page: Any, service: Service) -> None:
    find(page, TEXTS[1])

    def middle(token: int) -> tuple[float, float]:
        box = page.locator(f"#line [data-token='{token}']").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.mouse.move(*middle(3))
    page.mouse.down()
    page.mouse.move(*middle(4), steps=3)
    page.mouse.up()
    expect(page.locator("#line .chosen .word")).to_have_text(["in", "May"])
    page.get_by_role("button", name="+ Type").click()
    page.keyboard.type("TIME")
    page.keyboard.press("Enter")
    assert marks(page) == ["in May TIME"]
    page.click("#line [data-token='0']")
    page.get_by_role("button", name="PER").click()
    page.click("#line [data-token='3']")  # chooses the whole mark
    expect(page.locator("#line .chosen")).to_have_count(2)
    page.dblclick("#line [data-token='3']")  # or the word
    expect(page.locator("#line .chosen")).to_have_count(1)
    page.get_by_role("button", name="No mark").click()
    assert marks(page) == ["Grace PER", "May TIME"]
    page.click("#accept")
    expect(page.locator("#count")).to_contain_text("1 of 5")
    assert service.answers() == {TEXTS[1]: {"label": [[0, 5, "PER"], [20, 23, "TIME"]]}}

    page.select_option("#which", "yes")
    page.get_by_role("button", name=f"Answered: {TEXTS[1]}").click()
    expect(page.locator("#why")).to_contain_text("Answered; correct it")
    page.get_by_role("button", name="Remove answer").click()
    expect(page.locator("#count")).to_contain_text("0 of 5")
    assert service.answers() == {}
    page.click("#undo")
    expect(page.locator("#status")).to_have_text("The answer is kept again.")
    assert service.answers() == {TEXTS[1]: {"label": [[0, 5, "PER"], [20, 23, "TIME"]]}}


def test_two_people_do_not_overwrite_each_other(browser: Any, page: Any, service: Service) -> None:
    other = browser.new_context().new_page()
    other.goto(service.address)
    assert shown(page) != shown(other)
    for each, key in ((page, "1"), (other, "2")):
        find(each, TEXTS[1])
        each.keyboard.press("ArrowRight")
        each.keyboard.press(key)
    accept(page)
    other.keyboard.press("Enter")
    expect(other.locator("#conflict")).to_contain_text(
        "Somebody has answered this sentence meanwhile"
    )
    expect(other.locator("#conflict .span")).to_have_text(re.compile("Grace.*PER"))
    assert marks(other) == ["Grace LOC"]
    assert service.answers()[TEXTS[1]] == {"label": [[0, 5, "PER"]]}
    other.get_by_role("button", name="Replace it with mine").click()
    expect(other.locator("#conflict")).to_be_hidden()
    expect(other.locator("#status")).to_have_text("Kept.")
    assert service.answers()[TEXTS[1]] == {"label": [[0, 5, "LOC"]]}
    other.context.close()
    page.click("#undo")
    expect(page.locator("#status")).to_have_text(
        "Somebody has changed this answer meanwhile; it is kept."
    )
    assert (shown(page), marks(page)) == (TEXTS[1], ["Grace LOC"])
    assert service.answers()[TEXTS[1]] == {"label": [[0, 5, "LOC"]]}
    expect(page.locator("#undo")).to_be_disabled()  # nothing is left to undo


def test_a_duplicated_tab_is_a_page_of_its_own_and_a_loaded_one_is_not(
    page: Any, service: Service
) -> None:
    first = shown(page)
    accept(page)
    second = shown(page)
    storage = page.evaluate("({ ...sessionStorage })")
    for _ in range(3):
        page.reload()
        assert shown(page) == second
        assert page.evaluate("({ ...sessionStorage })") == storage
    copy = page.context.new_page()
    copy.add_init_script(
        f"for (const [k, v] of Object.entries({json.dumps(storage)})) sessionStorage.setItem(k, v)"
    )
    copy.goto(service.address)
    assert shown(copy) not in (first, second)
    assert copy.evaluate("sessionStorage.page") != storage["page"]
    expect(copy.locator("#undo")).to_be_disabled()
    copy.close()


def test_a_page_with_an_answer_under_way_asks_before_it_is_closed(
    page: Any, service: Service
) -> None:
    text = shown(page)
    service.kill()
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("The service does not answer")
    before = marks(page)
    page.click("#line [data-token='0']")
    page.get_by_role("button", name="LOC").click()
    assert marks(page) == before  # the answer that is sent is the one that is shown
    with page.expect_event("dialog") as asked:
        page.close(run_before_unload=True)
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    service.start()
    expect(page.locator("#count")).to_contain_text("1 of 5", timeout=30_000)
    assert list(service.answers()) == [text]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_and_has_names_and_contrast(
    browser: Any, service: Service, scheme: str, width: int
) -> None:
    for page in opened(
        browser, service.address, viewport={"width": width, "height": 740}, color_scheme=scheme
    ):
        shown(page)
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        unnamed = "e => !e.hidden && !(e.innerText || e.labels?.length || e.ariaLabel)"
        unnamed = (
            "[...document.querySelectorAll('button, input, select, "
            f"[role=button]')].filter({unnamed})"
        )
        assert page.evaluate(f"{unnamed}.length") == 0
        assert page.evaluate(CONTRAST) == []


# Texts whose contrast with what is behind them is below 4.5.
CONTRAST = """(() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) =>
    (e ? [...behind(e.parentElement), getComputedStyle(e).backgroundColor] : []);
  const isText = (e) => e.checkVisibility() && !e.closest(":disabled, .hidden, .skip") &&
    [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const isFaint = (e) => {
    const colours = [[...behind(e), getComputedStyle(e).color], behind(e)]
      .map((all) => light(over(all)));
    return (Math.max(...colours) + 0.05) / (Math.min(...colours) + 0.05) < 4.5;
  };
  return [...document.querySelectorAll("body *")].filter(isText).filter(isFaint)
    .map((e) => e.outerHTML.slice(0, 120));
})()"""
