"""Rules on the command line: --rule and --rules of tag and eval."""

import json

import pytest
from cases import chunks

from labelwright.constraints import at_most, lexicon, read_rule, read_rules
from labelwright.errors import CorpusError, OptionError
from labelwright.rules.formulas import Sentence


def records(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def few(data, tmp_path):
    """A file of few sentences."""
    text = (data / "words.txt").read_text().split("\n\n")
    (tmp_path / "few.txt").write_text("\n\n".join(text[:10]) + "\n")
    return tmp_path / "few.txt"


def test_every_type_at_most_once(run, data, few):
    code, out, _ = run("tag", data / "crf", few, "--rule", "once", "--json")
    assert code == 0
    rows = records(out)
    for row in rows:
        types = [span["type"] for span in row["spans"]]
        assert len(types) == len(set(types))
        assert (row["status"], row["exact"]) == ("optimal", True)
        assert row["method"] in ("search", "automaton")
    assert {row["method"] for row in rows} >= {"automaton"}


def test_a_file_of_rules_n_best_and_probabilities(run, data, few, tmp_path):
    rules = tmp_path / "rules.txt"
    rules.write_text(
        '# at most two\nat_most(2, "NP")\n\nforbid_pattern("VP ... VP") | at_least(3, "VP")\n'
    )
    options = (
        "--rules",
        rules,
        "--rule",
        'at_least(1, "NP")',
        "--json",
        "--nbest",
        2,
        "--probabilities",
    )
    code, out, _ = run("tag", data / "crf", few, *options)
    assert code == 0
    for row in records(out):
        for listed in row["nbest"]:
            assert 1 <= len(chunks(listed["labels"], "NP")) <= 2
        assert row["labels"] == row["nbest"][0]["labels"]
        assert all(0 < p <= 1 for p in row["probabilities"])


def test_eval_under_rules(run, data):
    code, out, _ = run(
        "eval", data / "crf", data / "test.txt", "--rule", 'at_most(0, "VP")', "--json"
    )
    assert code == 0
    assert json.loads(out)["per_type"]["VP"]["predicted"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--rule", "~" * 5000 + "once"],
            "~~...': more than 100 operators within each other; simplify the rule",
        ),
        (["--rule", "~" * 100_000 + "once"], "~~...': 100,004 characters, expected at most 10,000"),
        (
            ["--rule", "forbid_pattern('" + "(" * 200 + "NP" + ")" * 200 + "')"],
            "more than 100 parentheses within each",
        ),
    ],
)
def test_rules_that_are_too_long_or_too_deep_are_one_line(run, data, arguments, message):
    code, out, err = run("tag", data / "crf", data / "words.txt", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_rules_in_files_are_read_line_by_line(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("# nothing\nonce\nat_most(2, 'X', at=slice(0, 5)) & ~forbid('O')\n")
    assert [repr(rule) for rule in read_rules(path)] == [
        "once()",
        "(at_most(2, 'X', at=slice(0, 5, None)) & ~forbid('O'))",
    ]
    path.write_text("once\nwhat is this\n")
    with pytest.raises(OptionError, match=r"rules.txt:2: rule 'what is this': expected a rule"):
        read_rules(path)
    assert read_rule("at_most(1, 'X')") == at_most(1, "X")


def test_rules_may_be_long_and_nested_within_limits():
    labels = ("B-X", "O")
    long = read_rule(" | ".join(["exactly(1, 'X')"] * 500))
    assert len(long.parts) == 500
    assert [long.satisfied(y) for y in (["O", "B-X"], ["B-X", "B-X"])] == [True, False]
    deep = read_rule("~" * 99 + "once")
    with pytest.raises(OptionError, match="more than 100 operators within each other"):
        _ = ~~deep
    with pytest.raises(OptionError, match="more than 100 operators within each other"):
        read_rule("~" * 101 + "once")
    assert repr(~deep) == repr(read_rule("~" * 100 + "once"))
    assert [deep.satisfied(y) for y in (["B-X"], ["B-X", "B-X"])] == [False, True]
    assert (
        repr(read_rule("once & (forbid('O') | 'iob2')"))
        == "(once() & (forbid('O') | valid_scheme('iob2')))"
    )
    mixed = "once"
    for n in range(98):
        mixed = f"(forbid('O') {'&|'[n % 2]} {mixed})"
    assert read_rule(mixed).satisfied(["B-X"], Sentence([labels], labels))
    with pytest.raises(OptionError, match="more than 100 operators within each other"):
        read_rule(f"~~~{mixed}")
    with pytest.raises(OptionError, match="rule: expected a text, got 5"):
        read_rule(5)


def test_a_lexicon_from_a_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("St Type City\nAvenue Type\nSt Name\n")
    rule = read_rule(f"lexicon({str(path)!r})")
    labels = ("Type", "City", "Name", "O")
    sentence = Sentence([labels] * 3, labels, ["St", "of", "Avenue"])
    assert rule.satisfied(["Name", "O", "Type"], sentence)
    assert not rule.satisfied(["O", "O", "Type"], sentence)
    columns = Sentence([labels] * 1, labels, [("NN", "Avenue")])
    assert not lexicon({"Avenue": "Type"}, column=1).satisfied(["O"], columns)
    assert lexicon({"avenue": "Type"}, word=lambda token: token[1].lower()).satisfied(
        ["Type"], columns
    )
    with pytest.raises(OptionError, match="no word in the token 7"):
        lexicon({"a": "O"}).satisfied(["O"], Sentence([labels], labels, [7]))
    path.write_text("# Type\n")  # a word, as in # 5
    assert not lexicon(path).satisfied(["O"], Sentence([labels], labels, ["#"]))
    path.write_text("alone\n")
    with pytest.raises(
        CorpusError, match=r"words.txt:1: expected a word and its labels, got only 'alone'"
    ):
        lexicon(path)
