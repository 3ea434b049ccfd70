"""The life of a message on WeCom, with the real gateway between the simulators: one gateway, a person for each test."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from bot.texts.zh import ZH
from tests.flow.wecom_world import ASKED, BEGUN, WHOLE, WecomWorld
from tests.simulators.process import SimulatorProcess
from tests.simulators.wecom import client as wecom_client
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import TEAM, FileSpec, Person, Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECOND_TEAM = Room("wrTEAM0002", "Second team")
_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[WecomWorld]:
    """Whoever writes is answered."""
    rooms = [f"wecom:{room.id}" for room in (TEAM, SECOND_TEAM)]
    settings = {"access": {"dm": "open", "i_accept_public": True, "groups": {"allow": rooms}}}
    with SimulatorProcess(wecom_client.MODULE) as process:
        async with wecom_client.connect(process) as robot:
            place = (public_world.telegram, public_world.model, public_world.folder)
            world = WecomWorld(*place, settings, wecom=robot)
            async with world:
                yield world


@pytest_asyncio.fixture(loop_scope="module")
async def alice(gateway: WecomWorld) -> Person:
    """Somebody whom no other test knows; the model knows nothing of them either."""
    await gateway.model.reset()
    return Person(f"alice{next(_NUMBERS)}")


async def test_a_direct_message_is_answered_in_one_stream(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    said = await wecom.says(ASKED, alice)
    draft = await wecom.wait_for_text(alice, BEGUN)
    assert (draft.kind, draft.state, draft.answers) == ("stream", "streaming", said.msgid)
    await gateway.model.release("half")
    answer = await wecom.wait_finished(alice, WHOLE)
    assert answer.stream_id == draft.stream_id
    await wecom.wait_idle(alice)
    assert len(await wecom.texts(alice)) == 1
    assert not await wecom.records("aibot_send_msg")


async def test_a_group_is_answered_there_and_has_a_history_of_its_own(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says("the word is zebra", alice, TEAM)
    await wecom.wait_finished(TEAM, "zebra")
    await wecom.says("and in private?", alice)
    await wecom.wait_finished(alice, "in private")
    requests = await gateway.model.completions()
    assert "@Antler" not in str(requests[0].body["messages"])
    assert "zebra" not in str(requests[-1].body["messages"])
    await wecom.wait_idle(TEAM)
    assert len(await wecom.texts(TEAM)) == 1


async def test_a_picture_in_a_group_message_is_given_to_the_agent(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.mixes([f"@{wecom.name} what is this?", FileSpec(b"\x89PNG" + bytes(90))], alice, SECOND_TEAM)
    await wecom.wait_finished(SECOND_TEAM, "what is this?")
    assert [path.stat().st_size for path in gateway.uploads].count(94) == 1


async def test_a_very_long_answer_comes_in_messages_and_as_a_file(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says("!long 90000", alice)
    sent = await wecom.wait_for_message(alice, lambda message: message.file is not None, timeout=60)
    assert sent.file is not None
    assert sent.file["name"] == "answer.md"
    texts = [message for message in await wecom.bot_messages(alice) if not message.file]
    assert [message.kind for message in texts] == ["stream", *["markdown"] * (len(texts) - 1)]
    assert 4 < len(texts) < 7
    assert sum(len(message.text) for message in texts) >= 89_000


async def test_a_waiting_message_has_buttons_that_work(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says(ASKED, alice)
    await wecom.wait_for_text(alice, BEGUN)
    await wecom.says("never mind this one", alice)
    await wecom.wait_for_text(alice, EN.steering)
    await wecom.says("/queue", alice)
    card = await wecom.wait_for_message(alice, lambda message: bool(message.buttons))
    await wecom.presses(card.labels[1], alice)
    pressed = await wecom.wait_for_message(alice, lambda message: any("✓" in label for label in message.labels))
    assert pressed.task_id == card.task_id
    await gateway.model.release("half")
    await wecom.wait_finished(alice, WHOLE)
    await wecom.wait_idle(alice)
    assert not any("You said" in text for text in await wecom.texts(alice))


async def test_a_chosen_option_stands_on_its_card_with_what_comes_of_it(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    asked = {"question": "Which year?", "options": ["2024", "2025"]}
    await wecom.says(f"!tool ask_clarification {json.dumps(asked)}", alice)
    await wecom.wait_for_message(alice, lambda message: list(message.labels) == ["2024", "2025"])
    await wecom.presses("2025", alice)
    pressed = await wecom.wait_for_message(alice, lambda message: list(message.labels) == ["✓ 2025"])
    assert "Working" in pressed.text
    await wecom.wait_for_text(alice, "You said: 2025")


async def test_a_message_that_waited_is_answered_in_its_own_stream(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says(ASKED, alice)
    await wecom.wait_for_text(alice, BEGUN)
    waiting = await wecom.says("!count 200\n!pause second", alice)
    notice = await wecom.wait_for_text(alice, EN.steering)
    assert (notice.kind, notice.answers) == ("stream", waiting.msgid)
    await gateway.model.release("half")
    answer = await wecom.wait_for_text(alice, "199 200")
    assert answer.stream_id == notice.stream_id
    await gateway.model.release("second")
    await wecom.wait_for_message(alice, lambda m: m.stream_id == answer.stream_id and m.state == "finished")


async def test_an_answer_made_again_grows_under_the_command_and_above_what_follows(
    gateway: WecomWorld, alice: Person
) -> None:
    wecom = gateway.wecom
    await wecom.says(ASKED, alice)
    await gateway.model.release("half")
    await wecom.wait_finished(alice, WHOLE)
    await gateway.model.reset()
    again = await wecom.says("/retry", alice)
    draft = await wecom.wait_for_message(
        alice, lambda message: message.answers == again.msgid and BEGUN in message.text
    )
    assert draft.state == "streaming"
    await wecom.says("!say below", alice)
    await wecom.wait_for_text(alice, EN.steering)
    await gateway.model.release("half")
    await wecom.wait_finished(alice, "below")
    first, second, _ = await wecom.texts(alice)
    assert first == second
    assert not await wecom.records("aibot_send_msg", chat=alice)


async def test_a_quick_answer_to_a_message_that_waited_is_its_answer_and_no_push(
    gateway: WecomWorld, alice: Person
) -> None:
    wecom = gateway.wecom
    await wecom.says(ASKED, alice)
    await wecom.wait_for_text(alice, BEGUN)
    waiting = await wecom.says("a quick one", alice)
    await wecom.wait_for_text(alice, EN.steering)
    await gateway.model.release("half")
    answer = await wecom.wait_finished(alice, "a quick one")
    assert (answer.kind, answer.answers) == ("stream", waiting.msgid)


async def test_a_button_of_the_welcome_is_answered_in_its_language(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says("hello", alice)
    await wecom.wait_finished(alice, "hello")  # by the first answer the account has its description
    await wecom.enters(alice)
    await wecom.wait_for_message(alice, lambda message: ZH.about["button_start"] in message.labels)
    await wecom.presses(ZH.about["button_start"], alice)
    await wecom.wait_finished(alice, ZH.started.partition("\n")[0])


async def test_a_duplicate_is_answered_once(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    said = await wecom.says("just once", alice)
    await wecom.wait_finished(alice, "just once")
    await wecom.redeliver(said.msgid)
    await wecom.redeliver(said.msgid, fresh=True)
    await wecom.says("and another thing", alice)
    await wecom.wait_finished(alice, "another thing")
    await wecom.wait_idle(alice)
    assert len(await wecom.texts(alice)) == 2


async def test_a_conflict_is_repeated(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.fail("aibot_respond_msg", faults.conflict())
    await wecom.says("hello", alice)
    await wecom.wait_finished(alice, "You said: hello")
    assert len(await wecom.texts(alice)) == 1


async def test_an_expired_stream_ends_in_a_pushed_answer(gateway: WecomWorld, alice: Person) -> None:
    wecom = gateway.wecom
    await wecom.says(ASKED, alice)
    await wecom.wait_for_text(alice, BEGUN)
    await wecom.advance(601)
    await gateway.model.release("half")
    answer = await wecom.wait_for_text(alice, WHOLE)
    assert answer.kind == "markdown"
    await wecom.wait_idle(alice, streams=True)
    assert sum(WHOLE in text for text in await wecom.texts(alice)) == 1
