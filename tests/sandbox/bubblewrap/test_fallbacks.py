"""Machines on which a sandbox cannot run: each is refused with what to do about it, none gets a weaker one instead."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.config import NetworkSettings, SandboxLimits, SandboxSettings
from sandbox.files.workspace import Workspaces
from sandbox.launcher.client import Launcher
from sandbox.local import bubblewrap as cage
from sandbox.local.bubblewrap import BubblewrapCage, BubblewrapProvider, Setup
from sandbox.local.landlock import LandlockProvider
from sandbox.policy import Limits
from tests.sandbox.conftest import private_folder
from tests.sandbox.modes import BUBBLEWRAP_ROOT, BUBBLEWRAP_USER, LANDLOCK, ORDINARY_USER, Driver

if TYPE_CHECKING:
    from pathlib import Path

ECHO = ("echo hello", 30.0)


def fake_bwrap(folder: Path, says: str) -> None:
    """A bwrap as it behaves on a machine that does not let it work."""
    program = folder / "bwrap"
    program.write_text(f'#!/bin/sh\n[ "$1" = --help ] && exit 0\necho "bwrap: {says}" >&2\nexit 1\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


@pytest.mark.parametrize(
    ("says", "hint"),
    [
        ("No permissions to create a new namespace, likely because the kernel does not allow it", "sysctl"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("setting up uid map: Permission denied", "AppArmor"),
        ("Can't mount proc on /newroot/proc: Operation not permitted", "landlock"),
        ("Unknown option --disable-userns", "newer"),
    ],
)
async def test_what_bwrap_says_becomes_what_to_do(tmp_path: Path, open_folder: Path, says: str, hint: str) -> None:
    fake_bwrap(open_folder, says)
    settings = SandboxSettings()
    workspaces = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    provider = BubblewrapProvider(settings, workspaces, instance="fallbacks", programs=str(open_folder))
    with pytest.raises(SandboxUnavailable, match="commands cannot be run") as refused:
        await provider.start()
    assert hint in refused.value.hint


async def test_without_bwrap_the_package_is_named(tmp_path: Path) -> None:
    settings = SandboxSettings()
    workspaces = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    provider = BubblewrapProvider(settings, workspaces, instance="fallbacks", programs=str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="not installed") as refused:
        await provider.start()
    assert "apt-get install bubblewrap" in refused.value.hint


def test_user_namespaces_switched_off(open_folder: Path) -> None:
    """For real: in a user namespace in which no other one may be made."""
    BUBBLEWRAP_USER.require()
    off = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all "$@"'
    user = str(ORDINARY_USER)
    prefix = ("/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups") if os.geteuid() == 0 else ()
    driver = Driver(
        BUBBLEWRAP_USER,
        private_folder(open_folder / "data", BUBBLEWRAP_USER),
        prefix=(*prefix, "/usr/bin/unshare", "--user", "--map-current-user", "--keep-caps", "/bin/sh", "-c", off, "sh"),
        reidentify=False,
    )
    answer = driver.run(ECHO)
    assert "commands cannot be run" in answer["unavailable"]
    assert "sysctl" in answer["hint"], answer


def test_root_of_a_container(open_folder: Path) -> None:
    """For real: root without CAP_SYS_ADMIN, as a container has it."""
    BUBBLEWRAP_ROOT.require()
    prefix = ("/usr/bin/setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    answer = Driver(BUBBLEWRAP_ROOT, private_folder(open_folder / "data", BUBBLEWRAP_ROOT), prefix=prefix).run(ECHO)
    assert "commands cannot be run" in answer["unavailable"]
    assert "landlock" in answer["hint"]


def test_landlock_is_not_for_root(open_folder: Path) -> None:
    BUBBLEWRAP_ROOT.require()
    LANDLOCK.require()
    driver = Driver(LANDLOCK, open_folder / "data", reidentify=False)
    answer = driver.run(ECHO)
    assert "root" in answer["unavailable"]
    assert "ordinary user" in answer["hint"]


async def test_root_commands_need_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    BUBBLEWRAP_ROOT.require()
    setup = Setup(limits=Limits.of(SandboxLimits()), env={}, runtime=None, identity=None, memory_bounded=True)
    launcher = Launcher()
    with pytest.raises(SandboxUnavailable, match="as root"):
        await BubblewrapCage(setup).start(launcher)
    await launcher.close()


def test_a_network_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    settings = SandboxSettings(network=NetworkSettings(mode="egress", allow=("example.org",)))
    workspaces = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    with pytest.raises(SandboxUnavailable, match="network"):
        LandlockProvider(settings, workspaces, instance="fallbacks")
    workspaces.close()


def test_words_of_no_known_meaning_give_no_hint() -> None:
    assert cage.hint("bwrap: the moon is full") == ""
