"""labelwright explain: text, JSON, pages, and what is refused."""

import json
import re
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
    labelwright.Perceptron(template="words", max_iter=3, n_jobs=1).fit(corpus).save(
        target / "perceptron"
    )
    labelwright.MemoryTagger(n_jobs=1).fit(corpus).save(target / "memory")
    return target


@pytest.mark.parametrize("name", ["crf", "semi", "perceptron", "memory"])
def test_a_sentence_in_short_and_a_token_in_full(run, models: Path, name: str) -> None:
    code, out, err = run("explain", models / name, models / "test.txt", "--sentence", 1)
    assert (code, err) == (0, "")
    assert out.startswith(f"sentence 1 of {models / 'test.txt'}\n")
    assert "runner-up" in out
    for token in (0, 1):
        code, out, err = run(
            "explain", models / name, models / "test.txt", "--token", token, "--top", 2
        )
        assert (code, err) == (0, "")
        assert out.startswith(f"sentence 0, token {token} of ")
        assert "  label " in out
    if name != "memory":
        assert "sum: the " in out


@pytest.mark.parametrize("name", ["crf", "semi", "perceptron", "memory"])
def test_json_holds_every_contribution(run, models: Path, name: str) -> None:
    facts = json.loads(
        run("explain", models / name, models / "test.txt", "--first", 2, "--json")[1]
    )
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


def test_against_the_label_that_is_predicted(run, models: Path) -> None:
    ask = ["explain", models / "crf", models / "test.txt"]
    plain = run(*ask, "--token", 0)[1]
    label = plain.split("  label ")[1].split()[0]
    code, out, err = run(*ask, "--token", 0, "--against", label)
    assert (code, out) == (0, plain)
    assert (
        err
        == f"--against: {label} is the predicted label of this token; compared with the runner-up\n"
    )
    tokens = json.loads(run(*ask, "--json")[1])["sentences"][0]["layers"][""]
    n = sum(token["label"] == label for token in tokens)
    assert f"{label} is predicted at {n} token" in run(*ask, "--against", label, "--json")[2]


def test_gold_labels_are_shown_and_wrong_tokens_marked(run, models: Path) -> None:
    gold = read_columns(models / "test.txt", names="word,pos,chunk")
    ask = ["explain", models / "crf", models / "test.txt"]
    predicted = labelwright.load(models / "crf").predict(gold)
    facts = json.loads(run(*ask, "--first", len(gold.y), "--json")[1])
    tokens = [each for sentence in facts["sentences"] for each in sentence["layers"][""]]
    assert [each["gold"] for each in tokens] == [label for labels in gold.y for label in labels]
    assert [each["wrong"] for each in tokens] == [each["gold"] != each["label"] for each in tokens]
    with_mistakes = [n for n, labels in enumerate(gold.y) if labels != predicted[n]]
    code, out, err = run(*ask, "--wrong", "--first", 2)
    assert (code, out.count("sentence ")) == (0, 3)
    assert f"{len(with_mistakes)} sentences with wrong labels; the first 2 shown" in err
    only = json.loads(run(*ask, "--wrong", "--first", len(gold.y), "--json")[1])["sentences"]
    assert [sentence["sentence"] for sentence in only] == with_mistakes
    assert all(each["wrong"] for sentence in only for each in sentence["layers"][""])
    n, wrong = with_mistakes[0], only[0]["layers"][""][0]
    decoded, decode = [], labelwright.CRF.decode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            labelwright.CRF,
            "decode",
            lambda self, X, **how: decoded.append(len(X)) or decode(self, X, **how),
        )
        alone = run(*ask, "--wrong", "--sentence", n, "--json")
    assert (json.loads(alone[1])["sentences"], decoded[0]) == (only[:1], 1)
    rows = run(*ask, "--sentence", n)[1].splitlines()
    assert sum("✗" in row for row in rows) == len(only[0]["layers"][""])
    assert (
        f"  gold       {wrong['gold']}  (✗ the label"
        in run(*ask, "--sentence", n, "--token", wrong["token"])[1]
    )


@pytest.mark.slow
def test_gold_labels_of_other_schemes_files_and_layers(
    run, models: Path, folder: Path, tmp_path: Path
) -> None:
    corpus = read_columns(models / "test.txt", names="word,pos,chunk").with_scheme("bioes")
    labelwright.CRF(template="words", max_iter=30, n_jobs=1).fit(corpus).save(tmp_path / "bioes")
    tokens = json.loads(run("explain", tmp_path / "bioes", models / "test.txt", "--json")[1])[
        "sentences"
    ][0]["layers"]
    assert [each["gold"] for each in tokens[""]] == corpus.y[0]
    (tmp_path / "open.txt").write_text("He PRP _\nran VBD B-NP|B-VP\n")
    tokens = json.loads(run("explain", models / "crf", tmp_path / "open.txt", "--json")[1])[
        "sentences"
    ][0]["layers"]
    assert [each["gold"] for each in tokens[""]] == [None, "B-NP|B-VP"]
    tokens = json.loads(
        run("explain", folder / "two", folder / "test.txt", "--below", "--json")[1]
    )["sentences"][0]
    assert all(each["gold"] for layer in tokens["layers"].values() for each in layer)
    (tmp_path / "plain.txt").write_text("He PRP\nran VBD\n")
    assert "  word  label " in run("explain", models / "crf", tmp_path / "plain.txt")[1]
    one_line(
        run("explain", models / "crf", tmp_path / "plain.txt", "--wrong")[2],
        "plain.txt has no labels to compare",
    )


def test_bars_have_a_direction_and_features_come_first(
    run, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run("explain", models / "crf", models / "test.txt", "--token", 1)[1]
    bars = re.findall(r"^ +([+-][\d.]+)  (.{10})│(.{10})  (\S.*)$", out, re.M)
    assert {value[0] for value, *_ in bars} == {"+", "-"}
    for value, left, right, _ in bars:
        assert not (right if value[0] == "-" else left).strip()
    names = [name for *_, name in bars]
    assert [name.split(":")[0] for name in names if "→" in name] == ["into it", "out of it"]
    are_transitions = ["→" in name or "transitions" in name for name in names[:-1]]
    assert are_transitions == sorted(are_transitions)
    assert names[-1] == "sum: the log-odds"
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = run("explain", models / "crf", models / "test.txt")[1].splitlines()
        assert max(map(len, lines[1:-1])) <= width  # the first line names a file


TEXT = "Été!  Ada Lovelace saw Paris. She left."


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained on annotated texts, and a text."""
    target = tmp_path_factory.mktemp("texts")
    line = {
        "text": "Ada Lovelace saw Paris. She met Alan.",
        "spans": [[0, 12, "PER"], [17, 22, "LOC"], [32, 36, "PER"]],
    }
    (target / "texts.jsonl").write_text(
        json.dumps(line) + "\n" + json.dumps({"text": "Paris.", "spans": []}) + "\n"
    )
    corpus = labelwright.read_doccano(target / "texts.jsonl")
    labelwright.CRF(template="ner", max_iter=8, n_jobs=1).fit(corpus).save(target / "names")
    (target / "letter.txt").write_text(TEXT, encoding="utf-8")
    return target


def test_text_is_split_and_tokens_have_places(run, of_texts: Path) -> None:
    ask = ["explain", of_texts / "names", of_texts / "letter.txt", "--text"]
    facts = json.loads(run(*ask, "--first", 9, "--json")[1])
    assert [each["words"] for each in facts["sentences"]] == [
        ["Été", "!"],
        ["Ada", "Lovelace", "saw", "Paris", "."],
        ["She", "left", "."],
    ]
    for sentence in facts["sentences"]:
        for token in sentence["layers"][""]:
            assert TEXT[token["start"] : token["end"]] == token["word"]
    out = run(*ask, "--sentence", 1)[1]
    assert "  1  10-18  Lovelace  " in out
    assert "  place      characters 10 to 18\n" in run(*ask, "--sentence", 1, "--token", 1)[1]
    whole = json.loads(run(*ask, "--sentences", "none", "--json")[1])["sentences"][0]
    assert len(whole["words"]) == 10
    letters = json.loads(run(*ask, "--characters", "--json")[1])["sentences"][0]
    assert letters["words"] == ["É", "t", "é", "!"]


def test_annotated_texts_are_explained(run, of_texts: Path) -> None:
    out = run("explain", of_texts / "names", of_texts / "texts.jsonl", "--sentence", 2)[1]
    assert out.startswith(f"sentence 2 of {of_texts / 'texts.jsonl'}, text 1\n")
    assert re.search(r" 0    0-5  Paris  O +\S", out)  # gold is O


@pytest.mark.parametrize("name", ["crf", "memory"])
def test_a_page_is_self_contained(run, models: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "why.html"
    code, out, err = run(
        "explain", models / name, models / "test.txt", "--first", 2, "--html", target
    )
    assert (code, out) == (0, "")
    assert err.startswith(f"{target}: 2 sentences")
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("panel sentence") == 2
    assert text.count('class="why"') == text.count("<button ")
    assert run("explain", models / name, models / "test.txt", "--html", "-")[1].startswith(
        "<!doctype html>"
    )


def test_words_cannot_end_the_script(run, models: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("</script><b>\tNN\n\n")
    text = run("explain", models / "crf", tmp_path / "bad.txt", "--html", "-")[1]
    assert "</script><b>" not in text
    assert text.count("</script>") == 1


def test_a_cascade_shows_the_highest_layer_and_those_below(run, folder: Path) -> None:
    place = folder / "two", folder / "words.txt"
    out = run("explain", *place, "--token", 0)[1]
    assert ", layer chunk: " in out
    assert ", layer pos: " not in out
    assert ", layer pos: " in run("explain", *place, "--token", 0, "--below")[1]
    facts = json.loads(run("explain", *place, "--layer", "pos", "--json")[1])
    assert list(facts["sentences"][0]["layers"]) == ["pos"]


def test_a_huge_word_is_cut(run, tmp_path: Path) -> None:
    labelwright.CRF(n_jobs=1, max_iter=3).fit([["Ada", "ran"]], [["B-PER", "O"]]).save(
        tmp_path / "names"
    )
    (tmp_path / "huge.txt").write_text(f"{'x' * 5000}\n")
    code, out, err = run("explain", tmp_path / "names", tmp_path / "huge.txt")
    assert code == 0
    assert max(map(len, [*out.splitlines(), *err.splitlines()])) < 500
