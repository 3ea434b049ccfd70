"""A program as the gateway sees it: its output and its end. Made by client.py, used by process.py."""

from __future__ import annotations

import asyncio
import os
import socket

from sandbox.base import SandboxError
from sandbox.launcher.spec import LISTENING, Ended

_LONGEST_MESSAGE = 8192


class Program:
    """A program that was started. Closing it ends the program and all that it started."""

    def __init__(self, control: socket.socket, output: int) -> None:
        self._control = control
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._handed_over = False
        self._listener: asyncio.Future[socket.socket] = self._loop.create_future()
        self._loop.add_reader(control, self._heard)

    @property
    def output(self) -> int:
        """The reading end of the pipe that is its stdout and stderr; not blocking."""
        return self._output

    def kill(self) -> None:
        """Have it and all its descendants killed; `ended` tells when that is done. Idempotent."""
        try:
            self._control.send(b"kill")
        except OSError:
            return  # Nothing is left to be killed.

    async def ended(self) -> Ended:
        """Wait until neither the program nor a descendant is left. Raises SandboxError if that can never be known."""
        return await asyncio.shield(self._ended)

    async def listener(self) -> socket.socket:
        """The socket of LaunchSpec.listen, as soon as it is there; the caller closes it. Never comes if that fails."""
        listener = await self._listener
        self._handed_over = True
        return listener

    def _take(self, listener: socket.socket) -> None:
        if self._listener.done():
            listener.close()
        else:
            self._listener.set_result(listener)

    def close(self) -> None:
        if not self._listener.cancel() and not self._handed_over and not self._listener.cancelled():
            self._listener.result().close()
        self._loop.remove_reader(self._control)
        self._control.close()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        if not self._ended.done():
            self._ended.cancel()

    def _heard(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, _LONGEST_MESSAGE, 1)
        except ConnectionResetError:
            # It ended without having read a `kill`. That is told once, and before what it said last.
            message, descriptors = self._control.recv(_LONGEST_MESSAGE), []
        if message == LISTENING:
            self._take(socket.socket(fileno=descriptors[0]))
            return
        self._loop.remove_reader(self._control)
        if self._ended.done():
            return
        if message:
            self._ended.set_result(Ended.decode(message))
        else:
            self._ended.set_exception(SandboxError("the process that watched over the command was killed"))
            self._ended.exception()  # Not every program is waited for.
