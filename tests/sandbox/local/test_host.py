"""The provider `host`: no commands unless they are asked for by name, and what is still held of those."""

from __future__ import annotations

import logging
import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import WORKSPACE, Isolation, SandboxError, SandboxUnavailable
from sandbox.config import SandboxSettings
from sandbox.files.workspace import Workspaces
from sandbox.local.host import HostProvider, host_provider
from sandbox.policy import Limits
from tests.sandbox.conftest import private_folder
from tests.sandbox.modes import Driver, Mode
from tests.sandbox.processes import marked

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import SandboxProvider

SECONDS = 30.0
ALLOWED = {"use": "host", "host": {"allow_host_bash": True}}
MODE = Mode("host", as_root=False)
FORKS = """
import os
started = 0
try:
    while started < 100:
        if os.fork() == 0:
            os.execlp("sleep", "sleep", "600")
        started += 1
except BlockingIOError:
    print(started)
"""


def made(folder: Path, **settings: Any) -> SandboxProvider:
    checked = SandboxSettings.model_validate({"use": "host", **settings})
    return host_provider(checked, Workspaces(lambda thread: folder / thread / "user-data", checked), instance="test")


@pytest.fixture
def driver(open_folder: Path) -> Driver:
    MODE.require()
    return Driver(MODE, private_folder(open_folder / "data", MODE), settings=dict(ALLOWED))


async def test_by_default_there_are_files_only(tmp_path: Path) -> None:
    provider = made(tmp_path)
    report = await provider.start()
    assert (report.provider, report.isolation, report.bash) == ("host", Isolation.NONE, False)
    sandbox = await provider.acquire("t")
    await sandbox.write_file("a", "text")
    with pytest.raises(SandboxError, match="provider host runs none"):
        await sandbox.execute_command("true", timeout=SECONDS)
    await provider.shutdown()


async def test_commands_are_announced_with_a_warning_at_every_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = made(tmp_path, host={"allow_host_bash": True})
    assert isinstance(provider, HostProvider)
    if os.geteuid() == 0:
        with pytest.raises(SandboxUnavailable, match="root"):
            await provider.start()
    else:
        assert (await provider.start()).bash
        await provider.shutdown()
    (warning,) = [record for record in caplog.records if record.name == "sandbox.local.host"]
    assert warning.levelno == logging.WARNING
    assert "WITHOUT ANY ISOLATION" in warning.getMessage()


def test_who_may_write_has_to_be_trusted() -> None:
    assert SandboxSettings.model_validate(ALLOWED).trusts_senders
    assert not SandboxSettings.model_validate({"use": "host"}).trusts_senders
    assert not SandboxSettings.model_validate({**ALLOWED, "use": "bubblewrap"}).trusts_senders


def test_a_network_that_nobody_would_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="hosts"):
        made(tmp_path, host={"allow_host_bash": True}, network={"mode": "egress", "allow": ["api.example.com"]})


def test_what_it_does_not_enforce_is_told(driver: Driver) -> None:
    report = driver.run()["report"]
    assert (report["isolation"], report["bash"]) == ("none", True)
    assert any("not isolated" in each for each in report["shortfalls"])


def test_the_environment_is_what_is_declared(driver: Driver) -> None:
    driver.settings |= {"environment": {"DECLARED": "yes"}}
    (result,) = driver.run(("env -0 | tr '\\0' '\\n'", SECONDS))["results"]
    found = dict(line.split("=", 1) for line in result["output"].splitlines())
    assert found["DECLARED"] == "yes"
    assert found["HOME"] == found["PWD"] == WORKSPACE
    assert not set(found) & {"PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS"}


def test_virtual_paths_are_those_of_the_files_and_host_paths_are_not_shown(driver: Driver) -> None:
    driver.files = {"a.txt": "text\n"}
    shown, moved = driver.run(
        (f"pwd; cat {WORKSPACE}/a.txt; ls $PWD/no; (cd /mnt/user-data && ls)", SECONDS),
        ("cp a.txt /mnt/user-data/outputs/b.txt && ls /mnt/user-data/outputs/", SECONDS),
    )["results"]
    assert shown["output"].splitlines()[:2] == [WORKSPACE, "text"]
    assert f"{WORKSPACE}/no" in shown["output"]
    assert str(driver.folder) not in shown["output"]
    assert moved["output"] == "b.txt\n"


def test_each_process_has_limits(driver: Driver) -> None:
    driver.settings |= {"limits": {"file_mb": 1, "open_files": 64, "cpu_seconds": 5, "memory_mb": 256, "processes": 32}}
    limits = Limits.of(SandboxSettings.model_validate(driver.settings).limits)
    told, large, forks = driver.run(
        ("ulimit -n -t -c", SECONDS),
        ("head -c 2000000 /dev/zero > large; stat -c %s large", SECONDS),
        (f"/usr/bin/python3 -c '{FORKS}'", SECONDS),
    )["results"]
    assert [line.split()[-1] for line in told["output"].splitlines()] == ["64", "5", "0"]
    assert large["output"].splitlines()[-1] == str(limits.file_size)
    # Of 100. One that ends at once, as there is no room for its program, makes room for another.
    assert 20 < int(forks["output"]) < 50


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(driver: Driver) -> None:
    mark = f"600.{uuid.uuid4().int % 10**9}"
    tree = f"(trap '' TERM HUP; setsid sleep {mark} & sleep {mark}) & nohup setsid sleep {mark} & sleep {mark}"
    (result,) = driver.run((tree, 1.0))["results"]
    assert result["ending"] == "timed_out"
    assert marked(mark) == []
