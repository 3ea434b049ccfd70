"""What goes wrong on WeCom, or needs a gateway of its own: broken connections, kills, kicks, wrong credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from tests.bot.http.test_http import free_port
from tests.flow.letters import Letters
from tests.flow.wecom_world import ASKED, BEGUN, WHOLE, WecomWorld
from tests.simulators.process import SimulatorProcess
from tests.simulators.wecom import client as wecom_client
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import ALICE, BOB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World


@pytest.fixture(scope="module")
def wecom_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(wecom_client.MODULE) as process:
        yield process


@pytest.fixture
async def wecom_world(world: World, wecom_process: SimulatorProcess) -> AsyncIterator[WecomWorld]:
    async with wecom_client.connect(wecom_process) as robot:
        yield WecomWorld(world.telegram, world.model, world.folder, wecom=robot)


async def test_strangers_are_not_answered_and_everybody_may_be_welcomed(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    wecom_world.settings = {
        "channels": {"wecom": {"welcome": "Ask me about the weather."}},
        "access": {"dm": "allowlist"},
    }
    async with wecom_world:
        await wecom.enters(BOB)
        await wecom.wait_for_text(BOB, "about the weather")
        await wecom.says("let me in", BOB)
        await wecom.wait_for_text(BOB, "wecom:bob")
        assert await wecom_world.model.completions() == []
        await wecom_world.wait_for_log("bot.files.sandboxes")  # which it had not looked at yet


async def test_a_request_that_may_not_be_pushed_is_shown_and_decided_in_answers(wecom_world: WecomWorld) -> None:
    wecom, letters = wecom_world.wecom, Letters(wecom_world.folder)
    wecom_world.settings = {
        "sandbox": {"use": "off"},
        "tools": [{"use": "tests.flow.letters:send_letter"}],
        "guardrails": {"rules": [{"tool": "send_letter", "decision": "ask"}]},
    }
    wecom_world.environment |= letters.environment
    await wecom.fail("aibot_send_msg", faults.error(40058), times=999)
    async with wecom_world:
        await wecom.says('!tool send_letter {"to": "Ann"}')
        await wecom_world.wait_for_log("given up")
        await wecom.says("are you there?")
        await wecom.wait_for_text(ALICE, "send_letter to: Ann · /approvals shows it again")
        await wecom.says("/approvals")
        shown = await wecom.wait_for_text(ALICE, "Without buttons:")
        assert "I need a decision" in shown.text
        (once,) = re.findall(r"/approvals once \w+", shown.text)
        await wecom.says("/approvals once 000000000000")
        await wecom.wait_for_message(ALICE, lambda seen: "Without buttons:" in seen.text and seen != shown)
        assert letters.sent == []
        await wecom.says(once)
        await wecom.wait_for_text(ALICE, "Allowed once.")
        await wecom.wait_finished(ALICE, "You said: are you there?")
        assert letters.sent == ["Ann"]


async def test_where_the_reconnect_has_made_the_question_stale_the_answer_is_pushed(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    await wecom.configure(forget_req_ids=True)
    async with wecom_world:
        await wecom.says(ASKED)
        await wecom.wait_for_text(ALICE, BEGUN)
        await wecom.close()
        await wecom.wait_connected(times=2)
        await wecom_world.model.release("half")
        answer = await wecom.wait_for_text(ALICE, WHOLE)
        assert answer.kind == "markdown"
        await wecom.wait_idle(ALICE, streams=True)
        texts = await wecom.texts(ALICE)
        assert sum(WHOLE in text for text in texts) == 1
        assert len(texts) == 2


async def test_a_long_stream_keeps_within_what_the_platform_allows(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    await wecom.configure(limits={"per_minute": 12})
    wecom_world.settings = {"channels": {"wecom": {"rate": {"per_chat_per_minute": 12}}}}
    async with wecom_world:
        await wecom.says("!tokens 300 40")
        answer = await wecom.wait_for_message(ALICE, lambda message: message.state == "finished", timeout=90)
        assert len(answer.history) > 4
        assert (await wecom.status()).refused == 0


async def test_after_a_kill_in_mid_answer_it_goes_on_in_its_stream(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    async with wecom_world:
        await wecom.says(ASKED)
        begun = await wecom.wait_for_text(ALICE, BEGUN)
        await wecom_world.kill()
        await wecom_world.start()
        await wecom_world.model.release("half")
        answer = await wecom.wait_finished(ALICE, WHOLE)
        assert answer.stream_id == begun.stream_id
        await wecom.wait_idle(ALICE)
        assert len(await wecom.texts(ALICE)) == 1


async def test_a_waiting_message_is_acknowledged_once_whatever_dies(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    async with wecom_world:
        await wecom.says(ASKED)
        await wecom.wait_for_text(ALICE, BEGUN)
        await wecom.says("and this one waits")
        notice = await wecom.wait_for_text(ALICE, EN.steering)
        await wecom.wait_idle(ALICE, streams=True)
        await wecom_world.kill()
        await wecom_world.start()
        await wecom_world.model.release("half")
        answer = await wecom.wait_finished(ALICE, "You said: and this one waits")
        assert answer.stream_id == notice.stream_id, "it stands where the notice stood"
        await wecom.wait_idle(ALICE)
        assert len(await wecom.texts(ALICE)) == 2


async def test_a_kill_in_mid_answer_pushes_the_answer_once_where_the_question_is_stale(wecom_world: WecomWorld) -> None:
    wecom = wecom_world.wecom
    await wecom.configure(forget_req_ids=True)
    async with wecom_world:
        await wecom.says(ASKED)
        await wecom.wait_for_text(ALICE, BEGUN)
        await wecom_world.kill()
        lost = await wecom.says("and while you were away")
        assert not lost.delivered, "WeCom keeps nothing for a robot that is away"
        await wecom_world.model.release("half")

        await wecom_world.start()
        answer = await wecom.wait_for_text(ALICE, WHOLE)
        assert answer.kind == "markdown"
        await wecom.says("are you back?")
        await wecom.wait_finished(ALICE, "are you back?")
        texts = await wecom.texts(ALICE)
        assert sum(WHOLE in text for text in texts) == 1
        assert not any("away" in text for text in texts)


@pytest.mark.parametrize("page", [False, True], ids=["alone", "with the page"])
async def test_who_is_kicked_says_so_in_the_log_and_ends_where_nothing_else_is_left(
    wecom_world: WecomWorld, page: bool
) -> None:
    wecom = wecom_world.wecom
    if page:
        wecom_world.settings = {"http": {"listen": f"127.0.0.1:{free_port()}"}}
    async with wecom_world:
        await wecom.kick()
        await wecom_world.wait_for_log("another program has connected as the robot of account wecom")
        await wecom_world.wait_for_log("no working account is left")
        assert wecom_world.process is not None
        assert await wecom_world.process.wait() == 77
        assert wecom.secret not in wecom_world.log


async def test_a_wrong_secret_is_told_with_what_to_do(wecom_world: WecomWorld) -> None:
    await wecom_world.wecom.configure(secret="another one")
    await wecom_world.begin()
    await wecom_world.wait_for_log("853000")
    assert "channels.wecom.secret" in wecom_world.log
    assert await wecom_world.stop() == 0
    assert wecom_world.wecom.secret not in wecom_world.log
