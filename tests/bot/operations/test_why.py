"""/why and `antler why`: what was decided about a message, told to administrators and without anybody's words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event as hooks

from bot.store import decisions, inbox, runs
from bot.texts import texts_for
from channels.message import Quote
from channels.registry import message_of_link
from harness.events import FailureKind, ModelRetrying, Notice, TextDelta, ToolEnded, ToolStarted, Usage
from tests.bot.core import ANN, BOB, EVE, RULES, Core, core

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

EN, ZH = texts_for("en"), texts_for("zh")


async def why(c: Core, message_id: str, person: str = ANN, chat: str | None = None) -> str:
    """What /why says as a reply to a message."""
    quote = Quote(message_id=message_id, text="", author="", from_bot=False)
    before = len(c.texts(chat or person))
    await c.say("/why", person, chat, reply_to=quote)
    await c.clock.advance(2)
    return c.texts(chat or person)[before]


async def told_of(c: Core, message_id: str, chat: str) -> str:
    return await c.parts.why.of_message("memory", chat, message_id, EN)


async def test_an_administrator_reads_how_a_message_was_answered_and_nobodys_words(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.tells(
            "list my secret plans",
            lambda tell: tell(ModelRetrying, kind=FailureKind.RATE_LIMITED, attempt=1, delay=1.0),
            lambda tell: tell(ModelRetrying, kind=FailureKind.RATE_LIMITED, attempt=1, delay=0.5),
            lambda tell: tell(Notice, kind="fallback", model="other", instead_of="main"),
            lambda tell: tell(ToolStarted, call_id="1", tool="bash", summary="cat plans"),
            lambda tell: tell(ToolEnded, call_id="1", tool="bash", ok=False),
            lambda tell: tell(TextDelta, message_id="a", text="Your plans"),
            lambda tell: tell(Usage, model="other", input_tokens=10, output_tokens=2),
            lambda tell: tell.answer("Your plans are secret"),
        )
        said = await c.say("list my secret plans", BOB)
        await c.answered()
        told = await told_of(c, said.platform_message_id, BOB)
        assert re.search(r"\*\*Message \d+\*\* of memory:2, 2\d{3}-", told)
        assert "- Let in by: `access.allow`" in told
        assert re.search(r"- Answer `[0-9a-f]{32}`, for memory:2: success", told)
        assert "- Queue: it was the first and began after " in told
        assert "- Waited for a free slot: 0.0 s" in told
        assert "- Model: `main` was asked for; calls: other × 1" in told
        assert "- Tried again: rate_limited × 1" in told.replace("\\", "")
        assert "- First words after 0.0 s; ended after 0.0 s" in told
        assert "- `other` answered instead of `main`" in told
        assert "- Tools: bash (failed)" in told.replace("\\", "")
        assert "- Wholly shown 0.0 s after its end" in told
        assert "plans" not in told
        answer = c.channel.chats[BOB][0].message_id
        assert await told_of(c, answer, BOB) == told, "the bot's own answer names the same message"
        run_id = re.findall(r"[0-9a-f]{32}", told)[0]
        await c.say(f"/why {run_id}", ANN)
        await c.answered()
        assert c.texts(ANN)[-1] == told
        assert (await c.parts.why.do({"subject": run_id}))["done"] is True


async def test_others_are_told_nothing(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("hello", ANN)
        await c.answered()
        assert await why(c, said.platform_message_id, BOB) == EN.not_allowed
        assert "Let in by" in await why(c, said.platform_message_id, ANN)


async def test_what_waited_says_behind_how_many_and_what_was_not_answered_why(tmp_path: Path) -> None:
    async with core(tmp_path, replace(RULES, pairing=True)) as c:
        gate = c.harness.hold("work")
        await c.say("work", ANN)
        second = await c.say("more", ANN)
        third = await c.say("and more", ANN)
        assert "- Queue: 1 before it; it has not begun" in await why(c, second.platform_message_id)
        gate.set()
        await c.answered()
        assert "- Queue: 2 before it; it began after" in await why(c, third.platform_message_id)
        stranger = await c.say("let me in", EVE)
        await c.answered()
        told = await told_of(c, stranger.platform_message_id, EVE)
        assert "- Not answered: pairing code" in told


@pytest.mark.parametrize(
    ("chat", "mention", "rule"),
    [(None, False, "paired"), ("g", True, "access.groups.allow, members: any, mentioned")],
)
async def test_it_names_the_rule_that_let_somebody_in(
    tmp_path: Path, chat: str | None, mention: bool, rule: str
) -> None:
    async with core(tmp_path, replace(RULES, pairing=True)) as c:
        await c.say("let me in", EVE)
        await c.answered()
        code = re.findall(r"`([^`]+)`", c.texts(EVE)[-1])[0]
        await c.say(f"/pair {code}", ANN)
        await c.answered()
        said = await c.say("hello", EVE, chat, mention=mention)
        await c.answered()
        told = await told_of(c, said.platform_message_id, chat or EVE)
        assert f"- Let in by: `{rule}`" in told
        assert ("(paired by memory:1" in told.replace("\\", "")) is (chat is None)


async def test_what_is_not_kept_is_not_invented(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for subject in ("", "999", "f" * 32, "https://example.com/x", "what?"):
            assert await c.parts.why.of(subject, ZH) == ZH.why["unknown"]
        assert (await c.parts.why.do({"subject": "999"}))["done"] is False


def test_links_that_apps_copy_name_a_message() -> None:
    assert message_of_link("https://t.me/c/1234/56") == ("telegram", "-1001234", "56")
    assert message_of_link("https://t.me/c/1234/7/56?single") == ("telegram", "-1001234", "56")
    slack = "https://team.slack.com/archives/C012/p1700000000000100?thread_ts=1700000000.0001&cid=C012"
    assert message_of_link(slack) == ("slack", "C012", "1700000000.000100")
    assert message_of_link("https://t.me/durov/56") is None
    assert message_of_link("https://evil.example/https://t.me/c/1/2") is None


async def test_none_of_its_queries_scans_a_table(tmp_path: Path) -> None:
    """Nor do those of the status, which /metrics asks for each time."""
    seen: list[str] = []
    async with core(tmp_path) as c:
        said = await c.say("hello")
        await c.answered()

        def plans(tx: Connection) -> None:
            def explain(conn: object, cursor: object, statement: str, parameters: object, *_: object) -> None:
                if statement.lstrip().upper().startswith("SELECT"):
                    raw = cursor.connection.cursor()  # type: ignore[attr-defined]
                    seen.extend(row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

            hooks.listen(tx, "before_cursor_execute", explain)
            try:
                found = decisions.event_of(tx, "memory", ANN, said.platform_message_id)
                assert found is not None
                known = decisions.event(tx, found)
                assert known is not None
                assert known.run_id is not None
                assert decisions.run(tx, known.run_id) is not None
                decisions.event_of(tx, "memory", ANN, "none")
                decisions.let_in(tx, f"memory:{ANN}")
                inbox.oldest_new(tx)
                runs.oldest_pending(tx)
            finally:
                hooks.remove(tx, "before_cursor_execute", explain)

        await c.store.read(plans)
        assert len(seen) >= 8
        assert [step for step in seen if step.startswith("SCAN")] == []
