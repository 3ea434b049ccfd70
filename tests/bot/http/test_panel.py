"""The pages beside the chat over real HTTP: what they show, what their forms do; nothing foreign becomes HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from bot.access.admission import AccessRules
from bot.http.panel.charts import _round_up, bars
from bot.http.resources.accounting import Series, Usage
from bot.http.resources.transcripts import Cost
from harness.events import TextDelta, ToolEnded, ToolStarted
from harness.events import Usage as TokensUsed
from harness.memory.config import MemorySettings
from tests.bot.core import BOB, RULES
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'
PAGES = (
    *("/now", "/people", "/threads", "/usage", "/memory", "/schedules", "/skills", "/mcp", "/configuration"),
    *("/files", "/agents", "/threads?q=one"),
)


async def sent(world: ServedCore, client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    answer = await client.post(path, data=fields)
    await world.clock.settle()
    return answer


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_every_page_is_whole_in_each_language_without_inline_code(tmp_path: Path, language: str) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        world.harness.hold("one")
        await world.say("one", BOB, name="Bob")
        await world.say("two", BOB, name="Bob")
        asks(world, "send it")
        await world.say("send it", name="Ann")
        await world.say("hello", "777", name="Carla")
        await world.clock.advance(2)
        admin = await world.browser(ADMIN, **{"Accept-Language": language})
        for path in PAGES:
            answer = await admin.get(path)
            assert answer.status_code == 200, path
            assert f'<html lang="{"zh-Hans" if language == "zh" else "en"}"' in answer.text
            assert answer.text.count("<h1") == 1, path
            assert re.search(r"<script(?![^>]* src=)|\sstyle=|\son\w+=\"|javascript:", answer.text) is None, path
            assert answer.headers["cache-control"] == "no-store"
        now = (await admin.get("/now")).text
        words = ("Bob", "Carla", "All is well") if language == "en" else ("Bob", "Carla", "一切正常")
        for word in words:
            assert word in now
        assert bool(re.search(r"\d\.\d s\b", now)) == (language == "en"), "seconds in the reader's language"


async def test_names_words_and_tools_of_others_are_text_and_never_html(tmp_path: Path) -> None:
    async with served(tmp_path, replace(RULES, pairing=True), memory_settings=MemorySettings(enabled=True)) as world:
        world.harness.tells(
            EVIL,
            lambda t: t(ToolStarted, call_id="c", tool=EVIL, summary=EVIL, description=EVIL),
            lambda t: t(ToolEnded, call_id="c", tool=EVIL, ok=True),
            lambda t: t(TokensUsed, model=EVIL, input_tokens=5, output_tokens=5),
            lambda t: t(TextDelta, message_id="m", text=EVIL),
            lambda t: t.answer(EVIL),
        )
        await world.say(EVIL, name=EVIL)
        await world.answered()
        world.harness.hold("wait")
        await world.say("wait", name=EVIL)
        await world.say("hello", "777", name=EVIL)
        await world.memory.add(ADMIN, "k", "I like <script>tea</script>.", ADMIN)
        admin = await world.browser(ADMIN)
        thread = (await admin.get("/api/transcripts")).json()["threads"][0]["thread_id"]
        for path in (*PAGES, f"/threads/{thread}", "/why/1", "/usage?by=person"):
            text = (await admin.get(path)).text
            assert "<script>alert" not in text, path
            assert "<img src=x" not in text, path
            assert "<script>tea" not in text, path
        assert "&lt;script&gt;alert" in (await admin.get(f"/threads/{thread}")).text


async def test_a_stranger_is_let_in_and_an_answer_stopped_by_the_forms(tmp_path: Path) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        admin = await world.browser()
        await world.say("hello", "777", name="Carla")
        await world.say("hello", "888", name="Dan")
        world.harness.hold("one")
        await world.say("one", BOB, name="Bob")
        await world.say("two", BOB, name="Bob")
        page = (await admin.get("/now/live")).text
        carla, dan = re.findall(r"/now/pairings/(\w+)", page)
        answer = await sent(world, admin, f"/now/pairings/{carla}", let_in="yes")
        assert (answer.status_code, answer.headers["x-antler-toast"]) == (204, "Carla%20has%20access%20now")
        assert (await sent(world, admin, f"/people/requests/{dan}", let_in="no")).status_code == 204
        assert "asks to be let in" not in (await admin.get("/now/live")).text
        stop = re.findall(r'action="(/now/turns/\w+/(?:stop|drop))"', page)
        assert len(stop) == 2
        for path in stop:
            assert (await sent(world, admin, path)).status_code == 204
        await world.answered()
        assert "Nothing to do at the moment." in (await admin.get("/now/live")).text
        assert (await sent(world, admin, f"/now/turns/{'0' * 32}/stop")).status_code == 404
        assert (
            await sent(world, admin, stop[0].replace("stop", "explode").replace("drop", "explode"))
        ).status_code == 404


async def test_a_form_of_another_site_or_without_the_pages_mark_does_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        admin = await world.browser()
        await world.say("hello", "777", name="Carla")
        (asked,) = (await admin.get("/api/pairings")).json()
        path = f"/now/pairings/{asked['id']}"
        foreign = await admin.post(path, data={"let_in": "yes"}, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        del admin.headers["X-Antler-CSRF"]
        assert (await admin.post(path, data={"let_in": "yes"})).status_code == 403
        assert len((await admin.get("/api/pairings")).json()) == 1


async def test_a_request_is_decided_on_now_by_who_may_read_it(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        asks(world, "send it")
        await world.say("send it", name="Ann")
        await world.clock.advance(2)
        ann = await world.browser(ADMIN)
        page = (await ann.get("/now")).text
        assert "Ann needs approval for send" in page
        assert "to: ```" in page
        (path,) = set(re.findall(r'action="(/now/approvals/\w+)"', page))
        assert (await sent(world, ann, path, decision="perhaps")).status_code == 422
        assert (await sent(world, ann, path, decision="once")).status_code == 204
        await world.answered()
        assert "allowed: True" in world.texts()


async def test_people_are_let_in_and_shut_out_by_id(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin = await world.browser()
        assert (await sent(world, admin, "/people/allow", subject="  ")).status_code == 422
        await sent(world, admin, "/preferences", language="zh")
        refused = await sent(world, admin, "/people/allow", subject="nowhere:1")
        assert "不属于我的任何账号" in refused.json()["error"]["message"]
        await sent(world, admin, "/preferences", language="en")
        assert (await sent(world, admin, "/people/allow", subject="memory:55", kind="")).status_code == 204
        assert "memory:55" in (await admin.get("/people/list")).text
        assert (await sent(world, admin, "/people/revoke", subject="memory:55", kind="person")).status_code == 204
        assert "no access" in (await admin.get("/people/list")).text
        assert (await sent(world, admin, "/people/revoke", subject=ADMIN, kind="person")).status_code == 422


async def test_where_nobody_has_access_the_page_says_so_instead_of_an_empty_list(tmp_path: Path) -> None:
    async with served(tmp_path, AccessRules()) as world:
        listed = (await (await world.browser()).get("/people/list")).text
        assert "Nobody yet" in listed
        assert "<ul" not in listed


async def test_memory_is_changed_on_its_page(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True)) as world:
        bob = await world.browser(PERSON)
        assert (await sent(world, bob, "/memory/add", text="I live in Oslo.")).status_code == 204
        page = (await bob.get("/memory")).text
        (item,) = re.findall(r'id="edit-(\w+)"', page)
        assert (await sent(world, bob, "/memory/edit", item=item, text="I live in Bergen.")).status_code == 204
        assert "I live in Bergen." in (await bob.get("/memory/list")).text
        assert (await sent(world, bob, "/memory/off")).status_code == 204
        assert "The memory is off" in (await bob.get("/memory/list")).text
        assert (await sent(world, bob, "/memory/forget", item=item)).status_code == 204
        assert "Nothing yet." in (await bob.get("/memory/list")).text
        assert (await sent(world, bob, "/memory/explode")).status_code == 404


async def test_a_person_sees_their_own_pages_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        await world.say("my own words", BOB, name="Bob")
        await world.answered()
        bob = await world.browser(PERSON)
        page = (await bob.get("/threads")).text
        (thread,) = set(re.findall(r'href="/threads/(\w+)"', page))
        shown = (await bob.get(f"/threads/{thread}")).text
        assert "my own words" in shown
        assert "/why/" in shown
        assert 'href="/now"' not in page
        assert "Of everybody else" not in page
        assert "Show all chats" not in (await bob.get("/usage")).text


def usage(*series: tuple[str, tuple[int, ...]]) -> Usage:
    days = tuple(date(2026, 1, 1 + n) for n in range(len(series[0][1])))
    made = tuple(Series(name=name, label=name, cost=Cost(), days=counts) for name, counts in series)
    return Usage(by="model", everybody=False, days=days, series=made, total=Cost(), today=Cost(), budgets=())


def test_a_chart_has_a_bar_for_each_day_and_name() -> None:
    drawn = bars(usage(("a", (10, 0, 30)), ("<b>", (5, 0, 0))), {"a": "a", "<b>": "<b>"}, "Tokens & days")
    assert drawn.count("<rect class=") == 3
    assert drawn.count("<title>") == 3
    assert "&lt;b&gt;: 5" in drawn
    assert 'aria-label="Tokens &amp; days"' in drawn
    assert bars(usage(("a", (0, 0))), {"a": "a"}, "x") == ""


@pytest.mark.parametrize(("most", "top"), [(0, 0), (1, 1), (3, 5), (10, 10), (11, 20), (2100, 2500), (90_001, 100_000)])
def test_the_axis_ends_at_a_round_number(most: int, top: int) -> None:
    assert _round_up(most) == top
