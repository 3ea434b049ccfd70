"""Options common to most commands of the command line, and the settings that result from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.settings.load import SettingsSource

EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h: the configuration has to be changed before a restart makes sense."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The config file. Default: ./config.yaml if it exists, else the terminal "
    "and the demo model.", show_default=False),
]  # fmt: skip
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where all data is stored; overrides data_dir of the config.", show_default=False),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", help="debug, info, warning or error; overrides log.level.", show_default=False),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def settings_of(config: Path | None, data_dir: Path | None) -> tuple[Settings, Path | None]:
    """The settings and the file they came from; prints all problems and exits with 78 if there are any."""
    source = source_of(config, data_dir)
    return read(source), source.path


def source_of(config: Path | None, data_dir: Path | None, log_level: str | None = None) -> SettingsSource:
    from bot.settings.load import SettingsSource

    if config is None and os.path.exists("config.yaml"):
        config = Path("config.yaml")
    given = {"data_dir": str(data_dir) if data_dir else None, "log.level": log_level}
    return SettingsSource(config, {key: value for key, value in given.items() if value is not None})


def running_folder(source: SettingsSource) -> Path:
    """The data folder. While a process serves it, faults in the rest of the config do not matter, as that process
    continues as before. Otherwise as settings_of."""
    from bot.control.server import SOCKET

    folder = source.data_dir()
    if folder is not None and os.path.exists(folder / SOCKET):  # False where the folder belongs to another user
        return folder
    return read(source, "to query a running antler, give its --data-dir").data_dir


def read(source: SettingsSource, otherwise: str = "nothing was started", data_dir: str = "--data-dir") -> Settings:
    """The settings, as `settings_of`. otherwise: what the problems mean. data_dir: the command's option for it."""
    from bot.settings import ConfigError

    try:
        return source.read()
    except ConfigError as error:
        typer.echo(str(error).replace("command line: --data-dir:", f"command line: {data_dir}:"), err=True)
        count = len(error.problems)
        raise ended(f"{count} configuration problem{'' if count == 1 else 's'}; {otherwise}", EXIT_CONFIG) from None


def ended(why: object, code: int = 1) -> typer.Exit:
    """The exit of a command that cannot do its work, once the reason is on the terminal."""
    typer.echo(f"antler: {why}", err=True)
    return typer.Exit(code)
