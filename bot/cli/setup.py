"""`antler init` and `antler config`: creating the config of an installation."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bot.cli.options import EXIT_CONFIG, ended

if TYPE_CHECKING:
    from bot.setup.files import ConfigFiles
    from bot.setup.script import Flags
    from bot.texts.catalogue import Texts

config = typer.Typer(help="The config file.", no_args_is_help=True)
EXIT_USAGE, EXIT_INTERRUPTED = 2, 130
_ROOT = Path(__file__).parents[2]


@config.command()
def example() -> None:
    """Print a config.yaml with every key, its default and what it means."""
    packed = _ROOT / "bot" / "config.yaml.example"
    file = packed if packed.is_file() else _ROOT / "config.yaml.example"
    typer.echo(file.read_text(encoding="utf-8"), nl=False)


def init(
    context: typer.Context,
    file: Annotated[
        Path, typer.Option("--config", "-c", help="The config file; secrets are written to the .env next to it.")
    ] = Path("config.yaml"),
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: use flags and the environment.")] = False,
    platform: Annotated[
        list[str] | None, typer.Option(help="With --yes: telegram, slack, feishu, wecom, console.")
    ] = None,
    secret_env: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=NAME", help="The variable that holds a secret: telegram.token=MY_TOKEN."),
    ] = None,
    provider: Annotated[str | None, typer.Option(help="With --yes: the model's provider, such as openai.")] = None,
    base_url: Annotated[str | None, typer.Option(help="With --yes: another server with OpenAI's API.")] = None,
    model: Annotated[str | None, typer.Option(help="With --yes: the provider's name of the model.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of the config: timezone=Asia/Shanghai."),
    ] = None,
    language: Annotated[Literal["en", "zh"] | None, typer.Option(help="Default: the terminal's.")] = None,
) -> None:
    """Set antler up: ask for platforms, credentials and a model, try them, and write config.yaml and .env."""
    from bot.settings import ConfigError
    from bot.setup.files import ConfigFiles, Unwritable
    from bot.setup.script import WrongFlags, read_flags
    from bot.texts import texts_for

    try:
        flags = read_flags(platform or (), secret_env or (), provider, base_url, model, settings or ())
        if not os.access(folder := file.absolute().parent, os.W_OK | os.X_OK):
            raise WrongFlags(f"the folder {folder} does not exist, or cannot be written to")
        texts, files = texts_for(language or _terminal_language()), ConfigFiles(file, os.environ)
        if yes:
            _scripted(files, flags, texts)
        else:
            commands = getattr(context.find_root().command, "commands", ())
            _asked(files, flags, texts, has_service="service" in commands)
    except WrongFlags as error:
        raise ended(error, EXIT_USAGE) from None
    except Unwritable as error:
        raise ended(error) from None
    except ConfigError as error:
        raise ended(error, EXIT_CONFIG) from None


def _scripted(files: ConfigFiles, flags: Flags, texts: Texts) -> None:
    from bot.setup.script import TrialFailed, write

    try:
        asyncio.run(write(files, flags, typer.echo, texts, os.environ))
    except TrialFailed:
        raise ended(texts.setup["left"]) from None


def _asked(files: ConfigFiles, flags: Flags, texts: Texts, *, has_service: bool) -> None:
    from bot.setup.script import FLAGS

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ended(FLAGS, EXIT_USAGE)
    from bot.setup.questions import Questions
    from bot.setup.wizard import Left, Wizard, ask_start

    antler = [sys.executable, "-m", "bot"]
    chosen_file = ["--config", str(files.path)]
    ask = Questions(texts.setup)

    async def talk() -> str:
        wizard = Wizard(files, ask, typer.echo, texts, preset=flags.preset(), environment=os.environ)
        await wizard.run()
        if await _is_running(files):
            typer.echo(texts.setup["running"])
            return "later"
        return await ask_start(ask, typer.echo, ["antler", "run", *chosen_file], has_service=has_service)

    try:
        chosen = asyncio.run(talk())
    except (Left, KeyboardInterrupt, EOFError):  # Ctrl-D is the last
        raise ended(texts.setup["left"], EXIT_INTERRUPTED) from None
    if chosen == "now":
        os.execv(sys.executable, [*antler, "run", *chosen_file])
    if chosen == "service":
        os.execv(sys.executable, [*antler, "service", "install", *chosen_file])


async def _is_running(files: ConfigFiles) -> bool:
    """Whether a gateway serves the data folder of the written config."""
    from bot.control.server import NotRunning, connection
    from bot.setup.files import Draft

    try:
        async with connection(files.settings(Draft()).data_dir):
            return True
    except NotRunning:
        return False


def _terminal_language() -> str:
    spoken = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return spoken[:2].lower()
