"""The tour of the demo model on the page, from the first visit to its end, with a kill -9 amid an answer; and what it
shows, for everybody."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from harness.models.tour_texts import EN
from sandbox.policy import DEFAULT_FOLDER, complete
from tests.browser.conftest import answered, say, started
from tests.browser.conftest import missing as incomplete
from tests.browser.test_chat import accessible
from tests.flow.sandboxed import require_bubblewrap
from tests.parts import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

    from tests.browser.conftest import Site

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def touring(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A gateway whose agent has commands in a sandbox, as the tour wants them."""
    if reason := incomplete():
        missing(reason)
    async with started(tmp_path_factory.mktemp("tour"), sandbox="bubblewrap") as site:
        yield site


async def told(page: Page, text: str) -> None:
    """Until an answer of the bot has this text, and nothing works any more."""
    await page.locator(".message.bot", has_text=text).last.wait_for()
    await idle(page)


async def idle(page: Page) -> None:
    await page.wait_for_function(
        "() => !document.querySelector('[data-final=\"no\"]') && document.querySelector('#stop').hidden"
    )


async def press(page: Page, name: str) -> None:
    await page.get_by_role("group", name="Your choice").get_by_role("button", name=name, exact=True).click()


async def test_the_whole_tour(touring: Site) -> None:
    async with touring.open() as page:
        assert await page.get_by_role("heading", name="Welcome to Antler").is_visible()
        steps = page.locator(".tour button")
        assert [text.lower() for text in await steps.all_inner_texts()] == [
            f"{number}\n{step}".lower() for number, step in enumerate(EN.steps, 1)
        ]

        await steps.first.click()
        if complete(DEFAULT_FOLDER) is None:
            await told(page, "Revenue in 2025 by shop")
            await page.get_by_role("link", name="revenue.svg").first.wait_for()
        else:
            await told(page, EN.chart_done.partition("\n")[0])
            await page.wait_for_function("() => document.querySelector('.picture img')?.naturalWidth > 300")
        assert await steps.first.is_hidden()
        address = page.url

        await say(page, "2")
        await told(page, "Station earned most.")
        assert "Station: 56900 cups, 165010 EUR" in await page.locator("#messages").inner_text()

        await say(page, "3")
        await press(page, "Deny")
        await told(page, EN.order_denied)
        assert await page.get_by_role("link", name="Download order.txt").count() == 0
        await say(page, "3")
        await press(page, "Allow once")
        await told(page, EN.order_done.partition(":")[0])
        await page.get_by_role("link", name="Download order.txt").wait_for()

        await say(page, "4")
        await press(page, "Market")
        await told(page, "You chose Market.")

        await say(page, "5")
        await press(page, "Allow once")  # what was read in this thread could have asked for it
        await told(page, "In ten seconds I will remind you")
        await told(page, "It is time: stretch")

        await say(page, "6")
        await press(page, "I like green tea")
        await told(page, "To have it forgotten")
        await say(page, "/memory forget 1")
        await told(page, "Forgotten: 1")
        await say(page, "/memory")
        await told(page, "I remember nothing about you yet")

        await say(page, "7")
        await page.get_by_text("Antlers are bone, not horn.").wait_for()
        await say(page, "shorter")
        await told(page, "You wrote “shorter” in the meantime, so I stop after")
        assert page.url == address, "one chat has held all of it"

        await killed_in_the_middle(touring, page)


async def killed_in_the_middle(site: Site, page: Page) -> None:
    """The last number: the page stays open, and shows how the answer goes on."""
    assert site.faults == []
    await page.evaluate("window.stays = true")
    await say(page, "8")
    await page.get_by_text(EN.kept[1][1]).wait_for()
    named = re.search(r"kill -9 (\d+)", await page.locator(".message.bot").last.inner_text())
    first = site.running.process.pid
    assert named is not None
    assert int(named[1]) == first
    await site.end(signal.SIGKILL)
    await page.get_by_text("The connection is lost.").wait_for()
    await site.start()
    await page.get_by_text(f"Process {first} is gone; I am process {site.running.process.pid}").wait_for()
    await told(page, EN.kill_done)
    assert await page.evaluate("window.stays") is True, "it was not loaded again"
    assert await page.get_by_text(EN.kept[0][1]).count() == 1, "no step was done twice"
    lost = [fault for fault in site.faults if "net::ERR_" in fault]
    assert site.faults == lost, "besides the lost connection there is nothing to complain of"
    site.faults.clear()


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_a_chat_is_fit_for_everybody(touring: Site, colours: str, locale: str) -> None:
    """Before anything was said, with an answer of every kind, while a choice is to be made, with its menus open."""
    async with touring.open(color_scheme=colours, locale=locale) as page:
        assert await accessible(page) == []
        await say(page, "markdown")
        await page.wait_for_selector(".prose table")
        await answered(page)
        await say(page, "1")
        await page.locator(".given, .picture").wait_for()
        await answered(page, 3)
        await page.locator("details.did summary").last.click()
        await say(page, "4")
        await page.wait_for_selector(".choices button")
        assert await accessible(page) == []
        await page.click("details.more summary")
        assert await accessible(page) == []
        await page.click("[data-rename]")
        assert await accessible(page) == []
        await page.keyboard.press("Escape")
        await page.click("details.you summary")
        assert await accessible(page) == []
    assert touring.faults == []
