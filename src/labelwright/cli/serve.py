"""labelwright serve: models as a service over HTTP."""

import ipaddress
import logging
import os
from typing import Any

from labelwright.cli.options import POSITIVE, argument, command, option
from labelwright.cli.show import say, warn
from labelwright.errors import OptionError
from labelwright.settings import Above, AtLeast, AtMost, Bounds, Number, Whole

LIMITS, ACCESS = "Limits", "Access"
TOKEN = "LABELWRIGHT_TOKEN"  # noqa: S105  the name of a variable


@command(
    argument(
        "models",
        "MODEL",
        "Model files; NAME=FILE gives a model another name than its file has.",
        several=True,
    ),
    option(
        "--host HOST", "The address to listen at; 0.0.0.0 for all.", ACCESS, default="127.0.0.1"
    ),
    option(
        "--port PORT",
        "The port; 0 for any free one.",
        ACCESS,
        Whole(Bounds(AtLeast(0), AtMost(65535))),
        8000,
    ),
    option(
        "--token TOKEN", f"Whom to answer: Authorization: Bearer TOKEN; better as {TOKEN}.", ACCESS
    ),
    option("--max-tokens N", "Refuse requests of more tokens.", LIMITS, POSITIVE, 10_000),
    option("--max-bytes N", "Refuse requests of more bytes.", LIMITS, POSITIVE, 2_000_000),
    option(
        "--timeout S", "Seconds until a request is refused.", LIMITS, Number(Bounds(Above(0))), 30.0
    ),
    option(
        "--threads N",
        "Threads of each model for large requests.",
        LIMITS,
        POSITIVE,
        1,
        name="n_jobs",
    ),
)
def serve_command(o: Any) -> None:
    """Serve models over HTTP: labels with probabilities, explanations, metrics, and a page to try
    them in a browser.

    \b
      labelwright serve names.crf
      curl localhost:8000/tag -d '{"text": "Ada ran."}'
      labelwright serve people=names.crf tags.crf --port 9000

    The first model is the default; requests may name another. A model file that changes is loaded
    again without a pause. The address / has a page, /openapi.json describes all requests, /metrics
    is for Prometheus, and Label Studio can be given the address as its machine-learning backend.

    It needs FastAPI and uvicorn: pip install 'labelwright[serve]'.
    """
    from labelwright.serve.app import HOSTS, make_app, require_extra, run
    from labelwright.serve.batching import Limits
    from labelwright.serve.models import Models

    require_extra()
    token = o.token if o.token is not None else os.environ.get(TOKEN) or None
    if token is not None and not (token.strip() and token.isascii() and token.isprintable()):
        raise OptionError(f"--token: expected letters and digits of ASCII, in --token or {TOKEN}")
    limits = Limits(o.max_tokens, o.max_bytes, o.timeout)
    models = Models(o.models, o.n_jobs)
    logging.getLogger("labelwright.serve").setLevel(logging.INFO)
    for name in ("labelwright.serve", "uvicorn.error", "asyncio"):
        logging.getLogger(name).addHandler(_Lines())
    # warnings about requests that are no HTTP: anybody could fill the log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    # who knows the token is no page of others
    hosts = None
    if token is None and _is_loopback(o.host):
        hosts = list(dict.fromkeys([*HOSTS, o.host.lower()]))
    elif token is None:
        warn(
            f"--host {o.host}: anybody who reaches this address can ask; set {TOKEN}, or leave "
            "--host out"
        )

    def ready(address: str) -> None:
        say(f"serving {', '.join(models.by_name)} at {address} (Ctrl-C stops)")

    try:
        run(make_app(models, limits, token, hosts=hosts), o.host, o.port, limits, ready)
    except KeyboardInterrupt:  # uvicorn passes the signal on once everything is answered
        say("labelwright: stopped")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Lines(logging.Handler):
    """What the service has to say, as lines of this command."""

    def emit(self, record: logging.LogRecord) -> None:
        line, error = record.getMessage().partition("\n")[0], (record.exc_info or (None, None))[1]
        say(f"labelwright: {line}{'' if error is None else f' ({error!r:.200})'}")
        if record.exc_info and os.environ.get("LABELWRIGHT_DEBUG"):
            say(logging.Formatter().formatException(record.exc_info))
