"""The live part of a scene's page: knobs in, theory and training out, over one WebSocket.

The page sends the positions of its knobs with a growing number. Only the answer to the latest
number matters: training for an older number stops at its next report of progress.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pydantic
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..experiments._invalid import invalid
from ._frames import message
from ._scene import Numbers, Scene, SceneKnobs, difference
from .scenes import load_scene

_OFTEN = 0.2  # seconds between two messages about progress
_UNREAD = 64  # messages that a page may leave unread before its training stops


class Outdated(Exception):
    """Raised within training when the page has sent new knobs, or is closed."""


class Threads:
    """Threads of the server: theory has its own threads, so that it never waits for training."""

    def __init__(self):
        self.theory = ThreadPoolExecutor(2, "theory")
        self.training = ThreadPoolExecutor(2, "training")
        self._cold: dict[str, list[SceneKnobs]] = {}
        self._lock = threading.Lock()

    def cold(self, scene: Scene) -> list[SceneKnobs]:
        """Return the knobs of a scene whose programs are not compiled yet; callers pop them."""
        with self._lock:
            return self._cold.setdefault(scene.entry.name, list(scene.warm))

    def stop(self) -> None:
        """Accept no more work, and drop the work that is waiting."""
        for pool in (self.theory, self.training):
            pool.shutdown(wait=False, cancel_futures=True)


class Live:
    """One open page of a scene: its latest knobs, and the messages that are queued for it."""

    def __init__(self, scene: Scene, threads: Threads):
        self._scene, self._threads = scene, threads
        self._loop = asyncio.get_running_loop()
        self._wanted = asyncio.Event()
        self._number, self._knobs = 0, scene.knobs()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    def want(self, text: str) -> None:
        """Take a message of the page; a message with an older number is ignored."""
        try:
            wish = json.loads(text)
            number, values = int(wish["n"]), dict(wish["knobs"])
            if number <= self._number:
                return
            self._number = number
            self._knobs = self._scene.knobs(**values)
        except pydantic.ValidationError as error:
            self._put({"kind": "error", "n": self._number, "words": invalid(error)})
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            words = "The page sent a message that the explorer does not understand."
            self._put({"kind": "error", "n": self._number, "words": words})
        else:
            self._wanted.set()

    def close(self) -> None:
        """Stop the work for this page, because the page is closed."""
        self._number = -1

    async def answer(self) -> None:
        """Answer the latest knobs, again and again: theory at once, then training."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            number, knobs = self._number, self._knobs
            # The page waits for this theory before it sends newer knobs.
            theory = await self._run(self._threads.theory, self._predict, number, knobs)
            if theory is not None and number == self._number:
                self._run(self._threads.training, self._train, number, knobs, theory)

    async def send(self, write: Callable[[bytes], Any]) -> None:
        """Send the messages to the page, in order."""
        while True:
            await write(await self._out.get())

    def _run(
        self, pool: Executor, function: Callable[..., Any], *given: Any
    ) -> "asyncio.Future[Any]":
        return self._loop.run_in_executor(pool, function, *given)

    def _predict(self, number: int, knobs: SceneKnobs) -> Numbers | None:
        try:
            theory = self._scene.theory(knobs)
            head = {"kind": "theory", "n": number, **self._scene.words(knobs, theory)}
            self._put(head, theory)
            return theory
        except Exception as error:
            self._put({"kind": "error", "n": number, "words": _said(error)})
            return None

    def _train(self, number: int, knobs: SceneKnobs, theory: Numbers) -> None:
        due = time.monotonic() + _OFTEN

        def progress(words: str, fraction: float) -> None:
            nonlocal due
            if self._number != number or self._out.qsize() > _UNREAD:
                raise Outdated
            if (now := time.monotonic()) > due:
                due = now + _OFTEN
                self._put({"kind": "status", "n": number, "words": words})

        try:
            progress("training", 0.0)
            apart = []
            for seed, trained in enumerate(self._scene.train(knobs, progress)):
                progress("training", 0.0)
                self._put({"kind": "training", "n": number, "seed": seed}, trained)
                apart.append(difference(theory, trained))
            words = _agreement(self._scene.compared, max(apart), self._scene.allowed(knobs))
            self._put({"kind": "trained", "n": number, "words": words})
            self._warm_up(number, progress)
        except Outdated:
            pass
        except Exception as error:
            self._put({"kind": "error", "n": number, "words": _said(error)})

    def _warm_up(self, number: int, progress: Callable[[str, float], None]) -> None:
        """Compile the programs for other knobs, until the page sends new knobs."""
        cold = self._threads.cold(self._scene)
        total = len(cold)
        while cold:
            words = f"compiling programs for other knob positions: {len(cold)} of {total} left"
            self._put({"kind": "status", "n": number, "words": words})
            knobs = cold.pop()
            try:
                self._scene.theory(knobs)
                for _ in self._scene.train(knobs, progress):
                    progress(words, 0.0)
            except Outdated:
                cold.append(knobs)
                raise
        self._put({"kind": "status", "n": number, "words": ""})

    def _put(self, head: dict[str, Any], numbers: Numbers | None = None) -> None:
        """Queue a message for the page; any thread may call this."""
        if self._number >= 0:
            self._loop.call_soon_threadsafe(self._out.put_nowait, message(head, numbers))


async def live(socket: WebSocket) -> None:
    """Serve one page of a scene until the page is closed."""
    threads: Threads = socket.app.state.threads
    try:
        scene = await asyncio.get_running_loop().run_in_executor(
            threads.theory, load_scene, socket.path_params["name"]
        )
    except ValueError:
        await socket.close(4404)
        return
    await socket.accept()
    page = Live(scene, threads)
    tasks = [asyncio.create_task(page.answer()), asyncio.create_task(page.send(socket.send_bytes))]
    try:
        while True:
            page.want(await socket.receive_text())
    except (WebSocketDisconnect, RuntimeError, KeyError):  # closed, or sent bytes
        pass
    finally:
        page.close()
        for task in tasks:
            task.cancel()


def _agreement(compared: str, apart: float, allowed: float | None) -> str:
    if allowed is None:
        return "There is no exact prediction for these knobs, so no difference is given."
    return (
        f"Theory and training: {compared} differs by {100 * apart:.2g} % at most; "
        f"up to {100 * allowed:.2g} % is expected."
    )


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
