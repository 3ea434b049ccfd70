"""A gateway with the demo model, and Debian's Chromium to look at its page."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio
import yaml

from tests.bot.http.test_http import Process, free_port
from tests.bot.http.test_signing import link_of
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Response

CHROMIUM = shutil.which("chromium")
ORDER = {"tool": "write_file", "arguments": {"path": r"order\.txt$"}, "decision": "ask"}
MILLISECONDS = 40_000
COUNT_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
    antlerViolated(`${event.violatedDirective} stopped ${event.blockedURI} in ${event.sourceFile || document.URL}`))"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REPO_ROOT / "tests" / "browser" in item.path.parents:
            item.add_marker(pytest.mark.browser)


def missing() -> str:
    """What there is not that these tests need, "" for nothing."""
    if CHROMIUM is None:
        return "there is no chromium: apt install chromium"
    if find_spec("playwright") is None or find_spec("axe_playwright_python") is None:
        return "playwright is not installed: pip install --group browser"
    return ""


async def watched(context: BrowserContext, root: str, faults: list[str]) -> None:
    """Collect in `faults` whatever a page of this browser complains of: errors and warnings of its console, exceptions,
    what the content security policy stopped, and loads that do not come from below `root`."""

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    def loaded(response: Response) -> None:
        if not response.url.startswith((f"{root}/", "blob:", "data:")):
            faults.append(f"it loads from elsewhere: {response.url}")

    context.on("console", said)
    context.on("weberror", lambda found: faults.append(str(found.error)))
    context.on("response", loaded)
    await context.expose_function("antlerViolated", lambda text: faults.append(f"content security policy: {text}"))
    await context.add_init_script(COUNT_VIOLATIONS)


@dataclass
class Site:
    """A gateway and a browser that is signed in to it. faults: what pages complained of; there must be none."""

    browser: Browser
    client: httpx.AsyncClient
    folder: Path
    running: Process = field(init=False)
    state: Any = None
    faults: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return str(self.client.base_url).rstrip("/")

    async def start(self) -> None:
        """Start the gateway, also once more after `end`."""
        with (self.folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bot", "run", "--config", str(self.folder / "config.yaml")),
                cwd=REPO_ROOT, env=child_environment(),
                stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        self.running = Process(process, self.client, [])
        await self.running.ready()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.running.process.returncode is None:
            self.running.process.send_signal(number)
        await self.running.process.wait()

    async def link(self) -> str:
        return await link_of(self.folder)

    @asynccontextmanager
    async def open(self, path: str = "/", *, signed_in: bool = True, **context: Any) -> AsyncIterator[Page]:
        """A page in a browser of its own kind. context: size, language, colours and so on."""
        one = await self.browser.new_context(
            base_url=self.root, storage_state=self.state if signed_in else None, **context
        )
        one.set_default_timeout(MILLISECONDS)
        await watched(one, self.root, self.faults)
        page = await self.tab(one, path)
        try:
            yield page
        finally:
            await one.close()

    async def tab(self, context: BrowserContext, path: str) -> Page:
        page = await context.new_page()
        await page.goto(path)
        return page


async def answered(page: Page, count: int = 1) -> None:
    """Wait until the page shows so many whole answers, and none that grows."""
    await page.wait_for_function(
        """count => document.querySelectorAll('.message.bot[data-final="yes"]').length >= count
        && !document.querySelector('[data-final="no"]') && document.querySelector("#stop").hidden""",
        arg=count,
    )


async def say(page: Page, text: str) -> None:
    await page.fill("#text", text)
    await page.press("#text", "Enter")


@asynccontextmanager
async def started(folder: Path, sandbox: str, reason: str = "It is an order.") -> AsyncIterator[Site]:
    """A gateway with the demo model whose data lies in `folder`, and a browser that is signed in. reason: why it asks
    before it writes an order."""
    from playwright.async_api import async_playwright

    port = free_port()
    settings = {
        "data_dir": str(folder / "data"),
        "channels": {"console": {}},
        "sandbox": {"use": sandbox},
        "http": {"listen": f"127.0.0.1:{port}"},
        "guardrails": {"rules": [ORDER | {"reason": reason}]},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
        async_playwright() as driver,
    ):
        # Chromium's own sandbox does not work for root, in whose containers these tests run too.
        browser = await driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.getuid() != 0)
        site = Site(browser, client, folder)
        try:
            await site.start()
            async with site.open(await site.link(), signed_in=False) as page:
                await page.get_by_role("button").first.click()
                await page.wait_for_url(re.compile(r"/$"))
                site.state = await page.context.storage_state()
            yield site
        finally:
            await site.end()
            await browser.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One for a module: its start takes longer than its tests."""
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    async with started(tmp_path_factory.mktemp("site"), sandbox="host") as found:
        yield found
