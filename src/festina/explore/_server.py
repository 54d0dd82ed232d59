"""The server of the explorer. It listens on this computer only."""

import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ._lecture import Lecture
from ._live import Threads
from ._pages import ROUTES
from ._runner import Runner

HOST, PORT = "127.0.0.1", 8765
HOSTS = ["127.0.0.1", "localhost"]
_TRIES = 100  # ports that are tried
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class SameOrigin:
    """Refuse requests from other web pages, and forbid our pages to load from other servers."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        ours = f"http://{headers.get('host')}"
        if origin != ours and (scope["type"] == "websocket" or origin is not None):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 4403})
            else:
                words = "The explorer refuses requests from other web pages."
                await PlainTextResponse(words, 403)(scope, receive, send)
            return

        async def with_policy(sent: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
            if sent["type"] == "http.response.start":
                names = {name.lower() for name, _ in sent["headers"]}
                if b"content-security-policy" not in names:
                    sent["headers"].append((b"content-security-policy", _POLICY.encode()))
                sent["headers"].append((b"x-content-type-options", b"nosniff"))
            await send(sent)

        await self._app(scope, receive, with_policy)  # pyright: ignore[reportArgumentType]


def application(runs: Path, lecture: Lecture | None = None) -> Starlette:
    """Return the web application: pages of scenes, experiments and runs below the folder `runs`."""

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.runs, app.state.lecture, app.state.threads = runs, lecture, Threads()
        app.state.runner = Runner(runs)
        threading.Thread(target=_import, daemon=True).start()
        yield
        app.state.threads.stop()
        app.state.runner.stop()

    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
        Middleware(SameOrigin),
    ]
    return Starlette(routes=ROUTES, middleware=middleware, lifespan=life)


def _import() -> None:
    """Import the slow packages while the browser opens the page."""
    import bokeh.plotting  # noqa: F401

    import festina.dynamics  # noqa: F401
    from festina._cache import switched_on

    switched_on()


def serve(app: Starlette, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted; call `started` with the address once the port is taken."""
    with free_socket(port) as taken:
        started(f"http://{HOST}:{taken.getsockname()[1]}/")
        server(app).run(sockets=[taken])


def server(app: Starlette) -> uvicorn.Server:
    """Return a server that ends within a second when it is asked to."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=2**16,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def free_socket(port: int) -> socket.socket:
    """Return a socket at the first free port from `port` on."""
    for candidate in range(port, min(port + _TRIES, 65536)):
        if candidate in _BLOCKED:
            continue
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, candidate))
            made.listen(128)
            return made
        except OSError:
            made.close()
    raise ValueError(f"No port from {port} to {port + _TRIES - 1} is free. Give another `--port`.")


_BLOCKED = {
    *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6697, 10080),
    *range(6665, 6670),
}
"""Ports above 1023 that browsers refuse to open."""
