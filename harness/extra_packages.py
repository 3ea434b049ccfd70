"""Which package a class path needs, for errors that say how to get it; light, so that bot/settings may import it."""

from __future__ import annotations

import sys


def package_of(use: str) -> str:
    """The name by which the package of a `module:Class` is installed: langchain_anthropic -> langchain-anthropic."""
    return use.partition(":")[0].partition(".")[0].replace("_", "-")


def install_command(package: str) -> str:
    """For the very Python that Antler runs in."""
    return f"{sys.executable} -m pip install {package}"
