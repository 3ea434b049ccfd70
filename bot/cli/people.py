"""`antler access` and `antler memory`: who may use the bot, and what is remembered of people."""

from __future__ import annotations

from typing import Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, settings_of

access = typer.Typer(help="Who may use the bot, in addition to those in the config.", no_args_is_help=True)
memory = typer.Typer(help="What is remembered about people and groups.", no_args_is_help=True)

Remembered = Annotated[str, typer.Argument(metavar="KEY", help="As the list shows it, or the person's or group's id.")]


@access.command("list")
def list_access(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show who has access, who waits for it and who was shut out."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "list", as_json=as_json))


Subject = Annotated[str, typer.Argument(metavar="ID", help="A person or a group: account:id, as the list shows it.")]
AsGroup = Annotated[
    bool, typer.Option("--group", help="ID is a group's. Only needed where the platform's ids do not tell.")
]


@access.command("allow")
def allow_access(
    subject: Subject,
    group: AsGroup = False,
    admin: Annotated[bool, typer.Option("--admin", help="As an administrator.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Let a person or a group in, from the next message on."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "allow", subject=subject, admin=admin, kind="group" if group else None))


@access.command("revoke")
def revoke_access(
    subject: Subject, group: AsGroup = False, config: ConfigFile = None, data_dir: DataDir = None
) -> None:
    """Block a person or a group at once; what is running for it is stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "revoke", subject=subject, kind="group" if group else None))


@memory.command("list")
def list_memories(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show of how many persons and groups something is remembered: hashed keys, sizes, dates, and nothing else."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "list", as_json=as_json))


@memory.command("show")
def show_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show what is remembered of one person or group."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "show", key))


@memory.command("export")
def export_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print what is remembered of one person or group as JSON."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "export", key))


@memory.command("forget")
def forget_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Forget everything that is remembered about a person or group; this cannot be undone."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "forget", key))
