"""What /status and `antler status` tell, from the same facts; silence is not called a connection."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from bot.control.logs import configure
from bot.control.server import describe
from bot.redaction import Redactor
from bot.settings.busy_policies import QUEUED
from channels.base import ConnectionState
from channels.message import Unparsed
from tests.bot.core import ANN, BOB, EVE, RULES, SECRET, core

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("state", "silence", "told"),
    [
        (ConnectionState.CONNECTED, 89.0, "connected"),
        (ConnectionState.CONNECTED, 91.0, "retrying"),
        (ConnectionState.CONNECTED, None, "retrying"),
        (ConnectionState.CONNECTED, -5.0, "connected"),
        (ConnectionState.CONNECTING, 1.0, "connecting"),
        (ConnectionState.STOPPED, 500.0, "stopped"),
    ],
)
async def test_a_silent_connection_is_not_called_connected(
    tmp_path: Path, state: ConnectionState, silence: float | None, told: str
) -> None:
    async with core(tmp_path) as c:
        await c.clock.settle()
        health = c.channel.health
        health.state = state
        health.last_sign = None if silence is None else c.clock.monotonic() - silence
        facts = await c.status.machine()
        assert facts["connections"][0]["state"] == told
        assert facts["healthy"] is (told == "connected")
        assert json.loads(json.dumps(facts)) == facts


async def test_a_chat_is_told_its_own_connection_in_full_and_the_others_in_a_word(tmp_path: Path) -> None:
    async with core(tmp_path, accounts=("memory", "other")) as c:
        await c.clock.settle()
        c.channels["other"].health.state = ConnectionState.RETRYING
        c.channel.health.detail = "slow network"
        await c.say("hello")
        await c.clock.advance(30)
        await c.say("/new Plans")
        await c.say("/status")
        await c.answered()
        text = c.texts()[-1]
        assert text.startswith(
            f"**Antler {version('antler')}**, up 30 s\n\n- Connection: connected, last sign of life 0 s ago (slow"
        )
        for line in ("- Model: `main`", "- Thread: Plans (`", "- Running: nothing", "- Waiting: 0"):
            assert line in text
        assert text.endswith("- Other connections: other reconnecting")


async def test_what_the_sandbox_lacks_is_for_admins(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for person in (ANN, BOB):
            await c.say("/status", person)
        await c.answered()
        (admin,), (other,) = c.texts(ANN), c.texts(BOB)
        for text in (admin, other):
            assert "- Sandbox: memory, commands run isolated" in text
        assert ("it is only a test" in admin, "it is only a test" in other) == (True, False)
        assert (await c.status.machine())["sandbox"] == "memory: commands run isolated; it is only a test"


async def test_tokens_age_and_step_of_a_run_are_told(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("hello")
        await c.answered()
        gate = c.harness.hold("work")
        await c.say("work")
        await c.clock.advance(65)
        await c.say("/status")
        await c.clock.advance(1)
        text = c.texts()[-1]
        assert "10 tokens read, 2 written" in text
        assert "Running: for 65 s, model call 1" in text
        assert (await c.status.machine())["running"] == 1
        gate.set()
        await c.answered()
        assert c.texts(ANN)[1] == "The whole answer"


async def test_events_that_could_not_be_read_are_told(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.clock.settle()
        assert (await c.status.machine())["unreadable"] == 0
        assert "could not be read" not in describe(await c.status.machine())
        now = c.clock.now()
        keys = ("k1", "k2")
        await c.receive(
            *(
                Unparsed(account="memory", dedupe_keys=(k,), raw="{}", error="text: what", sent_at=now, received_at=now)
                for k in keys
            )
        )
        facts = await c.status.machine()
        assert facts["unreadable"] == 2
        assert "  2 events could not be read since the start: see the log" in describe(facts).splitlines()
        assert facts["healthy"] is True


async def test_it_tells_what_waits_for_its_turn_and_for_persons(tmp_path: Path) -> None:
    limits = {"gateway_day": {"tokens": 1000}}
    async with core(tmp_path, replace(RULES, pairing=True), turns=QUEUED, budgets=limits) as c:
        release = c.harness.hold("hold")
        await c.say("hold", ANN)
        await c.say("behind", ANN)
        await c.clock.advance(20)
        await c.say("let me in", EVE)
        await c.clock.settle()
        facts = await c.status.machine()
        assert facts["queue_age"] == 20
        assert facts["pairings"] == 1
        told = describe(facts).splitlines()
        assert "  queue: the oldest message has waited for 20 s" in told
        assert "  1 pairing waiting (antler access list)" in told
        assert "  budgets.gateway_day.tokens: 0% used today" in told
        assert any(line.startswith("  disk ") for line in told)
        release.set()
        await c.answered()


async def test_it_tells_the_newest_errors_without_secrets(tmp_path: Path) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("info", "text", Redactor([SECRET]))
    try:
        async with core(tmp_path) as c:
            for number in range(7):
                logging.getLogger("bot.test").error("failed %d with %s\nsecond line", number, SECRET)
            logging.getLogger("bot.test").warning("no error")
            errors = (await c.status.machine())["errors"]
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert [line.partition("failed ")[2][0] for line in errors] == ["2", "3", "4", "5", "6"]
    assert all(SECRET not in line and "second" not in line for line in errors)
