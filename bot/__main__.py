"""The command line, `antler` or `python -m bot`. Commands import what they need, so that a quick one stays quick."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from bot.cli import people, skills
from bot.cli.options import EXIT_CONFIG, ConfigFile, DataDir, LogLevel, read, running_folder, settings_of, source_of

EXIT_USAGE = 2

app = typer.Typer(
    help="Antler, a chat gateway for agents on your own machine.",
    epilog="Exit codes: 0 all well, 1 failure, 2 wrong usage, 77 another program has taken over the last account, "
    "78 configuration error.",
    no_args_is_help=True,
    add_completion=False,
    # Its tracebacks print local variables, and those hold secrets.
    pretty_exceptions_enable=False,
)

accounts = typer.Typer(help="The accounts of this data folder.", no_args_is_help=True)
app.add_typer(accounts, name="account")
app.add_typer(people.access, name="access")
app.add_typer(people.memory, name="memory")
app.add_typer(skills.app, name="skills")


@app.command()
def run(config: ConfigFile = None, data_dir: DataDir = None, log_level: LogLevel = None) -> None:
    """Start the gateway and serve until SIGTERM or Ctrl-C; a second Ctrl-C does not wait."""
    from bot.process import gc_tuning

    gc_tuning.hold()
    source = source_of(config, data_dir, log_level)
    settings = read(source)
    from bot.process.app import serve

    raise typer.Exit(serve(settings, source))


@app.command()
def console(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Talk to the agent in this terminal, through the running gateway if there is one."""
    source = source_of(config, data_dir)
    settings = read(source)
    from bot.process.app import console as talk

    raise typer.Exit(talk(settings, source))


@app.command()
def status(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    check: Annotated[bool, typer.Option("--check", help="Print nothing; exit 0 if healthy, else 1.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print it every two seconds, until Ctrl-C.")] = False,
) -> None:
    """Show what the running gateway is doing."""
    folder = running_folder(source_of(config, data_dir))
    from bot.control import server

    raise typer.Exit(server.watch(folder) if watch else server.status(folder, check=check))


@app.command()
def reload(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Let the running gateway read its config now; it also does so by itself when the file is written."""
    settings = read(source_of(config, data_dir), "nothing was changed")
    from bot.control.server import reload as ask_for_it

    raise typer.Exit(ask_for_it(settings))


@app.command("check-config")
def check_config(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Check the configuration, build its models and try the sandbox, without starting the gateway; print a summary, or
    every problem found (exit code 78)."""
    settings, path = settings_of(config, data_dir)
    from bot.cli import config_trials
    from bot.files.sandboxes import probe
    from bot.settings.summary import describe
    from bot.skills import tool

    typer.echo(f"config    {path or 'none: the built-in default'}")
    typer.echo(describe(settings))
    for warning in config_trials.written_secrets(settings, path):
        typer.echo(f"warning   {warning}")
    if problems := [*config_trials.models(settings), *config_trials.programs(settings)]:
        typer.echo("\n".join(problems), err=True)
        raise typer.Exit(EXIT_CONFIG)
    typer.echo(f"sandbox   {probe(settings)}")
    typer.echo(f"skills    {tool.summary(settings)}")
    for server in config_trials.probe(settings):
        typer.echo(f"mcp       {server}")
    typer.echo("OK")


@app.command()
def prompt(
    chat: Annotated[
        str | None, typer.Option("--chat", help="A conversation, account:chat, with its stored choices.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="An agent of agents_dir, instead of the chat's.")] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Print what the model reads before a conversation, in groups with estimated tokens; antler may be stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.cli.prompt import show

    raise typer.Exit(show(settings, chat, agent))


@app.command()
def pair(
    code: Annotated[str | None, typer.Argument(help="The code that the person got from the bot.")] = None,
    claim: Annotated[
        bool,
        typer.Option("--claim", help="Print a new code; the person who sends it to the bot becomes its administrator."),
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Let the person in who was given CODE by the bot."""
    if (code is None) is not claim:
        raise typer.BadParameter("give either CODE or --claim")
    settings, _ = settings_of(config, data_dir)
    from bot.access.tool import run as do

    raise typer.Exit(do(settings, "claim") if code is None else do(settings, "pair", code=code))


@app.command()
def forget(
    person: Annotated[str, typer.Argument(help="account:id, as `antler access list` shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Delete what is kept about a person, as /forget me does (docs/privacy.md); this cannot be undone."""
    settings, _ = settings_of(config, data_dir)
    from bot.forgetting.tool import run as do

    raise typer.Exit(do(settings, person))


@app.command()
def why(
    message: Annotated[
        str, typer.Argument(metavar="EVENT|LINK", help="A number or run id of the log, or a message's link.")
    ],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show what was decided about a message: who was let in by which rule, the queue, the model, what it waited for."""
    settings, _ = settings_of(config, data_dir)
    from bot.operations.why import run as tell

    raise typer.Exit(tell(settings, message))


@accounts.command("rename")
def rename_account(
    old: Annotated[str, typer.Argument(help="Its present key in the config.")],
    new: Annotated[str, typer.Argument(help="Its new key.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Give an account another name, its conversations with it. Antler must be stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.cli.maintenance import rename_account as rename

    raise typer.Exit(rename(settings, old, new))


@app.command()
def manifest(
    platform: Annotated[str, typer.Argument(help="The platform's name, as in the config.")],
    name: Annotated[str, typer.Option("--name", help="The name of the app there.")] = "Antler",
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


def main() -> None:
    """The entry point of the `antler` command."""
    app(prog_name="antler")


if __name__ == "__main__":
    main()
