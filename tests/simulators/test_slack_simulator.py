"""The Slack simulator as a whole: its process, its isolation, and one conversation with the real SDK.

The details of its answers are tested in tests/simulators/slack/.
"""

import asyncio
import os
import signal
from typing import Any

import pytest
from slack_bolt.context.say.async_say import AsyncSay

from tests.simulators.client import SimulatorError
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack.bolt import bolt_app, web_client
from tests.simulators.slack.client import MODULE, connect, running_slack
from tests.simulators.slack.seen import ALICE, BOB, TEAM

pytestmark = pytest.mark.timeout(60)


async def answer(event: dict[str, Any], say: AsyncSay) -> None:
    """The app under test: answers in threads."""
    if "subtype" not in event and "thread_ts" in event:
        await say(text=f"heard: {event['text']}", thread_ts=event["thread_ts"])


async def test_a_mention_is_answered_in_its_thread() -> None:
    async with running_slack() as slack, bolt_app(slack, on_message=answer):
        root = await slack.channel_says("@antler hello")
        await slack.channel_says("and more", thread=root.ts, user=BOB)
        seen = await slack.wait_for_text(TEAM, "heard: and more")
        assert (seen.thread, seen.user) == (root.ts, slack.bot_user_id)
        await slack.wait_idle(quiet=0.1)
        transcript = await slack.transcript(TEAM)
        assert [line.split(": ", 1)[1] for line in transcript.splitlines()] == [
            f"{slack.mention} hello",
            "and more",
            "heard: and more",
        ]


async def test_apps_are_apart() -> None:
    async with running_slack() as first:
        second = await first.fresh_app()
        await first.user_says("only for the first")
        assert await second.envelopes() == []
        await web_client(first).chat_postMessage(channel=first.channel_id(ALICE), text="hello")
        assert [record.method for record in await first.records()] == ["chat.postMessage"]
        assert await second.records() == []
        with pytest.raises(SimulatorError, match="unknown channel"):
            await second.messages(first.channel_id(ALICE))


async def call_unknown_method(process: SimulatorProcess) -> None:
    async with connect(process) as slack:
        answer = await slack._http.post(f"{slack.api_url}emoji.list")
        assert answer.json()["error"] == "unknown_method"


async def test_an_unimplemented_method_fails_at_the_end() -> None:
    async with SimulatorProcess(MODULE) as process:
        with pytest.raises(SimulatorError, match=r"unimplemented method called: emoji\.list"):
            await call_unknown_method(process)


async def test_it_ends_with_its_parent() -> None:
    async with running_slack() as slack:
        await slack.user_says("nobody listens, and a repetition is due in a minute")
        port = int(slack.root.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_sigterm_ends_it_too() -> None:
    async with SimulatorProcess(MODULE) as process:
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        os.kill(process.pid, signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
