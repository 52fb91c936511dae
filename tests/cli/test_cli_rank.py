"""labelwright rank and labelwright doubts, as they are called."""

import json

import pytest
from command import one_line, refused

from labelwright import load
from labelwright.active import doubts, rank
from labelwright.corpus import Corpus, read_columns, write_columns


@pytest.fixture(scope="module")
def model(folder):
    """A small CRF of word and pos, and unlabelled sentences."""
    from labelwright.cli import main

    arguments = [
        "train",
        folder / "train.txt",
        "-o",
        folder / "chunks.crf",
        "--columns",
        "word,pos,chunk",
        "-q",
    ]
    assert (
        main([*map(str, arguments), "--iterations", "10", "--template", "U:%x[0,0]\nU:%x[0,1]\nB"])
        == 0
    )
    corpus = read_columns(folder / "dev.txt", names="word,pos,chunk")
    write_columns(corpus.take(slice(None)).select(["word", "pos"]), folder / "pool.txt")
    return folder / "chunks.crf"


@pytest.fixture
def pool(folder, model):
    return read_columns(folder / "pool.txt", names="word,pos", label=False)


# -- rank ------------------------------------------------------------------------------------------


def test_a_table_of_the_most_uncertain(run, folder, model, pool):
    code, out, err = run("rank", model, folder / "pool.txt", "--top", 3)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["rank", "sentence", "sequence", "predicted"]
    ranked = rank(load(model), pool.X, top=3)
    assert [line.split()[1] for line in lines[1:]] == [str(each.sentence) for each in ranked]
    assert "NP]" in lines[1]


def test_the_written_file_can_be_trained_on_and_the_rest_ranked_again(
    run, folder, model, pool, tmp_path
):
    written, rest = tmp_path / "next.txt", tmp_path / "rest.txt"
    options = ["--top", 4, "--by", "span", "--diverse", "-o", written, "--rest", rest]
    code, out, err = run("rank", model, folder / "pool.txt", *options)
    assert (code, out) == (0, "")
    assert err.startswith(f"{written}: 4 of 15 sentences, ")
    ranked = rank(load(model), pool.X, "span", top=4, diverse=True)
    corpus = read_columns(written, names="word,pos,chunk")
    assert corpus.y == [each.labels for each in ranked]
    assert [pool.X[each.sentence] for each in ranked] == corpus.X
    chosen = {each.sentence for each in ranked}
    left = read_columns(rest, names="word,pos", label=False)
    assert [sentence for n, sentence in enumerate(pool.X) if n not in chosen] == left.X
    assert run("rank", model, rest, "--top", 1)[0] == 0
    assert run("train", written, "-o", tmp_path / "m", "--iterations", 2, "-q")[0] == 0


def test_scores_are_one_more_column(run, folder, model):
    code, out, _ = run("rank", model, folder / "pool.txt", "--top", 1, "-o", "-", "--scores")
    first, *_, last = out.split("\n\n")[0].splitlines()
    assert code == 0
    assert first.split()[-1] == last.split()[-1]
    assert float(first.split()[-1]) > 0


def test_json_has_one_object_for_each_sentence(run, folder, model, pool):
    code, out, _ = run("rank", model, folder / "pool.txt", "--json", "--by", "margin")
    facts = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [fact["rank"] for fact in facts] == list(range(1, 16))
    assert facts[0]["tokens"] == [word for word, _ in pool.X[facts[0]["sentence"]]]
    assert set(facts[0]) == {"tokens", "pos", "labels", "rank", "sentence", "score", "by"}


def test_texts_for_annotation_tools(run, folder, tmp_path):
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk").take(slice(None))
    write_columns(corpus.select(["word", "chunk"]), tmp_path / "train.txt")
    (tmp_path / "letter.txt").write_text("The man saw her. He did not know the small question.\n")
    assert (
        run("train", tmp_path / "train.txt", "-o", tmp_path / "m", "--iterations", 5, "-q")[0] == 0
    )
    options = ["--text", "--to", "doccano", "-o", "-"]
    code, out, err = run("rank", tmp_path / "m", tmp_path / "letter.txt", *options)
    assert code == 0, err
    records = [json.loads(line) for line in out.splitlines()]
    assert {record["text"] for record in records} == {
        "The man saw her.",
        "He did not know the small question.",
    }
    assert all(record["text"][a:b].strip() for record in records for a, b, _ in record["label"])
    options = ["--text", "--top", 1, "-o", tmp_path / "tasks.json", "--to", "label-studio"]
    assert run("rank", tmp_path / "m", tmp_path / "letter.txt", *options)[0] == 0
    task = json.loads((tmp_path / "tasks.json").read_text())[0]
    assert task["data"]["rank"] == 1
    assert task["predictions"][0]["result"]


def test_json_lines_and_labelled_files_are_read(run, folder, model, tmp_path):
    records = [{"word": ["He", "ran"], "pos": ["PRP", "VBD"]}, {"word": ["her"], "pos": ["PRP$"]}]
    (tmp_path / "pool.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    code, out, err = run("rank", model, tmp_path / "pool.jsonl", "--json")
    assert code == 0, err
    assert {tuple(json.loads(line)["tokens"]) for line in out.splitlines()} == {
        ("He", "ran"),
        ("her",),
    }
    code, out, _ = run("rank", model, folder / "dev.txt", "--top", 1, "-o", "-")
    assert (code, len(out.splitlines()[0].split())) == (0, 4)
    with open(tmp_path / "pool.jsonl", "a") as pool:
        pool.write('{"word": [], "pos": []}\n')  # nothing to annotate
    code, out, err = run("rank", model, tmp_path / "pool.jsonl", "-o", "-")
    assert (code, out.count("\n\n")) == (0, 2), err


def test_a_cascade_and_an_empty_file(run, folder, model, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    code, out, _ = run("rank", model, tmp_path / "empty.txt", "--json")
    assert (code, out) == (0, "")
    assert (
        run(
            "rank",
            model,
            tmp_path / "empty.txt",
            "-o",
            tmp_path / "none.txt",
            "--rest",
            tmp_path / "r",
        )[0]
        == 0
    )
    assert (tmp_path / "none.txt").read_bytes() == (tmp_path / "r").read_bytes() == b""
    for options in ([], ["--layer", "pos"]):
        code, out, err = run("rank", folder / "two", folder / "words.txt", "--top", 2, *options)
        assert (code, len(out.splitlines())) == (0, 3), err


# -- doubts ----------------------------------------------------------------------------------------

QUICK = [
    "--iterations",
    8,
    "--template",
    "U:%x[0,0]\nU:%x[0,1]\nB",
    "--columns",
    "word,pos,chunk",
    "--folds",
    3,
]


@pytest.fixture(scope="module")
def wrong(folder, tmp_path_factory):
    """Training data with a label that no sentence but one has."""
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk")
    labels = corpus.y
    labels[7][0] = "B-TYPO"
    path = tmp_path_factory.mktemp("wrong") / "wrong.txt"
    made = Corpus.from_sequences(corpus.X, labels, names=["word", "pos", "chunk"])
    write_columns(made, path)
    return path


def test_a_table_of_doubts(run, wrong):
    code, out, err = run("doubts", wrong, *QUICK, "--top", 3)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["sentence", "P(gold)", "gold", "suggested", "P", "text"]
    assert lines[1].split()[:3] == ["7", "0.0000", "TYPO"]
    assert "-o FILE writes them" in lines[-1]
    assert [line.split()[:2] for line in err.splitlines()] == [
        ["fold", "1/3"],
        ["fold", "2/3"],
        ["fold", "3/3"],
    ]


def test_the_written_file_has_the_prediction_the_probability_and_the_doubt(run, wrong, tmp_path):
    code, out, err = run("doubts", wrong, *QUICK, "--top", 5, "-o", tmp_path / "look.txt")
    assert (code, out) == (0, "")
    assert f"{tmp_path / 'look.txt'}: 5 doubts in " in err
    names = "word,pos,chunk,predicted,probability,doubt,sentence"
    look, gold = (
        read_columns(tmp_path / "look.txt", names=names),
        read_columns(wrong, names="word,pos,chunk"),
    )
    assert look.column("chunk")[0] == gold.y[7]
    assert (look.column("doubt")[0][0], look.column("probability")[0][0]) == ("1", "0.0000")
    assert {mark for row in look.column("doubt") for mark in row} == {"_", "1", "2", "3", "4", "5"}
    options = [
        "-o",
        tmp_path / "m",
        "--columns",
        names,
        "--label",
        "chunk",
        "--iterations",
        2,
        "-q",
    ]
    assert run("train", tmp_path / "look.txt", *options)[0] == 0


@pytest.mark.parametrize("name", ["look.txt", "look.jsonl"])
def test_corrections_go_back_into_the_data(run, wrong, tmp_path, name):
    look, mended = tmp_path / name, tmp_path / "mended.txt"
    assert run("doubts", wrong, *QUICK, "--top", 5, "-o", look, "-q")[0] == 0
    back = ["doubts", wrong, "--columns", "word,pos,chunk", "--apply", look, "-o", mended]
    assert run(*back)[2] == f"{mended}: 0 labels of {read_columns(wrong).n_tokens} tokens changed\n"
    assert mended.read_bytes() == wrong.read_bytes()
    assert "B-TYPO" in look.read_text()
    look.write_text(look.read_text().replace("B-TYPO", "B-ADVP"))
    code, out, err = run(*back)
    assert (code, out) == (0, "")
    assert err.startswith(f"{mended}: 1 label of ")
    assert mended.read_text() == wrong.read_text().replace("B-TYPO", "B-ADVP")
    refused(run(*back[:-2]), "--apply: add -o FILE")
    (tmp_path / "other.txt").write_text("a b O\n\n" * 50)
    refused(
        run("doubts", tmp_path / "other.txt", *back[2:]),
        "has other words here; give the file that was looked at",
    )


def test_what_is_no_file_of_corrections(run, wrong, folder, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"tokens": ["a"]}\n')
    marks = wrong.read_text().replace("\n", " x 0.5 _ here\n").replace("\n x 0.5 _ here\n", "\n\n")
    (tmp_path / "marks.txt").write_text(marks)
    (tmp_path / "digits.txt").write_text(marks.replace("here", "1" * 5000))
    for file, told in [
        (
            wrong,
            (
                "expected 7 columns, those of the data and predicted, probability, doubt, "
                "sentence, got 3"
            ),
        ),
        (tmp_path / "bad.jsonl", "bad.jsonl:1: expected sentence, tokens and labels"),
        (
            tmp_path / "marks.txt",
            "sentence 0: expected one number of a sentence in the last column, got 'here'",
        ),
        (
            tmp_path / "digits.txt",
            "sentence 0: expected one number of a sentence in the last column, got '111",
        ),
    ]:
        options = ["--columns", "word,pos,chunk", "--apply", file, "-o", tmp_path / "new.txt"]
        refused(run("doubts", folder / "train.txt", *options), told)


def test_doubts_about_sentences_have_no_empty_columns(run, wrong):
    code, out, _ = run("doubts", wrong, *QUICK, "--by", "sentence", "-q")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["sentence", "P(gold)", "text"]
    data = read_columns(wrong, names="word,pos,chunk")
    for line in lines[1:3]:
        number, _, text = line.split(maxsplit=2)
        assert len(text) <= 90
        assert " ".join(data.column("word")[int(number)]).startswith(text.removesuffix("..."))


def test_json_is_what_python_says(run, wrong):
    from labelwright import CRF

    code, out, err = run("doubts", wrong, *QUICK, "--json", "-q", "--by", "token")
    assert (code, err) == (0, "")
    told = json.loads(out)
    crf = CRF("U:%x[0,0]\nU:%x[0,1]\nB", max_iter=8)
    result = doubts(crf, read_columns(wrong, names="word,pos,chunk"), by="token", folds=3)
    keys = ("sentence", "probability", "suggested_probability", "gold", "suggested")
    assert [{key: each[key] for key in keys} for each in told["doubts"]] == [
        each.as_dict() for each in result.doubts
    ]
    assert (told["by"], told["sentences"]) == ("token", 35)
    assert (
        told["doubts"][0]["text"] == told["doubts"][0]["tokens"][told["doubts"][0]["gold"]["start"]]
    )


@pytest.mark.slow
def test_recipes_and_layers(run, folder, tmp_path):
    recipe = ["--recipe", folder / "two.toml", "--folds", 2, "--top", 2, "-q"]
    code, out, err = run("doubts", folder / "train.txt", *recipe)
    assert (code, len(out.splitlines())) == (0, 4), err
    code, out, err = run(
        "doubts", folder / "train.txt", *recipe, "--layer", "pos", "-o", tmp_path / "look.jsonl"
    )
    assert (code, out) == (0, ""), err
    record = json.loads((tmp_path / "look.jsonl").read_text().splitlines()[0])
    assert set(record) == {
        "tokens",
        "chunk",
        "labels",
        "sentence",
        "predicted",
        "probabilities",
        "doubts",
    }


def test_nothing_to_rank_and_nothing_left_over_is_said(run, folder, segments, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    code, _, err = run("rank", segments, tmp_path / "empty.txt")
    assert code == 0
    one_line(err, "empty.txt: no sentences to rank")
    code, _, err = run("rank", segments, folder / "test.txt", "--rest", tmp_path / "rest.txt")
    assert code == 0
    one_line(err, "rest.txt: no sentences are left over; --top N says how many are chosen")
