"""Training, tagging and scoring on files of other programs: CRFsuite, JSON lines, Parquet, doccano,
Label Studio."""

import gzip
import io
import json
from pathlib import Path

import pytest
from command import one_line, refused

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, read_conllu, write_columns
from labelwright.corpus.spans import spans_of

NAMES = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]


def attribute_text(corpus) -> str:
    """The words and tags around every token, as CRFsuite has them."""
    lines = []
    for words, labels in zip(corpus.X, corpus.y, strict=True):
        for t, label in enumerate(labels):
            near = {k: words[t + k] for k in (-1, 0, 1) if 0 <= t + k < len(words)}
            lines.append(
                "\t".join([label, *(f"w[{k}]={word}" for k, word in near.items()), f"place:{t}"])
            )
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def text_records(corpus) -> list[dict]:
    """The sentences as texts with annotated places."""
    records = []
    for words, labels in zip(corpus.X, corpus.y, strict=True):
        ends = [sum(len(word) + 1 for word in words[: t + 1]) - 1 for t in range(len(words))]
        places = [
            [ends[s.start] - len(words[s.start]), ends[s.end - 1], s.type] for s in spans_of(labels)
        ]
        records.append({"text": " ".join(words), "label": places})
    return records


def json_lines(records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same sentences in every format, and models trained on three of them."""
    place = tmp_path_factory.mktemp("formats")
    corpus = builtin_corpus(30, random_state=3, columns=["word", "chunk"])
    corpus = corpus.take(
        [n for n, words in enumerate(corpus.X) if all(word.isalnum() for word in words[:-1])]
    )
    write_columns(corpus, place / "a.txt")
    (place / "a.crfsuite.gz").write_bytes(gzip.compress(attribute_text(corpus).encode()))
    (place / "attributes.txt").write_text(attribute_text(corpus))
    tagged = zip(corpus.X, corpus.y, strict=True)
    records = [
        {"id": n, "tokens": words, "n_tags": [0] * len(words), "tags": y}
        for n, (words, y) in enumerate(tagged)
    ]
    (place / "a.jsonl").write_text(json_lines(records))
    (place / "doccano.jsonl").write_text(json_lines(text_records(corpus)))
    tasks = [
        {
            "data": {"text": record["text"]},
            "annotations": [
                {
                    "result": [
                        {"value": {"start": a, "end": b, "labels": [k]}}
                        for a, b, k in record["label"]
                    ]
                }
            ],
        }
        for record in text_records(corpus)
    ]
    (place / "studio.json").write_text(json.dumps(tasks))
    for name in ("attributes.txt", "a.jsonl", "doccano.jsonl"):
        options = ["-q", "--iterations", "30", "--threads", "1", "--dev", place / name]
        assert (
            main([str(a) for a in ["train", place / name, "-o", place / f"{name}.model", *options]])
            == 0
        )
    return place


def ok(result: tuple[int, str, str]) -> str:
    code, out, err = result
    # many are tested on it
    said = [line for line in err.splitlines() if " are in the training data; " not in line]
    assert (code, said) == (0, [])
    return out


# -- CRFsuite's data -------------------------------------------------------------------------------


def test_crfsuite_data_are_recognised_and_tagged_as_crfsuite_does(run, place: Path) -> None:
    model, gold = (
        place / "attributes.txt.model",
        labelwright.read_crfsuite(place / "attributes.txt"),
    )
    out = ok(run("tag", model, place / "attributes.txt"))
    labels = [block.split("\n") for block in out.removesuffix("\n\n").split("\n\n")]
    assert labels == labelwright.load(model).predict(gold.X)
    assert out.endswith("\n\n")
    assert ok(run("tag", model, place / "a.crfsuite.gz")) == out
    assert ok(run("tag", model, "-", stdin=(place / "attributes.txt").read_bytes())) == out
    sure = (
        ok(run("tag", model, place / "attributes.txt", "--probabilities")).split("\n")[0].split(":")
    )
    assert sure[0] == labels[0][0]
    assert 0 < float(sure[1]) <= 1


def test_crfsuite_data_are_scored(run, place: Path, tmp_path: Path) -> None:
    data, model = place / "attributes.txt", place / "attributes.txt.model"
    by_model = json.loads(ok(run("eval", model, data, "--json")))
    ok(run("tag", model, data, "-o", tmp_path / "tagged"))
    by_file = json.loads(ok(run("eval", data, tmp_path / "tagged", "--json")))
    assert by_model["f1"] == by_file["f1"] > 0.5
    assert "exact" in ok(run("tag", model, data, "--json"))
    assert "tokens" not in json.loads(
        ok(run("tag", model, data, "--json", "--nbest", 2)).split("\n")[0]
    )


def test_the_format_can_be_named(run, place: Path, tmp_path: Path) -> None:
    text = "A\tx\ty\nB\tz\nA\tx\n\n"
    (tmp_path / "a").write_text(text)
    train = "train", tmp_path / "a", "-o", tmp_path / "m", "-q", "--iterations", 20
    refused(
        run(*train),
        "a:2: expected 3 columns, got 2; if these are CRFsuite's data, add --format crfsuite",
    )
    ok(run(*train, "--format", "crfsuite"))
    assert ok(run("tag", tmp_path / "m", tmp_path / "a")) == "A\nB\nA\n\n"
    (tmp_path / "windows").write_text("".join(f"{c}\tw=a\tx={c}\n" for c in "ABAB"))
    ok(
        run(
            "train",
            tmp_path / "windows",
            "-o",
            tmp_path / "m",
            "-q",
            "--iterations",
            2,
            "--format",
            "columns",
        )
    )
    assert labelwright.load(tmp_path / "m").reads().columns == ("word", "pos")


def test_a_label_and_one_attribute_need_a_format(run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("B-NP\tw=He\nB-VP\tw=ran\nO\tw=.\n\n" * 5)
    train = "train", tmp_path / "a", "-o", tmp_path / "m", "-q", "--iterations", 20
    refused(
        run(*train), "a: looks like CRFsuite's data", "add --format crfsuite or --format columns"
    )
    for format, labels in (
        ("columns", {"w=He", "w=ran", "w=."}),
        ("crfsuite", {"B-NP", "B-VP", "O"}),
    ):
        ok(run(*train, "--format", format))
        assert set(labelwright.load(tmp_path / "m").classes_) == labels


# -- convert ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "doccano.jsonl", "studio.json"])
def test_convert_reads_all_formats(run, place: Path, tmp_path: Path, name: str) -> None:
    ok(run("convert", place / name, tmp_path / "a.txt", "-q"))
    assert read_columns(tmp_path / "a.txt").X == read_columns(place / "a.txt").X
    ok(
        run(
            "convert",
            "-",
            tmp_path / "a.conllu",
            "-q",
            "--keep",
            "word",
            stdin=(place / name).read_bytes(),
        )
    )
    assert read_conllu(tmp_path / "a.conllu").column("form") == read_columns(place / "a.txt").X


def test_convert_names_labels_and_chooses_fields(run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        json_lines([{"tokens": ["He", "ran"], "pos_tags": ["P", "V"], "ner_tags": [1, 3]}])
    )
    convert = "convert", tmp_path / "a", tmp_path / "b", "-q", "--format", "jsonl"
    ok(run(*convert, "--columns", "tokens,pos_tags", "--label-names", ",".join(NAMES)))
    assert (tmp_path / "b").read_text() == "He P B-NP\nran V B-VP\n\n"


# -- records ---------------------------------------------------------------------------------------


def test_json_lines_keep_their_fields(run, place: Path, tmp_path: Path) -> None:
    model, data = place / "a.jsonl.model", place / "a.jsonl"
    ok(run("tag", model, data, "-o", tmp_path / "b.jsonl.gz", "--probabilities"))
    before = [json.loads(line) for line in data.read_text().splitlines()]
    after = [
        json.loads(line)
        for line in gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).splitlines()
    ]
    for old, new in zip(before, after, strict=True):
        assert (
            len(new.pop("predicted_probabilities"))
            == len(new.pop("predicted"))
            == len(old["tokens"])
        )
        assert new == old
    by_file = json.loads(ok(run("eval", data, tmp_path / "b.jsonl.gz", "--json")))
    assert by_file["f1"] == json.loads(ok(run("eval", model, data, "--json")))["f1"] > 0.5
    assert ok(run("tag", model, "-", "--format", "jsonl", stdin=data.read_bytes())) == ok(
        run("tag", model, data)
    )
    one_line(
        run("tag", model, stdin=b'{"tokens":["a"]}\n')[2],
        ": looks like jsonl, not like columns; add --format jsonl",
    )


def test_known_labels_and_sentences_without_tokens(run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"tokens": [], "hint": []}\n{"tokens": ["He", "ran"], "hint": ["_", "O"]}\n'
    )
    lines = ok(
        run("tag", place / "a.jsonl.model", tmp_path / "a.jsonl", "--known", "hint")
    ).splitlines()
    first, second = (json.loads(line)["predicted"] for line in lines)
    assert first == []
    assert second[1] == "O"


def test_one_model_for_several_formats(run, place: Path, tmp_path: Path) -> None:
    model = place / "a.jsonl.model"
    in_json = [
        json.loads(line)["predicted"]
        for line in ok(run("tag", model, place / "a.jsonl")).splitlines()
    ]
    in_columns = ok(run("tag", model, place / "a.txt")).strip().split("\n\n")
    assert [[line.split()[-1] for line in block.split("\n")] for block in in_columns] == in_json
    ok(
        run(
            "train", place / "a.txt", "-o", tmp_path / "m", "-q", "--iterations", 30, "--threads", 1
        )
    )
    for name in ("a.jsonl", "doccano.jsonl", "studio.json"):
        assert json.loads(ok(run("eval", tmp_path / "m", place / name, "--json")))["f1"] > 0.5


def test_numbers_as_labels(run, place: Path, tmp_path: Path) -> None:
    record = {"tokens": ["He", "ran"], "pos_tags": ["P", "V"], "ner_tags": [1, 3]}
    (tmp_path / "a.jsonl").write_text(json_lines([record]))
    train = (
        "train",
        tmp_path / "a.jsonl",
        "-o",
        tmp_path / "m",
        "-q",
        "--iterations",
        20,
        "--columns",
        "tokens,pos_tags",
    )
    ok(run(*train, "--label-names", ",".join(NAMES)))
    assert labelwright.load(tmp_path / "m").reads().columns == ("word", "pos_tags")
    assert json.loads(ok(run("tag", tmp_path / "m", tmp_path / "a.jsonl")))["predicted"] == [
        "B-NP",
        "B-VP",
    ]
    scores = ok(
        run(
            "eval", tmp_path / "m", tmp_path / "a.jsonl", "--label-names", ",".join(NAMES), "--json"
        )
    )
    assert json.loads(scores)["f1"] == 1
    (tmp_path / "b.jsonl").write_text(json_lines([{"tokens": ["He"], "tag": ["P"]}]))
    one_line(
        run("tag", tmp_path / "m", tmp_path / "b.jsonl")[2],
        "b.jsonl: no field 'pos_tags', expected one of tokens, tag",
    )
    assert '"predicted": ["B-NP"]' in ok(
        run("tag", tmp_path / "m", tmp_path / "b.jsonl", "--columns", "tokens,tag")
    )


def test_parquet(run, place: Path, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    records = [json.loads(line) for line in (place / "a.jsonl").read_text().splitlines()]
    parquet.write_table(arrow.Table.from_pylist(records), tmp_path / "a.parquet")
    ok(
        run(
            "train",
            tmp_path / "a.parquet",
            "-o",
            tmp_path / "m",
            "-q",
            "--iterations",
            30,
            "--threads",
            1,
        )
    )
    ok(run("tag", tmp_path / "m", tmp_path / "a.parquet", "-o", tmp_path / "b.parquet"))
    tagged = parquet.read_table(tmp_path / "b.parquet").to_pylist()
    assert [{k: v for k, v in row.items() if k != "predicted"} for row in tagged] == records
    scores = ok(run("eval", tmp_path / "a.parquet", tmp_path / "b.parquet", "--json"))
    assert scores == ok(run("eval", place / "a.jsonl", tmp_path / "b.parquet", "--json"))
    assert json.loads(scores)["f1"] > 0.5


def test_cascades_read_fields(run, tmp_path: Path) -> None:
    corpus = builtin_corpus(12, random_state=3, columns=["word", "pos", "chunk"])
    rows = zip(corpus.column("word"), corpus.column("pos"), corpus.column("chunk"), strict=True)
    (tmp_path / "a.jsonl").write_text(
        json_lines({"tokens": w, "pos": p, "chunk": c} for w, p, c in rows)
    )
    (tmp_path / "r.toml").write_text(
        'model = "cascade"\n[[layers]]\nname = "pos"\nmax_iter = 5\n[[layers]]\nname = "chunk"\n'
        "max_iter = 5\n"
    )
    ok(
        run(
            "train",
            tmp_path / "a.jsonl",
            "-o",
            tmp_path / "m",
            "--recipe",
            tmp_path / "r.toml",
            "-q",
        )
    )
    tagged = json.loads(ok(run("tag", tmp_path / "m", tmp_path / "a.jsonl")).split("\n")[0])
    assert len(tagged["predicted_pos"]) == len(tagged["predicted_chunk"]) == len(tagged["tokens"])
    assert list(
        json.loads(ok(run("eval", tmp_path / "m", tmp_path / "a.jsonl", "--json")))["layers"]
    ) == [
        "pos",
        "chunk",
    ]


# -- annotated texts -------------------------------------------------------------------------------


def test_annotated_texts(run, place: Path, tmp_path: Path) -> None:
    model = place / "doccano.jsonl.model"
    ok(run("tag", model, place / "doccano.jsonl", "-o", tmp_path / "d.jsonl"))
    ok(run("tag", model, place / "studio.json", "-o", tmp_path / "s.json"))
    tagged = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert any(record["predicted"] == record["label"] != [] for record in tagged)
    tasks = json.loads((tmp_path / "s.json").read_text())
    values = [[r["value"] for r in task["predictions"][0]["result"]] for task in tasks]
    assert [[[v["start"], v["end"], *v["labels"]] for v in row] for row in values] == [
        r["predicted"] for r in tagged
    ]
    entities = [
        json.loads(line)["spans"]
        for line in ok(run("tag", model, place / "doccano.jsonl", "--json")).splitlines()
    ]
    probabilities = [p for record in tagged for p in record["predicted_probabilities"]]
    assert probabilities == [span["probability"] for spans in entities for span in spans]
    assert probabilities == [r["score"] for task in tasks for r in task["predictions"][0]["result"]]
    scores = ok(run("eval", place / "doccano.jsonl", tmp_path / "d.jsonl", "--json"))
    assert scores == ok(run("eval", place / "studio.json", tmp_path / "s.json", "--json"))
    assert (
        json.loads(scores)["f1"]
        == json.loads(ok(run("eval", model, place / "doccano.jsonl", "--json")))["f1"]
        > 0.5
    )


def test_bad_annotations(run, tmp_path: Path) -> None:
    good, bad = (
        {"text": "Ada ran", "label": [[0, 3, "PER"]]},
        {"text": "Bo ran", "label": [[0, 2, "PER"], [0, 6, "PER"]]},
    )
    (tmp_path / "a.jsonl").write_text(json_lines([good, bad]))
    train = "train", tmp_path / "a.jsonl", "-o", tmp_path / "m", "-q", "--iterations", 5
    refused(
        run(*train),
        "a.jsonl:2: the annotation 0:2 (PER) overlaps another one; correct it, or leave",
        "--skip-bad-spans",
    )
    code, _, err = run(*train, "--skip-bad-spans")
    assert code == 0
    one_line(err, "1 annotation left out;", "a.jsonl:2: the annotation 0:2")


@pytest.mark.parametrize("span", [[0, 9], [0, 10**20], [-3, 2], [5, 2], [0, 0]])
def test_tasks_of_label_studio_have_places_in_their_text(run, span, tmp_path: Path) -> None:
    good = {"text": "Ada ran", "label": [[0, 3, "PER"]]}
    bad = {"text": "Bo ran", "label": [[0, 2, "PER"], [*span, "LOC"]]}
    (tmp_path / "a.jsonl").write_text(json_lines([good, bad]))
    convert = "convert", tmp_path / "a.jsonl", tmp_path / "tasks.json"
    place = f"a.jsonl:2: the annotation {span[0]}:{span[1]} (LOC)"
    refused(run(*convert), place, "the text of 6 characters; correct it", "--skip-bad-spans")
    assert not (tmp_path / "tasks.json").exists()
    code, _, err = run(*convert, "--skip-bad-spans", "-q")
    assert code == 0
    one_line(err, "1 annotation left out;", place)
    with pytest.warns(UserWarning, match="left out"):
        texts = labelwright.read_doccano(tmp_path / "a.jsonl", skip_bad_spans=True)
    assert labelwright.read_label_studio(tmp_path / "tasks.json").y == texts.y


def test_one_text_in_python() -> None:
    corpus = labelwright.read_doccano(io.BytesIO(b'{"text": "Ada ran", "label": [[0, 3, "PER"]]}'))
    assert labelwright.CRF(n_jobs=1, max_iter=20).fit(corpus).predict(corpus) == [["B-PER", "O"]]
