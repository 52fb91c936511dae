"""labelwright explain: text, JSON, pages, and what is refused."""

import json
from pathlib import Path

import pytest
from command import one_line

import labelwright
from labelwright.corpus import read_columns


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A folder with a model of each kind and a test file."""
    corpus = read_columns(data / "train.txt", names="word,pos,chunk")
    target = tmp_path_factory.mktemp("explain")
    (target / "test.txt").write_bytes((data / "test.txt").read_bytes())
    (target / "empty.txt").write_text("")
    labelwright.CRF(template="words", max_iter=8, n_jobs=1).fit(corpus).save(target / "crf")
    labelwright.SemiCRF(template="words", max_iter=8, n_jobs=1).fit(corpus).save(target / "semi")
    labelwright.Perceptron(template="words", max_iter=3, n_jobs=1).fit(corpus).save(target / "perceptron")
    labelwright.MemoryTagger(n_jobs=1).fit(corpus).save(target / "memory")
    return target


@pytest.mark.parametrize("name", ["crf", "semi", "perceptron", "memory"])
def test_a_sentence_in_short_and_a_token_in_full(run, models: Path, name: str) -> None:
    code, out, err = run("explain", models / name, models / "test.txt", "--sentence", 1)
    assert (code, err) == (0, "")
    assert out.startswith(f"sentence 1 of {models / 'test.txt'}\n")
    assert "runner-up" in out
    for token in (0, 1):
        code, out, err = run("explain", models / name, models / "test.txt", "--token", token, "--top", 2)
        assert (code, err) == (0, "")
        assert out.startswith(f"sentence 0, token {token} of ")
        assert "  label " in out
    if name != "memory":
        assert "sum: the " in out


@pytest.mark.parametrize("name", ["crf", "semi", "perceptron", "memory"])
def test_json_holds_every_contribution(run, models: Path, name: str) -> None:
    facts = json.loads(run("explain", models / name, models / "test.txt", "--first", 2, "--json")[1])
    assert len(facts["sentences"]) == 2
    for sentence in facts["sentences"]:
        (tokens,) = sentence["layers"].values()
        assert [token["word"] for token in tokens] == sentence["words"]
        for token in tokens:
            if token["log_odds"] is not None:
                total = sum(row["value"] for row in token["contributions"])
                assert total == pytest.approx(token["log_odds"], abs=1e-9)


def test_against_a_label(run, models: Path) -> None:
    out = run("explain", models / "crf", models / "test.txt", "--token", 0, "--against", "O")[1]
    assert "  runner-up  O  (probability " in out


@pytest.mark.parametrize("name", ["crf", "memory"])
def test_a_page_is_self_contained(run, models: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "why.html"
    code, out, err = run("explain", models / name, models / "test.txt", "--first", 2, "--html", target)
    assert (code, out) == (0, "")
    assert err.startswith(f"{target}: 2 sentences")
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    facts = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert len(facts["sentences"]) == 2
    assert run("explain", models / name, models / "test.txt", "--html", "-")[1].startswith("<!doctype html>")


def test_words_cannot_end_the_script(run, models: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("</script><b>\tNN\n\n")
    text = run("explain", models / "crf", tmp_path / "bad.txt", "--html", "-")[1]
    assert "</script><b>" not in text
    assert text.count("</script>") == 2


def test_a_cascade_shows_the_highest_layer_and_those_below(run, folder: Path) -> None:
    place = folder / "two", folder / "words.txt"
    out = run("explain", *place, "--token", 0)[1]
    assert ", layer chunk: " in out
    assert ", layer pos: " not in out
    assert ", layer pos: " in run("explain", *place, "--token", 0, "--below")[1]
    facts = json.loads(run("explain", *place, "--layer", "pos", "--json")[1])
    assert list(facts["sentences"][0]["layers"]) == ["pos"]


def test_what_is_refused(run, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    for arguments, part in {
        ("crf", "test.txt", "--sentence", 9999): "--sentence: test.txt has sentences 0 to",
        ("crf", "empty.txt"): "empty.txt: no tokens, expected one token per line",
        ("crf", "test.txt", "--token", 999): "--token: sentence 0 of test.txt has tokens 0 to",
        ("crf", "test.txt", "--sentence", 0, "--first", 2): "--first: shows several sentences",
        ("crf", "test.txt", "--first", 0): "--first: expected 1 or more, got 0",
        ("crf", "test.txt", "--top", -1): "--top: expected 0 or more, got -1",
        ("crf", "test.txt", "--layer", "pos"): "--layer: crf is a CRF, which has no layers",
        ("crf", "test.txt", "--against", "B-FOO"): "--against: no label 'B-FOO' in this model",
        ("crf", "test.txt", "--html", "crf"): "crf: would replace crf",
        ("memory", "test.txt", "--below"): "--below: memory is a MemoryTagger, which has no layers",
        ("crf", "missing.txt"): "missing.txt: cannot read: no such file",
    }.items():
        code, out, err = run("explain", *arguments)
        assert (code, out) == (2, ""), arguments
        one_line(err, part)
