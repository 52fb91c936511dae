"""The service itself: routes, who may ask, errors of one line, start and graceful end."""

import asyncio
import base64
import binascii
import hmac
import importlib.util
import json
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from labelwright import __version__
from labelwright.corpus.token_records import dumped
from labelwright.errors import LabelwrightError, OptionError, reason_of
from labelwright.serve import bodies, label_studio
from labelwright.serve.batching import Limits, Worker
from labelwright.serve.bodies import Options, RequestError
from labelwright.serve.connections import KEY, Listener, connections
from labelwright.serve.models import Models
from labelwright.serve.monitoring import Metrics

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

STATIC = Path(__file__).parent / "static"
EXTRA = "needs FastAPI and uvicorn; install them with: pip install 'labelwright[serve]'"
LOOK_AGAIN = 1.0  # seconds between two looks at the model files
MISTAKE = "unexpected error, a mistake of ours"
DEADLINE = "labelwright.deadline"  # of a request, in its scope: a time of the loop
HOSTS = "127.0.0.1", "localhost", "::1"  # that lead to a service of this machine
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")  # with a port
JSON = (b"content-type", b"application/json")
COMPACT = (",", ":")  # separators of JSON
BODY = frozenset([b"content-length", b"transfer-encoding"])  # headers of requests that have one
NO_CACHE = {"cache-control": "no-cache"}  # a new version of the page is seen at once
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def require_extra() -> None:
    """Refuse to serve where the extra is missing."""
    if not all(map(importlib.util.find_spec, ("fastapi", "uvicorn"))):
        raise OptionError(f"serve: {EXTRA}")


class Gate:
    """What every request passes: its host, the token, the length that it announces, the time that
    it takes, and the metrics."""

    def __init__(
        self,
        app: Any,
        token: str | None,
        hosts: Sequence[str] | None,
        limits: Limits,
        metrics: Metrics,
        paths: frozenset[str],
    ):
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths
        self.hosts = hosts
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, path = time.perf_counter(), 500, scope["path"]
        headers = dict(scope["headers"])
        connection = scope.get("state", {}).get(KEY)  # None under another server than ours
        if connection is not None:
            connection.started()
        first_byte = asyncio.get_running_loop().time() if connection is None else connection.begun
        deadline = scope[DEADLINE] = first_byte + self.limits.timeout
        is_whole = False

        def taken() -> None:
            nonlocal is_whole
            is_whole = True
            if connection is not None:
                connection.taken()

        async def received() -> Message:
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RequestError(408, _too_slow(self.limits)) from None
            if message["type"] == "http.disconnect":
                raise RequestError(400, "the client left before its request was whole")
            if not message.get("more_body", False):
                taken()
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 408:  # the rest of the request is not read
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        try:
            refusal = self._refusal(path, headers)
            if refusal is not None:
                await _refused(noted, *refusal)
                return
            if not headers.keys() & BODY:
                taken()
            await self.app(scope, received, noted)
        finally:
            if connection is not None:
                connection.answered()
            shown = (
                path
                if path in self.paths
                else "/static"
                if path.startswith("/static/")
                else "other"
            )
            self.metrics.add(shown, status, time.perf_counter() - begun)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self.hosts is not None and not self._knows_host(host):
            wrong = f"the header Host is {host!r:.60}, expected {', '.join(self.hosts)}"
            return 400, f"{wrong}; ask at one of these"
        is_free = path in ("/", "/health") or path.startswith("/static/")
        if (
            self.token is not None
            and not is_free
            and not self._knows_token(headers.get(b"authorization", b""))
        ):
            return 401, "the token is missing or wrong; send the header Authorization: Bearer TOKEN"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.limits.max_bytes:
            return 413, _too_large(self.limits)
        return None

    def _knows_host(self, header: str) -> bool:
        """Whether a browser was led here by a name of this machine: pages of others have names of
        their own, which may lead here, too (DNS rebinding)."""
        match = HOST.fullmatch(header)
        return match is not None and match[1].strip("[]").lower() in (self.hosts or ())

    def _knows_token(self, header: bytes) -> bool:
        """Whether a header has the token: Bearer TOKEN, or as the password of Basic, which Label
        Studio sends."""
        kind, _, given = header.partition(b" ")
        if kind.lower() == b"basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        return kind.lower() in (b"bearer", b"basic") and hmac.compare_digest(
            given.strip(), self.token or b""
        )


async def _refused(send: Send, status: int, line: str) -> None:
    content = compact({"error": line})
    headers = [JSON, (b"content-length", str(len(content)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _too_large(limits: Limits) -> str:
    return f"the body is larger than {limits.max_bytes:,} bytes; send less at a time"


def _too_slow(limits: Limits) -> str:
    return f"the request was not whole within {limits.timeout:g} seconds; send it faster"


def compact(facts: Any) -> bytes:
    """Facts as JSON without spaces."""
    return dumped(facts, separators=COMPACT)


def json_tools(
    limits: Limits,
) -> tuple[Callable[..., "Response"], Callable[["Request"], Awaitable[Any]]]:
    """What makes a response of facts, and what reads the body of a request."""
    from starlette.responses import Response

    def answer(facts: Any, status: int = 200) -> Response:
        return Response(compact(facts), status, media_type="application/json")

    async def body_of(request: "Request") -> Any:
        """The JSON of a body; one that grows too large is not read to its end."""
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > limits.max_bytes:
                raise RequestError(413, _too_large(limits))
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise OptionError("the body is not JSON") from None

    return answer, body_of


def make_app(
    models: Models,
    limits: Limits | None = None,
    token: str | None = None,
    look_again: float = LOOK_AGAIN,
    hosts: Sequence[str] | None = None,
) -> "FastAPI":
    """The service of some models.

    hosts : refuse requests whose header Host names another one"""
    require_extra()
    from fastapi import FastAPI, Request, Response
    from starlette.routing import Route

    limits = limits or Limits()
    metrics = Metrics(list(models.by_name))
    workers = {
        name: Worker(served, limits, metrics.of_models[name])
        for name, served in models.by_name.items()
    }

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        stopped = Event()
        watcher = Thread(
            target=models.watch, args=(stopped, look_again), name="labelwright-watch", daemon=True
        )
        watcher.start()
        for worker in workers.values():
            worker.start()
        yield
        stopped.set()
        for worker in workers.values():
            worker.stop()

    about = "Labels of texts with their probabilities, and why they are what they are."
    app = FastAPI(
        title="labelwright",
        version=__version__,
        description=about,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )

    answer, body_of = json_tools(limits)

    # -- labels ------------------------------------------------------------------------------------

    refused = (400, 401, 404, 408, 413, 503)

    @app.post(
        "/tag",
        responses=bodies.answers(bodies.TAGGED, *refused),
        openapi_extra=bodies.described(bodies.TAG),
    )
    async def tag(request: Request) -> Response:
        """Label texts, or sentences of tokens."""
        name, asked, options = bodies.tag_request(await body_of(request), limits.max_tokens)
        served = models.get(name)
        deadline = request.scope[DEADLINE]
        sentences = await workers[served.name].answer(asked, options, deadline, compact)
        head = compact({"model": served.name}).removesuffix(b"}")
        content = b'%b,"sentences":[%b]}' % (head, b",".join(sentences))
        return Response(content, media_type="application/json")

    @app.post(
        "/explain",
        responses=bodies.answers({"type": "object"}, *refused),
        openapi_extra=bodies.described(bodies.EXPLAIN, "token"),
    )
    async def explain(request: Request) -> Response:
        """Why a token has its label: the facts of `labelwright explain --json`."""
        name, asked, about = bodies.explain_request(await body_of(request), limits.max_tokens)
        served = models.get(name)
        deadline = request.scope[DEADLINE]
        facts = await workers[served.name].answer(asked, about, deadline)
        return answer({"model": served.name} | facts)

    @app.get("/models", responses=bodies.answers(bodies.MODELS, 401))
    async def listed() -> Response:
        """All models, what they predict and what can be asked of them."""
        return answer(
            {
                "default": models.default,
                "models": [each.facts() for each in models.by_name.values()],
            }
        )

    @app.get("/health", responses=bodies.answers(bodies.HEALTH))
    async def health() -> Response:
        """Whether the service answers; a model whose new file cannot be loaded has a problem."""
        states = [served.health() for served in models.by_name.values()]
        return answer(
            {"status": "ok", "version": __version__, "models": states, "model_class": "labelwright"}
        )

    @app.get("/metrics", response_class=Response)
    async def counted() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    # -- Label Studio ------------------------------------------------------------------------------

    @app.post("/setup", include_in_schema=False)
    async def setup() -> Response:
        return answer({"model_version": models.get(None).version})

    @app.post("/predict", include_in_schema=False)
    async def predict(request: Request) -> Response:
        interface, texts = label_studio.tasks_in(await body_of(request))
        served = models.get(None)
        asked, deadline = bodies.Asked(texts, None), request.scope[DEADLINE]
        sentences = await workers[served.name].answer(asked, Options(), deadline)
        results = label_studio.predictions(texts, sentences, interface, served.version)
        return answer({"results": results, "model_version": served.version})

    # FastAPI's own handler checks parameters, of which there are none; its routes stay for the
    # document.
    direct = [
        Route(path, handler, methods=["POST"])
        for path, handler in (("/tag", tag), ("/explain", explain))
    ]
    app.router.routes[:0] = direct
    return finished(app, "index.html", limits, metrics, token, hosts)


def finished(
    app: "FastAPI",
    page: str,
    limits: Limits,
    metrics: Metrics,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
) -> "FastAPI":
    """An application with its page, errors of one line, and the gate that every request passes."""
    from fastapi import Request, Response
    from fastapi.staticfiles import StaticFiles
    from starlette.exceptions import HTTPException
    from starlette.responses import FileResponse

    answer, _ = json_tools(limits)

    @app.get("/", include_in_schema=False)
    async def shown() -> Response:
        return FileResponse(STATIC / page, headers=NO_CACHE)

    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.exception_handler(LabelwrightError)
    async def wrong(_: Request, error: Exception) -> Response:
        return answer({"error": str(error)}, getattr(error, "status", 400))

    @app.exception_handler(HTTPException)
    async def no_route(_: Request, error: Exception) -> Response:
        line = str(getattr(error, "detail", MISTAKE)).lower()
        response = answer({"error": line}, getattr(error, "status_code", 500))
        response.headers.update(getattr(error, "headers", None) or {})  # such as Allow
        return response

    @app.exception_handler(Exception)
    async def mistake(_: Request, error: Exception) -> Response:
        return answer({"error": MISTAKE}, 500)

    paths = frozenset(str(getattr(route, "path", "")) for route in app.routes)
    app.add_middleware(Gate, token=token, hosts=hosts, limits=limits, metrics=metrics, paths=paths)
    return app


def run(app: "FastAPI", host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it: requests that were taken are answered first.  `ready` is told
    the address."""
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "no such port"
        raise OptionError(f"--host {host} --port {port}: cannot listen there: {why}") from None
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    failures = kept_failures(app)
    with Listener(listening) as listener:
        config = uvicorn.Config(
            app,
            http=connections(limits.timeout, listener.most),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=max(1, int(limits.timeout)),
        )
        server = uvicorn.Server(config)
        log = logging.getLogger("uvicorn.error")

        def has_started(_: logging.LogRecord) -> bool:
            return server.started  # what fails at the start is raised below

        log.addFilter(has_started)
        ready(f"http://{shown}:{listener.getsockname()[1]}")
        try:
            server.run(sockets=[listener])
        except SystemExit:
            if not failures:
                raise
        finally:
            log.removeFilter(has_started)
    if failures:
        raise failures[0]


def kept_failures(app: "FastAPI") -> list[Exception]:
    """The errors of the start and the end of an application, of which a server only shows
    tracebacks."""
    failures, lifespan = list[Exception](), app.router.lifespan_context

    @asynccontextmanager
    async def kept(given: Any) -> AsyncIterator[Any]:
        try:
            async with lifespan(given) as state:
                yield state
        except Exception as error:
            failures.append(error)
            raise

    app.router.lifespan_context = kept
    return failures
