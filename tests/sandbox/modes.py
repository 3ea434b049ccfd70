"""The ways in which a sandbox is tested: which provider, and whether Antler runs as root or as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.config import SandboxSettings
from sandbox.launcher.linux import landlock_abi

if TYPE_CHECKING:
    from tests.sandbox.driver import Answer, Orders

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_USER = 65534 - int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Each worker's own, since the system counts processes by their user."""
SECONDS = 90
DRIVER = [sys.executable, "-W", "error", str(ROOT / "tests" / "sandbox" / "driver.py")]


@dataclass(frozen=True, slots=True)
class Mode:
    """How the driver is run. as_root: as it is when the tests are root's; else as an ordinary user."""

    provider: str
    as_root: bool

    @property
    def user(self) -> int:
        """Who commands are on the host."""
        if os.geteuid() != 0:
            return os.geteuid()
        return SandboxSettings().uid if self.as_root else ORDINARY_USER

    @property
    def gateway_user(self) -> int:
        return self.user if os.geteuid() != 0 or not self.as_root else 0

    def command(self) -> list[str]:
        if self.gateway_user == os.geteuid():
            return DRIVER
        user = str(self.gateway_user)
        return ["/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups", *DRIVER]

    def require(self) -> None:
        """Skip the test where this machine cannot run it; in CI that is a failure."""
        missing = ""
        if self.as_root and os.geteuid() != 0:
            missing = "the tests do not run as root"
        elif self.provider == "bubblewrap" and shutil.which("bwrap", path="/usr/bin:/bin") is None:
            missing = "bubblewrap is not installed"
        elif self.provider == "landlock" and landlock_abi() < 6:
            missing = "the kernel's Landlock is too old"
        if missing and os.environ.get("CI") == "true":
            pytest.fail(missing)
        if missing:
            pytest.skip(missing)


BUBBLEWRAP_ROOT = Mode("bubblewrap", as_root=True)
BUBBLEWRAP_USER = Mode("bubblewrap", as_root=False)
LANDLOCK = Mode("landlock", as_root=False)
MODES = [
    pytest.param(BUBBLEWRAP_ROOT, id="bubblewrap-root", marks=pytest.mark.slow),
    pytest.param(BUBBLEWRAP_USER, id="bubblewrap-user"),
    pytest.param(LANDLOCK, id="landlock", marks=pytest.mark.slow),
]
"""`make test` runs the one that every machine has, root's or not."""


@dataclass(slots=True)
class Driver:
    """One gateway's sandbox. folder: its data folder, which only it may enter."""

    mode: Mode
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    delete: bool = False
    prefix: tuple[str, ...] = ()
    """A program that runs the driver."""
    reidentify: bool = True
    """Whether the driver becomes the mode's user; else it stays who the tests are."""
    runtime: str = ""

    @property
    def workspace(self) -> Path:
        return (
            self.folder if self.mode.provider == "none" else self.folder / "threads" / "t" / "user-data" / "workspace"
        )

    def start(self, *commands: tuple[str, float]) -> subprocess.Popen[str]:
        orders: Orders = {
            "provider": self.mode.provider,
            "data": str(self.folder),
            "settings": self.settings,
            "files": self.files,
            "env": self.env,
            "commands": list(commands),
            "delete": self.delete,
            "runtime": self.runtime,
        }
        process = subprocess.Popen(
            [*self.prefix, *(self.mode.command() if self.reidentify else DRIVER)],
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(orders))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, *commands: tuple[str, float]) -> Answer:
        process = self.start(*commands)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, "the driver failed; its traceback is above"
        answer: Answer = json.loads(output)
        return answer
