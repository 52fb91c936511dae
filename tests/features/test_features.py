"""Templates over integers against templates that build strings; dicts and arrays against what they
say."""

import copy
import pickle
import re
from collections import Counter

import numpy as np
import oracles
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright import CRF
from labelwright.corpus import Corpus
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.attributes import Collected, DictFeatures, attributes_of
from labelwright.features.builtin import template as find_template
from labelwright.features.extract import EXTRACTORS, collected, learn
from labelwright.features.incidence import observed_cells
from labelwright.features.template import parse_template
from labelwright.features.vocabulary import Columns, Vocabulary, _place, _Reading
from labelwright.modelfile import HeaderReader, TensorReader

pytestmark = pytest.mark.filterwarnings("ignore:.* has the name of line ")  # on purpose

LINES = [
    "U1:%x[0,0]",
    "U2:%x[-1,0]",
    "U3:%x[2,0]/%x[0,1]",
    "U4:%x[-2,1]/%x[-1,1]/%x[0,1]",
    "U5:%prefix[0,0,2]",
    "U6:%suffix[1,0,2]-%x[0,0]",
    "U7:%X[0,0]",
    "U8:%x[@1,0]",
    "U9:%x[@-1,1]/%x[0,0]",
    "Ua:%x[@3,0]",
    "Us:%x[-1,0]",
    "Us:%x[1,0]",
    "B1:%x[0,1]",
    "B2:%x[-1,0]/%x[0,0]",
    "*3:%x[0,0]",
    "*4:%lower[-1,0]",
    "T1:%x[0,1]",
    "T2:%x[-2,0]/%x[0,0]",
]

values = st.sampled_from(["a", "b", "ab", "Ab", "aB", "é", "x", "abc"])
sentences = st.lists(
    st.lists(st.tuples(values, values), min_size=0, max_size=6), min_size=1, max_size=8
).filter(any)
templates = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).filter(
    lambda ls: any("%x[0," in x for x in ls)
)


def names_of(extractor, incidence):
    """The features of each token as strings, those of its keys and its own."""
    found = []
    for t in range(len(incidence.token_ptr) - 1):
        numbers = incidence.token_feature[
            incidence.token_ptr[t] : incidence.token_ptr[t + 1]
        ].tolist()
        for key in incidence.keys[t]:
            numbers += incidence.key_feature[
                incidence.key_ptr[key] : incidence.key_ptr[key + 1]
            ].tolist()
        found.append(sorted(map(extractor.name, numbers)))
    return found


def expected(lines, X, known=None):
    found = oracles.template_features(lines, X)
    return {
        layer: [sorted(f for f in token if known is None or f in known) for token in tokens]
        for layer, tokens in found.items()
        if layer == "state"
        or any(line[0] in {"edge": "B*", "triple": "T"}[layer] for line in lines)
    }


def equal_strings(lines):
    """Two readers may make one string (%x and %X of a lower-case word): only lines of one shape
    share features here."""
    shapes = [oracles._CELL.sub(lambda m: f"%{m[1]}", line)[1:] for line in lines]
    heads = [shape.split(":")[0] for shape in shapes]
    return len(set(heads)) == len(set(shapes))


@drawn(150)
@given(templates.filter(equal_strings), sentences, sentences)
def test_features_are_the_strings_of_the_template(lines, X, other):
    X = [s for s in X if s]
    other = [s for s in other if s]
    extractor, layers, offsets = learn(X, "\n".join(lines), 1)
    assert offsets.tolist() == np.cumsum([0, *map(len, X)]).tolist()
    wanted = expected(lines, X)
    assert {layer: names_of(extractor, incidence) for layer, incidence in layers.items()} == wanted
    known = {f for tokens in wanted.values() for token in tokens for f in token}
    assert extractor.n_features == len(known)
    assert {extractor.name(f) for f in range(extractor.n_features)} == known
    again, _ = extractor.encode(other)
    found = {layer: names_of(extractor, incidence) for layer, incidence in again.items()}
    assert found == {k: v for k, v in expected(lines, other, known).items() if k in found}
    restored = EXTRACTORS["columns"].restore(
        TensorReader.of(extractor.tensors()), HeaderReader.of(extractor.header())
    )
    stored, _ = restored.encode(other)
    assert {layer: names_of(restored, incidence) for layer, incidence in stored.items()} == found


@drawn(50)
@given(templates.filter(equal_strings), sentences, st.integers(2, 4))
def test_min_count(lines, X, min_count):
    X = [s for s in X if s]
    tokens = expected(lines, X)
    lists = oracles.template_features(lines, X)
    # A `*` line feeds two layers with one occurrence.
    seen = Counter(
        oracles.expand(line, sentence, t)
        for line in lines
        for sentence in X
        for t in range(len(sentence))
    )
    known = {f for f, n in seen.items() if n >= min_count}
    assert set(seen) == {f for layer in lists.values() for token in layer for f in token}
    if not known:
        with pytest.raises(CorpusError, match="lower min_count"):
            learn(X, "\n".join(lines), min_count)
        return
    extractor, layers, _ = learn(X, "\n".join(lines), min_count)
    assert {extractor.name(f) for f in range(extractor.n_features)} == known
    assert names_of(extractor, layers["state"]) == [
        [f for f in token if f in known] for token in tokens["state"]
    ]


def test_same_text_same_feature():
    """As in CRF++, the text is the feature: U:%x[-1,0] and U:%x[1,0] of one word are one feature,
    counted twice."""
    X = [["a", "b", "a"]]
    shared, layers, _ = learn(X, "U:%x[-1,0]\nU:%x[1,0]", 1)
    assert names_of(shared, layers["state"])[1] == ["U:a", "U:a"]
    assert shared.n_features == 4  # a, b, _B-1, _B+1
    apart, _, _ = learn(X, "U1:%x[-1,0]\nU2:%x[1,0]", 1)
    assert apart.n_features == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["default", "words", "words-arcs", "chunking", "ner", "bioner", "bioner-arcs", "letters"],
)
def test_builtin_templates_on_a_corpus(name, chunks):
    """Features that share a key are those that each token asks for by itself."""
    sample = chunks.take(slice(0, 60))
    X = [[token[:2] for token in s] for s in sample.X]
    whole, layers, _ = learn(X, name, 1)
    n_lines = sum(p.kind in "U*" and bool(p.cells) for p in find_template(name, 2).patterns)
    found = names_of(whole, layers["state"])
    assert all(len(token) == n_lines for token in found)
    one_by_one = []
    for sentence in X[:20]:
        alone, _ = whole.encode([sentence])
        one_by_one += names_of(whole, alone["state"])
    assert one_by_one == found[: len(one_by_one)]


def test_a_bias_line_feeds_every_token():
    extractor, layers, _ = learn([["a", "b"], ["c"]], "Ubias\nU1:%x[0,0]", 1)
    assert names_of(extractor, layers["state"]) == [
        ["U1:a", "Ubias"],
        ["U1:b", "Ubias"],
        ["U1:c", "Ubias"],
    ]
    extractor, layers, _ = learn([["a", "b"], ["c"]], "*bias\nU1:%x[0,0]", 1)
    assert names_of(extractor, layers["state"])[2] == ["*bias", "U1:c"]


def test_unknown_values_and_columns():
    extractor, _, _ = learn([[("a", "N"), ("b", "V")]], "U1:%x[0,0]\nU2:%x[0,0]/%x[0,1]", 1)
    layers, _ = extractor.encode([[("z", "Z"), ("a", "V")]])
    assert names_of(extractor, layers["state"]) == [[], ["U1:a"]]
    with pytest.raises(CorpusError, match="reads 2 columns"):
        extractor.encode([["a"]])
    with pytest.raises(CorpusError, match="reads 2 columns"):
        extractor.encode([[("a", "b", "c")]])


def test_dicts():
    X = [
        [{"w": "a", "n": 2.5, "yes": True, "no": False, "one": 1}, {}],
        [],
        [{"w": "b", "n": np.float32(-1)}],
    ]
    extractor, layers, offsets = learn(X, "default", 1)
    incidence = layers["state"]
    assert offsets.tolist() == [0, 2, 2, 3]
    assert names_of(extractor, incidence) == [["n", "one", "w=a", "yes"], [], ["n", "w=b"]]
    assert sorted(incidence.token_value.tolist()) == [-1, 1, 1, 1, 1, 2.5]
    layers, _ = extractor.encode([[{"w": "zzz", "yes": True}]])
    assert names_of(extractor, layers["state"]) == [["yes"]]
    few, layers, _ = learn(X, "default", 2)
    assert names_of(few, layers["state"]) == [["n"], [], ["n"]]


def test_nested_dicts_lists_and_arrays():
    X = [
        [{"a": {"b": "c", "d": ["e", "f"]}, "v": np.array([0.5, 2.0]), "n": [1, 3]}, {"x", "y"}],
        [["x", "z", "y"]],
    ]
    extractor, layers, _ = learn(X, "default", 1)
    names = [["a:b=c", "a:d:e", "a:d:f", "n:0", "n:1", "v:0", "v:1"], ["x", "y"], ["x", "y", "z"]]
    assert names_of(extractor, layers["state"]) == names
    assert extractor.joined_by(":")[0] == "a:b:c"


def test_lists_of_strings_of_one_length_are_refused():
    with pytest.raises(
        CorpusError, match="could be columns or attributes; give tuples for columns"
    ):
        learn([[["a", "b"], ["c", "d"]]], "default", 1)


def test_an_iterator_over_dicts_is_read_once():
    read = []

    def sentences():
        for n in range(3):
            read.append(n)
            yield [{"w": str(n)}]

    collected_once = collected(sentences())
    assert (read, len(collected_once)) == ([0, 1, 2], 3)
    extractor, layers, offsets = learn(collected_once, "default", 1)
    assert names_of(extractor, layers["state"]) == [["w=0"], ["w=1"], ["w=2"]]
    assert offsets.tolist() == [0, 1, 2, 3]
    some = collected_once.take(np.array([True, False, True]))
    layers, offsets = extractor.encode(some)
    assert names_of(extractor, layers["state"]) == [["w=0"], ["w=2"]]


@pytest.mark.parametrize("of", [iter, list], ids=["iterator", "list"])
@pytest.mark.parametrize("token", [lambda w: {"w": w}, str, lambda w: np.array([w == "a", 1.0])])
def test_sentences_may_be_iterators(of, token):
    def stream():
        return of([iter([]), *(map(token, words) for words in ("ab", "ba"))])

    y = [[], ["A", "B"], ["B", "A"]]
    model = CRF(n_jobs=1, max_iter=20).fit(stream(), map(iter, y), dev=(stream(), iter(y)))
    assert model.predict(stream()) == y
    assert list(map(len, model.predict_marginals(stream()))) == [0, 2, 2]
    assert model.score(stream(), iter(y)) == 1


def test_a_stream_that_begins_with_an_empty_sentence_is_collected():
    assert isinstance(collected(iter([[], [], [{"w": "a"}]])), Collected)
    assert collected(iter([[], ["a"]])) == [[], ["a"]]
    assert collected(iter([])) == []


def test_what_is_collected_has_the_separator_of_the_model():
    extractor = DictFeatures(["w:a", "n"], ":")
    layers, _ = extractor.encode(Collected.of([[{"w": "a", "n": 2.0}]]))
    assert names_of(extractor, layers["state"]) == [["n", "w:a"]]


@pytest.mark.parametrize(
    ("value", "attributes"),
    [
        ([True, False], {"v:0": 1, "v:1": 0}),
        ([np.float64(0.5), 2, np.bool_(True)], {"v:0": 0.5, "v:1": 2, "v:2": 1}),
        (np.array(3), {"v": 3}),
        (np.array(False), {}),
        (np.array("x"), {"v=x": 1}),
    ],
)
def test_lists_of_numbers_and_scalars_in_arrays(value, attributes):
    assert dict(attributes_of({"v": value})) == attributes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, "feature 'v': expected a list or an array of numbers, got a set"),
        (1e300, "feature 'v' is 1e\\+300; expected a number up to 3.4e38"),
        (10**400, "a number is too large; expected a number up to 3.4e38"),
    ],
)
def test_a_refused_sentence_leaves_nothing_behind(value, message):
    data = Collected.of([[{"w": "a"}]])
    with pytest.raises(CorpusError, match=f"X: sentence 1, token 1: {message}"):
        data.append([{"x": "y", "n": 1.0}, {"z": "y", "v": value}])
    assert (dict(data.names), list(data.string_names), len(data)) == ({"w=a": 0}, ["w"], 1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_collected_attributes_can_be_copied(copied):
    data = Collected.of([[{"w": "a"}]])
    other = copied(data)
    other.append([{"w": "b"}, {"w": "a"}])
    assert (list(data.names), list(other.names)) == (["w=a"], ["w=a", "w=b"])
    assert other.incidence.token_feature.tolist() == [0, 1, 0]


def test_dicts_with_another_separator():
    extractor = DictFeatures(["w:a", "w=a", "n"], ":")
    layers, _ = extractor.encode([[{"w": "a", "n": 0.1}]])
    assert names_of(extractor, layers["state"]) == [["n", "w:a"]]
    assert layers["state"].token_value.tolist() == [1, 0.1]  # in full precision
    new, _, _ = learn([[{"w": "b", "x=y": "z=", "a=b": 1.0}]], "default", 1)
    assert new.names == ["w=b", "x=y=z=", "a=b"]
    assert new.joined_by(":") == ["w:b", "x=y:z=", "a=b"]
    merged = extractor.merged(new)
    assert (merged.names[3:], merged.separator) == (["w:b", "x=y:z=", "a=b"], ":")


@drawn(100)
@given(
    st.lists(st.text("a=:", max_size=5), min_size=1, max_size=6, unique=True),
    st.lists(st.text("a=:", max_size=3), max_size=4),
    st.sampled_from(["=", "==", "=:"]),
)
def test_names_meet_values_at_the_first_separator_behind_a_known_name(
    names, string_names, separator
):
    def rejoined(name):
        for at in range(len(name)):
            if name[at:].startswith(separator) and name[:at] in string_names:
                return name[:at] + "/" + name[at + len(separator) :]
        return name

    assert DictFeatures(names, separator, string_names).joined_by("/") == [
        rejoined(name) for name in names
    ]


def test_a_name_of_separators_is_not_cut_at_each_of_them():
    cut = []

    class Name(str):
        __slots__ = ()

        def __getitem__(self, part):
            cut.append(len(str(self)[part]))
            return str(self)[part]

    name = Name("a" + "=" * 5000)
    assert DictFeatures([name], string_names=["b", "a====b"]).joined_by(":") == [name]
    assert sum(cut) <= len(name)


def test_dicts_are_stored_with_their_separator():
    for extractor in (DictFeatures(["w:a"], ":"), learn([[{"w": "a"}]], "default", 1)[0]):
        stored = TensorReader(extractor.tensors()), HeaderReader(extractor.header())
        back = DictFeatures.restore(*stored)
        same = ("names", "separator", "string_names")
        assert [getattr(back, name) for name in same] == [getattr(extractor, name) for name in same]
    old = DictFeatures.restore(stored[0], HeaderReader({}))  # as version 0.1.0 stored it
    assert old.separator == "="
    for header in ({"separator": ""}, {"separator": 1}):
        with pytest.raises(ModelFileError, match=next(iter(header))):
            DictFeatures.restore(stored[0], HeaderReader(header))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, [None]])
def test_bad_values_in_dicts_are_named(bad):
    with pytest.raises(CorpusError, match=r"sentence 1, token 0: .*'f'"):
        learn([[{"f": 1.0}], [{"f": bad}]], "default", 1)


def test_arrays():
    X = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.empty((0, 2)), np.array([[5.0, 6.0]])]
    extractor, layers, offsets = learn(X, "default", 1)
    assert offsets.tolist() == [0, 2, 2, 3]
    assert layers["state"].token_value.tolist() == [1, 2, 3, 4, 5, 6]
    assert names_of(extractor, layers["state"])[0] == ["x[0]", "x[1]"]
    with pytest.raises(CorpusError, match="sentence 0: expected rows of 2 numbers, got rows of 3"):
        extractor.encode([np.zeros((1, 3))])
    for bad in ("nan", "1e+300"):
        with pytest.raises(
            CorpusError,
            match=re.escape(f"token 0: feature 1 is {bad}; expected a number up to 3.4e38"),
        ):
            extractor.encode([np.zeros((1, 2)), np.array([[0.0, float(bad)]])])
    with pytest.raises(CorpusError, match="sentence 0"):
        extractor.encode([[np.zeros(2), np.zeros(3)]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "no sentences"),
        ("abc", "list of sentences"),
        (5, "list of sentences"),
        ([[{"a": 1}, "b"]], "sentence 0, token 1"),
        ([["a", 5]], "sentence 0, token 1"),
        ([[("a", "b"), ("a",)]], "sentence 0, token 1"),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(X, message):
    with pytest.raises((CorpusError, OptionError), match=message) as caught:
        learn(X, "default", 1)
    assert "\n" not in str(caught.value)


def test_min_count_below_one():
    with pytest.raises(OptionError, match="min_count"):
        learn([["a"]], "default", 0)


@drawn(50)
@given(sentences, st.integers(0, 1000))
def test_observed_cells(X, seed):
    """Cells that come through keys, through tokens, or both ways."""
    X = [s for s in X if s]
    lines = ["U1:%x[0,0]", "U:%x[0,0]", "U:%x[-1,0]", "U4:%x[0,1]/%x[0,0]"]
    extractor, layers, _ = learn(X, "\n".join(lines), 1)
    n_tokens = sum(map(len, X))
    gold = np.random.default_rng(seed).integers(-1, 3, n_tokens).astype(np.int32)
    ptr, codes = observed_cells(layers["state"], extractor.n_features, gold, 3)
    found = {
        extractor.name(f): codes[ptr[f] : ptr[f + 1]].tolist() for f in range(extractor.n_features)
    }
    wanted = {name: set() for name in found}
    for token, code in zip(expected(lines, X)["state"], gold.tolist(), strict=True):
        for name in token:
            wanted[name] |= {code} - {-1}
    assert found == {name: sorted(seen) for name, seen in wanted.items()}


@pytest.mark.slow
def test_vocabulary_of_a_corpus_and_of_lists_agree(chunks):
    from_corpus, layers, _ = learn(chunks, "chunking", 1)
    names = chunks.input_names
    X = [
        list(zip(*columns, strict=True))
        for columns in zip(*(chunks.column(n) for n in names), strict=True)
    ]
    from_lists, other, _ = learn(X, "chunking", 1)
    assert isinstance(from_corpus.vocabulary, Vocabulary)
    assert from_corpus.n_features == from_lists.n_features
    assert (
        names_of(from_corpus, layers["state"])[:200] == names_of(from_lists, other["state"])[:200]
    )


def test_empty_sentences_are_kept_in_place():
    corpus = Corpus.from_sequences([["a"], [], ["b", "c"]])
    assert corpus.offsets.tolist() == [0, 1, 1, 3]
    _, layers, offsets = learn([["a"], [], ["b", "c"]], "default", 1)
    assert offsets.tolist() == [0, 1, 1, 3]
    assert len(layers["state"].token_ptr) == 4


@pytest.mark.parametrize(
    ("parts", "template", "numbers"),
    [
        ("N|V|J", "U:%each[0,1]", 30),  # two for each of five values
        ("N|V", "U1:%each[0,1]\nU2:%each[9,1]", 50),  # for five values and 20 boundary marks
        # five keys of two cells and five of one
        ("N|V", "U1:%each[0,1]/%x[0,0]\nU2:%each[0,1]", 30),
    ],
)
def test_values_of_very_many_parts_are_refused(parts, template, numbers, monkeypatch):
    X = [[("a", parts), ("b", "V"), ("c", ""), ("d", "N"), ("e", "J")]]
    monkeypatch.setattr("labelwright.features.lookup.MOST_READ", numbers)
    learn(X, template, 1)
    monkeypatch.setattr("labelwright.features.lookup.MOST_READ", numbers - 1)
    with pytest.raises(
        CorpusError, match=f"makes {numbers} numbers, more than {numbers - 1}; give it fewer parts"
    ):
        learn(X, template, 1)


def test_each_part_of_a_value_is_a_feature():
    X = [[("a", "N|V"), ("b", "V"), ("c", "")], [("d", "V|N|J")]]
    extractor, layers, _ = learn(X, "Uhad:%each[0,1]\nUnext:%each[1,1]/%x[0,0]", 1)
    layer = layers["state"]
    names = [[] for _ in range(4)]
    for t in range(4):
        keys = [k for k in layer.keys[t] if k >= 0]
        mine = [f for k in keys for f in layer.key_feature[layer.key_ptr[k] : layer.key_ptr[k + 1]]]
        mine += layer.token_feature[layer.token_ptr[t] : layer.token_ptr[t + 1]].tolist()
        names[t] = sorted(extractor.name(int(f)) for f in mine)
    assert names == [
        ["Uhad:N", "Uhad:V", "Unext:V/a"],
        ["Uhad:V"],
        ["Unext:_B+1/c"],
        ["Uhad:J", "Uhad:N", "Uhad:V", "Unext:_B+1/d"],
    ]
    again, _ = extractor.encode([[("z", "J|X")]])
    found = again["state"]
    # X is unknown, and so is the word before the end
    assert len(found.token_feature) + len(found.key_feature) == 1


cells = st.sampled_from(["%x[0,0]", "%x[1,0]", "%x[-1,0]", "%X[0,0]", "%x[@1,0]", "%x[-1,1]"])


@drawn(60)
@given(st.lists(st.lists(cells, max_size=4), min_size=1, max_size=12), st.integers(1, 3))
def test_lines_are_grouped_with_the_widest_line_that_reads_all_they_read(lines, n_values):
    patterns = parse_template(
        "\n".join(f"U{i}:{'/'.join(line)}" for i, line in enumerate(lines))
    ).patterns
    codes = np.arange(12, dtype=np.int32) % n_values
    columns = Columns([[f"w{i}" for i in range(n_values)]] * 2, [codes, codes], np.array([0, 12]))
    waiting = dict.fromkeys(sorted(patterns, key=lambda p: -len({_place(c) for c in p.cells})))
    for group in _Reading(columns, 2).groups(patterns):
        first, places = next(iter(waiting)), set(group.places)
        assert places == {_place(c) for c in first.cells}
        reads = {p: {_place(c) for c in p.cells} for p in waiting}
        assert group.patterns == tuple(
            p for p in waiting if (reads[p] <= places if group.shared else reads[p] == places)
        )
        for pattern in group.patterns:
            del waiting[pattern]
    assert not waiting


def test_each_line_is_grouped_in_few_steps():
    hashed = []

    class Column(int):
        def __hash__(self):
            hashed.append(self)
            return hash(int(self))

    def counted(pattern):
        return pattern._replace(
            cells=tuple(
                c._replace(reader=c.reader._replace(column=Column(0))) for c in pattern.cells
            )
        )

    patterns = tuple(
        map(counted, parse_template("\n".join(f"U:%x[{i},0]" for i in range(200))).patterns)
    )
    columns = Columns([["a", "b"]], [np.arange(9, dtype=np.int32) % 2], np.array([0, 9]))
    assert len(_Reading(columns, 200).groups(patterns)) == 200
    assert len(hashed) < 50 * len(patterns)


@pytest.mark.parametrize("X", [[["a"]] * 300, [["a", "b", "c"]] * 100])
def test_keys_do_not_grow_with_the_square_of_the_number_of_lines(X):
    extractor, _, _ = learn([["a", "b"]], "\n".join(f"U:%x[{i},0]" for i in range(60)), 1)
    incidence = extractor.encode(X)[0]["state"]
    assert len(incidence.key_ptr) <= 1 + 2 * 60 * len(X[0])
    few = extractor.encode(X[:1])[0]["state"]
    assert names_of(extractor, incidence)[: len(X[0])] == names_of(extractor, few)
