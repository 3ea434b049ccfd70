"""The control socket: how `antler status`, `reload`, `console`, `pair` and `access` talk to the running process.

A Unix socket in the data folder (0600), one JSON object per line, versioned. A request is {"v": 1, "op": "..."}; the
answer is {"ok": true, "data": ...} or {"ok": false, "error": "..."}; "console" turns the connection into a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from bot.settings import Settings

log = logging.getLogger(__name__)

VERSION = 1
SOCKET = "control.sock"
ANSWER_SECONDS = 5.0
RELOAD_SECONDS = 60.0
WATCH_SECONDS = 2.0
"""Seconds between two updates of `antler status --watch`."""
CLEAR = "\x1b[H\x1b[2J"
"""The escape sequence that clears a terminal."""
GIGABYTE = 1_000_000_000
_LONGEST_LINE = 4 * 1024 * 1024


NO_CONSOLE = "the running gateway has no console: add `console: {}` to `channels` in its config"

TakeOver = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Called with a terminal's session id and its streams; returns when the terminal is gone."""


Operation = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Called with a request, returns its answer's data as JSON types. Must accept anything that a request may contain."""


class NotRunning(Exception):
    """No process answers for this data folder."""


class Refused(NotRunning):
    """A process answers, and refuses."""


class ControlServer:
    """Serves the control socket. status: returns the facts. terminal: returns what takes over a connection that asks
    for the console, if there is one now. operations: by name."""

    def __init__(
        self,
        data_dir: Path,
        status: Callable[[], Awaitable[dict[str, Any]]],
        terminal: Callable[[], TakeOver | None] = lambda: None,
        operations: Mapping[str, Operation] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._status = status
        self._terminal = terminal
        self._operations = operations or {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ControlServer:
        with _short_path(self._data_dir) as path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._server = await asyncio.start_unix_server(self._connected, path, limit=_LONGEST_LINE)
            os.chmod(path, 0o600)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._data_dir / SOCKET)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ValueError, asyncio.CancelledError) as error:
            # A cancelled handler has no one to notify: the server is closing.
            log.debug("a control connection ended: %r", error)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = _parsed(line)
            if not isinstance(request, dict) or request.get("v") != VERSION:
                await _send(writer, {"ok": False, "error": f"this process speaks version {VERSION}; update the other"})
            elif request.get("op") == "status":
                await _send(writer, {"ok": True, "data": await self._status()})
            elif request.get("op") == "console" and (take_over := self._terminal()) is None:
                await _send(writer, {"ok": False, "error": NO_CONSOLE})
            elif request.get("op") == "console" and take_over is not None:
                await _send(writer, {"ok": True, "data": {}})
                return await take_over(str(request.get("session", "")), reader, writer)
            elif isinstance(name := request.get("op"), str) and name in self._operations:
                await _send(writer, await self._done(name, request))
            else:
                await _send(writer, {"ok": False, "error": f"unknown operation {request.get('op')!r}"})

    async def _done(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        from bot.store import StoreError  # takes a second to import, which `antler status` does without

        try:
            return {"ok": True, "data": await self._operations[operation](request)}
        except StoreError as error:  # such as a full disk
            return {"ok": False, "error": str(error)}


def _parsed(line: bytes) -> Any:
    """The parsed JSON, None for what is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


async def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
    await writer.drain()


@contextlib.contextmanager
def _short_path(data_dir: Path) -> Iterator[str]:
    """The socket's path through an open folder: the kernel accepts at most 107 bytes for one."""
    fd = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def connection(data_dir: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the process that holds the data folder. Raises NotRunning."""
    try:
        with _short_path(data_dir) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
    except OSError as error:
        # A missing socket, or one that no process serves, needs no explanation: nothing runs.
        why = "" if isinstance(error, FileNotFoundError | ConnectionRefusedError) else f" ({error.strerror})"
        raise NotRunning(f"no antler process answers in {data_dir}{why}") from error
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    operation: str,
    *,
    within: float = ANSWER_SECONDS,
    **more: Any,
) -> Any:
    """Send one request, return the answer's data. Raises Refused, NotRunning without a proper answer in time."""
    try:
        async with asyncio.timeout(within):
            await _send(writer, {"v": VERSION, "op": operation, **more})
            answer = json.loads(await reader.readline() or b"{}")
    except (TimeoutError, ConnectionError, ValueError) as error:
        raise NotRunning("the antler process does not answer; see its log") from error
    if not isinstance(answer, dict):
        raise NotRunning("the antler process sent an unexpected answer")
    if not answer.get("ok"):
        raise Refused(str(answer.get("error", "the antler process gave no reason")))
    return answer.get("data")


async def read_status(data_dir: Path) -> dict[str, Any]:
    """The data of StatusPage.machine. Raises NotRunning."""
    async with connection(data_dir) as (reader, writer):
        data = await ask(reader, writer, "status")
        if not isinstance(data, dict):
            raise NotRunning("the antler process sent an unexpected answer")
        return data


def describe(status: dict[str, Any]) -> str:
    """The status for people: a line for the process, then one for each connection, model and other part."""
    lines = [
        f"antler {status['version']}, up {timedelta(seconds=round(status['uptime']))}, {status['running']} running, "
        f"{status['waiting']} waiting"
    ]
    lines += _lead(status.get("lead"))
    lines += [line for worker in status.get("workers", ()) for line in _worker(worker)]
    for connection_ in status["connections"]:
        silence = connection_["silence"]
        age = "no sign of life yet" if silence is None else f"last sign of life {silence:.0f} s ago"
        detail = f" ({connection_['detail']})" if connection_["detail"] else ""
        lines.append(f"  {connection_['account']}: {connection_['state']}, {age}{detail}")
    lines += [f"  model {_model(model)}" for model in status.get("models", ())]
    lines += _waiting(status)
    lines += [f"  {_told(condition)}" for condition in status.get("conditions", ()) if _is_told(condition)]
    if sandbox := status.get("sandbox"):
        lines.append(f"  sandbox {sandbox}")
    lines += [f"  mcp {server['text']}" for server in status.get("mcp", ())]
    if unreadable := status.get("unreadable"):
        lines.append(f"  {unreadable} events could not be read since the start: see the log")
    if (free := status.get("disk_free")) is not None:
        lines.append(f"  disk {free / GIGABYTE:.1f} GB free")
    if config := status.get("config"):
        lines.append(f"  config {config}")
    lines += [f"  error {line}" for line in status.get("errors", ())]
    return "\n".join(lines)


def _lead(lead: Mapping[str, Any] | None) -> list[str]:
    """Which process leads, where several may use the database."""
    if lead is None:
        return []
    if lead["state"] == "leads":
        others = ", ".join(lead["standing_by"]) or "none"
        return [f"  {lead['role']}: leads as {lead['leader']}; standing by: {others}"]
    return [f"  {lead['role']}: {lead['state']}; leader: {lead['leader'] or 'none'}"]


def _worker(worker: Mapping[str, Any]) -> list[str]:
    """A line for a worker, and what does not work there; outages of models are listed with the gateway's."""
    works = "" if worker["alive"] else "NOT WELL "
    line = (
        f"  {works}worker {worker['name']}: {worker['process']}, {worker['version']}, {worker['running']} of "
        f"{worker['slots']} running, last sign of life {worker['silence']:.0f} s ago"
    )
    config = [f"    config {worker['config']}"] if worker["config"] else []
    return [line, *(f"    NOT WELL {trouble}" for trouble in worker["troubles"]), *config]


def _model(model: Mapping[str, Any]) -> str:
    if model["works"] is None:
        return f"{model['name']}: not called yet"
    age = f"{model['age']:.0f} s" if model["age"] < 60 else f"{model['age'] / 60:.0f} min"
    return f"{model['name']}: {'works' if model['works'] else 'does not work'}, last called {age} ago"


def _waiting(status: Mapping[str, Any]) -> list[str]:
    """Lines on what waits for its turn or for a person, and on how much of the day's budgets is used."""
    lines = []
    if age := status.get("queue_age"):
        lines.append(f"  queue: the oldest message has waited for {age:.0f} s")
    for what, command in (("approvals", "decided in their chats"), ("pairings", "antler access list")):
        if count := status.get(what):
            lines.append(f"  {count} {what if count > 1 else what[:-1]} waiting ({command})")
    return [*lines, *(f"  budgets.{each['key']}: {each['share']:.0%} used today" for each in status.get("budgets", ()))]


def _is_told(condition: Mapping[str, Any]) -> bool:
    """Whether status prints the condition: trouble, or a detail; connections and models have their own lines."""
    return not condition["healthy"] or (bool(condition["detail"]) and condition["part"] not in ("receiving", "model"))


def _told(condition: Mapping[str, Any]) -> str:
    """A part that does not work, or on which there is a detail, in one line."""
    what = f"{condition['part']} {condition['told_name']}".rstrip()
    if condition["healthy"]:
        return f"{what}: {condition['detail']}"
    detail = f" ({condition['detail']})" if condition["detail"] else ""
    return f"NOT WELL {what}: {condition['problem'].replace('_', ' ')} for {condition['age']:.0f} s{detail}"


def watch(data_dir: Path, *, as_json: bool = False) -> int:
    """`antler status --watch`: print the running process's status repeatedly, until Ctrl-C. as_json: an object with the
    time in a line, or with an error."""
    start = CLEAR if sys.stdout.isatty() and not as_json else ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = datetime.now().astimezone()
            try:
                found = asyncio.run(read_status(data_dir))
                text = describe(found)
            except NotRunning as error:
                found, text = {"error": str(error)}, f"antler: {error}"
            if as_json:
                print(json.dumps({"time": now.isoformat(timespec="seconds"), **found}, ensure_ascii=False), flush=True)
            else:
                print(f"{start}{now:%Y-%m-%d %H:%M:%S%z}  {text}", flush=True)
            time.sleep(WATCH_SECONDS)
    return 0


def status(data_dir: Path, *, check: bool, as_json: bool = False) -> int:
    """`antler status`: print the running process's status; returns 0 when all is well, else 1. check: print nothing."""
    try:
        found = asyncio.run(read_status(data_dir))
    except NotRunning as error:
        if not check:
            print(f"antler: {error}", file=sys.stderr)
        return 1
    if not check:
        print(json.dumps(found, ensure_ascii=False, indent=2) if as_json else describe(found))
    return 0 if found["healthy"] else 1


def reload(settings: Settings) -> int:
    """`antler reload`: have the running process reload its config, print the result; returns 0 when it is in use."""
    try:
        answer = asyncio.run(_reload(settings.data_dir))
    except NotRunning as error:
        print(f"antler: {error}", file=sys.stderr)
        return 1
    print(f"antler: {answer['text']}", file=sys.stdout if answer["ok"] else sys.stderr)
    return 0 if answer["ok"] else 1


async def _reload(data_dir: Path) -> dict[str, Any]:
    async with connection(data_dir) as (reader, writer):
        answer = await ask(reader, writer, "reload", within=RELOAD_SECONDS)
        if not isinstance(answer, dict):
            raise NotRunning("the antler process sent an unexpected answer")
        return answer
