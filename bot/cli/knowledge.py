"""The options of `antler knowledge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, settings_of

app = typer.Typer(help="The documents that the agent can search, for everyone.", no_args_is_help=True)

Collection = Annotated[
    str | None, typer.Option("--collection", help="The collection's name: one word.", show_default=False)
]


@app.command("list")
def list_documents(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show the installation's documents, and which people and groups have some: hashed keys and counts only."""
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run as do

    raise typer.Exit(do(settings, "list", as_json=as_json))


@app.command("add")
def add_document(
    what: Annotated[str, typer.Argument(metavar="FILE|ADDRESS", help="A file on this machine, or a page's address.")],
    collection: Collection = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Add a file or a page for everybody. Whole folders are set in the config, under knowledge.folders."""
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run as do

    is_page = what.lower().startswith(("http://", "https://"))
    raise typer.Exit(do(settings, "add", what if is_page else str(Path(what).absolute()), collection or ""))


@app.command("remove")
def remove_document(
    what: Annotated[
        str, typer.Argument(metavar="[FILE|ADDRESS]", help="As shown by the list. Omit it for a whole collection.")
    ] = "",
    collection: Collection = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Remove a document, or with --collection alone a whole collection, for everybody."""
    if not what and not collection:
        raise typer.BadParameter("name a document, or a --collection")
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run as do

    raise typer.Exit(do(settings, "remove", what, collection or ""))


@app.command("reindex")
def reindex(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Read all folders and addresses again."""
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run as do

    raise typer.Exit(do(settings, "reindex"))


@app.command("ask")
def ask(
    question: Annotated[str, typer.Argument(help="What to search for.")],
    collection: Collection = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show the passages that the agent would find in the installation's documents; no model is called."""
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run as do

    raise typer.Exit(do(settings, "ask", question, collection or "", as_json=as_json))
