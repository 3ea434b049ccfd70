"""One server of the provider `remote`: its description, its availability, and the sandboxes on it."""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from sandbox.base import SandboxError, sandbox_id
from sandbox.remote import wire
from sandbox.remote.http import not_understood
from sandbox.remote.sandbox import RemoteSandbox, SkillSender

if TYPE_CHECKING:
    from typing import TypeVar

    from sandbox.base import Report
    from sandbox.files.skills import SkillsOf
    from sandbox.remote.http import Http

    T = TypeVar("T")


_WELCOME = TypeAdapter(wire.Welcome)
_KEEPS = TypeAdapter(wire.Keeps)
_KEPT = TypeAdapter(wire.Kept)
_ALIVE = 7
_PROBE_SECONDS = 30.0
_WORD_SECONDS = 10.0
"""Timeout for one of several servers to describe itself, or what it has."""


class Upstream:
    """One server. url: as configured. skills: of a thread; they are sent. alone: there is no other server, so that this
    one need not report what it has. Its methods raise SandboxError.

    failure: why it did not answer the last greeting, None if it did.
    """

    def __init__(self, url: str, http: Http, skills: SkillsOf, *, alone: bool) -> None:
        self.url = url
        self.failure: SandboxError | None = None
        self._http = http
        self._skills = skills
        self._alone = alone
        self._welcome: wire.Welcome | None = None
        self._greeting = asyncio.Lock()

    @property
    def called(self) -> str:
        return self._http.called

    @property
    def report(self) -> Report | None:
        """Its description of itself; None before it has sent one."""
        return None if self._welcome is None else self._welcome.report

    @property
    def takes_skills(self) -> bool:
        return self._welcome is not None and self._welcome.skills

    @property
    def tells(self) -> bool:
        """Whether it can report what it has."""
        return self._welcome is not None and self._welcome.kept

    async def greet(self, *, again: bool = False) -> None:
        """Request its description. again: see Http.call."""
        try:
            self._welcome = await self._greeted(again=again)
        except SandboxError as error:
            self.failure = error
            raise
        self.failure = None

    async def _greeted(self, *, again: bool) -> wire.Welcome:
        welcome = self._understood(_WELCOME, await self._told("", again=again))
        if welcome.version != wire.VERSION:
            raise SandboxError(
                f"{self.called} implements version {welcome.version} of the contract, not {wire.VERSION}",
                "install matching versions of both",
            )
        if not (welcome.kept or self._alone):
            raise SandboxError(
                f"{self.called} does not list its sandboxes, which is required with several servers",
                "install a version of it that does",
            )
        return welcome

    async def start(self) -> None:
        """Greet it, and run a command there."""
        await self.greet(again=True)
        if self.report is not None and self.report.bash:
            try:
                await self._probe()
            except SandboxError as error:
                self.failure = error
                raise

    async def _probe(self) -> None:
        thread_id = f"probe-{uuid.uuid4().hex}"
        try:
            sandbox = await self.open(thread_id)
            result = await sandbox.execute_command(f"exit {_ALIVE}", timeout=_PROBE_SECONDS)
            if result.exit_code != _ALIVE:
                raise SandboxError(f"{self.called} cannot run commands", "see the server's own log")
        finally:
            await self.delete(sandbox_id(thread_id))

    async def open(self, thread_id: str) -> RemoteSandbox:
        """Create or find a thread's sandbox there, with its files."""
        async with self._greeting:
            if self._welcome is None:
                await self.greet(again=True)
        identifier = sandbox_id(thread_id)
        folders = partial(self._skills, thread_id)
        sender = SkillSender(self._http, f"/sandboxes/{identifier}", folders) if self.takes_skills else None
        sandbox = RemoteSandbox(identifier, self._http, sender)
        await sandbox.open()
        return sandbox

    async def keeps(self, identifier: str) -> bool:
        """Whether it has files of a sandbox."""
        try:
            return self._understood(_KEEPS, await self._told(f"/kept/{identifier}", again=True)).kept
        except SandboxError as error:
            self.failure = error
            raise

    async def _told(self, path: str, *, again: bool) -> object:
        try:
            async with asyncio.timeout(None if self._alone else _WORD_SECONDS):
                told: object = await self._http.call("GET", path, again=again)
        except TimeoutError as error:
            raise SandboxError(f"{self.called} does not answer", "see the server's own log") from error
        return told

    async def kept(self) -> list[str]:
        """All sandboxes whose files it has."""
        return self._understood(_KEPT, await self._http.call("GET", "/kept", again=True)).sandboxes

    async def delete(self, identifier: str) -> None:
        """End a sandbox and delete its files. Idempotent."""
        await self._http.call("DELETE", f"/sandboxes/{identifier}", again=True)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.close()

    def _understood(self, kind: TypeAdapter[T], said: object) -> T:
        try:
            return wire.understood(kind, said)
        except wire.Malformed as error:
            raise not_understood(self.called) from error
