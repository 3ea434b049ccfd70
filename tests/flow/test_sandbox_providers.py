"""One story with each provider: files in and out, a command that is seen and stopped, and kill -9 of the gateway."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.flow.sandbox_providers import BENCHES
from tests.flow.sandboxed import bash, call, until_gone, until_running
from tests.simulators.telegram.seen import ALICE, FileSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.flow.sandbox_providers import Provided

TABLE = FileSpec(name="sales.csv", mime="text/csv", content=b"month,sum\nmay,41\njune,1\n")
SUM = """awk -F, 'NR>1 {s+=$2} END {print "sum is " s}' /mnt/user-data/uploads/*-sales.csv"""
PRESENT = call("present_files", paths=["/mnt/user-data/outputs/report.txt"])
FAST = {"channels": {"telegram": {"rate": {"per_chat_per_second": 20}}}}
"""Tests talk faster than people."""
START_SECONDS = 40.0
"""For the first answer of a process: it starts its sandbox meanwhile."""
STOPPED_SECONDS = 1.5
"""From what a person types to the last process: a second for the gateway, the rest for the way there."""
KILLED_SECONDS = 5.0


@pytest.fixture(params=BENCHES)
async def provided(world: World, open_folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Provided]:
    world.folder = open_folder
    apart = {"progress": "full", "busy": "queue", "join_seconds": 0}  # a person who writes faster than the answers come
    world.settings = {"access": {"admins": [f"telegram:{ALICE.id}"]}, "conversations": apart, **FAST}
    async with BENCHES[request.param](world) as made:
        yield made


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process on this machine sleeps."""
    return f"60.{uuid.uuid4().int % 10**9}"


async def test_one_story_with_each_provider(world: World, provided: Provided, mark: str) -> None:
    await world.start()
    await files_both_ways(world)
    await named_honestly(world, provided)
    await stopped_in_mid_command(world, mark)
    before = provided.containers(world)
    await killed_in_mid_command(world, mark)
    assert provided.containers(world) == before
    async with world:
        await told_and_working_on(world)
        assert provided.containers(world) == before, "found again, not made anew"
    assert provided.containers(world) == {}


async def named_honestly(world: World, provided: Provided) -> None:
    await world.telegram.user_says("/status")
    answer = await world.telegram.wait_for_text(ALICE, "Sandbox:")
    for line in provided.told:
        assert line in answer.text


async def files_both_ways(world: World) -> None:
    report = bash(f"{SUM} | tee /mnt/user-data/outputs/report.txt; id -u >who; touch kept")
    await world.telegram.user_says("\n".join([report, PRESENT]), file=TABLE)
    sent = await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files), timeout=START_SECONDS)
    assert sent.files[0]["sha256"] == hashlib.sha256(b"sum is 42\n").hexdigest()
    await world.telegram.wait_for_text(ALICE, "sum is 42")
    await world.telegram.user_says(bash("cat who"))
    answer = await world.telegram.wait_for_text(ALICE, "Tool result: ")
    assert answer.text != "Tool result: 0", "commands are never root's"


async def stopped_in_mid_command(world: World, mark: str) -> None:
    await world.telegram.user_says(bash(f"echo begun; (sleep {mark} & setsid sleep {mark} & wait)"))
    await until_running(mark)
    await world.telegram.wait_for_text(ALICE, f"sleep {mark} & wait) (1 s)")
    await world.telegram.user_says("/stop")
    await until_gone(mark, STOPPED_SECONDS)
    await world.telegram.wait_for_text(ALICE, "Stopped.")


async def killed_in_mid_command(world: World, mark: str) -> None:
    await world.telegram.user_says(bash(f"touch begun; setsid sleep {mark} & sleep {mark}"))
    await until_running(mark)
    await world.kill()
    await until_gone(mark, KILLED_SECONDS)


async def told_and_working_on(world: World) -> None:
    """The model knows that a command was interrupted; the thread's files are still there."""
    await world.telegram.wait_for_text(ALICE, "wholly, in part or not at all", timeout=START_SECONDS)
    await world.telegram.user_says(bash("ls"))
    answer = await world.telegram.wait_for_text(ALICE, "begun\nkept\nwho")
    assert "begun\nkept\nwho" in answer.text
