"""Events from the socket: acknowledged when committed, in order, each once; and a socket that never dies unnoticed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from channels.message import Address, Button, ButtonPressed, MembershipChanged, Message, Unparsed
from tests.simulators.feishu import faults
from tests.simulators.feishu.frames import CONTROL, Frame, encode
from tests.simulators.feishu.seen import ALICE, BOB, PNG, TEAM, TOPICS, FileSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.feishu.support import Bench

pytestmark = pytest.mark.timeout(60)

BUTTONS = ((Button(label="Yes", data="p:0"),),)


async def message(bench: Bench, number: int = 0) -> Message:
    event = await bench.gateway.event(number)
    assert isinstance(event, Message)
    return event


class TestMessages:
    async def test_a_direct_message(self, bench: Bench) -> None:
        async with bench.running():
            said = await bench.feishu.user_says("Hello\nthere")
            event = await message(bench)
            assert (event.text, event.mention, event.address) == ("Hello\nthere", True, bench.dm)
            assert (event.sender.id, event.sender.display_name) == (bench.feishu.open_id(ALICE), "Alice")
            assert event.dedupe_keys == (f"e:{said.event_id}", f"m:{said.message_id}")
            assert bench.gateway.greeted[0].bot_id == bench.feishu.app_id

    async def test_in_a_group_the_bot_is_named_and_others_keep_their_names(self, bench: Bench) -> None:
        await bench.feishu.configure(group_messages="all")
        async with bench.running():
            await bench.feishu.add_person(BOB)
            await bench.feishu.group_says("@antler, ask @Bob about it", user=ALICE)
            await bench.feishu.group_says("just talking")
            await bench.feishu.group_says("@all wake up")
            named, said, everybody = [await message(bench, number) for number in range(3)]
            assert (named.text, named.mention, named.chat_title) == ("ask @Bob about it", True, "team")
            assert (named.address.kind, named.address.topic, named.continues) == ("group", None, False)
            assert (said.mention, everybody.text, everybody.mention) == (False, "@all wake up", False)

    async def test_threads_are_topics_that_continue(self, make_bench: Callable[..., Bench]) -> None:
        bench, strict = make_bench(), make_bench(thread_follow=False)
        await bench.feishu.configure(group_messages="all")
        for each, continues in ((bench, True), (strict, False)):
            async with each.running():
                said = await bench.feishu.group_says("a topic", chat=TOPICS)
                event = await message(each)
                assert (event.address.topic, event.continues, event.reply_to) == (said.thread_id, continues, None)

    async def test_a_quote_is_fetched_and_a_reply_to_the_bot_names_it(self, bench: Bench) -> None:
        await bench.feishu.configure(group_messages="all")
        earlier = await bench.feishu.group_says("the budget is 5", user=BOB, silent=True)
        async with bench.running():
            await bench.feishu.group_says("is that right?", reply_to=earlier.message_id)
            event = await message(bench)
            assert event.reply_to is not None
            assert (event.reply_to.text, event.reply_to.author, event.mention) == ("the budget is 5", "Bob", False)
            sent = await bench.channel.send(event.address, bench.part("It is."), "k1")
            await bench.feishu.group_says("sure?", reply_to=sent)
            second = await message(bench, 1)
            assert second.reply_to is not None
            assert (second.reply_to.from_bot, second.mention) == (True, True)
            assert second.reply_to.text == "It is."

    async def test_a_thread_about_the_bots_answer_names_it_once(self, bench: Bench) -> None:
        await bench.feishu.configure(group_messages="all")
        async with bench.running():
            await bench.feishu.group_says("@antler hello")
            first = await message(bench)
            answer = await bench.channel.send(first.address, bench.part("My answer"), "k1")
            await bench.feishu.group_says("more of it", reply_to=answer, in_thread=True)
            await bench.feishu.group_says("and more", reply_to=answer, in_thread=True)
            opened, further = [await message(bench, number) for number in (1, 2)]
            assert opened.reply_to is not None
            assert (opened.reply_to.text, opened.mention) == ("My answer", True)
            assert (opened.address, further.reply_to) == (further.address, None)
            assert opened.continues

    async def test_without_the_scopes_messages_come_without_names_and_quotes(self, bench: Bench, caplog: Any) -> None:
        await bench.feishu.fail("contact.*", faults.missing_scope("contact:user.base:readonly"), times=9)
        await bench.feishu.fail("im.message.get", faults.missing_scope("im:message:readonly"), times=9)
        earlier = await bench.feishu.user_says("earlier", silent=True)
        async with bench.running():
            for number in range(2):
                await bench.feishu.user_says("later", reply_to=earlier.message_id)
                event = await message(bench, number)
                assert (event.sender.display_name, event.reply_to) == ("", None)
        assert len(await bench.feishu.records("contact.user.get")) == 1
        assert "contact:user.base:readonly" in caplog.text

    async def test_a_question_that_hangs_delays_no_acknowledgement(self, bench: Bench) -> None:
        await bench.feishu.fail("contact.user.get", faults.slow(5))
        async with bench.running():
            said = await bench.feishu.user_says("hello")
            assert (await message(bench)).sender.display_name == ""
            assert len((await bench.feishu.wait_acked(said.event_id)).attempts) == 1

    async def test_files_of_every_kind(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.sends_image(PNG)
            await bench.feishu.sends(FileSpec("report.pdf", content=b"%PDF"))
            await bench.feishu.sends(FileSpec("a.opus", content=b"opus", kind="audio", duration=900))
            await bench.feishu.sends_video(FileSpec("v.mp4", content=b"mp4", kind="media", duration=900))
            kinds = []
            for number in range(4):
                event = await message(bench, number)
                (attachment,) = event.attachments
                kinds.append((attachment.kind, attachment.name))
                assert json.loads(attachment.ref)["message_id"] == event.platform_message_id
            assert kinds == [("image", None), ("file", "report.pdf"), ("voice", None), ("video", "v.mp4")]

    async def test_files_sent_at_once_and_their_words_belong_together(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.sends(FileSpec("a.txt", content=b"a"))
            await bench.feishu.sends(FileSpec("b.txt", content=b"b"))
            await bench.feishu.user_says("compare them")
            await bench.feishu.user_says("and another question")
            first, second, words, other = [await message(bench, number) for number in range(4)]
            assert first.bundle_key == second.bundle_key == words.bundle_key == f"files:{first.platform_message_id}"
            assert other.bundle_key is None

    async def test_what_is_said_later_stands_alone(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.sends(FileSpec("a.txt", content=b"a"), at=bench.gateway.clock.now().timestamp() - 60)
            await bench.feishu.user_says("much later")
            assert (await message(bench)).bundle_key != (await message(bench, 1)).bundle_key

    async def test_a_forwarded_bundle_is_read(self, bench: Bench) -> None:
        told = [await bench.feishu.user_says(text, user=BOB, silent=True) for text in ("first", "second")]
        async with bench.running():
            await bench.feishu.forwards([said.message_id for said in told])
            assert (await message(bench)).text == "[forwarded messages]\nBob: first\nBob: second"

    async def test_a_quoted_bundle_is_read(self, bench: Bench) -> None:
        told = await bench.feishu.user_says("first", user=BOB, silent=True)
        bundle = await bench.feishu.forwards([told.message_id], user=BOB, silent=True)
        async with bench.running():
            await bench.feishu.user_says("summarize", reply_to=bundle.message_id)
            quote = (await message(bench)).reply_to
            assert quote is not None
            assert (quote.author, quote.text) == ("Bob", "[forwarded messages]\nBob: first")

    async def test_what_cannot_be_read_is_told_as_such_where_somebody_waits_for_an_answer(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.sends_raw("sticker", {"file_key": "x"}, chat=TEAM)
            await bench.feishu.sends_raw("sticker", {"file_key": "x"})
            place = {"name": "Cafe", "latitude": "52.5", "longitude": "13.4"}
            await bench.feishu.sends_raw("location", place)
            await bench.feishu.user_says("hello", user=BOB, silent=True)  # the tenant knows him
            await bench.feishu.sends_raw("share_user", {"user_id": bench.feishu.open_id(BOB)})
            await bench.feishu.sends_raw("vote", {"topic": "Lunch?", "options": ["Pizza", "Soup"]})
            said = [await message(bench, number) for number in range(4)]
            assert [(each.text, each.unread) for each in said] == [
                ("", "sticker"),
                ("[location: Cafe, 52.5, 13.4, https://www.openstreetmap.org/?mlat=52.5&mlon=13.4]", ""),
                ("[contact: Bob]", ""),
                ("[poll: Lunch? Options: Pizza / Soup]", ""),
            ]
            assert all(each.address == bench.dm for each in said)

    async def test_strange_events_are_acknowledged_and_ignored(self, bench: Bench) -> None:
        async with bench.running():
            events = [
                await bench.feishu.inject("im.message.message_read_v1", {"reader": {}, "message_id_list": []}),
                await bench.feishu.inject("im.message.reaction.created_v1", {"message_id": "om_x"}),
            ]
            for event_id in events:
                assert (await bench.feishu.wait_acked(event_id)).acks[-1]["code"] == 200
            assert bench.gateway.events == []

    async def test_what_cannot_be_read_is_kept_as_dead(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.inject("im.message.receive_v1", {"message": {"message_id": 5}})
            event = await bench.gateway.event()
            assert isinstance(event, Unparsed)
            assert "message_id" in event.error
            await bench.feishu.sends_raw("text", {"no": "text"})
            await bench.feishu.user_says("still reading")
            assert (await message(bench, 2)).text == "still reading"

    async def test_the_bot_is_added_and_removed(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.bot_joins(TEAM, by=BOB)
            await bench.feishu.bot_leaves(TEAM, by=BOB)
            for number, present in enumerate((True, False)):
                event = await bench.gateway.event(number)
                assert isinstance(event, MembershipChanged)
                assert (event.present, event.address.chat, event.address.kind) == (present, TEAM.id, "group")
                assert event.sender.id == bench.feishu.open_id(BOB)


class TestPresses:
    async def test_a_press_shows_what_came_of_it(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.user_says("hello")
            sent = await bench.channel.send(bench.dm, bench.part("May I?", buttons=BUTTONS), "k1")
            pressed = await bench.feishu.press(sent, "Yes")
            event = await bench.gateway.event(1)
            assert isinstance(event, ButtonPressed)
            assert (event.data, event.platform_message_id, event.address) == ("p:0", sent, bench.dm)
            await bench.channel.acknowledge(event, "Noted")
            assert (await bench.feishu.wait_acked(pressed.event_id)).toast == "Noted"

    async def test_after_a_restart_the_place_of_a_press_is_looked_up(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        topic = await bench.feishu.group_says("@antler a topic", chat=TOPICS, silent=True)
        async with bench.running():
            place = bench.dm
            grown = await bench.channel.send(place, bench.part("May", final=False), "k1")
            await bench.channel.edit(place, grown, bench.part("May I?", final=False, buttons=BUTTONS))
            other = await bench.channel.send(
                _in_topic(topic.thread_id), bench.part("And I?", buttons=BUTTONS), "k2", topic.message_id
            )
        later = make_bench()
        async with later.running():
            for number, (sent, address) in enumerate(((grown, place), (other, _in_topic(topic.thread_id)))):
                await bench.feishu.press(sent.partition("/")[0], "Yes")
                event = await later.gateway.event(number)
                assert isinstance(event, ButtonPressed)
                assert (event.platform_message_id, event.address) == (sent, address)

    async def test_a_press_needs_no_right_to_look_its_place_up(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        """Neither long after the last message nor after a restart: the button says where it stands."""
        for method in ("im.chat.get", "im.message.get"):
            await bench.feishu.fail(method, faults.missing_scope("im:chat:readonly"), times=99)
        topic = await bench.feishu.group_says("@antler a topic", chat=TOPICS, silent=True)
        places = [bench.dm, _in_topic(topic.thread_id)]
        async with bench.running():
            await bench.feishu.user_says("hello")
            await message(bench)
            sent = [
                await bench.channel.send(place, bench.part("May I?", buttons=BUTTONS), f"k{number}", answered)
                for number, (place, answered) in enumerate(zip(places, (None, topic.message_id), strict=True))
            ]
            bench.gateway.clock.ahead += 2 * 3600
            for number, message_id in enumerate(sent):
                await bench.feishu.press(message_id, "Yes")
                event = await bench.gateway.event(1 + number)
                assert isinstance(event, ButtonPressed)
                assert event.address == places[number]
        later = make_bench()
        async with later.running():
            for number, message_id in enumerate(sent):
                await bench.feishu.press(message_id, "Yes")
                event = await later.gateway.event(number)
                assert isinstance(event, ButtonPressed)
                assert event.address == places[number]

    async def test_a_direct_chat_stays_known_as_one(self, bench: Bench) -> None:
        """Also for buttons that do not say where they stand, and when the platform does not answer in time."""
        await bench.feishu.fail("im.chat.get", faults.slow(5), times=99)
        async with bench.running():
            await bench.feishu.user_says("hello")
            await message(bench)
            for number in (1, 2):
                bench.gateway.clock.ahead += 2 * 3600
                await bench.feishu.inject("card.action.trigger", _bare_press(bench))
                event = await bench.gateway.event(number)
                assert isinstance(event, ButtonPressed)
                assert event.address == bench.dm

    async def test_what_was_known_of_a_chat_outlives_a_slow_answer(self, bench: Bench) -> None:
        async with bench.running():
            for number in (0, 1):
                await bench.feishu.inject("card.action.trigger", _bare_press(bench))
                event = await bench.gateway.event(number)
                assert isinstance(event, ButtonPressed)
                assert event.address == bench.dm
                bench.gateway.clock.ahead += 2 * 3600
                await bench.feishu.fail("im.chat.get", faults.slow(5), times=99)

    async def test_without_an_answer_in_time_the_press_is_acknowledged_plainly(self, bench: Bench) -> None:
        async with bench.running():
            sent = await bench.channel.send(bench.dm, bench.part("May I?", buttons=BUTTONS), "k1")
            pressed = await bench.feishu.press(sent, "Yes")
            seen = await bench.feishu.wait_acked(pressed.event_id)
            assert (seen.toast, len(seen.attempts)) == ("", 1)


class TestAcknowledging:
    async def test_what_could_not_be_stored_comes_again(self, bench: Bench) -> None:
        await bench.feishu.set_timing(retry_delays=[0.01, 0.01])
        bench.gateway.refuse = 2
        async with bench.running():
            said = await bench.feishu.user_says("again")
            assert (await message(bench)).text == "again"
            assert [ack["code"] for ack in (await bench.feishu.wait_acked(said.event_id)).acks] == [500, 500, 200]

    async def test_what_is_not_stored_in_time_is_refused_in_time(self, bench: Bench) -> None:
        await bench.feishu.set_timing(retry_delays=[])
        bench.gateway.gate.clear()
        async with bench.running():
            said = await bench.feishu.user_says("slow disk")
            seen = await bench.feishu.wait_event(said.event_id)
            assert ([ack["code"] for ack in seen.acks], len(seen.attempts)) == ([500], 1)
            bench.gateway.gate.set()
            again = await bench.feishu.redeliver(said.event_id)
            assert (await bench.feishu.wait_acked(again)).event_id == said.event_id
            assert (await message(bench)).text == "slow disk"

    async def test_a_chat_keeps_its_order_and_others_do_not_wait(self, bench: Bench) -> None:
        await bench.feishu.fail("contact.user.get", faults.slow(5))  # the first one's name takes its time
        async with bench.running():
            await bench.feishu.user_says("one")
            await bench.feishu.user_says("two")
            await bench.feishu.user_says("from Bob", user=BOB)
            texts = [(await message(bench, number)).text for number in range(3)]
            assert texts.index("one") < texts.index("two")
            assert texts[0] == "from Bob"

    async def test_fragments_are_one_event(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.disturb("fragment", order=[2, 0, 1])
            said = await bench.feishu.user_says("in parts")
            assert (await message(bench)).text == "in parts"
            assert (await bench.feishu.wait_acked(said.event_id)).attempts[0]["parts"] == 3

    async def test_strange_frames_do_not_end_the_connection(self, bench: Bench) -> None:
        async with bench.running():
            await bench.feishu.send_raw_frame(b"\x00garbage")
            await bench.feishu.send_raw_frame(encode(Frame(method=CONTROL, service=1, headers=(("type", "news"),))))
            await bench.feishu.send_raw_frame(encode(Frame(method=CONTROL, headers=(("type", "pong"),), payload=b"{")))
            await bench.feishu.user_says("hello")
            await message(bench)
            assert len(await bench.feishu.connections(live=False)) == 1


def _in_topic(topic: str) -> Address:
    return Address(account="feishu", chat=TOPICS.id, topic=topic, kind="group")


def _bare_press(bench: Bench) -> dict[str, Any]:
    """A press of Alice's on a button that does not say where it stands."""
    return {
        "operator": {"open_id": bench.feishu.open_id(ALICE)},
        "action": {"tag": "button", "value": {"data": "p:0"}},
        "context": {"open_message_id": "om_old", "open_chat_id": bench.dm.chat},
    }
