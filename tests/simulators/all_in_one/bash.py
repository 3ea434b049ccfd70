"""Sessions and commands as the `/v1/bash` of an all-in-one sandbox image has them. Runs inside a container, with the
standard library only; server.py answers HTTP with it.

What it does as that one: a process for each command with three pipes, in a session of its own; output kept in a buffer
for each stream, of which the oldest half is dropped at 10 MB; offsets in bytes, text decoded from wherever an offset
points; a command counts as running until nobody holds its outputs; a signal reaches the process group only.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import uuid
from dataclasses import dataclass, field

_KEPT_BYTES = 10 * 1024 * 1024
_GRACE_SECONDS = 0.1
_READ_BYTES = 4096


class NotFound(Exception):
    """No such session."""


class BadRequest(Exception):
    """Not in the state for that."""


@dataclass
class Stream:
    """One output of a session."""

    kept: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    @property
    def end(self) -> int:
        return self.dropped + len(self.kept)

    def add(self, data: bytes) -> None:
        self.kept += data
        if len(self.kept) > _KEPT_BYTES:
            drop = len(self.kept) - _KEPT_BYTES // 2
            self.dropped += drop
            del self.kept[:drop]

    def since(self, offset: int) -> str:
        return bytes(self.kept[max(0, offset - self.dropped) :]).decode("utf-8", errors="replace")


@dataclass
class Command:
    text: str
    process: asyncio.subprocess.Process
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "running"
    exit_code: int | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return

    def told(self) -> dict[str, object]:
        return {"command_id": self.id, "command": self.text, "status": self.status, "exit_code": self.exit_code}


class Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = os.environ.get("WORKSPACE", "/")
        self.stdout, self.stderr = Stream(), Stream()
        self.command: Command | None = None
        self.changed: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def execute(self, text: str, environment: dict[str, str], *, timeout: float | None) -> Command:
        """timeout: how long to wait for its end."""
        exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        script = "\n".join(["#!/bin/bash", f"cd {shlex.quote(self.folder)} || true", *exports, text, "exit $?", ""])
        process = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-c", script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        command = self.command = Command(text, process)
        task = asyncio.create_task(self._follow(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if timeout:
            await self._until(command.done, timeout)
        return command

    async def _follow(self, command: Command) -> None:
        process = command.process
        assert process.stdout
        assert process.stderr
        readers = [
            asyncio.create_task(self._read(process.stdout, self.stdout)),
            asyncio.create_task(self._read(process.stderr, self.stderr)),
        ]
        code = await process.wait()
        await asyncio.gather(*readers)
        if command.status == "running":
            command.status, command.exit_code = "completed", code
        command.done.set()
        self._tell()

    async def _read(self, pipe: asyncio.StreamReader, stream: Stream) -> None:
        while data := await pipe.read(_READ_BYTES):
            stream.add(data)
            self._tell()

    def _tell(self) -> None:
        for event in self.changed:
            event.set()

    async def output(self, offset: int, stderr_offset: int, *, wait: float) -> dict[str, object]:
        """wait: how long for the first of it; then a moment more for the end."""
        command = self.command
        if wait and command and not command.done.is_set():
            if self.stdout.end <= offset and self.stderr.end <= stderr_offset:
                event = asyncio.Event()
                self.changed.add(event)
                await self._until(event, wait)
                self.changed.discard(event)
            if self.stdout.end > offset or self.stderr.end > stderr_offset:
                await self._until(command.done, _GRACE_SECONDS)
        return {
            "session_id": self.name,
            "stdout": self.stdout.since(offset),
            "stderr": self.stderr.since(stderr_offset),
            "offset": self.stdout.end,
            "stderr_offset": self.stderr.end,
            "command": command.told() if command else None,
        }

    async def write(self, text: str) -> None:
        command = self.command
        if command is None or command.process.returncode is not None or command.process.stdin is None:
            raise BadRequest("No running process to write to")
        try:
            command.process.stdin.write(text.encode())
            await command.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise BadRequest("No running process to write to") from error

    async def close(self) -> None:
        command = self.command
        if command is None or command.done.is_set():
            return
        command.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(command.process.wait(), 5.0)
        except TimeoutError:
            command.signal(signal.SIGKILL)
            await command.process.wait()
        command.status = "killed"
        self._tell()

    async def _until(self, event: asyncio.Event, seconds: float) -> None:
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return


class Sessions:
    def __init__(self) -> None:
        self._all: dict[str, Session] = {}

    def get(self, name: str) -> Session:
        if name not in self._all:
            raise NotFound(f"Session {name} not found")
        return self._all[name]

    def get_or_make(self, name: str) -> Session:
        return self._all.setdefault(name, Session(name))

    async def close(self, name: str) -> None:
        session = self.get(name)
        await session.close()
        self._all.pop(name, None)
