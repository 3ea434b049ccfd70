"""The actor of a conversation: order, bundles, the queue, edits, files; and what it leaves when it is idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bot.files.uploads import UploadLimits
from bot.store import StoreUnavailable, inbox, runs
from bot.store.rows import InboxState, RunState
from bot.texts.en import EN
from channels.message import Attachment
from tests.bot.core import ANN, BOB, Core, core

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection


def file(name: str, size: int | None = None) -> Attachment:
    return Attachment(ref=name, kind="file", name=name, size=size)


def on_disk(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


async def inbox_states(c: Core) -> list[InboxState]:
    return [row.state for row in await c.store.read(lambda tx: inbox.load(tx, range(1, 100)))]


async def test_a_message_is_answered_in_one_message_which_in_a_group_replies_to_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("hello", ANN, "g")
        await c.say("hello")
        await c.answered()
        (in_group,), (between_two,) = c.channel.chats["g"], c.channel.chats[ANN]
        assert in_group.text == between_two.text == "echo: hello"
        assert (in_group.reply_to, between_two.reply_to) == (said.platform_message_id, None)


async def test_messages_of_a_conversation_run_one_at_a_time_in_their_order(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        for text in ("first", "second", "third"):
            await c.say(text)
        assert c.harness.asked == ["first"]
        await c.say("someone else", BOB)
        assert c.texts(BOB) == ["echo: someone else"]
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "someone else", "second", "third"]
        assert c.texts() == ["The whole answer", "echo: second", "echo: third"]
        assert c.harness.most_at_work == 2


async def test_a_run_is_stored_behind_one_whose_opening_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with core(tmp_path) as c:
        write, refused, gate = c.store.write, list[object](), c.harness.hold("first")

        async def flaky(unit: Callable[[Connection], Any], *, within: float = 0.0) -> Any:
            if within and not refused:
                refused.append(unit)
                raise StoreUnavailable("the disk is full")
            return await write(unit, within=within)

        monkeypatch.setattr(c.store, "write", flaky)
        await c.say("first")
        await c.say("second")
        assert refused
        await c.clock.advance(2)
        assert [row.input.text for row in await c.store.read(runs.unended)] == ["first", "second"]
        gate.set()
        await c.answered()


async def test_at_most_so_many_runs_work_at_once_and_the_others_wait(tmp_path: Path) -> None:
    async with core(tmp_path, concurrent=1) as c:
        gate = c.harness.hold("first")
        await c.say("first")
        await c.say("other chat", BOB)
        assert c.harness.asked == ["first"]
        gate.set()
        await c.answered()
        assert c.harness.most_at_work == 1
        assert c.texts(BOB) == ["echo: other chat"]


async def test_an_album_and_its_caption_are_one_turn(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.files = {"a.png": b"a", "b.png": b"bb"}
        await c.say("", bundle="album", attachments=(file("a.png"),))
        await c.clock.advance(0.5)
        await c.say("what is this?", bundle="album", attachments=(file("b.png"),))
        await c.clock.advance(0.7)
        assert c.harness.asked == []
        await c.clock.advance(0.2)
        await c.answered()
        assert c.harness.asked == ["what is this?"]
        assert [(taken.name, taken.size, taken.path.read_bytes()) for taken in c.files(0)] == [
            ("a.png", 1, b"a"),
            ("b.png", 2, b"bb"),
        ]
        assert len(c.texts()) == 1


@pytest.mark.parametrize("at_once", [True, False])
async def test_in_a_group_a_mention_in_the_caption_is_for_the_whole_album(tmp_path: Path, at_once: bool) -> None:
    async with core(tmp_path) as c:
        c.channel.files = {"a.png": b"a", "b.png": b"bb"}
        caption = c.message("compare them", chat="g", bundle="album", attachments=(file("a.png"),))
        other = c.message("", chat="g", bundle="album", attachments=(file("b.png"),), mention=False)
        if at_once:
            await c.receive(other, caption)
        else:
            await c.receive(caption)
            await c.receive(other)
        await c.say("", BOB, "g", bundle="of Bob", attachments=(file("b.png"),), mention=False)
        await c.answered()
        assert c.harness.asked == ["compare them"]
        assert sorted(taken.name for taken in c.files(0)) == ["a.png", "b.png"]


async def test_a_paste_that_the_platform_cut_is_joined_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.receive(*(c.message(f"part {number}", bundle="paste") for number in range(3)))
        await c.answered()
        assert c.harness.asked == ["part 0\npart 1\npart 2"]


async def test_bundles_of_two_people_are_not_mixed(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("from Ann", ANN, "g", bundle="x")
        await c.say("from Bob", BOB, "g", bundle="x")
        await c.answered()
        assert c.harness.asked == ["from Ann", "from Bob"]


async def test_a_later_message_waits_behind_one_that_still_arrives(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.files = {"a.pdf": b"x"}
        c.channel.downloads = asyncio.Event()
        await c.say("read this", attachments=(file("a.pdf"),))
        await c.say("and answer briefly")
        assert c.harness.asked == []
        assert c.manager.waiting == 2
        c.channel.downloads.set()
        await c.answered()
        assert c.harness.asked == ["read this", "and answer briefly"]


async def test_a_full_queue_is_told_in_one_message_whose_count_grows(tmp_path: Path) -> None:
    async with core(tmp_path, queue_limit=2) as c:
        gate = c.harness.hold("first")
        for text in ("first", "second", "third", "fourth", "fifth", "sixth"):
            await c.say(text)
        await c.clock.advance(5)
        notices = [text for text in c.texts() if "not accepted" in text]
        assert len(notices) == 1
        assert notices[0].startswith("⚠️ 3 message(s) not accepted: 2 are")
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "second", "third"]
        await c.say("seventh")
        await c.answered()
        assert c.texts()[-1] == "echo: seventh"


async def test_an_edit_of_a_waiting_message_is_answered_in_its_new_state(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        first = await c.say("first")
        waiting = await c.say("the capital of Frence?")
        await c.edit(waiting, "the capital of France?")
        await c.edit(first, "never mind")
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "the capital of France?"]
        assert (await c.reasons())[:2] == ["edit taken over", "edited after its turn began"]


async def test_retry_asks_what_was_edited_since_each_time(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        one, two = c.message("the capital of Frence?", bundle="b"), c.message("in short", bundle="b")
        await c.receive(one, two)
        await c.clock.advance(1)
        await c.answered()
        await c.edit(one, "the capital of France?")
        await c.edit(two, "at length")
        await c.say("/retry")
        await c.answered()
        await c.edit(one, "the capital of Spain?")
        await c.restart()
        await c.say("/retry")
        await c.answered()
        await c.say("/retry")
        await c.answered()
        spain = "the capital of Spain?\nat length"
        assert c.harness.asked[1:] == ["the capital of France?\nat length", spain, spain]
        await c.say("/undo")
        await c.say("/undo")
        assert c.texts()[-1] == EN.undo["nothing"]


async def test_both_parts_of_a_waiting_bundle_can_be_edited_and_a_crash_forgets_neither(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        one, two = c.message("one", bundle="b"), c.message("two", bundle="b")
        await c.receive(one, two)
        await c.edit(one, "ONE")
        await c.restart()
        await c.clock.advance(1)
        await c.edit(two, "TWO")
        c.harness.scripts.clear()
        await c.restart()
        await c.answered()
        assert c.harness.asked[-1] == "ONE\nTWO"


async def test_somebody_elses_edit_changes_nothing(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        await c.say("first", ANN, "g")
        waiting = await c.say("mine", ANN, "g")
        forged = c.message("theirs", BOB, "g", number=int(waiting.platform_message_id[1:]), keys=())
        await c.edit(forged, "theirs")
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "mine"]


async def test_stop_at_the_very_same_moment_stops_the_run(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("long work", half="")
        await c.receive(c.message("long work"), c.message("/stop"))
        await c.answered()
        assert c.texts() == ["⏹ Stopped."]
        (row,) = await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 5))
        assert row.state is RunState.INTERRUPTED


async def test_new_stops_what_runs_and_drops_what_waits_or_arrives(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.downloads = asyncio.Event()
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        await c.say("third", attachments=(file("a.pdf"),))
        await c.say("/new  Holiday\nplans ")
        await c.say("fresh")
        await c.answered()
        first, second, third, told, fresh = c.texts()
        assert first.startswith("The first half\n\n⏹ Stopped, because a new thread was started.")
        assert "unfinished" in first
        assert "**Holiday plans**" in told
        assert "was stopped" in told
        assert "2 waiting" in told
        assert second == third == "⏹ Not answered: a new thread was started first."
        assert fresh == "echo: fresh"
        assert c.harness.starts[0].ctx.thread_id != c.harness.starts[1].ctx.thread_id
        assert await inbox_states(c) == [InboxState.DONE] * 5
        assert not on_disk(tmp_path, "*a.pdf")


async def test_a_refused_file_is_told_and_the_rest_is_answered(tmp_path: Path) -> None:
    async with core(
        tmp_path, upload_limits=UploadLimits(file=1_500_000, thread=9_000_000, message=9_000_000, person=90_000_000)
    ) as c:
        c.channel.files = {"ok.txt": b"fine", "big.bin": bytes(1_500_001)}
        await c.say("compare", attachments=(file("ok.txt"), file("big.bin"), file("lost.txt")))
        await c.answered()
        notice, answer = c.texts()
        assert "big.bin was not accepted: it is larger than 1.5 MB" in notice
        assert "lost.txt could not be downloaded: it is no longer there" in notice
        assert answer == "echo: compare"
        assert [taken.name for taken in c.files(0)] == ["ok.txt"]


async def test_a_message_that_was_only_a_refused_file_needs_no_run(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("", attachments=(file("huge.iso", size=5_000_000_000),))
        await c.answered()
        (notice,) = c.texts()
        assert "huge.iso was not accepted" in notice
        assert c.harness.asked == []
        assert await inbox_states(c) == [InboxState.DONE]
        assert await c.reasons() == ["files refused"]


async def test_a_notice_about_a_file_outlives_a_crash(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("look")
        held = c.channel.hold("send")
        await c.say("look", attachments=(file("gone.txt"),))
        assert c.texts() == []
        await c.crash()
        held.set()
        gate.set()
        await c.start()
        await c.answered()
        assert sorted(c.texts()) == [
            "The whole answer",
            "⚠️ gone.txt could not be downloaded: it is no longer there. Please send it again.",
        ]


async def test_a_crash_while_files_arrive_loses_neither_message_nor_file(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.files = {"a.txt": b"text"}
        c.channel.downloads = asyncio.Event()
        await c.say("read", attachments=(file("a.txt"),))
        await c.crash()
        assert not on_disk(tmp_path, "*-a.txt")
        c.channel.downloads = None
        await c.start()
        await c.answered()
        assert c.harness.asked == ["read"]
        assert [taken.name for taken in c.files(0)] == ["a.txt"]


@pytest.mark.slow
async def test_no_actor_stays_of_a_thousand_conversations(tmp_path: Path) -> None:
    people = [str(number) for number in range(1000)]
    async with core(tmp_path) as c:
        c.policy = type(c.policy)(type(c.policy.access)(open_dm=True))
        for first in range(0, 1000, 100):
            await c.receive(*(c.message("hi", person) for person in people[first : first + 100]))
        await c.answered()
        await c.clock.settle()
        assert len(c.harness.starts) == 1000
        assert c.manager.idle
        assert not c.runs.active
        assert len(c.actors) == 0


@pytest.mark.parametrize("moment", ["before", "during", "at the end"])
async def test_a_store_that_fails_for_a_while_loses_nothing(tmp_path: Path, moment: str) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("hello")
        publishing = c.channel.receive(c.message("hello"))
        if moment == "before":
            await publishing
            c.store.down = True  # committed to the inbox, not yet taken up
            await c.clock.advance(40)
        elif moment == "during":
            await publishing
            await c.clock.settle()
            c.store.down = True
            gate.set()
            await c.clock.advance(40)
        else:
            await publishing
            await c.clock.settle()
            gate.set()
            c.store.down = True
            await c.clock.advance(100)
        assert c.texts() in ([], ["The first half"], ["Working…"])
        c.store.down = False
        gate.set()
        await c.answered()
        assert c.texts() == ["The whole answer"]
