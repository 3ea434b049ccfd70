"""The options of `antler skills`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, settings_of

app = typer.Typer(help="The skills of this installation.", no_args_is_help=True)


@app.command("list")
def list_skills(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show the skills that everybody has, and what is wrong with those that cannot be used."""
    settings, _ = settings_of(config, data_dir)
    from bot.skills import tool

    raise typer.Exit(tool.list_skills(settings, as_json=as_json))


@app.command("validate")
def validate_skills(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A skill's folder, or a folder of skills. Default: the config's skills.", file_okay=False, exists=True
        ),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Report problems of skills; exit 1 if one cannot be used. Those in FOLDER are held to the rules of install."""
    from bot.skills import tool

    if folder is not None:
        raise typer.Exit(tool.validate_folder(folder))
    settings, _ = settings_of(config, data_dir)
    raise typer.Exit(tool.validate(settings))


@app.command("install")
def install_skill(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="An archive, NAME.skill.", dir_okay=False, exists=True)
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a skill of the same name.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Install a skill for everybody, after a check of its whole content."""
    settings, _ = settings_of(config, data_dir)
    from bot.skills import tool

    raise typer.Exit(tool.install(settings, archive, replace=replace))


@app.command("waiting")
def waiting_skills(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """List the skills that are off until an administrator approves them, with the reasons."""
    settings, _ = settings_of(config, data_dir)
    from bot.skills.tool import list_waiting

    raise typer.Exit(list_waiting(settings, as_json=as_json))


@app.command("on")
def agree_to_skill(
    name: Annotated[str, typer.Argument(help="The name of a skill that is waiting for approval.")],
    digest: Annotated[str, typer.Argument(help="The digest of its content, as `antler skills waiting` shows it.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Approve what a skill contains, exactly as it is now: it is used from the next answer on."""
    settings, _ = settings_of(config, data_dir)
    from bot.skills.tool import agree

    raise typer.Exit(agree(settings, name, digest))


@app.command("remove")
def remove_skill(
    name: Annotated[str, typer.Argument(help="The name of one of this installation's own skills.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Remove one of this installation's own skills: from its next answer on the agent does not have it."""
    settings, _ = settings_of(config, data_dir)
    from bot.skills import tool

    raise typer.Exit(tool.remove(settings, name))
