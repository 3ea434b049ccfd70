"""Takes the pictures of the page in docs/images, of a gateway with the demo model: `make screenshots`."""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from tests.browser.conftest import answered, missing, say, started

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import Site

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 760},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
COLOURS = 128


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


async def of(site: Site) -> None:
    async with site.open(**WIDE, color_scheme="light") as page:
        await page.locator(".tour button").nth(1).click()
        await answered(page)
        await titled(page, "Three shops compared")
        await page.goto("/")
        await charted(page, "Revenue by shop")
        await shoot(page, "page")
        await page.goto("/")
        await page.locator(".tour button").nth(2).click()
        await page.wait_for_selector(".choices button")
        await page.wait_for_timeout(500)
        await titled(page, "A coffee order")
        order = page.url
    async with site.open(order, **WIDE, color_scheme="dark") as page:
        await shoot(page, "page-dark")
    async with site.open(**WIDE, color_scheme="light", locale="zh-CN") as page:
        await say(page, "你好")
        await answered(page)
        await titled(page, "问候")
        await page.goto("/")
        await charted(page, "各店营收")
        await shoot(page, "page-zh")
    async with site.open(**PHONE, color_scheme="dark", locale="zh-CN") as page:
        await page.locator(".tour button").nth(2).click()
        await page.wait_for_selector(".choices button")
        await shoot(page, "page-phone-zh")


async def main() -> None:
    if reason := missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        async with started(Path(folder), sandbox="bubblewrap") as site:
            await of(site)


if __name__ == "__main__":
    asyncio.run(main())
