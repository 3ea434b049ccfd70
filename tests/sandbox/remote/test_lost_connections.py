"""Connections that end in the middle: the command does too, the agent is told what is known, nothing is done twice."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import uuid
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from sandbox.base import WORKSPACE, FileInfo, FileText, SandboxError, sandbox_id
from sandbox.remote import wire
from sandbox.remote.http import Http
from sandbox.remote.sandbox import RemoteSandbox
from tests.sandbox.modes import Mode
from tests.sandbox.processes import marked
from tests.sandbox.remote.served import SECONDS, Line, client_of, client_settings, raw, served

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.remote.server.__main__ import Service


class Heard:
    """An `on_output` that can be waited for."""

    def __init__(self) -> None:
        self.text = ""
        self.any = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self.text += piece
        self.any.set()


async def nothing_runs(service: Service, thread: str = "t") -> None:
    """The server's own word for it, asked until it says so."""
    async with raw(service) as http, asyncio.timeout(SECONDS):
        while (await http.get(f"/v1/sandboxes/{sandbox_id(thread)}")).json()["commands"]:
            pass


@pytest.mark.parametrize("for_good", [False, True])
async def test_a_connection_that_is_cut_ends_the_command(tmp_path: Path, for_good: bool) -> None:
    async with served(tmp_path) as service, Line(service.address) as line, client_of(line.address) as provider:
        sandbox = await provider.acquire("t")
        heard = Heard()
        running = asyncio.create_task(sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=heard))
        await heard.any.wait()
        line.cut(for_good=for_good)
        with pytest.raises(SandboxError) as failure:
            await running
        assert "connection" in str(failure.value)
        assert "its last output: begun" in str(failure.value)
        assert ("it was killed" in str(failure.value)) is not for_good
        await nothing_runs(service)


async def test_of_a_real_command_no_process_is_left(open_folder: Path) -> None:
    Mode("bubblewrap", as_root=os.geteuid() == 0).require()
    mark = f"600.{uuid.uuid4().int % 10**9}"
    async with (
        served(open_folder / "data", sandbox={"use": "bubblewrap"}, instance=f"cut-{os.getpid()}") as service,
        Line(service.address) as line,
        client_of(line.address) as provider,
    ):
        sandbox = await provider.acquire("t")
        heard = Heard()
        # It is the daemon that tells, and it keeps the mark among its arguments when it becomes another program.
        command = f"(setsid bash -c 'echo begun; exec sleep {mark}' {mark} &) ; sleep 600"
        running = asyncio.create_task(sandbox.execute_command(command, timeout=900, on_output=heard))
        await heard.any.wait()
        assert marked(mark)
        line.cut(for_good=True)
        with pytest.raises(SandboxError):
            await running
        await nothing_runs(service)
        assert marked(mark) == []


async def test_a_server_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    limits = {"alive_seconds": 0.1}
    async with (
        served(tmp_path, limits=limits) as service,
        Line(service.address) as line,
        client_of(line.address, answer_seconds=1) as provider,
    ):
        sandbox = await provider.acquire("t")
        heard = Heard()
        running = asyncio.create_task(sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=heard))
        await heard.any.wait()
        line.deafen()
        with pytest.raises(SandboxError, match="does not answer"):
            await running
        line.cut(for_good=True)
        await nothing_runs(service)


async def test_a_silent_command_is_not_taken_for_a_silent_server(tmp_path: Path) -> None:
    async with (
        served(tmp_path, limits={"alive_seconds": 0.1}) as service,
        client_of(service.address, answer_seconds=3) as provider,
    ):
        result = await (await provider.acquire("t")).execute_command("sleep 4", timeout=SECONDS)
        assert result.exit_code == 0


async def test_a_client_that_reads_nothing_is_given_up(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"stalled_seconds": 0.3, "alive_seconds": 0.1}) as service, raw(service) as http:
        path = f"/v1/sandboxes/{sandbox_id('t')}"
        await http.put(path)
        body = {"command": "seq 1 1000000000", "timeout": 900}
        async with http.stream("POST", f"{path}/commands/{uuid.uuid4().hex}", json=body):
            await nothing_runs(service)


async def test_a_caller_who_is_cancelled_waits_for_the_end_of_the_command(tmp_path: Path) -> None:
    async with served(tmp_path) as service, client_of(service.address) as provider:
        sandbox = await provider.acquire("t")
        heard = Heard()
        running = asyncio.create_task(sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=heard))
        await heard.any.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with raw(service) as http:
            assert (await http.get(f"/v1/sandboxes/{sandbox.id}")).json()["commands"] == []


async def test_a_server_that_stops_tells_that_it_ended_the_command(tmp_path: Path) -> None:
    async with served(tmp_path) as service, client_of(service.address) as provider:
        heard = Heard()
        sandbox = await provider.acquire("t")
        running = asyncio.create_task(sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=heard))
        await heard.any.wait()
        await service.stop()
        with pytest.raises(SandboxError, match="ended"):
            await running


async def test_after_a_restart_of_the_server_the_work_goes_on(tmp_path: Path) -> None:
    async with (
        served(tmp_path, sandbox={"use": "host"}) as first,
        Line(first.address) as line,
        client_of(line.address) as provider,
    ):
        sandbox = await provider.acquire("t")
        assert isinstance(await sandbox.write_file("kept", "text"), FileInfo)
        await first.stop()
        async with served(tmp_path, sandbox={"use": "host"}) as second:
            line.lead_to(second.address)
            assert isinstance(await sandbox.read_file("kept"), FileText)
            assert isinstance(await sandbox.write_file("new", "text"), FileInfo)


ENDLESS = {
    "read": b" " * (1 << 20),
    "fetch": wire.dumped({"data": base64.b64encode(b"x" * (1 << 19)).decode()}) + b"\n",
}


class Flaky:
    """A server that drops connections, or is overloaded, before it answers. seen: the paths that were asked for."""

    def __init__(self, faults: list[int]) -> None:
        self.seen: list[str] = []
        self.faults = faults

    async def handle(self, request: web.Request) -> web.Response:
        await request.read()
        self.seen.append(request.path.rpartition("/")[2])
        fault = self.faults.pop(0) if self.faults else 200
        if fault == 0:
            assert request.transport is not None
            request.transport.abort()
        if fault >= 400:
            return web.Response(status=fault, text="<html>a proxy's own words</html>")
        info = {"path": f"{WORKSPACE}/a", "size": 1, "version": "1"}
        value = {"info": info, "text": "x", "first_line": 1, "last_line": 1, "total_lines": 1}
        answer = {"result": info if request.path.endswith("write") else value}
        return web.Response(body=wire.dumped(answer), content_type="application/json")


@pytest.mark.parametrize("fault", [0, 502, 503])
async def test_what_changes_nothing_is_asked_again_and_nothing_else(fault: int) -> None:
    flaky = Flaky([fault, fault])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", flaky.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    http = Http(client_settings(url).remote, url)
    sandbox = RemoteSandbox(sandbox_id("t"), http)
    try:
        assert isinstance(await sandbox.read_file("a"), FileText)
        assert flaky.seen == ["read"] * 3
        flaky.seen.clear()
        flaky.faults.append(fault)
        with pytest.raises(SandboxError):
            await sandbox.write_file("a", "x")
        assert flaky.seen == ["write"]
    finally:
        await http.close()
        await runner.cleanup()


async def test_a_server_that_sends_without_end_is_given_up() -> None:
    finished: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse()
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                await answer.write(ENDLESS[request.path.rpartition("/")[2]])
            finished.append(request.path)
        return answer

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    http = Http(client_settings(url).remote, url)
    sandbox = RemoteSandbox(sandbox_id("t"), http)
    taken: list[bytes] = []

    async def take(data: bytes) -> None:
        taken.append(data)

    try:
        with pytest.raises(SandboxError, match="invalid"):
            await sandbox.read_file("a")
        with pytest.raises(SandboxError, match="invalid"):
            await sandbox.fetch("a", take, max_bytes=1 << 20)
        assert sum(map(len, taken)) <= 1 << 20
        assert finished == []
    finally:
        await http.close()
        await runner.cleanup()


async def test_a_server_that_is_not_there() -> None:
    http = Http(client_settings("http://127.0.0.1:1").remote, "http://127.0.0.1:1")
    with pytest.raises(SandboxError, match="cannot be reached") as failure:
        await http.call("GET", "", again=True)
    assert "sandbox.remote.url" in failure.value.hint
    await http.close()
