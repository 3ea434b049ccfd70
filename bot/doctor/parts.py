"""The parts that a gateway starts with, each tried as it would start: models, MCP servers, the sandbox, skills."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.doctor import config
from bot.doctor.findings import Finding, Severity, error, note, ok, warning
from bot.files import sandboxes
from bot.skills import tool as skills_tool
from harness.mcp.pool import McpPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bot.doctor.findings import Examined
    from bot.files.sandboxes import SandboxFacts, State
    from bot.settings import Settings
    from harness.mcp.config import McpServerSettings
    from harness.mcp.pool import ServerFacts

_STATES: Mapping[State, Severity] = {
    "full": Severity.OK,
    "off": Severity.OK,
    "restricted": Severity.WARNING,
    "none": Severity.WARNING,
    "files": Severity.WARNING,
    "failed": Severity.ERROR,
}


async def config_file(examined: Examined) -> list[Finding]:
    return await asyncio.to_thread(config.summary, examined.settings, examined.file)


async def models(examined: Examined) -> list[Finding]:
    """Whether they can be built; nobody is asked."""
    settings = examined.settings
    wrong = await config.unbuilt_models(settings)
    keys = {finding.what for finding in wrong}
    built = [
        ok(f"model {model.name}", f"{model.model or model.use}, not asked")
        for index, model in enumerate(settings.models)
        if f"models[{index}]" not in keys
    ]
    return [*wrong, *built]


async def local_servers(examined: Examined) -> list[Finding]:
    """MCP servers that are programs of this machine."""
    local = {name: each for name, each in examined.settings.mcp_servers.items() if each.transport == "stdio"}
    missing = await asyncio.to_thread(config.programs, examined.settings)
    lacking = {finding.what for finding in missing}
    there = {name: each for name, each in local.items() if f"mcp_servers.{name}.command" not in lacking}
    return [*missing, *await servers(examined, there)]


async def servers(examined: Examined, wanted: Mapping[str, McpServerSettings]) -> list[Finding]:
    """How these servers start. A gateway that runs has started them, and told of it."""
    if examined.gateway is not None:
        told = [facts for facts in examined.gateway.get("mcp", ()) if facts["name"] in wanted]
        return [_server(facts["name"], facts["state"], facts["tools"], facts["detail"]) for facts in told]
    facts = await server_facts(examined.settings, wanted)
    return [_server(each.name, each.state, each.tools, each.detail) for each in facts]


async def server_facts(settings: Settings, servers: Mapping[str, McpServerSettings]) -> tuple[ServerFacts, ...]:
    """How servers start: each is connected to and asked for its tools, for a few seconds; then they are ended."""
    # A provider may take a refresh token once only, so the running gateway's cache has to be the one that is used.
    pool = McpPool(servers, folder=settings.data_dir, route=settings.network_route, clock=SystemClock())
    pool.start()
    try:
        await pool.settled()
        return pool.facts
    finally:
        await pool.close()


def _server(name: str, state: str, tools: int, detail: str) -> Finding:
    key = f"mcp_servers.{name}"
    if state == "off":
        return ok(key, "is turned off")
    if state != "ready":
        why = f"does not start: {detail}" if detail else "has not answered yet"
        return error(key, why, f"see what {key} names, and the server's own page; `enabled: false` turns it off")
    if detail:
        return warning(key, f"{tools} tools; {detail}", f"see the names in {key}.tools, or leave it so")
    if not tools:
        return warning(key, "starts and has no tools", f"see {key}.tools.allow and deny")
    return ok(key, f"starts, {tools} tool{'' if tools == 1 else 's'}")


async def sandbox(examined: Examined) -> list[Finding]:
    """What commands of the agent are held by, tried with a real one."""
    return [*_held(await sandboxes.probe(examined.settings))]


def _held(facts: SandboxFacts) -> Iterable[Finding]:
    severity = _STATES.get(facts.state, Severity.ERROR)
    says = str(facts).partition(": ")[2].partition(";")[0]
    what = f"sandbox {facts.provider}"
    if severity is Severity.OK or not facts.shortfalls:
        remedy = "" if severity is Severity.OK else "see docs/sandbox.md for providers that hold commands"
        yield Finding(severity, what, says, remedy)
    worst = max(severity, Severity.NOTE)
    for shortfall in facts.shortfalls:
        sentence, remedy = _parted(shortfall)
        yield Finding(worst, what, f"{says}: {sentence}" if severity else sentence, remedy)


def _parted(shortfall: str) -> tuple[str, str]:
    """A sentence and the hint in brackets at its end."""
    sentence, bracket, hint = shortfall.rpartition(" (")
    if bracket and hint.endswith(")"):
        return sentence, hint[:-1]
    return shortfall, "see docs/sandbox.md"


async def skills(examined: Examined) -> list[Finding]:
    counts, *wrong = await asyncio.to_thread(skills_tool.standings, examined.settings)
    told = [warning("skills", each, "antler skills validate tells more") for each in wrong]
    waiting = await asyncio.to_thread(skills_tool.waiting_names, examined.settings)
    if waiting:
        told.append(note("skills", f"{', '.join(waiting)}: off until you agree", "antler skills waiting, then on"))
    return [ok("skills", counts), *told]
