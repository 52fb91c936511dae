"""One cluster in this process for all tests, and files to train on."""

import pytest

from labelwright.corpus import builtin_corpus, write_columns

pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def client():
    import dask
    from distributed import Client, LocalCluster

    with (
        # else places depend on the machine's load
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A corpus in one file, and in three."""
    folder = tmp_path_factory.mktemp("scale")
    corpus = builtin_corpus(60, random_state=3, columns=["word", "pos", "chunk"])
    write_columns(corpus, folder / "all.txt")
    for n in range(3):
        write_columns(corpus.take(slice(20 * n, 20 * n + 20)), folder / f"part{n}.txt")
    return folder
