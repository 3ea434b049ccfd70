"""Notifications to systemd: the process is ready, reloads its config, stops, and its loop is alive.

The protocol is that of sd_notify(3): datagrams of NAME=value lines to the socket in NOTIFY_SOCKET.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

log = logging.getLogger(__name__)

STATUS_SECONDS = 20.0
"""Maximum number of seconds between two status lines; a watchdog may require a shorter interval."""
PINGS = 3
"""Watchdog pings sent within the watchdog's timeout."""


class Supervisor:
    """Notifies systemd. address: the socket's, "" if there is none. watchdog: seconds without a ping until the process
    is killed, 0 for no such limit."""

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Self:
        """The supervisor named by the variables, which are removed so that no child process notifies it."""
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        mine = environment.pop("WATCHDOG_PID", "") in ("", str(os.getpid()))
        return cls(address, int(microseconds) / 1_000_000 if mine and microseconds.isdecimal() else 0.0)

    async def serve(self, status: Callable[[], str]) -> None:
        """Report readiness, then the status until cancelled; from the loop, so that a hanging loop stops reporting."""
        if not self._address:
            return
        if self._watchdog:
            faulthandler.enable()  # the watchdog's signal is SIGABRT: the stack of every thread is then logged
        self._tell("READY=1")
        pause = min(STATUS_SECONDS, self._watchdog / PINGS or STATUS_SECONDS)
        while True:
            self._tell("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(pause)

    def reloading(self, under_way: bool) -> None:
        """Report that the config is being reloaded, or has been."""
        if under_way:
            self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        else:
            self._tell("READY=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=stopping: answers pause and continue at the next start")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as to:
                to.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            log.debug("could not notify systemd of %s: %s", lines[0], error)
