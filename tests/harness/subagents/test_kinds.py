"""Types of subagents from the config: their own words, model and limits, and never more tools than the lead agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from pydantic import ValidationError

from harness.files.slots import FairSlots
from harness.graph.signals import Delegated, RunScope
from harness.skills.library import NO_SKILLS
from harness.subagents.config import SubagentSettings, SubagentsSettings
from harness.subagents.kinds import NEVER, Kind, subagent_kinds
from harness.subagents.pool import SubagentPool, Worker
from harness.subagents.tool import NO_RECURSION, task_tool
from tests.harness.subagents.crew_bench import LONG, Cast, delegates
from tests.harness.support import SCRIPTS, Bench, HeldClock, Script, collect, context, said, scripted_settings

if TYPE_CHECKING:
    from harness.config import ModelSettings


def own(**more: Any) -> SubagentsSettings:
    """A config with the type "reader"."""
    fields = {"description": "reads papers", "system_prompt": "You read papers closely.", **more}
    return SubagentsSettings(types={"reader": SubagentSettings.model_validate(fields)})


async def played(bench: Bench, script: Script, cast: Cast, *models: ModelSettings) -> None:
    cast.play(script)
    async with bench.open(*models) as harness, asyncio.timeout(LONG):
        await collect(harness, context("r1"), said("go"))


async def test_it_has_its_own_words_and_the_tools_that_it_names(bench: Bench, script: Script) -> None:
    @tool
    async def lookup() -> str:
        """Look up."""
        return "found"

    bench.tools = [lookup]
    bench.subagents = own(tools=["read_file", "lookup", "launch_rocket", "task", "ask_clarification"])
    cast = Cast({"lead": [delegates("read", kind="reader"), "done"], "read": ["report"]})
    await played(bench, script, cast)
    assert cast.offered["read"] == {"read_file", "lookup"}, "only what the lead agent has, and nothing that delegates"
    system = str(cast.asked["read"][0][0].content)
    assert "You read papers closely." in system
    assert "there is no bash tool" in system


async def test_without_a_list_it_inherits_all_that_a_subagent_may_have(bench: Bench, script: Script) -> None:
    bench.subagents = own(disallowed_tools=["bash", "write_file"])
    cast = Cast({"lead": [delegates("read", kind="reader"), "done"], "read": ["report"]})
    await played(bench, script, cast)
    assert cast.offered["read"] == {"ls", "glob", "grep", "read_file", "str_replace", "present_files"}
    assert cast.offered["lead"] - cast.offered["read"] == {*NEVER, "bash", "write_file"} & cast.offered["lead"]


async def test_it_may_have_a_model_of_its_own_but_no_tool_that_comes_with_it(bench: Bench, script: Script) -> None:
    SCRIPTS["other"] = Script(steps=["seen by the other one"])
    other = scripted_settings(name="other", model="other", supports_vision=True)
    bench.subagents = own(model="other")
    cast = Cast({"lead": [delegates("read", kind="reader"), "done"]})
    await played(bench, script, cast, scripted_settings(), other)
    assert cast.results()[0].endswith("seen by the other one")
    assert "view_image" not in SCRIPTS["other"].tool_names[0], "the lead agent's model cannot see, so it has none"


async def test_a_model_that_cannot_be_had_fails_the_task(bench: Bench, script: Script) -> None:
    bench.subagents = own(model="gone")
    cast = Cast({"lead": [delegates("read", kind="reader"), "done"]})
    await played(bench, script, cast)
    assert "its model gone could not answer (not_found)" in cast.results()[0]


def never(kind: Kind) -> Worker:
    raise AssertionError(f"nobody is to work as {kind.name}")


def tool_of(settings: SubagentsSettings) -> Any:
    return task_tool(SubagentPool(subagent_kinds(settings, bash=True), never, FairSlots(1), HeldClock()))


def test_the_lead_agent_chooses_by_descriptions() -> None:
    description = tool_of(own()).description
    assert "reader (reads papers)" in description
    assert "bash (for a series of commands" in description


async def test_the_tool_itself_refuses_whoever_is_a_subagent() -> None:
    scope = RunScope(context("r1"), NO_SKILLS, delegated=Delegated("r1-1/call-0"), depth=1)
    runtime: Any = ToolRuntime(
        state={"messages": []}, context=scope, config={}, stream_writer=print, tool_call_id="call-1", store=None
    )
    arguments = {"description": "d", "prompt": "p", "subagent_type": "general-purpose", "runtime": runtime}
    result = await tool_of(own()).coroutine(**arguments)
    assert (result.status, result.content) == ("error", NO_RECURSION)


def kinds(**types: dict[str, Any]) -> dict[str, Kind]:
    settings = SubagentsSettings.model_validate(
        {"timeout_seconds": 60, "types": {k.replace("_", "-"): v for k, v in types.items()}}
    )
    return subagent_kinds(settings, bash=True)


def test_what_is_said_of_a_built_in_one_changes_only_that() -> None:
    plain, changed = kinds()["bash"], kinds(bash={"max_turns": 5, "disallowed_tools": ["grep"]})["bash"]
    assert (changed.max_turns, plain.max_turns) == (5, 60)
    assert changed.system_prompt == plain.system_prompt
    assert not changed.allows("grep")
    assert changed.allows("bash")
    general = kinds(general_purpose={"timeout_seconds": 5, "tools": ["ls", "present_files"]})["general-purpose"]
    assert general.timeout_seconds == 5
    assert [name for name in ("ls", "bash", "present_files", "task") if general.allows(name)] == ["ls"]
    assert plain.timeout_seconds == 60


def test_the_defaults() -> None:
    built_in = subagent_kinds(SubagentsSettings(), bash=True)
    assert {name: (kind.max_turns, kind.timeout_seconds) for name, kind in built_in.items()} == {
        "general-purpose": (100, 900.0),
        "bash": (60, 900.0),
    }
    assert list(subagent_kinds(SubagentsSettings(), bash=False)) == ["general-purpose"]


@pytest.mark.parametrize(
    "types",
    [{"reader": {}}, {"reader": {"description": "x"}}, {"Bad Name": {"description": "x", "system_prompt": "y"}}],
)
def test_a_type_that_is_not_described_is_refused(types: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SubagentsSettings.model_validate({"types": types})
