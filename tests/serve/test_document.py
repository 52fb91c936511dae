"""The service against its OpenAPI document: schemathesis draws requests, right and wrong ones, and
checks answers."""

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings

from labelwright import CRF, LatentCRF

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: make test-browser")
pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

pytestmark = pytest.mark.slow
REQUESTS = 40  # of each route


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X, y = (
        [["Anna", "met", "Bo", "."], ["We", "met", "."]],
        [["B-PER", "O", "B-PER", "O"], ["O", "O", "O"]],
    )
    CRF(max_iter=5, n_jobs=1).fit(X, y).save(folder / "names.crf")
    LatentCRF(max_iter=5, n_jobs=1, random_state=0).fit(X, y).save(folder / "latent.crf")
    command = [
        sys.executable,
        "-m",
        "labelwright",
        "serve",
        folder / "names.crf",
        folder / "latent.crf",
        "--port",
        "0",
    ]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as running:
        try:
            line = running.stderr.readline()
            yield schemathesis.openapi.from_url(f"{line.split(' at ')[1].split()[0]}/openapi.json")
        finally:
            running.terminate()


ROUTES = [
    ("POST", "/tag"),
    ("POST", "/explain"),
    ("GET", "/models"),
    ("GET", "/health"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_answers_are_those_of_the_document(document, method, path):
    # a schema cannot list decoders, rules
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    @settings(
        max_examples=REQUESTS,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(document[path][method].as_strategy())
    def check(case):
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()


def test_every_route_is_checked(document):
    assert {(method.upper(), path) for path, methods in document.items() for method in methods} == {
        *ROUTES
    }
