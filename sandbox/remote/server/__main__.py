"""python -m sandbox.remote.server --config FILE: serves until it is asked to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.remote.server.config import WrongSettings, load
from sandbox.remote.server.service import Service

if TYPE_CHECKING:
    from sandbox.remote.server.config import ServerSettings

WRONG_SETTINGS, UNAVAILABLE = 78, 69
"""See sysexits(3)."""

log = logging.getLogger("sandbox.remote.server")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.remote.server", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a YAML file; see docs/sandbox-remote.md")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        return asyncio.run(serve(load(options.config)))
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
        log.warning("without tls the token and all files are sent in the clear")
    for shortfall in report.shortfalls:
        log.warning(shortfall)
    log.info("%s sandboxes at %s", report.provider, service.address)
    await stopping.wait()
    log.info("stopping")
    await service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
