"""The event loop: what its own tasks hand over need not wake it, and what others hand over does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from bot.process.loop import EventLoop, run
from tests.sandbox.modes import ORDINARY_USER, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SECONDS = 10.0
"""After which the loop wakes up by itself."""


class Counting(EventLoop):
    """woken: how often a byte was written to wake it."""

    def __init__(self) -> None:
        self.woken = 0
        super().__init__()

    def _write_to_self(self) -> None:
        self.woken += 1
        super()._write_to_self()  # type: ignore[misc]  # asyncio's own, which its types leave out


def handed_over(begin: Callable[[Callable[..., None]], None]) -> tuple[list[str], int]:
    """What came of three callbacks, in their order, and how often the loop was woken for them. begin: is given what
    hands them over."""
    came: list[str] = []
    loop = Counting()

    async def main() -> int:
        over = asyncio.Event()

        def hand_over(*_: object) -> None:
            loop.call_soon_threadsafe(came.append, "first")
            loop.call_soon_threadsafe(came.append, "second")
            loop.call_soon_threadsafe(over.set)

        before, began = loop.woken, loop.time()
        begin(hand_over)
        async with asyncio.timeout(MOST_SECONDS):
            await over.wait()
        assert loop.time() - began < MOST_SECONDS / 2
        return loop.woken - before

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return came, runner.run(main())


def test_what_a_task_hands_over_comes_in_its_order_and_wakes_nobody() -> None:
    assert handed_over(lambda hand_over: hand_over()) == (["first", "second"], 0)


def test_what_another_thread_hands_over_wakes_the_loop() -> None:
    came, woken = handed_over(lambda hand_over: threading.Timer(0.1, hand_over).start())
    assert (came, woken) == (["first", "second"], 3)


def test_what_a_signal_hands_over_wakes_the_loop() -> None:
    def begin(hand_over: Callable[..., None]) -> None:
        signal.signal(signal.SIGUSR1, hand_over)
        threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1)).start()

    before = signal.getsignal(signal.SIGUSR1)
    try:
        assert handed_over(begin) == (["first", "second"], 3)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_it_runs_to_the_end_and_gives_the_result() -> None:
    async def main() -> bool:
        return isinstance(asyncio.get_running_loop(), EventLoop)

    assert run(main())


def test_an_ordinary_users_loop_takes_none_of_the_epoll_watches_that_commands_can_use_up() -> None:
    code = """
import os
from bot.process.loop import EventLoop
kept = EventLoop()
print(*(os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")))
kept.close()
"""
    other = ["/usr/bin/setpriv", "--reuid", str(ORDINARY_USER), "--clear-groups"] if os.geteuid() == 0 else []
    held = subprocess.check_output([*other, sys.executable, "-c", code], text=True, cwd=ROOT)
    assert "socket:" in held
    assert "eventpoll" not in held
