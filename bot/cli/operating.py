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
