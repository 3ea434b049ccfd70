"""`antler memory`: what is remembered, without its contents unless they are asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from bot.cli.options import ConfigFile, DataDir, settings_of

app = typer.Typer(help="What is remembered of persons and groups.", no_args_is_help=True)


Remembered = Annotated[str, typer.Argument(metavar="KEY", help="As the list shows it, or the person's or group's id.")]


@app.command("list")
def list_memories(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show of how many persons and groups something is remembered: hashed keys, sizes, dates, and nothing else."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "list"))


@app.command("show")
def show_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show what is remembered of one person or group."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "show", key))


@app.command("export")
def export_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print what is remembered of one person or group as JSON."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "export", key))


@app.command("forget")
def forget_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Forget all that is remembered of one person or group; it cannot be undone."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "forget", key))
