"""Text as sentences of tokens, with their places."""

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus import Corpus
from labelwright.corpus.tokenizer import NAMES, Tokenizer, shown_by, tokenizer_of
from labelwright.errors import OptionError

WORDS = Tokenizer()


def tokens(text, tokenizer=WORDS):
    return [text[a:b] for a, b in tokenizer.tokens(text)]


def sentences(text, tokenizer=WORDS):
    return [" ".join(text[a:b] for a, b in sentence) for sentence in tokenizer(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("Don't go, Ada's 3.5% off", ["Don't", "go", ",", "Ada", "'s", "3.5", "%", "off"]),
        ("O\u2019Hara\u2019s they'll", ["O\u2019Hara", "\u2019s", "they", "'ll"]),
        (
            "l'Italie d\u2019Artagnan QU'IL dell'arte",
            ["l'", "Italie", "d\u2019", "Artagnan", "QU'", "IL", "dell'", "arte"],
        ),
        (
            "the U.S. at 12:30, $1,234.50 (3rd)",
            "the U.S . at 12:30 , $ 1,234.50 ( 3rd )".split(" "),  # noqa: SIM905
        ),
        ("New York-based COVID-19 end.Next", "New York - based COVID - 19 end . Next".split(" ")),  # noqa: SIM905
        ("see http://a.b/c?d=1, www.x.org.", ["see", "http://a.b/c?d=1", ",", "www.x.org", "."]),
        ("(me.too@x-y.org)", ["(", "me.too@x-y.org", ")"]),
        ("a@b @home", ["a", "@", "b", "@", "home"]),
        ("a_b __init__ ... --- ?!", ["a_b", "__", "init", "__", "...", "---", "?!"]),
        ("naïve Cafe\u0301s", ["naïve", "Cafe\u0301s"]),  # the accent as a character of its own
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # noqa: RUF001
        ("\u0301a -\u0301", ["\u0301", "a", "-\u0301"]),
        ("北京😀ok", ["北", "京", "😀", "ok"]),
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
    ],
)
def test_words(text, words):
    assert tokens(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't! I can\u2019t, WON'T, isn't", "Do n't ! I ca n\u2019t , WO N'T , is n't"),
        (
            "You cannot. Gonna, gotta, wanna, gimme, lemme.",
            "You can not . Gon na , got ta , wan na , gim me , lem me .",
        ),
        (
            "he'll we're I've she'd I'm Ada's dogs' 1980's",
            "he 'll we 're I 've she 'd I 'm Ada 's dogs ' 1980 's",
        ),
        ("He'd've, shouldn't've", "He 'd 've , should n't 've"),
        ("'Tis 'twas more'n '80s 'em O'Hara", "'T is 't was more 'n '80s 'em O'Hara"),
        (
            "\"It's (so) [he] said,\" ``no'' \u201cyes\u201d",
            "\" It 's ( so ) [ he ] said , \" `` no '' \u201c yes \u201d",
        ),
        ("Wait... no -- well", "Wait ... no -- well"),
        (
            "1,234.5 at 12:30, 5% of $3 or US$4 #1; -5 .5",
            "1,234.5 at 12:30 , 5 % of $ 3 or US$ 4 # 1 ; -5 .5",
        ),
        ("New York-based AT&T and/or R&D", "New York-based AT&T and/or R&D"),
        (
            "Mr. J. Smith, Ph.D., of Acme Inc. left the U.S. at 5 p.m.",
            "Mr. J. Smith , Ph.D. , of Acme Inc. left the U.S. at 5 p.m.",
        ),
        ("At Acme Inc.", "At Acme Inc ."),
        (
            "Fresno, Calif. is hot, (Fla.) too; Messrs. A",
            "Fresno , Calif. is hot , ( Fla. ) too ; Messrs. A",
        ),
        ("I said no. Go to No. 5.", "I said no . Go to No. 5 ."),
        ("www.x.org, me@x.org.", "www.x.org , me@x.org ."),
    ],
)
def test_treebank_words(text, words):
    assert tokens(text, Tokenizer(name="ptb")) == words.split(" ")


def test_sentences_of_treebank_words():
    text = "Mr. Smith can't go. U.S. Sen. Doe left... Why?"
    assert sentences(text, Tokenizer(name="ptb")) == [
        "Mr. Smith ca n't go .",
        "U.S. Sen. Doe left ...",
        "Why ?",
    ]


def test_training_data_show_their_tokenizer():
    assert shown_by([["Do", "n't"], ["go"]]) == Tokenizer(name="ptb")
    assert shown_by(Corpus.from_sequences([[("Did", "VBD"), ("n\u2019t", "RB")]])) == Tokenizer(
        name="ptb"
    )
    for X in (
        [("Do", "n't")],
        (["Do", "n't"],),
        [[("Do", "VB"), ("n't", "RB")]],
        [[["Do", "VB"], ["n't", "RB"]]],
    ):
        assert shown_by(X) == Tokenizer(name="ptb")
    mixed = [["I", "don't", "ca", "n't"]]  # a slip among joined words
    no_words = [{"n't": 1.0}], [[{"w": "n't"}]], [[()]], [[np.ones(2)]], 3, None
    for X in ([["Don't"]], mixed, Corpus.from_sequences(mixed), *no_words):
        assert shown_by(X) is None
    assert shown_by(Corpus.from_sequences([*mixed, ["n't"]])) == Tokenizer(name="ptb")


@given(
    st.text() | st.text("nN'\u2019tTs.-aU1$ \n"),
    st.sampled_from([{}, {"characters": True}, {"name": "ptb"}]),
)
def test_tokens_hold_all_but_spaces(text, settings):
    tokenizer = Tokenizer(**settings)
    places = tokenizer.tokens(text)
    assert "".join(text[a:b] for a, b in places) == "".join(text.split())
    assert all(a < b for a, b in places)
    assert [place for sentence in tokenizer(text) for place in sentence] == places


@given(st.text("ab1 .,'@:/w-_h", max_size=40))
def test_addresses_do_not_change_how_other_text_is_split(text):
    alone, among = tokens(text), tokens(f"{text} https://x.y")
    if "@" not in text and "://" not in text and "www." not in text:
        assert among == [*alone, "https://x.y"]


@pytest.mark.parametrize(
    "unit", ["a.", "Mr.", "n't", "'", "-", "a-", "U.S.", "n", "_", "Mr. ", "a&", "1,", "."]
)
def test_long_runs_of_treebank_words_take_linear_time(unit):
    assert len(Tokenizer(name="ptb")(unit * 20_000 + "@")) >= 1


def test_long_runs_take_linear_time():
    assert len(tokens("a." * 20_000 + "@")) > 0
    assert len(tokens("1," * 20_000)) == 2
    assert len(WORDS("." * 20_000 + ")" * 20_000)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_spaces_are_passed_over_at_once(name):
    begun = time.process_time()
    assert Tokenizer(name=name).tokens("\n \u00a0" * 100_000) == []
    assert time.process_time() - begun < 0.4  # no thread of a service runs meanwhile


def test_characters_and_patterns():
    assert tokens("北京 IBM e\u0301", Tokenizer(characters=True)) == [
        "北",
        "京",
        "I",
        "B",
        "M",
        "e\u0301",
    ]
    assert tokens("a-b c!", Tokenizer(pattern=r"[\w-]+|x*")) == ["a-b", "c"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (
            "Dr. No left. Why? He said \u201cNo.\u201d Then ...",
            ["Dr . No left .", "Why ?", "He said “ No . ”", "Then ..."],
        ),
        ("He saw J. Smith. it rained", ["He saw J . Smith . it rained"]),
        ("In the U.S. Army. (Yes!) No", ["In the U.S . Army .", "( Yes ! )", "No"]),
        ("A headline\n\nText goes\non.\r\n\r\nEnd", ["A headline", "Text goes on .", "End"]),
        ("他说：“好。”然后走了！ok", ["他 说 ： “ 好 。 ”", "然 后 走 了 ！", "ok"]),  # noqa: RUF001
        ("3.5 m. Next", ["3.5 m .", "Next"]),
        (
            "\u201cHi!\u201d she said. 'Go.' He went.",
            ["“ Hi ! ” she said .", "' Go . '", "He went ."],
        ),
    ],
)
def test_sentences(text, parts):
    assert sentences(text) == parts


def test_lines_and_whole_texts():
    text = "One. Two\nthree"
    assert sentences(text, Tokenizer(sentences="lines")) == ["One . Two", "three"]
    assert sentences(text, Tokenizer(sentences="none")) == ["One . Two three"]
    assert sentences("", Tokenizer(sentences="none")) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"characters": True, "pattern": "a"},
            "characters: every character is a token, so there is no token pattern",
        ),
        ({"sentences": "line"}, "sentences: expected one of split, lines, none, got 'line'"),
        ({"pattern": "("}, "token_pattern: '(' is no regular expression"),
        ({"pattern": 3}, "tokenizer: expected settings of a tokenizer"),
        ({"name": None}, "tokenizer: expected settings of a tokenizer"),
        ({"name": "x"}, "tokenizer: expected one of words, ptb, got 'x'"),
        ({"name": "ptb", "pattern": "a"}, "tokenizer: ptb has its own rules for tokens"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(OptionError, match=f"^{re.escape(message)}"):
        tokenizer_of(settings)


def test_a_model_file_describes_a_tokenizer():
    for tokenizer in (Tokenizer(pattern=r"\w", sentences="lines"), Tokenizer(name="ptb")):
        assert tokenizer_of(tokenizer._asdict()) == tokenizer
    assert tokenizer_of(None) == tokenizer_of({}) == WORDS


def test_marks_do_not_join_characters_of_scripts_without_spaces():
    # Thai: consonants, two of them with a vowel sign above
    text = "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35"
    (places,) = Tokenizer()(text)
    assert [text[a:b] for a, b in places] == ["\u0e2a", "\u0e27\u0e31", "\u0e2a", "\u0e14\u0e35"]
