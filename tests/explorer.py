"""A running explorer for tests, and a client that talks to it like a browser."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bokeh", reason="needs the extra explore")
from websockets.sync.client import ClientConnection, connect

from festina.explore._lecture import Lecture
from festina.explore._server import HOST, application, free_socket, server


@dataclass(frozen=True)
class Explorer:
    """An explorer at a port of this computer."""

    port: int

    @property
    def address(self) -> str:
        """Return the address without a slash at the end, which is also its origin."""
        return f"http://{HOST}:{self.port}"

    def get(
        self, path: str, *, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        """Return status, text and headers of an answer; the path is sent as it is."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace"), answer.headers

    def socket(self, path: str, origin: str | None = "") -> ClientConnection:
        """Open a socket, as a page of the explorer unless another `origin` is given."""
        address = f"ws://{HOST}:{self.port}{path}"
        shown: Any = self.address if origin == "" else origin
        # The first socket waits until JAX is imported.
        return connect(address, open_timeout=60, origin=shown)


@contextlib.contextmanager
def explorer(runs: Path, lecture: Lecture | None = None) -> Iterator[Explorer]:
    """Run an explorer in a thread."""
    with free_socket(20_000) as taken:
        running = server(application(runs, lecture))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield Explorer(taken.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


def read(data: str | bytes) -> dict:
    """Return the head of a message that the server sends to the page of a scene."""
    assert isinstance(data, bytes)
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length])
