"""The options of commands for operators: messages from scripts, backups, the log, upgrades."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, read, running_folder, settings_of, source_of


def send(
    chat: Annotated[str, typer.Argument(help="account:id of a person or a group, as `antler access list` shows it.")],
    text: Annotated[str, typer.Argument(help="Markdown; - reads it from standard input.")] = "",
    key: Annotated[
        str | None,
        typer.Option("--key", help="An idempotency key: a chat gets only one message with the same key."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file to send with it.", dir_okay=False, exists=True)
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Send even to a chat that the gateway never saw.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Send a message to a chat, for scripts and timers; while antler is stopped, it is sent at the next start."""
    settings, _ = settings_of(config, data_dir)
    from bot.operations.sending import run as do

    words = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n") if text == "-" else text
    raise typer.Exit(do(settings, chat, words, key=key, file=file, anyway=anyway))


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, NAME.tar.zst or NAME.tar.gz.")],
    no_files: Annotated[bool, typer.Option("--no-files", help="Leave out the files of threads.")] = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Include .env, tokens of MCP servers, and a config with secrets.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write all stored data to an archive, as of one moment; antler may keep running."""
    settings, path = settings_of(config, data_dir)
    from bot.backup.commands import backup as do
    from bot.doctor.config import written_secrets

    hidden = bool(written_secrets(settings, path))
    raise typer.Exit(do(settings, path, target, files=not no_files, secrets=with_secrets, config_is_secret=hidden))


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="An archive written by `antler backup`.", dir_okay=False, exists=True)
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", help="The data folder to create, instead of the config's.", file_okay=False, writable=True
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Move the folder's content aside; replace the data in PostgreSQL.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Create a data folder from an archive, after a check of its whole content. Antler must be stopped."""
    settings = read(source_of(config, to or data_dir), data_dir="--to" if to else "--data-dir")
    from bot.backup.commands import restore as do

    raise typer.Exit(do(settings, source, force=force))


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", help="30m, 2h, 3d, or a time such as 2026-11-23 or 2026-11-23T10:00.")
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option("-n", "--lines", min=0, max=10**9, help="How many of the newest. Default: 100; all with --since."),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show the gateway's log, from its file in the data folder; antler may be stopped."""
    from bot.cli.logs import NEWEST, BadTime, begin_of, show

    try:
        begin = begin_of(since) if since is not None else None
    except BadTime as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    if lines is None and begin is None:
        lines = NEWEST
    raise typer.Exit(show(running_folder(source_of(config, data_dir)), lines, begin, follow=follow))


def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Report whether a newer version exists; change nothing.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Compare the installed version with the newest one, and the database with what this version expects; exit 0 when
    there is nothing to do, else 1. Nothing is ever installed: see docs/upgrading.md."""
    if not check:
        raise typer.BadParameter("give --check; antler does not upgrade itself: see docs/upgrading.md")
    settings, _ = settings_of(config, data_dir)
    from bot.cli.upgrade import check as do

    raise typer.Exit(do(settings, as_json=as_json))
