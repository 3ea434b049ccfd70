"""The reference server as other clients meet it: who may ask, what is refused, and its life."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import FileInfo, FileText, Problem, ProblemCode, SandboxError, SandboxUnavailable, sandbox_id
from sandbox.config import SandboxSettings
from sandbox.providers import SharedProvider
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.config import WrongSettings, load
from tests.sandbox.processes import marked
from tests.sandbox.remote.served import (
    SECONDS,
    TOKEN,
    client_of,
    client_settings,
    raw,
    served,
    server_process,
    server_settings,
)
from tests.simulators.sandbox.provider import USE as MEMORY

if TYPE_CHECKING:
    import httpx

USE = "bubblewrap" if Path("/usr/bin/bwrap").exists() else MEMORY
ONE = f"/v1/sandboxes/{sandbox_id('one')}"
TWO = f"/v1/sandboxes/{sandbox_id('two')}"
THREE = f"/v1/sandboxes/{sandbox_id('three')}"
SLEEP = {"command": "echo begun; sleep 600", "timeout": 900}


def command() -> str:
    return f"/commands/{uuid.uuid4().hex}"


def files_below(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("path", ["/v1", "/v1/sandboxes", ONE, "/", "/no/such/route"])
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN])
async def test_without_the_token_nothing_is_told(tmp_path: Path, path: str, header: str) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        for method in ("GET", "PUT", "POST", "DELETE"):
            answer = await http.request(method, path, headers={"Authorization": header})
            assert code(answer) == (401, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": []}


async def test_a_client_with_another_token_is_told_what_to_correct(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        provider = RemoteProvider(client_settings(f"http://{service.address}", token="another-token-than-that"))
        with pytest.raises(SandboxUnavailable) as failure:
            await provider.start()
        assert failure.value.hint == "correct sandbox.remote.token"


async def test_sandboxes_are_made_once_found_and_destroyed(tmp_path: Path) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        assert code(await http.get(ONE)) == (404, "no_such_sandbox")
        answers = await asyncio.gather(*(http.put(ONE) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200] * 4 + [201]
        assert (await http.get(ONE)).json() == {"id": sandbox_id("one"), "commands": []}
        assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": [sandbox_id("one")]}
        write = {"path": "a", "content": "QQ=="}
        assert (await http.post(ONE + "/files/write", json=write)).json()["result"]["size"] == 1
        for _ in range(2):
            assert (await http.post(ONE + "/release")).status_code == 204
        assert code(await http.post(ONE + "/files/read", json={"path": "a"})) == (404, "no_such_sandbox")
        await http.put(ONE)
        assert (await http.post(ONE + "/files/read", json={"path": "a"})).json()["result"]["text"] == "A"
        for _ in range(2):
            assert (await http.delete(ONE)).status_code == 204
        await http.put(ONE)
        gone = (await http.post(ONE + "/files/read", json={"path": "a"})).json()
        assert gone["problem"]["code"] == "not_found"


@pytest.mark.parametrize("use", ["host", MEMORY])
async def test_what_is_destroyed_leaves_no_file_on_the_server(tmp_path: Path, use: str) -> None:
    async with served(tmp_path, sandbox={"use": use}) as service, client_of(service.address) as provider:
        sandbox = await provider.acquire("t")
        await sandbox.write_file("a", "text")
        await provider.forget("t")
        assert files_below(tmp_path) == []
        answer = await (await provider.acquire("t")).read_file("a")
        assert isinstance(answer, Problem)


@pytest.mark.parametrize("use", ["host", MEMORY])
async def test_what_it_keeps_is_told_and_nothing_is_made_for_it(tmp_path: Path, use: str) -> None:
    kept = f"/v1/kept/{sandbox_id('one')}"
    async with served(tmp_path, sandbox={"use": use}) as service, raw(service) as http:
        assert (await http.get(kept)).json() == {"kept": False}
        assert (await http.get("/v1/kept")).json() == {"sandboxes": []}
        assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": []}
        for each in (ONE, TWO):
            await http.put(each)
        assert (await http.get(kept)).json() == {"kept": True}
        assert (await http.get("/v1/kept")).json() == {"sandboxes": sorted([sandbox_id("one"), sandbox_id("two")])}
        await http.delete(ONE)
        assert (await http.get(kept)).json() == {"kept": False}
        assert (await http.get("/v1/kept")).json() == {"sandboxes": [sandbox_id("two")]}
    if use == "host":
        async with served(tmp_path, sandbox={"use": use}) as service, raw(service) as http:
            assert (await http.get("/v1/kept")).json() == {"sandboxes": [sandbox_id("two")]}
            assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": []}


async def test_an_id_of_a_command_is_used_once(tmp_path: Path) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        await http.put(ONE)
        path = ONE + command()
        body = {"command": "echo hello", "timeout": 5}
        *told, last = [json.loads(line) for line in (await http.post(path, json=body)).text.splitlines()]
        assert "".join(event.get("output", "") for event in told) == "hello\n"
        assert (last["result"]["ending"], last["result"]["exit_code"]) == ("exited", 0)
        assert code(await http.post(path, json=body)) == (409, "used")
        never = ONE + command()
        for _ in range(2):
            assert (await http.delete(never)).status_code == 204
        assert code(await http.post(never, json=body)) == (409, "used")


async def test_a_cancelled_command_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        await http.put(ONE)
        path = ONE + command()
        async with http.stream("POST", path, json=SLEEP) as answer:
            lines = answer.aiter_lines()
            assert json.loads(await anext(lines)) == {"output": "begun\n"}
            assert (await http.delete(path)).status_code == 204
            assert (await http.get(ONE)).json()["commands"] == []
            rest = [json.loads(line) async for line in lines]
        assert rest[-1]["error"]["code"] == "cancelled"


async def test_a_sandbox_runs_so_many_commands_at_a_time(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"commands": 1}) as service, raw(service) as http:
        await http.put(ONE)
        await http.put(TWO)
        async with http.stream("POST", ONE + command(), json=SLEEP) as answer:
            await anext(answer.aiter_lines())
            assert code(await http.post(ONE + command(), json=SLEEP)) == (429, "busy")
            other = await http.post(TWO + command(), json={"command": "true", "timeout": 5})
            assert other.status_code == 200


async def test_the_longest_unused_sandbox_gives_way_and_comes_back(tmp_path: Path) -> None:
    async with (
        served(tmp_path, limits={"sandboxes": 2}) as service,
        client_of(service.address) as provider,
        raw(service) as http,
    ):
        sandbox = await provider.acquire("one")
        await sandbox.write_file("a", "text")
        await http.put(TWO)
        await http.put(THREE)
        assert sandbox.id not in (await http.get("/v1/sandboxes")).json()["sandboxes"]
        assert isinstance(await sandbox.read_file("a"), FileText)
        assert (await sandbox.execute_command("cat a", timeout=SECONDS)).output == "text"


async def test_what_is_in_use_gives_way_to_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"sandboxes": 1}) as service, raw(service) as http:
        await http.put(ONE)
        path = ONE + command()
        async with http.stream("POST", path, json=SLEEP) as answer:
            await anext(answer.aiter_lines())
            assert code(await http.put(TWO)) == (429, "busy")
        assert (await http.delete(path)).status_code == 204
        assert (await http.post(ONE + "/release")).status_code == 204
        assert (await http.put(TWO)).status_code == 201


async def test_a_request_that_is_too_large_is_a_file_that_is_too_large(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"request_mb": 1}) as service, client_of(service.address) as provider:
        sandbox = await provider.acquire("t")
        answer = await sandbox.write_file("a", b"x" * 2_000_000)
        assert isinstance(answer, Problem)
        assert answer.code is ProblemCode.TOO_LARGE
        assert isinstance(await sandbox.write_file("a", b"x" * 100_000), FileInfo)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b"\xff",
        b"null",
        b'{"path": 1}',
        b'{"path": "a", "unknown": 1}',
        b'{"path": "a", "first_line": "secret"}',
    ],
)
async def test_what_cannot_be_understood(tmp_path: Path, body: bytes) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        await http.put(ONE)
        answer = await http.post(ONE + "/files/read", content=body)
        assert code(answer) == (400, "bad_request")
        assert "secret" not in answer.text
        for path in ("/v1/sandboxes/UPPER", ONE + "/commands/1", ONE + "/files/remove"):
            assert code(await http.post(path, content=body)) == (404, "not_found")


@pytest.mark.parametrize("content", ["!", "QQ", "Q Q=="])
async def test_content_that_is_no_base64(tmp_path: Path, content: str) -> None:
    async with served(tmp_path) as service, raw(service) as http:
        await http.put(ONE)
        answer = await http.post(ONE + "/files/write", json={"path": "a", "content": content})
        assert code(answer) == (400, "bad_request")


@pytest.mark.parametrize("wrong", [{"mounts": [{"path": "/mnt/docs", "host": "/srv"}]}, {"environment": {"A": "b"}}])
def test_settings_that_are_the_servers_are_refused(wrong: dict[str, Any]) -> None:
    remote = {"url": "http://127.0.0.1:1", "token": TOKEN}
    settings = SandboxSettings.model_validate({"use": "remote", "remote": remote, **wrong})
    with pytest.raises(SandboxUnavailable, match="no effect here"):
        RemoteProvider(settings)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "token"),
        ("token: short\ndata_dir: d\n", "token"),
        ("token: [a-secret-in-a-list]\ndata_dir: d\n", "token"),
        (f"token: {TOKEN}\n", "data_dir"),
        (f"token: {TOKEN}\ndata_dir: d\nsandbox: {{use: remote}}\n", "remote"),
        (f"token: {TOKEN}\ndata_dir: d\nunknown: 1\n", "unknown"),
        ("a: [\n", "line 2"),
    ],
)
def test_wrong_settings_are_named_without_their_values(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(text)
    with pytest.raises(WrongSettings) as failure:
        load(file)
    assert named in str(failure.value)
    assert not re.search("secret|short", str(failure.value))


def test_others_could_read_along_only_without_tls_and_off_this_machine(tmp_path: Path) -> None:
    assert not server_settings(tmp_path).sends_in_the_clear
    assert server_settings(tmp_path, listen={"host": "0.0.0.0"}).sends_in_the_clear
    assert not server_settings(
        tmp_path, listen={"host": "0.0.0.0"}, tls={"certificate": "a", "key": "b"}
    ).sends_in_the_clear


async def test_its_process_serves_and_stops_cleanly(open_folder: Path) -> None:
    mark = f"600.{uuid.uuid4().int % 10**9}"
    async with server_process(open_folder, instance="process", sandbox={"use": USE}) as server:
        async with client_of(server.address) as provider:
            sandbox = await provider.acquire("t")
            begun = asyncio.Event()
            running = asyncio.create_task(
                sandbox.execute_command(f"echo begun; sleep {mark}", timeout=900, on_output=lambda _: begun.set())
            )
            await asyncio.wait_for(begun.wait(), SECONDS)
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(SandboxError, match="ended"):
                await running
        assert await asyncio.wait_for(server.process.wait(), SECONDS) == 0
        assert marked(mark) == []
    assert TOKEN.encode() not in server.log


async def test_who_gives_a_sandbox_back_leaves_what_another_process_runs_in_it(tmp_path: Path) -> None:
    """A gateway converts what a person sends while a worker's command runs in the same thread."""
    async with (
        served(tmp_path, sandbox={"use": USE}) as service,
        client_of(service.address) as worker,
        client_of(service.address) as gateway,
    ):
        begun = asyncio.Event()
        sandbox = await worker.acquire("t")
        command = asyncio.create_task(
            sandbox.execute_command("echo begun; sleep 1; echo over", timeout=SECONDS, on_output=lambda _: begun.set())
        )
        await begun.wait()
        async with SharedProvider(gateway).borrow("t") as borrowed:
            await borrowed.write_file("uploads", "text")
        assert (await command).output == "begun\nover\n"
        async with raw(service) as http:
            assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": [sandbox.id]}
            await worker.release("t")
            assert (await http.get("/v1/sandboxes")).json() == {"sandboxes": []}
