"""The provider `remote`: each thread's sandbox is on another machine, on one of the configured servers, accessed over
HTTP. See docs/sandbox-remote.md."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from sandbox.base import Isolation, Report, SandboxError, SandboxUnavailable, direct, sandbox_id
from sandbox.files.skills import no_skills
from sandbox.local.sandbox import HeldByThread
from sandbox.remote.homes import in_order
from sandbox.remote.http import Http
from sandbox.remote.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox.base import Route
    from sandbox.config import SandboxSettings
    from sandbox.files.skills import SkillsOf
    from sandbox.remote.homes import Homes
    from sandbox.remote.sandbox import RemoteSandbox

log = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 10.0
_CHECK_SECONDS = 30.0
"""Seconds between two checks whether each of several servers is available."""
_WITHOUT_SKILLS = "does not accept skills: the agent cannot read or run those of this installation there"
_ORDER = (Isolation.NONE, Isolation.RESTRICTED, Isolation.FULL)


class RemoteProvider:
    """SandboxProvider and Watched port. route: (proxy, CA file) for an address, according to network.*. skills: of a
    thread, on this machine; they are sent. homes: notes of the threads' servers, None: no notes are kept.

    Raises SandboxUnavailable for settings that it cannot carry out.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        route: Callable[[str], Route] = direct,
        skills: SkillsOf = no_skills,
        homes: Homes | None = None,
    ) -> None:
        if settings.mounts or settings.environment:
            raise SandboxUnavailable(
                "sandbox.mounts and sandbox.environment have no effect here", "the sandbox server has its own settings"
            )
        urls = settings.remote.urls
        self._upstreams: dict[str, Upstream] = {}
        for url in urls:
            proxy, ca_file = route(url)
            http = Http(settings.remote, url, proxy=proxy, ca_file=ca_file)
            self._upstreams[url] = Upstream(url, http, skills, alone=len(urls) == 1)
        self._homes = homes
        self._held = HeldByThread(self._opened)
        self._checking: asyncio.Task[None] | None = None

    @property
    def _alone(self) -> Upstream | None:
        """The only server; None if there are several."""
        first, *others = self._upstreams.values()
        return None if others else first

    # Life cycle

    async def start(self) -> Report:
        """Start. Raises SandboxUnavailable if no server works; `troubles` reports single failing servers."""
        outcomes = await asyncio.gather(*map(_tried, self._upstreams.values()))
        failures = [each for each in outcomes if each is not None]
        if len(failures) == len(outcomes):
            await self.shutdown()
            text = "; ".join(map(str, failures))
            raise SandboxUnavailable(text, failures[0].hint) from failures[0]
        if self._alone is None:
            await self._enlist()
            self._checking = asyncio.create_task(self._check_on(), name="look after the sandbox servers")
        return self._report()

    def _report(self) -> Report:
        """The minimum of the reports of all servers that have given one."""
        told = [(each, each.report) for each in self._upstreams.values() if each.report is not None]
        reports = [report for _, report in told]
        known = [report.hosts for report in reports if report.hosts is not None]
        names = sorted({report.provider for report in reports})
        where = "on another machine" if self._alone else f"on {len(self._upstreams)} other machines"
        behind = f"files and commands are {where}, isolated there by {' or '.join(names)}"
        shortfalls = [f"{each.called} {_WITHOUT_SKILLS}" for each, _ in told if not each.takes_skills]
        for each, report in told:
            shortfalls += [text if self._alone else f"{each.called}: {text}" for text in report.shortfalls]
        return Report(
            provider="remote",
            isolation=min((report.isolation for report in reports), key=_ORDER.index),
            bash=any(report.bash for report in reports),
            shortfalls=(behind, *shortfalls),
            hosts=tuple(sorted({host for hosts in known for host in hosts})) if len(known) == len(reports) else None,
            packages=tuple(name for name in reports[0].packages if all(name in each.packages for each in reports)),
        )

    async def _check_on(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Check whether each of several servers is available."""
        await asyncio.gather(*map(_greeted, self._upstreams.values()))
        await self._enlist()

    async def _enlist(self) -> None:
        """List the sandboxes of servers not listed before. Until then a server may have any thread's files."""
        if self._homes is None:
            return
        try:
            for url in await self._homes.unlisted(self._upstreams):
                if self._upstreams[url].failure is None:
                    await self._homes.enlist(url, await self._upstreams[url].kept())
        except SandboxError as error:
            log.warning("the sandboxes of some servers are not known: %s", error)

    @property
    def troubles(self) -> tuple[str, ...]:
        return tuple(
            f"{each.failure}: threads with files there have no sandbox ({each.failure.hint})"
            for each in self._upstreams.values()
            if each.failure is not None and self._alone is None
        )

    async def shutdown(self) -> None:
        """End what runs, as far as possible: the server ends it, too, when the connections are gone."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        releases = [self.release(thread_id) for thread_id in list(self._held)]
        try:
            async with asyncio.timeout(_SHUTDOWN_SECONDS):
                for outcome in await asyncio.gather(*releases, return_exceptions=True):
                    if isinstance(outcome, SandboxError):
                        log.warning("a sandbox was not released: %s", outcome)
        except TimeoutError:
            log.warning("a sandbox server did not answer at shutdown")
        for each in self._upstreams.values():
            await each.close()

    # Threads

    async def acquire(self, thread_id: str) -> RemoteSandbox:
        """Open the thread's sandbox. Raises SandboxError, naming a server that has its files but is unavailable."""
        return await self._held.get_or_make(thread_id)

    def get(self, thread_id: str) -> RemoteSandbox | None:
        return self._held.get(thread_id)

    async def release(self, thread_id: str) -> None:
        sandbox = await self._held.pop(thread_id)
        if sandbox is not None:
            await sandbox.release()

    async def forget(self, thread_id: str) -> None:
        """End the sandbox and delete the thread's files, which exist only on other machines, on all servers."""
        await self._held.pop(thread_id)
        identifier = sandbox_id(thread_id)
        noted = await self._homes.of(thread_id) if self._homes else None
        if noted is not None and noted not in self._upstreams:
            noted = (await self._looked_up(thread_id, noted)).url
        outcomes = await asyncio.gather(*(_deleted(each, identifier) for each in self._upstreams.values()))
        for each, failure in zip(self._upstreams.values(), outcomes, strict=True):
            if failure is not None and (
                each.url == noted or (noted is None and await self._may_keep(each, identifier))
            ):
                raise failure
        if self._homes is not None:
            await self._homes.forget(thread_id)

    async def _opened(self, thread_id: str) -> RemoteSandbox:
        return await (await self._home(thread_id)).open(thread_id)

    # Choice of the server

    async def _home(self, thread_id: str) -> Upstream:
        """The server that has a thread. Raises SandboxError if that is uncertain: another server would show an empty
        one."""
        noted = await self._homes.of(thread_id) if self._homes else None
        if noted in self._upstreams:
            return self._upstreams[noted]
        if noted is not None:
            return await self._looked_up(thread_id, noted)
        return await self._settled(thread_id, self._alone or await self._chosen(sandbox_id(thread_id)))

    async def _settled(self, thread_id: str, upstream: Upstream) -> Upstream:
        url = await self._homes.settle(thread_id, upstream.url) if self._homes else upstream.url
        if url not in self._upstreams:  # noted by another process with a different list
            raise _unnamed(url)
        return self._upstreams[url]

    async def _looked_up(self, thread_id: str, noted: str) -> Upstream:
        """Find the server with the files of a thread whose noted server is no longer configured."""
        assert self._homes is not None
        alone = self._alone
        if alone is not None and alone.failure is None and not alone.tells:
            found = [alone]  # probably the same server with a new address
        else:
            answers = await self._asked(list(self._upstreams.values()), sandbox_id(thread_id))
            found = [each for each, kept in answers.items() if kept]
            if not found and (away := [each for each, kept in answers.items() if kept is None]):
                raise _uncertain(away[0])
        if not found:
            raise _unnamed(noted)
        upstream = _only(found)
        await self._homes.move(thread_id, upstream.url)
        return upstream

    async def _chosen(self, identifier: str) -> Upstream:
        """The server for a thread without a note: the one that has its files nevertheless, or, for a new thread, the
        first available one in the order."""
        order = [self._upstreams[url] for url in in_order(tuple(self._upstreams), identifier)]
        asked = [each for each in order if each.failure is None or await self._may_keep(each, identifier)]
        answers = await self._asked(asked, identifier)
        found = [each for each, kept in answers.items() if kept]
        if found:
            return _only(found)
        for each in order:
            if answers.get(each) is None and await self._may_keep(each, identifier):
                raise _uncertain(each)
        there = [each for each in order if answers.get(each) is not None]
        if not there:
            raise SandboxError("; ".join(str(each.failure) for each in order if each.failure))
        return there[0]

    async def _may_keep(self, upstream: Upstream, identifier: str) -> bool:
        """Whether an unavailable server may have files of a thread without a note."""
        return self._homes is None or await self._homes.may_keep(upstream.url, identifier)

    async def _asked(self, upstreams: Sequence[Upstream], identifier: str) -> dict[Upstream, bool | None]:
        """Whether each has files of a sandbox; None if it did not answer."""
        answers = await asyncio.gather(*(_kept(each, identifier) for each in upstreams))
        return dict(zip(upstreams, answers, strict=True))


def _only(found: Sequence[Upstream]) -> Upstream:
    """The only element. Raises SandboxError for two: neither may have all files."""
    if len(found) > 1:
        names = " and ".join(each.url for each in found)
        raise SandboxError(
            f"this thread has files on several sandbox servers: {names}", "docs/sandbox-remote.md explains what to do"
        )
    return found[0]


def _uncertain(away: Upstream) -> SandboxError:
    hint = away.failure.hint if away.failure else ""
    return SandboxError(f"{away.failure}, and this thread's files may be there", hint)


def _unnamed(url: str) -> SandboxError:
    return SandboxError(
        f"this thread's files are on the sandbox server {url}, which is not in sandbox.remote.url",
        "add it again, or move its files: docs/sandbox-remote.md",
    )


async def _tried(upstream: Upstream) -> SandboxError | None:
    """Start it; returns the error, if any."""
    try:
        await upstream.start()
    except SandboxError as error:
        return error
    return None


async def _greeted(upstream: Upstream) -> None:
    """Greet it, and log when it fails or returns; if it was unavailable at the start also what it does not enforce."""
    was, known = upstream.failure, upstream.report
    try:
        await upstream.greet()
    except SandboxError as error:
        if was is None:
            log.warning("%s: threads with files there have no sandbox (%s)", error, error.hint)
        return
    if was is not None:
        log.info("%s works again", upstream.called)
    if known is None and upstream.report is not None:
        log.warning("%s: isolation %s; %s", upstream.called, upstream.report.isolation, upstream.report.shortfalls)


async def _kept(upstream: Upstream, identifier: str) -> bool | None:
    try:
        return await upstream.keeps(identifier)
    except SandboxError:
        return None  # the upstream keeps it as its failure


async def _deleted(upstream: Upstream, identifier: str) -> SandboxError | None:
    try:
        await upstream.delete(identifier)
    except SandboxError as error:
        return error
    return None
