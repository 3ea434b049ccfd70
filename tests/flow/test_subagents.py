"""The agent delegates, from the chat to the model's server and back: what people see of it, and how they stop it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.sandboxed import bash, delegates, require_bubblewrap, until_gone, until_running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    async with public_world:
        yield public_world


async def test_the_draft_tells_how_the_tasks_are_going(gateway: World, person: Person, mark: str) -> None:
    one, two = f"one-{mark}", f"two-{mark}"
    tasks = delegates(compare_prices=f"!pause {one}", read_the_report=f"!pause {two}", look_it_up="!say found it")
    await gateway.telegram.user_says("/verbose short", user=person)
    await gateway.telegram.wait_for_text(person, EN.verbose["short"])
    await gateway.telegram.user_says(f"{tasks}\n!say All in all: yes.", user=person)
    await gateway.telegram.wait_for_text(person, "3 tasks: 1 done, 2 running: compare prices")
    for name in (one, two):
        await gateway.model.wait_for_pause(name)
    await gateway.model.release(one)
    await gateway.telegram.wait_for_text(person, "3 tasks: 2 done, 1 running: read the report")
    await gateway.model.release(two)
    await gateway.telegram.wait_for_text(person, "All in all: yes.")
    await gateway.telegram.wait_idle(person)
    _, message = await gateway.telegram.bot_messages(person)
    done = "What I did\n✓ look it up\n✓ compare prices\n✓ read the report"
    assert message.text == f"All in all: yes.\n\n{done}"
    assert [entity["type"] for entity in message.entities] == ["expandable_blockquote"]
    assert "first half" not in await gateway.telegram.transcript(person), "what a subagent writes is not the answer"


async def test_the_lead_agent_reads_how_each_task_ended(gateway: World, person: Person) -> None:
    tasks = delegates(good="!say twelve", bad="!status 401")
    await gateway.telegram.user_says(tasks, user=person)
    answer = await gateway.telegram.wait_for_text(person, "Tool result")
    await gateway.telegram.wait_idle(person)
    assert "general-purpose: completed, 1 model calls" in answer.text
    assert "twelve" in answer.text
    assert "general-purpose: failed" in answer.text


async def test_its_calls_are_counted_to_the_run(gateway: World, person: Person) -> None:
    before = usage_rows(gateway)
    await gateway.telegram.user_says(f"{delegates(a='!say one', b='!say two')}\n!say done", user=person)
    await gateway.telegram.wait_for_text(person, "done")
    await gateway.telegram.wait_idle(person)
    assert usage_rows(gateway) - before == 4, "two of the lead agent and one of each subagent"


def usage_rows(gateway: World) -> int:
    with closing(sqlite3.connect(f"file:{gateway.data_dir / 'antler.db'}?mode=ro", uri=True)) as store:
        return int(store.execute("SELECT count(*) FROM usage").fetchone()[0])


async def test_stop_ends_them_within_a_second(gateway: World, person: Person, mark: str) -> None:
    stuck = delegates(wait=bash(f"sleep {mark}"), hang="!hang")
    await gateway.telegram.user_says("/verbose short", user=person)
    await gateway.telegram.user_says(stuck, user=person)
    await until_running(mark)
    await gateway.telegram.wait_for_text(person, "2 tasks: 2 running")
    await gateway.telegram.user_says("/stop", user=person)
    await until_gone(mark, 1.5)
    await gateway.telegram.wait_for_text(person, "Stopped.")
    await gateway.telegram.user_says(f"{delegates(again='!say free again')}", user=person)
    await gateway.telegram.wait_for_text(person, "free again")
