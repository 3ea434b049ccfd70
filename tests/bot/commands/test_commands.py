"""Commands: what is one, what each does, and whose it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.commands import CommandLine, asks_to_stop, parse
from bot.settings.busy_policies import Busy, TurnRules
from bot.store.rows import StopReason
from bot.texts import texts_for
from bot.texts.commands import unmarked
from bot.texts.en import EN
from channels.message import Attachment
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

BOBS = {"person": BOB, "chat": "g"}
ANNS = {"person": ANN, "chat": "g"}


@table(
    ("text", "expected"),
    [
        ("/new", CommandLine("new", None, "")),
        ("  /NEW  ", CommandLine("new", None, "")),
        ("/new Holiday plans", CommandLine("new", None, "Holiday plans")),
        ("/new\nHoliday\nplans", CommandLine("new", None, "Holiday\nplans")),
        ("/new\u00a0x", CommandLine("new", None, "x")),
        ("/status@antler_bot", CommandLine("status", "antler_bot", "")),
        ("/status@antler_bot now", CommandLine("status", "antler_bot", "now")),
        ("/start deep-link_1", CommandLine("start", None, "deep-link_1")),
        ("/帮助", CommandLine("帮助", None, "")),
        ("\uff0fnew", CommandLine("new", None, "")),
        ("\uff0f\uff4e\uff45\uff37\uff20bot\u3000假期", CommandLine("new", "bot", "假期")),
        ("/usr/bin/python", None),
        ("/etc/hosts is a file", None),
        ("/", None),
        ("//new", None),
        ("/1", None),
        ("/-x", None),
        ("/new@", None),
        ("see /new", None),
        ("", None),
        ("\x00/new", None),
        ("/" + "a" * 33, None),
        ("\u202e/new", None),
    ],
)
def test_what_is_a_command(text: str, expected: CommandLine | None) -> None:
    assert parse(text) == expected


@given(st.text())
def test_any_text_can_be_asked_whether_it_is_one(text: str) -> None:
    line = parse("/" + text)
    if line is not None:
        assert line.name == line.name.lower()
        assert 1 <= len(line.name.encode("utf-16-le")) // 2 <= 64
        assert line.arguments == line.arguments.strip()
        assert parse(f"/{line.name}") is not None


async def reply(c: Core, text: str, person: str = ANN, chat: str | None = None, **more: Any) -> str:
    """The newest message after somebody's line; "" for silence."""
    before = len(c.texts(chat or person))
    await c.say(text, person, chat, **more)
    await c.clock.advance(2)
    return "\n".join(c.texts(chat or person)[before:])


async def test_in_a_dm_everything_is_ones_own(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        told = {
            "/help": "`/new`",
            "/whoami": "You are `memory:2`\nThis conversation is `memory:2`",
            "/status": "**Antler ",
            "/models": "`main` — gpt ← this conversation",
            "/models other": "now uses `other`",
            "/memory": "I remember nothing beyond a thread",
            "/stop": "Nothing is running here.",
            "/new": "New thread. I no",
        }
        for line, expected in told.items():
            assert expected in await reply(c, line, BOB), line
        assert c.harness.asked == []


@pytest.mark.parametrize("control", ["admins", "members"])
async def test_in_a_group_some_are_for_admins(tmp_path: Path, control: Any) -> None:
    async with core(tmp_path, replace(RULES, group_control=control)) as c:
        for line in ("/help", "/whoami", "/status", "/models", "/stop", "/memory"):
            answer = await reply(c, line, mention=False, **BOBS)
            assert answer
            assert "Only" not in answer
        assert "This chat is `memory:g`" in await reply(c, "/whoami", **BOBS)
        for line in ("/new", "/models other"):
            refused = await reply(c, line, **BOBS) == "Only administrators can do that here."
            assert refused is (control == "admins")
            assert "Only" not in await reply(c, line, **ANNS)


async def test_in_a_group_a_run_is_stopped_by_who_asked_or_an_admin(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for asks, tries, stopped in ((ANNS, BOBS, False), (BOBS, BOBS, True), (BOBS, ANNS, True)):
            gate = c.harness.hold("work")
            await c.say("work", **asks)
            await c.say("/stop", **tries)
            if not stopped:
                gate.set()
            await c.answered()
            shown = "\n".join(c.texts(asks["chat"]) if "chat" in asks else c.texts())
            assert ("Stopped" in shown) is stopped
            assert "Only the person who asked" in shown


async def test_a_stop_that_the_platform_delivers_late_stops_nothing_that_was_asked_after_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = c.clock.now() - timedelta(minutes=1)
        gate = c.harness.hold("work")
        await c.say("work", sent_at=said)
        late = await reply(c, "/stop", sent_at=said - timedelta(seconds=5))
        assert late == unmarked(texts_for("en").stop_nothing)
        gate.set()
        await c.answered()
        c.harness.hold("more")
        await c.say("more", sent_at=said)
        await c.say("/stop", sent_at=said + timedelta(seconds=5))
        await c.answered()
        assert c.harness.asked == ["work", "more"]
        assert "Stopped" in c.texts()[-1]


async def test_commands_do_not_wait_for_a_run(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("work")
        await c.say("work")
        await c.say("waiting")
        status = await reply(c, "/status")
        assert "Running: for" in status
        assert "Waiting: 1" in status
        gate.set()
        await c.answered()


async def test_a_misspelt_command_gets_the_nearest_and_never_reaches_the_model(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await reply(c, "/stauts") == "I do not know the command `/stauts`. Did you mean `/status`?"
        assert await reply(c, "/statu now") == "I do not know the command `/statu`. Did you mean `/status`?"
        assert await reply(c, "/zzz") == "I do not know the command `/zzz`. /help lists them all."
        assert c.harness.asked == []


@pytest.mark.parametrize(
    ("alias", "same"), [("cancel", "stop"), ("reset", "new"), ("clear", "new"), ("menu", "help"), ("commands", "help")]
)
async def test_names_that_other_bots_have_do_the_same(tmp_path: Path, alias: str, same: str) -> None:
    async with core(tmp_path) as c:
        assert await reply(c, f"/{alias}") == await reply(c, f"/{same}")
        assert (await c.reasons())[-2:] == [f"/{same}"] * 2
        assert f"/{alias}" not in await reply(c, "/help")
        assert (await reply(c, "/start")).startswith(EN.started.replace("\u2063", "").partition("{")[0])


async def test_only_what_a_list_shows_to_them_is_suggested(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert "`/stop`" in await reply(c, "/cancle")
        assert "`/start`" not in await reply(c, "/starts")
        assert "/help lists them all" in await reply(c, "/disalow", BOB)
        assert "`/disallow`" in await reply(c, "/disalow", ANN)


STOPS = ("stop", " Stop. ", "STOP!!", "cancel", "Cancel…", "停", "停！", "取消", "取消。")
NO_STOPS = ("stop it", "don't stop", "cancel the trip", "停一下", "取消订单", "stops", "@stop", "", "/stopp")


def test_what_asks_to_stop() -> None:
    assert [text for text in (*STOPS, *NO_STOPS) if asks_to_stop(text)] == [*STOPS]


@pytest.mark.parametrize("text", STOPS)
async def test_a_word_stops_the_answer_and_else_is_a_message(tmp_path: Path, text: str) -> None:
    async with core(tmp_path, turns=TurnRules(Busy.STEER, join=3.0)) as c:
        c.harness.hold("work", half="")
        await c.say("work")
        await c.say(text)
        await c.answered()
        assert c.harness.asked == ["work"]
        assert c.texts() == [unmarked(texts_for("en").stopped_by[StopReason.STOPPED])]
        await c.say(text)
        await c.answered()
        assert c.harness.asked == ["work", text]


async def test_in_a_group_a_word_to_the_bot_stops_ones_own_answer(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("work")
        await c.say("work", **ANNS)
        await c.say("stop", mention=False, **ANNS)  # said to others
        assert "Only the person who asked" in await reply(c, "stop", **BOBS)
        assert len(c.runs.active) == 1
        await c.say("stop", **ANNS)
        await c.answered()
        assert "Stopped" in c.texts("g")[0]
        assert c.harness.asked == ["work"]


async def test_another_bots_command_is_not_ours(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await reply(c, "/new@other_bot", mention=False, **ANNS) == ""
        assert await reply(c, "/zzz", mention=False, **ANNS) == ""
        assert "New thread" in await reply(c, "/new@MEMORY", mention=False, **ANNS)
        assert c.harness.asked == []


async def test_before_the_connection_stands_the_adapter_knows_whose_command_it_was(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.identity = None
        assert "New thread" in await reply(c, "/new@memory", **ANNS)
        assert await reply(c, "/new@other_bot", mention=False, **ANNS) == ""


async def test_a_path_and_a_caption_are_no_commands(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await reply(c, "/usr/bin/env") == "echo: /usr/bin/env"
        c.channel.files = {"a": b"a"}
        await c.say("/new", attachments=(Attachment(ref="a", kind="image"),))
        await c.answered()
        assert c.harness.asked == ["/usr/bin/env", "/new"]


async def test_a_models_text_is_never_a_command(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("q", lambda tell: tell.answer("/new"))
        await c.say("q")
        await c.say("again")
        await c.answered()
        assert c.harness.starts[0].ctx.thread_id == c.harness.starts[1].ctx.thread_id


async def test_models_switch_for_this_conversation_by_name_and_by_button(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await reply(c, "/models other")
        await c.say("a")
        await c.say("b", BOB)
        await c.say("/models")
        await c.clock.advance(2)
        listed = c.channel.chats[ANN][-1]
        assert [row[0].label for row in listed.part.buttons] == ["main", "● other"]
        await c.press(listed.message_id, listed.part.buttons[0][0].data)
        await c.clock.advance(2)
        assert c.channel.acknowledged[-1][1] == "This conversation now uses main."
        assert (listed.part.buttons, listed.part.text.endswith("\n\n☑ main")) == ((), True)
        await c.say("c")
        await c.answered()
        assert [start.ctx.model for start in c.harness.starts] == ["other", "main", "main"]
        unknown = await reply(c, "/models `rm` x\ny")
        assert unknown == "There is no model `'rm' x y`. Available: `main`, `other`."


async def test_a_button_is_used_once_by_who_may_where_it_was_shown(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/models", **ANNS)
        await c.clock.advance(2)
        listed = c.channel.chats["g"][-1]
        data = listed.part.buttons[1][0].data
        prompt = data.partition(":")[0]
        expired = "This button is no longer valid."
        refused = [
            (listed.message_id, data, "666", "g", expired),  # no member that counts
            (listed.message_id, data, BOB, "g", "Only administrators can do that here."),
            ("m999", data, ANN, "g", expired),  # another message
            (listed.message_id, data, ANN, None, expired),  # another chat
            (listed.message_id, f"{prompt}:x", ANN, "g", expired),
            (listed.message_id, f"{prompt}:{'9' * 50}", ANN, "g", expired),
            (listed.message_id, "nonsense", ANN, "g", expired),
        ]
        rules = replace(c.policy.access, members="listed")
        c.policy = replace(c.policy, access=rules)
        for message_id, pressed, person, chat, answer in refused:
            await c.press(message_id, pressed, person, chat)
            assert c.channel.acknowledged[-1][1] == answer, (pressed, person)
        await c.press(listed.message_id, data, ANN, "g")
        assert c.channel.acknowledged[-1][1] == "This conversation now uses other."
        await c.press(listed.message_id, data, ANN, "g")
        assert c.channel.acknowledged[-1][1] == expired


async def test_a_button_counts_where_it_stands_also_if_the_press_does_not_tell_the_topic(tmp_path: Path) -> None:
    """Of an old message Telegram tells the chat alone."""
    async with core(tmp_path) as c:
        await c.say("/models", **ANNS, topic="7")
        await c.clock.advance(2)
        listed = c.channel.chats["g"][-1]
        await c.press(listed.message_id, listed.part.buttons[1][0].data, ANN, "g")
        assert c.channel.acknowledged[-1][1] == "This conversation now uses other."
        await c.say("a", **ANNS, topic="7")
        await c.say("b", **ANNS)
        await c.answered()
        assert sorted(start.ctx.model for start in c.harness.starts) == ["main", "other"]


async def test_a_button_runs_out(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/models")
        await c.clock.advance(86_401)
        listed = c.channel.chats[ANN][-1]
        await c.press(listed.message_id, listed.part.buttons[1][0].data)
        assert c.channel.acknowledged[-1][1] == "This button is no longer valid."


async def test_commands_answer_in_the_persons_language(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await reply(c, "/new 假期") == "🆕 已开始新对话：**假期**。我不会再看到之前的内容。"
