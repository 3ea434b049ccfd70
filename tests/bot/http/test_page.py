"""The page over real HTTP, of a gateway in its own process: who sees what, and that nothing foreign becomes markup."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bot.http.page.view import StaticFiles, local_path
from bot.store.identity import chat_of
from tests.bot.http.test_http import SECONDS, Process, gateway
from tests.bot.http.test_signing import link_of, signed_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

VISIT = {"Accept": "text/html,application/xhtml+xml"}
SCRIPT = {"Accept": "application/json, text/html"}
EVIL = "<script>alert(1)</script>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


async def visit(running: Process, path: str, **headers: str) -> httpx.Response:
    return await running.client.get(path, headers=VISIT | headers)


async def opened(running: Process) -> str:
    """The chat of a new page."""
    page = (await visit(running, "/")).text
    found = re.search(r'data-chat="([^"]+)"', page)
    assert found, page
    return found.group(1)


async def write(running: Process, chat: str, text: str, mine: dict[str, str], *attachments: str) -> str:
    body = {"text": text, "client_id": uuid4().hex, "attachments": list(attachments)}
    answer = await running.client.post(f"/api/conversations/{chat}/messages", json=body, headers=mine)
    assert answer.status_code == 202, answer.text
    message_id: str = answer.json()["message_id"]
    return message_id


@asynccontextmanager
async def events(
    running: Process, chat: str, after: str = "", **headers: str
) -> AsyncIterator[AsyncIterator[tuple[str, str, dict[str, Any]]]]:
    """What an open page is told: (id, kind, data)."""
    request = running.client.stream(
        "GET", f"/c/{chat}/events", params={"after": after}, headers=headers, timeout=SECONDS
    )
    async with request as answer:
        assert answer.status_code == 200, await answer.aread()

        async def told() -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
            found: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if not line and "event" in found:
                    yield found.get("id", ""), found["event"], json.loads(found["data"])
                    found = {}
                elif name in ("id", "event", "data"):
                    found[name] = value

        yield told()


async def until_answered(told: AsyncIterator[tuple[str, str, dict[str, Any]]]) -> list[tuple[str, str, dict[str, Any]]]:
    """Up to the whole answer."""
    seen = []
    async with asyncio.timeout(SECONDS):
        async for each in told:
            seen.append(each)
            _, kind, data = each
            if kind == "message" and data["final"] and 'class="message bot' in data["html"]:
                return seen
    raise AssertionError("the stream ended")


async def test_who_is_not_signed_in_is_led_to_the_way_in_and_sees_nothing_else(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        for path in (
            "/",
            "/c/x-y",
            "/chats",
            "/c/x-y/events",
            "/c/x-y/earlier?before=2026-01-01T00:00:00Z",
            "/uploads/x",
        ):
            visited = await visit(running, path)
            assert (visited.status_code, visited.headers["location"]) == (303, "/signin"), path
            asked = await running.client.get(path, headers=SCRIPT)
            assert (asked.status_code, asked.json()["error"]["code"]) == (401, "not_signed_in"), path
        assert (await running.client.post("/c/x-y/title", data={"title": "x"})).status_code == 401

        how = await visit(running, "/signin")
        assert how.status_code == 200
        assert "antler web" in how.text
        assert "/web" in how.text
        assert "<script" not in how.text
        assert "signed out" in (await visit(running, "/signin?note=signed_out")).text
        assert EVIL not in (await visit(running, f"/signin?note={EVIL}")).text
        over = await visit(running, "/signin/not-a-link")
        assert (over.status_code, "used already" in over.text) == (410, True)
        used = await running.client.post("/signin", data={"code": "x"}, headers=VISIT)
        assert (used.status_code, "used already" in used.text) == (410, True)
        assert "<button" in (await visit(running, "/signin/" + (await link_of(tmp_path)).rpartition("/")[2])).text

        nowhere = await visit(running, "/nowhere")
        assert (nowhere.status_code, "There is nothing here" in nowhere.text) == (404, True)
        assert (await running.client.get("/api/nowhere", headers=SCRIPT)).json()["error"]["code"] == "not_found"

        chinese = await visit(running, "/signin", **{"Accept-Language": "zh-CN,zh;q=0.9"})
        assert '<html lang="zh-Hans">' in chinese.text
        assert "一次性链接" in chinese.text
        for text, headers in ((how.text, how.headers), (nowhere.text, nowhere.headers)):
            assert "script-src 'self'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            assert not re.search(r"\son\w+=|<style|style=|https?://(?!127\.0\.0\.1)", text)


async def test_static_files_are_kept_by_their_content(tmp_path: Path) -> None:
    async with gateway(tmp_path, url="http://127.0.0.1/deer") as running:
        await running.ready()
        page = (await visit(running, "/deer/signin")).text
        names = re.findall(r'(?:href|src)="(/deer/static/[^"]+)"', page)
        assert len(names) >= 3
        for name in names:
            file = await running.client.get(name)
            assert file.status_code == 200
            assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert file.headers["x-content-type-options"] == "nosniff"
        assert (await running.client.get("/deer/static/antler.css")).status_code == 404
        for name, known in StaticFiles().served.items():
            plain = await running.client.get(f"/deer/static/{name}", headers={"Accept-Encoding": "identity"})
            assert plain.content == known.content
        css = next(name for name in StaticFiles().served if name.startswith("antler."))
        assert (await running.client.get(f"/deer/static/{css}")).headers["content-encoding"] == "gzip"


async def test_a_chat_is_written_shown_followed_renamed_and_found(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        mine = await signed_in(running, tmp_path)
        chat = await opened(running)
        text = f'{EVIL} & <img src=x onerror="alert(1)">'
        async with events(running, chat) as told:
            message_id = await write(running, chat, text, mine)
            seen = await until_answered(told)
        kinds = [kind for _, kind, _ in seen]
        assert kinds[0] == "state"
        html = "".join(str(data.get("html", "")) for _, _, data in seen)
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img" in html
        assert f'id="{message_id}"' in html

        page = (await visit(running, f"/c/{chat}")).text
        assert page.count(f'id="{message_id}"') == 1
        assert "I am the demo model" in page
        assert "Signed in as local" in page
        assert 'data-final="yes"' in page
        assert "<img src=x" not in page
        assert EVIL not in page

        # From where the page was read nothing is told twice; an unknown place is an honest whole.
        after = re.search(r'data-after="([^"]+)"', page)
        assert after
        async with events(running, chat, after.group(1)) as told:
            await write(running, chat, "once more", mine)
            again = await until_answered(told)
        assert "state" not in [kind for _, kind, _ in again]
        async with events(running, chat, "0000-7") as told:
            _, kind, state = await anext(told)
        assert kind == "state"
        assert "once more" in state["html"]
        async with events(running, chat, after.group(1), **{"Last-Event-ID": again[-1][0]}) as told:
            await write(running, chat, "and once more", mine)
            assert "and once more" in (await anext(told))[2]["html"], "what came before is not told again"
            await until_answered(told)

        renamed = await running.client.post(f"/c/{chat}/title", data={"title": f"Ünï\n{EVIL}"}, headers=mine | SCRIPT)
        assert renamed.status_code == 204, renamed.text
        found = (await running.client.get("/chats", params={"q": "ünï script", "chat": chat}, headers=SCRIPT)).text
        assert f'href="/c/{chat}"' in found
        assert "Ünï &lt;script&gt;" in found
        assert EVIL not in found
        nothing = (await running.client.get("/chats", params={"q": "zebra"}, headers=SCRIPT)).text
        assert "/c/" not in nothing
        refused = await running.client.post(f"/c/{chat}/title", data={"title": " \n"}, headers=mine | SCRIPT)
        assert refused.json()["error"]["code"] == "empty"
        unbegun = await running.client.post(f"/c/{await opened(running)}/title", data={"title": "x"}, headers=mine)
        assert unbegun.status_code == 404

        earlier = await running.client.get(
            f"/c/{chat}/earlier", params={"before": "2099-01-01T00:00:00Z"}, headers=SCRIPT
        )
        assert message_id in earlier.text
        unclear = await running.client.get(f"/c/{chat}/earlier", params={"before": "2099-01-01T00:00:00"})
        assert unclear.status_code == 422, "a time of no zone"


async def test_what_is_another_persons_is_not_there(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        mine = await signed_in(running, tmp_path)
        foreign = chat_of("telegram:1", "f" * 24)
        for path in (f"/c/{foreign}", f"/c/{foreign}/events", f"/c/{foreign}/earlier?before=2026-01-01T00:00:00Z",
                     "/c/nothing", "/uploads/" + "0" * 32, "/uploads/..%2f..%2fantler.db"):  # fmt: skip
            visited = await visit(running, path)
            assert (visited.status_code, "There is nothing here" in visited.text) == (404, True), path
            asked = await running.client.get(path, headers=SCRIPT)
            assert (asked.status_code, asked.json()["error"]["code"]) == (404, "not_found"), path
        refused = await running.client.post(f"/c/{foreign}/title", data={"title": "x"}, headers=mine)
        assert refused.status_code == 404
        for path, code in (("/v1/nowhere", 404), ("/api/nowhere", 404), ("/v1/models", 405)):
            asked = await running.client.post(path, json={}, headers=mine)
            assert (asked.status_code, asked.headers.get("allow")) == (code, "GET" if code == 405 else None)
        assert (await running.client.post("/c/x/title", data={"title": "x"})).json()["error"]["code"] == "csrf"


async def test_files_that_could_run_scripts_are_only_saved(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        mine = await signed_in(running, tmp_path)
        chat = await opened(running)
        ids = {}
        for name, kind, content in (
            ('"><img src=x onerror=alert(1)>.svg', "image/svg+xml", SVG),
            ("page.html", "text/html", b"<script>alert(1)</script>"),
            ("dot.png", "image/png", PNG),
            ("voice.webm", "audio/webm", b"said"),
        ):
            kept = await running.client.post(
                "/api/uploads", params={"name": name}, content=content, headers=mine | {"Content-Type": kind}
            )
            assert kept.status_code == 201, kept.text
            ids[kind] = kept.json()["id"]
        for kind, upload in ids.items():
            file = await running.client.get(f"/uploads/{upload}")
            assert file.status_code == 200
            inline = kind in ("image/png", "audio/webm")
            assert file.headers["content-type"] == (kind if inline else "application/octet-stream")
            assert file.headers["content-disposition"].startswith("inline" if inline else "attachment")
            assert "sandbox" in file.headers["content-security-policy"]
            assert file.headers["x-content-type-options"] == "nosniff"
        async with events(running, chat) as told:
            await write(running, chat, "look", mine, *ids.values())
            await until_answered(told)
        page = (await visit(running, f"/c/{chat}")).text
        assert "<img src=x" not in page
        assert f'<img src="/uploads/{ids["image/png"]}"' in page
        assert f'<audio controls preload="metadata" src="/uploads/{ids["audio/webm"]}"' in page
        assert f'/uploads/{ids["image/svg+xml"]}"' not in page


async def test_language_and_appearance_are_remembered_and_lead_nowhere_else(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        await signed_in(running, tmp_path)
        chosen = await running.client.post(
            "/preferences", data={"language": "zh", "theme": "dark", "next": "//evil.example/x"}
        )
        assert (chosen.status_code, chosen.headers["location"]) == (303, "/")
        page = (await visit(running, "/")).text
        assert '<html lang="zh-Hans" data-theme="dark">' in page
        unknown = await running.client.post(
            "/preferences", data={"language": "xx", "theme": '"><b>', "next": "/signin"}
        )
        assert "set-cookie" not in unknown.headers
        assert unknown.headers["location"] == "/signin"


def test_only_paths_of_this_site_are_gone_back_to() -> None:
    for elsewhere in ("", "//e", "/\\e", "https://e", "javascript:alert(1)", "/a\nSet-Cookie: x=1"):
        assert local_path(elsewhere) == "/"
    assert local_path("/c/x?y=1") == "/c/x?y=1"
