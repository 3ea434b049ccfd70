"""Files beside the chat, branches, and voice messages, as a person uses them: by mouse, by keyboard, on a phone."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from bot.http.auth import COOKIE
from tests.bot.http.served import ADMIN, PERSON
from tests.browser.conftest import missing, say
from tests.browser.test_chat import PHONE, accessible
from tests.browser.test_panel import looking
from tests.browser.world import FILES, Listening, Office, office

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


@pytest.fixture(autouse=True)
def there() -> None:
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


async def reported(world: Office, page: Page) -> None:
    """A chat with an answer and a file of each kind."""
    await page.goto("/")
    await say(page, "report")
    await page.wait_for_selector(".message.person")
    await world.quiet()
    await page.wait_for_function(f"() => document.querySelectorAll('.given').length === {len(FILES)}")


async def test_files_open_beside_the_chat_and_nothing_of_them_runs(tmp_path: Path) -> None:
    faults: list[str] = []
    async with office(tmp_path) as world, looking(world, PERSON, faults) as page:
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        await reported(world, page)
        assert await page.locator(".code-block .tok-k").first.inner_text() == "import "
        side = page.locator("#side")
        await page.get_by_role("link", name="revenue.csv CSV").click()
        await side.locator("table").wait_for()
        assert await side.locator("tbody tr").count() == 36
        assert "file=" in page.url
        await page.reload()
        await side.locator("table").wait_for()
        assert await accessible(page) == []

        await side.get_by_role("button", name="All files of this chat").click()
        await side.get_by_role("link", name="page.html").click()
        await side.get_by_text("never runs in your browser").wait_for()
        assert "<script>alert(document.domain)</script>" in await side.locator("code").inner_text()
        assert await side.locator("h1, script").count() == 0
        await page.get_by_role("link", name="report.md MD").click()
        await side.get_by_role("heading", name="Revenue by shop").last.wait_for()
        assert await accessible(page) == []
        await page.get_by_role("link", name="sales.xlsx XLSX").click()
        await side.get_by_text("No preview").wait_for()
        async with page.expect_download() as saved:
            await side.get_by_role("link", name="Download", exact=True).click()
        assert (await saved.value).suggested_filename == "sales.xlsx"
        await side.get_by_role("button", name="Close").click()
        await side.wait_for(state="hidden")
        assert "file=" not in page.url
        assert asked == []
    assert faults == []


async def test_files_are_reached_and_left_by_the_keyboard(tmp_path: Path) -> None:
    faults: list[str] = []
    async with office(tmp_path) as world, looking(world, PERSON, faults) as page:
        await reported(world, page)
        card = page.get_by_role("link", name="totals.py PY")
        await card.focus()
        await page.keyboard.press("Enter")
        await page.locator("#side .tok-k").first.wait_for()
        await page.wait_for_function("() => document.activeElement.id === 'side-title'")
        await page.keyboard.press("Escape")
        await page.locator("#side").wait_for(state="hidden")
        await page.wait_for_function("() => document.activeElement.dataset.file !== undefined")
        assert await card.evaluate("card => card === document.activeElement"), "focus is where it was"
        assert "file=" not in page.url
    assert faults == []


async def test_on_a_phone_files_are_a_sheet_that_back_closes(tmp_path: Path) -> None:
    faults: list[str] = []
    context = {**PHONE, "locale": "zh-CN", "color_scheme": "dark"}
    async with office(tmp_path) as world, looking(world, PERSON, faults, **context) as page:
        await page.goto("/")
        await page.fill("#text", "report")
        await page.click("#send")
        await page.wait_for_selector(".message.person")
        await world.quiet()
        await page.get_by_role("link", name="revenue.csv CSV").click()
        sheet = page.get_by_role("dialog")
        await sheet.locator("table").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert await page.evaluate("document.querySelector('.content').inert")
        assert await accessible(page) == []
        await page.go_back()
        await page.locator("#side").wait_for(state="hidden")
        assert re.search(r"/c/[\w-]+$", page.url)
        assert not await page.evaluate("document.querySelector('.content').inert")
    assert faults == []


async def test_a_chat_is_branched_and_a_message_edited_in_another(tmp_path: Path) -> None:
    faults: list[str] = []
    async with office(tmp_path) as world, looking(world, PERSON, faults) as page:
        await reported(world, page)
        await say(page, "second thoughts")
        await page.get_by_text("second thoughts", exact=True).first.wait_for()
        await world.quiet()
        await page.locator(".prose").get_by_text("echo: second thoughts").wait_for()
        old = page.url
        await page.locator(".message.person").last.hover()
        await page.get_by_role("button", name="Edit in a new chat").last.click()
        await page.wait_for_url(lambda url: url != old)
        await page.locator(".branched").get_by_text("Branched from").wait_for()
        assert await page.input_value("#text") == "second thoughts"
        assert await page.locator(".given").count() == len(FILES)
        assert await page.locator(".prose").get_by_text("echo: second thoughts").count() == 0
        assert await accessible(page) == []
        await say(page, "better thoughts")
        await page.get_by_text("better thoughts", exact=True).first.wait_for()
        await world.quiet()
        await page.locator(".prose").get_by_text("echo: better thoughts").wait_for()

        await page.goto(old)
        assert await page.get_by_text("better thoughts").count() == 0, "the old one stays as it was"
        await page.locator("summary[aria-label='Branches of this chat']").click()
        assert await page.locator(".popup a[href^='/c/']").count() == 1
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Branch from here").first.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(lambda url: url != old)
        await page.locator(".branched").get_by_text("Branched from").wait_for()
        assert await page.input_value("#text") == ""
        await page.get_by_role("link", name="revenue.csv CSV").click()
        await page.locator("#side table").wait_for()
    assert faults == []


async def test_what_is_typed_in_a_new_chat_is_not_shown_to_who_signs_in_next(tmp_path: Path) -> None:
    faults: list[str] = []
    async with office(tmp_path) as world, looking(world, PERSON, faults) as page:
        await page.goto("/")
        await page.fill("#text", "not sent yet")
        await page.reload()
        assert await page.input_value("#text") == "not sent yet"
        other = (await world.browser(ADMIN)).cookies[COOKIE]
        await page.context.add_cookies([{"name": COOKIE, "value": other, "url": page.url}])
        await page.reload()
        assert await page.input_value("#text") == ""
    assert faults == []


async def test_a_voice_message_is_recorded_dropped_recorded_again_and_answered(tmp_path: Path) -> None:
    faults: list[str] = []
    async with (
        office(tmp_path) as world,
        looking(world, PERSON, faults, *MICROPHONE, permissions=["microphone"]) as page,
    ):
        await page.goto("/")
        record = page.get_by_role("button", name="Record a voice message")
        await record.click()
        await page.get_by_role("timer").get_by_text("0:01").wait_for()
        assert await accessible(page) == []
        await page.get_by_role("button", name="Discard the recording").click()
        await record.wait_for()
        assert await page.locator(".message").count() == 0
        await record.focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("timer").get_by_text("0:01").wait_for()
        await page.wait_for_function("() => document.activeElement.id === 'finish'")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".message.person audio")
        await world.quiet()
        await page.wait_for_selector(".message.bot .prose p")
        await page.wait_for_function("() => document.activeElement.id === 'text'")
        assert isinstance(world.hearing, Listening)
        (heard,) = world.hearing.heard
        assert heard.path.read_bytes().startswith(b"\x1aE\xdf\xa3"), "WebM"
        assert await accessible(page) == []
    assert faults == []
