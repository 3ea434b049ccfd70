"""The pages with sources in a real browser: a plan that is decided on, a report beside its sources, documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.bot.http.served import PERSON, served
from tests.bot.http.test_knowledge import HANDBOOK
from tests.bot.http.test_research import SOURCES, begun, finished, presents, research
from tests.browser.test_chat import PHONE, accessible
from tests.browser.test_panel import WIDER, looking
from tests.browser.test_panel import there as there

if TYPE_CHECKING:
    from pathlib import Path

WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}


async def test_a_plan_is_changed_and_started_on_its_page(tmp_path: Path) -> None:
    faults: list[str] = []
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, research())
        async with looking(world, PERSON, faults, **WIDE) as page:
            await page.goto("/research")
            await page.get_by_role("link", name="The lighthouse of Arnvik").click()
            await page.locator("#write-change summary").click()
            await page.fill("#text-change", "no blogs")
            async with page.expect_navigation():
                await page.click("#do-change")
            await world.answered()
            assert world.harness.starts[-1].run_input.text == "no blogs"
            world.harness.researches[thread] = research(runs=("r1", "r2"))
            await page.goto(f"/research/{thread}")
            async with page.expect_navigation():
                await page.click("#do-start")
            await world.answered()
            assert world.harness.starts[-1].run_input.choice == "start"
    assert faults == []


@pytest.mark.parametrize("look", [WIDE, PHONE, {**PHONE, "locale": "zh-CN", "color_scheme": "dark"}])
async def test_a_report_stands_beside_its_sources_and_below_them_on_a_phone(
    tmp_path: Path, look: dict[str, Any]
) -> None:
    faults: list[str] = []
    async with served(tmp_path, sections=SOURCES) as world:
        thread = await begun(world, finished(changes=("no blogs",)))
        presents(world, "r1", "the-lighthouse-of-arnvik.docx", b"PK")
        async with looking(world, PERSON, faults, **look) as page:
            for path in ("/research", f"/research/{thread}"):
                await page.goto(path)
                assert await page.evaluate(WIDER) <= 0
                assert await accessible(page) == []
            report = await page.locator("article.card").bounding_box()
            sources = await page.locator("#source-1").bounding_box()
            assert report
            assert sources
            assert (sources["x"] >= report["x"] + report["width"]) is (look is WIDE)
            assert (sources["y"] >= report["y"] + report["height"]) is (look is not WIDE)
            await page.locator("a.citation").first.click()
            assert await page.evaluate("document.querySelector(':target').id") == "source-1"
            async with page.expect_download() as saving:
                await page.get_by_role("link", name="the-lighthouse-of-arnvik.docx").click()
            assert (await saving.value).suggested_filename == "the-lighthouse-of-arnvik.docx"
    assert faults == []


@pytest.mark.parametrize("look", [WIDE, PHONE, {**PHONE, "locale": "zh-CN", "color_scheme": "dark"}])
async def test_a_document_is_added_found_and_removed(tmp_path: Path, look: dict[str, Any]) -> None:
    faults: list[str] = []
    (tmp_path / "handbook.md").write_bytes(HANDBOOK)
    async with served(tmp_path, sections=SOURCES) as world, looking(world, PERSON, faults, **look) as page:
        await page.goto("/knowledge")
        await page.set_input_files("#f-file", tmp_path / "handbook.md")
        await page.fill("#f-collection", "travel")
        await page.locator("form[data-upload] button").click()
        await page.locator("#documents").get_by_text("handbook.md").wait_for()
        assert await page.locator("#documents h3").inner_text() == "travel"
        await page.fill("input[type=search]", "lunch")
        await page.press("input[type=search]", "Enter")
        await page.get_by_text("Lunch is paid up to 20 euros.").wait_for()
        assert await page.evaluate(WIDER) <= 0
        assert await accessible(page) == []
        await page.locator("a[href^='/knowledge/passages/']").first.click()
        await page.locator(".attention").wait_for()
        assert await accessible(page) == []
        await page.goto("/knowledge")
        await page.locator("button[id^=remove-]").click()
        await page.locator('dialog button[value="confirm"]').click()
        await page.locator("#documents").get_by_text("handbook.md").wait_for(state="detached")
    assert faults == []
