"""The operator's own tools, by the settings `tools` and `tool_groups`; loaded by runner.py at the start."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from harness.errors import ToolSetupError
from harness.graph.calls import ASK, FOREIGN, TASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.config import ToolSettings

ANTLERS = "the tools of Antler"
GROUP = "antler_group"
"""metadata key of an operator's tool: the group that agents name it by."""
RESERVED = (TASK, ASK)
"""Names of tools that an agent is given when it is built."""


def configured_tools(settings: Sequence[ToolSettings], groups: Sequence[str]) -> list[tuple[str, BaseTool]]:
    """(place in the config, tool), of these groups, or of all where none is named. Imports their modules.

    Raises ToolSetupError, whose text names the key.
    """
    return [
        (f"tools[{number}]", _loaded(f"tools[{number}]", each))
        for number, each in enumerate(settings)
        if not groups or each.group in groups
    ]


def distinct(placed: Iterable[tuple[str, BaseTool]]) -> list[BaseTool]:
    """The tools. Raises ToolSetupError when two have the same name, with both places."""
    places = dict.fromkeys(RESERVED, ANTLERS)
    tools = []
    for place, tool in placed:
        if tool.name in places:
            raise ToolSetupError(
                f"{place}: the name {tool.name} belongs to {places[tool.name]} already; give one of them another "
                "`name`, or leave it out"
            )
        places[tool.name] = place
        tools.append(tool)
    return tools


def _loaded(place: str, settings: ToolSettings) -> BaseTool:
    module_name, _, variable = settings.use.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), variable)
    except ImportError as error:
        raise ToolSetupError(f"{place}.use: {module_name} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ToolSetupError(f"{place}.use: {module_name} has no {variable}") from error
    if not isinstance(found, BaseTool):
        raise ToolSetupError(
            f"{place}.use: {settings.use} is no LangChain tool; a function becomes one by langchain_core.tools.tool"
        )
    metadata = {FOREIGN: True, **(found.metadata or {}), GROUP: settings.group}
    changes = {"name": settings.name or found.name, "metadata": metadata}
    return found.model_copy(update=changes)
