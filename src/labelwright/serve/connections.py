"""Connections of the service: how many there are, and how long each waits for its request.

    Listener -> Connection: waiting -> whole (the application answers) -> answered, waiting ...

uvicorn limits neither.  How long the body of a request takes is limited by the application
(`app.Gate`) under every server."""

import asyncio
import math
import socket
from typing import Any, ClassVar

KEY = "labelwright.connection"  # of a connection, in the state that its requests have
MOST = 1024  # connections
UNLIMITED = 1 << 30
SPARE = 32  # descriptors for model files, pipes and libraries
GRACE = 1.0  # seconds that the application has to refuse a late request itself
UNREAD = 120.0  # seconds in which a client reads some of a large answer


def most_descriptors() -> int:
    """How many descriptors the process may have."""
    try:
        import resource
    except ImportError:  # Windows
        return UNLIMITED
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return UNLIMITED if most == resource.RLIM_INFINITY else most


class Listener(socket.socket):
    """A listening socket that keeps some descriptors free: connections beyond are closed."""

    def __init__(self, listening: socket.socket):
        super().__init__(fileno=listening.detach())
        most = most_descriptors()
        self.end = most - min(SPARE, most // 4)  # of the descriptors of connections

    @property
    def most(self) -> int:
        """How many connections may stay open; the rest is for those that come at the same
        moment."""
        return int(max(1, min(MOST, 3 * (self.end - self.fileno()) // 4)))

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        # the lowest free descriptor: nearly all are in use
        if connection.fileno() >= self.end:
            connection.close()
            raise ConnectionAbortedError
        return connection, address


class Connection(asyncio.Protocol):
    """One connection, before one of uvicorn's protocols in the order of classes.

    It closes when its request is not whole in time, and when nobody reads the answer.  Where there
    are too many, the one that has waited longest for a request makes room."""

    seconds: ClassVar[float]
    most: ClassVar[int]
    opened: ClassVar[dict["Connection", None]]  # those that have waited longest come first
    transport: asyncio.Transport
    begun: float  # when the first byte of the request came, a time of the loop
    is_between: bool  # no byte of the next request has come
    is_whole: bool = True
    has_rest: bool = False  # of a request that was answered before it was whole
    unread: float  # bytes of answers at the last look

    def __init__(self, *args: Any, app_state: dict[str, Any], **options: Any):
        super().__init__(*args, app_state=app_state | {KEY: self}, **options)  # type: ignore[call-arg]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.unread = math.inf
        self.opened[self] = None
        self.answered()
        self.alarm = self.loop.call_later(self.seconds + GRACE, self._look)
        if len(self.opened) > self.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self.is_between:
            self.begun, self.is_between = self.loop.time(), False
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.opened.pop(self, None)
        self.alarm.cancel()
        super().connection_lost(exc)

    def started(self) -> None:
        """The head of a request is here; bytes before may have been the rest of the last one."""
        if self.has_rest:
            self.begun = self.loop.time()
            self.has_rest = False

    def taken(self) -> None:
        """The application has the whole request, and takes the time that it needs."""
        self.is_whole = True

    def answered(self) -> None:
        """The next request may come; its time begins with its first byte."""
        self.begun = self.loop.time()
        self.has_rest = not self.is_whole
        self.is_between, self.is_whole = True, False
        if self in self.opened:  # to its end
            del self.opened[self]
            self.opened[self] = None

    def _make_room(self) -> None:
        longest = next((each for each in self.opened if not each.is_whole), self)
        del self.opened[longest]
        longest.transport.abort()

    def _look(self) -> None:
        """Close the connection, or look again later."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        late = self.begun + self.seconds + GRACE
        if 0 < unread < self.unread:
            late = now + UNREAD
        elif self.is_whole and not unread:
            late = now + self.seconds
        self.unread = unread or math.inf
        if now < late:
            self.alarm = self.loop.call_at(late, self._look)
        else:
            self.transport.abort()


def connections(seconds: float, most: int) -> type[asyncio.Protocol]:
    """The class of the connections of one service."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    limits = {"seconds": seconds, "most": most, "opened": {}}
    return type("Connection", (Connection, AutoHTTPProtocol), limits)
