"""The control socket: one line asks, one line answers, whatever else comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest

from bot.control import server
from bot.control.server import SOCKET, ControlServer, NotRunning, Refused, ask, connection, describe, read_status
from bot.store import StoreUnavailable
from tests.simulators.process import REPO_ROOT, heed_interrupts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FACTS: dict[str, Any] = {
    "version": "1.2.3",
    "uptime": 61.0,
    "healthy": False,
    "running": 1,
    "waiting": 2,
    "connections": [
        {"account": "telegram", "state": "connected", "silence": 3.2, "detail": "", "reconnects": 0},
        {"account": "slack", "state": "retrying", "silence": None, "detail": "no network", "reconnects": 4},
    ],
}


def serving(folder: Path, **more: Any) -> ControlServer:
    async def status() -> dict[str, Any]:
        return FACTS

    return ControlServer(folder, status, **more)


async def exchange(folder: Path, line: bytes) -> Any:
    async with connection(folder) as (reader, writer):
        writer.write(line + b"\n")
        return json.loads(await asyncio.wait_for(reader.readline(), 5) or b"null")


async def test_status_is_told_and_only_the_owner_can_ask(tmp_path: Path) -> None:
    async with serving(tmp_path):
        assert await read_status(tmp_path) == FACTS
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
    assert not (tmp_path / SOCKET).exists()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"v": 99, "op": "status"}', "speaks version 1"),
        (b'{"op": "status"}', "speaks version 1"),
        (b'["v", 1]', "speaks version 1"),
        (b"GET / HTTP/1.1", "speaks version 1"),
        (b"\xff\xfe\x00", "speaks version 1"),
        (b"[" * 100_000, "speaks version 1"),
        (b'{"v": 1, "op": "reboot"}', "unknown operation 'reboot'"),
        (b'{"v": 1}', "unknown operation None"),
        (b'{"v": 1, "op": "console"}', "has no console"),
    ],
)
async def test_what_is_not_understood_is_refused_and_the_next_is_served(
    tmp_path: Path, line: bytes, error: str
) -> None:
    async with serving(tmp_path):
        answer = await exchange(tmp_path, line)
        assert answer["ok"] is False
        assert error in answer["error"]
        assert await read_status(tmp_path) == FACTS


async def test_the_reason_why_the_store_refuses_is_passed_on(tmp_path: Path) -> None:
    async def refuse(_: object) -> None:
        raise StoreUnavailable("the disk is full")

    async with serving(tmp_path, operations={"send": refuse}), connection(tmp_path) as (reader, writer):
        for _ in range(2):  # the connection goes on
            with pytest.raises(Refused, match="the disk is full"):
                await ask(reader, writer, "send")


async def test_an_endless_line_ends_the_connection_only(tmp_path: Path) -> None:
    async with serving(tmp_path):
        async with connection(tmp_path) as (reader, writer):
            with contextlib.suppress(ConnectionError):
                for _ in range(6):
                    writer.write(b"x" * 1_000_000)
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        assert await read_status(tmp_path) == FACTS


async def test_two_clients_at_once_and_two_requests_on_one_connection(tmp_path: Path) -> None:
    async with serving(tmp_path), connection(tmp_path) as (reader, writer), connection(tmp_path) as other:
        assert await ask(reader, writer, "status") == FACTS
        assert await ask(*other, "status") == FACTS
        assert await ask(reader, writer, "status") == FACTS


async def test_a_terminal_takes_the_connection_over(tmp_path: Path) -> None:
    taken: list[str] = []

    async def terminal(session: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(session)
        writer.write(await reader.readline())
        await writer.drain()

    async with serving(tmp_path, terminal=lambda: terminal), connection(tmp_path) as (reader, writer):
        await ask(reader, writer, "console", session="s1")
        writer.write(b"hello\n")
        assert await asyncio.wait_for(reader.readline(), 5) == b"hello\n"
        assert taken == ["s1"]


async def test_closing_ends_open_connections(tmp_path: Path) -> None:
    async def terminal(session: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Future()

    async with contextlib.AsyncExitStack() as stack:
        async with serving(tmp_path, terminal=lambda: terminal):
            reader, writer = await stack.enter_async_context(connection(tmp_path))
            await ask(reader, writer, "console")
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_folder_with_a_path_longer_than_a_sockets(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    async with serving(folder):
        assert await read_status(folder) == FACTS


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left, server._short_path(tmp_path) as path:
        left.bind(path)
    assert (tmp_path / SOCKET).exists()
    with pytest.raises(NotRunning, match="no antler process answers"):
        await read_status(tmp_path)
    async with serving(tmp_path):
        assert await read_status(tmp_path) == FACTS


@pytest.mark.parametrize("place", ["", "missing"])
async def test_without_a_process_it_says_so(tmp_path: Path, place: str) -> None:
    with pytest.raises(NotRunning, match="no antler process answers"):
        await read_status(tmp_path / place)


@contextlib.asynccontextmanager
async def answering(folder: Path, line: bytes) -> AsyncIterator[None]:
    """A process that is not one of ours."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(line)
        writer.close()

    with server._short_path(folder) as path:
        listening = await asyncio.start_unix_server(answer, path)
    async with listening:
        yield


@pytest.mark.parametrize(
    "line", [b"", b"garbage\n", b"[1]\n", b"{}\n", b'{"ok": true}\n', b'{"ok": true, "data": 1}\n']
)
async def test_an_answer_of_another_kind_is_no_status(tmp_path: Path, line: bytes) -> None:
    async with answering(tmp_path, line):
        with pytest.raises(NotRunning):
            await read_status(tmp_path)


def test_the_status_reads_well() -> None:
    assert describe(FACTS).splitlines() == [
        "antler 1.2.3, up 0:01:01, 1 running, 2 waiting",
        "  telegram: connected, last sign of life 3 s ago",
        "  slack: retrying, no sign of life yet (no network)",
    ]


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_watching_goes_on_until_it_is_interrupted_also_while_nothing_answers(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "status", "--watch", "--data-dir", str(tmp_path), *options),
        cwd=REPO_ROOT,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout is not None
    async with asyncio.timeout(40):
        assert "no antler process answers" in (await process.stdout.readline()).decode()
        async with serving(tmp_path):
            while "1.2.3" not in (line := (await process.stdout.readline()).decode()):
                assert "no antler process answers" in line
            if options:
                assert FACTS.items() <= json.loads(line).items()
            else:
                assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}  antler 1\.2\.3, up ", line)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
