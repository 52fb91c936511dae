"""The built-in corpus: reproducible, well-formed, and ambiguous in the right places."""

import hashlib

import pytest

from labelwright.corpus import builtin_corpus, detect_scheme, spans_of, validate
from labelwright.errors import OptionError


@pytest.fixture(scope="module")
def corpus():
    return builtin_corpus(2000, random_state=0)


def digest(corpus):
    return hashlib.sha256(
        "\n".join(" ".join(corpus.tokens(name)) for name in corpus.names).encode()
    ).hexdigest()


def test_the_same_seed_gives_the_same_text_and_another_seed_another():
    # on every platform; changes with the grammar
    assert digest(builtin_corpus(50, 3)).startswith("46b0427804a59c61")
    assert digest(builtin_corpus(50, 3)) != digest(builtin_corpus(50, 4))
    assert builtin_corpus(20, 3).X == builtin_corpus(50, 3).take(slice(20)).X


def test_both_label_columns_are_valid_iob2(corpus):
    for name in ("chunk", "entity"):
        assert validate(corpus.column(name), "iob2") == []
        assert detect_scheme(corpus.values(name), corpus.column(name)) == "iob2"


def test_it_has_all_chunks_and_names(corpus):
    chunks = {span.type for labels in corpus.column("chunk") for span in spans_of(labels)}
    assert chunks == {"NP", "VP", "PP", "ADJP", "ADVP", "SBAR", "PRT"}
    assert {span.type for labels in corpus.column("entity") for span in spans_of(labels)} == {
        "PER",
        "ORG",
        "LOC",
    }


def test_her_is_a_chunk_or_the_start_of_one(corpus):
    after_her = {
        (tags[t], chunks[t + 1])
        for words, tags, chunks in zip(
            corpus.column("word"), corpus.column("pos"), corpus.column("chunk"), strict=True
        )
        for t, word in enumerate(words[:-1])
        if word == "her" and words[t + 1] == "flowers"
    }
    assert after_her == {("PRP", "B-NP"), ("PRP$", "I-NP")}


def test_words_are_ambiguous(corpus):
    tags, kinds = {}, {}
    for word, tag, entity in zip(
        corpus.tokens("word"), corpus.tokens("pos"), corpus.tokens("entity"), strict=True
    ):
        tags.setdefault(word, set()).add(tag)
        kinds.setdefault(word, set()).add(entity)
    assert {"NN", "VBD"} <= tags["saw"]
    assert {"NN", "VB"} <= tags["watch"]
    assert {"B-PER", "B-LOC"} <= kinds["Florence"]
    assert {"B-PER", "B-ORG"} <= kinds["Ford"]


def test_sentences_look_like_sentences(corpus):
    for words in corpus.column("word"):
        assert words[-1] in {".", "?"}
        assert words[words[0] == "``"][0].isupper() or words[words[0] == "``"][0].isdigit()
    lengths = [len(words) for words in corpus.column("word")]
    assert min(lengths) >= 3
    assert max(lengths) > 20


def test_label_and_columns_can_be_chosen():
    corpus = builtin_corpus(5, label="entity", columns=["word", "entity"])
    assert corpus.names == ("word", "entity")
    assert all(isinstance(word, str) for sentence in corpus.X for word in sentence)
    with pytest.raises(OptionError, match="expected some of word, pos, chunk, entity"):
        builtin_corpus(5, label="lemma")
    with pytest.raises(OptionError, match="at least 1"):
        builtin_corpus(0)
