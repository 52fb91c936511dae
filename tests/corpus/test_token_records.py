"""JSON lines and Parquet files with lists of tokens and tags."""

import gzip
import io
import json

import pytest

import labelwright
from labelwright import CRF, Cascade, MemoryTagger, Perceptron
from labelwright.corpus.token_records import JsonLines, corpus_of, parse_json_lines, records_of
from labelwright.errors import CorpusError, OptionError

SENTENCES = [
    {"id": "0", "tokens": ["Ada", "ran", "€"], "pos_tags": ["N", "V", "."], "ner_tags": [1, 0, 0]},
    {"id": "1", "tokens": ["a\u2028b", "北京"], "pos_tags": ["N", "N"], "ner_tags": [0, 2]},
]
NAMES = ["O", "B-PER", "B-LOC"]
FEATURES = {
    "ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"},
    "id": {"a": "b"},
}
Y = [["B-PER", "O", "O"], ["O", "B-LOC"]]


def lines(objects, end="\n"):
    return "".join(json.dumps(item, ensure_ascii=False) + end for item in objects).encode()


def read(data, **options):
    return labelwright.read_jsonl(
        io.BytesIO(data if isinstance(data, bytes) else lines(data)), **options
    )


# -- JSON lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        lines(SENTENCES),
        lines(SENTENCES, "\r\n"),
        b"\xef\xbb\xbf\n" + lines(SENTENCES, "\n \n"),
        lines(SENTENCES)[:-1],
    ],
)
def test_tokens_and_tags(data):
    corpus = read(data, label_names="O,B-PER,B-LOC")
    assert corpus.names == ("word", "ner_tags")
    assert corpus.label == "ner_tags"
    assert corpus.X == [["Ada", "ran", "€"], ["a\u2028b", "北京"]]
    assert corpus.y == Y


def test_fields_are_chosen_by_name():
    corpus = read(SENTENCES, columns="tokens,pos_tags", label_names=NAMES)
    assert corpus.names == ("word", "pos_tags", "ner_tags")
    assert corpus.X[1] == [("a\u2028b", "N"), ("北京", "N")]
    assert corpus.y == Y
    assert read(SENTENCES, label="pos_tags").y == [["N", "V", "."], ["N", "N"]]
    assert read(SENTENCES, label=False).names == ("word",)
    assert read(SENTENCES, columns=["word", "ner_tags"], label=False).column("ner_tags") == [
        ["1", "0", "0"],
        ["0", "2"],
    ]
    assert read([{"words": ["a"], "labels": ["X"]}]).y == [["X"]]
    assert read([{"words": ["a"], "xpos_tags": ["X"]}]).y == [["X"]]
    assert read([{"words": ["a"], "scores": [1.5]}]).label is None
    # of the whole text
    assert read([{"words": ["a"], "labels": "news", "ner_tags": ["X"]}]).y == [["X"]]


def test_names_of_numbers(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines(SENTENCES))
    with pytest.raises(
        CorpusError,
        match=r"a.jsonl: ner_tags: the labels are numbers; name them with --label-names",
    ):
        labelwright.read_jsonl(tmp_path / "a.jsonl")
    (tmp_path / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    assert labelwright.read_jsonl(tmp_path / "a.jsonl").y == Y
    assert labelwright.read_jsonl(tmp_path / "a.jsonl", label_names=["X", "Y", "Z"]).y[0] == [
        "Y",
        "X",
        "X",
    ]
    (tmp_path / "dataset_info.json").write_text("{")
    with pytest.raises(CorpusError, match=r"dataset_info.json: not JSON"):
        labelwright.read_jsonl(tmp_path / "a.jsonl")
    assert read([{"names": NAMES}, *SENTENCES]).y == Y
    assert read([{"features": FEATURES}, *SENTENCES]).y == Y


def test_sentences_without_tokens_stay():
    corpus = read([{"tokens": [], "tags": []}, {"tokens": ["a"], "tags": ["X"]}])
    assert corpus.y == [[], ["X"]]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"", {}, "<stream>: no sentences, expected one JSON object"),
        (b"\n\n", {}, "<stream>: no sentences"),
        (lines(SENTENCES)[:-20], {}, "<stream>:2: not JSON: .* at column"),
        (b'{"tokens": ["\xff"]}', {}, "<stream>:1: byte 14 .0xff. is not UTF-8"),
        (b"[1]\n", {}, "<stream>:1: expected one JSON object per line, got an array"),
        (b"[" * 100000, {}, "<stream>:1: not JSON that can be read"),
        (b'{"a": 1}\n', {}, "<stream>:1: no field tokens or words with the tokens, got a"),
        (b'{"tokens": "a b"}\n', {}, "<stream>:1: tokens: expected a list of tokens, got 'a b'"),
        ([{"tokens": ["a"], "tags": ["X"]}, {"tokens": ["a"]}], {}, (
            ":2: tags: expected a list of 1, got "
            "nothing"
        )),
        ([{"tokens": ["a"], "tags": ["X", "Y"]}], {}, (
            ":1: tags: expected 1 entries, one per token, got "
            "2"
        )),
        ([{"tokens": ["a", 1], "tags": ["X", "Y"]}], {}, (
            "<stream>:1: tokens: entry 1: expected strings, got "
            "1"
        )),
        ([{"tokens": ["a"], "tags": [None]}], {}, (
            "<stream>:1: tags: entry 0: expected strings, got "
            "nothing"
        )),
        ([{"tokens": ["a"], "tags": [3]}], {"label_names": "A,B"}, (
            "entry 0: expected numbers of 0 to 1, got "
            "3"
        )),
        ([{"tokens": ["a"], "tags": [-1]}], {"label_names": "A,B"}, (
            "entry 0: expected numbers of 0 to 1, got "
            "-1"
        )),
        ([{"tokens": ["a"], "tags": [True]}], {}, "entry 0: expected strings, got True"),
        (b'{"tokens": ["\\ud800"]}', {}, "<stream>:1: tokens: entry 0: expected Unicode text"),
        (SENTENCES, {"columns": "tokens,chunk"}, (
            "<stream>: no field 'chunk', expected one of tokens, pos_tags, "
            "ner"
        )),
        (SENTENCES, {"columns": "tokens,tokens", "label": False}, "expected each name once"),
        ([{"tokens": ["a"], "x_tags": ["A"], "y_tags": ["B"]}], {}, (
            "which field has the labels: x_tags, y_tags. "
            "Name"
        )),
    ],
)  # fmt: skip
def test_errors_name_the_line(data, options, message):
    with pytest.raises(CorpusError, match=message):
        read(data, **options)


def test_fields_that_are_not_read_are_not_put_together():
    class Counted(dict):
        asked = 0

        def get(self, *given):
            Counted.asked += 1
            return super().get(*given)

    objects = [
        Counted({"tokens": ["a"], "tags": ["X"], f"k{n}": 1, f"l{n}": [1]}) for n in range(100)
    ]
    corpus = corpus_of(records_of(JsonLines("x", [], list(range(100)), objects)), None, None, None)
    assert corpus.names == ("word", "tags")
    assert Counted.asked <= 3 * len(objects)


def test_names_of_fields_make_a_short_line():
    many = [{f"key{n}": 1 for n in range(10_000)} | {"a\nb" * 20: 1}]
    for data in (many, [{"\n": [1], "x\ny_tags": ["X"]}]):
        with pytest.raises(
            CorpusError, match=r"no field tokens or words with the tokens, got ('.n', |key0, )"
        ) as refused:
            read(data)
        assert len(str(refused.value).splitlines()) == 1
        assert len(str(refused.value)) < 400
    assert read([{"tokens": ["a"], "x\ny_tags": ["X"]}]).label is None


def test_compressed_files(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(SENTENCES)))
    assert labelwright.read_jsonl(tmp_path / "a.jsonl.gz", label="pos_tags").n_tokens == 5


def test_objects_are_extended_in_place():
    text = b'{"a": 1.50,"b":"\\u00e9" }\r\n\n{}\n{"p": 1}'
    found = parse_json_lines(text, "x")
    assert [found.place(n) for n in range(3)] == ["x:1", "x:3", "x:4"]
    assert found.extended([{"p": ["é"]}] * 3) == (
        '{"a": 1.50,"b":"\\u00e9", "p": ["é"]}\r\n\n{"p": ["é"]}\n{"p": ["é"]}'.encode()
    )


# -- Parquet ---------------------------------------------------------------------------------------


def parquet_bytes(described=True):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.Table.from_pylist(SENTENCES)
    if described:
        table = table.replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": FEATURES}})}
        )
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def test_parquet_files():
    corpus = labelwright.read_parquet(io.BytesIO(parquet_bytes()), columns="tokens,pos_tags")
    assert corpus.names == ("word", "pos_tags", "ner_tags")
    assert corpus.y == Y
    plain = io.BytesIO(parquet_bytes(described=False))
    with pytest.raises(CorpusError, match="the labels are numbers"):
        labelwright.read_parquet(plain)
    plain.seek(0)
    assert labelwright.read_parquet(plain, label_names=NAMES).y == Y


def test_parquet_files_are_extended():
    pytest.importorskip("pyarrow")
    from labelwright.corpus import binary_records as parquet

    table = parquet.read_table(io.BytesIO(parquet_bytes()))
    for labels in (Y, [["O"] * 3, ["O"] * 2]):  # the second time they are replaced
        table = parquet.read_table(
            io.BytesIO(parquet.extended(table, [{"predicted": row} for row in labels]))
        )
        records = parquet.parquet_records(table, "x")
        assert records.values("predicted") == labels
        assert records.class_names == {"ner_tags": NAMES}
    assert table.column("id").to_pylist() == ["0", "1"]
    assert "predicted" in json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]


def test_damaged_and_empty_parquet_files():
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for data in (b"", b"PAR1", parquet_bytes()[:-9]):
        with pytest.raises(CorpusError, match="<stream>: not a Parquet file, or a damaged one"):
            labelwright.read_parquet(io.BytesIO(data))
    out = io.BytesIO()
    parquet.write_table(arrow.table({"tokens": arrow.array([], arrow.list_(arrow.string()))}), out)
    with pytest.raises(CorpusError, match="<stream>: no rows"):
        labelwright.read_parquet(io.BytesIO(out.getvalue()))
    out = io.BytesIO()
    parquet.write_table(arrow.table({"tokens": [["a"], None], "tags": [["X"], ["Y"]]}), out)
    with pytest.raises(
        CorpusError, match="<stream>: row 2: tokens: expected a list of tokens, got nothing"
    ):
        labelwright.read_parquet(io.BytesIO(out.getvalue()))


def test_parquet_files_that_hold_no_text():
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    unreadable = arrow.array([[b"a"], [b"\xff\xfe"]], arrow.list_(arrow.binary())).cast(
        arrow.list_(arrow.string()), safe=False
    )
    far = arrow.array([[2**62]], arrow.list_(arrow.timestamp("ms")))
    same = arrow.Table.from_arrays([arrow.array([["a"]])] * 2, ["tokens", "tokens"])
    for table, message in (
        (
            arrow.table({"tokens": unreadable}),
            r"<stream>: 'tokens': cannot be read \(.*utf-8.*\); write the column",
        ),
        (arrow.table({"tokens": [["a"]], "tags": far}), r"<stream>: 'tags': cannot be read \("),
        (same, "<stream>: several columns have the same name"),
    ):
        out = io.BytesIO()
        parquet.write_table(table, out)
        with pytest.raises(CorpusError, match=message):
            labelwright.read_parquet(io.BytesIO(out.getvalue()))


def test_parquet_needs_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        OptionError, match=r"Parquet files need pyarrow: pip install 'labelwright\[parquet\]'"
    ):
        labelwright.read_parquet(io.BytesIO(b"PAR1"))


# -- datasets of Hugging Face ----------------------------------------------------------------------


class Described(dict):
    """The features of a dataset."""

    def to_dict(self):
        return dict(self)


class Dataset:
    """What a dataset offers; its columns are no lists."""

    def __init__(self, rows, features=FEATURES):
        self.rows, self.features, self.column_names = rows, Described(features), list(rows[0])

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, name):
        return (row[name] for row in self.rows)


def real_dataset(rows):
    datasets = pytest.importorskip("datasets")
    features = {
        name: datasets.Sequence(datasets.Value("string")) for name in ("tokens", "pos_tags")
    }
    features |= {
        "id": datasets.Value("string"),
        "ner_tags": datasets.Sequence(datasets.ClassLabel(names=NAMES)),
    }
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


@pytest.mark.parametrize("make", [Dataset, real_dataset])
def test_a_dataset_is_trained_on_and_answered(make):
    data, X = make(SENTENCES), [row["tokens"] for row in SENTENCES]
    tagger = CRF(n_jobs=1).fit(data, dev=data)
    assert tagger.predict(data) == tagger.predict(X) == Y
    assert tagger.score(data) == tagger.score(X, Y) == 1
    assert tagger.predict_marginals(data) == tagger.predict_marginals(X)
    for other in (Perceptron(n_jobs=1).partial_fit(data), MemoryTagger(n_jobs=1).fit(data)):
        assert set(other.classes_) == set(NAMES)
    layers = Cascade([("ner_tags", CRF(max_iter=5))], n_jobs=1).fit(data)
    assert layers.predict(data) == {"ner_tags": Y}


def test_what_is_wrong_with_a_dataset_is_one_line():
    with pytest.raises(
        CorpusError,
        match=r"^dataset: ner_tags: the labels are numbers; .*of a dataset: a ClassLabel",
    ):
        CRF().fit(Dataset(SENTENCES, {}))
    with pytest.raises(
        CorpusError, match=r"^dataset: row 0: no field tokens or words with the tokens, got text$"
    ):
        CRF().fit(Dataset([{"text": "Ada ran"}], {}))
