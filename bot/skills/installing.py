"""Skills that administrators install while the gateway runs, from an archive or an address, and the state of each.

The checks are those of `antler skills install`. An installation that has begun is completed even if its request ends.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from bot.skills.tool import installed
from bot.store.identity import harmless_name
from harness.skills.archive import LARGEST_ARCHIVE
from harness.skills.document import SkillError
from harness.skills.files import MEGABYTE

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator
    from datetime import datetime

    from bot.settings import Settings
    from bot.tasks import Tasks
    from channels.base import Clock
    from harness.skills.archive import Installed

MOST_KEPT = 20
FETCH_SECONDS = 120.0
FALLBACK_NAME = "skill.zip"
State = Literal["receiving", "checking", "installed", "waiting", "refused"]


@dataclass(slots=True, kw_only=True)
class Install:
    """One installation. source: the name of the archive. received: bytes so far. state: waiting: installed, but off
    until an administrator approves it. name, digest: of the skill, "" while unknown. findings: results of the checks.
    notes: what was not checked. problems: why it was refused."""

    source: str
    by: str
    began_at: datetime
    state: State = "receiving"
    received: int = 0
    name: str = ""
    digest: str = ""
    replaced: bool = False
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class InstallRefused(Exception):
    """A refused installation. problems: all reasons, each a sentence for administrators."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Installs:
    """Installs one skill at a time. settings: returns the current ones. recent: the newest first."""

    def __init__(self, settings: Callable[[], Settings], clock: Clock, tasks: Tasks) -> None:
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self._turn = asyncio.Lock()
        self.recent: deque[Install] = deque(maxlen=MOST_KEPT)

    async def from_archive(self, file_name: str, chunks: AsyncIterable[bytes], *, replace: bool, by: str) -> Install:
        """Install an uploaded archive. Raises InstallRefused."""
        install, content = self._begin(harmless_name(file_name, FALLBACK_NAME), by), bytearray()
        with _told(install, "the upload was interrupted"):
            async for chunk in chunks:
                content += chunk
                install.received = len(content)
                if len(content) > LARGEST_ARCHIVE:
                    raise _too_large()
            install.state = "checking"
        return await self._check(install, bytes(content), replace)

    async def from_address(self, address: str, *, replace: bool, by: str) -> Install:
        """Fetch an archive according to the rules of web_fetch and install it. Raises InstallRefused."""
        name = address.partition("?")[0].partition("#")[0].rpartition("/")[2]
        install = self._begin(harmless_name(unquote(name), FALLBACK_NAME), by)
        with _told(install, "the download was interrupted"):
            content = await self._fetched(address.strip())
            install.received, install.state = len(content), "checking"
        return await self._check(install, content, replace)

    def _begin(self, source: str, by: str) -> Install:
        install = Install(source=source, by=by, began_at=self._clock.now())
        self.recent.appendleft(install)
        return install

    async def _fetched(self, address: str) -> bytes:
        from harness.web.addresses import Rules, WebError  # imports httpcore, needed only here
        from harness.web.fetch import Fetcher
        from harness.web.guard import GuardedTransport

        settings = self._settings()
        rules = Rules(settings.web.fetch.allow)
        transport = GuardedTransport(rules, settings.network_route)
        try:
            fetched = await Fetcher(rules, transport).get(
                address, most=lambda kind: LARGEST_ARCHIVE, seconds=FETCH_SECONDS, whose=""
            )
        except WebError as error:
            raise InstallRefused((f"the archive could not be downloaded: {error}",)) from None
        finally:
            await transport.aclose()
        if fetched.cut or fetched.body is None:
            raise _too_large()
        return fetched.body

    async def _check(self, install: Install, content: bytes, replace: bool) -> Install:
        checking = self._tasks.spawn(f"install {install.source}", self._put(install, content, replace))
        await asyncio.shield(checking)
        if install.state == "refused":
            raise InstallRefused(install.problems)
        return install

    async def _put(self, install: Install, content: bytes, replace: bool) -> None:
        notes: list[str] = []

        def put() -> Installed:
            with tempfile.TemporaryDirectory(prefix="antler-skill-") as folder:
                archive = Path(folder) / install.source
                archive.write_bytes(content)
                return installed(self._settings(), archive, replace=replace, tell=notes.append)

        with suppress(InstallRefused), _told(install, "it could not be checked; see the log"):
            async with self._turn:
                try:
                    done = await asyncio.to_thread(put)
                except SkillError as error:
                    raise InstallRefused(tuple(map(str, error.problems))) from None
                except OSError as error:
                    raise InstallRefused((error.strerror or "the skills cannot be written",)) from None
            install.name, install.digest, install.replaced = done.name, done.digest, done.replaced
            install.findings, install.notes = tuple(map(str, done.verdict.findings)), tuple(notes)
            install.state = "waiting" if done.pending else "installed"


@contextmanager
def _told(install: Install, otherwise: str) -> Iterator[None]:
    """Refuse the installation unless the block changes its state. otherwise: the reason if no other is given."""
    before = install.state
    problems: tuple[str, ...] = (otherwise,)
    try:
        yield
    except InstallRefused as refused:
        problems = refused.problems
        raise
    finally:
        if install.state == before:
            install.state, install.problems = "refused", problems


def _too_large() -> InstallRefused:
    return InstallRefused((f"is larger than {LARGEST_ARCHIVE // MEGABYTE} MB",))
