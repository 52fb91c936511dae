"""labelwright's side of the benchmark; `measure.ask` starts it."""

from itertools import pairwise
from statistics import median

from labelwright import CRF, load, read_columns
from labelwright.corpus import write_columns
from labelwright.evaluate import evaluate
from measure import Job, Laps, serve


def train(laps: Laps, job: Job) -> Job:
    """File to model; `warm` is a small file to train on first, so that loading machine code counts as start-up."""
    tagger = CRF(template=job["template"], cells="observed", l2=1.0, n_jobs=job["threads"], max_iter=2)
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
    """File to labelled file; a small model tags a small file first, so that loading machine code counts as start-up."""
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


def score(laps: Laps, job: Job) -> Job:
    """Chunk F1 of labelled files, whose last two columns are the true and the predicted label."""
    files = [read_columns(path) for path in job["labelled"]]
    return {"f1": [100 * evaluate(file.column(file.names[-2]), file.y).f1 for file in files]}


if __name__ == "__main__":
    serve({"train": train, "tag": tag, "score": score})
