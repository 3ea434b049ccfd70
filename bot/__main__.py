"""The command line, `antler` or `python -m bot`. Commands import what they need, which keeps quick ones quick."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from bot.cli import knowledge, operating, people, service, setup, skills
from bot.cli.options import (
    EXIT_CONFIG,
    AsJson,
    ConfigFile,
    DataDir,
    LogLevel,
    read,
    running_folder,
    settings_of,
    source_of,
)

EXIT_USAGE = 2
PAGE = "ANTLER__HTTP__LISTEN"

app = typer.Typer(
    help="Antler, a chat gateway for agents on your own machine.",
    epilog="Exit codes: 0 success, 1 failure, 2 usage error, 77 another program has taken over the last account, "
    "78 configuration error.",
    no_args_is_help=True,
    add_completion=False,
    # Its tracebacks print local variables, which may hold secrets.
    pretty_exceptions_enable=False,
)

SERVING, PEOPLE, SETTING_UP, KEEPING = "Serve", "Chats and people", "Set up", "Data and versions"
"""The headings under which `antler --help` lists the commands."""

accounts = typer.Typer(help="The accounts of this data folder.", no_args_is_help=True)
app.add_typer(service.app, name="service", rich_help_panel=SERVING)
app.add_typer(people.access, name="access", rich_help_panel=PEOPLE)
app.add_typer(people.memory, name="memory", rich_help_panel=PEOPLE)
app.add_typer(knowledge.app, name="knowledge", rich_help_panel=PEOPLE)
app.add_typer(people.token, name="token", rich_help_panel=PEOPLE)
app.add_typer(skills.app, name="skills", rich_help_panel=SETTING_UP)
app.add_typer(accounts, name="account", rich_help_panel=SETTING_UP)
app.add_typer(setup.config, name="config", rich_help_panel=SETTING_UP)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antler {installed_version('antler')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel=SERVING)
def run(config: ConfigFile = None, data_dir: DataDir = None, log_level: LogLevel = None) -> None:
    """Start the gateway and serve until SIGTERM or Ctrl-C; a second Ctrl-C exits without waiting."""
    from bot.process import gc_tuning, imports

    gc_tuning.hold()
    imports.install()
    source = source_of(config, data_dir, log_level)
    from bot.process import terminal
    from bot.process.app import serve

    if source.path is None and terminal.is_interactive() and PAGE not in os.environ:
        # Stored with the other options of the command line, so that a reload of the settings finds it too.
        source.options = {**source.options, "http.listen": terminal.page_address()}
    settings = read(source)

    raise typer.Exit(serve(settings, source))


@app.command(rich_help_panel=SERVING)
def gateway(config: ConfigFile = None, data_dir: DataDir = None, log_level: LogLevel = None) -> None:
    """Serve as `antler run` does, as one of several processes on a PostgreSQL database: one leads, the others stand by
    and take over when it ends (docs/scaling.md)."""
    from bot.process import gc_tuning, imports

    gc_tuning.hold()
    imports.install()
    source = source_of(config, data_dir, log_level)
    settings = read(source)
    if settings.database.url is None:
        typer.echo(
            "antler: database.url: `antler gateway` needs a PostgreSQL database shared by its processes, but this "
            "config uses SQLite; `antler run` serves that, as a single process",
            err=True,
        )
        raise typer.Exit(EXIT_CONFIG)
    from bot.process.app import serve
    from bot.process.gateway import GATEWAY

    raise typer.Exit(serve(settings, source, role=GATEWAY))


@app.command(rich_help_panel=SERVING)
def worker(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Distinguishes workers on one machine. Default: its host name.")
    ] = None,
) -> None:
    """Execute runs for the gateways of this config (workers.enabled), until SIGTERM or Ctrl-C."""
    from bot.process import gc_tuning, imports

    gc_tuning.hold()
    imports.install()
    source = source_of(config, data_dir, log_level)
    settings = read(source)
    from bot.process.worker import serve

    raise typer.Exit(serve(settings, source, name))


@app.command(rich_help_panel=SERVING)
def console(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Talk to the agent in this terminal, through the running gateway if there is one."""
    source = source_of(config, data_dir)
    settings = read(source)
    from bot.process.app import console as talk

    raise typer.Exit(talk(settings, source))


@app.command(rich_help_panel=SERVING)
def status(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    check: Annotated[bool, typer.Option("--check", help="Print nothing; exit 0 if healthy, else 1.")] = False,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print the status every two seconds until Ctrl-C.")] = False,
) -> None:
    """Show what the running gateway is doing."""
    folder = running_folder(source_of(config, data_dir))
    from bot.control import server

    if watch:
        raise typer.Exit(server.watch(folder, as_json=as_json))
    raise typer.Exit(server.status(folder, check=check, as_json=as_json))


@app.command(rich_help_panel=SERVING)
def reload(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Have the running gateway reload its config now; it also does so by itself when the file changes."""
    settings = read(source_of(config, data_dir), "nothing was changed")
    from bot.control.server import reload as ask_for_it

    raise typer.Exit(ask_for_it(settings))


app.command(rich_help_panel=SERVING)(operating.logs)


app.command("init", rich_help_panel=SETTING_UP)(setup.init)


@app.command("check-config", rich_help_panel=SETTING_UP)
def check_config(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Check the configuration, build its models and try the sandbox, without starting the gateway; print a summary, or
    every problem found (exit code 78)."""
    settings, path = settings_of(config, data_dir)
    from bot.doctor import config as checks
    from bot.doctor.machine import missing_packages
    from bot.doctor.parts import server_facts
    from bot.files.sandboxes import probe
    from bot.settings.load import exposed
    from bot.settings.summary import describe
    from bot.skills import tool

    typer.echo(f"config    {path or 'none: the built-in default'}")
    typer.echo(describe(settings))
    for warning in (*checks.written_secrets(settings, path), *filter(None, [exposed(path)])):
        typer.echo(f"warning   {warning}")
    problems = [*asyncio.run(checks.unbuilt_models(settings)), *checks.programs(settings)]
    problems += [*checks.unloaded_code(settings), *checks.certificate(settings.http), *missing_packages(settings)]
    if problems:
        lines = (f"{problem.what}: {problem.says}; {problem.remedy}" for problem in problems)
        typer.echo("\n".join(lines), err=True)
        raise typer.Exit(EXIT_CONFIG)
    typer.echo(f"sandbox   {asyncio.run(probe(settings))}")
    typer.echo(f"skills    {tool.summary(settings)}")
    for server in asyncio.run(server_facts(settings, settings.mcp_servers)):
        typer.echo(f"mcp       {server}")
    typer.echo("OK")


@app.command(rich_help_panel=SETTING_UP)
def doctor(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    fix: Annotated[bool, typer.Option("--fix", help="Make the repairs that are safe, and report them.")] = False,
    online: Annotated[bool, typer.Option("--online", help="Also query platforms, models and other servers.")] = False,
) -> None:
    """Report what is wrong with this installation, and how to fix it. Exit codes: 0 nothing worse than notes, 3
    warnings, 1 errors, 78 an unusable configuration."""
    source = source_of(config, data_dir)
    from bot.doctor.doctor import run as examine

    raise typer.Exit(examine(source, as_json=as_json, fix=fix, ask=online))


@app.command(rich_help_panel=SETTING_UP)
def prompt(
    chat: Annotated[
        str | None, typer.Option("--chat", help="A conversation, account:chat, with its stored choices.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="An agent of agents_dir, instead of the chat's.")] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Print what the model reads ahead of a conversation, in groups with estimated tokens; antler may be stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.cli.prompt import show

    raise typer.Exit(show(settings, chat, agent))


@app.command(rich_help_panel=PEOPLE)
def pair(
    code: Annotated[str | None, typer.Argument(help="The code that the person got from the bot.")] = None,
    claim: Annotated[
        bool,
        typer.Option("--claim", help="Print a new code; the person who sends it to the bot becomes its administrator."),
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Give access to the person to whom the bot gave CODE."""
    if (code is None) is not claim:
        raise typer.BadParameter("give either CODE or --claim")
    settings, _ = settings_of(config, data_dir)
    from bot.access.pairing import draws
    from bot.access.tool import run as do

    raise typer.Exit(
        do(settings, "claim", drawn=draws(sys.stdout)) if code is None else do(settings, "pair", code=code)
    )


app.command(rich_help_panel=PEOPLE)(people.web)


@app.command(rich_help_panel=PEOPLE)
def forget(
    person: Annotated[str, typer.Argument(help="account:id, as `antler access list` shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Delete the data kept about a person, as /forget me does (docs/privacy.md); this cannot be undone."""
    settings, _ = settings_of(config, data_dir)
    from bot.forgetting.tool import run as do

    raise typer.Exit(do(settings, person))


app.command(rich_help_panel=PEOPLE)(operating.send)


@app.command(rich_help_panel=SERVING)
def why(
    message: Annotated[
        str, typer.Argument(metavar="EVENT|LINK", help="An event number or run id from the log, or a message's link.")
    ],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show the decisions about a message: the rule that admitted it, the queue, the model, what it waited for."""
    settings, _ = settings_of(config, data_dir)
    from bot.operations.why import run as tell

    raise typer.Exit(tell(settings, message))


@app.command(rich_help_panel=SETTING_UP)
def compact(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Rewrite the SQLite files to reclaim the space of deleted rows. Antler must be stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.cli.maintenance import compact as rewrite

    raise typer.Exit(rewrite(settings))


@accounts.command("rename")
def rename_account(
    old: Annotated[str, typer.Argument(help="Its current key in the config.")],
    new: Annotated[str, typer.Argument(help="Its new key.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Rename an account, together with its conversations. Antler must be stopped."""
    settings, _ = settings_of(config, data_dir)
    from bot.cli.maintenance import rename_account as rename

    raise typer.Exit(rename(settings, old, new))


@app.command(rich_help_panel=SETTING_UP)
def manifest(
    platform: Annotated[str, typer.Argument(help="The platform's name, as in the config.")],
    name: Annotated[str, typer.Option("--name", help="The app's name on the platform.")] = "Antler",
) -> None:
    """Print the manifest to paste into a platform to create the bot's app there."""
    from channels.registry import NoManifest, UnknownPlatform
    from channels.registry import manifest as manifest_of

    try:
        typer.echo(manifest_of(platform, name))
    except (UnknownPlatform, NoManifest) as error:
        typer.echo(f"antler: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from None


app.command(rich_help_panel=KEEPING)(operating.backup)
app.command(rich_help_panel=KEEPING)(operating.restore)
app.command(rich_help_panel=KEEPING)(operating.upgrade)


@app.command(rich_help_panel=KEEPING)
def version() -> None:
    """Print the version, as --version does."""
    _print_version(True)


def main() -> None:
    """The entry point of the `antler` command."""
    app(prog_name="antler")


if __name__ == "__main__":
    main()
