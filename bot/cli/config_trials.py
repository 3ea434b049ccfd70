"""What `antler check-config` tries beyond the checks of each start: models are built, programs looked for, and the file
searched for secrets that are written into it."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from bot.settings.problems import ConfigProblem, dotted
from bot.settings.yamlfile import read_yaml
from harness.errors import ModelSetupError
from harness.mcp.pool import McpPool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bot.settings import Settings
    from bot.settings.problems import Path as TreePath
    from harness.mcp.config import McpServerSettings


SHORTEST_SECRET = 8
"""Characters; what is shorter is what a server without keys is given, such as "none"."""
WRITTEN = "is written into the file"
INSTEAD = "put it into an environment variable and write $NAME here"


def probe(settings: Settings) -> list[str]:
    """A line for each server; connects to it, asks for its tools, and ends the connection again."""
    return asyncio.run(_probe(settings)) if settings.mcp_servers else []


async def _probe(settings: Settings) -> list[str]:
    # A provider may take a refresh token once only, so the running gateway's cache has to be the one that is used.
    pool = McpPool(settings.mcp_servers, folder=settings.data_dir, route=settings.network_route, clock=SystemClock())
    pool.start()
    try:
        await pool.settled()
        return [str(facts) for facts in pool.facts]
    finally:
        await pool.close()


def models(settings: Settings) -> list[str]:
    """Why models cannot be built, by class and settings; none of them is asked anything."""
    return asyncio.run(_models(settings))


async def _models(settings: Settings) -> list[str]:
    # Here, not at the top: what builds models takes a second to import.
    from harness.models.build import build_model

    problems = []
    for model in settings.models:
        try:
            built = await asyncio.to_thread(build_model, model, settings.model_route(model.name))
        except ModelSetupError as error:
            problems.append(str(error))
        else:
            await built.close()
    return problems


def programs(settings: Settings) -> list[str]:
    """MCP servers whose program is not on this machine."""
    return [
        f"mcp_servers.{name}.command: there is no program {server.command} on this machine"
        for name, server in settings.mcp_servers.items()
        if server.enabled and server.command is not None and not _has_program(server.command, server)
    ]


def _has_program(command: str, server: McpServerSettings) -> bool:
    if os.sep in command and server.cwd is not None:
        return shutil.which(server.cwd / command) is not None
    path = server.env.get("PATH")
    return shutil.which(command, path=path if isinstance(path, str) else None) is not None


def written_secrets(settings: Settings, file: Path | None) -> list[str]:
    """Where the file holds a secret itself, not the name of a variable that does."""
    if file is None:
        return []
    tree = read_yaml(file.read_text(encoding="utf-8-sig"))
    secrets = {secret for secret in settings.secrets() if len(secret) >= SHORTEST_SECRET}
    return [
        str(
            ConfigProblem(
                file=str(file), key=dotted(path), message=WRITTEN, line=tree.lines.get(path), suggestion=INSTEAD
            )
        )
        for path, text in _texts(tree.values, ())
        if any(secret in text for secret in secrets)
    ]


def _texts(value: Any, path: TreePath) -> Iterator[tuple[TreePath, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif isinstance(value, str):
        yield path, value
