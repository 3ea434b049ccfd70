"""The command line, `antler` or `python -m bot`. Commands import what they need, so that a quick one stays quick."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.settings.source import SettingsSource

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

memories = typer.Typer(help="What is remembered of persons and groups.", no_args_is_help=True)
app.add_typer(memories, name="memory")

skills = typer.Typer(help="The skills of this installation.", no_args_is_help=True)
app.add_typer(skills, name="skills")

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
    source = _source(config, data_dir, log_level)
    settings = _read(source)
    from bot.app import serve

    raise typer.Exit(serve(settings, source))


@app.command()
def console(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Talk to the agent in this terminal, through the running gateway if there is one."""
    source = _source(config, data_dir)
    settings = _read(source)
    from bot.app import console as talk

    raise typer.Exit(talk(settings, source))


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


@app.command()
def reload(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Let the running gateway read its config now; it also does so by itself when the file is written."""
    settings = _read(_source(config, data_dir), "nothing was changed")
    from bot.control import reload as ask_for_it

    raise typer.Exit(ask_for_it(settings))


@app.command("check-config")
def check_config(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Check the configuration and try the sandbox, without starting the gateway; print a summary, or every problem
    found (exit code 78)."""
    settings, path = _settings(config, data_dir)
    from bot import servers, skill_tool
    from bot.sandboxes import probe
    from bot.settings.summary import describe

    typer.echo(f"config    {path or 'none: the built-in default'}")
    typer.echo(describe(settings))
    typer.echo(f"sandbox   {probe(settings)}")
    typer.echo(f"skills    {skill_tool.summary(settings)}")
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


@app.command()
def forget(
    person: Annotated[str, typer.Argument(help="account:id, as `antler access list` shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Delete what is kept of a person, as /forget me does (docs/privacy.md); it cannot be undone."""
    settings, _ = _settings(config, data_dir)
    from bot.forgetting.tool import run as do

    raise typer.Exit(do(settings, person))


@skills.command("list")
def list_skills(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show the skills that everybody has, and what is wrong with others."""
    settings, _ = _settings(config, data_dir)
    from bot import skill_tool

    raise typer.Exit(skill_tool.list_skills(settings))


@skills.command("validate")
def validate_skills(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A skill's folder, or one of several; without it, those of the config.", file_okay=False, exists=True
        ),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Say what is wrong with skills; exit 1 if one cannot be used. Those of FOLDER are held to the rules of install."""
    from bot import skill_tool

    if folder is not None:
        raise typer.Exit(skill_tool.validate_folder(folder))
    settings, _ = _settings(config, data_dir)
    raise typer.Exit(skill_tool.validate(settings))


@skills.command("install")
def install_skill(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="An archive, NAME.skill.", dir_okay=False, exists=True)
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Also where there is one of this name.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Install a skill for everybody, after a check of all that is in it."""
    settings, _ = _settings(config, data_dir)
    from bot import skill_tool

    raise typer.Exit(skill_tool.install(settings, archive, replace=replace))


@skills.command("waiting")
def waiting_skills(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show the skills that are off until an administrator agrees to what they hold, with the reasons."""
    settings, _ = _settings(config, data_dir)
    from bot.skill_waiting import list_waiting

    raise typer.Exit(list_waiting(settings))


@skills.command("on")
def agree_to_skill(
    name: Annotated[str, typer.Argument(help="Of a skill that waits.")],
    digest: Annotated[str, typer.Argument(help="Of what it holds, as `antler skills waiting` shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Agree to what a skill holds, exactly as it is now: it is used from the next answer on."""
    settings, _ = _settings(config, data_dir)
    from bot.skill_waiting import agree

    raise typer.Exit(agree(settings, name, digest))


@skills.command("remove")
def remove_skill(
    name: Annotated[str, typer.Argument(help="Of one of this installation's own skills.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Take away one of this installation's own skills: from its next answer on the agent does not have it."""
    settings, _ = _settings(config, data_dir)
    from bot import skill_tool

    raise typer.Exit(skill_tool.remove(settings, name))


Remembered = Annotated[str, typer.Argument(metavar="KEY", help="As the list shows it, or the person's or group's id.")]


@memories.command("list")
def list_memories(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show of how many persons and groups something is remembered: hashed keys, sizes, dates, and nothing else."""
    settings, _ = _settings(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "list"))


@memories.command("show")
def show_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show what is remembered of one person or group."""
    settings, _ = _settings(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "show", key))


@memories.command("export")
def export_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Print what is remembered of one person or group as JSON."""
    settings, _ = _settings(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "export", key))


@memories.command("forget")
def forget_memory(key: Remembered, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Forget all that is remembered of one person or group; it cannot be undone."""
    settings, _ = _settings(config, data_dir)
    from bot.memory.tool import run as do

    raise typer.Exit(do(settings, "forget", key))


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


def _settings(config: Path | None, data_dir: Path | None) -> tuple[Settings, Path | None]:
    """The settings and the file they came from; prints all problems and leaves with 78 when there are any."""
    source = _source(config, data_dir)
    return _read(source), source.path


def _source(config: Path | None, data_dir: Path | None, log_level: str | None = None) -> SettingsSource:
    from bot.settings.source import SettingsSource

    if config is None and Path("config.yaml").exists():
        config = Path("config.yaml")
    given = {"data_dir": str(data_dir) if data_dir else None, "log.level": log_level}
    return SettingsSource(config, {key: value for key, value in given.items() if value is not None})


def _read(source: SettingsSource, otherwise: str = "nothing was started") -> Settings:
    from bot.settings import ConfigError

    try:
        return source.read()
    except ConfigError as error:
        typer.echo(error, err=True)
        count = len(error.problems)
        typer.echo(f"antler: {count} configuration problem{'' if count == 1 else 's'}; {otherwise}", err=True)
        raise typer.Exit(EXIT_CONFIG) from None


def main() -> None:
    """The entry point of the `antler` command."""
    app(prog_name="antler")


if __name__ == "__main__":
    main()
