"""The small process that forks for the gateway. `client` starts it; it ends with the gateway or when closed."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from typing import NoReturn

from sandbox.launcher import linux
from sandbox.launcher.keeper import keep
from sandbox.launcher.spec import BRANCH, LaunchSpec

_MOST_DESCRIPTORS = 3


def main() -> None:
    linux.refuse_inspection()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Keepers are reaped by the kernel.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))


def serve(requests: socket.socket) -> None:
    """Until the gateway closes the other end, or dies."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1, _MOST_DESCRIPTORS)
        if not request:
            return
        if _is_forked():
            requests.close()
            _branch(*descriptors) if request == BRANCH else _keep(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _is_forked() -> bool:
    """Fork; whether this is the child. Where that fails, the gateway sees its end of the request's socket close."""
    try:
        return os.fork() == 0
    except OSError as error:  # No processes or no memory are left.
        print(f"the launcher cannot fork: {error}", file=sys.stderr)
        return False


def _branch(groups: int, connection: int) -> NoReturn:
    with open(groups) as file:
        for path in json.load(file):
            with open(path, "w") as entrance:
                entrance.write("0")
    with socket.socket(fileno=connection) as requests:
        serve(requests)
    os._exit(0)


def _keep(specification: int, control: int, output: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(specification, "rb", buffering=0) as file:
        spec = LaunchSpec.decode(file.read())
    with socket.socket(fileno=control) as connection:
        keep(spec, connection, output)
    os._exit(0)
