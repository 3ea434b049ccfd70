"""An event loop whose time is virtual: it jumps to the next timer once nothing else can happen, sockets included.

All parts of a play live in one loop: the gateway, the platforms, the model, the people. Their timers are the loop's, so
that a time-out of an HTTP library, the pace of an answer and a reminder in an hour follow one clock. What is outside
the loop is waited for before anything else goes on: threads, and bytes on their way through the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import fcntl
import selectors
import socket
import struct
import threading
import time
from asyncio import wrap_future
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

START = 1000.0
EPOCH = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""The time of day at which every play begins: a Monday morning."""
STUCK_SECONDS = 60.0
"""Real seconds after which a thread, or bytes that nobody takes, are a mistake of the test."""
_SIOCOUTQ = 0x5411
"""ioctl(2) of a socket, see tcp(7): bytes that the other side has not confirmed."""

side: contextvars.ContextVar[int] = contextvars.ContextVar("side", default=0)
"""To which process a task would belong if there were several: 0 is the world around the gateways."""


class Stuck(AssertionError):
    """Nothing will happen any more, or something outside the loop does not end."""


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting it turns the clock forward."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.loop.wait_for_threads()
        events = super().select(0)
        if events or timeout == 0:
            return events
        began = time.perf_counter()
        while self._bytes_on_their_way():
            if events := super().select(0.001):
                return events
            if time.perf_counter() - began > STUCK_SECONDS:
                raise Stuck("bytes stay in a socket")
        if timeout is None and not self.loop.settling:
            # Nothing is due: a thread that is not counted may still call.
            if events := super().select(STUCK_SECONDS):
                return events
            raise Stuck("everything waits for something that time does not bring")
        self.loop.jump()
        return events

    def _bytes_on_their_way(self) -> bool:
        """Whether any socket waits for a confirmation; who has read the bytes is made to send it."""
        numbers = [key.fd for key in self.get_map().values()]
        if not any(map(_unconfirmed, numbers)):
            return False
        for number in numbers:
            with contextlib.suppress(OSError), socket.socket(fileno=number) as connection:
                try:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                finally:
                    connection.detach()
        return any(map(_unconfirmed, numbers))


def _unconfirmed(number: int) -> int:
    try:
        answer = fcntl.ioctl(number, _SIOCOUTQ, b"\0" * 4)
    except OSError:  # not a connected socket
        return 0
    return int(struct.unpack("i", answer)[0])


class VirtualLoop(asyncio.SelectorEventLoop):
    """A side that is in `dead` reaches nothing any more, neither a socket nor a thread, as after kill -9."""

    def __init__(self) -> None:
        self._now = START
        self.dead: set[int] = set()
        self._settling: list[asyncio.Future[None]] = []
        self._at_work = 0
        self._resting = threading.Condition()
        self._connections: list[tuple[int, asyncio.Transport]] = []
        self._tasks_of: dict[int, set[asyncio.Task[Any]]] = {}
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        return self._now

    @property
    def settling(self) -> bool:
        return bool(self._settling)

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        self._settling.append(self.create_future())
        await self._settling[-1]

    def jump(self) -> None:
        """Turn the clock to the next timer, unless somebody waits for what comes before that."""
        if self._settling:
            self._settling.pop(0).set_result(None)
            return
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio's heap
        if timers:
            self._now = max(self._now, timers[0].when())

    # Threads.

    def run_in_executor(  # type: ignore[override]  # asyncio's own signature needs a TypeVarTuple
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        if side.get() in self.dead:
            return self.create_future()
        if executor is None:
            executor = self._default_executor = self._default_executor or ThreadPoolExecutor(  # type: ignore[has-type]
                4, thread_name_prefix="asyncio"
            )
        return self.wait_for(executor.submit(func, *args))

    def wait_for(self, working: Future[Any], *, loop: object = None) -> asyncio.Future[Any]:
        """asyncio.wrap_future, which is how the loop hears of any thread's work: it is counted."""
        with self._resting:
            self._at_work += 1
        given = wrap_future(working, loop=self)
        working.add_done_callback(self._done)  # behind that of wrap_future, so that the loop has the result
        return given

    def _done(self, _: Future[Any]) -> None:
        with self._resting:
            self._at_work -= 1
            self._resting.notify_all()

    def wait_for_threads(self) -> None:
        """Stand still until no thread is at work, so that the order of what follows is always the same."""
        with self._resting:
            if not self._resting.wait_for(lambda: not self._at_work, STUCK_SECONDS):
                raise Stuck("a thread does not end")

    # Sides.

    def _new_task(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        mine = self._tasks_of.setdefault((more.get("context") or contextvars.copy_context()).get(side, 0), set())
        mine.add(task)
        task.add_done_callback(mine.discard)
        return task

    def _make_socket_transport(self, *args: Any, **more: Any) -> asyncio.Transport:
        made: asyncio.Transport = super()._make_socket_transport(*args, **more)  # type: ignore[misc]
        self._connections.append((side.get(), made))
        return made

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if side.get() in self.dead:
            raise ConnectionRefusedError("this process is dead")
        await super().sock_connect(sock, address)

    def kill(self, number: int) -> None:
        """A side is gone at this moment: its connections break, and nothing that it still does has any effect."""
        self.dead.add(number)
        for owner, transport in self._connections:
            if owner == number:
                transport.abort()

    async def bury(self, number: int) -> None:
        """Cancel the tasks of a side until there are none left."""
        for _ in range(20):
            tasks = {task for task in self._tasks_of.get(number, ()) if not task.done()}
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1)
        raise Stuck(f"tasks do not end: {sorted(task.get_name() for task in tasks)}")


class LoopClock(SystemClock):
    """The gateway's clock, which follows `time` as `virtual_time` sets it."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)


@contextmanager
def virtual_time(loop: VirtualLoop) -> Iterator[None]:
    """The module `time` tells the loop's time meanwhile: the simulators stamp by it what they see. And what is given to
    a pool past the loop is counted too, as the opening of a database is, and the work on files."""
    real = time.time, time.monotonic
    begin = EPOCH.timestamp() - START
    time.time, time.monotonic = lambda: begin + loop.time(), loop.time
    asyncio.wrap_future = loop.wait_for  # type: ignore[assignment]  # nobody here wraps a future of the loop
    try:
        yield
    finally:
        time.time, time.monotonic = real
        asyncio.wrap_future = wrap_future
