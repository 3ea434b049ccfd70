"""Processes that nobody waits for any more: a start that is cancelled, a keeper that is killed."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys

import psutil
import pytest

from harness.mcp import keeper
from harness.mcp.stdio import started


@pytest.mark.parametrize("turns", range(1, 7))
async def test_of_a_start_that_is_cancelled_nothing_is_left(turns: int) -> None:
    files, others = len(os.listdir("/proc/self/fd")), _children()
    starting = asyncio.create_task(started(["sleep", "60"], {"PATH": os.environ["PATH"]}, None, 1000))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.sleep(0)  # transports give their pipes back a turn later
    assert _children() <= others
    assert len(os.listdir("/proc/self/fd")) <= files


def _children() -> set[int]:
    """Of this process, which other tests' servers may be among."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}


def test_a_killed_keeper_takes_its_program_along() -> None:
    control, ours = os.pipe()
    announce = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    command = [sys.executable, "-I", "-S", keeper.__file__, str(control), sys.executable, "-c", announce]
    with subprocess.Popen(command, pass_fds=(control,), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        program = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        poll = select.poll()
        poll.register(program, select.POLLIN)
        assert poll.poll(10_000)  # milliseconds; it would run for a minute
    os.close(program)
    os.close(control)
    os.close(ours)
