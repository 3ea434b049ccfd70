"""Answers that grow in one card: streaming, its renewal and its end, and what goes on after a crash."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from channels.errors import MessageGone, OutcomeUnknown, RateLimited, Rejected
from channels.message import Button
from tests.channels.feishu.support import Bench, bench_for
from tests.channels.gateway import ListeningGateway, QuickClock
from tests.simulators.feishu import faults
from tests.simulators.feishu.client import running_feishu
from tests.simulators.feishu.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulators.feishu.client import FeishuSimulator


@dataclass(kw_only=True)
class PassingClock(QuickClock):
    """Its sleeps pass at once, on the platform's clock too."""

    feishu: FeishuSimulator

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.ahead += seconds
        await self.feishu.advance(seconds)


BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)


class TestGrowing:
    async def test_a_draft_is_an_entity_that_streams_and_ends_plain(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False, status="Working"), "k1")
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert (draft.streaming, draft.text) == (True, "Hel\nWorking")
        assert message_id == f"{draft.message_id}/{draft.card_id}"
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False, status="Working"))
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello, world"))
        (answer,) = await bench.feishu.bot_messages(ALICE)
        assert (answer.text, answer.streaming, answer.generating) == ("Hello, world", False, False)
        assert answer.summary == "Hello, world"
        assert await bench.methods() == [
            "auth.token",
            "cardkit.card.create",
            "im.message.create",
            "cardkit.element.content",
            "cardkit.card.update",
            "cardkit.card.settings",
        ]

    async def test_an_answer_streams_in_the_notice_that_said_it_was_queued(self, bench: Bench) -> None:
        queued = bench.part("", final=False, status="Queued, next in line", buttons=BUTTONS)
        message_id = await bench.channel.send(bench.dm, queued, "k1")
        (notice,) = await bench.feishu.bot_messages(ALICE)
        assert (notice.labels, notice.streaming) == (["Yes", "No"], False)
        assert message_id == f"{notice.message_id}/{notice.card_id}"
        assert notice.buttons[0]["value"]["card"] == notice.card_id
        for text in ("Hel", "Hello"):
            await bench.channel.edit(bench.dm, message_id, bench.part(text, final=False))
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert (draft.text.split("\n")[0], draft.labels, draft.streaming) == ("Hello", [], True)
        assert len(await bench.feishu.records("cardkit.element.content")) == 1

    async def test_only_what_changed_is_streamed(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        for text, status in (("Hello", ""), ("Hello", "Reading"), ("Hello", ""), ("Hello", "")):
            await bench.channel.edit(bench.dm, message_id, bench.part(text, final=False, status=status))
        calls = [
            record.path.split("/elements/")[-1] for record in await bench.feishu.records("cardkit.element.content")
        ]
        assert calls == ["text/content", "status/content", "status/content"]

    async def test_a_finished_answer_is_one_plain_card(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Done"), "k1")
        await bench.channel.edit(bench.dm, message_id, bench.part("Done and dusted"))
        (answer,) = await bench.feishu.bot_messages(ALICE)
        assert (answer.message_id, answer.text, answer.card_id) == (message_id, "Done and dusted", None)
        assert await bench.methods() == ["auth.token", "im.message.create", "im.message.patch"]

    async def test_another_process_goes_on_in_the_same_card(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        await bench.feishu.set_limits(enforce=False)
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        for number in range(30):
            await bench.channel.edit(bench.dm, message_id, bench.part(f"Hello {number}", final=False))
        later = make_bench()
        await later.channel.edit(later.dm, message_id, later.part("Hello from later", final=False, status="Working"))
        await later.channel.edit(later.dm, message_id, later.part("Hello from later on", final=False, status="Working"))
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert (draft.text, draft.streaming) == ("Hello from later on\nWorking", True)
        await later.channel.edit(later.dm, message_id, later.part("The end"))
        assert (await bench.feishu.bot_messages(ALICE))[0].text == "The end"

    async def test_streaming_is_renewed_before_the_platform_ends_it(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.advance(550)
        bench.gateway.clock.ahead = 550
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        await bench.feishu.advance(400)
        bench.gateway.clock.ahead = 950
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello again", final=False))
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert (draft.text.strip("\n\u200b"), draft.streaming) == ("Hello again", True)
        assert [r.code for r in await bench.feishu.records("cardkit.element.content")] == [0, 0]

    @pytest.mark.parametrize("code", [300309, 200850])
    async def test_a_stream_that_the_platform_closed_is_opened_again(self, bench: Bench, code: int) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.element.content", faults.error(code))
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert draft.text.strip("\n\u200b") == "Hello"
        await bench.feishu.fail("cardkit.element.content", faults.error(code), times=2)
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello once more", final=False))
        assert "Hello once more" in (await bench.feishu.bot_messages(ALICE))[0].text

    @pytest.mark.parametrize("times", [1, 3])
    async def test_a_number_that_was_used_is_passed(self, bench: Bench, times: int) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.element.content", faults.sequence_conflict(), times)
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        await bench.channel.edit(bench.dm, message_id, bench.part("The end"))
        assert (await bench.feishu.bot_messages(ALICE))[0].text == "The end"

    async def test_a_clock_that_went_back_does_not_stop_it(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        bench.gateway.clock.ahead = 3600
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        later = make_bench()
        await later.channel.edit(later.dm, message_id, later.part("The end"))
        assert (await bench.feishu.bot_messages(ALICE))[0].text == "The end"

    async def test_a_missing_element_makes_the_card_anew(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.element.content", faults.error(300313))
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False, status="Working"))
        assert (await bench.feishu.bot_messages(ALICE))[0].text == "Hello\nWorking"
        assert (await bench.feishu.records("cardkit.card.update"))[-1].code == 0

    async def test_what_failed_is_sent_again_with_the_next_edit(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.element.content", faults.rate_limited(7))
        with pytest.raises(RateLimited) as caught:
            await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        assert caught.value.retry_after == 7
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        assert (await bench.feishu.bot_messages(ALICE))[0].text.startswith("Hello")

    async def test_buttons_on_a_growing_card_know_its_entity(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("May", final=False), "k1")
        await bench.channel.edit(bench.dm, message_id, bench.part("May I?", final=False, buttons=BUTTONS))
        (asked,) = await bench.feishu.bot_messages(ALICE)
        assert (asked.labels, asked.streaming) == (["Yes", "No"], False)
        assert asked.buttons[0]["value"] == {"data": "p:0", "chat": bench.dm.chat, "kind": "dm", "card": asked.card_id}
        await bench.channel.edit(bench.dm, message_id, bench.part("Then", final=False, status="Working"))
        (going_on,) = await bench.feishu.bot_messages(ALICE)
        assert (going_on.text, going_on.labels, going_on.streaming) == ("Then\nWorking", [], True)

    async def test_a_scope_that_was_taken_away_moves_the_answer_to_another_message(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.*", faults.missing_scope("cardkit:card:write"), times=9)
        with pytest.raises(MessageGone):
            await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        again = await bench.channel.send(bench.dm, bench.part("Hello", final=False), "k2")
        await bench.channel.edit(bench.dm, again, bench.part("The end"))
        assert [message.text for message in await bench.feishu.bot_messages(ALICE)] == ["The end"]

    async def test_a_finished_answer_that_the_card_refuses_moves_too_and_a_draft_does_not(self, bench: Bench) -> None:
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.feishu.fail("cardkit.*", faults.audit_failed(), times=2)
        with pytest.raises(Rejected):
            await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False))
        assert len(await bench.feishu.bot_messages(ALICE)) == 1
        with pytest.raises(MessageGone):
            await bench.channel.edit(bench.dm, message_id, bench.part("The end"))
        assert await bench.feishu.bot_messages(ALICE) == []


class TestRepeating:
    async def test_a_send_whose_answer_got_lost_is_repeated_into_the_same_card(self, bench: Bench) -> None:
        await bench.feishu.fail("im.message.create", faults.reset(apply=True))
        with pytest.raises(OutcomeUnknown):
            await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        message_id = await bench.channel.send(bench.dm, bench.part("Hello", final=False), "k1")
        (draft,) = await bench.feishu.bot_messages(ALICE)
        assert (message_id, draft.text.strip("\n\u200b")) == (f"{draft.message_id}/{draft.card_id}", "Hello")

    async def test_a_send_that_could_not_be_recorded_is_repeated_into_the_same_card(self, bench: Bench) -> None:
        part = bench.part("Hel", final=False)
        first = await bench.channel.send(bench.dm, part, "k1")
        assert await bench.channel.send(bench.dm, part, "k1") == first
        assert len(await bench.feishu.bot_messages(ALICE)) == 1

    async def test_what_an_earlier_process_sent_unrecorded_is_replaced(self) -> None:
        """The earlier one is killed as it sends, and the later one starts within the same second of the platform."""
        # A platform of its own, whose clock no other test has turned: the repetition is recognised by its age.
        async with running_feishu() as feishu:
            await feishu.add_chat(ALICE)
            bench, later = bench_for(feishu), bench_for(feishu, ListeningGateway(clock=PassingClock(feishu=feishu)))
            await feishu.advance(1 - time.time() % 1)  # a second begins
            first = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
            again = await later.channel.send(later.dm, later.part("Hello", final=False), "k1")
            assert again != first
            await later.channel.edit(later.dm, again, later.part("The end"))
            (answer,) = await feishu.bot_messages(ALICE)
            assert (answer.text, again) == ("The end", f"{answer.message_id}/{answer.card_id}")
            await bench.channel.close()
            await later.channel.close()

    async def test_a_draft_that_an_earlier_process_sent_unrecorded_makes_way_for_the_answer(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        later = make_bench()
        again = await later.channel.send(later.dm, later.part("The end"), "k1")
        with pytest.raises(MessageGone):  # delivery edits what a repeated send gave back, and then sends again
            await later.channel.edit(later.dm, again, later.part("The end"))
        assert await bench.feishu.bot_messages(ALICE) == []

    async def test_a_finished_answer_is_recognised_by_the_platform(
        self, bench: Bench, make_bench: Callable[..., Bench]
    ) -> None:
        first = await bench.channel.send(bench.dm, bench.part("Done"), "k1")
        later = make_bench()
        assert await later.channel.send(later.dm, later.part("Done"), "k1") == first
        assert len(await bench.feishu.bot_messages(ALICE)) == 1
