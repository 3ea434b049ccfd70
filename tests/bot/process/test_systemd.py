"""The notify protocol of systemd, over real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from bot.process.systemd import Supervisor

if TYPE_CHECKING:
    from pathlib import Path


def listening(address: str) -> socket.socket:
    """The manager's end. Closed by the caller."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.bind(address)
    end.settimeout(10)
    return end


def heard(end: socket.socket) -> dict[str, str]:
    """One datagram, its lines by name."""
    return dict(line.split("=", 1) for line in end.recv(4096).decode().split("\n"))


def waiting(end: socket.socket) -> int:
    """How many datagrams wait, which are taken."""
    count = 0
    end.setblocking(False)
    while True:
        try:
            end.recv(4096)
        except BlockingIOError:
            end.settimeout(10)
            return count
        count += 1


@pytest.mark.parametrize("abstract", [False, True])
async def test_it_says_that_it_is_ready_how_it_is_and_that_it_ends(tmp_path: Path, abstract: bool) -> None:
    name = f"antler-test-{os.getpid()}"
    place = f"@{name}" if abstract else f"{tmp_path}/notify"
    with closing(listening(f"\0{name}" if abstract else place)) as end:
        environment = {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "300000", "WATCHDOG_PID": str(os.getpid()), "KEEP": "1"}
        supervisor = Supervisor.of(environment)
        assert environment == {"KEEP": "1"}
        serving = asyncio.create_task(supervisor.serve(lambda: "1 of 2 accounts connected"))
        assert await asyncio.to_thread(heard, end) == {"READY": "1"}
        for _ in range(3):
            ping = await asyncio.to_thread(heard, end)
            assert ping == {"WATCHDOG": "1", "STATUS": "1 of 2 accounts connected"}
        serving.cancel()
        await asyncio.wait({serving})
        waiting(end)
        before = time.monotonic_ns() // 1000
        supervisor.reloading(True)
        said = heard(end)
        assert said["RELOADING"] == "1"
        assert before <= int(said["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        supervisor.reloading(False)
        assert heard(end) == {"READY": "1"}
        supervisor.stopping()
        assert heard(end)["STOPPING"] == "1"


async def test_a_loop_that_hangs_falls_silent(tmp_path: Path) -> None:
    with closing(listening(f"{tmp_path}/notify")) as end:
        serving = asyncio.create_task(Supervisor(f"{tmp_path}/notify", watchdog=0.09).serve(str))
        for _ in range(3):
            await asyncio.to_thread(heard, end)
        waiting(end)
        time.sleep(0.5)  # noqa: ASYNC251  # what is tested: somebody blocks the loop
        assert waiting(end) == 0
        await asyncio.to_thread(heard, end)
        serving.cancel()
        await asyncio.wait({serving})


@pytest.mark.parametrize(
    ("environment", "watchdog"),
    [
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_watchdog_is_asked_for_by_the_variables(environment: dict[str, str], watchdog: float) -> None:
    assert Supervisor.of(environment)._watchdog == watchdog


async def test_without_a_manager_nothing_is_said_and_a_missing_one_harms_nobody(tmp_path: Path) -> None:
    await Supervisor().serve(str)
    gone = Supervisor(f"{tmp_path}/gone")
    gone.stopping()
    serving = asyncio.create_task(gone.serve(str))
    await asyncio.sleep(0)
    assert not serving.done()
    serving.cancel()
    await asyncio.wait({serving})
