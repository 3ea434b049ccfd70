"""The unit of `antler service`: its text, as systemd reads it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from bot.__main__ import app
from bot.cli import service
from bot.cli.service import Installation, installation, journal
from bot.settings import Settings
from tests.parts import missing

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = Path('/srv/my "antler"/100%$HOME')
FORBIDDEN = {
    *("RestrictNamespaces", "PrivateUsers", "ProtectControlGroups", "ProtectKernelTunables", "ProtectKernelLogs"),
    *("ProtectHostname", "ProtectProc", "ProcSubset", "SystemCallFilter", "MemoryDenyWriteExecute"),
}
"""What keeps bubblewrap from working, or what commands could not live with."""


def made(user: str | None = "antler", data: Path = Path("/srv/antler"), program: str = "/opt/antler") -> Installation:
    return Installation(
        program=(program,), config=data / "config.yaml", writable=(data,), readable=(), grace=30, user=user
    )


def parsed(unit: str) -> dict[str, dict[str, str]]:
    """Sections, each a value by name; nothing may stand outside of one, nor twice."""
    sections: dict[str, dict[str, str]] = {}
    for line in unit.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        assert name not in current
        current[name] = value
    return sections


def test_a_unit_of_the_machine() -> None:
    unit = parsed(made().unit())
    run = unit["Service"]
    assert (run["Type"], run["NotifyAccess"], run["Delegate"], run["User"]) == ("notify", "main", "yes", "antler")
    assert shlex.split(run["ExecStart"]) == ["/opt/antler", "run", "--config", "/srv/antler/config.yaml"]
    assert (run["Restart"], run["RestartPreventExitStatus"]) == ("on-failure", "77 78")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "a full disk may last"
    assert int(run["TimeoutStopSec"]) > 30
    assert int(run["WatchdogSec"]) == 60
    assert (run["ProtectSystem"], run["ReadWritePaths"]) == ("strict", '"/srv/antler"')
    assert (run["ProtectHome"], run["PrivateTmp"], run["NoNewPrivileges"]) == ("yes", "yes", "yes")
    assert run["CapabilityBoundingSet"] == ""
    assert not FORBIDDEN & run.keys()
    assert unit["Install"] == {"WantedBy": "multi-user.target"}


def test_roots_unit_keeps_its_rights_and_a_users_own_makes_no_namespaces() -> None:
    root = parsed(made("root").unit())["Service"]
    assert ("User" in root, "CapabilityBoundingSet" in root, root["ProtectSystem"]) == (False, False, "strict")
    own = parsed(made(None).unit())
    assert not {"User", "ProtectSystem", "ProtectHome", "PrivateTmp", "CapabilityBoundingSet"} & own["Service"].keys()
    assert not FORBIDDEN & own["Service"].keys()
    assert "After" not in own["Unit"]
    assert own["Install"] == {"WantedBy": "default.target"}


def test_folders_that_it_needs_are_not_hidden() -> None:
    at_home = parsed(made(data=Path("/home/ann/antler")).unit())["Service"]
    assert (at_home["ProtectHome"], at_home["ReadWritePaths"]) == ("read-only", '"/home/ann/antler"')
    assert parsed(made(program="/root/venv/bin/antler").unit())["Service"]["ProtectHome"] == "read-only"
    assert "PrivateTmp" not in parsed(made(data=Path("/tmp/antler")).unit())["Service"]


@pytest.mark.parametrize("user", ["root", None], ids=["system", "user"])
@pytest.mark.parametrize("odd", [False, True])
def test_systemd_finds_nothing_wrong(tmp_path: Path, user: str | None, odd: bool) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze (apt-get install systemd)")
    unit = made(user, ODD if odd else Path("/srv/antler"), shutil.which("true") or "").unit()
    file = tmp_path / "antler.service"
    file.write_text(unit)
    command = ["systemd-analyze", "--man=no", *(["--user"] if user is None else []), "verify", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    about_it = [line for line in (done.stdout + done.stderr).splitlines() if "antler" in line]
    assert about_it == []
    assert done.returncode == 0 or user is None  # a user's manager also looks for what a test has not (XDG_RUNTIME_DIR)


def test_paths_are_written_as_systemd_reads_them() -> None:
    run = parsed(made(data=ODD).unit())["Service"]
    assert run["ExecStart"].endswith('"--config" "/srv/my \\"antler\\"/100%%$$HOME/config.yaml"')
    assert run["ReadWritePaths"] == '"/srv/my \\"antler\\"/100%%$HOME"'
    assert run["WorkingDirectory"] == '/srv/my "antler"/100%%$HOME'


def test_own_skills_elsewhere_can_be_written(tmp_path: Path) -> None:
    config = {
        "channels": {"console": {}},
        "data_dir": tmp_path / "data",
        "skills": {"custom": str(tmp_path / "skills")},
    }
    found = installation(Settings.model_validate(config), tmp_path / "config.yaml", "antler")
    assert found.writable == (tmp_path / "data", tmp_path / "skills")
    assert found.program[-1].endswith(("antler", "bot"))


def test_paths_of_the_config_are_not_hidden_and_mounts_can_be_written(tmp_path: Path) -> None:
    mounts = [
        {"path": "/mnt/drafts", "host": "/srv/drafts", "read_only": False},
        {"path": "/mnt/reports", "host": "/srv/reports"},
    ]
    base = {"channels": {"console": {}}, "data_dir": "/srv/antler", "agents_dir": "/srv/agents"}
    config = base | {"sandbox": {"mounts": mounts}}
    unit = installation(Settings.model_validate(config), Path("/srv/config.yaml"), "antler").unit()
    assert parsed(unit)["Service"]["ReadWritePaths"] == '"/srv/antler" "/srv/drafts"'
    tls = {"cert": "/home/ada/antler.crt", "key": "/home/ada/antler.key"}
    for more in (
        {"http": {"listen": "127.0.0.1:8443", "tls": tls}},
        {"knowledge": {"enabled": True, "folders": [{"name": "handbook", "path": "/home/ada/handbook"}]}},
        {"sandbox": {"mounts": [{"path": "/mnt/reports", "host": "/home/ada/reports"}]}},
    ):
        found = installation(Settings.model_validate(base | more), Path("/srv/config.yaml"), "antler")
        assert Path("/home/ada") in {parent for path in found.readable for parent in path.parents}


@pytest.fixture
def at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs `antler service` where systemd is not the init."""
    (tmp_path / "config.yaml").write_text(f"channels: {{console: {{}}}}\ndata_dir: {tmp_path}/data\n")
    monkeypatch.setattr(service, "RUNNING", tmp_path / "no-systemd")

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["service", *arguments])
        return done.exit_code, done.output

    return run


def test_where_systemd_does_not_run_it_says_what_to_do(tmp_path: Path, at_rest: Callable[..., tuple[int, str]]) -> None:
    config = ("--config", str(tmp_path / "config.yaml"))
    for arguments in (("install", *config), ("uninstall",), ("status",), ("logs",)):
        code, said = at_rest(*arguments)
        assert (code, "systemd is not running here" in said, "--print" in said) == (1, True, True)
    assert not (tmp_path / "data").exists()
    code, unit = at_rest("install", "--print", "--system", "--run-as", "somebody", *config)
    assert (code, parsed(unit)["Service"]["User"]) == (0, "somebody")
    assert not (tmp_path / "data").exists()


def test_a_user_that_the_machine_does_not_have_is_named(
    tmp_path: Path, at_rest: Callable[..., tuple[int, str]]
) -> None:
    config = ("--system", "--config", str(tmp_path / "config.yaml"))
    code, said = at_rest("install", *config, "--run-as", "no-such-user")
    assert (code, said) == (1, "antler: there is no user no-such-user: name another with --run-as\n")
    if os.geteuid() == 0:
        os.chown(tmp_path / "config.yaml", 4242, -1)
        code, said = at_rest("install", *config)
        assert (code, "config.yaml is not a user of this machine: name another" in said) == (1, True)


def test_the_journal_is_that_of_the_unit() -> None:
    assert journal(False, 5, follow=True) == [
        "journalctl", "--unit=antler.service", "--lines=5", "--output=cat", "--follow",
    ]  # fmt: skip
    assert journal(True, 5, follow=False)[1] == "--user-unit=antler.service"
