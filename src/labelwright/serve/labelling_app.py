"""The routes of `labelwright annotate`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from labelwright import __version__
from labelwright.serve.app import HOSTS, finished, json_tools, require_extra
from labelwright.serve.batching import Limits
from labelwright.serve.bodies import BOOLEAN, TEXT, RequestError, Schema, checked
from labelwright.serve.labelled_file import Answer
from labelwright.serve.labelling import ConflictError, Labelling
from labelwright.serve.monitoring import Metrics

if TYPE_CHECKING:
    from fastapi import FastAPI

LISTS: Schema = {"type": "array", "items": {}}  # read as lines of the file are
NEXT: dict[str, Schema] = {"page": TEXT, "skip": TEXT, "look": BOOLEAN}
ANSWER: dict[str, Schema] = {"id": TEXT, "base": TEXT, "label": LISTS, "unknown": LISTS}
SEARCH: dict[str, Schema] = {"text": TEXT, "answered": BOOLEAN}
ONE: dict[str, Schema] = {"id": TEXT}


def make_labelling_app(labelling: Labelling) -> "FastAPI":
    """The page on which sentences are labelled, and what it asks."""
    require_extra()
    from fastapi import FastAPI, Request, Response
    from starlette.concurrency import run_in_threadpool

    limits = Limits()
    answer, body_of = json_tools(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        labelling.start()
        yield
        await run_in_threadpool(labelling.stop)

    app = FastAPI(
        title="labelwright annotate",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )

    async def asked(
        request: Request, fields: dict[str, Schema], ask: Callable[[dict[str, Any]], Any]
    ) -> Response:
        """Answer the fields of a body in another thread: some wait for the disk."""
        # as pages of others cannot
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise RequestError(415, "expected the header Content-Type: application/json")
        given = checked(await body_of(request), fields)
        try:
            return answer(await run_in_threadpool(ask, given))
        except ConflictError as error:
            return answer({"error": str(error), "card": error.card}, error.status)

    @app.get("/state")
    async def state() -> Response:
        """How far it is, how good the model is, and which types there are."""
        return answer(await run_in_threadpool(labelling.state))

    @app.post("/next")
    async def following(request: Request) -> Response:
        """The sentence to label next, which is kept for this page for a while."""
        return await asked(request, NEXT, lambda given: labelling.next(**{"page": "", **given}))

    @app.post("/answer")
    async def answered(request: Request) -> Response:
        """Keep an answer; without `label`, take it back.  It is on the disk when the reply is
        sent."""

        def keep(given: dict[str, Any]) -> Any:
            kept = Answer(given["label"], given.get("unknown", [])) if "label" in given else None
            return labelling.answer(given.get("id", ""), given.get("base"), kept)

        return await asked(request, ANSWER, keep)

    @app.post("/search")
    async def searched(request: Request) -> Response:
        """Sentences that hold a text."""
        return await asked(request, SEARCH, lambda given: labelling.search(**{"text": "", **given}))

    @app.post("/sentence")
    async def one(request: Request) -> Response:
        """One sentence."""
        return await asked(request, ONE, lambda given: labelling.sentence(given.get("id", "")))

    # no other name may lead a browser here
    return finished(app, "annotate.html", limits, Metrics([]), hosts=HOSTS)
