"""Cascades and segment models on the command line: recipes, labels by layer, what is drawn, and what is refused."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import one_line, process

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, read_columns, read_conllu, write_columns

LAYER = 'template = "words"\nmax_iter = 6\n'
RECIPE = f"""
model = "cascade"
columns = ["word", "pos", "chunk"]
max_iter = 6
random_state = 1
n_jobs = 1
[[layers]]
name = "pos"
{LAYER}
[[layers]]
name = "chunk"
{LAYER}"""
WORDS = b"She\nsaw\nhim\n.\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, dev.txt and test.txt (word, pos, chunk), words.txt, a recipe, and the cascade `two`."""
    folder = tmp_path_factory.mktemp("cascade")
    corpus = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])
    for name, part in {"train": slice(0, 35), "dev": slice(35, 50), "test": slice(50, 60)}.items():
        write_columns(corpus.take(part), folder / f"{name}.txt")
    write_columns(corpus.take(slice(50, 60)).select(["word"]), folder / "words.txt")
    write_columns(corpus.take(slice(0, 3)).select(["word", "chunk"]), folder / "one-label.txt")
    (folder / "two.toml").write_text(RECIPE)
    arguments = ["train", folder / "train.txt", "-o", folder / "two", "--recipe", folder / "two.toml", "-q"]
    assert main([str(a) for a in [*arguments, "--dev", folder / "dev.txt"]]) == 0
    return folder


@pytest.fixture
def trained(run, folder: Path, tmp_path: Path):
    """Train with a recipe of one's own: the model, or with `code` what was said."""

    def train(recipe: str, *options: object, code: int = 0) -> Any:
        (tmp_path / "r.toml").write_text(recipe)
        place = ["--recipe", tmp_path / "r.toml"]
        found, out, err = run("train", folder / "train.txt", "-o", tmp_path / "m", *place, *options)
        assert (found, out) == (code, ""), err
        assert (tmp_path / "m").exists() == (code == 0)
        assert not (tmp_path / "m.checkpoint").exists()
        return err if code else labelwright.load(tmp_path / "m")

    return train


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line]


# -- training -------------------------------------------------------------------------------------------------------


def test_a_recipe_becomes_a_cascade(folder: Path) -> None:
    model = labelwright.load(folder / "two")
    assert isinstance(model, labelwright.Cascade)
    assert list(model.layers_) == ["pos", "chunk"]
    assert model.inputs_ == ("word",)
    assert model.training_["columns"] == ["word", "pos", "chunk"]
    assert model.training_["joint"]["iterations"] == 6
    assert {when: set(scores) for when, scores in model.training_["dev"].items()} == {
        "before": {"pos", "chunk"},
        "after": {"pos", "chunk"},
    }
    for part in (model, *model.layers_.values()):  # what belongs to the run stays out of the file
        assert (part.n_jobs, part.verbose) == (None, 0)
    assert [type(layer) for layer in model.layers_.values()] == [labelwright.CRF] * 2


def test_the_summary_is_one_line(run, folder: Path, tmp_path: Path) -> None:
    arguments = ["train", folder / "train.txt", "-o", tmp_path / "m", "--recipe", folder / "two.toml"]
    code, out, err = run(*arguments, "--iterations", 2, "--dev", folder / "dev.txt", "--seed", 7)
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert re.search(
        r"m: [\d,]+ weights, [\d,]+ features, 2 layers \(pos \d+ labels, chunk \d+ labels\); 35 sentences, "
        r"2 iterations together, [\d.]+ s, on the development data pos [\d.]+ -> [\d.]+, chunk [\d.]+ -> [\d.]+ "
        r"\(reached the limit of iterations\)\n$",
        err,
    )
    model = labelwright.load(tmp_path / "m")
    assert (model.max_iter, model.random_state) == (2, 7)
    weights = sum(len(layer.weights_) for layer in model.layers_.values())
    assert f"{weights:,} weights" in err


def test_options_win_over_the_recipe(trained) -> None:
    model = trained(
        f"jackknife = true\ncut = 0.01\n{RECIPE}[shares]\npos = 0.5\n", "--passing", "marginal", "--no-jackknife"
    )
    assert (model.passing, model.jackknife, model.cut, model.shares) == ("marginal", False, 0.01, {"pos": 0.5})
    assert "joint" not in model.training_


def test_layers_of_other_kinds(run, trained, folder: Path, tmp_path: Path) -> None:
    layers = [
        'name = "pos"\nmodel = "perceptron"\nmargin = "auto"',
        'name = "chunk"\nmodel = "latent-crf"\nn_latent = 2',
    ]
    tables = "".join(f"[[layers]]\n{layer}\n{LAYER}" for layer in layers)
    model = trained(f'model = "cascade"\npassing = "best"\nlexicon = "pos"\n{tables}', "--columns", "word,pos,chunk")
    assert [type(layer).__name__ for layer in model.layers_.values()] == ["Perceptron", "LatentCRF"]
    code, out, _ = run("inspect", tmp_path / "m")
    assert code == 0
    assert re.search(r"passes, [\d.]+ % separable|passes, 100 % separable", out)
    assert re.search(r"lexicon +\d+ words with labels of pos", out)
    assert "latent states of each label" in run("inspect", tmp_path / "m", "--layer", "chunk")[1]
    found = json.loads(run("tag", tmp_path / "m", folder / "words.txt", "--json")[1].splitlines()[0])["layers"]
    assert ("score" in found["pos"], "probability" in found["chunk"]) == (True, True)
    code, _, err = run("tag", tmp_path / "m", folder / "words.txt", "--probabilities")
    assert code == 2
    one_line(err, "--probabilities: layer pos: a Perceptron has scores, not probabilities")
    code, _, err = run("tag", tmp_path / "m", folder / "words.txt", "--decoder", "ldi")
    assert code == 2
    one_line(err, "--decoder ldi: layer pos: a Perceptron has scores, not probabilities; use viterbi, or nothing")
    code, out, _ = run("tag", tmp_path / "m", folder / "words.txt", "--json", "--max-expansions", 0, "--verbose")
    assert code == 0  # taken by the one layer whose own decoder knows it
    assert not all(json.loads(line)["layers"]["chunk"]["exact"] for line in out.splitlines())


def test_labels_of_a_layer_in_another_scheme(trained) -> None:
    model = trained(RECIPE + 'scheme = "bioes"\n', "--passing", "best")
    assert "S-NP" in model.layers_["chunk"].classes_
    assert model.layers_["chunk"].scheme_ == "bioes"


def test_three_layers_and_the_order_of_columns(run, trained, folder: Path, tmp_path: Path) -> None:
    rows_of = builtin_corpus(20, random_state=1, columns=["pos", "word", "chunk", "entity"])
    write_columns(rows_of, tmp_path / "t.txt")
    layers = "".join(f'[[layers]]\nname = "{name}"\n{LAYER}' for name in ("pos", "chunk", "entity"))
    (tmp_path / "r.toml").write_text(
        f'model = "cascade"\npassing = "best"\ncolumns = "pos,word,chunk,entity"\n{layers}'
    )
    place = ["-o", tmp_path / "m", "--recipe", tmp_path / "r.toml", "--threads", 1, "-q"]
    assert run("train", tmp_path / "t.txt", *place) == (0, "", "")
    _, out, _ = run("tag", tmp_path / "m", tmp_path / "t.txt")
    found = labelwright.load(tmp_path / "m").predict(rows_of.select(["word"]))
    tagged = read_columns(io.BytesIO(out.encode()), names="pos,word,chunk,entity,p,c,e")
    assert [tagged.column(name) for name in "pce"] == [found[name] for name in ("pos", "chunk", "entity")]


class Terminal(io.StringIO):
    """Standard error as a person sees it."""

    def isatty(self) -> bool:
        return True


def test_a_bar_for_each_layer_and_one_for_all(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    place = ["train", folder / "train.txt", "-o", tmp_path / "m", "--recipe", folder / "two.toml", "--iterations", 2]
    assert main([str(a) for a in place]) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())  # type: ignore[attr-defined]
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    last = list(dict.fromkeys(line.split("━")[0].strip() for line in lines[:-1]))
    assert last == ["pos", "chunk", "all layers"]
    assert lines[-1].startswith(str(tmp_path / "m"))


def test_verbose_names_the_parts_of_the_jackknife(run, folder: Path, tmp_path: Path) -> None:
    place = ["-o", tmp_path / "m", "--recipe", folder / "two.toml", "--jackknife", "--iterations", 1, "--verbose"]
    code, _, err = run("train", folder / "train.txt", *place)
    assert code == 0
    titles = [line for line in err.splitlines()[:-1] if not line.startswith("  ")]
    assert titles == ["pos", *(f"pos without part {k}" for k in range(1, 6)), "chunk", "all layers"]


def interrupted_at_once(monitor: Any) -> Any:
    monitor.interrupted = True
    return monitor


def test_ctrl_c_leaves_a_usable_cascade(run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("labelwright.learn.monitor.Monitor.__enter__", interrupted_at_once)
        code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m", "--recipe", folder / "two.toml")
    assert code == 130
    one_line(err, "interrupted", "holds the cascade so far")
    assert run("tag", tmp_path / "m", folder / "words.txt")[0] == 0


BAD_RECIPES = {
    "": ["r.toml: a cascade has layers; add a table [[layers]]"],
    "layers = 3\n": ["r.toml: layers: expected tables, [[layers]], got 3"],
    "layers = [3]\n": ['r.toml: layer 1: expected name = "COLUMN"'],
    '[[layers]]\nmodel = "crf"\n': ['r.toml: layer 1: expected name = "COLUMN"', "got None"],
    '[[layers]]\nname = "pos"\n[[layers]]\nname = "pos"\n': ["r.toml: two layers are named 'pos'"],
    '[[layers]]\nname = "pos"\nmodel = "hmm"\n': ["r.toml: layer pos: model: expected one of crf,", "got 'hmm'"],
    '[[layers]]\nname = "pos"\nmodel = "cascade"\n': ["r.toml: layer pos: model: expected one of crf,"],
    '[[layers]]\nname = "pos"\nn_latent = 2\n': ["r.toml: layer pos: no word 'n_latent' for a crf, expected some of"],
    '[[layers]]\nname = "pos"\nlambda = 2\n': ["r.toml: layer pos: no word 'lambda' for a crf, expected some of"],
    '[[layers]]\nname = "pos"\nl2 = "much"\n': ["r.toml: layer pos: l2: expected a number, got 'much'"],
    '[[layers]]\nname = "pos"\nl2 = -1\n': ["r.toml: layer pos: l2: expected a number of 0 or more, got -1"],
    '[[layers]]\nname = "pos"\nscheme = 3\n': ["r.toml: layer pos: scheme: expected a string, got 3"],
    '[[layers]]\nname = "pos"\nmodel = "perceptron"\nreset_every = 3\n': [
        "r.toml: layer pos: reset_every: only with averaging = 'mavg', got 'avg'"
    ],
    '[[layers]]\nname = "pos"\nmodel = "semi-crf"\n[layers.dictionaries]\na = "no.txt"\n': [
        "r.toml: layer pos: dictionaries: a: cannot read", "no.txt: no such file or directory",
    ],
    '[[layers]]\nname = "ner"\n': ["train.txt: no column 'ner' for the layer of that name, got word,pos,chunk; name"],
    '[[layers]]\nname = "word"\n[[layers]]\nname = "pos"\n[[layers]]\nname = "chunk"\n': [
        "train.txt: all columns (word, pos, chunk) are layers"
    ],
    'l2 = 2\n[[layers]]\nname = "pos"\n': ["r.toml: l2: belongs to a layer; write it in a table of [[layers]]"],
    'label = "pos"\n[[layers]]\nname = "pos"\n': ["r.toml: label: a cascade has a label column for each layer"],
    'shares = 2\n[[layers]]\nname = "pos"\n': ["r.toml: shares: expected a table, got 2"],
    'lexicon = "x"\n[[layers]]\nname = "pos"\n': ["lexicon: expected a layer, one of pos, got 'x'"],
    'tol = -1\n[[layers]]\nname = "pos"\n': ["r.toml: tol: expected a number of 0 or more, got -1"],
    'passing = "all"\n[[layers]]\nname = "pos"\n': ["--passing: expected one of best,", "got 'all'"],
}  # fmt: skip


@pytest.mark.parametrize("recipe", BAD_RECIPES)
def test_bad_recipes(trained, recipe: str) -> None:
    one_line(trained(recipe, "--model", "cascade", "--columns", "word,pos,chunk", code=2), *BAD_RECIPES[recipe])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--label", "chunk"], "--label: a cascade has a label column for each layer"),
        (["--scheme", "bioes"], "--scheme: a cascade has labels in each layer"),
        (["--resume"], "--resume: not supported for a cascade, which writes no checkpoint"),
        (["--start-from", "two"], "--start-from: not supported for a cascade"),
        (["--checkpoint-every", 3], "--checkpoint-every: not supported for a cascade"),
        (["--l2", 2], "--l2: belongs to a layer; write it in a table of [[layers]]"),
        (["--max-length", 2], "--max-length: belongs to a layer"),
        (
            ["--columns", "a,b,c"],
            "no column 'pos' for the layer of that name, got a,b,c; name the columns with --columns",
        ),
        (["--plot", "m.png"], "--plot: draws scores on development data; add --dev FILE"),
        (["--plot", "m.png", "--dev", "dev.txt", "--passing", "best"], "--plot: draws what joint training changes"),
        (["--plot", "m.doc", "--dev", "dev.txt"], "m.doc: expected the name of a file ending in"),
        (["--dev", "words.txt"], "words.txt:1: expected 3 columns (word,pos,chunk), got 1"),
        (["--iterations", 0], "--iterations: expected"),
    ],
)
def test_options_that_a_cascade_refuses(
    trained, folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[object], part: str
) -> None:
    monkeypatch.chdir(folder)
    one_line(trained(RECIPE, *options, code=2), part)


def test_other_mistakes_around_training(run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (tmp_path / "crf.toml").write_text('[[layers]]\nname = "pos"\n')
    bad = {
        ("--model", "cascade"): "--model cascade: its layers stand in a recipe; add --recipe FILE.toml",
        ("--passing", "best"): "--passing: not for --model crf, only for cascade",
        ("--plot", "m.png"): "--plot: draws what joint training changes, only with --model cascade",
        ("--recipe", str(tmp_path / "crf.toml")): "layers: not for --model crf, only for cascade",
        ("--start-from", "two"): "--start-from: two is a cascade, from which no model can start",
        ("--max-length", "2"): "--max-length: not for --model crf, only for semi-crf",
    }
    for options, part in bad.items():
        code, out, err = run("train", "train.txt", "-o", tmp_path / "m", *options)
        assert (code, out) == (2, "")
        one_line(err, part)
    for target in ("train.txt", "two.toml"):
        code, _, err = run("train", "train.txt", "-o", target, "--recipe", "two.toml")
        assert code == 2
        one_line(err, f"{target}: would replace {target}, which this command reads")


# -- the picture ----------------------------------------------------------------------------------------------------


def test_the_plot(run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = ["-o", tmp_path / "m", "--recipe", folder / "two.toml", "--dev", folder / "dev.txt"]
    code, out, err = run("train", folder / "train.txt", *place, "--plot", tmp_path / "moves.png")
    assert (code, out) == (0, "")
    assert (tmp_path / "moves.png").read_bytes().startswith(b"\x89PNG")
    lines = err.splitlines()
    number, right, wrong, neither = map(
        int,
        re.fullmatch(  # type: ignore[union-attr]
            r".*dev.txt: joint training changed (\d+) labels? of pos; near them, labels of chunk became right at "
            r"(\d+), wrong at (\d+), neither at (\d+)",
            lines[1],
        ).groups(),
    )
    assert number == right + wrong + neither > 0
    assert len(lines) <= 3 + 5
    assert lines[-1] == f"{tmp_path / 'moves.png'}: drawn"
    move = re.compile(r"  \S+ -> \S+ +\d+: \d+ right, \d+ wrong, \d+ neither \(\d+ mended in pos, \d+ broken\)")
    assert all(move.fullmatch(line) for line in lines[2:-1])


def test_a_plot_without_changes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from labelwright.cli.plots import draw_moves

    scores = {"pos": 0.5, "chunk": 0.25, "entity": 1.0}
    draw_moves(scores, scores, {("pos", "chunk"): [], ("chunk", "entity"): []}, str(tmp_path / "m.svg"))
    assert "<svg" in (tmp_path / "m.svg").read_text()


def test_a_missing_matplotlib_is_one_line(trained, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelwright.cli.plots.find_spec", lambda name: None)
    err = trained(RECIPE, "--plot", "m.png", "--dev", folder / "dev.txt", code=2)
    one_line(err, "--plot: needs matplotlib; install it with: pip install 'labelwright[plots]'")


# -- tagging --------------------------------------------------------------------------------------------------------


def test_a_column_for_each_layer(run, folder: Path, tmp_path: Path) -> None:
    expected = labelwright.load(folder / "two").predict(read_columns(folder / "words.txt", label=False))
    for name, n_columns in (("words.txt", 1), ("test.txt", 3)):  # without labels, or with all of them
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


def test_a_stream_is_answered_while_it_flows(folder: Path) -> None:
    child = process("tag", folder / "two", "--threads", 1)
    assert child.stdin is not None
    assert child.stdout is not None
    for _ in range(2):
        child.stdin.write(WORDS)
        child.stdin.flush()
        assert [len(child.stdout.readline().split()) for _ in range(5)] == [3, 3, 3, 3, 0]
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, b"", b"")


def test_json_by_layer(run, folder: Path) -> None:
    _, out, _ = run("tag", folder / "two", folder / "test.txt", "--json", "--nbest", 2, "--probabilities")
    answers = [json.loads(line) for line in out.splitlines()]
    corpus = read_columns(folder / "words.txt", names="word", label=False)
    model = labelwright.load(folder / "two")
    assert [answer["tokens"] for answer in answers] == corpus.column("word")
    assert all(
        list(answer) == ["tokens", "layers"] and list(answer["layers"]) == ["pos", "chunk"] for answer in answers
    )
    for layer, labels in model.predict(corpus).items():
        found = [answer["layers"][layer] for answer in answers]
        assert [each["labels"] for each in found] == labels
        assert all(
            list(each) == ["labels", "probability", "exact", "gap", "spans", "probabilities", "nbest"] for each in found
        )
        best = [each["nbest"][0] for each in found]
        assert best == [{"labels": each["labels"], "probability": each["probability"]} for each in found]
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
    code, out, err = run("tag", folder / "two", folder / "words.txt", "--decoder", "exact", "--verbose")
    assert (code, out) == (0, plain)
    assert [line.split(",")[0] for line in err.splitlines()] == ["pos: 10 sentences", "chunk: 10 sentences"]
    assert run("tag", folder / "two", folder / "words.txt", "--decoder", "mbr", "--n", 3)[0] == 0
    assert run("tag", folder / "two", folder / "words.txt", "--constraints", "scheme")[0] == 0


def test_conllu(run, folder: Path, tmp_path: Path) -> None:
    line = "{}\t{}\t_\t{}\t{}" + "\t_" * 5 + "\n"
    text = "# text = He ran\n" + line.format(1, "He", "PRON", "PRP") + line.format(2, "ran", "VERB", "VBD") + "\n"
    (tmp_path / "t.conllu").write_text(text * 5)
    layers = "".join(f'[[layers]]\nname = "{name}"\ntemplate = "words"\n' for name in ("upos", "xpos"))
    (tmp_path / "r.toml").write_text(f'model = "cascade"\nmax_iter = 5\nn_jobs = 1\n{layers}')
    place = ["-o", tmp_path / "m", "--recipe", tmp_path / "r.toml", "-q"]
    assert run("train", tmp_path / "t.conllu", *place) == (0, "", "")
    empty = text
    for value in ("PRON", "VERB", "PRP", "VBD"):
        empty = empty.replace(value, "_")
    (tmp_path / "u.conllu").write_text(empty)
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu") == (0, text, "")
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu", "-o", tmp_path / "v.conllu") == (0, "", "")
    assert read_conllu(tmp_path / "v.conllu", label="xpos").y == [["PRP", "VBD"]]
    _, out, _ = run("eval", tmp_path / "m", tmp_path / "t.conllu", "--json")
    assert [found["token_accuracy"] for found in json.loads(out)["layers"].values()] == [1.0, 1.0]
    for bad, part in (
        (
            ["tag", folder / "two", tmp_path / "u.conllu"],
            "u.conllu: CoNLL-U has no column for the layer pos; add --json",
        ),
        (["tag", tmp_path / "m", tmp_path / "u.conllu", "--probabilities"], "no column for probabilities; add --json"),
    ):
        code, out, err = run(*bad)
        assert (code, out) == (2, "")
        one_line(err, part)


# -- scores, a look inside, and what is refused -----------------------------------------------------------------------


def test_eval_by_layer(run, folder: Path) -> None:
    code, out, err = run("eval", folder / "two", folder / "test.txt")
    assert (code, err) == (0, "")
    pos, chunk = out.split("\nchunk\n")
    assert pos.startswith("pos\nlabel")
    assert pos.rstrip().endswith(f"accuracy|reading:token|labelwright:{labelwright.__version__}")
    assert chunk.startswith("chunk  precision")
    assert "f1|reading:conlleval|scheme:iob2" in chunk
    gold = read_columns(folder / "test.txt", names="word,pos,chunk", label=False)
    predicted = labelwright.load(folder / "two").predict(gold.select(["word"]))
    from labelwright.evaluate import evaluate

    found = json.loads(run("eval", folder / "two", folder / "test.txt", "--json")[1])["layers"]
    for name in ("pos", "chunk"):
        report = json.loads(json.dumps(evaluate(gold.column(name), predicted[name]).as_dict()))
        assert report.items() <= found[name].items()
        assert found[name]["decoding"]["decoder"] == "viterbi"
    code, out, _ = run("eval", folder / "two", folder / "test.txt", "--strict", "--columns", "word,pos,chunk")
    assert code == 0
    assert "reading:strict" in out
    assert "reading:token" in out


def test_a_tagged_file_is_scored_by_its_last_layer(run, folder: Path, tmp_path: Path) -> None:
    run("tag", folder / "two", folder / "test.txt", "-o", tmp_path / "tagged")
    of_file = json.loads(run("eval", folder / "test.txt", tmp_path / "tagged", "--json")[1])
    of_model = json.loads(run("eval", folder / "two", folder / "test.txt", "--json")[1])["layers"]["chunk"]
    assert of_file["f1"] == of_model["f1"]
    assert run("compare", folder / "test.txt", tmp_path / "tagged", tmp_path / "tagged", "--samples", 10)[0] == 0


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
    assert "Uy[0]:" in out
    assert "%y[-1]/%y[0]" in run("inspect", folder / "two", "--layer", "chunk", "--template")[1]
    facts = json.loads(run("inspect", folder / "two", "--layer", "pos", "--json")[1])
    assert (facts["kind"], facts["columns"]) == ("CRF", ["word"])
    assert run("inspect", folder / "two", "--layer", "pos", "--data", folder / "words.txt")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tag", "two", "words.txt", "--known", "pos"], ["--known: not for a cascade"]),
        (["tag", "two", "words.txt", "--nbest", 2], ["--nbest: a cascade has a list for each layer; add --json"]),
        (["tag", "two", "words.txt", "--alpha", 0.5], ["--alpha: layer chunk: not an option of the decoder viterbi"]),
        (["tag", "two", "words.txt", "--decoder", "ldi", "--gain", "f1"], ["--gain: layer pos: not an option of"]),
        (
            ["tag", "two", "one-label.txt"],
            ["one-label.txt: the model reads 1 column (word), or 3 with the labels (word,pos,chunk), got 2; name"],
        ),
        (
            ["tag", "two", "test.txt", "--columns", "a,pos,chunk"],
            ["test.txt: no column 'word', expected one of a, pos"],
        ),
        (["eval", "two", "words.txt"], ["words.txt: expected the 3 columns word,pos,chunk", "got 1; name them"]),
        (
            ["eval", "two", "one-label.txt", "--columns", "word,chunk"],
            ["one-label.txt: no column 'pos' for the layer of that name, got word,chunk"],
        ),
        (["eval", "two", "test.txt", "--label", "chunk"], ["--label: a cascade has a label column for each layer"]),
        (
            ["compare", "test.txt", "test.txt", "two"],
            ["two: a cascade gives labels for each", "labelwright tag two test.txt"],
        ),
        (["inspect", "two", "--layer", "ner"], ["--layer: two has no layer 'ner', expected one of pos, chunk"]),
        (["inspect", "two", "--template"], ["--template: of which layer? add --layer pos or --layer chunk"]),
        (["inspect", "two", "--data", "words.txt"], ["--data: of which layer?"]),
        (["inspect", "two", "--data", "words.txt", "--layer", "chunk"], ["--data: only with --layer pos, the lowest"]),
    ],
)
def test_what_is_refused(
    run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], parts: list[str]
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    one_line(err, *parts)


def test_layers_are_for_cascades(run, data: Path) -> None:
    code, _, err = run("inspect", data / "crf", "--layer", "pos")
    assert code == 2
    one_line(err, "is a CRF, which has no layers")


def test_a_cascade_of_dicts_is_for_python(run, tmp_path: Path) -> None:
    layers = [(name, labelwright.CRF(max_iter=2)) for name in ("a", "b")]
    y = {"a": [["A", "B"]], "b": [["A", "B"]]}
    X = [[{"w": "x"}, {"w": "y"}]]
    labelwright.Cascade(layers, passing="best", n_jobs=1).fit(X, y).save(tmp_path / "m")
    code, _, err = run("tag", tmp_path / "m", stdin=WORDS)
    assert code == 2
    one_line(err, "m: trained on feature dicts, but commands read column files")
    assert "(no columns: trained on dicts or arrays)" in run("inspect", tmp_path / "m")[1]
    for sentences in (X, [np.array([[1.0], [2.0]])]):  # single models of this kind can be looked into, too
        labelwright.CRF(max_iter=2, n_jobs=1).fit(sentences, y["a"]).save(tmp_path / "m")
        assert "(no columns: trained on dicts or arrays)" in run("inspect", tmp_path / "m")[1]


def test_a_cascade_made_in_python(run, folder: Path, tmp_path: Path) -> None:
    corpus = read_columns(folder / "train.txt", names="word,pos,chunk", label=False).take(slice(0, 5))
    layers = [(name, labelwright.CRF(max_iter=2, template="words")) for name in ("pos", "chunk")]
    labelwright.Cascade(layers, passing="best", n_jobs=1).fit(corpus).save(tmp_path / "m")
    for name in ("words.txt", "test.txt"):
        assert run("tag", tmp_path / "m", folder / name)[0] == 0
    assert run("eval", tmp_path / "m", folder / "test.txt")[0] == 0
    assert run("inspect", tmp_path / "m")[0] == 0


# -- segment models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segments(folder: Path) -> Path:
    """A segment model with two dictionaries, of a file and of a list."""
    (folder / "phrases.txt").write_text("New York\n\nthe small question\n")
    (folder / "semi.toml").write_text(
        'model = "semi-crf"\ntemplate = "words"\nmax_iter = 5\nn_jobs = 1\ncolumns = "word,pos,chunk"\n'
        '[dictionaries]\nnames = "phrases.txt"\nmore = ["her brother"]\n'
    )
    arguments = ["train", folder / "train.txt", "-o", folder / "semi", "--recipe", folder / "semi.toml", "-q"]
    assert main([str(a) for a in [*arguments, "--max-length", 8]]) == 0
    return folder / "semi"


def test_a_segment_model(run, folder: Path, segments: Path) -> None:
    model = labelwright.load(segments)
    assert isinstance(model, labelwright.SemiCRF)
    assert model.max_length == 8
    assert set(model.dictionaries) == {"names", "more"}
    assert sorted(map(" ".join, model.dictionaries["names"])) == ["New York", "the small question"]
    _, out, err = run("tag", segments, folder / "test.txt", "--probabilities")
    assert err == ""
    assert all(len(row) == 5 and 0 <= float(row[4]) <= 1 for row in rows(out))
    _, out, _ = run("tag", segments, folder / "test.txt", "--json", "--nbest", 2)
    assert all(json.loads(line)["exact"] for line in out.splitlines())
    assert json.loads(run("eval", segments, folder / "test.txt", "--json")[1])["f1"] > 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["tag", "semi", "test.txt", "--decoder", "ldi"], "--decoder ldi: a SemiCRF finds its best labelling with it"),
        (["tag", "semi", "test.txt", "--max-expansions", 3], "--max-expansions: not an option of viterbi"),
        (["train", "train.txt", "-o", "x", "--start-from", "semi"], "--start-from: semi is a semi-crf, from which no"),
        (["train", "train.txt", "-o", "x", "--model", "semi-crf", "--max-length", 0], "--max-length: expected"),
        (
            ["train", "train.txt", "-o", "phrases.txt", "--recipe", "semi.toml"],
            "phrases.txt: would replace phrases.txt",
        ),
        (["train", "train.txt", "-o", "x", "--model", "semi-crf", "--order", 2], "--order: not for --model semi-crf"),
    ],
)
def test_what_a_segment_model_refuses(
    run, folder: Path, segments: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], part: str
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    one_line(err, part)
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('"no.txt"', "no.txt: no such file or directory"),
        ("3", "dictionaries: a: expected a file, or a list of phrases, got 3"),
        ('["x", 3]', "dictionaries: a: expected a file, or a list of phrases, got ['x', 3]"),
    ],
)
def test_bad_dictionaries(trained, value: str, part: str) -> None:
    one_line(trained(f'model = "semi-crf"\n[dictionaries]\na = {value}\n', code=2), part)


@pytest.mark.parametrize("passing", ["marginal", "joint"])
def test_a_segment_layer_on_top(run, trained, folder: Path, tmp_path: Path, passing: str) -> None:
    layers = f'[[layers]]\nname = "pos"\n{LAYER}[[layers]]\nname = "chunk"\nmodel = "semi-crf"\n{LAYER}'
    options = ["--columns", "word,pos,chunk", "--threads", 1, "--iterations", 2, "--passing", passing]
    model = trained(f'model = "cascade"\n{layers}', *options)
    assert isinstance(model.layers_["chunk"], labelwright.SemiCRF)
    _, out, err = run("tag", tmp_path / "m", folder / "words.txt", "--probabilities")
    assert err == ""
    assert all(len(row) == 5 for row in rows(out))


# -- the documents ----------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize("name", ["cascade.md", "segments.md"])
def test_the_python_of_the_documents_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {})


def test_the_recipe_of_the_documents_trains(run, trained, folder: Path, tmp_path: Path) -> None:
    text = (DOCS / "cascade.md").read_text(encoding="utf-8")
    found = re.search(r"^    # cascade.toml\n((?:    .*\n|\n)*)", text, re.M)
    assert found is not None
    recipe = re.sub(r"^    ", "", found.group(1), flags=re.M)
    model = trained(recipe, "--iterations", 2, "--threads", 1)
    assert (model.passing, model.lexicon, model.shares) == ("joint", "pos", {"pos": 0.5})
    assert model.layers_["pos"].extractor_.header()["template"]["name"] == "multilayer"
    code, out, _ = run("tag", tmp_path / "m", folder / "words.txt")
    assert code == 0
    assert [len(row) for row in rows(out)] == [3] * len(rows(out))
    facts = json.loads(run("inspect", tmp_path / "m", "--layer", "chunk", "--json")[1])
    assert "By[-1..0]:%y[-1]/%y[0]" in facts["template"]["text"]
