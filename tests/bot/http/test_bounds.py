"""What one person or token may hold, fill and go on with: streams end and count, and no request grows without bound."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from fastapi import APIRouter

from bot.files.uploads import UploadLimits
from bot.http.api import threads
from bot.http.api.runs import MOST_BEFORE
from bot.http.auth import Gatekeeper
from bot.http.listener import listening
from bot.http.parts import routers
from bot.http.server import HttpServer, make_app
from bot.process.http import HttpService, http_parts
from bot.settings.http import HttpSettings
from bot.store.identity import chat_of
from harness.context import ThreadView
from harness.errors import ThreadTooLarge
from harness.guardrails.approvals import ADMINS
from tests.bot.core import BOB
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks

if TYPE_CHECKING:
    import pytest

SECONDS = 60.0
AGENT, GRAPH = "default", "/api/langgraph"


async def write(client: httpx.AsyncClient, chat: str, text: str) -> httpx.Response:
    return await client.post(f"/api/conversations/{chat}/messages", json={"text": text, "client_id": text})


def held(world: ServedCore) -> asyncio.Event:
    """The agent works on "hold" until this is set."""
    return world.harness.hold("hold")


def asked(text: str) -> dict[str, Any]:
    return {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": text}]}}


async def test_the_events_of_a_page_end_with_its_session_and_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as world:
        monkeypatch.setattr("bot.http.auth.MOST_STREAMS", 1)
        first, other = await world.browser(PERSON), await world.browser(PERSON)
        chat = chat_of(PERSON, "one")
        async with asyncio.timeout(SECONDS), first.stream("GET", f"/c/{chat}/events") as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            assert (await other.get("/api/me")).status_code == 200
            second = await first.get(f"/c/{chat}/events")
            assert (second.status_code, second.json()["error"]["code"]) == (429, "too_many_streams")
            assert (await first.post("/signout")).status_code in (200, 204, 303)
            assert (await write(other, chat, "secret")).status_code == 202
            assert "secret" not in "".join([line async for line in lines])


async def test_the_events_of_a_page_end_with_the_listener(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        browser = await world.browser(PERSON)
        async with asyncio.timeout(SECONDS), browser.stream("GET", f"/c/{chat_of(PERSON, 'x')}/events") as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            world.served.gatekeeper.closing.set()
            assert [line async for line in lines]  # until its end, which would not come by itself


async def test_who_waits_for_a_run_counts_and_is_told_nothing_after_a_revocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as world:
        monkeypatch.setattr("bot.http.auth.MOST_STREAMS", 1)
        gate = held(world)
        program, name = await world.program(PERSON), f"{PERSON} ".replace(":", " ").strip()
        async with (
            asyncio.timeout(SECONDS),
            program.stream("POST", f"{GRAPH}/runs/wait", json=asked("hold")) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            pieces = answer.aiter_text()
            assert await anext(pieces) == "\n"
            more = await program.post(f"{GRAPH}/runs/wait", json=asked("hold"))
            assert (more.status_code, more.json()["error"]["code"]) == (429, "too_many_streams")
            assert await world.parts.signins.revoke(name)
            gate.set()
            told = "".join([piece async for piece in pieces])
        assert "__error__" in told
        assert "The whole answer" not in told
        assert BOB not in told


async def test_what_only_administrators_allow_needs_the_scope_operate_too(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        asks(world, "letter", coverage=f"{ADMINS}:")
        narrow, wide = await world.program(ADMIN, "read", "threads", "runs"), await world.program(ADMIN)
        thread = (await narrow.post(f"{GRAPH}/threads", json={})).json()["thread_id"]
        waits = (await narrow.post(f"{GRAPH}/threads/{thread}/runs/wait", json=asked("letter"))).json()
        assert len(waits["__interrupt__"]) == 1, waits
        allow = {"assistant_id": AGENT, "command": {"resume": "once"}}
        refused = await narrow.post(f"{GRAPH}/threads/{thread}/runs/wait", json=allow)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admins_only")
        spoken = {"model": AGENT, "thread_id": thread, "messages": [{"role": "user", "content": "yes"}]}
        answer = await narrow.post("/v1/chat/completions", json=spoken)
        assert answer.status_code == 403, answer.text
        state = (await narrow.get(f"{GRAPH}/threads/{thread}")).json()
        assert state["status"] == "interrupted"
        done = await wide.post(f"{GRAPH}/threads/{thread}/runs/wait", json=allow)
        assert done.status_code == 200, done.text
        assert "__interrupt__" not in done.json()


def tidying() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if "api threads" in task.get_name()]


async def test_what_a_listener_does_by_itself_ends_with_it(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        settings = world.parts.settings.http
        for _ in range(3):
            (task,) = tidying()
            await world.server.close()
            await asyncio.wait_for(asyncio.wait({task}), SECONDS)
            gatekeeper = Gatekeeper(world.parts.signins, settings, world.clock)
            world.served = http_parts(world.parts, gatekeeper, lambda: True)
            world.server = HttpServer(settings, listening(settings), routers(world.served), gatekeeper, 30_000_000)
            world.server.start()
            gatekeeper.begin(world.tasks)
        assert (await (await world.program(PERSON)).get("/api/me")).status_code == 200


async def test_uploads_of_a_day_have_an_end_whether_they_are_used_or_not(tmp_path: Path) -> None:
    limits = UploadLimits(file=1000, thread=3000, message=3000, person=2500)
    async with served(tmp_path, upload_limits=limits) as world:
        person, other = await world.program(PERSON), await world.program(ADMIN)

        async def upload(client: httpx.AsyncClient, size: int) -> tuple[int, str]:
            answer = await client.post("/api/uploads", params={"name": "a.txt"}, content=b"x" * size)
            return answer.status_code, answer.json().get("error", {}).get("code", "")

        assert await upload(person, 1001) == (413, "too_large")  # and does not count
        assert [await upload(person, 1000) for _ in range(3)] == [(201, ""), (201, ""), (429, "upload_quota")]
        assert await upload(await world.browser(PERSON), 1000) == (429, "upload_quota")
        assert await upload(person, 500) == (201, "")
        assert await upload(other, 1000) == (201, "")
        kept = [path for path in world.folder.rglob("*.txt") if path.is_file()]
        assert sum(path.stat().st_size for path in kept) == 3500
        await world.clock.advance(25 * 3600)
        assert await upload(person, 1000) == (201, "")


async def test_metadata_and_a_history_that_a_program_brings_have_an_end(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        program, much = await world.program(PERSON), {"note": "x" * 20_000}
        said = [{"role": "user", "content": "hello"}]
        chat = {"model": AGENT, "messages": said}
        for path, body in (
            ("/v1/chat/completions", chat | {"metadata": much}),
            ("/v1/responses", {"model": AGENT, "input": "hello", "metadata": much}),
            (f"{GRAPH}/runs/wait", asked("hello") | {"metadata": much}),
        ):
            answer = await program.post(path, json=body)
            assert answer.status_code == 422, answer.text
            assert "metadata" in answer.text
        thread = f"{GRAPH}/threads/{(await program.post(f'{GRAPH}/threads', json={})).json()['thread_id']}"
        for name, status in (("a", 200), ("b", 422), ("a", 200)):
            answer = await program.patch(thread, json={"metadata": {name: "x" * 10_000}})
            assert answer.status_code == status, "what was set earlier counts too"
        assert list((await program.get(thread)).json()["metadata"]) == ["a"]
        half = {"role": "assistant", "content": "x" * (MOST_BEFORE // 2)}
        long = [half, half, {"role": "user", "content": "more"}, *said]
        for path, body in (
            ("/v1/chat/completions", {"model": AGENT, "messages": long}),
            ("/v1/responses", {"model": AGENT, "input": long}),
            (f"{GRAPH}/runs/wait", {"assistant_id": AGENT, "input": {"messages": long}}),
        ):
            answer = await program.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_long"), answer.text
        answer = await program.post("/v1/chat/completions", json={"model": AGENT, "messages": [half, *said]})
        assert answer.status_code == 200, answer.text


async def test_long_lists_of_a_search_are_not_searched_for_each_thread(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        program = await world.program(PERSON)
        for _ in range(180):
            assert (await program.post(f"{GRAPH}/threads", json={})).status_code == 200
        many = ["x"] * 900_000
        begun = time.process_time()
        answer = await program.post(f"{GRAPH}/threads/search", json={"ids": many})
        assert (answer.status_code, answer.json()) == (200, [])
        assert time.process_time() - begun < 0.5
        answer = await program.post(f"{GRAPH}/threads/search", json={"select": many})
        assert (answer.status_code, answer.json()["error"]["details"][0]["place"]) == (422, "body.select")


async def test_what_a_run_does_not_take_is_named_in_plain_words(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        program = await world.program(PERSON)
        body = {"assistant_id": "default", "input": {"messages": []}, "webhook": "http://example.org"}
        error = (await program.post(f"{GRAPH}/runs", json=body)).json()["error"]
        assert (error["code"], error["message"]) == ("invalid", "webhook: is not supported here")


async def test_a_program_is_shut_out_by_the_end_of_its_token_and_that_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        _, secret = await world.parts.signins.make_token("ci", ("read",))
        program, admin = world.client(Authorization=f"Bearer {secret}"), await world.program(ADMIN)
        assert (await program.get("/api/me")).json()["person"] == "api:ci"
        for subject, named in (
            ("api:ci", "antler token revoke"),
            ("web:local", "antler web"),
            ("web:x", "not a person"),
        ):
            for answer in (
                await admin.delete(f"/api/access/{subject}"),
                await admin.post("/api/access", json={"subject": subject}),
            ):
                assert 400 <= answer.status_code < 500, answer.text
                assert named in answer.json()["error"]["message"]
        assert world.editor.book.rows() == []
        assert (await program.get("/api/me")).status_code == 200
        assert await world.parts.signins.revoke("ci")
        assert (await program.get("/api/me")).status_code == 401


async def test_the_body_of_an_answer_does_not_wait_until_its_head_has_arrived(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        assert (await world.client().get("/healthz")).status_code == 200
        (connection,) = world.server._server.server_state.connections
        asked = connection.transport.get_extra_info("socket")
        assert asked.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_changes_and_copies_of_threads_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WRITES_AT_ONCE", 2)
    monkeypatch.setattr(threads, "COPIES_AT_ONCE", 1)

    async def too_large(*_: object, **__: object) -> None:
        raise ThreadTooLarge("a thread holds at most 2 messages")

    async with served(tmp_path) as world:
        program, other = await world.program(PERSON), await world.program(ADMIN)
        thread = f"{GRAPH}/threads/{(await program.post(f'{GRAPH}/threads', json={})).json()['thread_id']}"
        body = {"values": {"messages": [{"role": "user", "content": "Noted."}]}}

        async def told(answer: httpx.Response) -> tuple[int, str]:
            return answer.status_code, answer.json()["error"]["code"]

        assert (await program.post(f"{thread}/state", json=body)).status_code == 200
        with monkeypatch.context() as full:
            full.setattr(world.harness, "change", too_large)
            assert await told(await program.post(f"{thread}/state", json=body)) == (413, "too_long")
        refused = await program.post(f"{thread}/state", json=body)
        assert await told(refused) == (429, "too_many_requests")
        assert refused.headers["retry-after"] == "10"
        assert (await program.post(f"{thread}/copy")).status_code == 200
        assert await told(await program.post(f"{thread}/copy")) == (429, "too_many_requests")
        others = f"{GRAPH}/threads/{(await other.post(f'{GRAPH}/threads', json={})).json()['thread_id']}"
        assert (await other.post(f"{others}/copy")).status_code == 200, "each person has their own"
        await world.clock.advance(10)
        assert (await program.post(f"{thread}/state", json=body)).status_code == 200


async def test_an_answer_holds_only_so_much_of_long_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_TOLD", 2_500)
    state = [{"type": "human", "id": "m", "content": "x" * 1_000}]

    async def views(thread_id: str, *, before: str | None = None, limit: int = 1, **_: object) -> list[ThreadView]:
        begins = 0 if before is None else int(before)
        common: Any = {"parent_id": None, "created_at": "", "run_id": "", "step": 0, "open": False, "messages": state}
        places = range(begins + 1, min(begins + limit, 30) + 1)
        return [ThreadView(checkpoint_id=str(place), todos=(), **common) for place in places]

    async with served(tmp_path) as world:
        monkeypatch.setattr(world.harness, "views", views)
        program = await world.program(PERSON)
        made = [(await program.post(f"{GRAPH}/threads", json={})).json()["thread_id"] for _ in range(3)]
        for path in (f"threads/{made[0]}/history", "threads/search"):
            for limit, status in ((2, 200), (3, 413)):
                answer = await program.post(f"{GRAPH}/{path}", json={"limit": limit})
                assert answer.status_code == status, path
        state[0]["content"] = ""
        answer = await program.post(f"{GRAPH}/threads/{made[0]}/history", json={"limit": 25, "before": "1"})
        assert [each["checkpoint"]["checkpoint_id"] for each in answer.json()] == [str(n) for n in range(2, 27)]


async def test_a_reload_before_and_after_the_opening_gives_the_listener_its_new_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as world:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        settings = world.parts.settings.http.model_copy(update={"listen": address})
        world.parts.settings.__dict__["http"] = settings
        service = HttpService(world.parts, lambda: True)
        try:
            service.take(settings)
            assert await service.replace(settings) == "", "the address is this process's own"
            async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client:
                assert (await client.get("/healthz")).status_code == 200
            with monkeypatch.context() as patch:
                # A library that fails in the middle, once: nothing else makes it do so.
                whole = HttpService._made
                fails = iter((True, False))
                patch.setattr(HttpService, "_made", lambda *given: 1 / 0 if next(fails) else whole(*given))
                assert "ZeroDivisionError" in await service.replace(settings)
            async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client:
                assert (await client.get("/healthz")).status_code == 200, "as before"
        finally:
            await service.close()


async def test_a_full_disk_is_told_and_another_fault_of_it_is_a_fault() -> None:
    router = APIRouter()

    @router.get("/{number}")
    def write_it(number: int) -> None:
        with Path("/dev/full").open("wb", buffering=0) as file:
            if number:
                raise OSError(number, "the disk reported an error")
            file.write(b"x")

    settings = HttpSettings.model_validate({"listen": "127.0.0.1:8642"})
    transport = httpx.ASGITransport(make_app(settings, [router]), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        full, broken = await client.get("/0"), await client.get(f"/{errno.EIO}")
    assert (full.status_code, full.json()["error"]["code"], broken.status_code) == (507, "no_room", 500)
