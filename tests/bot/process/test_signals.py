"""How a process ends when it is asked to, asked twice, or hangs."""

from __future__ import annotations

import signal
import subprocess
import sys

from bot.process.terminal import FORCED
from tests.simulators.process import REPO_ROOT

HANGS = "import time; from bot.process import terminal; terminal.end_after(0.2, terminal.LastResort()); time.sleep(60)"
WAITS = """
import asyncio
from bot.process import terminal

async def main():
    terminal.on_stop(lambda: print("asked", flush=True), terminal.LastResort(), hangs_up=False)
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_stop_that_hangs_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], cwd=REPO_ROOT, capture_output=True, timeout=30)
    assert done.returncode == FORCED
    assert b"still stopping" in done.stderr


def test_the_first_signal_asks_and_the_second_forces() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], cwd=REPO_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == FORCED
