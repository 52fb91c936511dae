"""Connections of the service: late requests, descriptors, answers that nobody reads, hosts."""

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from labelwright import CRF
from labelwright.serve import app as application
from labelwright.serve import connections
from labelwright.serve.app import HOSTS, make_app
from labelwright.serve.batching import Limits, Worker
from labelwright.serve.connections import Connection, Listener
from labelwright.serve.models import Models

HEAD = b"POST /tag HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n"
HALVES = {"head": HEAD, "body": HEAD + b"\r\n{", "nothing": b""}
DESCRIPTORS = 64


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "names.crf"
    X, y = [["Anna", "met", "Bo"]], [["B-PER", "O", "B-PER"]]
    CRF(max_iter=2, n_jobs=1).fit(X, y).save(path)
    return path


# -- the running service ---------------------------------------------------------------------------


def health(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as response:
        return response.status


def is_closed(client):
    """Whether the service has closed a connection; what it sent before is read."""
    try:
        while received := client.recv(4096):
            assert received.startswith(b"HTTP/1.1 408 ")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.skipif(os.name == "nt", reason="descriptors and signals")
def test_half_sent_requests_end_and_the_service_answers_others(model):
    import resource

    def with_few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-m", "labelwright", "serve", str(model), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--timeout", "1"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=with_few_descriptors,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(process.stderr.close)
        stack.callback(process.kill)
        port = int(process.stderr.readline().split("127.0.0.1:")[1].split()[0])
        for half in HALVES.values():
            clients = []
            for _ in range(2 * DESCRIPTORS):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(OSError):  # it was closed to make room
                    client.sendall(half)
                client.setblocking(False)
                clients.append(client)
            assert health(port) == 200
            end = time.monotonic() + 30
            while not all(map(is_closed, clients)):
                assert time.monotonic() < end
                time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", port)) as client:  # it leaves
            client.sendall(HALVES["body"])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"nonsense\r\n\r\n")
        assert health(port) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == "labelwright: stopped\n"


def test_a_start_that_fails_is_one_line(run, model, monkeypatch):
    def fails(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Worker, "start", fails)
    code, _, error = run("serve", model, "--port", 0)
    serving, line = error.splitlines()
    assert (code, serving[:14]) == (2, "serving names ")
    assert line.startswith("labelwright: cannot start a thread; allow more memory or processes")


# -- the application under any server --------------------------------------------------------------


class Asked:
    """A request to an application, without a server: its messages are given."""

    def __init__(self, app, *messages, headers=()):
        self.app, self.messages, self.sent = app, list(messages), []
        self.scope = {"type": "http", "method": "POST", "path": "/tag", "query_string": b""}
        self.scope |= {"headers": [(b"content-length", b"50"), *headers], "http_version": "1.1"}

    async def receive(self):
        if not self.messages:
            await asyncio.sleep(60)
        return self.messages.pop(0)

    async def send(self, message):
        self.sent.append(message)

    def answer(self):
        async def ask():
            async with self.app.router.lifespan_context(self.app):
                await self.app(self.scope, self.receive, self.send)

        asyncio.run(ask())
        head, body = self.sent
        return head["status"], json.loads(body["body"])["error"], head["headers"]


def test_a_body_that_stays_away_is_refused(model):
    app = make_app(Models([str(model)]), Limits(timeout=0.05))
    half = {"type": "http.request", "body": b"{", "more_body": True}
    status, line, headers = Asked(app, half).answer()
    assert (status, (b"connection", b"close") in headers) == (408, True)
    assert line == "the request was not whole within 0.05 seconds; send it faster"


def test_a_client_that_leaves_is_no_mistake_of_ours(model):
    app = make_app(Models([str(model)]))
    half = {"type": "http.request", "body": b"{", "more_body": True}
    status, line, _ = Asked(app, half, {"type": "http.disconnect"}).answer()
    assert (status, line) == (400, "the client left before its request was whole")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:8000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("localhost:80:80", 400),
        ("", 400),
    ],
)
def test_names_of_others_lead_nowhere(model, host, status):
    with TestClient(make_app(Models([str(model)]), hosts=HOSTS)) as client:
        for path in ("/models", "/health", "/"):
            response = client.get(path, headers={"host": host})
            assert response.status_code == status
            if status != 200:
                line = f"the header Host is {host!r}, expected 127.0.0.1, localhost, ::1; "
                assert response.json()["error"].startswith(line)


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ([], HOSTS),
        (["--host", "localhost"], HOSTS),
        (["--host", "127.0.0.2"], (*HOSTS, "127.0.0.2")),
        (["--token", "x"], None),
        (["--host", "0.0.0.0"], None),
        (["--host", "0.0.0.0", "--token", "x"], None),
    ],
)
def test_hosts_are_checked_where_pages_of_others_could_ask(run, model, monkeypatch, options, hosts):
    monkeypatch.delenv("LABELWRIGHT_TOKEN", raising=False)
    given = []
    monkeypatch.setattr(application, "make_app", lambda *_, hosts: given.append(hosts))
    monkeypatch.setattr(application, "run", lambda *_: None)
    assert run("serve", model, *options)[0] == 0
    assert given == [None if hosts is None else list(hosts)]


# -- one connection --------------------------------------------------------------------------------


class Protocol(asyncio.Protocol):
    """In place of uvicorn's."""

    def __init__(self, app_state):
        self.state = app_state


class Transport:
    """In place of asyncio's: what a client has not read yet, and whether it was closed."""

    def __init__(self, unread=()):
        self.unread, self.is_closed = list(unread), False

    def get_write_buffer_size(self):
        return self.unread.pop(0) if len(self.unread) > 1 else self.unread[0]

    def abort(self):
        self.is_closed = True


@pytest.fixture
def connection(monkeypatch):
    """A class of connections that may take a hundredth of a second; two may be open."""
    monkeypatch.setattr(connections, "GRACE", 0.01)
    monkeypatch.setattr(connections, "UNREAD", 0.01)
    limits = {"seconds": 0.01, "most": 2, "opened": {}}
    return type("Two", (Connection, Protocol), limits)


@pytest.mark.parametrize(
    ("is_whole", "unread", "is_closed"),
    [
        (False, [0], True),  # the request is late
        (True, [0], False),  # the application computes
        (True, [9], True),  # nobody reads the answer
        (True, list(range(1000, 0, -1)), False),  # it is read slowly
    ],
)
def test_what_is_closed_after_some_time(connection, is_whole, unread, is_closed):
    async def some_time():
        one, transport = connection(app_state={}), Transport(unread)
        assert one.state == {connections.KEY: one}
        one.connection_made(transport)
        one.data_received(b"GET")
        if is_whole:
            one.taken()
        await asyncio.sleep(0.15)
        one.connection_lost(None)
        return transport.is_closed

    assert asyncio.run(some_time()) == is_closed


def test_the_time_of_a_request_begins_with_its_first_byte(connection):
    async def begun():
        one = connection(app_state={})
        one.connection_made(Transport([0]))
        times = [one.begun]
        for data in (b"GET", b" / ", None, b"GET"):
            await asyncio.sleep(0.002)
            if data is None:
                one.answered()
            else:
                one.data_received(data)
            times.append(one.begun)
        return times

    opened, first, second, answered, next_one = asyncio.run(begun())
    assert opened < first == second < answered < next_one


def test_who_has_waited_longest_makes_room(connection):
    async def closed():
        made = [connection(app_state={}) for _ in range(4)]
        transports = [Transport([0]) for _ in made]
        for number, (one, transport) in enumerate(zip(made, transports, strict=True)):
            one.connection_made(transport)
            if number == 0:
                one.taken()  # its answer is computed
            if number == 1:
                one.answered()
        for one in made:
            one.connection_lost(None)
            one.answered()  # the application ends later
        assert connection.opened == {}
        return [transport.is_closed for transport in transports]

    assert asyncio.run(closed()) == [False, True, True, False]


def test_a_listener_keeps_descriptors_free():
    with Listener(socket.create_server(("127.0.0.1", 0))) as listener:
        assert 1 <= listener.most <= connections.MOST
        address = listener.getsockname()
        with socket.create_connection(address) as client, listener.accept()[0] as taken:
            taken.sendall(b"x")
            assert client.recv(1) == b"x"
        listener.end = 0
        with socket.create_connection(address) as client:
            with pytest.raises(ConnectionAbortedError):
                listener.accept()
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""


def test_a_listener_without_a_limit(monkeypatch):
    monkeypatch.setattr(connections, "most_descriptors", lambda: math.inf)
    with Listener(socket.create_server(("127.0.0.1", 0))) as listener:
        assert listener.most == connections.MOST
