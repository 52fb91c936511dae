"""Install size and cold start: labelwright and python-crfsuite, each in an environment of its
own.

    python benchmarks/footprint.py [--python /usr/bin/python3] [--keep DIR]

`cold start` is a fresh process from its start to the first answer, import and loading of the model
included; the model is a CRF with the template `chunking` trained on the built-in corpus (CRFsuite:
the same features as dicts). Installing needs a package index.  Times on shared machines wander:
believe ratios.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FLAVOURS = {
    "labelwright": "{root}",
    "python-crfsuite": "python-crfsuite",
}
REPEATS = 5

TRAIN = """
import sys
from labelwright import CRF, LatentCRF
from labelwright.corpus import builtin_corpus
corpus = builtin_corpus(n_sentences=2000, random_state=1)
X = [list(zip(*columns)) for columns in zip(corpus.column("word"), corpus.column("pos"))]
CRF(template="chunking", max_iter=20).fit(X, corpus.y).save(sys.argv[1])
LatentCRF(n_latent=2, template="chunking", max_iter=5).fit(X, corpus.y).save(sys.argv[2])
"""
TAG = """
import sys
from labelwright import load
sentence = [
    ("He", "PRP"), ("reckons", "VBZ"), ("the", "DT"), ("current", "JJ"), ("account", "NN")
] * 5
print(load(sys.argv[1]).predict([sentence])[0][:3])
"""
TRAIN_RIVAL = """
import sys, pycrfsuite
trainer = pycrfsuite.Trainer(verbose=False)
words = [["w=%d" % (i * j % 977), "t=%d" % (i % 7)] for i in range(2000) for j in (1, 3, 7)]
trainer.append(words, [str(i % 5) for i in range(len(words))])
trainer.set_params({"max_iterations": 5})
trainer.train(sys.argv[1])
"""
TAG_RIVAL = """
import sys, pycrfsuite
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
print(tagger.tag([["w=1", "t=1"]] * 25)[:3])
"""


class Environment(NamedTuple):
    """A virtual environment with one flavour in it."""

    name: str
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def megabytes(self) -> float:
        """The files of all packages but pip's, with their bytecode; scripts are too small to
        count."""
        site = next(self.folder.glob("lib/python*/site-packages"))
        left_out = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")
        folders = [
            path for path in site.iterdir() if not path.name.split("-")[0].startswith(left_out)
        ]
        files = [file for top in folders for file in ([top] if top.is_file() else top.rglob("*"))]
        return sum(f.stat().st_size for f in files if f.is_file()) / 1e6

    def run(self, program: str, *arguments: object, **variables: str) -> None:
        command = [str(self.python), "-c", program, *map(str, arguments)]
        subprocess.run(command, env=_environment(variables), stdout=subprocess.DEVNULL, check=True)

    def seconds(self, program: str, *arguments: object, **variables: str) -> float:
        """The median time of a fresh process; the first one fills the caches of files."""
        times = []
        for _ in range(REPEATS + 1):
            begun = time.perf_counter()
            self.run(program, *arguments, **variables)
            times.append(time.perf_counter() - begun)
        return median(times[1:])


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LABELWRIGHT", "PYTHON"))
    }
    return {**kept, **variables}


def install(python: str, name: str, folder: Path) -> Environment:
    """A fresh environment with this flavour."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    made = Environment(name, folder)
    wanted = FLAVOURS[name].format(root=ROOT)
    pip = [
        str(made.python),
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-compile",
        wanted,
    ]
    subprocess.run(pip, check=True)
    subprocess.run([str(made.python), "-m", "compileall", "-q", str(folder / "lib")], check=False)
    return made


def cold_starts(made: dict[str, Environment], folder: Path) -> list[tuple[str, str]]:
    """Rows of the table: what was measured, and the seconds."""
    crf, latent, rival = folder / "crf.model", folder / "latent.model", folder / "rival.model"
    ours, crfsuite = made["labelwright"], made["python-crfsuite"]
    ours.run(TRAIN, crf, latent)
    crfsuite.run(TRAIN_RIVAL, rival)
    rows = [
        ("python-crfsuite", crfsuite.seconds(TAG_RIVAL, rival)),
        ("python alone", ours.seconds("pass")),
        ("labelwright, CRF", ours.seconds(TAG, crf)),
        ("labelwright, latent CRF", ours.seconds(TAG, latent)),
    ]
    return [(what, f"{seconds:.2f} s") for what, seconds in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=getattr(sys, "_base_executable", sys.executable))
    parser.add_argument(
        "--keep",
        type=Path,
        help="keep the environments in this folder, and use those that are there",
    )
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="labelwright-footprint-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    try:
        made = {name: Environment(name, folder / f"env{i}") for i, name in enumerate(FLAVOURS)}
        for name, environment in made.items():
            if not environment.folder.exists():
                install(options.python, name, environment.folder)
        table = Table("install", "MB", title="Install size, with all dependencies")
        for name, environment in made.items():
            table.add_row(escape(name), f"{environment.megabytes:.0f}")
        Console().print(table)
        table = Table("cold start", "from process start to first answer", title="Cold start")
        for row in cold_starts(made, folder):
            table.add_row(*map(escape, row))
        Console().print(table)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
