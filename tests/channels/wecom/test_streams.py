"""Streamed answers on the real wire: their snapshots, their end, and what breaks them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from channels.base import Probe
from channels.errors import ButtonsRefused, OutcomeUnknown, Rejected, Temporary
from channels.message import Button, ButtonPressed, OutboundFile, OutboundMessage
from channels.wecom.channel import STREAM_SECONDS
from tests.channels.wecom.support import QUICK, address, asked, only
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.channels.wecom.support import Bench

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)


async def test_a_stream_shows_snapshots_with_the_status_and_ends_without_it(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        stream = await bench.channel.open_stream(address(), "k1", question)
        await stream.show(OutboundMessage(status="reading a_b.txt"))
        await stream.show(OutboundMessage(text="It", status="writing"))
        await stream.show(OutboundMessage(text="It is **so"))
        await stream.finish(OutboundMessage(text="It is **so**.", status="done", final=True))
        (seen,) = await bench.wecom.bot_messages(ALICE)
        assert seen.stream_id == stream.message_id
        assert [version.text for version in seen.history] == [
            "",
            "> reading a_b.txt",
            "It\n\n> writing",
            "It is **so**",
            "It is **so**.",
        ]
        assert seen.state == "finished"


async def test_a_stream_that_has_to_end_says_where_the_answer_goes_on(bench: Bench) -> None:
    """And no line about a tool stays there as if it was still at work."""
    async with bench.running():
        for number, (text, shown) in enumerate([("Half", "Half\n\n> Continues below"), ("", "> Continues below")]):
            question = await asked(bench, "Tell me", number)
            stream = await bench.channel.open_stream(address(), f"k{number}", question)
            await stream.show(OutboundMessage(text=text, status="reading a file"))
            await stream.finish(OutboundMessage(text=text, status="Continues below"))
            seen = (await bench.wecom.bot_messages(ALICE))[number]
            assert (seen.state, seen.text) == ("finished", shown)


@pytest.mark.parametrize(("shown", "left"), [("So far", "So far"), ("", "…")])
async def test_a_stream_whose_next_frame_is_refused_does_not_stay_open(bench: Bench, shown: str, left: str) -> None:
    async with bench.running():
        stream = await bench.channel.open_stream(address(), "k1", await asked(bench))
        await stream.show(OutboundMessage(text=shown))
        await bench.wecom.fail("aibot_respond_msg", faults.error(40058))
        with pytest.raises(Rejected, match="40058"):
            await stream.show(OutboundMessage(text="So far, and what is refused"))
        (seen,) = await bench.wecom.bot_messages(ALICE)
        assert (seen.state, seen.text) == ("finished", left)


async def test_a_question_has_one_stream_only(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        stream = await bench.channel.open_stream(address(), "k1", question)
        await stream.finish(OutboundMessage(text="So far"))
        assert await bench.wecom.texts(ALICE) == ["So far"]
        for unknown in (question, None, "m1"):
            with pytest.raises(Rejected):
                await bench.channel.open_stream(address(), "k2", unknown)
        await bench.channel.send(address(), only(bench, "The rest"), "k2", question)
        assert await bench.wecom.texts(ALICE) == ["So far", "The rest"]


async def test_a_stream_whose_beginning_got_no_ack_goes_on(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        for number, applied in enumerate((True, False)):
            question = await asked(bench, number=number)
            await bench.wecom.fail("aibot_respond_msg", faults.missing_ack(apply=applied))
            stream = await bench.channel.open_stream(address(), f"k{number}", question)
            await stream.show(OutboundMessage(text="Half"))
            await stream.finish(OutboundMessage(text="Whole", final=True))
        assert await bench.wecom.texts(ALICE) == ["Whole", "Whole"]


async def test_a_question_that_the_platform_has_forgotten_is_asked_for_once(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        await bench.wecom.fail("aibot_respond_msg", faults.invalid_req_id())
        for _ in range(3):
            with pytest.raises(Rejected):
                await bench.channel.open_stream(address(), "k1", question)
        assert len(await bench.wecom.records("aibot_respond_msg")) == 1


async def test_the_stream_of_an_earlier_process_is_not_taken_over(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        await before.channel.open_stream(address(), "k1", question)
    await before.channel.close()
    async with after.running():
        with pytest.raises(Rejected):
            await after.channel.open_stream(address(), "k2", question)
        await after.channel.send(address(), only(after, "Whole"), "k2", question)
        kinds = [(message.kind, message.text) for message in await after.wecom.bot_messages(ALICE)]
        assert kinds == [("stream", ""), ("markdown", "Whole")]


async def test_what_an_earlier_process_has_answered_is_answered_again_by_a_push(
    make_bench: Callable[..., Bench],
) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        await before.channel.send(address(), only(before, "First"), "k1", question)
    await before.channel.close()
    async with after.running():
        await after.channel.send(address(), only(after, "Second"), "k2", question)
        with pytest.raises(OutcomeUnknown):
            await after.channel.find(address(), only(after, "Third"), Probe(idem_key="k3", after=question))
        assert await after.wecom.texts(ALICE) == ["First", "Second"]


async def test_a_stream_that_ends_with_buttons_has_them_on_a_card_below(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        stream = await bench.channel.open_stream(address(), "k1", question)
        await stream.finish(OutboundMessage(text="May I?", buttons=BUTTONS))
        text, card = await bench.wecom.bot_messages(ALICE)
        assert (text.text, text.state, card.labels) == ("May I?", "finished", ["Yes", "No"])
        await bench.wecom.presses("Yes")
        press = await bench.gateway.event(1)
        assert isinstance(press, ButtonPressed)
        assert (press.platform_message_id, press.data) == (stream.message_id, "p:0")


async def test_where_the_card_below_a_stream_is_refused_its_words_stand(bench: Bench) -> None:
    async with bench.running():
        stream = await bench.channel.open_stream(address(), "k1", await asked(bench))
        await bench.wecom.fail("aibot_send_msg", faults.error(40058), 2)
        with pytest.raises(ButtonsRefused):
            await stream.finish(OutboundMessage(text="May I?", buttons=BUTTONS))
        (seen,) = await bench.wecom.bot_messages(ALICE)
        assert (seen.text, seen.state, seen.labels) == ("May I?", "finished", [])


async def test_a_stream_that_ends_with_a_file_only_names_it(bench: Bench, tmp_path: Path) -> None:
    file = OutboundFile(path=tmp_path / "report.txt", name="report.txt", mime_type="text/plain")
    file.path.write_text("figures")
    async with bench.running():
        question = await asked(bench)
        stream = await bench.channel.open_stream(address(), "k1", question)
        await stream.finish(OutboundMessage(files=(file,), final=True))
        text, sent = await bench.wecom.bot_messages(ALICE)
        assert (text.text, sent.kind, sent.file and sent.file["name"]) == ("📎 report.txt", "file", "report.txt")


async def test_an_expired_stream_is_rejected_and_a_lost_end_is_not_taken_for_that(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        first = await bench.channel.open_stream(address(), "k1", await asked(bench))
        await bench.wecom.advance(601)
        with pytest.raises(Rejected, match="846608"):
            await first.show(OutboundMessage(text="Too late"))
        second = await bench.channel.open_stream(address(), "k2", await asked(bench, number=1))
        await bench.wecom.fail("aibot_respond_msg", faults.missing_ack())
        with pytest.raises(OutcomeUnknown):
            await second.finish(OutboundMessage(text="Done", final=True))
        await second.finish(OutboundMessage(text="Done", final=True))
        assert (await bench.wecom.texts(ALICE))[-1] == "Done"


async def test_an_answer_without_an_ack_is_found_by_saying_it_again(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        question, part = await asked(bench), only(bench, "Once")
        for applied, key in ((True, "k1"), (False, "k2")):
            await bench.wecom.fail("aibot_respond_msg", faults.missing_ack(apply=applied))
            with pytest.raises(OutcomeUnknown):
                await bench.channel.send(address(), part, key, question)
            assert await bench.channel.find(address(), part, Probe(idem_key=key, after=question)) == key
            question = await asked(bench, "Again", 1)
        assert await bench.wecom.texts(ALICE) == ["Once", "Once"]


async def test_after_a_reconnect_an_old_question_is_answered_by_a_push(bench: Bench) -> None:
    await bench.wecom.configure(forget_req_ids=True)
    async with bench.running():
        question = await asked(bench)
        stream = await bench.channel.open_stream(address(), "k1", question)
        await bench.wecom.close()
        await bench.wecom.wait_connected(times=2)
        with pytest.raises(Rejected, match="846605"):
            await stream.show(OutboundMessage(text="Half"))
        await bench.channel.send(address(), only(bench, "Whole"), "k2", None)
        assert (await bench.wecom.texts(ALICE))[-1] == "Whole"


async def test_frames_of_one_stream_wait_for_each_other(bench: Bench) -> None:
    async with bench.running():
        stream = await bench.channel.open_stream(address(), "k1", await asked(bench))
        await asyncio.gather(*(stream.show(OutboundMessage(text="x" * n)) for n in range(1, 9)))
        frames = await bench.wecom.records("aibot_respond_msg")
        assert {frame.outcome for frame in frames} == {"applied"}
        assert len(frames) == 9


async def test_a_stream_that_an_earlier_process_left_goes_on(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        stream = await before.channel.open_stream(address(), "k1", question)
        await stream.show(OutboundMessage(text="It is half", status="writing"))
    await before.channel.close()
    async with after.running():
        resumed = after.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await resumed.show(OutboundMessage(text="It"))
        await resumed.finish(OutboundMessage(text="It is whole", final=True))
        (seen,) = await after.wecom.bot_messages(ALICE)
        assert (seen.text, seen.state) == ("It is whole", "finished")


@pytest.mark.parametrize("at_once", [False, True])
async def test_it_goes_on_though_another_message_was_tried_in_its_place(
    make_bench: Callable[..., Bench], at_once: bool
) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        await before.channel.open_stream(address(), "k1", question)
    await before.channel.close()
    async with after.running():
        part = only(after, "Allowed")
        sending = asyncio.create_task(after.channel.send(address(), part, "k2", question))
        await asyncio.sleep(0) if at_once else await sending
        resumed = after.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await resumed.finish(OutboundMessage(text="Whole", final=True))
        await sending
        assert sorted(await after.wecom.texts(ALICE)) == ["Allowed", "Whole"]


async def test_it_is_not_taken_for_ended_where_another_message_was_accepted_in_its_place(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench()
    async with bench.running():
        question = await asked(bench)
        part = only(bench, "Allowed")
        await bench.channel.send(address(), part, "k2", question)
        resumed = bench.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await bench.wecom.fail("aibot_respond_msg", faults.error(846608))
        with pytest.raises(Rejected, match="846608"):
            await resumed.finish(OutboundMessage(text="Whole", final=True))


async def test_a_stream_that_an_earlier_process_has_ended_shows_the_answer(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    whole = OutboundMessage(text="Whole", final=True)
    async with before.running():
        question = await asked(before)
        stream = await before.channel.open_stream(address(), "k1", question)
        await stream.finish(whole)
    await before.channel.close()
    async with after.running():
        resumed = after.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        with pytest.raises(Rejected, match="846608"):
            await resumed.finish(replace(whole, final=False))
        await resumed.finish(whole)
        assert await after.wecom.texts(ALICE) == ["Whole"]


async def test_that_a_stream_is_over_says_nothing_once_its_time_may_be(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        await before.channel.open_stream(address(), "k1", question)
    await before.channel.close()
    await before.wecom.advance(601)
    async with after.running():
        assert after.channel.resume_stream(address(), "k1", question, STREAM_SECONDS) is None
        resumed = after.channel.resume_stream(address(), "k1", question, STREAM_SECONDS - 1e-9)
        assert resumed is not None
        with pytest.raises(Rejected, match="846608"):
            await resumed.finish(OutboundMessage(text="Whole", final=True))


async def test_a_stream_that_took_a_frame_was_not_ended_before(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        await bench.channel.open_stream(address(), "k1", question)
        resumed = bench.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await resumed.show(OutboundMessage(text="Half"))
        await bench.wecom.advance(601)
        with pytest.raises(Rejected, match="846608"):
            await resumed.finish(OutboundMessage(text="Whole", final=True))


async def test_a_stream_of_a_forgotten_question_is_refused(make_bench: Callable[..., Bench]) -> None:
    before, after = make_bench(), make_bench()
    await before.wecom.configure(forget_req_ids=True)
    async with before.running():
        question = await asked(before)
        await before.channel.open_stream(address(), "k1", question)
    await before.channel.close()
    async with after.running():
        resumed = after.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        with pytest.raises(Rejected, match="846605"):
            await resumed.finish(OutboundMessage(text="Whole", final=True))


async def test_a_stream_of_an_earlier_process_is_not_in_conflict_for_ever(bench: Bench) -> None:
    async with bench.running():
        question = await asked(bench)
        await bench.channel.open_stream(address(), "k1", question)
        resumed = bench.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await bench.wecom.fail("aibot_respond_msg", faults.conflict(), times=3)
        for error in (Temporary, Temporary, Rejected):
            with pytest.raises(error, match="6000"):
                await resumed.finish(OutboundMessage(text="Whole", final=True))


async def test_the_buttons_below_a_stream_that_an_earlier_process_has_ended_are_there_once(
    make_bench: Callable[..., Bench],
) -> None:
    before, after = make_bench(), make_bench()
    failed = OutboundMessage(text="It failed.", buttons=BUTTONS, final=True)
    async with before.running():
        question = await asked(before)
        stream = await before.channel.open_stream(address(), "k1", question)
        await stream.finish(failed)
    await before.channel.close()
    async with after.running():
        resumed = after.channel.resume_stream(address(), "k1", question, 5)
        assert resumed is not None
        await resumed.finish(failed)
        kinds = [message.kind for message in await after.wecom.bot_messages(ALICE)]
        assert kinds == ["stream", "card"]


async def test_an_answer_of_an_earlier_process_is_found_where_nothing_else_can_be_under_its_req_id(
    make_bench: Callable[..., Bench],
) -> None:
    before, after = make_bench(), make_bench()
    async with before.running():
        question = await asked(before)
        await before.channel.send(address(), only(before, "Once"), "k1", question)
    await before.channel.close()
    async with after.running():
        part = only(after, "Once")
        found = await after.channel.find(address(), part, Probe(idem_key="k1", after=question, age=5))
        assert found == "k1"
        for age in (None, STREAM_SECONDS):
            with pytest.raises(OutcomeUnknown):
                await after.channel.find(address(), part, Probe(idem_key="k1", after=question, age=age))
        assert await after.wecom.texts(ALICE) == ["Once"]
