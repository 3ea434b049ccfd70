"""What a hostile command tries beside getting out: to be uncounted, to outlive its sandbox, to stop the gateway."""

from __future__ import annotations

import asyncio
import platform
import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox.base import CommandResult, SandboxError
from sandbox.config import SandboxLimits, SandboxSettings
from sandbox.files.workspace import Workspaces
from sandbox.kernel.syscall_numbers import AARCH64, X86_64
from sandbox.local.bubblewrap import BubblewrapProvider
from sandbox.local.process import NotStarted
from tests.sandbox.conftest import private_folder
from tests.sandbox.modes import BUBBLEWRAP_USER, LANDLOCK, Driver, Mode
from tests.sandbox.test_limits import FINE, LONG, SMALL, outputs, python

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CLOSE = """
import os
def close(path, mode):
    folder = os.open(path, os.O_RDONLY)
    os.fchmod(folder, mode)
    os.close(folder)
"""
CLOSED = {
    "a folder whose names can be read": "os.mkdir('d'); open('d/f', 'w').close(); close('d', 0o400)",
    "one of the thread's own": "close('../uploads', 0)",
}
"""Landlock has no chmod, so that these go by descriptor."""
SEND = """
import socket, time
kept = []
try:
    while True:
        kept += socket.socketpair()
        socket.send_fds(kept[-1], [b"x"], [0] * 253)
except OSError:
    open("sent", "w").close()
    time.sleep(60)
"""
FILL = "for n in $(seq 200); do head -c 4M /dev/zero >f$n || exit 1; done; sleep 60"


@pytest.mark.parametrize("closed", CLOSED)
def test_what_is_closed_is_counted(driver: Driver, closed: str) -> None:
    driver.settings = SMALL
    answer = driver.run((f"{python(CLOSE + CLOSED[closed])}\n{FILL}", LONG), ("rm -f f*; echo fine", LONG))
    assert answer["results"][0]["ending"] == "out_of_space"
    assert outputs(answer)[1] == "fine"


def test_folders_that_move_and_close_all_the_time_are_full(driver: Driver) -> None:
    driver.settings = SMALL
    games = """
import itertools, os
os.makedirs("a/b/c/d"); os.makedirs("e")
if os.fork():
    while True:
        os.rename("a/b", "e/b"); close("e/b/c", 0o100); os.rename("e/b", "a/b")
        os.system("chmod 700 a/b/c")
for n in itertools.count():
    os.mkdir(f"n{n}")
"""
    answer = driver.run((python(CLOSE + games), LONG), FINE)
    assert answer["results"][0]["ending"] in ("out_of_space", "exited")
    assert sum(1 for _ in driver.workspace.iterdir()) < 60_000
    assert outputs(answer)[1] == "fine"


def test_a_closed_workspace_is_open_again_for_the_next_run(driver: Driver) -> None:
    driver.run((python(CLOSE + "close('.', 0)"), LONG))
    assert outputs(driver.run(FINE)) == ["fine"]


def test_what_is_counted_for_the_machine_is_not_a_commands_to_take(driver: Driver, mode: Mode) -> None:
    number = {"x86_64": X86_64, "aarch64": AARCH64}[platform.machine()]["io_setup"]
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({number}, 512, ctypes.byref(ctypes.c_ulong(0))), libc.inotify_init1(0) >= 0)
"""
    assert outputs(driver.run((python(code), LONG))) == ["-1 False" if mode is LANDLOCK else "-1 True"]


def test_descriptors_on_their_way_stop_nobodys_commands(open_folder: Path, driver: Driver, mode: Mode) -> None:
    driver.prefix = ("/usr/bin/prlimit", "--nofile=1024:")
    other = replace(driver, folder=private_folder(open_folder / "other", mode))
    begun = driver.start((python(SEND), LONG))
    deadline = time.monotonic() + LONG
    try:
        while not (driver.workspace / "sent").exists():
            assert time.monotonic() < deadline
        assert outputs(other.run(FINE)) == ["fine"]
    finally:
        begun.kill()
        begun.communicate()


def test_memory_of_no_process_is_only_for_commands_whose_memory_is_bounded_together(driver: Driver) -> None:
    answer = driver.run((python("import os; print(os.memfd_create('x'))"), LONG))
    unbounded = any(each.startswith("memory is limited for each process") for each in answer["report"]["shortfalls"])
    assert (answer["results"][0]["exit_code"] != 0) == unbounded


@asynccontextmanager
async def provided(folder: Path, **limits: int) -> AsyncIterator[BubblewrapProvider]:
    BUBBLEWRAP_USER.require()
    settings = SandboxSettings(limits=SandboxLimits(**limits))
    workspaces = Workspaces(lambda thread: folder / thread / "user-data", settings)
    provider = BubblewrapProvider(settings, workspaces, instance=f"attack-{uuid.uuid4().hex[:8]}")
    await provider.start()
    try:
        yield provider
    finally:
        await provider.shutdown()


@pytest.mark.parametrize("steps", range(6))
async def test_a_command_that_is_being_started_ends_with_its_sandbox(tmp_path: Path, steps: int) -> None:
    async with provided(tmp_path) as provider:
        sandbox = await provider.acquire("t")
        running = asyncio.create_task(sandbox.execute_command("sleep 600", timeout=LONG))
        for _ in range(steps):
            await asyncio.sleep(0)
        await provider.release("t")
        assert running.done() or not steps
        with pytest.raises(SandboxError):
            await running


async def test_commands_beyond_the_number_of_processes_say_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with provided(tmp_path, processes=4) as provider:
        sandbox = await provider.acquire("t")
        results = await asyncio.gather(
            *(sandbox.execute_command("sleep 1; echo fine", timeout=LONG) for _ in range(40)), return_exceptions=True
        )
        assert {type(each) for each in results} <= {CommandResult, NotStarted, SandboxError}
        assert (await sandbox.execute_command("echo fine", timeout=LONG)).output == "fine\n"
    assert "Traceback" not in capfd.readouterr().err
