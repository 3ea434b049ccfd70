"""Faults and limits with the real SDK: 429, 5xx, resets, calls that were applied and not answered."""

import asyncio

import pytest
from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.client import WaitTimeoutError
from tests.simulators.slack import faults
from tests.simulators.slack.bolt import web_client
from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE, TEAM

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def dm(slack: SlackSimulator) -> str:
    return (await slack.user_says("hi")).channel


async def test_a_429_carries_its_delay(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    await slack.fail("chat.postMessage", faults.ratelimited(7), chat=ALICE)
    with pytest.raises(SlackApiError) as limited:
        await web.chat_postMessage(channel=dm, text="one")
    assert limited.value.response.status_code == 429
    assert (limited.value.response["error"], limited.value.response.headers["Retry-After"]) == ("ratelimited", "7")
    web.retry_handlers = [AsyncRateLimitErrorRetryHandler(max_retry_count=1)]
    await slack.fail("chat.postMessage", faults.ratelimited(0))
    assert (await web.chat_postMessage(channel=dm, text="two"))["ok"]
    assert [record.status for record in await slack.records("chat.postMessage")] == [429, 429, 200]


async def test_refusals_are_answered_and_not_applied(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    refusals = [faults.invalid_auth(), faults.token_revoked(), faults.missing_scope("chat:write"), faults.error("x_y")]
    for fault, error in zip(refusals, ("invalid_auth", "token_revoked", "missing_scope", "x_y"), strict=True):
        await slack.fail("*", fault)
        with pytest.raises(SlackApiError, match=error):
            await web.chat_postMessage(channel=dm, text="one")
    for fault in (faults.server_error(), faults.server_error(503), faults.garbage()):
        await slack.fail("chat.postMessage", fault)
        with pytest.raises(SlackApiError):
            await web.chat_postMessage(channel=dm, text="two")
    await slack.fail("chat.postMessage", faults.reset())
    with pytest.raises(ClientError):
        await web.chat_postMessage(channel=dm, text="three")
    assert await slack.bot_messages(ALICE) == []


async def test_a_lost_answer_may_have_been_applied(slack: SlackSimulator, dm: str) -> None:
    impatient = web_client(slack, timeout=1)
    await slack.fail("chat.postMessage", faults.apply_then_hang(2))
    with pytest.raises(TimeoutError):
        await impatient.chat_postMessage(channel=dm, text="there")
    await slack.fail("chat.postMessage", faults.reset(apply=True))
    with pytest.raises(ClientError):
        await impatient.chat_postMessage(channel=dm, text="there too")
    await slack.fail("chat.postMessage", faults.server_error(apply=True))
    with pytest.raises(SlackApiError):
        await impatient.chat_postMessage(channel=dm, text="and there")
    assert [message.text for message in await slack.bot_messages(ALICE)] == ["there", "there too", "and there"]


async def test_a_held_call_waits_for_the_test(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    await slack.fail("chat.postMessage", faults.hold(), skip=1)
    await web.chat_postMessage(channel=dm, text="passes")
    held = asyncio.create_task(web.chat_postMessage(channel=dm, text="waits"))
    await slack.wait_for_record(lambda record: record.outcome == "held")
    with pytest.raises(WaitTimeoutError):
        await slack.wait_idle(ALICE, timeout=0.2)
    await slack.release()
    await held
    await slack.wait_for_text(ALICE, "waits")
    await slack.set_timing(retry_delays=[])


async def test_limits_count_always_and_refuse_on_request(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    sent = [await web.chat_postMessage(channel=dm, text=f"{number}") for number in range(6)]
    assert (await slack.refusals())["chat.postMessage"] == 2
    await slack.set_limits(enforce=True, tier3=2)
    with pytest.raises(SlackApiError, match="ratelimited"):
        await web.chat_postMessage(channel=dm, text="more")
    await slack.channel_says("another channel")
    await web.chat_postMessage(channel=TEAM.id, text="has its own budget")
    for number in range(2):
        await web.chat_update(channel=dm, ts=str(sent[0]["ts"]), text=f"edit {number}")
    with pytest.raises(SlackApiError) as limited:
        await web.chat_update(channel=dm, ts=str(sent[1]["ts"]), text="the budget is the workspace's")
    assert 1 <= int(limited.value.response.headers["Retry-After"]) <= 60
    await slack.advance(61)
    await web.chat_update(channel=dm, ts=str(sent[0]["ts"]), text="later")


async def test_waiting_reports_what_is_there(slack: SlackSimulator, web: AsyncWebClient, dm: str) -> None:
    await web.chat_postMessage(channel=dm, text="wrong answer")
    with pytest.raises(WaitTimeoutError, match="wrong answer"):
        await slack.wait_for_text(ALICE, "right answer", timeout=0.2)
    with pytest.raises(WaitTimeoutError, match="0 sockets"):
        await slack.wait_connected(timeout=0.1)
    with pytest.raises(WaitTimeoutError, match=r"chat\.postMessage \(applied\)"):
        await slack.wait_for_record(lambda record: record.method == "chat.update", timeout=0.1)
    assert await slack.count_showing("wrong answer") == 1
    assert (await slack.tally())["chat.postMessage", "applied"] >= 1
