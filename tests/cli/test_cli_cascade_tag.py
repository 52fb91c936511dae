"""Trained cascades on the command line: labels by layer, scores, a look inside, and what is
refused."""

import io
import json
from pathlib import Path

import numpy as np
from cascades import WORDS, rows
from command import one_line, refused

import labelwright
from labelwright.corpus import read_columns, read_conllu


def test_a_column_for_each_layer(run, folder: Path, tmp_path: Path) -> None:
    expected = labelwright.load(folder / "two").predict(
        read_columns(folder / "words.txt", label=False)
    )
    # without labels, or with all of them
    for name, n_columns in (("words.txt", 1), ("test.txt", 3)):
        code, out, err = run("tag", folder / "two", folder / name)
        assert (code, err) == (0, "")
        assert [line.rsplit(" ", 2)[0] if line else "" for line in out.splitlines()] == (
            folder / name
        ).read_text().splitlines()
        names = [f"c{k}" for k in range(n_columns)]
        tagged = read_columns(io.BytesIO(out.encode()), names=[*names, "pos", "chunk"])
        assert {layer: tagged.column(layer) for layer in expected} == expected
    code, _, _ = run("tag", folder / "two", folder / "words.txt", "-o", tmp_path / "out.gz")
    assert code == 0
    assert read_columns(tmp_path / "out.gz", names="word,pos,chunk").y == expected["chunk"]


def test_probabilities_stand_after_each_layer(run, folder: Path) -> None:
    _, plain, _ = run("tag", folder / "two", folder / "words.txt")
    _, out, _ = run("tag", folder / "two", folder / "words.txt", "--probabilities", "--threads", 1)
    assert [[row[0], row[1], row[3]] for row in rows(out)] == rows(plain)
    assert all(0 <= float(row[place]) <= 1 for row in rows(out) for place in (2, 4))


def test_piped_input_and_named_columns(run, folder: Path) -> None:
    _, out, err = run("tag", folder / "two", stdin=WORDS * 2)
    assert err == ""
    assert [len(row) for row in rows(out)] == [3] * 8
    known = b"1 She PRP\n2 saw VBD\n3 him PRP\n4 . .\n\n"
    _, named, err = run("tag", folder / "two", "--columns", "n,word,old", stdin=known)
    assert err == ""
    assert [row[3:] for row in rows(named)] == [row[1:] for row in rows(out)[:4]]


def test_json_by_layer(run, folder: Path) -> None:
    _, out, _ = run(
        "tag", folder / "two", folder / "test.txt", "--json", "--nbest", 2, "--probabilities"
    )
    answers = [json.loads(line) for line in out.splitlines()]
    corpus = read_columns(folder / "words.txt", names="word", label=False)
    model = labelwright.load(folder / "two")
    assert [answer["tokens"] for answer in answers] == corpus.column("word")
    assert all(
        list(answer) == ["tokens", "layers"] and list(answer["layers"]) == ["pos", "chunk"]
        for answer in answers
    )
    for layer, labels in model.predict(corpus).items():
        found = [answer["layers"][layer] for answer in answers]
        assert [each["labels"] for each in found] == labels
        assert all(
            list(each)
            == ["labels", "probability", "exact", "gap", "spans", "probabilities", "nbest"]
            for each in found
        )
        best = [each["nbest"][0] for each in found]
        assert best == [
            {"labels": each["labels"], "probability": each["probability"]} for each in found
        ]
        marginals = model.predict_marginals(corpus)[layer]
        for each, table in zip(found, marginals, strict=True):
            wanted = [row[label] for row, label in zip(table, each["labels"], strict=True)]
            assert np.allclose(each["probabilities"], wanted, atol=1e-6)
    spans = [answer["layers"]["chunk"]["spans"] for answer in answers]
    assert set(spans[0][0]) == {"start", "end", "type", "text", "probability"}
    assert [[span["type"] for span in row] for row in spans] == [
        [span.type for span in row] for row in model.predict_spans(corpus)["chunk"]
    ]


def test_decoders_and_constraints(run, folder: Path) -> None:
    _, plain, _ = run("tag", folder / "two", folder / "words.txt")
    code, out, err = run(
        "tag", folder / "two", folder / "words.txt", "--decoder", "exact", "--verbose"
    )
    assert (code, out) == (0, plain)
    assert [line.split(",")[0] for line in err.splitlines()] == [
        "pos: 10 sentences",
        "chunk: 10 sentences",
    ]
    assert run("tag", folder / "two", folder / "words.txt", "--decoder", "mbr", "--n", 3)[0] == 0
    assert run("tag", folder / "two", folder / "words.txt", "--constraints", "scheme")[0] == 0


def test_conllu(run, folder: Path, tmp_path: Path) -> None:
    line = "{}\t{}\t_\t{}\t{}" + "\t_" * 5 + "\n"
    text = (
        "# text = He ran\n"
        + line.format(1, "He", "PRON", "PRP")
        + line.format(2, "ran", "VERB", "VBD")
        + "\n"
    )
    (tmp_path / "t.conllu").write_text(text * 5)
    layers = "".join(
        f'[[layers]]\nname = "{name}"\ntemplate = "words"\n' for name in ("upos", "xpos")
    )
    (tmp_path / "r.toml").write_text(f'model = "cascade"\nmax_iter = 5\nn_jobs = 1\n{layers}')
    place = ["-o", tmp_path / "m", "--recipe", tmp_path / "r.toml", "-q"]
    assert run("train", tmp_path / "t.conllu", *place) == (0, "", "")
    empty = text
    for value in ("PRON", "VERB", "PRP", "VBD"):
        empty = empty.replace(value, "_")
    (tmp_path / "u.conllu").write_text(empty)
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu") == (0, text, "")
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu", "-o", tmp_path / "v.conllu") == (
        0,
        "",
        "",
    )
    assert read_conllu(tmp_path / "v.conllu", label="xpos").y == [["PRP", "VBD"]]
    _, out, _ = run("eval", tmp_path / "m", tmp_path / "t.conllu", "--json")
    assert [found["token_accuracy"] for found in json.loads(out)["layers"].values()] == [1.0, 1.0]
    for bad, part in (
        (
            ["tag", folder / "two", tmp_path / "u.conllu"],
            "u.conllu: CoNLL-U has no column for the layer pos; add --json",
        ),
        (
            ["tag", tmp_path / "m", tmp_path / "u.conllu", "--probabilities"],
            "no column for them; add --json",
        ),
    ):
        refused(run(*bad), part)


# -- scores, a look inside, and what is refused ----------------------------------------------------


def test_eval_by_layer(run, folder: Path) -> None:
    code, out, err = run("eval", folder / "two", folder / "test.txt")
    assert code == 0
    one_line(
        err,
        "test.txt: column chunk: labels that the training data lack, and no model predicts: I-ADVP",
    )
    pos, chunk = out.split("\nchunk\n")
    assert pos.startswith("pos\nlabel")
    assert pos.rstrip().endswith(f"accuracy|reading:token|labelwright:{labelwright.__version__}")
    assert chunk.startswith("chunk          precision")
    assert "f1|reading:conlleval|scheme:iob2" in chunk
    gold = read_columns(folder / "test.txt", names="word,pos,chunk", label=False)
    predicted = labelwright.load(folder / "two").predict(gold.select(["word"]))
    from labelwright.evaluate import evaluate

    found = json.loads(run("eval", folder / "two", folder / "test.txt", "--json")[1])["layers"]
    for name in ("pos", "chunk"):
        report = json.loads(json.dumps(evaluate(gold.column(name), predicted[name]).as_dict()))
        assert report.items() <= found[name].items()
        assert found[name]["decoding"]["decoder"] == "viterbi"
    code, out, _ = run(
        "eval", folder / "two", folder / "test.txt", "--strict", "--columns", "word,pos,chunk"
    )
    assert code == 0
    assert "reading:strict" in out
    assert "reading:token" in out


def test_a_tagged_file_is_scored_by_its_last_layer(run, folder: Path, tmp_path: Path) -> None:
    run("tag", folder / "two", folder / "test.txt", "-o", tmp_path / "tagged")
    of_file = json.loads(run("eval", folder / "test.txt", tmp_path / "tagged", "--json")[1])
    of_model = json.loads(run("eval", folder / "two", folder / "test.txt", "--json")[1])["layers"][
        "chunk"
    ]
    assert of_file["f1"] == of_model["f1"]
    assert (
        run(
            "compare",
            folder / "test.txt",
            tmp_path / "tagged",
            tmp_path / "tagged",
            "--samples",
            10,
        )[0]
        == 0
    )


def test_inspect(run, folder: Path) -> None:
    code, out, err = run("inspect", folder / "two")
    assert (code, err) == (0, "")
    for part in (
        "two: cascade of 2 layers, passing joint",
        "trained on    35 sentences",
        "together      6 iterations, loss",
        "layer 1: pos",
        "layer 2: chunk",
        "alone     6 iterations, loss",
        "before,",
    ):
        assert part in out
    facts = json.loads(run("inspect", folder / "two", "--json")[1])
    assert list(facts["layers"]) == ["pos", "chunk"]
    assert facts["training"]["joint"]["stopped"] == "reached the limit of iterations"
    assert len(facts["history"]) == 7


def test_inspect_a_layer(run, folder: Path) -> None:
    code, out, err = run("inspect", folder / "two", "--layer", "chunk", "--top", 2)
    assert (code, err) == (0, "")
    assert "two, layer chunk: crf|template:words" in out
    assert "label       chunk, column 3 of word,pos,chunk" in out
    assert "y[0]=" in out
    assert "%y[-1]/%y[0]" in run("inspect", folder / "two", "--layer", "chunk", "--template")[1]
    facts = json.loads(run("inspect", folder / "two", "--layer", "pos", "--json")[1])
    assert (facts["kind"], facts["columns"]) == ("CRF", ["word"])
    assert run("inspect", folder / "two", "--layer", "pos", "--data", folder / "words.txt")[0] == 0


def test_a_cascade_of_dicts_is_for_python(run, tmp_path: Path) -> None:
    layers = [(name, labelwright.CRF(max_iter=2)) for name in ("a", "b")]
    y = {"a": [["A", "B"]], "b": [["A", "B"]]}
    X = [[{"w": "x"}, {"w": "y"}]]
    labelwright.Cascade(layers, passing="best", n_jobs=1).fit(X, y).save(tmp_path / "m")
    refused(
        run("tag", tmp_path / "m", stdin=WORDS),
        "m: trained on feature dicts, but columns are read here",
    )
    assert (
        "(no columns: trained in Python on dicts, arrays or rows)"
        in run("inspect", tmp_path / "m")[1]
    )
    # single models of this kind can be looked into, too
    for sentences in (X, [np.array([[1.0], [2.0]])]):
        labelwright.CRF(max_iter=2, n_jobs=1).fit(sentences, y["a"]).save(tmp_path / "m")
        assert (
            "(no columns: trained in Python on dicts, arrays or rows)"
            in run("inspect", tmp_path / "m")[1]
        )


def test_a_cascade_made_in_python(run, folder: Path, tmp_path: Path) -> None:
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk", label=False).take(
        slice(0, 5)
    )
    layers = [(name, labelwright.CRF(max_iter=2, template="words")) for name in ("pos", "chunk")]
    labelwright.Cascade(layers, passing="best", n_jobs=1).fit(corpus).save(tmp_path / "m")
    for name in ("words.txt", "test.txt"):
        assert run("tag", tmp_path / "m", folder / name)[0] == 0
    assert run("eval", tmp_path / "m", folder / "test.txt")[0] == 0
    assert run("inspect", tmp_path / "m")[0] == 0
