"""The provider `remote`: each thread's sandbox is on another machine, behind HTTP. See docs/sandbox-remote.md."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from sandbox.base import SandboxError, SandboxUnavailable, sandbox_id
from sandbox.files.skills import no_skills
from sandbox.local.sandbox import HeldByThread
from sandbox.remote import wire
from sandbox.remote.http import Http, not_understood
from sandbox.remote.sandbox import RemoteSandbox, SkillSender

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Report
    from sandbox.config import SandboxSettings
    from sandbox.files.skills import SkillsOf

log = logging.getLogger(__name__)

_WELCOME = TypeAdapter(wire.Welcome)
_ALIVE = 7
_PROBE_SECONDS = 30.0
_SHUTDOWN_SECONDS = 10.0
_WITHOUT_SKILLS = "the sandbox server takes no skills: the agent cannot read or run those of this installation there"


class RemoteProvider:
    """SandboxProvider port. proxy and ca_file: as network.* says for settings.remote.url. skills: of a thread, on this
    machine; they are sent.

    Raises SandboxUnavailable for settings that it cannot carry out.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        proxy: str | None = None,
        ca_file: Path | None = None,
        skills: SkillsOf = no_skills,
    ) -> None:
        if settings.mounts or settings.environment:
            raise SandboxUnavailable(
                "sandbox.mounts and sandbox.environment mean nothing here", "the sandbox server has settings of its own"
            )
        self._http = Http(settings.remote, proxy=proxy, ca_file=ca_file)
        self._skills = skills
        self._takes_skills = False
        self._held = HeldByThread(self._opened)

    async def start(self) -> Report:
        try:
            report = await self._welcome()
            if report.bash:
                await self._probe()
        except SandboxError as error:
            await self.shutdown()
            raise SandboxUnavailable(str(error), error.hint) from error
        behind = f"files and commands are on another machine, held there by {report.provider}"
        without = () if self._takes_skills else (_WITHOUT_SKILLS,)
        return replace(report, provider="remote", shortfalls=(behind, *without, *report.shortfalls))

    async def _welcome(self) -> Report:
        said = await self._http.call("GET", "", again=True)
        try:
            welcome = wire.understood(_WELCOME, said)
        except wire.Malformed as error:
            raise not_understood() from error
        if welcome.version != wire.VERSION:
            raise SandboxError(
                f"the sandbox server speaks version {welcome.version} of the contract, not {wire.VERSION}",
                "install matching versions of both",
            )
        self._takes_skills = welcome.skills
        return welcome.report

    async def _probe(self) -> None:
        thread_id = f"probe-{uuid.uuid4().hex}"
        try:
            sandbox = await self.acquire(thread_id)
            result = await sandbox.execute_command(f"exit {_ALIVE}", timeout=_PROBE_SECONDS)
            if result.exit_code != _ALIVE:
                raise SandboxError("the sandbox server cannot run commands", "see the server's own log")
        finally:
            await self.forget(thread_id)

    async def acquire(self, thread_id: str) -> RemoteSandbox:
        return await self._held.get_or_make(thread_id)

    async def _opened(self, thread_id: str) -> RemoteSandbox:
        identifier = sandbox_id(thread_id)
        folders = partial(self._skills, thread_id)
        sender = SkillSender(self._http, f"/sandboxes/{identifier}", folders) if self._takes_skills else None
        sandbox = RemoteSandbox(identifier, self._http, sender)
        await sandbox.open()
        return sandbox

    def get(self, thread_id: str) -> RemoteSandbox | None:
        return self._held.get(thread_id)

    async def release(self, thread_id: str) -> None:
        if await self._held.pop(thread_id) is not None:
            await self._http.call("POST", f"/sandboxes/{sandbox_id(thread_id)}/release", again=True)

    async def forget(self, thread_id: str) -> None:
        """The thread's files, which are on the other machine only, are deleted too."""
        await self._held.pop(thread_id)
        await self._http.call("DELETE", f"/sandboxes/{sandbox_id(thread_id)}", again=True)

    async def shutdown(self) -> None:
        """What runs is ended as well as can be: the server ends it too when the connections are gone."""
        releases = [self.release(thread_id) for thread_id in list(self._held)]
        try:
            async with asyncio.timeout(_SHUTDOWN_SECONDS):
                for outcome in await asyncio.gather(*releases, return_exceptions=True):
                    if isinstance(outcome, SandboxError):
                        log.warning("a sandbox was not released: %s", outcome)
        except TimeoutError:
            log.warning("the sandbox server did not answer at the end")
        await self._http.close()
