"""nginx with TLS in front of a gateway below /antler: its page in the browser, its API for LangGraph's client."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from langgraph_sdk import get_client

from bot.control.server import ask, connection
from bot.http.auth import COOKIE
from tests.browser.conftest import CHROMIUM, MILLISECONDS, answered, say, watched
from tests.browser.conftest import missing as incomplete
from tests.flow.api_world import AGENT, TOKEN, contents, free_port, said
from tests.flow.test_life_of_a_message import FIRST_HALF, WHOLE
from tests.parts import missing
from tests.simulators.process import SimulatorStartError
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from tests.flow.gateway import World

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
NGINX = shutil.which("nginx", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")
CONFIG = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
{user}
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    location /antler/ {{
      proxy_pass http://127.0.0.1:{gateway};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 1h;
      client_max_body_size 100m;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Fronted:
    """A gateway behind the proxy. root: where people open it. authority: who vouches for the proxy's certificate."""

    world: World
    root: str
    authority: PrivateAuthority


@asynccontextmanager
async def nginx(folder: Path, authority: PrivateAuthority, port: int, gateway: int) -> AsyncIterator[None]:
    """Raises SimulatorStartError with what it said where it does not begin to listen."""
    made = authority.issue("localhost")
    user = "user root;" if os.getuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, user=user, port=port, gateway=gateway, cert=made.cert, key=made.key))
    process = await asyncio.create_subprocess_exec(
        *(str(NGINX), "-e", "stderr", "-p", str(folder), "-c", str(config)),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.wait({asyncio.create_task(process.wait())}, timeout=0.05)
                    if process.returncode is not None:
                        assert process.stderr is not None
                        raise SimulatorStartError((await process.stderr.read()).decode()) from None
                    continue
                writer.close()
                break
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fronted(public_world: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fronted]:
    if NGINX is None:
        missing("nginx is not installed (apt-get install nginx)")
    world = public_world
    folder, port, gateway = tmp_path_factory.mktemp("nginx"), free_port(), free_port()
    authority, root = PrivateAuthority.create(folder), f"https://localhost:{port}/antler"
    world.settings |= {"http": {"listen": f"127.0.0.1:{gateway}", "url": root, "behind_proxy": True}}
    async with world, nginx(folder, authority, port, gateway):
        yield Fronted(world, root, authority)


@asynccontextmanager
async def visiting(fronted: Fronted, faults: list[str]) -> AsyncIterator[Page]:
    """A browser that trusts the proxy. faults: also loads from beside the base path."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.getuid() != 0)
        context = await browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(MILLISECONDS)
        await watched(context, fronted.root, faults)
        yield await context.new_page()
        await browser.close()


async def test_the_page_works_below_a_base_path(fronted: Fronted, tmp_path: Path) -> None:
    if reason := incomplete():
        missing(reason)
    faults: list[str] = []
    async with connection(fronted.world.data_dir) as (reader, writer):
        link: str = (await ask(reader, writer, "signin", do="link"))["text"]
    assert link.startswith(f"{fronted.root}/signin/")
    (tmp_path / "note.txt").write_text("a note")
    async with visiting(fronted, faults) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Continue").click()
        await page.wait_for_url(f"{fronted.root}/")
        cookies = {each["name"]: each for each in await page.context.cookies()}
        assert (cookies[COOKIE]["path"], cookies[COOKIE]["secure"]) == ("/antler", True)

        await page.set_input_files("#files", tmp_path / "note.txt")
        await page.wait_for_function("() => document.querySelectorAll('#attached .file:not(.busy)').length === 1")
        await say(page, "!pause half")
        await page.locator(".prose", has_text=FIRST_HALF.strip()).wait_for()
        assert page.url.startswith(f"{fronted.root}/c/")
        await page.reload()
        await page.locator(".prose", has_text=FIRST_HALF.strip()).wait_for()
        await fronted.world.model.release("half")
        await page.locator(".prose", has_text=WHOLE).wait_for()
        await answered(page)
        await page.click("details.more summary")
        await page.click("[data-rename]")
        await page.fill("#new-title", "Two halves")
        await page.press("#new-title", "Enter")
        await page.locator("#chats").get_by_text("Two halves").wait_for()
        await page.get_by_role("button", name="Branch from here").click()
        await page.locator(".branched").get_by_text("Branched from").wait_for()
        await page.locator("#chats").get_by_text("Two halves").last.click()

        links = await page.eval_on_selector_all("a[href]", "found => found.map(each => each.href)")
        assert [each for each in links if not each.startswith(f"{fronted.root}/")] == []
        pages = await page.eval_on_selector_all(".menu a", "found => found.map(each => each.href)")
        assert f"{fronted.root}/now" in pages
        for address in pages:
            await page.goto(address)
            assert await page.locator("main h1").or_(page.locator("#title")).count() == 1, address
        await page.click("details.you summary")
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"{fronted.root}/signin?note=signed_out")
        await page.goto(f"{fronted.root}/")
        assert page.url == f"{fronted.root}/signin"
    assert faults == []


async def test_langgraphs_client_works_below_a_base_path(fronted: Fronted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(fronted.authority.cert))
    code, output = await fronted.world.command("token", "create", "laptop")
    token = TOKEN.search(output)
    assert (code, token is not None) == (0, True), output
    assert token is not None
    async with get_client(url=f"{fronted.root}/api/langgraph", api_key=token[0]) as client:
        assert [each["assistant_id"] for each in await client.assistants.search()] == [AGENT]
        thread = (await client.threads.create())["thread_id"]
        text, released = "", False
        async for part in client.runs.stream(
            thread, AGENT, input=said("!pause tokens"), stream_mode="messages-tuple", on_disconnect="continue"
        ):
            text += part.data[0]["content"] if part.event == "messages" else ""
            if text.startswith(FIRST_HALF) and not released:
                released = True
                await fronted.world.model.release("tokens")  # it comes only if the proxy keeps nothing back
        assert text == WHOLE
        values = await client.runs.wait(thread, AGENT, input=said("hello"))
        assert contents(values)[-1] == "You said: hello"
