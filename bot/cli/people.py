"""`antler access`, `web`, `token`, `memory`: who may use the bot, how they sign in, what is remembered about people."""

from __future__ import annotations

from typing import Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, running_folder, settings_of, source_of

access = typer.Typer(help="Who may use the bot, in addition to those in the config.", no_args_is_help=True)
memory = typer.Typer(help="What is remembered about people and groups.", no_args_is_help=True)
token = typer.Typer(help="Tokens for programs that use the API.", no_args_is_help=True)

Remembered = Annotated[str, typer.Argument(metavar="KEY", help="As shown by the list, or the person's or group's id.")]


@access.command("list")
def list_access(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show who has access, who is waiting for it and who is blocked."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "list", as_json=as_json))


Subject = Annotated[str, typer.Argument(metavar="ID", help="A person or a group: account:id, as the list shows it.")]
AsGroup = Annotated[
    bool, typer.Option("--group", help="ID is a group's. Only needed where the platform's ids do not show it.")
]


@access.command("allow")
def allow_access(
    subject: Subject,
    group: AsGroup = False,
    admin: Annotated[bool, typer.Option("--admin", help="Make the person an administrator.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Give a person or a group access, from the next message on."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "allow", subject=subject, admin=admin, kind="group" if group else None))


@access.command("revoke")
def revoke_access(
    subject: Subject, group: AsGroup = False, config: ConfigFile = None, data_dir: DataDir = None
) -> None:
    """Block a person or a group at once, and stop what is running for them."""
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "revoke", subject=subject, kind="group" if group else None))


@memory.command("list")
def list_memories(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show which people and groups have memories: hashed keys, sizes, dates, and nothing else."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "list", as_json=as_json))


@memory.command("show")
def show_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show what is remembered about one person or group."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "show", key))


@memory.command("export")
def export_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print what is remembered about one person or group as JSON."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "export", key))


@memory.command("forget")
def forget_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Forget everything that is remembered about a person or group; this cannot be undone."""
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "forget", key))


def web(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print a one-time link that signs you in to the page as an administrator."""
    folder = running_folder(source_of(config, data_dir))
    from bot.access.signin_tool import run as do

    raise typer.Exit(do(folder, "link"))


@token.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for, such as the name of the program.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, threads, runs, operate or admin; may be given several times. "
                     "Default: read, threads and runs.", show_default=False),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option("--person", help="account:id of the person it acts for, with their memory and files. "
                     "Default: a separate identity.", show_default=False),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Days until it expires.", show_default=False)
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Create a token and print it; it is not shown again."""
    folder = running_folder(source_of(config, data_dir))
    from bot.access.signin_tool import run as do

    raise typer.Exit(do(folder, "create", name=name, scopes=scope or [], person=person, days=days))


@token.command("list")
def list_tokens(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """List the existing tokens, without their secret values."""
    folder = running_folder(source_of(config, data_dir))
    from bot.access.signin_tool import run as do

    raise typer.Exit(do(folder, "list", as_json=as_json))


@token.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(help="Its name or id, as the list shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a token at once."""
    folder = running_folder(source_of(config, data_dir))
    from bot.access.signin_tool import run as do

    raise typer.Exit(do(folder, "revoke", name=name))
