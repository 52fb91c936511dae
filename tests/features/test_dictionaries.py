"""Dictionaries and clusters as columns of a template: matching, what is held out in training,
files."""

import warnings

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright import (
    CRF,
    Cascade,
    LatentPerceptron,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    SemiCRF,
    load,
)
from labelwright.corpus import Corpus
from labelwright.errors import OptionError, TemplateError
from labelwright.features.extract import learn
from labelwright.features.sources import LEAST, PARTS, TAGS, Dictionaries, Given, entities_of
from labelwright.features.template import parse_template

X = [
    ["He", "saw", "New", "York", "City"],
    ["new", "york", "sleeps"],
    ["Paris", "sleeps"],
    ["City", "sleeps"],
]
Y = [["O", "O", "B-L", "I-L", "I-L"], ["B-L", "I-L", "O"], ["B-L", "O"], ["O", "O"]]
CITIES = {"cities": ["New York", "New York City", "Paris"]}


def tags_of(dictionaries, sentences):
    made = Dictionaries.of(dictionaries)
    flat = [word for sentence in sentences for word in sentence]
    offsets = np.cumsum([0, *map(len, sentences)])
    return [
        "".join(TAGS[i] for i in tags) for tags in made.tags(flat, np.arange(len(flat)), offsets)
    ]


def test_longest_matches_without_case_within_sentences():
    assert tags_of(CITIES, [*X, ["new"], ["york", "PARIS"]]) == [
        "OOBIE" + "BEO" + "SO" + "OO" + "O" + "OS"
    ]
    assert tags_of({"a": ["x"], "b": ["x y", "y z"]}, [["x", "y", "z"]]) == ["SOO", "BEO"]
    assert tags_of({"none": []}, [["x"]]) == ["O"]


def plain_tags(phrases, sentence):
    """Longest match from left to right, as one would write it down."""
    known, tags, t = {tuple(p.split()) for p in phrases}, ["O"] * len(sentence), 0
    while t < len(sentence):
        longest = max(
            (n for n in range(1, len(sentence) - t + 1) if tuple(sentence[t : t + n]) in known),
            default=0,
        )
        if longest:
            tags[t : t + longest] = ["S"] if longest == 1 else ["B", *"I" * (longest - 2), "E"]
        t += max(longest, 1)
    return "".join(tags)


letters = st.sampled_from("abc")


@drawn(60)
@given(
    st.lists(st.lists(letters, min_size=1, max_size=4).map(" ".join), max_size=6),
    st.lists(st.lists(letters, max_size=9), min_size=1, max_size=4),
)
def test_tags_are_those_of_plain_search(phrases, sentences):
    assert tags_of({"d": phrases}, sentences) == [
        "".join(plain_tags(phrases, s) for s in sentences)
    ]


@pytest.mark.parametrize("kind", [CRF, Perceptron, LatentPerceptron, SemiCRF, MemoryTagger])
def test_every_tagger_reads_dictionaries_and_its_file_holds_them(kind, tmp_path):
    tagger = kind(
        template="U0:%d[cities]\nU1:%d[-1,cities]/%d[0,cities]", dictionaries=CITIES, n_jobs=1
    ).fit(X, Y)
    new = [["They", "saw", "NEW", "YORK", "and", "paris"]]
    # in upper case they are no words of the training data
    assert tagger.predict(new)[0][2:4] == ["B-L", "I-L"]
    loaded = load(tagger.save(tmp_path / "model") and tmp_path / "model")
    assert loaded.predict(new) == tagger.predict(new)
    assert loaded.predict(new * 100) == tagger.predict(new) * 100  # longer input goes another way
    assert sorted(loaded.dictionaries) == ["cities"]
    assert loaded.fit(X, Y).predict(new) == tagger.predict(new)


def test_a_layer_of_a_cascade_reads_dictionaries(tmp_path):
    tags = [["P", "V", "N", "N", "N"], ["N", "N", "V"], ["N", "V"], ["N", "V"]]
    layer = CRF("U0:%d[cities]\nU1:%d[-1,cities]/%d[0,cities]\nU2:%y[0]", dictionaries=CITIES)
    cascade = Cascade([("pos", CRF()), ("ner", layer)], n_jobs=1).fit(X, {"pos": tags, "ner": Y})
    new = [["They", "saw", "NEW", "YORK"]]
    assert cascade.predict(new)["ner"][0][2:] == ["B-L", "I-L"]
    cascade.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict(new) == cascade.predict(new)
    assert loaded._outputs["ner"].dictionaries == {
        "cities": [("new", "york"), ("new", "york", "city"), ("paris",)]
    }
    assert "dictionaries={'cities': ...}" in repr(loaded._outputs["ner"])


@pytest.mark.slow
def test_an_ngram_tagger_reads_dictionaries():
    bayes = pytest.importorskip("sklearn.naive_bayes")
    tagger = NgramTagger(
        bayes.BernoulliNB(alpha=0.01), template="U0:%d[cities]", dictionaries=CITIES
    ).fit(X, Y)
    assert tagger.predict([["PARIS"]]) == [["B-L"]]


def test_lines_are_added_where_the_template_reads_no_dictionary():
    extractor, *_ = learn(X, "U:%x[0,0]", 1, given=Given(CITIES))
    assert "%d[0,cities]" in extractor.vocabulary.template.text
    extractor, *_ = learn(X, "U:%d[cities]", 1, given=Given(CITIES))
    assert extractor.vocabulary.template.text == "U:%d[cities]"
    assert [extractor.name(f) for f in range(extractor.n_features)] == [
        "U:O",
        "U:B",
        "U:I",
        "U:E",
        "U:S",
    ]


def test_clusters():
    clusters = {"brown": {"he": "0010", "saw": "1100", "Paris": "0111"}}
    extractor, incidences, _ = learn(
        X, "U:%c[brown,2]/%c[1,brown]", 1, given=Given(clusters=clusters)
    )
    assert [extractor.name(f) for f in incidences["state"].token_feature[:3]] == [
        "U:00/1100",
        "U:11/?",
        "U:?/?",
    ]
    tagger = CRF(clusters=clusters, n_jobs=1, max_iter=5).fit(X, Y)
    assert "%c[0,brown,4]" in tagger._extractor.vocabulary.template.text


def made_data(n):
    """Names that occur once each, half of the sentences without."""
    sentences = [["Mr", f"N{i}", "met", f"W{i}"] for i in range(n)]
    return sentences, [["O", "B-P", "O", "O"] for _ in range(n)]


def test_a_dictionary_of_training_entities_is_held_out():
    sentences, labels = made_data(2 * LEAST)
    corpus = Corpus.from_sequences(sentences, labels)
    names = {"names": [f"N{i}" for i in range(2 * LEAST)]}
    gold = corpus.values("label"), corpus.codes("label")
    with pytest.warns(
        UserWarning, match=r"^dictionary 'names': has 100% of the 40 rare phrases .* labelled P "
    ):
        _, incidences, _ = learn(corpus, "U:%d[names]", 1, given=Given(names, labels=gold))
    assert set(incidences["state"].key_feature.tolist()) == {0}  # O everywhere
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = {"names": names["names"][::2]}
        extractor, *_ = learn(corpus, "U:%d[names]", 1, given=Given(half, labels=gold))
    assert extractor.n_features == 2


def test_what_is_an_entity_elsewhere_counts():
    sentences, labels = made_data(2 * LEAST)
    sentences[-1][1] = "N0"  # the first name, in the last part of the data
    corpus = Corpus.from_sequences(sentences, labels)
    gold = corpus.values("label"), corpus.codes("label")
    with pytest.warns(UserWarning, match="as if it was made from them"):
        made = learn(
            corpus, "U:%d[n]", 1, given=Given({"n": [s[1] for s in sentences]}, labels=gold)
        )
    assert made[0].n_features == 2
    assert entities_of(corpus.tokens("word"), *gold, corpus.offsets).part_of_token[-1] == PARTS - 1


def test_segments_hold_out_a_dictionary_of_training_entities():
    sentences, labels = made_data(2 * LEAST)
    names = {"names": [f"N{i}" for i in range(2 * LEAST)]}
    with pytest.warns(UserWarning, match="as if it was made from them"):
        tagger = SemiCRF("U:%x[0,0]", dictionaries=names, n_jobs=1, max_iter=5).fit(
            sentences, labels
        )
    first = tagger._extractor.always.stop - 1
    cells = tagger._parameters.cells["segment"]
    assert not tagger.weights_[tagger._parameters.slices["segment"]][
        cells.ptr[first] : cells.ptr[first + 1]
    ].any()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("U:%d[]", r"^t:1:6: expected a name of letters and digits, as in %d\[cities\], got ''$"),
        ("U:%d[1,]", r"^t:1:8: expected a name "),
        ("U:%d[1]", r"^t:1:7: expected , and a name, as in %d\[1,cities\], got '\]'$"),
        ("U:%d[@0,a]", r"^t:1:7: no row @0"),
        ("U:%d[a,2]", r"^t:1:7: expected \] to close %d\[, got ','$"),
        ("U:%c[a,0]", r"^t:1:8: %c of length 0"),
        ("U:%d[a]/%y[0]", r"^t:1:1: a line may not hold %y beside %d or %c"),
    ],
)
def test_lines_that_cannot_be(line, message):
    with pytest.raises(TemplateError, match=message):
        parse_template(line, "t")


def test_what_cannot_be_given():
    with pytest.raises(
        TemplateError,
        match=r"%d\[towns\] reads dictionaries that are not given; known: cities; give",
    ):
        CRF(template="U:%d[towns]", dictionaries=CITIES).fit(X, Y)
    with pytest.raises(
        TemplateError, match=r"%c\[b\] reads clusters that are not given; give them by clusters="
    ):
        CRF(template="U:%c[b]").fit(X, Y)
    with pytest.raises(
        OptionError,
        match=r"^dictionaries: need words, but the sentences are dicts; leave them out$",
    ):
        CRF(dictionaries=CITIES).fit([[{"a": 1}]], [["O"]])
    with pytest.raises(
        OptionError,
        match=r"^dictionaries: expected a name of letters and digits, .* got 'my towns'$",
    ):
        CRF(dictionaries={"my towns": ["Paris"]}).fit(X, Y)
    with pytest.raises(
        OptionError, match=r"^clusters: 'b': expected \{word: cluster\} of strings, got 3$"
    ):
        CRF(clusters={"b": 3}).fit(X, Y)
