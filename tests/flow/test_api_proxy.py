"""The example of docs/http.md for nginx, in front of a running gateway: below a path, with TLS, nothing buffered."""

from __future__ import annotations

import asyncio
import re
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.flow.api_world import AGENT, SECONDS, Api, free_port, said, serving, words
from tests.simulators.process import REPO_ROOT
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
pytestmark = [pytest.mark.long, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]


def configured(folder: Path, authority: PrivateAuthority, port: int, behind: int) -> str:
    """The server of the example with these ports and a certificate, as a whole configuration."""
    page = (REPO_ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    found = re.search(r"```nginx\n(.*?)```", page, re.DOTALL)
    assert found is not None
    made, server = authority.issue("localhost"), found[1]
    for known, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("server_name example.org;", "server_name localhost;"),
        ("/etc/ssl/example.org.pem", str(made.cert)),
        ("/etc/ssl/example.org.key", str(made.key)),
        ("127.0.0.1:8642", f"127.0.0.1:{behind}"),
    ):
        assert server.count(known) == 1, known
        server = server.replace(known, here)
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{each}_temp_path {folder / each};\n" for each in folders)
    head = f"daemon off;\npid {folder / 'nginx.pid'};\nerror_log stderr;\nevents {{}}\n"
    return f"{head}http {{\naccess_log off;\n{places}{server}\n}}\n"


@asynccontextmanager
async def proxied(api: Api, folder: Path, port: int, authority: PrivateAuthority) -> AsyncIterator[str]:
    """nginx in front of that gateway, and the address below which everything is."""
    config = folder / "nginx.conf"
    config.write_text(configured(folder, authority, port, api.port), encoding="utf-8")
    assert NGINX is not None
    process = await asyncio.create_subprocess_exec(NGINX, "-e", "stderr", "-p", str(folder), "-c", str(config))
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                assert process.returncode is None, "nginx has ended: the log says why"
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"https://localhost:{port}/antler"
    finally:
        process.terminate()
        await process.wait()


async def test_the_example_for_nginx_works(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, port = tmp_path / "nginx", free_port()
    folder.mkdir()
    authority = PrivateAuthority.create(folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    http = {"behind_proxy": True, "url": f"https://localhost:{port}/antler"}
    async with serving(world, http=http) as api, proxied(api, folder, port, authority) as url:
        key = await api.token()
        async with get_client(url=f"{url}/api/langgraph", api_key=key) as client:
            thread: Any = await client.threads.create()
            parts: list[Any] = []
            asked = client.runs.stream(
                thread["thread_id"], AGENT, input=said("!pause far"), stream_mode="messages-tuple"
            )
            async for part in asked:
                if part.event == "messages" and not words(parts):
                    await world.model.release("far")  # what came so far was not held back by the proxy
                parts.append(part)
            assert words(parts) == "The first half of the answer, and the second half."
        async with httpx.AsyncClient(headers={"X-Api-Key": key}) as plain:
            large, larger = b"x" * (5 << 20), b"x" * (30 << 20)
            kept = await plain.post(f"{url}/api/uploads?name=a.bin", content=large)
            assert kept.status_code == 201, kept.text
            assert (await plain.get(f"{url}/api/uploads/{kept.json()['id']}")).content == large
            refused = await plain.post(f"{url}/api/uploads?name=b.bin", content=larger)
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large"), "by us, not by nginx"
            page = await plain.get(f"{url}/", headers={"Accept": "text/html"})
            assert page.url.path.startswith("/antler/")
            visit = await plain.get(
                f"https://localhost:{port}/antler/now", headers={"X-Api-Key": "", "Accept": "text/html"}
            )
            assert (visit.status_code, visit.headers["location"]) == (303, "/antler/signin")
