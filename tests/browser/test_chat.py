"""The page as a person uses it, in a real browser: files, approvals, stop, reload, a phone, the keyboard alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bot.store.identity import harmless_name
from tests.browser.conftest import MILLISECONDS, Site, answered, say

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True}
SERIOUS = ("serious", "critical")
STILL = """async () => {
    const ends = (each) => each.effect.getComputedTiming().endTime !== Infinity;
    const moving = () => document.getAnimations().filter(ends);
    for (let quiet = 0; quiet < 10; quiet += 1) {  // frames: what the pointer is over is found out a little later
        await new Promise(requestAnimationFrame);
        if (moving().length) quiet = 0;
        await Promise.allSettled(moving().map((each) => each.finished));
    }
}"""


async def accessible(page: Page) -> list[dict[str, Any]]:
    """What axe finds that keeps people out, once nothing moves: half faded out a text has little contrast."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).with_name("axe.min.js")
    await page.evaluate(STILL)
    await page.evaluate(script.read_text("utf-8"))
    found = await page.evaluate("async () => (await axe.run()).violations")
    return [
        {"rule": each["id"], "where": [node["html"][:200] for node in each["nodes"]][:3]}
        for each in found
        if each["impact"] in SERIOUS
    ]


async def test_a_question_is_answered_with_a_file_after_an_approval(site: Site) -> None:
    async with site.open() as page:
        await page.get_by_role("button", name="An approval").click()
        choices = page.get_by_role("group", name="Your choice")
        await choices.get_by_role("button", name="Allow once").click()
        await page.wait_for_selector(".given")
        await answered(page, 2)
        assert await choices.count() == 0, "who has decided is not asked again"
        assert re.search(r"/c/[\w-]+$", page.url), "the chat has an address"
        async with page.expect_download() as saved:
            await page.get_by_role("link", name="Download order.txt").click()
        assert (await saved.value).suggested_filename == "order.txt"
        assert await accessible(page) == []

        await say(page, "markdown")
        await page.wait_for_selector(".prose table")
        await answered(page, 3)
        assert await page.locator(".prose pre code").last.inner_text() != ""
    assert site.faults == []


async def test_a_reload_and_a_second_tab_show_the_same_and_stop_ends_it(site: Site) -> None:
    async with site.open() as page:
        await page.get_by_role("button", name="A message that reaches me").click()
        await page.wait_for_selector('.message.bot[data-final="no"] .prose p')
        await page.wait_for_url(re.compile(r"/c/"))
        await page.reload()
        await page.wait_for_selector('.message.bot[data-final="no"] .prose p')
        assert await page.locator(".message.person").count() == 1
        assert await page.locator(".message.bot").count() == 1
        before = await page.locator(".message.bot .prose").last.inner_text()
        await page.wait_for_function(
            "length => [...document.querySelectorAll('.message.bot .prose')].at(-1).innerText.length > length + 40",
            arg=len(before),
        )
        other = await site.tab(page.context, page.url)
        assert await other.get_by_role("button", name="Stop", exact=True).is_visible()
        await page.get_by_role("button", name="Stop", exact=True).click()
        for each in (page, other):
            await answered(each)
            await each.wait_for_selector(".message.command")
            assert "Stopped" in await each.locator("#messages").inner_text()
        texts = [await each.locator("#messages .prose").all_inner_texts() for each in (page, other)]
        await page.reload()
        texts.append(await page.locator("#messages .prose").all_inner_texts())
        assert texts[0] == texts[1] == texts[2]
    assert site.faults == []


async def test_files_are_attached_and_nothing_that_is_written_runs(site: Site, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.txt"
    (tmp_path / name).write_text("hello", "utf-8")
    async with site.open() as page:
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        await page.set_input_files("#files", tmp_path / name)
        await page.evaluate("""() => {
            const files = new DataTransfer();
            files.items.add(new File(["two"], "dropped.txt", { type: "text/plain" }));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
            const pasted = new DataTransfer();
            pasted.items.add(new File(["three"], "pasted.txt", { type: "text/plain" }));
            document.getElementById("text").dispatchEvent(
                new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true, cancelable: true }));
        }""")
        await page.wait_for_function("() => document.querySelectorAll('#attached .file:not(.busy)').length === 3")
        await page.get_by_role("button", name="Remove pasted.txt").click()
        await say(page, "<img src=x onerror=alert(2)> **no Markdown of mine**")
        await answered(page)
        person = page.locator(".message.person")
        assert await person.locator(".file").all_inner_texts() == [harmless_name(name, ""), "dropped.txt"]
        assert await person.locator(".bubble").inner_text() == "<img src=x onerror=alert(2)> **no Markdown of mine**"
        assert await page.locator("#messages img, #messages script").count() == 0
        assert asked == []
    assert site.faults == []


async def test_a_folder_is_not_taken_for_a_broken_connection(site: Site, tmp_path: Path) -> None:
    async with site.open() as page:
        browser = await page.context.new_cdp_session(page)
        dragged = {"items": [], "files": [str(tmp_path)], "dragOperationsMask": 1}
        for step in ("dragEnter", "dragOver", "drop"):
            await browser.send("Input.dispatchDragEvent", {"type": step, "x": 600, "y": 300, "data": dragged})
        assert "The browser cannot read it" in await page.locator(".toast.bad").inner_text()
        assert await page.locator("#attached .file").count() == 0
    assert site.faults == ["Failed to load resource: net::ERR_FILE_NOT_FOUND"]
    site.faults.clear()


async def test_a_name_is_shortened_by_whole_characters(site: Site) -> None:
    name = f"{'x' * 54}😀{'y' * 195}.txt"
    async with site.open() as page:
        await page.evaluate(
            """name => {
            const files = new DataTransfer();
            files.items.add(new File(["two"], name, { type: "text/plain" }));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
        }""",
            name,
        )
        await page.wait_for_function("() => document.querySelectorAll('#attached .file:not(.busy)').length === 1")
    assert site.faults == []


async def test_words_are_dragged_from_an_answer_into_the_message(site: Site) -> None:
    async with site.open() as page:
        await say(page, "markdown")
        await answered(page)
        words = page.locator(".message.bot .prose p").last
        await words.evaluate("words => getSelection().selectAllChildren(words)")
        await words.drag_to(page.locator("#text"), source_position={"x": 8, "y": 8})
        assert await page.input_value("#text") == (await words.inner_text()).strip()
    assert site.faults == []


async def test_a_chat_is_printed_dark_on_white_and_nothing_covers_it(site: Site) -> None:
    async with site.open(locale="en") as page:
        await say(page, "markdown")
        await answered(page)
        await page.click("details.you summary")
        await page.get_by_role("button", name="Dark").click()
        await page.wait_for_selector('html[data-theme="dark"]')
        await page.emulate_media(media="print")
        assert await page.locator("#composer").is_hidden()
        assert await page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
        assert await page.locator(".prose table").is_visible()
    assert site.faults == []


async def test_a_phone_in_chinese_has_all_of_it(site: Site) -> None:
    async with site.open(**PHONE, locale="zh-CN", color_scheme="dark") as page:
        assert await page.get_by_role("heading", name="欢迎使用 Antler").is_visible()
        hint = await page.get_attribute("#text", "enterkeyhint")
        assert hint is None, "the key of a phone's keyboard makes a new line, and may not be called Send"
        await say(page, "markdown")
        await page.click("#send")
        await page.wait_for_selector(".prose table")
        await answered(page)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        await page.get_by_role("button", name="打开导航").click()
        await page.get_by_role("link", name="新对话").first.wait_for(state="visible")
        assert await accessible(page) == []
        await page.keyboard.press("Escape")
        await page.wait_for_function("() => !document.documentElement.classList.contains('sidebar-open')")
        assert await accessible(page) == []
    assert site.faults == []


async def test_what_breaks_the_security_policy_is_stopped_and_counted(site: Site) -> None:
    """Or the zero of the other tests would say nothing."""
    async with site.open() as page:
        await page.evaluate("""() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            document.getElementById("title").setAttribute("style", "color: red");
        }""")
        async with asyncio.timeout(MILLISECONDS / 1000):
            while sum("security policy: " in fault for fault in site.faults) < 2:
                assert await page.evaluate("window.ran") is None
    told, site.faults[:] = list(site.faults), []
    stopped = sorted(fault.split()[3] for fault in told if fault.startswith("content security policy"))
    assert stopped == ["script-src-elem", "style-src-attr"]


async def test_the_keyboard_alone_is_enough(site: Site) -> None:
    async with site.open() as page:
        await page.wait_for_function("() => document.activeElement.id === 'text'")
        await page.keyboard.type("4")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".choices button")
        await page.focus(".brand")
        for _ in range(40):
            await page.keyboard.press("Tab")
            if await page.evaluate("'press' in document.activeElement.dataset"):
                break
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await page.keyboard.press("Enter")
        await answered(page, 2)
        await page.wait_for_function("() => document.activeElement.id === 'text'")

        await page.focus("details.more summary")
        await page.keyboard.press("Enter")
        await page.focus("[data-rename]")
        await page.keyboard.press("Enter")
        await page.keyboard.type("Which shop?")
        await page.keyboard.press("Enter")
        await page.wait_for_function("() => document.getElementById('title').textContent === 'Which shop?'")
        await page.focus(".search [name=q]")
        await page.keyboard.type("which")
        await page.wait_for_function("() => document.querySelectorAll('#chats a').length === 1")
    assert site.faults == []


async def test_long_words_names_and_titles_stay_within_the_page(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{'n' * 200}.txt").write_text("hello", "utf-8")
    async with site.open(**PHONE) as page:
        await page.set_input_files("#files", tmp_path / f"{'n' * 200}.txt")
        await page.wait_for_selector("#attached .file:not(.busy)")
        await page.fill("#text", "W" * 300)
        await page.click("#send")
        await answered(page)
        await page.wait_for_function("() => document.getElementById('title').textContent.startsWith('WW')")
        assert await page.eval_on_selector("#main", "each => each.scrollWidth <= each.clientWidth")
        left = await page.eval_on_selector(".bubble", "each => each.getBoundingClientRect().left")
        assert left > 0
        tops = "() => [...document.querySelectorAll('#actions > *')].map((each) => each.getBoundingClientRect().top)"
        assert len(set(await page.evaluate(tops))) == 1, "the buttons next to the title stand side by side"
    assert site.faults == []


async def test_a_script_from_right_to_left_begins_on_the_right(site: Site) -> None:
    async with site.open() as page:
        await say(page, "مرحبا!\n\nHello!")
        await answered(page)
        starts = await page.evaluate("""() => {
            const text = document.querySelector(".bubble").firstChild;
            const at = (place) => {
                const range = document.createRange();
                range.setStart(text, place);
                range.setEnd(text, place + 1);
                return range.getBoundingClientRect().left;
            };
            return [at(5) < at(0), at(text.data.indexOf("!", 6)) > at(text.data.indexOf("H"))];
        }""")
        assert starts == [True, True], "each line ends where its own script does"
    assert site.faults == []


async def test_what_is_typed_in_a_new_chat_stays_with_it(site: Site) -> None:
    async with site.open() as page:
        await say(page, "markdown")
        await answered(page)
        await page.fill("#text", "not sent yet")
        await page.reload()
        assert await page.input_value("#text") == "not sent yet"
        await page.goto("/")
        assert await page.input_value("#text") == ""
    assert site.faults == []


async def test_a_message_whose_answer_was_lost_is_sent_again_as_the_same(site: Site) -> None:
    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    async with site.open() as page:
        await page.route("**/messages", lose, times=1)
        await say(page, "markdown")
        await page.wait_for_selector(".toast.bad")
        await page.click("details.more summary")
        await page.get_by_role("button", name="All commands").click()
        await answered(page, 2)
        await page.press("#text", "Enter")
        await page.wait_for_function("() => document.getElementById('text').value === ''")
        await answered(page)
        assert await page.locator(".message.person:not(.command)").count() == 1
        for _ in range(2):  # from then on what is written twice is meant twice
            await say(page, "markdown")
            await page.wait_for_function("() => document.getElementById('text').value === ''")
        await answered(page, 4)
        assert await page.locator(".message.person:not(.command)").count() == 3
    assert site.faults == ["Failed to load resource: net::ERR_FAILED"]
    site.faults.clear()


async def test_what_is_added_while_a_message_is_sent_goes_with_the_next_one(site: Site, tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def slowly(route: Route) -> None:
        await arrived.wait()
        await route.continue_()

    (tmp_path / "later.txt").write_text("hello", "utf-8")
    async with site.open() as page:
        await page.route("**/messages", slowly)
        await say(page, "markdown")
        await page.focus("#text")
        await page.keyboard.type(" and more")
        await page.set_input_files("#files", tmp_path / "later.txt")
        await page.wait_for_selector("#attached .file:not(.busy)")
        arrived.set()
        await answered(page)
        assert await page.input_value("#text") == " and more"
        assert await page.locator("#attached .file").inner_text() == "later.txt\n×"
    assert site.faults == []


async def test_what_goes_beyond_a_message_or_an_upload_is_told_in_words(site: Site) -> None:
    async with site.open() as page:
        files: list[Any] = [{"name": f"{number}.txt", "mimeType": "text/plain", "buffer": b"x"} for number in range(22)]
        await page.set_input_files("#files", files)
        await page.locator(".toast.bad", has_text="at most 20 files").wait_for()
        assert await page.locator("#attached .file").count() == 20
        await page.evaluate("""() => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(51_000_000)], "large.bin"));
            const [first] = document.querySelectorAll("#attached .remove");
            first.click();
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
        }""")
        await page.locator(".toast.bad", has_text="too large: at most 50 MB").wait_for()
    assert ["413" in fault for fault in site.faults] == [True]
    site.faults.clear()


async def test_a_text_that_is_too_long_is_refused_as_a_whole(site: Site) -> None:
    async with site.open() as page:
        await page.focus("#text")
        await page.keyboard.insert_text("word " * 40_001)
        await page.press("#text", "Enter")
        await page.locator(".toast.bad", has_text="too long for a message").wait_for()
        assert len(await page.input_value("#text")) == 200_005
    assert ["413" in fault for fault in site.faults] == [True]
    site.faults.clear()


async def looked_at(page: Page, seen: bool) -> None:
    """What a browser tells a tab that comes to the front, or leaves it."""
    await page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        not seen,
    )


async def test_more_tabs_are_open_than_a_browser_has_connections(site: Site) -> None:
    async with site.open() as page:
        await say(page, "markdown")
        await answered(page)
        await looked_at(page, False)
        for _ in range(6):
            other = await site.tab(page.context, page.url)
            await looked_at(other, False)
        await looked_at(other, True)
        await say(other, "markdown")
        await answered(other, 2)
        assert await page.locator(".message.person").count() == 1
        await looked_at(page, True)
        await answered(page, 2)
        texts = [await each.locator("#messages .prose").all_inner_texts() for each in (page, other)]
        assert texts[0] == texts[1]
    assert site.faults == []


async def test_a_page_waits_until_a_proxy_reaches_the_gateway_again(site: Site) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=502, body="Bad Gateway")

    async with site.open() as page:
        await page.clock.install()
        for path in ("**/events?*", "**/api/me"):
            await page.route(path, refuse)
        await page.reload()
        await page.wait_for_selector(".toast")
        await page.evaluate("window.same = true")
        for _ in range(3):
            async with page.expect_response("**/api/me"):
                await page.clock.fast_forward(6000)
        assert await page.evaluate("window.same")
        await page.unroute_all()
        await page.clock.fast_forward(6000)
        await page.wait_for_function("() => !window.same")
    assert site.faults
    assert set(site.faults) == {"Failed to load resource: the server responded with a status of 502 (Bad Gateway)"}
    site.faults.clear()


async def test_enter_that_ends_a_word_of_an_input_method_sends_nothing(site: Site) -> None:
    async with site.open() as page:
        await page.fill("#text", "你好")
        sent = """(about) => !document.getElementById("text").dispatchEvent(
            new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...about }))"""
        assert not await page.evaluate(sent, {"isComposing": True})
        assert not await page.evaluate(sent, {"keyCode": 229}), "Safari says it in this way"
        assert await page.evaluate(sent, {"keyCode": 13})
    assert site.faults == []


async def test_the_list_of_chats_keeps_the_focus_while_answers_come(site: Site) -> None:
    async with site.open() as page:
        await say(page, "markdown")
        await answered(page)
        await page.locator("#chats [aria-current]").focus()
        await page.evaluate("document.querySelector('#chats [aria-current]').dataset.old = 'yes'")
        for path in ("/", page.url):  # another chat in the list, and an answer in this one
            other = await site.tab(page.context, path)
            await say(other, "markdown")
            await answered(other, 1 if path == "/" else 2)
        await page.wait_for_selector("#chats [aria-current]:not([data-old])")
        assert await page.evaluate("document.activeElement.matches('#chats [aria-current]')")
    assert site.faults == []


async def test_a_long_line_is_seen_whole_where_fields_do_not_grow_by_themselves(site: Site) -> None:
    async with site.open() as page:
        await page.evaluate("document.getElementById('text').style.fieldSizing = 'fixed'")
        await page.fill("#text", "word " * 100)
        assert await page.eval_on_selector("#text", "text => text.scrollHeight <= text.clientHeight")
        await page.fill("#text", "word")
        assert await page.eval_on_selector("#text", "text => text.rows") == 1
    assert site.faults == []


async def test_another_language_is_chosen_in_a_chat_that_has_just_begun(site: Site) -> None:
    async with site.open(locale="en") as page:
        await say(page, "markdown")
        await answered(page)
        address = page.url
        await page.click("details.you summary")
        await page.get_by_role("button", name="中文").click()
        await page.get_by_role("button", name="停止").wait_for(state="hidden")
        await page.wait_for_selector('html[lang^="zh"]')
        assert page.url == address
    assert site.faults == []


async def test_a_page_of_an_earlier_session_says_that_it_has_ended(site: Site) -> None:
    async with site.open() as page:
        await page.context.clear_cookies()
        other = await site.tab(page.context, await site.link())
        await other.get_by_role("button", name="Continue").click()
        await other.wait_for_url(re.compile(r"/$"))
        await say(page, "kept")
        await page.locator(".toast.bad", has_text="You are signed out. Reload the page").wait_for()
        await page.reload()
        assert await page.input_value("#text") == "kept"
    assert ["403" in fault for fault in site.faults] == [True]
    site.faults.clear()


async def test_what_a_form_says_is_read_on_the_page_to_which_it_leads(site: Site) -> None:
    async with site.open(locale="en") as page:
        await say(page, "markdown")
        await answered(page)
        await page.click("details.more summary")
        await page.get_by_role("button", name="Delete chat").click()
        await page.locator("dialog[open] button[value=confirm]").click()
        await page.wait_for_url(re.compile(r"/$"))
        await page.locator(".toast", has_text="delete").wait_for()
        await page.reload()
        await page.wait_for_function("() => document.activeElement.id === 'text'")
        assert await page.locator(".toast").count() == 0
    assert site.faults == []


async def test_what_a_form_answers_below_the_window_is_scrolled_to(site: Site) -> None:
    async with site.open("/configuration", locale="en", viewport={"width": 1280, "height": 800}) as page:
        await page.get_by_role("button", name="Check and compare").click()
        told = page.locator("#checked h2")
        await told.wait_for()
        assert await told.evaluate("told => told.getBoundingClientRect().bottom <= innerHeight")
    assert site.faults == []


async def test_signing_out_ends_the_session_for_every_tab(site: Site) -> None:
    async with site.open(signed_in=False) as page:
        assert page.url.endswith("/signin")
        assert await accessible(page) == []
        await page.goto(await site.link())
        await page.get_by_role("button", name="Continue").click()
        await page.wait_for_url(re.compile(r"/$"))
        await page.click("details.you summary")
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(re.compile(r"/signin\?note=signed_out$"))
        await page.goto("/")
        assert page.url.endswith("/signin")
    assert site.faults == []
