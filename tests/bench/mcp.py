"""Scenario `mcp-200`: the cost of MCP servers' tools per prompt and turn, with and without tool_search."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tests.bench.chats import warm_up
from tests.bench.figures import Figure, Outcome, Target
from tests.bench.gauge import cpu_seconds, memory
from tests.bench.stage import LIFTED, SHORT, stage
from tests.bench.timeline import label
from tests.flow.gateway import merged
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from tests.bench.stage import Stage
    from tests.simulators.model.records import Record

TURN_SECONDS = 30.0
CHARACTERS_PER_TOKEN = 4
MODES = {"without_servers": None, "tool_search_off": "off", "tool_search_on": "on"}
SHARE = 0.2
"""Largest share of the tools' prompt tokens that may remain with tool_search."""


async def many_tools(tools: int, turns: int) -> Outcome:
    """Measure tokens of the first prompt and CPU of a turn, with a server of this many tools and without one."""
    outcome = Outcome(details={"tools": tools, "turns": turns, "tokens": "characters of the request / 4"})
    tokens: dict[str, float] = {}
    for mode, search in MODES.items():
        async with stage(1, merged(LIFTED, _settings(tools, search))) as scene, scene.world:
            await warm_up(scene)
            begun = cpu_seconds(scene.pid)
            for turn in range(turns):
                if not await _turn(scene, turn):
                    outcome.problems.append(f"{mode}: turn {turn} was not answered")
            spent = (cpu_seconds(scene.pid) - begun) * 1000 / turns
            tokens[mode] = _tokens((await scene.model.completions())[0])
            held = memory(scene.pid).rss
        outcome.figures += [
            Figure(f"prompt_tokens_{mode}", tokens[mode], "tokens"),
            Figure(f"cpu_per_turn_{mode}", spent, "ms"),
            Figure(f"rss_{mode}", held, "MB"),
        ]
    bare = tokens["without_servers"]
    share = (tokens["tool_search_on"] - bare) / max(1.0, tokens["tool_search_off"] - bare)
    outcome.figures.append(Figure("tokens_left_with_tool_search", share, "share", Target(SHARE)))
    return outcome


def _settings(tools: int, search: str | None) -> dict[str, Any]:
    if search is None:
        return {}
    program = ["-m", "tests.simulators.mcp", "stdio", "--many", str(tools)]
    server = {
        "command": sys.executable,
        "args": program,
        "cwd": str(REPO_ROOT),
        "tools": {"allow": ["issue_action_*"]},
    }
    return {"mcp_servers": {"tracker": server}, "tool_search": {"enabled": search}}


def _tokens(record: Record) -> float:
    told = {key: record.body.get(key) for key in ("messages", "tools")}
    return len(json.dumps(told, ensure_ascii=False)) / CHARACTERS_PER_TOKEN


async def _turn(scene: Stage, number: int) -> bool:
    person = scene.people[0]
    await scene.say_at_once([person], lambda _: f"{SHORT.text} {label(person.id, number)}")
    answered = await scene.until_shown(SHORT.answer, number + 2, TURN_SECONDS)  # counts the warm-up's answer too
    await scene.until_quiet(0.05)
    return answered
