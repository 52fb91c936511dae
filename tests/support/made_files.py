"""Model files that nobody wrote: valid ones with a few values, lengths, dtypes or header fields changed, and a right
checksum.  Loading one and asking it must work or end in a LabelwrightError, never in a crash or another exception.

    python tests/support/made_files.py [NAME ...] [--number 1000] [--seed 0] [--memory 1.0] [--keep FOLDER]

Every file is made from its seed alone: `--seed 17 --number 1` makes the one that was number 17.
"""

import argparse
import collections
import contextlib
import copy
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import small_models

import labelwright
from labelwright import modelfile
from labelwright.errors import LabelwrightError

FOLDER = Path(__file__).parent.parent / "data" / "v0.1.0"
VALUES = [0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 1e30, -1e30, 1e-300]
FLOATS = [*VALUES, np.nan, np.inf, -np.inf, 0.5, -0.5]
DTYPES = [np.int32, np.int64, np.float32, np.float64, np.bool_, np.uint8, np.int8]
JSON = [None, True, False, 0, 1, -1, 2, 3, 10**6, 2**31, 2**63, 10**30, 0.5, -0.5, float("inf"), float("nan"), "", "x"]
JSON += ["%y[0]", "O", "iob2", "crf", "U:%x[0,0]", "U:%x[9,0]/%x[0,1]", "B", [], [0], ["O"], {}, {"a": 1}, [[]], "é"]


# -- changes ------------------------------------------------------------------------------------------------------


def change_values(rng, tensors):
    """Some values of one array."""
    name = pick(rng, [name for name, array in tensors.items() if array.size])
    array = tensors[name].copy()
    for place in rng.integers(0, array.size, rng.integers(1, 4)):
        kind = rng.integers(4)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if array.dtype == np.bool_:
                array.view(np.uint8).flat[place] = pick(rng, [0, 1, 1, 0, 2, 255])
            elif kind == 0:  # the value of another place
                array.flat[place] = array.flat[rng.integers(array.size)]
            elif kind == 1:  # a little more or less
                array.flat[place] = np.asarray(array.flat[place] + rng.integers(-3, 4)).astype(array.dtype)
            elif array.dtype.kind == "f":
                array.flat[place] = pick(rng, FLOATS)
            else:
                array.flat[place] = np.array(pick(rng, VALUES), np.float64).astype(np.int64).astype(array.dtype)
    tensors[name] = array


def change_order(rng, tensors):
    """One array backwards, sorted, rotated or shuffled."""
    name = pick(rng, list(tensors))
    array = tensors[name].reshape(-1)
    orders = [array[::-1], np.sort(array), np.roll(array, 1), rng.permutation(array), np.zeros_like(array)]
    tensors[name] = pick(rng, orders).reshape(tensors[name].shape).copy()


def change_length(rng, tensors):
    """One array longer or shorter, or none at all."""
    name = pick(rng, list(tensors))
    array = tensors[name]
    kind = rng.integers(5)
    if kind == 0 or array.ndim == 0:
        del tensors[name]
    elif kind == 1:
        tensors[name] = array[: max(0, len(array) - rng.integers(1, 3))].copy()
    elif kind == 2:
        tensors[name] = np.concatenate([array, array[: rng.integers(1, 3)]])
    elif kind == 3:
        tensors[name] = array[:0].copy()
    else:
        tensors[name] = np.concatenate([array, array])


def change_type(rng, tensors):
    """One array of another dtype or shape."""
    name = pick(rng, list(tensors))
    array = tensors[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = [array.astype(pick(rng, DTYPES)), array.reshape(-1), array[None], array[..., None], array.T.copy()]
        made.append(np.zeros((int(pick(rng, [1, 10, 10**6, 10**9])), 0), array.dtype))
        tensors[name] = np.ascontiguousarray(pick(rng, made)) if array.ndim else array[None]


def change_swap(rng, tensors):
    """Two arrays of one dtype change places."""
    one = pick(rng, list(tensors))
    alike = [name for name, array in tensors.items() if array.dtype == tensors[one].dtype]
    other = pick(rng, alike)
    tensors[one], tensors[other] = tensors[other], tensors[one]


def change_header(rng, header):
    """One field of the header, however deep: another value, none, or a whole list without its last or with it twice."""
    places = list(walk(header))
    owner, key = pick(rng, places)
    kind = rng.integers(5)
    if kind == 0 and isinstance(owner, dict):
        del owner[key]
    elif kind == 1:
        owner[key] = copy.deepcopy(pick(rng, [o[k] for o, k in places]))
    elif kind == 2 and isinstance(owner[key], list) and owner[key]:
        owner[key] = owner[key][:-1] if rng.integers(2) else [*owner[key], owner[key][-1]]
    elif kind == 3 and type(owner[key]) in (int, float):
        owner[key] = pick(rng, [owner[key] + 1, owner[key] - 1, 2 * owner[key], -owner[key], 10**9])
    else:
        owner[key] = copy.deepcopy(pick(rng, JSON))


def walk(value):
    """All (owner, key) of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from walk(value[key])


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


CHANGES = [change_values] * 5 + [change_order, change_length, change_type, change_swap]


def made_file(seed, tensors, header):
    """The tensors and the header of the file of this seed."""
    rng = np.random.default_rng(seed)
    tensors, header = dict(tensors), copy.deepcopy(header)
    for _ in range(rng.integers(1, 3)):
        if rng.integers(3) == 0:
            change_header(rng, header)
        else:
            pick(rng, CHANGES)(rng, tensors)
    return tensors, header


# -- what a file is asked ------------------------------------------------------------------------------------------


def answers(path, name):
    """Load a model and ask it all that its kind answers; a loaded model may refuse a question."""
    model = labelwright.load(path)
    X = small_models.asked(name)
    asked = [model.predict]
    for method in ("predict_nbest", "predict_marginals", "predict_spans", "predict_proba", "neighbours", "decode"):
        asked += [getattr(model, method)] if hasattr(model, method) else []
    asked += [lambda X: model.decode(X, constraints="scheme")] if hasattr(model, "predict_nbest") else []
    asked += [lambda X: model.predict_confidences(X)] if hasattr(model, "predict_confidences") else []
    asked += [lambda X: model.sample(X, 2)] if hasattr(model, "sample") else []
    asked += [lambda X: model.save(f"{path}.again"), lambda X: repr(model)]
    if hasattr(model, "partial_fit"):
        asked.append(lambda X: model.partial_fit(*small_models.MODELS[name][1](3, 2)))
    for question in asked:
        with contextlib.suppress(LabelwrightError):
            question(X)


def checkpoint_answers(path, name):
    """Go on from a checkpoint."""
    model, data = checkpointed(name)
    model.fit(*data, checkpoint=path, checkpoint_every=1e9, resume=True)


def checkpointed(name):
    kind = name.partition(":")[2]
    settings = {"optimizer": "sgd", "averaging": "avg"} if kind == "sgd" else {"l1": 0.5} if kind == "owlqn" else {}
    model = labelwright.Perceptron if kind == "perceptron" else labelwright.CRF
    return model(small_models.WORDS, n_jobs=1, max_iter=6, **settings), small_models.words(0, small_models.N)


CHECKPOINTS = ("checkpoint:lbfgs", "checkpoint:owlqn", "checkpoint:sgd", "checkpoint:perceptron")
NAMES = (*small_models.MODELS, *CHECKPOINTS)


def valid_file(name, folder):
    """The file that all others are made of."""
    if name not in CHECKPOINTS:
        return Path(shutil.copy(FOLDER / f"{name}.model", folder / "valid"))
    model, data = checkpointed(name)
    model.fit(*data, checkpoint=folder / "valid", checkpoint_every=0.0)
    return folder / "valid"


def run(name, seeds, folder, keep=None):
    """Make and ask the files of these seeds; yields (seed, what happened)."""
    folder = Path(folder)
    source = valid_file(name, folder)
    tensors, header = modelfile.read(source)
    ask = checkpoint_answers if name in CHECKPOINTS else answers
    ask(source, name)  # compiles, too
    path = folder / "made"
    for seed in seeds:
        made = made_file(seed, tensors, header)
        try:
            modelfile.write(path, *made)
        except LabelwrightError:
            yield seed, "not written"
            continue
        (folder / "seed").write_text(str(seed))
        if keep:
            modelfile.write(Path(keep) / f"{name}-{seed}", *made)
        begun = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ask(path, name)
            outcome = "works"
        except LabelwrightError as error:
            outcome = "refused" if "\n" not in str(error) else f"lines: {error}"
        except Exception as error:
            outcome = f"raised {type(error).__name__}: {error} @ {traceback.extract_tb(error.__traceback__)[-1]}"
        if time.monotonic() - begun > 20:
            outcome = f"slow ({time.monotonic() - begun:.0f} s): {outcome}"
        yield seed, outcome


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=1.0, help="GB that a file may ask for beyond those in use")
    parser.add_argument("--keep")
    options = parser.parse_args(arguments)
    failed = 0
    for name in options.names or NAMES:
        outcomes = collections.Counter()
        for seed, outcome in _guarded(name, options):
            outcomes[outcome if outcome in ("works", "refused", "not written") else "FAILED"] += 1
            if outcome not in ("works", "refused", "not written"):
                failed += 1
                print(f"{name} --seed {seed}: {outcome}", flush=True)
        print(json.dumps({"name": name, **outcomes}), flush=True)
    return failed


def _guarded(name, options):
    """The outcomes of a name; a crash of the process that asks is one of them, and another process goes on."""
    seed, end = options.seed, options.seed + options.number
    while seed < end:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--child", name, str(seed), str(end), folder, str(options.memory)]
            command += [options.keep] if options.keep else []
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                for line in child.stdout:
                    done, _, outcome = line.rstrip("\n").partition(" ")
                    seed = int(done) + 1
                    yield int(done), outcome
            if child.returncode == 0:
                return
            at = Path(folder, "seed")
            if not at.exists():
                raise RuntimeError(f"{name}: the valid file does not work")
            seed = int(at.read_text())
            yield seed, f"crashed with {child.returncode}"
            seed += 1


def _child(name, begin, end, folder, memory, keep=None):
    source = run(name, range(int(begin), int(end)), folder, keep)
    limited = False
    for seed, outcome in source:
        if not limited:  # what is in use by now, and no more than that
            used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            limit = used + int(float(memory) * 2**30)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            limited = True
        print(seed, outcome.replace("\n", " "), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
    else:
        sys.exit(bool(main()))
