"""/forget me and the deletion of threads: what goes, what stays, and that no crash leaves it half done."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.forgetting import tool
from bot.forgetting.service import AGAIN_SECONDS
from bot.knowledge.keeper import Addition
from bot.schedule.timer import due_event
from bot.settings import ChannelSettings, Settings
from bot.store import forgetting, schedules
from bot.store.identity import folder_name, thread_folder
from bot.store.retrying import RetryingStore
from bot.texts.en import EN
from channels.message import Quote
from harness.scheduling.when import When
from tests.bot.core import ANN, BOB, Core, core
from tests.delivery_world import Tripwire
from tests.memory_channel import FULL, NO_BUTTONS, NO_EDIT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.memory_channel import MemoryMode

SAY = EN.forgetting
CANARY = "zebra-4711"
GROUP = "g"


async def said(c: Core, text: str, person: str = BOB, chat: str | None = None, name: str = "Bob") -> None:
    await c.say(text, person, chat, name=name)
    await c.answered()
    await c.clock.advance(60)


async def confirm(c: Core, person: str = BOB, chat: str | None = None, option: int = 0) -> None:
    bubble = next(each for each in reversed(c.channel.chats[chat or person]) if each.part.buttons)
    await c.press(bubble.message_id, bubble.part.buttons[0][option].data, person, chat)


async def forgotten(c: Core, person: str = BOB) -> str:
    """What it says in the end."""
    await said(c, "/forget me", person)
    await confirm(c, person)
    await done(c)
    return c.texts(person)[-1]


async def done(c: Core) -> None:
    await c.answered()
    for _ in range(100):
        if not await c.store.read(forgetting.unfinished_deletions):
            break
        await c.clock.advance(1)
    await c.answered()


def offline(folder: Path) -> Settings:
    channel = ChannelSettings.model_validate({"type": "console", "adapter": {}})
    return Settings.default().model_copy(update={"data_dir": folder, "channels": {"memory": channel}})


def everywhere(folder: Path) -> list[str]:
    """The files below the folder that hold the canary."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if CANARY.encode() in path.read_bytes()]


async def test_after_forget_me_no_word_is_left(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for number in range(3):
            await said(c, f"I keep a {CANARY} number {number}")
        await said(c, f"/new {CANARY}")
        await said(c, f"more of the {CANARY}", name=f"Bob {CANARY}")
        await said(c, f"the {CANARY} in a group", chat=GROUP)
        await said(c, "something else", ANN, GROUP, name="Ann")
        threads = {start.ctx.thread_id for start in c.harness.starts if start.ctx.owner == f"memory:{BOB}"}
        for thread_id in threads:
            folder = thread_folder(tmp_path, thread_id) / "uploads"
            folder.mkdir(parents=True)
            (folder / "note.txt").write_text(CANARY)
        export = tmp_path / "spool" / "event:1"
        export.mkdir(parents=True)
        (export / "memory.md").write_text(CANARY)
        own = tmp_path / "users" / folder_name(f"memory:{BOB}") / "skills"
        own.mkdir(parents=True)
        (own / "SKILL.md").write_text(CANARY)
        for owner in (f"memory:{BOB}", f"memory:{GROUP}"):
            addition = Addition(owner=owner, collection="main", kind="file", place="a.md", added_by=f"memory:{BOB}")
            await c.parts.knowledge.add_file(addition, f"The {CANARY} is in a document.".encode)
        assert everywhere(tmp_path)

        told = await forgotten(c)

        assert told.startswith(SAY["done"])
        assert SAY["count_threads"].format(count=2) in told
        assert SAY["count_messages"].format(count=5) in told
        assert sorted(c.files_of_threads.forgotten) == sorted(threads)
        assert not threads & c.harness.heads.keys()
        assert everywhere(tmp_path) == []
        rows = sqlite3.connect(tmp_path / "antler.db")
        assert rows.execute("SELECT count(*) FROM runs WHERE input LIKE '%something else%'").fetchone() == (1,)
        rows.close()


async def test_they_go_on_in_a_new_thread_and_it_works_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "first")
        await forgotten(c)
        await said(c, "second")
        first, second = (start.ctx.thread_id for start in c.harness.starts)
        assert first != second
        assert SAY["count_threads"].format(count=1) in await forgotten(c)
        assert (await forgotten(c)).startswith(SAY["nothing"])


async def test_what_runs_is_stopped_and_what_waits_is_dropped_first(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("long", half=f"a {CANARY}")
        await c.say("long", BOB)
        await c.say(f"the next {CANARY}", BOB)
        await c.say("/forget me", BOB)
        await c.clock.advance(5)
        await confirm(c)
        await done(c)
        texts = c.texts(BOB)
        assert any(EN.stopped_by["forgotten"] in text for text in texts)
        assert any(SAY["dropped"] in text for text in texts)
        assert c.harness.working == 0
        assert everywhere(tmp_path) == []


async def test_every_private_conversation_goes_and_what_only_they_speak_in(tmp_path: Path) -> None:
    async with core(tmp_path, group_scope="speaker") as c:
        c.harness.hold("long", half=f"a {CANARY}")
        for topic in ("1", "2"):
            await c.say(f"{CANARY} {topic}", BOB, topic=topic)
        await c.say("long", BOB, topic="2")
        await c.say(f"mine {CANARY}", BOB, GROUP)
        await c.say("hers", ANN, GROUP, name="Ann")
        await c.say(f"no topic {CANARY}", BOB)
        await c.say("/forget me", BOB)
        await c.clock.advance(5)
        await confirm(c)
        await done(c)
        assert everywhere(tmp_path) == []
        assert len(c.files_of_threads.forgotten) == 4
        await said(c, "back", chat=GROUP)
        await c.say("hers", ANN, GROUP, name="Ann")
        theirs = [start.ctx.thread_id for start in c.harness.starts if start.ctx.speaker.id == f"memory:{ANN}"]
        assert len(set(theirs)) == 1


async def test_others_keep_theirs(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "mine", ANN, name="Ann")
        await said(c, "his")
        await forgotten(c)
        await said(c, "and on", ANN, name="Ann")
        mine = [start.ctx.thread_id for start in c.harness.starts if start.ctx.speaker.id == f"memory:{ANN}"]
        assert len(set(mine)) == 1
        assert len(c.files_of_threads.forgotten) == 1


async def test_in_a_group_the_agent_knows_it_until_new_but_nobody_can_have_it_answered_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, f"the {CANARY}", chat=GROUP)
        await forgotten(c)
        assert everywhere(tmp_path) == []
        await said(c, "/retry", chat=GROUP)
        assert c.texts(GROUP)[-1] == EN.retry_lost
        await said(c, "and now?", ANN, GROUP, name="Ann")
        first, second = (start.ctx.thread_id for start in c.harness.starts)
        assert first == second


async def test_what_others_were_told_or_quoted_of_them_goes_too(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "hello", chat=GROUP)
        await c.say(f"the {CANARY} is mine", BOB, GROUP, mention=False, name="Bob")
        quote = Quote(message_id="p2", text=f"the {CANARY} is mine", author="Bob", from_bot=False)
        await c.say("what does he say?", ANN, GROUP, name="Ann", reply_to=quote)
        await c.answered()
        assert any(CANARY in line for line in c.harness.starts[-1].run_input.background)
        await c.say(f"another {CANARY}", BOB, GROUP, mention=False, name="Bob")
        await forgotten(c)
        assert everywhere(tmp_path) == []
        await said(c, "and now?", ANN, GROUP, name="Ann")
        assert c.harness.starts[-1].run_input.background == ()


async def test_reminders_and_memories_go(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "hello")
        for owner, person in ((BOB, BOB), (ANN, ANN), (GROUP, BOB), (GROUP, ANN)):
            about = c.memory.add(f"memory:{owner}", f"{owner}{person}", f"likes {owner}{person}", f"memory:{person}")
            await c.clock.until(about)
        daily = When(kind="cron", spec="0 9 * * *", timezone="UTC")
        await c.clock.until(c.schedules.create(c.harness.starts[0].ctx, "call", CANARY, daily))
        told = await forgotten(c)
        assert SAY["count_reminders"].format(count=1) in told
        assert SAY["count_facts"].format(count=2) in told
        left = [(await c.clock.until(c.memory.show(f"memory:{owner}"))).facts for owner in (BOB, ANN, GROUP)]
        assert [[fact.content for fact in facts] for facts in left] == [[], ["likes 11"], ["likes g1"]]
        assert everywhere(tmp_path) == []


async def test_it_can_be_asked_for_while_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with core(tmp_path) as c:
        await said(c, CANARY)
        await c.crash()
        settings = offline(tmp_path)
        (tmp_path / "antler.db.before-0001.bak").write_text("old")
        assert await asyncio.to_thread(tool.run, settings, f"memory:{BOB}") == 0
        assert "antler.db.before-0001.bak" in capsys.readouterr().out
        assert await asyncio.to_thread(tool.run, settings, "elsewhere:1") == 1
        await c.start()
        await done(c)
        assert everywhere(tmp_path) == []


async def test_in_a_group_it_says_where(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "/forget me", chat=GROUP)
        assert c.texts(GROUP)[-1] == SAY["where"]
        await said(c, "/forget")
        assert c.texts(BOB)[-1] == SAY["usage"]


@pytest.mark.parametrize("mode", [NO_BUTTONS, NO_EDIT])
async def test_every_platform_confirms_and_reports(tmp_path: Path, mode: MemoryMode) -> None:
    async with core(tmp_path, mode=mode) as c:
        await said(c, CANARY)
        await said(c, "/forget me")
        if mode is NO_BUTTONS:
            await c.say("1", BOB)
        else:
            await confirm(c)
        await done(c)
        assert c.texts(BOB)[-1].startswith(SAY["done"])
        assert everywhere(tmp_path) == []


async def test_cancel_keeps_everything_and_only_they_may_confirm(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "first")
        await said(c, "/forget me")
        await confirm(c, option=1)
        await c.answered()
        assert c.texts(BOB)[-1] == SAY["kept"]
        assert await c.store.read(forgetting.unfinished_deletions) == []
        await confirm_fails(c)


async def confirm_fails(c: Core) -> None:
    await said(c, "/forget me")
    bubble = c.channel.chats[BOB][-1]
    await c.press(bubble.message_id, bubble.part.buttons[0][0].data, ANN, BOB)
    await c.answered()
    assert await c.store.read(forgetting.unfinished_deletions) == []


@pytest.mark.parametrize("mode", [FULL, NO_EDIT])
async def test_what_cannot_be_deleted_now_is_tried_again_and_said(tmp_path: Path, mode: MemoryMode) -> None:
    async with core(tmp_path, mode=mode) as c:
        await said(c, CANARY)
        c.files_of_threads.trouble = "the sandbox server is away"
        await said(c, "/forget me")
        await confirm(c)
        await c.clock.advance(5)
        assert c.texts(BOB)[-1] == SAY["again"]
        await c.clock.advance(3 * AGAIN_SECONDS)
        assert c.texts(BOB).count(SAY["again"]) == 1
        c.files_of_threads.trouble = ""
        await c.clock.advance(AGAIN_SECONDS)
        await done(c)
        assert c.texts(BOB)[-1].startswith(SAY["done"])
        assert everywhere(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 9, 15, 23, 31, 40, 52])
async def test_no_crash_leaves_it_half_done(tmp_path: Path, step: int) -> None:
    async with core(tmp_path) as c:
        await said(c, CANARY)
        await said(c, f"{CANARY} too", chat=GROUP)
        await said(c, "/forget me")
        c.tripwire.at = c.tripwire.passed + step
        await confirm(c)
        await c.clock.advance(10)
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await done(c)
        assert c.texts(BOB)[-1].startswith((SAY["done"], SAY["nothing"]))
        assert everywhere(tmp_path) == []
        await said(c, "on we go")
        assert c.texts(BOB)[-1] == "echo: on we go"


@pytest.mark.parametrize("step", [4, 6, 8, 12])
async def test_a_run_that_a_crash_left_is_stopped_before_its_thread_is_deleted(tmp_path: Path, step: int) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("long", half=f"a {CANARY}")
        await c.say("long", BOB)
        await c.say("/forget me", BOB)
        await c.clock.advance(5)
        c.tripwire.at = c.tripwire.passed + step
        await confirm(c)
        await c.clock.advance(10)
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await done(c)
        assert c.harness.working == 0
        assert any(EN.stopped_by["forgotten"] in text for text in c.texts(BOB))
        assert c.files_of_threads.forgotten == [c.harness.starts[0].ctx.thread_id]
        assert everywhere(tmp_path) == []


async def test_a_thread_is_deleted_by_its_number(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, f"old {CANARY}")
        await said(c, "/new")
        await said(c, "young")
        await said(c, "/threads")
        old, young = (start.ctx.thread_id for start in c.harness.starts)
        await said(c, "/threads delete 2")
        assert f"`old {CANARY}`" in c.texts(BOB)[-1]
        await confirm(c)
        await done(c)
        assert c.texts(BOB)[-1] == SAY["thread_done"]
        assert c.files_of_threads.forgotten == [old]
        assert everywhere(tmp_path) == []
        await said(c, "still here")
        assert c.harness.starts[-1].ctx.thread_id == young
        await said(c, "/threads")
        assert "1 message" not in c.texts(BOB)[-1].partition("2.")[2]


async def test_the_current_thread_goes_too_and_a_new_one_begins(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "old", ANN, GROUP)
        await said(c, "/threads delete 1", ANN, GROUP)
        await confirm(c, ANN, GROUP)
        await done(c)
        await said(c, "new", ANN, GROUP)
        first, second = (start.ctx.thread_id for start in c.harness.starts)
        assert c.files_of_threads.forgotten == [first]
        assert second != first


async def test_members_of_a_group_delete_no_thread(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "ours", chat=GROUP)
        await said(c, "/threads delete 1", chat=GROUP)
        assert c.texts(GROUP)[-1] == EN.not_allowed


async def test_old_threads_go_by_themselves_when_the_operator_wants_that(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "old")
        await said(c, "hers", ANN)
        assert await c.retention.look() == 0
        c.retention.days = 30
        await c.clock.advance(20 * 86400)
        await said(c, "hers again", ANN)
        await c.clock.advance(11 * 86400)
        assert await c.clock.until(c.retention.look()) == 1
        await done(c)
        assert c.files_of_threads.forgotten == [c.harness.starts[0].ctx.thread_id]
        assert await c.clock.until(c.retention.look()) == 0
        await said(c, "back")
        assert c.harness.starts[-1].ctx.thread_id != c.harness.starts[0].ctx.thread_id


async def test_what_is_said_after_the_confirmation_is_not_stopped_when_it_is_tried_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, CANARY)
        c.files_of_threads.trouble = "the sandbox server is away"
        await said(c, "/forget me")
        await confirm(c)
        await c.clock.advance(5)
        gate = c.harness.hold("long", half="half")
        for text, chat in (("long", None), ("and then", None), ("long", GROUP)):
            await c.say(text, BOB, chat)
        await c.clock.until(c.memory.add(f"memory:{BOB}", "later", "likes tea", f"memory:{BOB}"))
        daily = When(kind="cron", spec="0 9 * * *", timezone="UTC")
        await c.clock.until(c.schedules.create(c.harness.starts[-1].ctx, "call", "tea", daily))
        await c.clock.advance(AGAIN_SECONDS)
        assert c.harness.working == 2
        c.files_of_threads.trouble = ""
        await c.clock.advance(AGAIN_SECONDS)
        gate.set()
        await done(c)
        assert not any(EN.stopped_by["forgotten"] in text for text in (*c.texts(BOB), *c.texts(GROUP)))
        assert c.texts(BOB)[-1] == "echo: and then"
        assert [fact.content for fact in (await c.clock.until(c.memory.show(f"memory:{BOB}"))).facts] == ["likes tea"]
        assert await c.store.read(lambda tx: schedules.first_due(tx, ["memory"])) is not None
        assert everywhere(tmp_path) == []


async def test_what_an_answer_to_others_was_told_of_them_goes_when_it_is_out(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "hello", chat=GROUP)
        await c.say(f"the {CANARY} is mine", BOB, GROUP, mention=False, name="Bob")
        gate = c.harness.hold("what", half="half")
        await c.say("what", ANN, GROUP, name="Ann")
        await c.say("/forget me", BOB)
        await c.clock.advance(5)
        await confirm(c)
        await c.clock.advance(40)
        assert c.texts(BOB)[-1] == SAY["again"]
        gate.set()
        await c.clock.advance(AGAIN_SECONDS)
        await done(c)
        assert c.texts(BOB)[-1].startswith((SAY["done"], SAY["nothing"]))
        assert everywhere(tmp_path) == []


async def test_a_group_is_nobody_who_could_be_forgotten(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "ours", chat=GROUP)
        operation = tool.ForgettingTool(
            RetryingStore(c.store, c.clock), c.forgetting, ["memory"], lambda account, native: None
        )
        answer = await c.clock.until(operation.do({"person": f"memory:{GROUP}"}))
        assert (answer["done"], "is a group" in answer["text"]) == (False, True)
        assert await c.store.read(forgetting.unfinished_deletions) == []
        await c.crash()
        settings = offline(tmp_path)
        assert await asyncio.to_thread(tool.run, settings, f"memory:{GROUP}") == 1
        await c.start()
        await said(c, "ours still", chat=GROUP)
        first, second = (start.ctx.thread_id for start in c.harness.starts)
        assert first == second


def test_where_the_platforms_ids_tell_a_group_is_refused_unseen() -> None:
    told = tool.refusal("telegram:-100", ["telegram"], lambda account, native: native.startswith("-"))
    assert "is a group" in (told or "")


async def test_a_reminder_that_was_on_its_way_is_not_shown_any_more(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "hello")
        soon = When(kind="once", spec=(c.clock.now() + timedelta(minutes=5)).isoformat(), timezone="UTC")
        await c.clock.until(c.schedules.create(c.harness.starts[0].ctx, "call", CANARY, soon))
        due = await c.store.read(lambda tx: schedules.first_due(tx, ["memory"]))
        assert due is not None
        await forgotten(c)
        await c.receive(due_event(due, c.clock.now()))
        await c.answered()
        assert not any(CANARY in text for text in c.texts(BOB))
        assert [start.run_input.text for start in c.harness.starts] == ["hello"]
