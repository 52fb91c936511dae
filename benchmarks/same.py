"""Do two checkouts of labelwright behave the same?

Answers of every tagger and decoder, outputs of every command, model files of 0.1.0 and of the other
checkout are recorded in each of them, then compared.

    python benchmarks/same.py ../other-checkout
        # what differs: the other checkout first, then this one
    python benchmarks/same.py ../other-checkout --only crf
        # only what has one of these words in its name
    python benchmarks/same.py ../other-checkout --speed
        # seconds of both, in turns, and their ratio
    python benchmarks/same.py ../other-checkout --records D
        # keeps what the other does in D, for further runs

Texts and labels must be equal, numbers to 1e-9 (relative to those above 1); times and paths in
outputs are masked.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-9
Record = dict[str, Any]

# -- answers: the models of tests/support/zoo.py, each asked all that it may be asked --------------

DECODERS: dict[str, list[dict[str, Any]]] = {
    "viterbi": [{}],
    "marginal": [{}],
    "ldi": [{"n": 30}, {"n": 200}, {"n": 5, "alpha": 0.5}],
    "exact": [{}, {"max_expansions": 2}],
    "mbr": [{"gain": "f1"}, {"gain": "accuracy"}],
    "csi": [{}],
    "vote": [{}],
    "none": [{}],
}


def questions(model: Any, X: Any, y: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What a model may be asked, by name; what it cannot answer it refuses, and the refusal is its
    answer."""
    from labelwright import Span
    from labelwright.constraints import at_most

    y = X.y if y is None else y  # of a Corpus
    several = isinstance(y, dict)  # a cascade: one answer for each layer

    def each(value: Any) -> Any:
        return dict.fromkeys(y, value) if several else value

    def first() -> Any:
        return next(iter(y.values())) if several else y

    def types() -> list[str]:
        return sorted({str(label)[2:] for labels in first() for label in labels} - {""})[:1]

    def forced() -> Any:
        known = [
            [labels[0], *[None] * (len(labels) - 1)] if len(labels) else [] for labels in first()
        ]
        return {next(iter(y)): known} if several else known

    def spans() -> Any:
        return each([[Span(0, 1, kind) for kind in types()] if len(x) else [] for x in X])

    yield "predict", lambda: model.predict(X)
    for name in getattr(model, "decoders", ()):
        for options in DECODERS.get(name, [{}]):
            shown = "".join(f", {key}={value}" for key, value in options.items())
            yield (
                f"decode, {name}{shown}",
                lambda name=name, options=options: model.decode(X, decoder=name, **options),
            )
    yield "decode, forced", lambda: model.decode(X, forced=forced())
    yield "decode, scheme", lambda: model.decode(X, constraints="scheme")
    yield "decode, rule", lambda: model.decode(X, constraints=each([at_most(1, types())]))
    yield "nbest", lambda: model.predict_nbest(X, n=4)
    yield "nbest, forced", lambda: model.predict_nbest(X, n=3, forced=forced())
    yield "marginals", lambda: model.predict_marginals(X)
    yield "marginals, forced", lambda: model.predict_marginals(X, forced=forced())
    yield "marginals, scheme", lambda: model.predict_marginals(X, constraints="scheme")
    yield "marginals, latent", lambda: model.predict_marginals(X, latent=True)
    yield "confidences", lambda: model.predict_confidences(X)
    yield "spans", lambda: model.predict_spans(X)
    yield "likely spans", lambda: model.likely_spans(X, 0.2)
    yield "span probabilities", lambda: model.span_probabilities(X, spans())
    yield "confident", lambda: model.predict_confident(X, 0.9)
    yield "log-probabilities", lambda: model.sequence_log_probabilities(X, y)
    yield "sample", lambda: model.sample(X, 3, random_state=1)
    yield "score", lambda: model.score(X, y)
    yield "neighbours", lambda: model.neighbours(X)
    yield "probabilities of classes", lambda: model.predict_proba(X)
    yield "describe", lambda: model.describe()
    yield "explain", lambda: [model.explain(x) for x in X[:2]]
    yield "repr", lambda: repr(model)
    yield "weights", lambda: getattr(model, "weights_", None)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {
            str(key): plain(part)
            for key, part in value.items()
            if key not in ("seconds", "labelwright")
        }
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def answer(question: Callable[[], Any]) -> Any:
    """The answer to a question, or why there is none."""
    try:
        return plain(question())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def answers_of_taggers(wanted: Callable[[str], bool], folder: Path) -> Record:
    """Every model of the zoo: trained, asked, stored, loaded, asked again."""
    import zoo

    record: Record = {}
    for name in filter(wanted, zoo.NAMES):
        data = zoo.data_of(name)
        X, y = data(1, 6)
        (folder / f"{name}.model").write_bytes(zoo.content(name))
        model = zoo.loaded(folder / f"{name}.model")
        for question, asked in questions(model, X, y):
            record[f"{name}: {question}"] = answer(asked)
    return record


def answers_of_files(wanted: Callable[[str], bool], files: Path) -> Record:
    """Model files that another checkout, or version 0.1.0, has written."""
    import zoo

    record: Record = {}
    for path in sorted(files.glob("*.model")):
        name = path.name.removesuffix(".model")
        if name in zoo.NAMES and wanted(name):
            X = zoo.data_of(name)(1, 6)[0]
            record[f"file of {files.name}, {name}"] = answer(
                lambda path=path, X=X: zoo.loaded(path).predict(X)
            )
    return record


# -- commands: each in a process of its own, in one folder, one after the other --------------------

COMMANDS = """
train train.txt -o crf --columns word,pos,chunk --iterations 20
train train.txt -o latent --columns word,pos,chunk --model latent-crf --latent 2 --iterations 10 \
--template words
train train.txt -o perceptron --columns word,pos,chunk --model perceptron --iterations 4 --seed 0 \
--dev dev.txt
train train.txt -o semi --columns word,pos,chunk --model semi-crf --iterations 10 --template words
train train.txt -o memory --columns word,pos,chunk --model memory
train train.txt -o cascade --columns word,pos,chunk --model cascade --iterations 5
train train.txt -o dev --columns word,pos,chunk --iterations 20 --dev dev.txt --json
train train.txt -o search --columns word,pos,chunk --search --trials 3 --seed 0 --iterations 10
tag crf new.txt
tag crf new.txt --json --nbest 3
tag crf new.txt --probabilities
tag latent new.txt --decoder ldi --n 5 --json
tag latent new.txt --decoder exact --max-expansions 3 --json
tag perceptron new.txt --json
tag semi new.txt --json --nbest 2
tag memory new.txt --json
tag cascade new.txt --json
tag crf letter.txt --text
tag crf new.txt --rule at_most(1,'NP')
eval crf test.txt
eval crf test.txt --json
eval crf test.txt --calibration
eval latent test.txt
eval cascade test.txt
errors crf test.txt
errors crf test.txt --json
inspect crf
inspect crf --json
inspect latent
inspect perceptron
inspect semi
inspect memory
inspect cascade
explain crf test.txt --sentence 1
explain crf test.txt --sentence 1 --json
explain memory test.txt --sentence 1
rank crf new.txt --top 3
rank crf new.txt --top 3 --json
doubts train.txt --columns word,pos,chunk --top 3 --folds 3 --iterations 10
compare test.txt a.txt b.txt
compare test.txt a.txt b.txt --json
calibrate crf dev.txt -o calibrated
tag calibrated new.txt --json
templates
templates ner
dictionary train.txt --columns word,pos,chunk -o phrases.txt
convert train.txt train.jsonl --columns word,pos,chunk
convert test.txt bioes.txt --columns word,pos,chunk --scheme bioes
export crf small --bits 8
tag small new.txt
vectors raw.txt -o vectors.txt --dimensions 4 --seed 0
train nothing.txt -o x
train train.txt
train train.txt -o x --colums word
train train.txt -o x --model crff
train train.txt -o x --l2 -1
train train.txt -o x --k 3
train train.txt -o x --template nre
train ragged.txt -o x
tag nothing new.txt
tag train.txt new.txt
tag crf new.txt --decoder exat
tag crf new.txt --nbest 0
tag crf letter.txt
tag memory new.txt --decoder ldi
eval test.txt new.txt
eval crf
inspect train.txt
explain crf test.txt --sentence 100000
convert train.txt x.unknown
compare test.txt a.txt
nonsense
--version
"""
MASKS = (
    (re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(ms|s|seconds?|min|minutes?|MB|kB|GB)\b"), "<amount>"),
    (re.compile(r'"(seconds|bytes|labelwright)": [^,}\n]+'), r'"\1": <value>'),
    (re.compile(r"\b0\.\d+\.\d+(\.dev\d+)?\b"), "<version>"),
)
PROGRESS = re.compile(r"^.*\r", re.M)


def write_data(folder: Path) -> None:
    """The files that commands read."""
    from labelwright.corpus import builtin_corpus, write_columns

    columns = ["word", "pos", "chunk"]
    for seed, (name, n) in enumerate({"train": 150, "dev": 40, "test": 40}.items()):
        write_columns(builtin_corpus(n, random_state=seed, columns=columns), folder / f"{name}.txt")
    test = (folder / "test.txt").read_text().splitlines()
    (folder / "new.txt").write_text(
        "\n".join(line.rpartition(" ")[0] for line in test[:200]) + "\n\n"
    )
    for k, name in enumerate("ab"):  # predictions with mistakes of their own
        wrong = [
            f"{line.rpartition(' ')[0]} O" if line and i % (9 + 7 * k) == 0 else line
            for i, line in enumerate(test)
        ]
        (folder / f"{name}.txt").write_text("\n".join(wrong) + "\n")
    (folder / "letter.txt").write_text(
        "He saw her brother. They don't know the old man in Paris, do they?\n"
    )
    (folder / "raw.txt").write_text(
        "".join(f"{line.split(' ')[0]} " if line else "\n" for line in test)
    )
    (folder / "ragged.txt").write_text("a b c\na b\n\n")


def outputs_of_commands(wanted: Callable[[str], bool], folder: Path) -> Record:
    """What each command prints, and its exit code."""
    write_data(folder)
    record: Record = {}
    for line in filter(None, COMMANDS.splitlines()):
        trains = line.split()[0] in ("train", "calibrate", "export") and "-o x" not in line
        if not trains and not wanted(line):
            continue
        command = [sys.executable, "-m", "labelwright", *line.split()]
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL
        )
        told = {
            "exit": ended.returncode,
            "stdout": ended.stdout,
            "stderr": PROGRESS.sub("", ended.stderr),
        }
        for mask, shown in MASKS:
            told = {
                key: mask.sub(shown, text) if isinstance(text, str) else text
                for key, text in told.items()
            }
        if wanted(line):
            record[f"labelwright {line}"] = told
    return record


# -- speed -----------------------------------------------------------------------------------------


def seconds_of_work(wanted: Callable[[str], bool], corpora: str) -> Record:
    """Seconds of training and tagging on CoNLL-2000, the least of several runs; with kernels that
    are compiled."""
    from labelwright import (
        CRF,
        Cascade,
        LatentCRF,
        LatentPerceptron,
        MemoryTagger,
        Perceptron,
        SemiCRF,
        read_columns,
    )

    names = "word,pos,chunk"
    train, test = (
        read_columns(Path(corpora, "conll2000", f"{part}.txt"), names=names)
        for part in ("train", "test")
    )
    some, few = train.take(slice(0, 2000)), train.take(slice(0, 500))
    words, tags = few.column("word"), {"pos": few.column("pos"), "chunk": few.y}
    layers = [("pos", CRF(max_iter=5)), ("chunk", CRF(max_iter=5))]
    tagger = CRF(template="chunking", max_iter=10).fit(some)
    memory = MemoryTagger().fit(some)
    sentence = [test.X[0]]
    one = CRF(template="chunking", max_iter=10, n_jobs=1).fit(some)

    def requests() -> None:
        for _ in range(300):
            one.predict(sentence)

    work: dict[str, Callable[[], Any]] = {
        "crf, 20 iterations": lambda: CRF(template="chunking", max_iter=20).fit(some),
        "crf, order 2, 5 iterations": lambda: CRF(template="words", order=2, max_iter=5).fit(few),
        "latent crf, 10 iterations": lambda: LatentCRF(
            4, template="words", max_iter=10, random_state=0
        ).fit(few),
        "perceptron, 5 passes": lambda: Perceptron(
            template="chunking", max_iter=5, random_state=0
        ).fit(some),
        "latent perceptron, 3 passes": lambda: LatentPerceptron(
            2, "words", max_iter=3, random_state=0
        ).fit(few),
        "semi-crf, 5 iterations": lambda: SemiCRF(template="words", max_iter=5).fit(few),
        "joint cascade": lambda: Cascade(layers, passing="joint", max_iter=5).fit(words, tags),
        "pruned labels": lambda: CRF(template="words", prune_labels=0.99, max_iter=10).fit(some),
        "nearest neighbours": lambda: memory.predict(test.take(slice(0, 300))),
        "tagging 47,000 tokens": lambda: tagger.predict(test),
        "300 requests of one sentence": requests,
    }
    record: Record = {}
    for name, job in work.items():
        if wanted(name):
            job()  # kernels are compiled and loaded
            times = []
            for _ in range(3):
                begun = time.perf_counter()
                job()
                times.append(time.perf_counter() - begun)
            record[name] = min(times)
    return record


# -- two checkouts ---------------------------------------------------------------------------------


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Where two records differ."""
    numbers = [
        isinstance(value, int | float) and not isinstance(value, bool) for value in (before, after)
    ]
    if all(numbers):
        same = before == after or math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if not same and not (math.isnan(before) and math.isnan(after)):
            yield f"{place}: {before!r} is now {after!r}"
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from differences(
                before.get(key, "nothing"), after.get(key, "nothing"), f"{place}.{key}"
            )
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{place}[{i}]")
    elif isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        old, new = before.splitlines(), after.splitlines()
        yield from (f"{place}\n    - {line}" for line in old if line not in new)
        yield from (f"{place}\n    + {line}" for line in new if line not in old)
    elif before != after:
        yield f"{place}: {before!r:.300}\n    is now {after!r:.300}"


def recorded(
    checkout: Path, part: str, options: argparse.Namespace, folder: Path, files: Path | None = None
) -> Record:
    """What a checkout does, in a process of its own."""
    out = folder / "record.json"
    paths = os.pathsep.join([str(checkout / "src"), str(checkout / "tests" / "support")])
    command = [
        sys.executable,
        __file__,
        str(checkout),
        "--record",
        part,
        str(folder),
        str(files or ""),
    ]
    command += [
        "--corpora",
        options.corpora or "",
        *(["--only", *options.only] if options.only else []),
    ]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": paths, "COLUMNS": "100"})
    record: Record = json.loads(out.read_text())
    return record


def wanted_by(options: argparse.Namespace) -> Callable[[str], bool]:
    """Is a record with this name asked for?"""
    return lambda name: not options.only or any(word in name for word in options.only)


def record_part(part: str, folder: Path, files: str, options: argparse.Namespace) -> None:
    """Record one part of what this process's labelwright does."""
    wanted = wanted_by(options)
    if part == "taggers":
        record = answers_of_taggers(wanted, folder)
    elif part == "files":
        record = answers_of_files(wanted, Path(files)) | answers_of_files(
            wanted, HERE / "tests" / "data" / "v0.1.0"
        )
    elif part == "commands":
        record = outputs_of_commands(wanted, folder)
    else:
        record = seconds_of_work(wanted, options.corpora)
    (folder / "record.json").write_text(json.dumps(record))


def compare(options: argparse.Namespace) -> int:
    """Print what differs between the other checkout and this one; how many records do."""
    other, differing, n = Path(options.other).resolve(), 0, 0
    with tempfile.TemporaryDirectory() as made:
        folders = [Path(options.records or Path(made, "before")), Path(made, "after")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for part in ("taggers", "files", "commands"):
            kept = folders[0] / f"{part}.json"
            if not kept.exists():
                kept.write_text(json.dumps(recorded(other, part, options, folders[0], folders[0])))
            before = json.loads(kept.read_text())
            after = recorded(HERE, part, options, folders[1], folders[0])
            for name in filter(wanted_by(options), dict.fromkeys([*before, *after])):
                n += 1
                found = list(differences(before.get(name, "nothing"), after.get(name, "nothing")))
                differing += bool(found)
                for line in found[: options.most]:
                    print(f"{name}{line}")
    print(f"{n} records, {differing} differ")
    return min(differing, 1)


def compare_speed(options: argparse.Namespace) -> int:
    """Print the seconds of both checkouts, measured in turns."""
    best: list[Record] = [{}, {}]
    with tempfile.TemporaryDirectory() as made:
        for _ in range(options.turns):
            for k, checkout in enumerate((Path(options.other).resolve(), HERE)):
                for name, seconds in recorded(checkout, "speed", options, Path(made)).items():
                    best[k][name] = min(seconds, best[k].get(name, math.inf))
    print(f"{'':<32}{'other':>9}{'this':>9}  ratio")
    for name, seconds in best[0].items():
        print(f"{name:<32}{seconds:9.3f}{best[1][name]:9.3f}  {best[1][name] / seconds:.2f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the other checkout")
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", help="only records whose name has one of these words"
    )
    parser.add_argument(
        "--most", type=int, default=4, help="lines to print for each record that differs (4)"
    )
    parser.add_argument("--speed", action="store_true", help="compare seconds instead")
    parser.add_argument(
        "--turns", type=int, default=3, help="of --speed: how often each checkout runs (3)"
    )
    parser.add_argument(
        "--corpora",
        default=os.environ.get("LABELWRIGHT_CORPORA"),
        help="of --speed: has conll2000/",
    )
    parser.add_argument(
        "--records", metavar="DIR", help="keeps what the other checkout does, for further runs"
    )
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.speed and not options.corpora:
        parser.error("name the folder of corpora with --corpora")
    if options.record:
        part, folder, files = options.record
        record_part(part, Path(folder), files, options)
        return 0
    return compare_speed(options) if options.speed else compare(options)


if __name__ == "__main__":
    sys.exit(main())
