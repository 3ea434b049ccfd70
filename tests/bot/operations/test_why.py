"""/why and `antler why`: what was decided about a message, told to administrators and without anybody's words."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import event as hooks

from bot.operations.why import WhyPage
from bot.store import decisions, inbox, runs
from bot.texts import texts_for
from channels.message import Quote
from channels.registry import message_of_link
from harness.events import FailureKind, ModelRetrying, Notice, TextDelta, ToolEnded, ToolStarted, Usage
from tests.bot.core import ANN, BOB, EVE, RULES, Core, core
from tests.tables import table

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


async def test_first_words_and_the_end_are_counted_from_the_moment_when_the_answer_began(tmp_path: Path) -> None:
    async with core(tmp_path, concurrent=1) as c:
        gate = c.harness.hold("work")
        await c.say("work", ANN)
        second = await c.say("more", BOB)
        await c.clock.advance(9)
        gate.set()
        await c.answered()
        told = await told_of(c, second.platform_message_id, BOB)
        assert "- Waited for a free slot: 9.0 s" in told
        assert "- First words after 0.0 s; ended after 0.0 s" in told


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
        for subject in ("999", "#999", "f" * 32, "https://t.me/c/1/2", "https://t.me/nobody/2", "om_none"):
            assert await c.parts.why.of(subject, ZH) == ZH.why["unknown"]
        assert (await c.parts.why.do({"subject": "999"}))["done"] is False


async def test_what_names_no_message_is_answered_with_all_that_does(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        feishu = "https://applink.feishu.cn/client/message/link/open?token=AmGzS0"
        for subject in ("", "what?", "https://example.com/x", feishu, "9" * 30):
            assert await c.parts.why.of(subject, EN) == EN.why["usage"]
        for accepted in ("t.me/c/", "t.me/NAME", "/archives/", "om_", "`812`", "WeCom"):
            assert accepted in EN.why["usage"]
        done = await c.parts.why.do({"subject": "what?"})
        assert done["done"] is False
        assert "`" not in done["text"]
        assert "/why" not in done["text"], "nobody replies to a message on a terminal"


SLACK = ("slack", "C012", "", "1700000000.000100")


@table(
    ("link", "named"),
    [
        ("https://t.me/c/1234/56", ("telegram", "-1001234", "", "56")),
        ("https://t.me/c/1234/7/56?single", ("telegram", "-1001234", "", "56")),
        ("t.me/c/1234/56?thread=7", ("telegram", "-1001234", "", "56")),
        ("tg://privatepost?channel=1234&post=56", ("telegram", "-1001234", "", "56")),
        ("https://t.me/Durov/56", ("telegram", "", "durov", "56")),
        ("https://telegram.me/durov/7/56", ("telegram", "", "durov", "56")),
        ("https://durov.t.me/56", ("telegram", "", "durov", "56")),
        ("tg://resolve?domain=Durov&post=56&single", ("telegram", "", "durov", "56")),
        ("https://team.slack.com/archives/C012/p1700000000000100?thread_ts=1700000000.0001&cid=C012", SLACK),
        ("<https://corp.enterprise.slack.com/archives/C012/p1700000000000100>", SLACK),
        ("https://app.slack.com/client/T01/C012/p1700000000000100", SLACK),
        ("om_dc13264520392913993dd051dba21dcf", ("feishu", "", "", "om_dc13264520392913993dd051dba21dcf")),
        ("https://open.feishu.cn/x?a=1&open_message_id=om_a1", ("feishu", "", "", "om_a1")),
    ],
)
def test_links_that_apps_copy_name_a_message(link: str, named: tuple[str, ...]) -> None:
    found = message_of_link(link)
    assert found is not None
    assert (found.platform, found.chat, found.handle, found.message_id) == named


@table(
    "link",
    [
        "https://t.me/durov",
        "https://t.me/c/1234",
        "https://evil.example/https://t.me/c/1/2",
        "https://slack.com.evil.example/archives/C012/p1700000000000100",
        "https://applink.feishu.cn/client/message/link/open?token=AmGzS0",
        "om_",
        "hello",
    ],
)
def test_what_names_none(link: str) -> None:
    assert message_of_link(link) is None


async def test_a_public_name_leads_to_the_message_of_that_chat(tmp_path: Path) -> None:
    """Message ids are the same in many chats of Telegram."""
    async with core(tmp_path) as c:
        page = WhyPage(c.store, {"memory": "telegram"}, ZoneInfo("UTC"))
        for chat, handle in (("g", "builders"), ("h", "")):
            said = c.message("hello", ANN, chat, number=7 if chat == "g" else 8)
            await c.receive(replace(said, chat_handle=handle, platform_message_id="56"))
            await c.answered()
        told = await page.of("https://t.me/Builders/3/56", EN)
        assert "of memory:g," in told
        assert await page.of("https://t.me/Others/56", EN) == EN.why["unknown"]
        answer = c.channel.chats["g"][0].message_id
        assert not answer.isdecimal()  # so that no link names it; its number would be looked up the same
        assert await c.store.read(lambda tx: decisions.event_anywhere(tx, "memory", answer, "builders")) == 1
        assert await c.store.read(lambda tx: decisions.event_anywhere(tx, "memory", answer, "others")) is None


async def test_ids_with_more_behind_them_are_found_by_what_people_know(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for number, stored in enumerate(("om_1/card", "msg|req")):
            said = c.message("hello", ANN, number=number)
            await c.receive(replace(said, platform_message_id=stored))
            await c.answered()
        for native, number in (("om_1", 1), ("msg", 2)):
            found = await c.store.read(partial(decisions.event_of, account="memory", chat=ANN, message_id=native))
            assert found == number
        page = WhyPage(c.store, {"memory": "feishu"}, ZoneInfo("UTC"))
        assert "**Message 1**" in await page.of("om_1", EN)
        assert await page.of("om_", EN) == EN.why["usage"]


@pytest.mark.parametrize(
    "quoted", ["Draw me a **chart** of it", "@Bot Draw me a chart of it", "Draw me a chart", "I drew a chart of it all"]
)
async def test_a_quote_without_an_id_is_known_by_its_words(tmp_path: Path, quoted: str) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("Draw me a chart of it", lambda tell: tell.answer("I drew **a chart** of it all, as `asked`"))
        await c.say("Draw me a chart of it", BOB)
        await c.answered()
        await c.say("Something else that is long enough", BOB)
        await c.answered()
        told = await c.parts.why.of_quote("memory", BOB, quoted, EN)
        assert "**Message 1**" in told
        assert "chart" not in told
        assert await c.parts.why.of_quote("memory", BOB, "Nobody said this there", EN) == EN.why["unknown"]
        assert await c.parts.why.of_quote("memory", BOB, "", EN) == EN.why["unknown"]


async def test_why_alone_tells_of_the_answer_before_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/why", ANN)
        await c.clock.advance(2)
        assert "`812`" in c.texts(ANN)[-1]
        await c.say("hello", ANN)
        await c.answered()
        await c.say("/why", ANN)
        await c.clock.advance(2)
        assert "**Message 2**" in c.texts(ANN)[-1]
        quote = Quote(message_id="", text="hello", author="", from_bot=False)
        await c.say("/why", ANN, reply_to=quote)
        await c.clock.advance(2)
        assert "**Message 2**" in c.texts(ANN)[-1]


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
                decisions.event_anywhere(tx, "memory", "none", "builders")
                decisions.event_of_quote(tx, "memory", ANN, "none")
                decisions.let_in(tx, f"memory:{ANN}")
                inbox.oldest_new(tx)
                runs.oldest_pending(tx)
            finally:
                hooks.remove(tx, "before_cursor_execute", explain)

        await c.store.read(plans)
        assert len(seen) >= 8
        assert [step for step in seen if step.startswith("SCAN")] == []
