"""Signing in, sessions, tokens and conversations over real HTTP, of a gateway in its own process."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from bot.access.signin import csrf_of
from bot.control.server import ask, connection
from bot.http.auth import COOKIE, CSRF_HEADER, SIGN_INS_AT_ONCE
from bot.http.guard import MOST_BODY
from bot.settings import ConfigError, load
from tests.bot.http.test_http import SECONDS, Process, gateway, written
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


async def told(folder: Path, do: str, **more: Any) -> dict[str, Any]:
    """What the control socket answers to `antler web` and `antler token`."""
    async with connection(folder / "data") as (reader, writer):
        answer: dict[str, Any] = await ask(reader, writer, "signin", do=do, **more)
        return answer


async def link_of(folder: Path) -> str:
    link: str = (await told(folder, "link"))["text"]
    return link


async def token_of(folder: Path, name: str, *scopes: str, **more: Any) -> dict[str, str]:
    """The headers of a program."""
    answer = await told(folder, "create", name=name, scopes=list(scopes), **more)
    assert answer["done"], answer
    return {"Authorization": f"Bearer {answer['text']}"}


async def signed_in(running: Process, folder: Path) -> dict[str, str]:
    """Follow a link as a browser does; the client has the session's cookie then. Returns the headers that its pages
    send."""
    code = (await link_of(folder)).rpartition("/")[2]
    answer = await running.client.post("/signin", data={"code": code})
    assert answer.status_code == 303, answer.text
    return {CSRF_HEADER: (await running.client.get("/api/me")).json()["csrf"]}


@asynccontextmanager
async def followed(
    client: httpx.AsyncClient, chat: str, **headers: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The events of a conversation: {"id", "event", "data"}."""
    async with client.stream("GET", f"/api/conversations/{chat}/events", headers=headers, timeout=SECONDS) as answer:
        assert answer.status_code == 200, await answer.aread()

        async def events() -> AsyncIterator[dict[str, Any]]:
            found: dict[str, Any] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if not line and "event" in found:
                    yield found
                    found = {}
                elif name in ("id", "event", "data"):
                    found[name] = json.loads(value) if name == "data" else value

        yield events()


async def until_final(events: AsyncIterator[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Read up to the first final message; its text, and all events."""
    seen, texts = [], dict[str, str]()
    async with asyncio.timeout(SECONDS):
        async for each in events:
            seen.append(each)
            data = each["data"]
            for shown in data.get("messages", []) if each["event"] == "snapshot" else [data]:
                if each["event"] in ("snapshot", "message"):
                    texts[shown["message_id"]] = shown["text"]
                    if shown["final"]:
                        return shown["text"], seen
            if each["event"] == "append":
                assert len(texts[data["message_id"]]) == data["at_length"]
                texts[data["message_id"]] += data["text"]
    raise AssertionError("the stream ended")


async def begun(client: httpx.AsyncClient, **headers: str) -> str:
    answer = await client.post("/api/conversations", headers=headers)
    assert answer.status_code == 201, answer.text
    chat: str = answer.json()["chat"]
    return chat


async def test_a_link_signs_in_once_and_a_page_of_another_site_can_do_nothing_with_the_session(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        client = running.client
        assert (await client.get("/api/me")).status_code == 401
        link = await link_of(tmp_path)
        code, root = link.rpartition("/")[2], link.removesuffix(link[link.index("/signin") :])
        assert root == str(client.base_url).rstrip("/")
        for _ in range(2):  # looking at a link uses nothing up
            offered = await client.get(f"/signin/{code}")
            assert (offered.status_code, "<form" in offered.text, "<script" in offered.text) == (200, True, False)
        foreign = await client.post("/signin", data={"code": code}, headers={"Origin": "https://evil.example"})
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "foreign_site")
        first = await client.post("/signin", data={"code": code}, headers={"Origin": root})
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert (await client.post("/signin", data={"code": code})).status_code == 410
        assert (await client.get(f"/signin/{code}")).status_code == 410

        me = (await client.get("/api/me")).json()
        assert (me["person"], me["is_admin"], "admin" in me["scopes"]) == ("web:local", True, True)
        assert me["csrf"] == csrf_of(client.cookies[COOKIE])
        mine = {CSRF_HEADER: me["csrf"]}
        for headers, code_told in (
            ({}, "csrf"),
            ({CSRF_HEADER: "0" * 64}, "csrf"),
            ({**mine, "Origin": "https://evil.example"}, "foreign_site"),
            ({**mine, "Origin": "null"}, "foreign_site"),
            ({**mine, "Sec-Fetch-Site": "cross-site"}, "foreign_site"),
        ):
            refused = await client.post("/api/conversations", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, code_told), headers
        assert (await client.post("/api/conversations", headers={**mine, "Origin": root})).status_code == 201
        assert (await client.post("/signout", headers=mine)).status_code == 204
        client.cookies.set(COOKIE, cookie.partition("=")[2].partition(";")[0])
        assert (await client.get("/api/me")).status_code == 401, "the session has ended, not only the cookie"
        assert link.rpartition("/")[2] not in "".join(running.lines)


async def test_every_answer_is_guarded(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        headers = await token_of(tmp_path, "loader")
        for path in ("/healthz", "/api/me", "/nothing"):
            answer = await running.client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        rebound = await running.client.get("/healthz", headers={"Host": "evil.example"})
        assert (rebound.status_code, rebound.json()["error"]["code"]) == (421, "unknown_host")
        large = await running.client.post("/api/conversations", content=b" " * (MOST_BODY + 1), headers=headers)
        assert large.status_code == 413

        async def unmeasured() -> AsyncIterator[bytes]:
            for _ in range(MOST_BODY // 65536 + 1):
                yield b" " * 65536

        chat = await begun(running.client, **headers)
        where = f"/api/conversations/{chat}/messages"
        assert (await running.client.post(where, content=unmeasured(), headers=headers)).status_code == 413
        wrong = await running.client.post(where, json={"text": "secret words", "client_id": 1}, headers=headers)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid")
        assert "secret words" not in wrong.text
        codes = [
            (await running.client.post("/signin", data={"code": "x"})).status_code for _ in range(SIGN_INS_AT_ONCE)
        ]
        assert set(codes) == {410}
        limited = await running.client.post("/signin", data={"code": "x"})
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "10")


async def test_a_token_is_good_for_its_scopes_until_it_is_revoked(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        client = running.client
        reads, talks = await token_of(tmp_path, "reads", "read"), await token_of(tmp_path, "talks")
        assert (await client.get("/api/me", headers=talks)).json() == {
            "person": "api:talks", "scopes": ["read", "runs", "threads"], "is_admin": False, "is_program": True,
            "csrf": "",
        }  # fmt: skip
        assert (await client.get("/api/conversations", headers=reads)).json() == {"conversations": []}
        refused = await client.post("/api/conversations", headers=reads)
        assert refused.json()["error"] == {
            "code": "missing_scope", "message": "this needs the scope threads", "scopes": ["threads"],
        }  # fmt: skip
        assert (await client.get("/api/me", headers={"Authorization": "Bearer ant_x"})).status_code == 401
        key = {"X-Api-Key": talks["Authorization"].removeprefix("Bearer ")}
        assert (await client.get("/api/me", headers=key)).status_code == 200

        assert not (await told(tmp_path, "create", name="talks"))["done"], "the name is taken"
        assert "no such scope" in (await told(tmp_path, "create", name="x", scopes=["all"]))["text"]
        assert "has no access" in (await told(tmp_path, "create", name="x", person="telegram:1"))["text"]
        listed = await told(tmp_path, "list")
        assert {each["name"] for each in listed["data"]} == {"reads", "talks"}
        assert key["X-Api-Key"] not in json.dumps(listed)
        assert key["X-Api-Key"].encode() not in b"".join(
            file.read_bytes() for file in (tmp_path / "data").glob("*.db*")
        )
        assert (await told(tmp_path, "revoke", name="talks"))["done"]
        assert (await client.get("/api/me", headers=talks)).status_code == 401


async def test_what_is_said_over_http_is_answered_there_and_others_know_nothing_of_it(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        client = running.client
        ann, bob = await token_of(tmp_path, "ann"), await token_of(tmp_path, "bob")
        chat = await begun(client, **ann)
        said = {"text": "hello there", "client_id": "one"}
        where = f"/api/conversations/{chat}/messages"
        async with followed(client, chat, **ann) as events:
            assert (await anext(events))["event"] == "snapshot"
            first = await client.post(where, json=said, headers=ann)
            assert (first.status_code, first.json()["repeated"]) == (202, False)
            again = await client.post(where, json=said, headers=ann)
            assert again.json() == {"message_id": first.json()["message_id"], "repeated": True}
            answer, seen = await until_final(events)
        assert answer
        assert [each["data"]["text"] for each in seen if each["event"] == "posted"] == ["hello there"]
        assert [int(each["id"].partition("-")[2]) for each in seen] == sorted(
            {int(each["id"].partition("-")[2]) for each in seen}
        )

        history = (await client.get(where, headers=ann)).json()["messages"]
        assert [(each["author"], each["text"]) for each in history] == [("person", "hello there"), ("bot", answer)]
        (listed,) = (await client.get("/api/conversations", headers=ann)).json()["conversations"]
        assert (listed["chat"], listed["key"]) == (chat, f"api:{chat}")

        async with followed(client, chat, **ann, **{"Last-Event-ID": seen[0]["id"]}) as events:
            missed = [await anext(events) for _ in seen[1:]]
            assert missed == seen[1:], "what was missed, and no snapshot"
        async with followed(client, chat, **ann, **{"Last-Event-ID": "00000000-3"}) as events:
            gap = await anext(events)
            assert (gap["event"], gap["data"]["gap"]) == ("snapshot", True)

        for path in (where, f"/api/conversations/{chat}/events", f"/api/conversations/{chat}/files/b0"):
            assert (await client.get(path, headers=bob)).status_code == 404
        assert (await client.post(where, json=said, headers=bob)).status_code == 404
        assert (await client.get("/api/conversations", headers=bob)).json() == {"conversations": []}


async def test_a_session_and_what_was_said_are_there_after_a_kill(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        mine = await signed_in(running, tmp_path)
        chat = await begun(running.client, **mine)
        posted = await running.client.post(
            f"/api/conversations/{chat}/messages", json={"text": "hello there", "client_id": "one"}, headers=mine
        )
        assert posted.status_code == 202
        cookie = running.client.cookies[COOKIE]
        running.process.kill()
        await running.process.wait()
    async with gateway(tmp_path) as running:
        await running.ready()
        client = running.client
        client.cookies.set(COOKIE, cookie)
        async with followed(client, chat, **{"Last-Event-ID": "00000000-1"}) as events:
            await until_final(events)
        history = (await client.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        assert [each["author"] for each in history] == ["person", "bot"], "one whole answer"
        assert history[1]["final"]


async def test_a_stop_ends_open_streams_and_so_does_a_token_that_is_revoked(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        headers = await token_of(tmp_path, "reader")
        other = await token_of(tmp_path, "other")
        chat, another = await begun(running.client, **headers), await begun(running.client, **other)
        async with followed(running.client, chat, **headers) as events:
            await anext(events)
            async with followed(running.client, another, **other) as revoked, asyncio.timeout(SECONDS):
                await anext(revoked)
                assert (await told(tmp_path, "revoke", name="other"))["done"]
                assert [each async for each in revoked] == []
            running.process.terminate()
            async with asyncio.timeout(SECONDS):
                assert [each async for each in events] == []
        assert await asyncio.wait_for(running.process.wait(), SECONDS) == 0
    log = "".join(running.lines)
    assert "Traceback" not in log
    assert "left behind" not in log


async def test_at_a_terminal_without_a_config_there_is_a_page_and_its_link(tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "run", "--data-dir", str(tmp_path / "data")),
        cwd=tmp_path,
        env=child_environment() | {"TERM": "dumb", "PYTHONPATH": str(REPO_ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while not (line := (await process.stderr.readline()).decode()).startswith("Page: "):
                assert line, "it ended"
            async with httpx.AsyncClient(trust_env=False) as client:
                assert "<form" in (await client.get(line.removeprefix("Page: ").strip())).text
        assert "signin" not in (tmp_path / "data" / "antler.log").read_text()
    finally:
        process.kill()
        await process.wait()
        os.close(mine)


async def test_below_a_path_of_its_own_all_is_the_same(tmp_path: Path) -> None:
    async with gateway(tmp_path, behind_proxy=True, url="https://bots.example/antler") as running:
        await running.ready()
        link = await link_of(tmp_path)
        assert re.fullmatch(r"https://bots\.example/antler/signin/[\w-]{32}", link)
        client = running.client
        client.headers["Host"] = "bots.example"
        code = link.rpartition("/")[2]
        assert 'action="/antler/signin"' in (await client.get(f"/antler/signin/{code}")).text
        origin = {"Origin": "https://bots.example"}
        answer = await client.post("/antler/signin", data={"code": code}, headers=origin)
        assert (answer.status_code, answer.headers["location"]) == (303, "/antler/")
        parts = {part.strip() for part in answer.headers["set-cookie"].split(";")}
        assert {"Secure", "Path=/antler", "HttpOnly"} <= parts
        assert (await client.get("/healthz", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize("channels", ["web: {}", "api: {token: x}", "mine: {type: web}"])
def test_the_names_of_its_own_accounts_are_taken(tmp_path: Path, channels: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"channels:\n  console: {{}}\n  {channels}\n")
    with pytest.raises(ConfigError, match="built-in accounts"):
        load(file, {})


def test_without_a_listener_there_are_no_such_accounts(tmp_path: Path) -> None:
    assert set(load(written(tmp_path, {}), {}).channels) == {"console"}
    assert set(load(written(tmp_path, {"listen": "127.0.0.1:8642"}), {}).channels) == {"console", "web", "api"}
