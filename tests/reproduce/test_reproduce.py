"""Experiments run step by step, resume, and report the same results as Markdown, page and JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, raise_signal
from typing import Any

import pytest

from labelwright import CRF, Corpus
from labelwright.cli import main
from labelwright.errors import OptionError
from labelwright.reproduce import PAPERS, experiment
from labelwright.reproduce.experiment_report import write_report
from labelwright.reproduce.measured import claimed, difference, trained
from labelwright.reproduce.work import Claim, Experiment, Figure, Findings, Panel, Row, Step, Work

COMMAND = "labelwright reproduce small"


def small(calls: list[str], fails: bool = False) -> Experiment:
    """Two steps, the second of which uses the first."""

    def first(work: Work) -> dict:
        calls.append("first")
        work.keep_labels("a|b", [["B-NP", "O"], ["O"]])
        return {"F1": 91.0, "shown": "F1 91"}

    def second(work: Work) -> dict:
        calls.append("second")
        if fails:
            raise KeyboardInterrupt
        return {"F1": work.results["first"]["F1"] + len(work.labels("a|b"))}

    def findings(work: Work) -> Findings:
        rows = [
            Row("Table 1", "CRF | x", "F1", 90.63, work.results["second"]["F1"], 0.5, 12.3456789)
        ]
        panel = Panel("n", "F1", {"a": ([1, 2], [[3.0, 4.0], [3.5, 4.0]])}, paper={"a": [(1, 3.2)]})
        return Findings(
            rows,
            [Claim("a > b", "kept", "93 and 90")],
            [Figure("figure-1", "A figure.", [panel])],
            ["Note."],
        )

    steps = [Step("first", 1, first), Step("second", 1, second, 1)]
    readings, remarks = ["Read so."], ["It was checked."]
    return Experiment(
        "small",
        "A title",
        "Who 2009",
        [],
        lambda work: steps,
        findings,
        __file__,
        None,
        readings,
        remarks,
    )


def test_an_interrupted_run_resumes_with_the_next_step(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        Work(small(calls, fails=True), None, tmp_path, False, print).run()
    lines: list[str] = []
    work = Work(small(calls), None, tmp_path, False, lines.append)
    work.run()
    assert calls == ["first", "second", "second"]
    assert work.results["second"]["F1"] == 93.0
    assert lines[0] == "small: 1 of 2 steps are done; resuming"
    assert lines[1] == "small: 1 step to run, about 60 s on two cores; first: second"
    assert lines[2].startswith("[2/2] second (")


def test_a_quick_run_never_takes_results_of_a_full_one(tmp_path: Path) -> None:
    calls: list[str] = []
    for quick in (False, True):
        Work(small(calls), None, tmp_path, quick, print).run()
    assert calls == ["first", "second"] * 2


def test_a_fresh_run_begins_anew(tmp_path: Path) -> None:
    calls: list[str] = []
    for fresh in (False, True):
        Work(small(calls), None, tmp_path, False, print, fresh).run()
    assert calls == ["first", "second"] * 2


def test_a_fresh_run_without_its_corpus_keeps_what_is_there(tmp_path: Path) -> None:
    made = small([])
    Work(made, None, tmp_path, False, print).run()
    with pytest.raises(OptionError, match="needs the corpus nowhere"):
        Work(replace(made, corpora=["nowhere"]), tmp_path, tmp_path, False, print, fresh=True)
    assert list((tmp_path / made.name / "steps").iterdir())


def test_damaged_results_are_made_again(tmp_path: Path) -> None:
    calls: list[str] = []
    work = Work(small(calls), None, tmp_path, False, print)
    work.run()
    (work.folder / "steps" / "first.json").write_text("{")
    Work(small(calls), None, tmp_path, False, print).run()
    assert calls == ["first", "second"] * 2  # what came after it may depend on it


def test_the_report_has_the_same_figures_in_every_form(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = small([])
    work = Work(made, None, tmp_path, False, print)
    paths = write_report(work, work.run(), COMMAND)
    assert [path.name for path in paths] == [
        "small.results.json",
        "small.md",
        "small.html",
        "small.figure-1.png",
    ]
    record = json.loads(paths[0].read_text())
    assert record["experiment"] == "small"
    assert record["notes"] == ["Read so.", "Note.", "It was checked."]
    assert record["rows"] == [
        {
            "table": "Table 1",
            "system": "CRF | x",
            "metric": "F1",
            "paper": 90.63,
            "ours": 93.0,
            "spread": 0.5,
            "seconds": 12.3457,
            "command": "labelwright reproduce small",
            "variant": "as published",
            "settings": "",
            "seeds": [0],
            "comparable": True,
        }
    ]
    text, page = paths[1].read_text(), paths[2].read_text()
    assert "| CRF \\| x | as published | 93.00 ± 0.25 (90.63) |" in text
    assert "![A figure.](small.figure-1.png)" in text
    assert "<td>93.00 ± 0.25 (90.63)</td>" in page
    assert "data:image/png;base64," in page
    assert "| a > b | kept | 93 and 90 |" in text


def test_without_matplotlib_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labelwright.reproduce.experiment_report.can_draw", lambda: False)
    made = small([])
    work = Work(made, None, tmp_path, True, print)
    paths = write_report(work, work.run(), COMMAND)
    assert [path.name for path in paths] == [
        "small.quick.results.json",
        "small.quick.md",
        "small.quick.html",
    ]
    assert "these figures mean nothing" in paths[1].read_text()
    assert "matplotlib is missing" in paths[1].read_text()


def test_misses_are_marked_where_the_data_are_those_of_the_paper(tmp_path: Path) -> None:
    rows = [
        Row("Table 1", "CRF", "F1", 90.0, 89.0),
        Row("Table 1", "CRF", "F1", 90.0, 89.999, variant="ours"),
        Row("Table 1", "CRF", "time", 100.0, 1.0),
        Row("Table 1", "other data", "F1", 90.0, 50.0, comparable=False),
        Row("Table 1", "better", "F1", 90.0, 91.0),
        Row("Table 1", "not in the paper", "F1", None, 1.0),
    ]
    work = Work(small([]), None, tmp_path, False, print)
    text = write_report(work, Findings(rows), COMMAND)[1].read_text()
    assert [line for line in text.splitlines() if "▼" in line and line.startswith("|")] == [
        "| CRF | as published | 89.00 (90.00) ▼ | 1.00 s (100 s) |"
    ]


def test_tables_of_tests_come_last_and_pages_show_no_marks_of_markdown(tmp_path: Path) -> None:
    rows = [
        Row("Pairs of systems", "a / b", "p, F1", None, 0.01),
        Row("Sweeps", "CRF", "F1", None, 89.0, settings="`CRF(l2=1.0)`, ended after 3"),
    ]
    findings = Findings(rows, [Claim("a is better than b", "kept", "p = 0.01")])
    markdown, page = write_report(Work(small([]), None, tmp_path, False, print), findings, COMMAND)[
        1:3
    ]
    assert [
        line.removeprefix("## ")
        for line in markdown.read_text().splitlines()
        if line.startswith("## ")
    ] == [
        "What the paper says, and whether it holds here",
        "What was checked",
        "Sweeps",
        "How it was read and run",
        "Pairs of systems",
    ]
    assert "<code>CRF(l2=1.0)</code>, ended after 3" in page.read_text()
    assert "A difference is <em>kept</em> where" in page.read_text()
    assert "`" not in page.read_text()
    untested = Findings(rows, [Claim("a holds", "holds", "")])
    assert (
        "*kept*"
        not in write_report(Work(small([]), None, tmp_path, False, print), untested, COMMAND)[
            1
        ].read_text()
    )


def test_the_tests_of_two_systems_say_which_is_better(tmp_path: Path) -> None:
    gold = [["B-NP", "I-NP", "O"]] * 40
    work = Work(small([]), None, tmp_path, False, print)
    (work.folder / "labels").mkdir(parents=True)
    work.keep_labels("right", gold)
    work.keep_labels("wrong", [["B-NP", "O", "O"]] * 30 + gold[:10])
    names = {"wrong": "wrong", "right": "right"}
    pairs = work.differences(gold, names)
    assert list(pairs) == ["wrong / right"]
    pair, other = (
        difference(pairs, *systems) for systems in (("right", "wrong"), ("wrong", "right"))
    )
    assert pair["F1"] == other["F1"][::-1] == [100.0, 25.0]
    assert (pair["only first correct"], pair["only second correct"]) == (30, 0)
    assert (other["only first correct"], other["only second correct"]) == (0, 30)
    relations = [
        "better than",
        "significantly better than",
        "almost as good as",
        "not significantly different from",
    ]
    assert [claimed(pairs, "right", each, "wrong").kept for each in relations] == [
        *["kept"] * 2,
        "holds",
        "does not hold",
    ]
    assert [claimed(pairs, "wrong", each, "right").kept for each in relations] == [
        *["not kept"] * 2,
        *["does not hold"] * 2,
    ]
    means = {"right": 60.0, "wrong": 70.0}  # over seeds: what seed 0 shows must agree
    assert claimed(pairs, "right", "better than", "wrong", means=means).kept == "not kept"
    turned = claimed(pairs, "wrong", "better than", "right", means=means)
    assert turned.kept == "same direction, not significant"
    assert turned.evidence.startswith(
        "means 70.00 and 60.00; seed 0: F1 25.00 and 100.00, p = 0.0001; "
    )
    work.keep_labels("wrong", [["B-NP", "O", "O"], *gold[1:]])
    pairs = work.differences(gold, names)
    assert [claimed(pairs, "right", each, "wrong").kept for each in relations] == [
        *["same direction, not significant"] * 2,
        *["holds"] * 2,
    ]
    assert (
        claimed(pairs, "right", "better than", "wrong", " here").text
        == "right is better than wrong here"
    )


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("quick", [False, True])
def test_experiments_have_steps_of_different_names_and_end_in_time(
    name: str, quick: bool, tmp_path: Path
) -> None:
    made = experiment(name)
    for corpus in made.corpora:
        (tmp_path / corpus).mkdir()
    steps = made.steps(Work(made, tmp_path, tmp_path, quick, print))
    assert made.name == name
    assert len({step.name for step in steps}) == len(steps)
    assert sum(step.minutes for step in steps) <= 10 * 60


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown experiment 'ldi'"):
        experiment("ldi")


def test_a_missing_corpus_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "multilayer", "--corpora", str(tmp_path), "-o", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "needs the corpus conll2000" in message


def test_a_changed_corpus_begins_anew(tmp_path: Path) -> None:
    calls: list[str] = []
    made = replace(small(calls), corpora=["letters"])
    (tmp_path / "letters").mkdir()
    for text in ("a A\n", "b B\n", "b B\n"):
        (tmp_path / "letters" / "train.txt").write_text(text)
        Work(made, tmp_path, tmp_path / "out", False, print).run()
    assert calls == ["first", "second"] * 2


def test_what_only_tells_results_does_not_invalidate_them(tmp_path: Path) -> None:
    calls: list[str] = []
    source = tmp_path / "steps.py"
    for text in (
        "a = 1\n\n# -- findings --\nb = 1\n",
        "a = 1\n\n# -- findings --\nb = 2\n",
        "a = 2\n",
    ):
        source.write_text(text)
        Work(replace(small(calls), source=str(source)), None, tmp_path, False, print).run()
    assert calls == ["first", "second"] * 2


def test_a_model_that_was_interrupted_is_none() -> None:
    def stop(record: Any, limit: int) -> None:
        raise_signal(SIGINT)

    X, y = [["a", "b"]] * 4, [["A", "B"]] * 4
    with pytest.raises(KeyboardInterrupt):
        trained(CRF(n_jobs=1), Corpus.from_sequences(X, y), progress=stop)
    assert trained(CRF(n_jobs=1), Corpus.from_sequences(X, y))[0].predict(X) == y


@pytest.mark.slow
def test_a_whole_experiment_runs_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "latperc-synthetic", "-o", str(tmp_path), "--quick"]
    assert main(command) == 0
    first = json.loads((tmp_path / "latperc-synthetic.quick.results.json").read_text())
    capsys.readouterr()
    assert main(command) == 0
    assert "steps are done; resuming" in capsys.readouterr().err
    assert json.loads((tmp_path / "latperc-synthetic.quick.results.json").read_text()) == first
    assert main([*command[:2], "-o", str(tmp_path / "jobs"), "--quick", "--jobs", "2"]) == 0
    beside = json.loads((tmp_path / "jobs" / "latperc-synthetic.quick.results.json").read_text())
    assert [(row["system"], row["ours"]) for row in beside["rows"]] == [
        (row["system"], row["ours"]) for row in first["rows"]
    ]
    assert "2 steps at once" in beside["machine"]
    systems = {
        row["system"]: row["ours"]
        for row in first["rows"]
        if row["variant"] == "ours" and row["metric"] == "accuracy"
    }
    assert systems["Lat-Perc"] > systems["Perc"] + 10
    assert {
        row["paper"]
        for row in first["rows"]
        if (row["system"], row["metric"]) == ("CRF", "accuracy")
    } == {63.4}
    assert first["quick"] is True
    assert {claim["kept"] for claim in first["claims"]} <= {"holds", "does not hold"}


@pytest.mark.parametrize("name", PAPERS)
def test_committed_reports_say_what_was_checked(name: str) -> None:
    folder = Path(__file__).parents[2] / "docs" / "papers"
    report, record = (folder / f"{name}{suffix}" for suffix in (".md", ".results.json"))
    remarks = PAPERS[name]["remarks"]
    assert [remark for remark in remarks if f"- {remark}\n" not in report.read_text()] == []
    assert json.loads(record.read_text())["notes"][-len(remarks) :] == remarks


REPORTS = Path(__file__).parents[2] / "docs" / "papers"


@pytest.mark.parametrize("name", PAPERS)
def test_figures_in_remarks_are_those_of_the_report(name: str) -> None:
    rows = json.loads((REPORTS / f"{name}.results.json").read_text())["rows"]
    known = [figure for row in rows for figure in (row["paper"], row["ours"]) if figure is not None]
    told = re.findall(r"\b\d\d\.(\d+)", " ".join(PAPERS[name]["remarks"]))
    shown = {f"{figure:.{len(decimals)}f}" for figure in known for decimals in set(told)}
    assert {
        figure[0] for figure in re.finditer(r"\b\d\d\.\d+", " ".join(PAPERS[name]["remarks"]))
    } <= shown


def test_the_table_of_verdicts_is_that_of_the_reports() -> None:
    lines = [
        line.strip("| ").split(" | ")
        for line in (REPORTS / "index.md").read_text().splitlines()
        if " - " in line and ".md)" in line
    ]
    assert {name.split("](")[0].strip("[") for name, *_ in lines} == set(PAPERS)
    for name, pair, *figures in lines:
        report = json.loads(
            (REPORTS / f"{name.split('](')[0].strip('[')}.results.json").read_text()
        )
        rows = report["rows"]
        data, _, systems = pair.rpartition(": ")
        table = next(row["table"] for row in rows if data in row["table"])
        rows = [
            row
            for row in rows
            if row["table"] == table and row["metric"] in ("F1", "chunk F1", "accuracy")
        ]
        a, b = systems.split(" - ")
        published, ours = (
            {row["system"]: round(row["ours"], 2) for row in rows if row["variant"] == variant}
            for variant in ("as published", "ours")
        )
        expected = [
            f"{published[a] - published[b]:+.2f}",
            f"{ours[a] - ours.get(b, published[b]):+.2f}" if a in ours else "",
        ]
        paper = {row["system"]: row["paper"] for row in rows}
        assert [figure.strip() for figure in figures[:3]] == [
            f"{paper[a] - paper[b]:+.2f}",
            *expected,
        ], pair
        for variant, told in zip(("as published", "ours"), figures[3].split(";"), strict=False):
            first, second = (
                f"{re.escape(system)}{'(, ours)?' if variant == 'ours' else ''}"
                for system in (a, b)
            )
            claim = (
                rf"{first} is (significantly )?better than {second}( \(F1\)| on chunks)?(, "
                rf"{variant})?"
            )
            kept = {each["kept"] for each in report["claims"] if re.fullmatch(claim, each["text"])}
            assert not kept or told.partition("(")[0].strip() in kept, (pair, variant)
