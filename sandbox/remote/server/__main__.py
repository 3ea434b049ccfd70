"""python -m sandbox.remote.server --config FILE: starts the provider and serves until it is asked to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import selectors
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.files.workspace import Workspaces
from sandbox.policy import DEFAULT_FOLDER
from sandbox.providers import Site, make
from sandbox.remote.server.app import Api
from sandbox.remote.server.config import WrongSettings, load
from sandbox.remote.server.rooms import Rooms
from sandbox.remote.server.skills import SkillStore

if TYPE_CHECKING:
    from sandbox.base import Report, SandboxProvider
    from sandbox.remote.server.config import ServerSettings


WRONG_SETTINGS, UNAVAILABLE = 78, 69
"""See sysexits(3)."""
log = logging.getLogger("sandbox.remote.server")

_STOP_SECONDS = 5.0
_KEPT_SECONDS = 60.0


class Service:
    """The server. provider: used instead of the configured one, with its own skills."""

    def __init__(self, settings: ServerSettings, provider: SandboxProvider | None = None) -> None:
        self._settings = settings
        self._folder = settings.data_dir / "sandboxes"
        self._workspaces = Workspaces(self._folder_of, settings.sandbox)
        own = {place: settings.skills / place for place in ("public", "custom")} if settings.skills else {}
        self._skills = SkillStore(settings.data_dir / "skills", own)
        self._provider = provider or make(
            settings.sandbox,
            Site(
                folder_of=self._folder_of,
                instance=settings.instance,
                runtime=settings.sandbox.runtime or DEFAULT_FOLDER,
                skills=self._skills.of,
            ),
        )
        self._rooms = Rooms(
            self._provider,
            self._workspaces.delete,
            self._folder,
            sandboxes=settings.limits.sandboxes,
            commands=settings.limits.commands,
        )
        self._runner: web.AppRunner | None = None

    async def start(self) -> Report:
        """Start the provider and listen. Raises SandboxUnavailable."""
        tls = await asyncio.to_thread(self._tls)
        await asyncio.to_thread(self._settings.data_dir.mkdir, 0o700, parents=True, exist_ok=True)
        report = await self._provider.start()
        api = Api(self._rooms, self._skills, report, self._settings.token.get_secret_value(), self._settings.limits)
        self._runner = web.AppRunner(
            api.app(),
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_KEPT_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
        )
        await self._runner.setup()
        listen = self._settings.listen
        site = web.TCPSite(self._runner, listen.host, listen.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            raise SandboxUnavailable(f"{listen.host}:{listen.port}: {error.strerror}", "see listen") from error
        return report

    @property
    def address(self) -> str:
        """host:port, once it listens."""
        assert self._runner is not None
        host, port, *_ = self._runner.addresses[0]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self) -> None:
        """Stop; clients of running commands are notified that these were ended. Idempotent."""
        await self._rooms.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._provider.shutdown()
        self._workspaces.close()

    def _folder_of(self, sandbox: str) -> Path:
        return self._folder / sandbox / "user-data"

    def _tls(self) -> ssl.SSLContext | None:
        files = self._settings.tls
        if files is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(files.certificate, files.key)
        except OSError as error:
            raise SandboxUnavailable("the certificate or its key cannot be used", "see tls") from error
        return context


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.remote.server", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a YAML file; see docs/sandbox-remote.md")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        # An ordinary user's commands share its number of epoll watches (epoll(7)) and could take all; poll needs none.
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.PollSelector())) as runner:
            return runner.run(serve(load(options.config)))
    except WrongSettings as error:
        print(error, file=sys.stderr)
        return WRONG_SETTINGS


async def serve(settings: ServerSettings) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        service = Service(settings)
        report = await service.start()
    except SandboxError as error:
        log.error("%s%s", error, f" ({error.hint})" if error.hint else "")
        return UNAVAILABLE
    if settings.sends_in_the_clear:
        log.warning("without tls, the token and all files are sent in clear text")
    for shortfall in report.shortfalls:
        log.warning(shortfall)
    log.info("%s sandboxes at %s", report.provider, service.address)
    await stopping.wait()
    log.info("stopping")
    await service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
