"""The options of `antler knowledge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.cli.options import AsJson, ConfigFile, DataDir, settings_of

if TYPE_CHECKING:
    from typing import NoReturn

    from bot.knowledge.tool import Verb

app = typer.Typer(help="The documents that the agent can search, for everyone.", no_args_is_help=True)

Collection = Annotated[
    str | None, typer.Option("--collection", help="The collection's name: one word.", show_default=False)
]


def _run(
    config: Path | None,
    data_dir: Path | None,
    do: Verb,
    what: str = "",
    collection: str | None = None,
    *,
    as_json: bool = False,
) -> NoReturn:
    settings, _ = settings_of(config, data_dir)
    from bot.knowledge.tool import run  # imports the harness

    raise typer.Exit(run(settings, do, what, collection or "", as_json=as_json))


@app.command("list")
def list_documents(as_json: AsJson = False, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Show the installation's documents, and which people and groups have some: hashed keys and counts only."""
    _run(config, data_dir, "list", as_json=as_json)


@app.command("add")
def add_document(
    what: Annotated[str, typer.Argument(metavar="FILE|ADDRESS", help="A file on this machine, or a page's address.")],
    collection: Collection = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Add a file or a page for everybody. Whole folders are set in the config, under knowledge.folders."""
    is_page = what.lower().startswith(("http://", "https://"))
    _run(config, data_dir, "add", what if is_page else str(Path(what).absolute()), collection)


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
    _run(config, data_dir, "remove", what, collection)


@app.command("reindex")
def reindex(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Read all folders and addresses again."""
    _run(config, data_dir, "reindex")


@app.command("ask")
def ask(
    question: Annotated[str, typer.Argument(help="What to search for.")],
    collection: Collection = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show the passages that the agent would find in the installation's documents; no model is called."""
    _run(config, data_dir, "ask", question, collection, as_json=as_json)
