"""labelwright's side of the benchmark; `measure.ask` starts it."""

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from labelwright import CRF, load, read_columns
from labelwright.corpus import write_columns
from labelwright.evaluate import evaluate
from labelwright.parallel import Workers, one_blas_thread
from measure import Job, Laps, serve


def train(laps: Laps, job: Job) -> Job:
    """File to model; `warm` is a small file to train on first, so that loading machine code counts
    as start-up."""
    tagger = CRF(
        template=job["template"], cells="observed", l2=1.0, n_jobs=job["threads"], max_iter=2
    )
    if job["warm"]:
        tagger.fit(read_columns(job["warm"])).save(job["model"])
        laps("kernels")
    tagger.set_params(max_iter=job["iterations"], tol=job["tol"])
    corpus = read_columns(job["train"])
    laps("read")
    tagger.fit(corpus)
    laps("features")
    times = [record["seconds"] for record in tagger.history_]
    laps["train"] = times[-1]
    laps["features"] -= times[-1]
    tagger.save(job["model"])
    laps("write")
    return {**tagger.training_, "per_iteration": median(b - a for a, b in pairwise(times))}


def tag(laps: Laps, job: Job) -> Job:
    """File to labelled file; a small model tags a small file first, so that loading machine code
    counts as start-up."""
    corpus = read_columns(job["warm"])
    write_columns(corpus, job["out"], load(job["warm_model"]).predict(corpus))
    laps("kernels")
    tagger = load(job["model"]).set_params(n_jobs=job["threads"])
    laps("model")
    corpus = read_columns(job["test"])
    laps("read")
    data = tagger.encode(corpus)
    laps("features")
    labels = tagger.predict(data)
    laps("tag")
    write_columns(corpus, job["out"], labels)
    laps("write")
    return {}


def limit(laps: Laps, job: Job) -> Job:
    """What an evaluation of the objective takes, what it must move through memory, and how fast a
    copy is.

    The bytes are those of arrays that an evaluation reads or writes from one end to the other; rows
    of keys that tokens read at random places count once for each token."""
    tagger = CRF(template=job["template"])
    data, trained = tagger._prepare(read_columns(job["train"]), None)
    workers = Workers(job["threads"])
    with one_blas_thread():
        problem = tagger._structure.objective(trained, data, workers)
        gradient = np.empty_like(trained.weights)
        seconds = min(clocked(lambda: problem(trained.weights, gradient)) for _ in range(7))
    part, tokens = problem.parts["state"], len(data.gold)
    row = part.width * part.table.itemsize
    used = int((part.keys >= 0).sum())
    lists = [*part.token_cells, *part.token_rows, *part.key_cells, *part.key_rows]
    lists += [array for shard in part.shards for split in shard for array in split.items]
    lists += [array for split in (part.keys_of_dense, part.keys_of_sparse) for array in split.items]
    moved = 2 * used * row  # rows of keys: to tokens, and back
    moved += 12 * tokens * row  # rows of scores, copies in time order, messages, counts
    moved += 2 * part.keys.nbytes + sum(array.nbytes for array in lists) + 3 * gradient.nbytes
    block, other = np.ones((2, 1 << 25), np.float32)
    bandwidth = 2 * block.nbytes / min(clocked(lambda: np.copyto(other, block)) for _ in range(7))
    return {"evaluation": seconds, "bytes": moved, "bandwidth": bandwidth, "tokens": tokens}


def clocked(function: Callable[[], Any]) -> float:
    """Seconds that a call keeps this thread busy: other work on the machine does not count."""
    begun = time.thread_time()
    function()
    return time.thread_time() - begun


def score(laps: Laps, job: Job) -> Job:
    """Chunk F1 of labelled files, whose last two columns are the true and the predicted label."""
    files = [read_columns(path) for path in job["labelled"]]
    return {"f1": [100 * evaluate(file.column(file.names[-2]), file.y).f1 for file in files]}


if __name__ == "__main__":
    serve({"train": train, "tag": tag, "score": score, "limit": limit})
