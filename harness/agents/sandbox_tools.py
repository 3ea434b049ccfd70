"""Puts together the tools for one model; called by agents.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.tools.files import file_tools
from harness.tools.looking import looking_tools
from harness.tools.pictures import view_tool
from harness.tools.presenting import present_tool
from harness.tools.shell import bash_tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.ports import Clock


def sandbox_tools(setup: SandboxSetup, *, spool: Spool | None, sees_images: bool, clock: Clock) -> list[BaseTool]:
    """bash only where the provider runs commands, present_files only where there is a spool, view_image only for
    models that see."""
    return [
        *([bash_tool(setup, clock)] if setup.report.bash else []),
        *looking_tools(),
        *file_tools(),
        *([view_tool()] if sees_images else []),
        *([present_tool(spool)] if spool is not None else []),
    ]
