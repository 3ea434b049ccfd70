"""`antler access`, `web`, `token`, `memory`: who may use the bot, how they sign in, what is remembered about people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, running_folder, settings_of, source_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

access = typer.Typer(help="Who may use the bot, in addition to those in the config.", no_args_is_help=True)
memory = typer.Typer(help="What is remembered about people and groups.", no_args_is_help=True)
token = typer.Typer(help="Tokens for programs that use the API.", no_args_is_help=True)

Remembered = Annotated[str, typer.Argument(metavar="KEY", help="As shown by the list, or the person's or group's id.")]


def _access(
    config: Path | None, data_dir: Path | None, do: Literal["list", "allow", "revoke"], **more: Any
) -> NoReturn:
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run

    raise typer.Exit(run(settings, do, **more))


def _memory(
    config: Path | None,
    data_dir: Path | None,
    do: Literal["list", "show", "export", "forget"],
    key: str = "",
    *,
    as_json: bool = False,
) -> NoReturn:
    settings, _ = settings_of(config, data_dir)
    from bot.memory.tool import run

    raise typer.Exit(run(settings, do, key, as_json=as_json))


def _sign_in(config: Path | None, data_dir: Path | None, do: str, **more: Any) -> NoReturn:
    folder = running_folder(source_of(config, data_dir))
    from bot.access.signin_tool import run

    raise typer.Exit(run(folder, do, **more))


@access.command("list")
def list_access(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show who has access, who is waiting for it and who is blocked."""
    _access(config, data_dir, "list", as_json=as_json)


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
    _access(config, data_dir, "allow", subject=subject, admin=admin, kind="group" if group else None)


@access.command("revoke")
def revoke_access(
    subject: Subject, group: AsGroup = False, config: ConfigFile = None, data_dir: DataDir = None
) -> None:
    """Block a person or a group at once, and stop what is running for them."""
    _access(config, data_dir, "revoke", subject=subject, kind="group" if group else None)


@memory.command("list")
def list_memories(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show which people and groups have memories: hashed keys, sizes, dates, and nothing else."""
    _memory(config, data_dir, "list", as_json=as_json)


@memory.command("show")
def show_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show what is remembered about one person or group."""
    _memory(config, data_dir, "show", key)


@memory.command("export")
def export_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print what is remembered about one person or group as JSON."""
    _memory(config, data_dir, "export", key)


@memory.command("forget")
def forget_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Forget everything that is remembered about a person or group; this cannot be undone."""
    _memory(config, data_dir, "forget", key)


def web(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print a one-time link that signs you in to the page as an administrator."""
    _sign_in(config, data_dir, "link")


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
    _sign_in(config, data_dir, "create", name=name, scopes=scope or [], person=person, days=days)


@token.command("list")
def list_tokens(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """List the existing tokens, without their secret values."""
    _sign_in(config, data_dir, "list", as_json=as_json)


@token.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(help="Its name or id, as the list shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a token at once."""
    _sign_in(config, data_dir, "revoke", name=name)
