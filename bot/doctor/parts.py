"""The parts that a gateway starts with, each started as a trial: models, MCP servers, the sandbox, skills."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from bot.doctor import config
from bot.doctor.findings import Finding, Severity, error, note, ok, warning
from bot.files.sandboxes import WORDS, probe
from bot.knowledge.reading import files_in
from bot.skills import tool as skills_tool
from harness.errors import ToolSetupError
from harness.mcp.pool import McpPool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.doctor.findings import Examined
    from bot.files.sandboxes import SandboxFacts, State
    from bot.settings import Settings
    from harness.knowledge.config import FolderSettings
    from harness.mcp.config import McpServerSettings
    from harness.mcp.pool import ServerFacts
    from harness.web.search.several import Named
    from sandbox.config import SandboxSettings

_STATES: Mapping[State, Severity] = {
    "full": Severity.OK,
    "off": Severity.OK,
    "restricted": Severity.WARNING,
    "none": Severity.WARNING,
    "files": Severity.WARNING,
    "failed": Severity.ERROR,
}
MOST_FILES = 100_000
"""Documents counted in a folder."""
SANDBOX_PAGE = "docs/sandbox.md lists what each provider needs"


async def config_file(examined: Examined) -> list[Finding]:
    found = await asyncio.to_thread(config.summary, examined.settings, examined.file)
    return found + await asyncio.to_thread(config.unloaded_code, examined.settings)


async def models(examined: Examined) -> list[Finding]:
    """Whether they can be built; none is called."""
    settings = examined.settings
    wrong = await config.unbuilt_models(settings)
    keys = {finding.what for finding in wrong}
    built = [
        ok(f"model {model.name}", f"{model.model or model.use}, not called")
        for index, model in enumerate(settings.models)
        if f"models[{index}]" not in keys
    ]
    return [*wrong, *built]


async def local_servers(examined: Examined) -> list[Finding]:
    """MCP servers that are programs on this machine."""
    local = {name: each for name, each in examined.settings.mcp_servers.items() if each.transport == "stdio"}
    missing = await asyncio.to_thread(config.programs, examined.settings)
    lacking = {finding.what for finding in missing}
    there = {name: each for name, each in local.items() if f"mcp_servers.{name}.command" not in lacking}
    return [*missing, *await servers(examined, there)]


async def servers(examined: Examined, wanted: Mapping[str, McpServerSettings]) -> list[Finding]:
    """How these servers start. A running gateway has started them already, and reported the result."""
    if examined.gateway is not None:
        told = [facts for facts in examined.gateway.get("mcp", ()) if facts["name"] in wanted]
    else:
        told = [asdict(facts) for facts in await server_facts(examined.settings, wanted)]
    return [_server(facts, is_local=wanted[facts["name"]].command is not None) for facts in told]


async def server_facts(settings: Settings, servers: Mapping[str, McpServerSettings]) -> tuple[ServerFacts, ...]:
    """How servers start: each is connected to and queried for its tools, for a few seconds; then they are ended."""
    # A provider may accept a refresh token only once, so the running gateway's cache has to be used.
    pool = McpPool(servers, folder=settings.data_dir, route=settings.network_route, clock=SystemClock())
    pool.start()
    try:
        await pool.settled()
        return pool.facts
    finally:
        await pool.close()


def _server(facts: Mapping[str, Any], *, is_local: bool) -> Finding:
    key, state, tools, detail = f"mcp_servers.{facts['name']}", facts["state"], facts["tools"], facts["detail"]
    if state == "off":
        return ok(key, "is turned off")
    if state != "ready":
        why = f"does not start: {detail}" if detail else "has not answered yet"
        see = "run its command by hand to see its output" if is_local else f"check {key}.url, headers and oauth"
        return error(key, why, f"{see}; `enabled: false` turns it off")
    if detail:
        return warning(key, f"{tools} tools; {detail}", f"check the names in {key}.tools, or leave it as it is")
    if not tools:
        return warning(key, "starts but has no tools", f"check {key}.tools.allow and deny")
    return ok(key, f"starts, {tools} tool{'' if tools == 1 else 's'}")


async def search(examined: Examined) -> list[Finding]:
    """Whether the search engines can be built; none is queried."""
    engines, wrong = await search_engines(examined.settings)
    for each in engines:
        await each.engine.close()
    return [*wrong, *(ok(each.place, f"{each.name}, not queried") for each in engines)]


async def search_engines(settings: Settings) -> tuple[list[Named], list[Finding]]:
    """The engines, or what is wrong with one of them. The caller closes them."""
    if not settings.web.search.is_on:
        return [], []
    from harness.web.search.several import make_engines  # imports an HTTP client and the operator's own modules

    try:
        clock = SystemClock()
        return await asyncio.to_thread(make_engines, settings.web.search, settings.network_route, clock), []
    except ToolSetupError as failure:
        what, _, says = str(failure).partition(": ")
        return [], [error(what, says, "docs/web.md lists the engines and shows how to write one")]


async def knowledge(examined: Examined) -> list[Finding]:
    """Whether the folders can be read and hold documents, and addresses be added; endpoints are checked online."""
    settings = examined.settings.knowledge
    if not settings.enabled:
        return []
    found = [await asyncio.to_thread(_folder, number, each) for number, each in enumerate(settings.folders)]
    if not examined.settings.web.fetch.enabled:
        found.append(note("knowledge", "addresses cannot be added: web.fetch.enabled is false"))
    return found or [ok("knowledge", "on, without folders")]


def _folder(number: int, folder: FolderSettings) -> Finding:
    key = f"knowledge.folders[{number}].path"
    try:
        count = len(files_in(folder.path, MOST_FILES))
    except OSError as failure:
        says = f"{failure.filename or folder.path} cannot be read: {failure.strerror}"
        return error(key, says, f"correct {key}, or give the user that Antler runs as access")
    if not count:
        return warning(key, f"{folder.path} contains no readable file", "docs/knowledge.md lists the kinds")
    return ok(key, f"{folder.path}: {count} files")


async def sandbox(examined: Examined) -> list[Finding]:
    """What confines the agent's commands, tried with a real one."""
    return _held(await probe(examined.settings), examined.settings.sandbox)


def _held(facts: SandboxFacts, asked: SandboxSettings) -> list[Finding]:
    what, severity, state = f"sandbox {facts.provider}", _STATES.get(facts.state, Severity.ERROR), WORDS[facts.state]
    if facts.state in ("full", "restricted"):
        limits = asked.limits
        state += f"; network: {asked.network.mode}, {limits.memory_mb} MB, {limits.processes} processes"
    told = [ok(what, state)] if severity is Severity.OK else []
    told += [warning(what, *_parted(trouble)) for trouble in facts.troubles]
    for shortfall in facts.shortfalls:
        sentence, hint = _parted(shortfall)
        says = f"{state}: {sentence}" if severity is Severity.ERROR else sentence
        told.append(Finding(max(severity, Severity.NOTE), what, says, hint or SANDBOX_PAGE))
    return told or [Finding(severity, what, state, SANDBOX_PAGE)]


def _parted(shortfall: str) -> tuple[str, str]:
    """A sentence, and the hint in brackets at its end, "" for none."""
    depth = 0
    for place in range(len(shortfall) - 1, -1, -1) if shortfall.endswith(")") else ():
        depth += {")": 1, "(": -1}.get(shortfall[place], 0)
        if not depth:
            return shortfall[:place].rstrip(), shortfall[place + 1 : -1]
    return shortfall, ""


async def skills(examined: Examined) -> list[Finding]:
    counts, *wrong = await asyncio.to_thread(skills_tool.standings, examined.settings)
    told = [warning("skills", each, "run antler skills validate for details") for each in wrong]
    waiting = await asyncio.to_thread(skills_tool.waiting_names, examined.settings)
    if waiting:
        told.append(note("skills", f"{', '.join(waiting)}: off until you approve", "antler skills waiting, then on"))
    return [ok("skills", counts), *told]
