"""Faults: what a call gets instead of its answer, and whether it was applied nevertheless."""

import asyncio

import httpx
import pytest

from tests.simulators.feishu import faults
from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.raw import Api
from tests.simulators.feishu.seen import ALICE, TEAM

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (faults.rate_limited(3), 429, 99991400),
        (faults.invalid_token(), 400, 99991663),
        (faults.frequency_limit(), 400, 230020),
        (faults.too_many_tables(), 400, 230099),
        (faults.too_long(), 400, 230025),
        (faults.streaming_closed(), 400, 300309),
        (faults.sequence_conflict(), 400, 300317),
        (faults.audit_failed(), 400, 230028),
        (faults.missing_scope(), 400, 99991672),
    ],
)
async def test_refusals_by_code(feishu: FeishuSimulator, api: Api, fault: faults.Fault, status: int, code: int) -> None:
    await feishu.fail("im.message.create", fault)
    assert (await api.send(ALICE, "text", {"text": "x"}))["code"] == code
    assert (await api.send(ALICE, "text", {"text": "x"}))["code"] == 0
    record = (await feishu.records("im.message.create"))[0]
    assert (record.status, record.code, record.applied, record.outcome) == (status, code, False, fault.name)


async def test_the_reset_header(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.fail("*", faults.rate_limited(3))
    assert (await api.http.get("/bot/v3/info")).headers["x-ogw-ratelimit-reset"] == "3"


@pytest.mark.parametrize("apply", [False, True])
async def test_a_connection_that_breaks(feishu: FeishuSimulator, api: Api, apply: bool) -> None:
    await feishu.fail("im.*", faults.reset(apply=apply))
    with pytest.raises(httpx.TransportError):
        await api.say(ALICE, "into the dark")
    assert len(await feishu.bot_messages(ALICE)) == apply


@pytest.mark.parametrize("apply", [False, True])
async def test_pages_instead_of_answers(feishu: FeishuSimulator, api: Api, apply: bool) -> None:
    await feishu.fail("im.message.create", faults.server_error(502, apply=apply))
    with pytest.raises(KeyError):
        await api.say(ALICE, "hello?")
    await feishu.fail("im.message.create", faults.garbage(apply=apply))
    answer = await api.http.post("/im/v1/messages", json={})
    assert answer.text.startswith('{"code":0')
    assert len(await feishu.bot_messages(ALICE)) == apply


async def test_faults_of_one_chat_and_after_some_calls(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.fail("im.message.create", faults.frequency_limit(), chat=TEAM, skip=1)
    codes = [(await api.send(chat, "text", {"text": "x"}))["code"] for chat in (ALICE, TEAM, ALICE, TEAM, TEAM)]
    assert codes == [0, 0, 0, 230020, 0]
    await feishu.fail("im.message.create", faults.frequency_limit())
    await feishu.clear_faults()
    assert (await api.send(ALICE, "text", {"text": "x"}))["code"] == 0


async def test_held_calls_wait_for_their_release(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.fail("im.message.create", faults.hold(apply=True))
    sending = asyncio.create_task(api.say(ALICE, "soon"))
    await feishu.wait_for_record(lambda record: record.outcome == "held")
    await feishu.wait_for_text(ALICE, "soon")
    assert not sending.done()
    await feishu.release()
    assert await sending


async def test_slow_answers(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.fail("auth.token", faults.slow(0.1))
    assert await api.new_token()
    await feishu.fail("im.message.create", faults.apply_then_hang(0.1))
    await api.say(ALICE, "late")
    for method in ("auth.token", "im.message.create"):
        record = (await feishu.records(method))[-1]
        assert record.finished is not None
        assert record.finished - record.arrived >= 0.1
