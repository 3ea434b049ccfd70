"""A private Docker daemon for tests: Debian's programs, a socket and folders of its own below a temporary one, no
bridge and no firewall rules. It gives an image that is made offline from this machine's own programs.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.parts import missing
from tests.sandbox.docker.image import write_image
from tests.sandbox.processes import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IMAGE = "antler-test:1"
_PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0


class DaemonMissing(RuntimeError):
    """There is no daemon program, or it cannot run here."""


class Daemon:
    """A dockerd. `start` and `stop` may follow each other; `close` at the end."""

    def __init__(self) -> None:
        program = shutil.which("dockerd", path=_PLACES)
        if program is None:
            raise DaemonMissing("there is no dockerd (apt-get install docker.io)")
        if os.geteuid() != 0:
            raise DaemonMissing("dockerd can be started by root only")
        self._program = program
        # Not pytest's own folder: a socket's path is at most 107 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="antler-docker-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.root}/docker.sock"

    def start(self) -> None:
        """From the main thread: the daemon ends with the thread that started it (prctl(2), PR_SET_PDEATHSIG).

        Raises DaemonMissing where it does not come up.
        """
        root = self.root
        command = [
            # It goes with the tests, however these end.
            *("setpriv", "--pdeathsig", "TERM", "--", self._program),
            *("--host", self.host, "--pidfile", f"{root}/pid"),
            *("--data-root", f"{root}/data", "--exec-root", f"{root}/exec"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "warn"),
        ]
        with (root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=root, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (root / "log").read_text(errors="replace").splitlines()[-3:]
                self.stop()
                raise DaemonMissing(f"dockerd does not start here: {' '.join(said)}")
            self._wait(0.05)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex(f"{self.root}/docker.sock") != 0:
                return False
        try:
            with self.client() as client:
                return client.get("/_ping").is_success
        except httpx.TransportError:  # while it takes over the socket of one that was killed
            return False

    def _wait(self, seconds: float) -> None:
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def client(self) -> httpx.Client:
        """For calls beside the provider's."""
        transport = httpx.HTTPTransport(uds=f"{self.root}/docker.sock")
        return httpx.Client(transport=transport, base_url="http://docker/v1.41", timeout=60)

    def containers(self, belongs: Callable[[Mapping[str, str]], bool]) -> dict[str, str]:
        """The containers whose labels fit, also those that do not run: id by name."""
        with self.client() as client:
            listed = client.get("/containers/json", params={"all": "1"}).raise_for_status().json()
        return {each["Names"][0].lstrip("/"): each["Id"] for each in listed if belongs(each["Labels"])}

    def load_image(self) -> None:
        with tempfile.TemporaryFile() as file:
            write_image(file)
            file.seek(0)
            with self.client() as client:
                query = {"fromSrc": "-", "repo": IMAGE.partition(":")[0], "tag": IMAGE.partition(":")[2]}
                client.post("/images/create", params=query, content=file).raise_for_status()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; regularly it ends its containers too."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._end_containerd()

    def _end_containerd(self) -> None:
        """The process under a daemon that was killed; the next daemon would take a zombie with its id for alive."""
        file = self.root / "exec" / "containerd" / "containerd.pid"
        if file.exists():
            has_ended(int(file.read_text()), _STOP_SECONDS)
            file.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop()
        below = [
            line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if f" {self.root}/" in line
        ]
        if below:  # of a daemon that was killed
            subprocess.run(["umount", "--lazy", *reversed(below)], check=False, timeout=60)
        shutil.rmtree(self.root, ignore_errors=True)


@functools.cache
def _the_daemon() -> Daemon | str:
    """The daemon of this test session, or why there is none."""
    try:
        daemon = Daemon()
    except DaemonMissing as error:
        return str(error)
    atexit.register(daemon.close)
    try:
        daemon.start()
    except DaemonMissing as error:
        return str(error)
    daemon.load_image()
    return daemon


def the_daemon() -> Daemon:
    """The daemon of this test session. Where there is none: skips at a person's editor, fails in CI."""
    found = _the_daemon()
    if isinstance(found, str):
        missing(found)
    return found
