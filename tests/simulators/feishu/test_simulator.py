"""The Feishu simulator as a whole: its process, its isolation, and what fails a test at its end."""

import asyncio
import json
from email.utils import parsedate_to_datetime

import pytest

from tests.simulators.client import SimulatorError
from tests.simulators.feishu.client import FeishuSimulator, connect, running_feishu
from tests.simulators.feishu.raw import Api
from tests.simulators.feishu.sdk import long_connection
from tests.simulators.feishu.seen import ALICE
from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.timeout(60)


async def test_a_message_is_answered_by_a_growing_card() -> None:
    async with running_feishu() as feishu, Api.of(feishu) as api, long_connection(feishu) as sdk:
        await feishu.user_says("hello")
        heard = json.loads((await sdk.next()).event.message.content)["text"]
        card_id, _ = await api.streaming_card(ALICE)
        await api.stream(card_id, f"heard: {heard}", 1)
        await api.settings(card_id, 2, streaming_mode=False)
        seen = await feishu.wait_for_message(ALICE, lambda message: not message.generating)
        assert seen.text == "heard: hello"
        await feishu.wait_idle(quiet=0.05)


async def test_apps_are_apart(feishu: FeishuSimulator) -> None:
    second = await feishu.fresh_app()
    await feishu.user_says("only for the first")
    assert await second.events() == []
    async with Api.of(feishu) as api:
        await api.say(ALICE, "hello")
    assert [record.method for record in await feishu.records()] == ["auth.token", "im.message.create"]
    assert await second.records() == []
    with pytest.raises(SimulatorError, match="unknown chat"):
        await second.messages(feishu.chat_id(ALICE))


async def call_unknown_endpoint(process: SimulatorProcess) -> None:
    async with connect(process) as feishu, Api.of(feishu) as api:
        assert (await api.http.get("/docx/v1/documents/1")).status_code == 404


async def test_an_unimplemented_endpoint_fails_at_the_end(process: SimulatorProcess) -> None:
    with pytest.raises(SimulatorError, match="unimplemented endpoint called: GET /open-apis/docx"):
        await call_unknown_endpoint(process)


async def test_answers_are_dated_by_the_platforms_clock(feishu: FeishuSimulator) -> None:
    async with Api.of(feishu) as api:
        before = parsedate_to_datetime((await api.http.get("/bot/v3/info")).headers["Date"])
        await feishu.advance(3600)
        after = parsedate_to_datetime((await api.http.get("/bot/v3/info")).headers["Date"])
    assert 3600 <= (after - before).total_seconds() < 3660


async def test_records_can_be_left_out(feishu: FeishuSimulator) -> None:
    await feishu.keep_lean()
    async with Api.of(feishu) as api:
        await api.call("GET", "/bot/v3/info")
    await feishu.keep_lean(False)
    assert await feishu.records() == []
    assert (await feishu.tally())["bot.info", "applied"] >= 1


async def test_it_ends_with_its_parent() -> None:
    async with running_feishu() as feishu:
        await feishu.user_says("nobody listens")
        port = int(feishu.root.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
