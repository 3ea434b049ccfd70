"""The command line, `antler` or `python -m bot`. Commands import what they need, so that a quick one stays quick."""

from __future__ import annotations

import os
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bot.settings import Settings

EXIT_USAGE = 2
EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h: the configuration has to be changed before a restart makes sense."""

app = typer.Typer(
    help="Antler, a chat gateway for agents on your own machine.",
    epilog="Exit codes: 0 all well, 1 failure, 2 wrong usage, 78 configuration error.",
    no_args_is_help=True,
    add_completion=False,
    # Its tracebacks print local variables, and those hold secrets.
    pretty_exceptions_enable=False,
)

accounts = typer.Typer(help="The accounts of this data folder.", no_args_is_help=True)
app.add_typer(accounts, name="account")

people = typer.Typer(help="Who may use the bot, besides whom the config lists.", no_args_is_help=True)
app.add_typer(people, name="access")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The config file. Default: ./config.yaml if there is one, else the terminal "
    "and the demo model.", show_default=False),
]  # fmt: skip
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where everything is kept; overrides data_dir of the config.", show_default=False),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", help="debug, info, warning or error; overrides log.level.", show_default=False),
]


@app.command()
def run(config: ConfigFile = None, data_dir: DataDir = None, log_level: LogLevel = None) -> None:
    """Start the gateway and serve until SIGTERM or Ctrl-C; a second Ctrl-C does not wait."""
    from bot import heap

    heap.hold()
    settings, path = _settings(config, data_dir, log_level)
    from bot.app import serve

    raise typer.Exit(serve(settings, path))


@app.command()
def console(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Talk to the agent in this terminal, through the running gateway if there is one."""
    settings, path = _settings(config, data_dir)
    from bot.app import console as talk

    raise typer.Exit(talk(settings, path))


@app.command()
def status(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    check: Annotated[bool, typer.Option("--check", help="Print nothing; exit 0 if healthy, else 1.")] = False,
) -> None:
    """Show what the running gateway is doing."""
    settings, _ = _settings(config, data_dir)
    from bot.control import status as report

    raise typer.Exit(report(settings, check=check))


@app.command("check-config")
def check_config(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Check the configuration and try the sandbox, without starting the gateway; print a summary, or every problem
    found (exit code 78)."""
    settings, path = _settings(config, data_dir)
    from bot import servers
    from bot.sandboxes import probe
    from bot.settings.summary import describe

    typer.echo(f"config    {path or 'none: the built-in default'}")
    typer.echo(describe(settings))
    typer.echo(f"sandbox   {probe(settings)}")
    for server in servers.probe(settings):
        typer.echo(f"mcp       {server}")
    typer.echo("OK")


@app.command()
def pair(
    code: Annotated[str | None, typer.Argument(help="The code that the person got from the bot.")] = None,
    claim: Annotated[
        bool, typer.Option("--claim", help="Print a new code that makes whoever sends it to the bot administrator.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Let the person in who was given CODE by the bot."""
    if (code is None) is not claim:
        raise typer.BadParameter("give either CODE or --claim")
    settings, _ = _settings(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "claim") if code is None else do(settings, "pair", code=code))


@people.command("list")
def list_access(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show who has access, who waits for it and who was shut out."""
    settings, _ = _settings(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "list"))


Subject = Annotated[str, typer.Argument(metavar="ID", help="A person or a group: account:id, as the list shows it.")]
AsGroup = Annotated[
    bool, typer.Option("--group", help="ID is a group's. Only needed where the platform's ids do not tell.")
]


@people.command("allow")
def allow_access(
    subject: Subject,
    group: AsGroup = False,
    admin: Annotated[bool, typer.Option("--admin", help="As an administrator.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Let a person or a group in, from the next message on."""
    settings, _ = _settings(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "allow", subject=subject, admin=admin, kind="group" if group else None))


@people.command("revoke")
def revoke_access(
    subject: Subject, group: AsGroup = False, config: ConfigFile = None, data_dir: DataDir = None
) -> None:
    """Shut a person or a group out at once; what is under way for it is stopped."""
    settings, _ = _settings(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "revoke", subject=subject, kind="group" if group else None))


@accounts.command("rename")
def rename_account(
    old: Annotated[str, typer.Argument(help="Its key in the config until now.")],
    new: Annotated[str, typer.Argument(help="Its key from now on.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Give an account another name, its conversations with it. Antler must be stopped."""
    settings, _ = _settings(config, data_dir)
    from bot.maintenance import rename_account as rename

    raise typer.Exit(rename(settings, old, new))


@app.command()
def manifest(
    platform: Annotated[str, typer.Argument(help="The platform's name, as in the config.")],
    name: Annotated[str, typer.Option("--name", help="What the app is to be called there.")] = "Antler",
) -> None:
    """Print the text with which the bot's app is created on a platform, to be pasted there."""
    from channels.registry import NoManifest, UnknownPlatform
    from channels.registry import manifest as manifest_of

    try:
        typer.echo(manifest_of(platform, name))
    except (UnknownPlatform, NoManifest) as error:
        typer.echo(f"antler: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from None


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"antler {installed_version('antler')}")


def _settings(config: Path | None, data_dir: Path | None, log_level: str | None = None) -> tuple[Settings, Path | None]:
    """The settings and the file they came from; prints all problems and leaves with 78 when there are any."""
    from bot.settings import ConfigError, load

    if config is None and Path("config.yaml").exists():
        config = Path("config.yaml")
    given = {"data_dir": str(data_dir) if data_dir else None, "log.level": log_level}
    try:
        return load(config, os.environ, {key: value for key, value in given.items() if value is not None}), config
    except ConfigError as error:
        typer.echo(error, err=True)
        count = len(error.problems)
        typer.echo(f"antler: {count} configuration problem{'' if count == 1 else 's'}; nothing was started", err=True)
        raise typer.Exit(EXIT_CONFIG) from None


def main() -> None:
    """The entry point of the `antler` command."""
    app(prog_name="antler")


if __name__ == "__main__":
    main()
