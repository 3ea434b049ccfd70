"""How a process ends when it is asked to, asked twice, or hangs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bot.process import terminal
from bot.process.standby import Standby
from bot.process.terminal import FORCED
from tests.bot.settings_files import settings_of
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.postgres import PostgresServer

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


@pytest.mark.postgres
async def test_a_signal_that_came_while_the_lead_was_taken_stops_the_one_that_leads(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.database().replace("+psycopg", "")
    text = f"data_dir: {tmp_path}\nchannels: {{console: {{}}}}\ndatabase: {{url: '{url}'}}\n"
    standby, told = Standby(settings_of(tmp_path, text)), list[str]()
    lead = await standby.wait()
    assert lead is not None
    try:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # The loop has read the signal and put the standby's handler behind what goes on here, whose handlers are next.
        terminal.on_stop(lambda: told.append("by its own handler"), terminal.LastResort(), hangs_up=False)
        standby.hand_on(lambda: told.append("by the standby"))
        assert told == []
        await asyncio.sleep(0)
        assert told == ["by the standby"]
        standby.hand_on(lambda: told.append("at once"))
        assert told == ["by the standby", "at once"]
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
        await lead.close()


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
