"""`antler init` and `antler config`: how an installation gets its config."""

from __future__ import annotations

from pathlib import Path

import typer

config = typer.Typer(help="The config file.", no_args_is_help=True)
_ROOT = Path(__file__).parents[2]


@config.command()
def example() -> None:
    """Print a config.yaml with every key, its default and what it means."""
    packed = _ROOT / "bot" / "config.yaml.example"
    file = packed if packed.is_file() else _ROOT / "config.yaml.example"
    typer.echo(file.read_text(encoding="utf-8"), nl=False)


def init() -> None:
    """Set antler up."""
