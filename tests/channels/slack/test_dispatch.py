"""Envelopes through bolt: each is committed once, in order, whatever is in it, and acked only then."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from channels.slack.config import EVENTS
from channels.slack.inbound import Me
from channels.slack.socket import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from channels.slack.inbound import Kind
    from tests.channels.slack.support import Bench
    from tests.simulators.slack.client import SlackSimulator

ME = Me(team="T0TEAM", user="U0BOT", username="antler")
LOG = logging.getLogger("tests.slack.dispatch")
LOG.setLevel(logging.CRITICAL)

# The names that bolt looks at, with anything in them.
# fmt: off
NAMES = st.sampled_from([
    "type", "event", "channel", "channel_id", "team", "team_id", "user", "user_id", "view", "message",
    "container", "item", "authorizations", "command", "payload", "enterprise", "enterprise_id",
    "is_ext_shared_channel", "response_urls", "assistant_thread", "function_data", "actions", "id", "text",
])
# fmt: on
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["event_callback", *EVENTS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
PAYLOADS = st.dictionaries(NAMES, VALUES, max_size=6)
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["events_api", "interactive", "slash_commands"])


class Committed:
    """What was taken, in order. answer: whether it was committed."""

    def __init__(self, *, answer: bool = True) -> None:
        self.answer = answer
        self.taken: list[tuple[Kind, Mapping[str, Any]]] = []
        self.gate = asyncio.Event()

    async def take(self, kind: Kind, payload: Mapping[str, Any]) -> bool:
        self.taken.append((kind, payload))
        await self.gate.wait()
        return self.answer

    def dispatcher(self) -> Dispatcher:
        return Dispatcher(AsyncWebClient("xoxb-none"), LOG, ME, self.take)


async def answered(dispatcher: Dispatcher, kind: Kind, payload: dict[str, Any]) -> bool:
    """Whether the envelope gets the answer that acknowledges it."""
    response = await dispatcher.answer(SocketModeRequest(kind, "1", payload))
    return response.status == 200


@given(KINDS, PAYLOADS, st.booleans())
def test_whatever_comes_is_committed_once_and_acked_if_it_was(kind: Kind, payload: dict[str, Any], kept: bool) -> None:
    async def dispatched() -> None:
        committed = Committed(answer=kept)
        committed.gate.set()
        assert await answered(committed.dispatcher(), kind, payload) is kept
        assert committed.taken == [(kind, payload)]

    asyncio.run(dispatched())


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "url_verification", "challenge": "x"},
        {"type": "ssl_check"},
        {"type": "event_callback", "event": {"type": "message", "user": ME.user, "channel": "D1"}},
        {"type": "event_callback", "event": {"type": "function_executed", "function_data": {"execution_id": "F1"}}},
        {"type": "event_callback", "event": {"type": "tokens_revoked"}},
        {"type": "event_callback", "event": 5},
        {"type": "event_callback", "event": {"type": "message", "channel": 5}},
        {"type": "view_submission", "view": {"app_installed_team_id": "T9"}},
        {"type": "block_actions", "response_urls": [{}, {}]},
        {},
    ],
)
async def test_nothing_is_answered_or_kept_back_by_bolt_itself(payload: dict[str, Any]) -> None:
    committed = Committed(answer=False)
    committed.gate.set()
    assert await answered(committed.dispatcher(), "events_api", payload) is False
    assert committed.taken == [("events_api", payload)]


async def test_envelopes_keep_their_order_also_with_one_among_them_that_bolt_cannot_read() -> None:
    committed = Committed()
    dispatcher = committed.dispatcher()
    payloads: list[dict[str, Any]] = [
        {"type": "event_callback", "event": {"type": "message", "channel": 5 if number % 3 else "D1", "ts": number}}
        for number in range(20)
    ]
    answers = [asyncio.create_task(answered(dispatcher, "events_api", payload)) for payload in payloads]
    await asyncio.sleep(0)  # one step of each is enough: nothing waits before
    assert [payload for _, payload in committed.taken] == payloads
    assert not any(answer.done() for answer in answers)
    committed.gate.set()
    assert all(await asyncio.gather(*answers))


async def test_the_environment_and_bolts_own_authorization_are_not_asked(
    make_bench: Callable[..., Bench], slack: SlackSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLIENT_ID", "CLIENT_SECRET", "SIGNING_SECRET", "BOT_TOKEN", "APP_TOKEN", "SCOPES"):
        monkeypatch.setenv(f"SLACK_{name}", "from-the-environment")
    monkeypatch.setenv("HOME", str(tmp_path))
    bench = make_bench()
    async with bench.running():
        said = await slack.user_says("hello")
        await slack.wait_acked(said.event_ids[0])
        await bench.gateway.message()
    assert len(await slack.records("auth.test")) == 1
    assert os.listdir(tmp_path) == []
