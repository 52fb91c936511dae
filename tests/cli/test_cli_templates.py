"""labelwright templates, and the options that give dictionaries and clusters."""

import json

import pytest

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.features.builtin import BUILTIN, PAPERS, template


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    write_columns(builtin_corpus(30, columns=["word", "pos", "chunk"]), path)
    return path


def test_templates_are_listed_and_printed(capsys):
    assert main(["templates"]) == 0
    lines = capsys.readouterr().out.splitlines()
    gap = lines.index("")  # before those of papers
    ordinary, papers = (
        [line.split()[0] for line in part] for part in (lines[:gap], lines[gap + 2 :])
    )
    assert [*ordinary, *papers] == list(BUILTIN)
    assert {"default", "ner", "window"} < set(ordinary)
    assert {"np", "bioner-2009", "words-arcs", "multilayer"} < set(papers) == set(PAPERS)
    assert all(len(line.split()) > 3 for line in lines if line)
    assert main(["templates", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["papers"] == papers
    assert main(["templates", "chunking"]) == 0
    assert capsys.readouterr().out.startswith("B\nU01:%x[-2,0]\n")
    assert main(["templates", "default", "--columns", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [line["text"] for line in said["lines"]] == [
        p.text for p in template("default", 3).patterns
    ]


def test_own_templates_are_checked(tmp_path, capsys):
    path = tmp_path / "my.tpl"
    path.write_text('U1:%t[0,0,"[A-Z]"]\n')
    assert main(["templates", str(path)]) == 0
    out, said = capsys.readouterr()
    assert out == 'U1:%t[0,0,"[A-Z]"]\n'
    assert said.startswith(f"labelwright: {path}:1: U1:")
    assert said.count("\n") == 1
    assert main(["templates", "nothing"]) == 2
    assert main(["templates", "ner", "--columns", "0"]) == 2


def test_dictionaries_and_clusters_of_files(train, tmp_path, capsys):
    words, clusters, model = tmp_path / "words.txt", tmp_path / "paths", tmp_path / "model"
    words.write_text("the dog\n\nParis\n")
    clusters.write_text("0010\tdog\t12\n011\tthe\t3\n")
    given = [
        "--dictionary",
        f"d={words}",
        "--dictionary",
        f"e={words}",
        "--clusters",
        f"brown={clusters}",
    ]
    assert main(["train", str(train), "-o", str(model), "--iterations", "2", "-q", *given]) == 0
    loaded = labelwright.load(model)
    assert loaded.dictionaries == {name: [("the", "dog"), ("paris",)] for name in "de"}
    assert loaded.clusters == {"brown": {"dog": "0010", "the": "011"}}
