"""Actions of people as the SDK's event objects show them, and the tests' view of a chat."""

import json

import pytest

from tests.simulators.client import SimulatorError
from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.raw import Api, button, streaming_card
from tests.simulators.feishu.sdk import long_connection
from tests.simulators.feishu.seen import ALICE, BOB, PNG, TEAM, FileSpec

pytestmark = pytest.mark.timeout(60)


async def test_mentions_in_a_group(feishu: FeishuSimulator) -> None:
    await feishu.add_person(BOB)
    async with long_connection(feishu) as sdk:
        await feishu.group_says("@antler ask @Bob, @all")
        message = (await sdk.next()).event.message
        assert json.loads(message.content)["text"] == "@_user_1 ask @_user_2, @_all"
        assert [(m.key, m.name, m.id.open_id) for m in message.mentions] == [
            ("@_user_1", "antler", feishu.bot_open_id),
            ("@_user_2", "Bob", feishu.open_id(BOB)),
        ]
        assert (message.chat_type, message.chat_id) == ("group", TEAM.id)


async def test_a_post_with_a_picture(feishu: FeishuSimulator) -> None:
    async with long_connection(feishu) as sdk:
        picture = FileSpec("p.png", "image/png", PNG, kind="image", key="img_v3_mine")
        rows = [
            [{"tag": "at", "user_id": feishu.app_id}, {"tag": "text", "text": " look"}],
            [{"tag": "img", "image_key": "img_v3_mine"}],
        ]
        said = await feishu.posts(rows, title="News", mentions=["bot"], files=[picture], chat=TEAM)
        content = json.loads((await sdk.next()).event.message.content)
        assert content["title"] == "News"
        assert content["content"][0][0] == {"tag": "at", "user_id": "@_user_1", "user_name": "antler"}
        assert said.keys == ["img_v3_mine"]
    assert (await feishu.messages(TEAM))[0].text == "News\n@" + feishu.app_id + " look\n[image img_v3_mine]"


async def test_who_hears_what_in_a_group(feishu: FeishuSimulator) -> None:
    other = await feishu.another_app("other")
    await other.add_chat(TEAM)
    await feishu.configure(group_messages="mentions")
    await feishu.group_says("to nobody")
    assert (await feishu.group_says("@antler to one")).event_ids
    assert [event.event_type for event in await feishu.events()] == ["im.message.receive_v1"]
    assert len(await other.events()) == 2
    assert feishu.open_id(ALICE) != other.open_id(ALICE)
    assert (await feishu.user_says("only for one")).event_ids
    assert len(await other.events()) == 2


async def test_joining_reacting_recalling_entering(feishu: FeishuSimulator) -> None:
    async with long_connection(feishu) as sdk:
        await feishu.bot_joins(TEAM, by=BOB)
        joined = await sdk.next()
        assert (joined.header.event_type, joined.event.name) == ("im.chat.member.bot.added_v1", "team")
        said = await feishu.group_says("hi")
        await sdk.next()
        await feishu.reacts(said.message_id, "OK", user=BOB)
        reaction = (await sdk.next()).event
        assert (reaction.reaction_type.emoji_type, reaction.user_id.open_id) == ("OK", feishu.open_id(BOB))
        await feishu.reacts(said.message_id, "OK", user=BOB, remove=True)
        await sdk.next()
        await feishu.recalls(said.message_id)
        assert (await sdk.next()).event.message_id == said.message_id
        await feishu.enters_chat()
        assert (await sdk.next()).event.chat_id == feishu.chat_id(ALICE)
        await feishu.bot_leaves(TEAM)
        assert (await sdk.next()).header.event_type == "im.chat.member.bot.deleted_v1"
        assert (await feishu.group_says("gone")).event_ids == []


async def test_other_bots_and_old_messages(feishu: FeishuSimulator) -> None:
    async with long_connection(feishu) as sdk:
        await feishu.other_bot_says("beep")
        assert (await sdk.next()).event.sender.sender_type == "app"
        await feishu.user_says("long ago", at=1_700_000_000)
        assert (await sdk.next()).event.message.create_time == "1700000000000"


async def test_presses_only_of_what_is_there(feishu: FeishuSimulator, api: Api) -> None:
    card = streaming_card("x", button("Off", disabled=True), button("On", element_id="on"))
    message_id = (await api.send(ALICE, "interactive", card))["data"]["message_id"]
    with pytest.raises(SimulatorError, match="no element 'Maybe'"):
        await feishu.press(message_id, "Maybe")
    with pytest.raises(SimulatorError, match="disabled"):
        await feishu.press(message_id, "Off")
    assert (await feishu.press(message_id, "on")).event_id


async def test_what_a_person_reads(feishu: FeishuSimulator, api: Api) -> None:
    await feishu.user_says("hello")
    await api.send(ALICE, "interactive", {**streaming_card("hi", button("Stop"))})
    first, second = (await feishu.transcript(ALICE)).splitlines()
    assert first.endswith("u_alice: hello")
    assert second.endswith(f"{feishu.app_id} (interactive, streaming): hi [Stop]")
    assert await feishu.count_showing("hi") == 1
    with pytest.raises(AssertionError, match="no such message"):
        await feishu.wait_for_text(ALICE, "never", timeout=0.05)
