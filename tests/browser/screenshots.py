"""Takes the pictures of the page in docs/images, of gateways with the demo model and with simulated platforms:
`make screenshots`."""

from __future__ import annotations

import asyncio
import io
import subprocess
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from tests.bot.http.test_http import free_port
from tests.bot.http.test_signing import link_of
from tests.browser.conftest import ORDER, answered, missing, say, started
from tests.flow.gateway import World
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.telegram import client as telegram_client
from tests.simulators.telegram.seen import Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

    from tests.browser.conftest import Site

IMAGES = Path(__file__).parents[2] / "docs" / "images"
STILL = {"reduced_motion": "reduce"}
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, **STILL}
TALL: dict[str, Any] = {"viewport": {"width": 1280, "height": 1180}, **STILL}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
    **STILL,
}
COLOURS = 160


async def shoot(page: Page, name: str) -> None:
    """Write a picture with few colours, which is a third as large and looks the same."""
    await page.evaluate("() => document.activeElement?.blur()")
    await page.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
    file = IMAGES / f"{name}.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file.relative_to(IMAGES.parents[1])}: {file.stat().st_size / 1024:.0f} KB")


async def titled(page: Page, title: str) -> None:
    await page.click("details.more summary")
    await page.click("[data-rename]")
    await page.fill("#new-title", title)
    await page.press("#new-title", "Enter")
    await page.wait_for_function("title => document.getElementById('title').textContent === title", arg=title)


async def charted(page: Page, title: str) -> None:
    await page.locator(".tour button").first.click()
    await page.wait_for_selector(".picture img")
    await answered(page, 2)
    await titled(page, title)


async def order(page: Page, title: str) -> None:
    """An approval that waits."""
    await page.locator(".tour button").nth(2).click()
    await page.wait_for_selector(".choices button")
    await titled(page, title)


async def chats(site: Site) -> None:
    """A chart and an approval, in both languages; the list of chats grows as they are made."""
    async with site.open(**WIDE, color_scheme="light") as page:
        await page.locator(".tour button").nth(1).click()
        await answered(page)
        await titled(page, "Three shops compared")
        await page.goto("/")
        await charted(page, "Revenue by shop")
        await shoot(page, "page")
        await page.goto("/")
        await order(page, "A coffee order")
        address = page.url
    async with site.open(address, **WIDE, color_scheme="dark") as page:
        await shoot(page, "page-dark")


async def chinese_chats(site: Site) -> None:
    async with site.open(**WIDE, color_scheme="light", locale="zh-CN") as page:
        await say(page, "你好")
        await answered(page)
        await titled(page, "问候")
        await page.goto("/")
        await charted(page, "各店营收")
        await shoot(page, "page-zh")
        await page.goto("/")
        await order(page, "咖啡订单")
        address = page.url
    async with site.open(address, **WIDE, color_scheme="dark", locale="zh-CN") as page:
        await shoot(page, "page-dark-zh")
    async with site.open(address, **PHONE, color_scheme="dark", locale="zh-CN") as page:
        await shoot(page, "page-phone-zh")


# Now: a gateway between simulated platforms, in which something goes on.

PEOPLE = [Person(number, name) for number, name in enumerate(("Alice", "Bob", "Chen Wei", "Dana"), 2001)]
STRANGER = Person(2009, "Mira Novak")
ASKS = '!tool write_file {"path": "outputs/order.txt", "content": "40 kg of coffee"}'


@asynccontextmanager
async def office() -> AsyncIterator[World]:
    """A gateway with an account on Telegram and one on Slack, that is not started yet."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SimulatorProcess("tests.simulators.model") as model_process,
        SimulatorProcess(telegram_client.MODULE) as telegram_process,
    ):
        async with (
            telegram_client.connect(telegram_process) as telegram,
            slack_client.running_slack() as slack,
            ModelSimulator(model_process.port) as model,
        ):
            settings = {
                "access": {
                    "allow": [f"telegram:{person.id}" for person in PEOPLE],
                    "admins": [f"telegram:{PEOPLE[0].id}"],
                },
                "channels": {
                    "slack": {
                        "bot_token": "$SLACK_BOT_TOKEN",
                        "app_token": "$SLACK_APP_TOKEN",
                        "base_url": slack.api_url,
                    }
                },
                "conversations": {"busy": "queue"},
                "guardrails": {"rules": [ORDER | {"reason": "It is an order."}]},
                "http": {"listen": f"127.0.0.1:{free_port()}"},
            }
            tokens = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token}
            world = World(await telegram.fresh_bot(), model, Path(folder), settings, tokens)
            async with world:
                await slack.wait_connected()
                yield world


async def busy(world: World) -> None:
    """Answers that were given, one that grows, one that waits for it, a request for approval, and a stranger."""
    alice, bob, chen, dana = PEOPLE
    for person in (*PEOPLE, alice, bob):
        await world.telegram.user_says("!tokens 30 30", user=person)
        await world.telegram.wait_idle(person)
    await world.telegram.user_says("!pause shown", user=chen)
    await world.model.wait_for_pause("shown")
    await world.telegram.user_says("And one more thing", user=chen)
    await world.telegram.user_says(ASKS, user=dana)
    await world.telegram.wait_for_text(dana, "order.txt")
    await world.telegram.user_says("May I?", user=STRANGER)
    await world.telegram.wait_for_text(STRANGER, "/pair ")


async def now(world: World, browser: Browser) -> None:
    link = await link_of(world.folder)
    first = await browser.new_context(locale="en")
    page = await first.new_page()
    await page.goto(link)
    await page.get_by_role("button").first.click()
    await page.wait_for_url("**/")
    state = await first.storage_state()
    looks: dict[str, dict[str, Any]] = {
        "now": {"color_scheme": "light", "locale": "en"},
        "now-dark": {"color_scheme": "dark", "locale": "en"},
        "now-zh": {"color_scheme": "light", "locale": "zh-CN"},
        "now-dark-zh": {"color_scheme": "dark", "locale": "zh-CN"},
    }
    for name, look in looks.items():
        context = await browser.new_context(**TALL, **look, storage_state=state)
        page = await context.new_page()
        await page.goto(link.partition("/signin/")[0] + "/now")
        await page.wait_for_selector("form[action$='/run-now']")
        await shoot(page, name)
        await context.close()


def without_chinese() -> str:
    """What to install where no font has the signs, so that the browser would draw boxes; "" where one has."""
    known = subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True).stdout
    return "" if known else "there is no Chinese font: apt install fonts-noto-cjk"


async def main() -> None:
    if reason := missing() or without_chinese():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        async with started(Path(folder), sandbox="bubblewrap") as site:
            await chats(site)
    with tempfile.TemporaryDirectory() as folder:
        async with started(Path(folder), sandbox="bubblewrap", reason="这是一份订单。") as site:
            await chinese_chats(site)
            async with office() as world:
                await busy(world)
                await now(world, site.browser)


if __name__ == "__main__":
    asyncio.run(main())
