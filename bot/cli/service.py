"""`antler service`: the systemd unit that starts Antler, keeps it running, and confines it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.cli.options import ConfigFile, DataDir, settings_of

if TYPE_CHECKING:
    from bot.settings import Settings

app = typer.Typer(help="Antler as a service of systemd.", no_args_is_help=True)

UNIT = "antler.service"
RUNNING = Path("/run/systemd/system")
"""Exists where systemd is the machine's init (sd_booted(3))."""
WATCHDOG_SECONDS = 60
START_SECONDS = 300
STOP_RESERVE = 10
"""Seconds after the grace period until systemd kills the process."""
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")
NO_SYSTEMD = (
    "systemd does not run here. `antler service install --print` prints the unit for another machine; in a container, "
    "or with another supervisor, let that start `antler run` (docs/operating.md)"
)

User = Annotated[
    bool | None,
    typer.Option("--user/--system", help="The user's own systemd, or the machine's. Default: as root the machine's."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The values of a unit. user: None for a unit of the user's own systemd. writable: folders that it writes to."""

    program: tuple[str, ...]
    config: Path
    writable: tuple[Path, ...]
    readable: tuple[Path, ...]
    grace: float
    user: str | None

    def unit(self) -> str:
        """The text of the unit file."""
        of_machine = self.user is not None
        network = ["Wants=network-online.target", "After=network-online.target"] if of_machine else []
        command = " ".join(
            _quoted(word).replace("$", "$$") for word in (*self.program, "run", "--config", str(self.config))
        )
        return "\n".join(
            [
                "# Made by `antler service install`; `systemctl edit antler` changes it lastingly.",
                "[Unit]",
                "Description=Antler, a chat gateway for agents",
                *network,
                "StartLimitIntervalSec=300",
                "StartLimitBurst=10",
                "",
                "[Service]",
                "Type=notify",
                "NotifyAccess=main",
                f"ExecStart={command}",
                "ExecReload=/bin/kill -HUP $MAINPID",
                f"WorkingDirectory={_raw(self.config.parent)}",
                *([f"User={self.user}"] if self.user not in (None, "root") else []),
                "Restart=on-failure",
                "RestartSec=2",
                "# Another program has taken over the account, or the config is wrong: a restart would not help.",
                "RestartPreventExitStatus=77 78",
                f"TimeoutStartSec={START_SECONDS}",
                f"TimeoutStopSec={round(self.grace) + STOP_RESERVE}",
                f"WatchdogSec={WATCHDOG_SECONDS}",
                "KillMode=mixed",
                "# Limits on the commands of each thread together are control groups of Antler's own.",
                "Delegate=yes",
                "OOMPolicy=continue",
                "UMask=0077",
                "LimitCORE=0",
                "LimitNOFILE=65536",
                *self._hardening(),
                "",
                "[Install]",
                f"WantedBy={'multi-user.target' if of_machine else 'default.target'}",
                "",
            ]
        )

    def _hardening(self) -> list[str]:
        """Confinement that bubblewrap can work under: it creates user namespaces and mounts /proc in them, which the
        kernel allows only while nothing is mounted over parts of /proc. So there is no ProtectKernelTunables,
        ProtectKernelLogs, ProtectHostname or ProtectProc, no RestrictNamespaces, PrivateUsers or ProtectControlGroups;
        and no SystemCallFilter or MemoryDenyWriteExecute, which the agent's commands would inherit."""
        lines = [
            "# What bubblewrap and control groups survive (docs/operating.md).",
            "NoNewPrivileges=yes",
            "LockPersonality=yes",
            "RestrictRealtime=yes",
            "SystemCallArchitectures=native",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        ]
        if self.user is None:
            return lines  # the rest would need a user namespace, in which commands cannot get their own
        places = [Path(self.program[0]), self.config, *self.writable, *self.readable]
        lines += [
            "ProtectSystem=strict",
            "ReadWritePaths=" + " ".join(_quoted(str(folder)) for folder in self.writable),
            f"ProtectHome={'read-only' if _any_below(places, HOMES) else 'yes'}",
            "ProtectKernelModules=yes",
            "ProtectClock=yes",
        ]
        lines += [] if _any_below(places, TEMPORARY) else ["PrivateTmp=yes"]
        return lines if self.user == "root" else [*lines, "CapabilityBoundingSet="]


def _any_below(places: list[Path], folders: tuple[str, ...]) -> bool:
    return any(place.is_relative_to(folder) for place in places for folder in folders)


def _raw(path: Path) -> str:
    """A path for settings that take the rest of the line."""
    return str(path).replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a list or a command, quoted (systemd.syntax(7), systemd.service(5))."""
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(sign, escaped)
    return f'"{word}"'


def installation(settings: Settings, config: Path, user: str | None) -> Installation:
    """The installation on this machine, for a user of the machine, or for the calling user (None)."""
    script = Path(sys.executable).with_name("antler")
    elsewhere = (settings.agents_dir, settings.custom_skills)
    outside = [folder for folder in elsewhere if not folder.is_relative_to(settings.data_dir)]
    return Installation(
        program=(str(script),) if script.exists() else (sys.executable, "-m", "bot"),
        config=config.absolute(),
        # Custom skills are installed there, and changed by the agent.
        writable=(settings.data_dir, *(folder for folder in outside if folder == settings.custom_skills)),
        readable=(settings.agents_dir, Path(sys.base_prefix)),
        grace=settings.shutdown_grace_seconds,
        user=user,
    )


@app.command("install")
def install_service(
    user: User = None,
    run_as: Annotated[
        str | None,
        typer.Option("--run-as", help="With --system: the user to run as. Default: the owner of the config file."),
    ] = None,
    printed: Annotated[bool, typer.Option("--print", help="Print the unit and change nothing.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write the unit, start it, and enable it at boot."""
    settings, path = settings_of(config, data_dir)
    if path is None:
        raise _refused("a service needs a config: `antler init` writes one; name another with --config")
    if data_dir is not None:
        raise _refused("a service takes data_dir from its config: write it there instead of giving --data-dir")
    own = _is_users(user)
    owner = None if own else run_as or pwd.getpwuid(path.stat().st_uid).pw_name
    made = installation(settings, path, owner)
    if printed:
        typer.echo(made.unit(), nl=False)
        return
    _need_systemd()
    _make_folders(made)
    file = _folder(own) / UNIT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(made.unit())
    file.chmod(0o644)
    if shutil.which("systemd-analyze") is not None:
        subprocess.run(["systemd-analyze", *_scope(own), "verify", str(file)], check=False)
    _systemctl(own, "daemon-reload")
    _systemctl(own, "enable", "--now", UNIT)
    typer.echo(f"{file}: enabled and started{f' as {owner}' if owner else ''}; `antler service status` shows it")
    if owner == "root":
        typer.echo("It runs as root: --run-as USER takes another user, who must be able to read the config.")
    if own:
        typer.echo("`sudo loginctl enable-linger $USER` lets it run while you are not logged in.")


def _make_folders(made: Installation) -> None:
    """Create the folders of ReadWritePaths, which must exist and belong to the user that writes to them."""
    for folder in made.writable:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            if made.user is not None:
                shutil.chown(folder, made.user, pwd.getpwnam(made.user).pw_gid)


@app.command("uninstall")
def uninstall_service(user: User = None) -> None:
    """Stop the service and remove its unit; the data stays."""
    _need_systemd()
    own = _is_users(user)
    file = _folder(own) / UNIT
    if not file.exists():
        raise _refused(f"there is no {file}; --user or --system names the other place")
    _systemctl(own, "disable", "--now", UNIT)
    file.unlink()
    _systemctl(own, "daemon-reload")
    typer.echo(f"{file}: stopped and removed; the data stays")


@app.command("status")
def service_status(user: User = None) -> None:
    """Show the service's state in systemd, with the exit code of systemctl."""
    _need_systemd()
    code = subprocess.run(["systemctl", *_scope(_is_users(user)), "status", "--no-pager", UNIT], check=False).returncode
    raise typer.Exit(code)


@app.command("logs")
def service_logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", help="How many of the newest.")] = 100,
    user: User = None,
) -> None:
    """Show the service's journal."""
    _need_systemd()
    raise typer.Exit(subprocess.run(journal(_is_users(user), lines, follow=follow), check=False).returncode)


def journal(own: bool, lines: int, *, follow: bool) -> list[str]:
    """The command that shows the unit's journal."""
    unit = "--user-unit" if own else "--unit"
    return ["journalctl", f"{unit}={UNIT}", f"--lines={lines}", "--output=cat", *(["--follow"] if follow else [])]


def _is_users(user: bool | None) -> bool:
    return os.geteuid() != 0 if user is None else user


def _folder(own: bool) -> Path:
    if not own:
        return Path("/etc/systemd/system")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _scope(own: bool) -> list[str]:
    return ["--user"] if own else []


def _need_systemd() -> None:
    if not RUNNING.is_dir() or shutil.which("systemctl") is None:
        raise _refused(NO_SYSTEMD)


def _systemctl(own: bool, *arguments: str) -> None:
    done = subprocess.run(["systemctl", *_scope(own), *arguments], check=False)
    if done.returncode:
        raise _refused(f"`systemctl {' '.join([*_scope(own), *arguments])}` failed; `antler service logs` may say why")


def _refused(reason: str) -> typer.Exit:
    typer.echo(f"antler: {reason}", err=True)
    return typer.Exit(1)
