"""The pages beside the chat in a real browser: live without a reload, for everybody, on a phone, without complaints."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.http.auth import COOKIE
from bot.http.page.navigation import GROUPS
from harness.memory.config import MemorySettings
from tests.bot.core import BOB, RULES
from tests.bot.http.served import ADMIN, ServedCore, served
from tests.bot.http.test_admin_actions import WAITS, archive, skills_in
from tests.browser.conftest import CHROMIUM, MILLISECONDS, missing, watched
from tests.browser.test_chat import PHONE, accessible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

PAGES = [entry.path for group in GROUPS for entry in group.entries]
WIDER = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(autouse=True)
def there() -> None:
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@asynccontextmanager
async def looking(
    world: ServedCore, person: str, faults: list[str], *arguments: str, **context: Any
) -> AsyncIterator[Page]:
    """A person's browser. faults: what its pages complain of. arguments: for Chromium."""
    client, root = await world.browser(person), f"http://127.0.0.1:{world.server.port}"
    async with signed_in(root, client.cookies[COOKIE], faults, *arguments, **context) as page:
        yield page


@asynccontextmanager
async def signed_in(root: str, session: str, faults: list[str], *arguments: str, **context: Any) -> AsyncIterator[Page]:
    """A browser with somebody's session. root: of the gateway. arguments: for Chromium."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, chromium_sandbox=os.getuid() != 0, args=list(arguments)
        )
        one = await browser.new_context(base_url=root, **context)
        one.set_default_timeout(MILLISECONDS)
        await watched(one, root, faults)
        await one.add_cookies([{"name": COOKIE, "value": session, "url": root}])
        yield await one.new_page()
        await browser.close()


@asynccontextmanager
async def busy(folder: Path) -> AsyncIterator[ServedCore]:
    """A gateway in which something works, something waits, and somebody asks to be let in."""
    remembering = MemorySettings(enabled=True)
    async with served(folder, replace(RULES, pairing=True), memory_settings=remembering) as world:
        await world.say("**hello**\n\n- there\n- you", name="Ann")
        await world.answered()
        world.harness.hold("one")
        await world.say("one", BOB, name="Bob")
        await world.say("two", BOB, name="Bob")
        await world.say("hello", "777", name="Carla")
        await world.memory.add(ADMIN, "k", "I live in Oslo.", ADMIN)
        yield world


async def test_now_is_live_and_its_buttons_do_what_they_say(tmp_path: Path) -> None:
    faults: list[str] = []
    async with busy(tmp_path) as world, looking(world, ADMIN, faults) as page:
        await page.goto("/now")
        assert await page.get_by_role("heading", name="All is well").count() == 1
        await page.get_by_role("button", name="Let in").click()
        await page.get_by_text("Carla has access now").wait_for()
        await page.get_by_text("Carla asks to be let in").wait_for(state="detached")
        await page.get_by_role("button", name="Drop").click()
        await page.get_by_role("button", name="OK").or_(page.locator('dialog button[value="confirm"]')).first.click()
        await page.get_by_text("waits for its turn").wait_for(state="detached")
        await page.get_by_role("button", name="Stop").focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("Nothing to do at the moment.").wait_for()
        await world.say("hello again", "888", name="Dan")
        await page.get_by_text("Dan asks to be let in").wait_for()
    assert faults == []


async def test_by_the_keyboard_alone_a_stranger_is_let_in_and_an_answer_is_stopped(tmp_path: Path) -> None:
    faults: list[str] = []
    async with busy(tmp_path) as world, looking(world, ADMIN, faults) as page:
        await page.goto("/now")
        await page.focus(".brand")
        await reached(page, "form[action^='/now/pairings/'] button[value=yes]")
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await page.keyboard.press("Enter")
        await page.get_by_text("Carla has access now").wait_for()
        await page.get_by_text("Carla asks to be let in").wait_for(state="detached")
        await reached(page, "form[action$='/stop'] button")
        await page.keyboard.press("Enter")
        await page.get_by_text("waits for its turn").wait_for(state="detached")
        await world.clock.settle()
        assert world.harness.starts[-1].run_input.text == "two", "what was stopped makes room for the next"
    assert faults == []


async def reached(page: Page, wanted: str) -> None:
    """Go on by Tab until this has the focus."""
    for _ in range(80):
        if await page.evaluate("wanted => document.activeElement.matches(wanted)", wanted):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab never comes to {wanted}")


async def test_a_skill_is_uploaded_agreed_to_turned_off_and_removed(tmp_path: Path) -> None:
    faults: list[str] = []
    archive(tmp_path / "made", "tidy", WAITS)
    async with (
        served(tmp_path, skills=skills_in(tmp_path)) as world,
        looking(world, ADMIN, faults) as page,
    ):
        await page.goto("/skills")
        await page.set_input_files("#f-file", tmp_path / "made" / "tidy.skill")
        await page.get_by_role("button", name="Upload and install").click()
        await page.get_by_text("installed, waits for an administrator").wait_for()
        await page.locator("section.attention").get_by_role("button", name="Turn on").click()
        await page.locator("dialog button[value=confirm]").click()
        await page.get_by_text("tidy is on").wait_for()
        await page.get_by_role("button", name="Turn off: tidy").click()
        await page.get_by_text("tidy is off for everybody").wait_for()
        await page.get_by_role("button", name="Turn on: tidy").wait_for()
        assert await accessible(page) == []
        await page.get_by_role("button", name="Remove: tidy").click()
        await page.locator("dialog button[value=confirm]").click()
        await page.get_by_role("button", name="Turn on: tidy").wait_for(state="detached")
        assert faults == []
        broken = tmp_path / "broken.skill"
        broken.write_bytes(b"no archive")
        await page.set_input_files("#f-file", broken)
        await page.get_by_role("button", name="Upload and install").click()
        await page.get_by_text("is not a zip archive, or is empty").first.wait_for()
    assert all("422" in fault for fault in faults), "the browser notes the answer itself"


LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "light Chinese": {"color_scheme": "light", "locale": "zh-CN"},
    "dark Chinese on a phone": {"color_scheme": "dark", "locale": "zh-CN", **PHONE},
}


async def test_pages_without_anything_are_fit_for_everybody(tmp_path: Path) -> None:
    faults: list[str] = []
    async with (
        served(tmp_path) as world,
        looking(world, ADMIN, faults, viewport={"width": 1000, "height": 400}) as page,
    ):
        for path in PAGES:
            await page.goto(path)
            assert await accessible(page) == [], path
        await page.goto("/")
        chats = await page.locator("#chats").bounding_box()
        assert chats is not None
        assert chats["height"] >= 140, "a low window has room for the list of chats too"
    assert faults == []


async def test_all_of_the_menu_and_the_newest_day_are_seen_first(tmp_path: Path) -> None:
    faults: list[str] = []
    async with busy(tmp_path) as world:
        async with looking(world, ADMIN, faults, viewport={"width": 1280, "height": 900}) as page:
            await page.goto("/now")
            assert await page.eval_on_selector(".menu", "each => each.scrollHeight <= each.clientHeight")
        async with looking(world, ADMIN, faults, **PHONE) as page:
            await page.goto("/usage")
            of_chart = (
                "each => each.lastElementChild.getBoundingClientRect().right - each.getBoundingClientRect().right"
            )
            assert await page.eval_on_selector(".chart-wrap", "each => each.scrollWidth > each.clientWidth")
            assert await page.eval_on_selector(".chart-wrap", of_chart) <= 1
            of_text = "text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a"
            assert await page.eval_on_selector(".chart text", of_text) >= 10
            within = "svg => [...svg.querySelectorAll('text')].every((text) => text.getBBox().x >= 0)"
            assert await page.eval_on_selector(".chart", within)
    assert faults == []


async def test_every_page_is_fit_for_everybody(tmp_path: Path) -> None:
    """All that the menu leads to, a thread, and why a turn went as it did; in all languages and colours."""
    faults: list[str] = []
    wrong: dict[str, Any] = {}
    async with busy(tmp_path) as world:
        for name, context in LOOKS.items():
            async with looking(world, ADMIN, faults, **context) as page:
                await page.goto("/threads")
                thread = await page.locator("a.cover").first.get_attribute("href")
                assert thread is not None
                for path in (*PAGES, thread, "/why/1", "/nowhere"):
                    await page.goto(path)
                    if found := await accessible(page):
                        wrong[f"{path} ({name})"] = found
                    if await page.evaluate(WIDER) > 0:
                        wrong[f"{path} ({name})"] = "wider than the screen"
    assert wrong == {}
    assert all("404" in fault for fault in faults), "the browser notes that /nowhere is not there"
