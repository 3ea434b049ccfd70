"""One thread's sandbox on another machine, and the skills that are sent there.

A place of skills is sent once for every state of its files, whichever threads use it; before each use of a sandbox only
the digests are sent.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from sandbox.base import WORKSPACE, Problem, ProblemCode, SandboxError, until_done
from sandbox.files.beneath import Refused
from sandbox.files.content import encoded
from sandbox.files.skills import read_place, skill_roots
from sandbox.remote import wire
from sandbox.remote.http import Answered, Lost, not_understood

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from sandbox.base import CommandResult, Entries, FileInfo, FileText, Hits, OnOutput, Updated
    from sandbox.files.skills import SkillFile
    from sandbox.remote.http import Http


T = TypeVar("T")
log = logging.getLogger(__name__)
_GRACE_SECONDS = 60.0
"""Seconds after a command's timeout in which the server has to report its end."""
_KILL_SECONDS = 25.0
_TAIL = 1000
"""Characters of a command's last output that are reported if its result never arrived."""

MOST_BYTES = 32 << 20
MOST_ENTRIES = 5000
"""Maximum number of entries in one place; a larger one is not sent."""
_WANTED = TypeAdapter(wire.Wanted)


class SkillSender:
    """Sends skills to one sandbox. folders: of the thread's skills, by place. path: of the sandbox on the server."""

    def __init__(self, http: Http, path: str, folders: Callable[[], Mapping[str, Path]]) -> None:
        self._http = http
        self._path = path
        self._folders = folders

    async def send(self) -> None:
        """Have the sandbox show the current skills from its next opening on. Raises SandboxError."""
        places = await asyncio.to_thread(_read, self._folders())
        digests = {name: wire.digest_of(files) for name, files in places.items()}
        said = await self._http.call("PUT", f"{self._path}/skills", wire.SkillsBody(places=digests), again=True)
        try:
            wanted = set(wire.understood(_WANTED, said).wanted)
        except wire.Malformed as error:
            raise not_understood(self._http.called) from error
        for name, files in places.items():
            if digests[name] in wanted:
                wanted.discard(digests[name])
                body = await asyncio.to_thread(_body, files)
                await self._http.call("PUT", f"/skills/{digests[name]}", body, again=True)


def _read(folders: Mapping[str, Path]) -> dict[str, dict[str, SkillFile]]:
    read = {}
    for root in skill_roots(folders):
        place = root.virtual.rpartition("/")[2]
        found = read_place(root.host, most_entries=MOST_ENTRIES, most_bytes=MOST_BYTES)
        if found.complete:
            read[place] = found.files
        else:
            log.warning("the skills of %s are not sent to the sandbox server: too many or too large", place)
    return read


def _body(files: Mapping[str, SkillFile]) -> wire.SkillFilesBody:
    return wire.SkillFilesBody(
        files=[
            wire.SkillFileBody(path=path, content=base64.b64encode(file.data).decode(), executable=file.executable)
            for path, file in files.items()
        ]
    )


class RemoteSandbox:
    """Sandbox port. If the server has closed the sandbox, it is opened again: its files are still there."""

    def __init__(self, identifier: str, http: Http, skills: SkillSender | None = None) -> None:
        """skills: sends those of the thread; None if the server accepts none."""
        self._id = identifier
        self._skills = skills
        self._http = http
        self._path = f"/sandboxes/{identifier}"

    @property
    def id(self) -> str:
        return self._id

    async def open(self) -> None:
        """Create it on the server, or find it there, with the current skills. Idempotent."""
        if self._skills is not None:
            try:
                await self._skills.send()
            except Answered as error:
                log.warning("skills were not sent to %s: %s %s", self._http.called, error, error.hint)
        await self._http.call("PUT", self._path, again=True)

    async def release(self) -> None:
        """Note that this process does not use it now; its files and other processes' commands stay. Idempotent."""
        await self._http.call("POST", f"{self._path}/release", again=True)

    # Commands

    async def execute_command(self, command: str, *, timeout: float, on_output: OnOutput = None) -> CommandResult:
        path = f"{self._path}/commands/{uuid.uuid4().hex}"
        body = wire.CommandBody(command=command, timeout=min(timeout, wire.MOST_SECONDS))
        run = _Run(on_output)
        try:
            async with asyncio.timeout(timeout + _GRACE_SECONDS), self._stream(path, body) as events:
                async for event in events:
                    if (result := run.heard(event)) is not None:
                        return result
        except asyncio.CancelledError:
            await until_done(asyncio.ensure_future(self._killed(path)))
            raise
        except Lost as error:
            raise await self._unknown(path, run, f"{error} while a command was running", error.hint) from error
        except TimeoutError as error:
            raise await self._unknown(path, run, f"{self._http.called} did not end a command in time") from error
        raise await self._unknown(path, run, f"{self._http.called} ended its answer before the command's result")

    async def _killed(self, path: str) -> bool:
        """Have a command killed; returns whether the server confirms that nothing of it is left."""
        try:
            async with asyncio.timeout(_KILL_SECONDS):
                await self._http.call("DELETE", path, again=True)
        except (SandboxError, TimeoutError):
            return False
        return True

    async def _unknown(self, path: str, run: _Run, what: str, hint: str = "") -> SandboxError:
        ended = "it was killed" if await self._killed(path) else "if it was started, it ends with its connection"
        said = f"; its last output: {run.tail}" if run.tail else ""
        return SandboxError(f"{what}, after {run.seconds:.0f} s; {ended}; its effects are unknown{said}", hint)

    # Files

    async def read_file(
        self, path: str, *, first_line: int = 1, last_line: int | None = None, max_bytes: int = 200_000
    ) -> FileText | Problem:
        body = wire.ReadBody(path=path, first_line=first_line, last_line=last_line, max_bytes=max_bytes)
        return await self._file("read", body, wire.FILE_TEXT, again=True)

    async def fetch(
        self, path: str, write: Callable[[bytes], Awaitable[None]], *, max_bytes: int
    ) -> FileInfo | Problem:
        body = wire.FetchBody(path=path, max_bytes=max_bytes)
        left = max_bytes
        async with self._stream(f"{self._path}/files/fetch", body) as events:
            async for event in events:
                if event.data is not None:
                    data = _decoded(event.data)
                    left -= len(data)
                    if left < 0:
                        raise not_understood(self._http.called)
                    await write(data)
                elif event.problem is not None:
                    return event.problem
                elif event.error is not None:
                    raise Answered(event.error.code, event.error.text, event.error.hint)
                elif event.result is not None:
                    return _understood(wire.FILE_INFO, event.result)
        raise SandboxError(f"{self._http.called} ended its answer before the end of the file")

    async def write_file(
        self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
    ) -> FileInfo | Problem:
        try:
            data = await asyncio.to_thread(_encoded, content)
        except Refused as refused:
            return Problem(code=refused.code, path=path, detail=refused.detail)
        body = wire.WriteBody(path=path, content=data, append=append, expected=expected)
        return await self._file("write", body, wire.FILE_INFO, again=False)

    async def update_file(
        self, path: str, old: str, new: str, *, replace_all: bool = False, expected: str | None = None
    ) -> Updated | Problem:
        body = wire.UpdateBody(path=path, old=old, new=new, replace_all=replace_all, expected=expected)
        return await self._file("update", body, wire.UPDATED, again=False)

    async def list_dir(self, path: str, *, depth: int = 2, most: int = 1000) -> Entries | Problem:
        return await self._file("list", wire.ListBody(path=path, depth=depth, most=most), wire.ENTRIES, again=True)

    async def glob(self, pattern: str, path: str = WORKSPACE, *, most: int = 200) -> Entries | Problem:
        return await self._file("glob", wire.GlobBody(pattern=pattern, path=path, most=most), wire.ENTRIES, again=True)

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, glob: str = "", ignore_case: bool = False, most: int = 100
    ) -> Hits | Problem:
        body = wire.GrepBody(pattern=pattern, path=path, glob=glob, ignore_case=ignore_case, most=most)
        return await self._file("grep", body, wire.HITS, again=True)

    async def _file(self, action: str, body: wire.Body, kind: TypeAdapter[T], *, again: bool) -> T | Problem:
        path = f"{self._path}/files/{action}"
        try:
            answer = await self._again_if_gone(lambda: self._http.call("POST", path, body, again=again))
        except Answered as error:
            if error.code == wire.TOO_LARGE and isinstance(body, wire.WriteBody):
                return Problem(code=ProblemCode.TOO_LARGE, path=body.path, detail=str(error))
            raise
        if isinstance(answer, dict) and "problem" in answer:
            return _understood(wire.PROBLEM, answer["problem"])
        return _understood(kind, answer.get("result") if isinstance(answer, dict) else None)

    # A server that was restarted, or needed the slot

    async def _again_if_gone(self, call: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await call()
        except Answered as error:
            if error.code != wire.NO_SUCH_SANDBOX:
                raise
        await self.open()
        return await call()

    @asynccontextmanager
    async def _stream(self, path: str, body: wire.Body) -> AsyncIterator[AsyncIterator[wire.Event]]:
        async with AsyncExitStack() as stack:
            try:
                events = await stack.enter_async_context(self._http.stream(path, body))
            except Answered as error:
                if error.code != wire.NO_SUCH_SANDBOX:
                    raise
                await self.open()
                events = await stack.enter_async_context(self._http.stream(path, body))
            yield events


class _Run:
    """A command, according to its events."""

    def __init__(self, on_output: OnOutput) -> None:
        self.tail = ""
        self._on_output = on_output
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def heard(self, event: wire.Event) -> CommandResult | None:
        """Process an event; returns the result once it has arrived. Raises SandboxError."""
        if event.error is not None:
            raise Answered(event.error.code, event.error.text, event.error.hint)
        if event.result is not None:
            return _understood(wire.RESULT, event.result)
        if event.output:
            self.tail = (self.tail + event.output)[-_TAIL:]
            if self._on_output is not None:
                self._on_output(event.output)
        return None


def _understood(kind: TypeAdapter[T], value: object) -> T:
    try:
        return wire.understood(kind, value)
    except wire.Malformed as error:
        raise not_understood() from error


def _encoded(content: str | bytes) -> str:
    return base64.b64encode(encoded(content)).decode()


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise not_understood() from error
