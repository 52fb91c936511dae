"""labelwright in place of CRFsuite: the originals' own tests, programs that use them, and speed.

    python benchmarks/compat.py suites
        python-crfsuite's and sklearn-crfsuite's own tests on both
    python benchmarks/compat.py programs --python PYTHON --sources DIR
        usaddress, ingredient-parser-nlp, underthesea on both
    python benchmarks/compat.py speed --corpora DIR [--corpus conll2003]
        training and tagging with feature dicts, beside CRFsuite
    python benchmarks/compat.py memory [--tokens N]
        generators of feature dicts, beside CRFsuite

`suites` downloads the source distributions from the package index into a temporary folder, and
installs python-crfsuite and sklearn-crfsuite there beside labelwright.  `programs` needs a Python
with these programs and what labelwright needs, and the unpacked source distribution of usaddress.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

SUITES = {"python-crfsuite": "0.9.12", "sklearn-crfsuite": "0.5.0"}
PLUGIN = "from labelwright.compat import replace\n\nreplace()\n"
SOURCE = Path(__file__).resolve().parent.parent / "src"


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, **options
    )  # type: ignore[call-overload,no-any-return]


def environment(folder: Path, packages: list[str]) -> Path:
    """A Python with these packages, which also sees those of this one."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", system_site_packages=False, with_pip=True)
    requirements = [
        *packages,
        "numpy",
        "safetensors",
        "threadpoolctl",
        "rich",
        "pytest",
        "scikit-learn",
    ]
    made = run(python, "-m", "pip", "install", "-q", *requirements)
    if made.returncode:
        sys.exit(
            f"compat.py: cannot install {' '.join(packages)}: "
            f"{made.stderr.strip().splitlines()[-1]}"
        )
    return python


def unpacked(package: str, folder: Path) -> Path:
    """The source distribution of a package."""
    name = f"{package}=={SUITES[package]}"
    got = run(
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
        name,
        cwd=folder,
    )
    archives = list(folder.glob(f"{package.replace('-', '_')}*.tar.gz"))
    if not archives:
        sys.exit(f"compat.py: cannot download {name}: {got.stderr.strip().splitlines()[-1]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return next(
        path
        for path in folder.iterdir()
        if path.is_dir() and path.name.startswith(package.replace("-", "_"))
    )


def suites(options: argparse.Namespace) -> None:
    """Run both test suites on the originals and on labelwright."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in_place_of_crfsuite.py").write_text(PLUGIN)
        python = environment(
            folder, [f"{package}=={version}" for package, version in SUITES.items()]
        )
        for package in SUITES:
            tests = unpacked(package, folder) / "tests"
            for side in ("original", "labelwright"):
                plugin = ["-p", "in_place_of_crfsuite"] if side == "labelwright" else []
                path = os.pathsep.join([str(folder), str(SOURCE)])
                variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
                done = run(
                    python,
                    "-m",
                    "pytest",
                    "-q",
                    "-p",
                    "no:cacheprovider",
                    *plugin,
                    tests,
                    env=variables,
                    cwd=folder,
                )
                print(
                    f"{package} {SUITES[package]} on {side:12} "
                    f"{done.stdout.strip().splitlines()[-1].strip('= ')}"
                )
                for line in re.findall(r"^(?:FAILED|ERROR) .*$", done.stdout, re.MULTILINE):
                    print(f"    {line}")


def programs(options: argparse.Namespace) -> None:
    """Run the programs of compat_programs.py on both, and compare their answers."""
    script = Path(__file__).with_name("compat_programs.py")
    for name in ("usaddress", "ingredient-parser-nlp", "underthesea"):
        sides = {}
        for side, module in (("CRFsuite", []), ("labelwright", ["-m", "labelwright.compat"])):
            command = options.python, *module, script, name, "--sources", options.sources.resolve()
            done = run(*command, env={**os.environ, "PYTHONPATH": str(SOURCE)})
            if done.returncode:
                sys.exit(f"compat.py: {name} on {side}: {done.stderr.strip().splitlines()[-1]}")
            sides[side] = json.loads(done.stdout)
        theirs, ours = sides["CRFsuite"], sides["labelwright"]
        same = sum(a == b for a, b in zip(theirs["answers"], ours["answers"], strict=True))
        largest = max(
            (abs(a - b) for a, b in zip(theirs["numbers"], ours["numbers"], strict=True)),
            default=0.0,
        )
        print(
            f"{name}: {same} of {len(ours['answers'])} answers the same, probabilities to "
            f"{largest:.1e}; ",
            end="",
        )
        print(f"CRFsuite {theirs['seconds']:.2f} s, labelwright {ours['seconds']:.2f} s")
        for side, answers in sides.items():
            if "training" in answers:
                print(f"    its own training code on {side}: {answers['training']}")


def features(words: list[tuple[str, str]], t: int) -> dict[str, Any]:
    """The features of a word in a sentence of words and tags, as tutorials of sklearn-crfsuite make
    them."""
    word, tag = words[t]
    made = {
        "bias": 1.0,
        "w": word,
        "lower": word.lower(),
        "w[-3:]": word[-3:],
        "w[-2:]": word[-2:],
        "tag": tag,
    }
    made |= {
        "upper": word.isupper(),
        "title": word.istitle(),
        "digit": word.isdigit(),
        "tag[:2]": tag[:2],
    }
    for shift, name in ((-1, "-1"), (1, "+1")):
        if 0 <= t + shift < len(words):
            other, other_tag = words[t + shift]
            made |= {
                f"{name}:w": other.lower(),
                f"{name}:tag": other_tag,
                f"{name}:title": other.istitle(),
            }
        else:
            made[f"{name}:none"] = True
    return made


def speed(options: argparse.Namespace) -> None:
    """Training on one thread and on two, tagging one sentence and 10,000: feature dicts in, both in
    one process."""
    import pycrfsuite

    from labelwright import read_columns
    from labelwright.compat import pycrfsuite as ours

    train, test = (
        read_columns(options.corpora / options.corpus / f"{part}.txt") for part in ("train", "test")
    )
    sentences = ([[token[:2] for token in s] for s in part.X] for part in (train, test))
    X, held_out = ([[features(s, t) for t in range(len(s))] for s in part] for part in sentences)
    held_out = (held_out * 5)[:10_000]
    names = {
        "CRFsuite": (pycrfsuite, None),
        "labelwright, 1 thread": (ours, 1),
        "labelwright, 2 threads": (ours, 2),
    }
    for name, (module, threads) in names.items():
        trainer = module.Trainer(
            "lbfgs", {"max_iterations": options.iterations, "c2": 0.1}, verbose=False
        )
        if threads:
            trainer.n_jobs = threads
        begun = time.perf_counter()
        for xseq, yseq in zip(X, train.y, strict=True):
            trainer.append(xseq, yseq)
        read = time.perf_counter()
        trainer.train(f"{options.folder}/model")
        trained = time.perf_counter()
        tagger = module.Tagger()
        tagger.open(f"{options.folder}/model")
        some = [s for s in held_out if len(s) == 25]
        tagger.tag(some[0])
        opened = time.perf_counter()
        for sentence in some:
            tagger.tag(sentence)
        single = (time.perf_counter() - opened) / len(some)
        opened = time.perf_counter()
        for sentence in held_out:
            tagger.tag(sentence)
        print(
            f"{name:24} append {read - begun:6.2f} s  train {trained - read:6.2f} s  one sentence "
            f"of 25 tokens {1000 * single:.3f} ms  10,000 sentences "
            f"{time.perf_counter() - opened:.2f} s"
        )


def memory(options: argparse.Namespace) -> None:
    """Peak memory of a process that appends generated sentences one by one, and trains for two
    iterations."""
    for module in ("pycrfsuite", "labelwright.compat.pycrfsuite"):
        script = (
            f"import random, resource, {module} as crf\n"
            "rng = random.Random(0)\n"
            "trainer = crf.Trainer('lbfgs', {'max_iterations': 2}, verbose=False)\n"
            "words = [f'w{i}' for i in range(50_000)]\n"
            "def sentence():\n"
            "    tokens = rng.choices(words, k=25)\n"
            "    for t, w in enumerate(tokens):\n"
            "        near = {'-1': tokens[t - 1], '+1': tokens[(t + 1) % 25]}\n"
            "        yield {'w': w, 's': w[-2:], 'p': w[:2], 'n': 1.0, **near}\n"
            f"for _ in range({options.tokens} // 25):\n"
            "    trainer.append(list(sentence()), [rng.choice('ABCDE') for _ in range(25)])\n"
            "print('data', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 'MB', end=' "
            "')\n"
            f"trainer.train('{options.folder}/model')\n"
            "print('training', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 'MB')\n"
        )
        done = run(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(SOURCE)})
        print(
            f"{module:32} {options.tokens:,} tokens: peak after "
            f"{done.stdout.strip() or done.stderr.strip()[-300:]}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"suites": suites, "programs": programs, "speed": speed, "memory": memory}
    parser.add_argument("what", choices=parts)
    parser.add_argument(
        "--corpora", type=Path, default=Path(os.environ.get("LABELWRIGHT_CORPORA", "."))
    )
    parser.add_argument(
        "--corpus", default="conll2000", help="of `speed`: its first two columns are word and tag"
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--sources", type=Path, default=Path())
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=3_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as options.folder:
        parts[options.what](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
