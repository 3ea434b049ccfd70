"""The options of the commands by which a gateway is kept running: messages from scripts, copies, service, log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import ConfigFile, DataDir, settings_of


def send(
    chat: Annotated[str, typer.Argument(help="account:id of a person or a group, as `antler access list` shows it.")],
    text: Annotated[str, typer.Argument(help="Markdown; - reads it from the standard input.")] = "",
    key: Annotated[
        str | None,
        typer.Option("--key", help="A name for this message: given again for the same chat, nothing is sent twice."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file to send with it.", dir_okay=False, exists=True)
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also to a chat that the gateway never saw.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write into a chat, for scripts and timers; while antler is stopped, it is sent at the next start."""
    settings, _ = settings_of(config, data_dir)
    from bot.operations.sending import run as do

    words = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n") if text == "-" else text
    raise typer.Exit(do(settings, chat, words, key=key, file=file, anyway=anyway))


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, NAME.tar.zst or NAME.tar.gz.")],
    no_files: Annotated[bool, typer.Option("--no-files", help="Without the files of threads.")] = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="With .env, tokens of MCP servers, and a config that holds secrets.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write all that is kept into an archive, as it is at one moment; antler may run meanwhile."""
    settings, path = settings_of(config, data_dir)
    from bot.backup.commands import backup as do
    from bot.doctor.config import written_secrets

    hidden = bool(written_secrets(settings, path))
    raise typer.Exit(do(settings, path, target, files=not no_files, secrets=with_secrets, config_is_secret=hidden))


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `antler backup` wrote.", dir_okay=False, exists=True)
    ],
    to: Annotated[Path | None, typer.Option("--to", help="The data folder to make, instead of the config's.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Set aside what is in the folder; replace what is in PostgreSQL.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Make a data folder from an archive, after a check of all that is in it. Antler must be stopped."""
    settings, _ = settings_of(config, to or data_dir)
    from bot.backup.commands import restore as do

    raise typer.Exit(do(settings, source, force=force))
