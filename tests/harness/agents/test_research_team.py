"""The agents of a research: their tools, their models, their time."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.agents.research import research_kinds
from harness.research.config import ResearchSettings
from harness.subagents.config import INHERIT

LEAD = (
    "web_search",
    "web_fetch",
    "bash",
    "read_file",
    "write_file",
    "present_files",
    "github_issues",
    "github_code",
    "x",
)


def settings(**more: object) -> ResearchSettings:
    return ResearchSettings.model_validate(more)


def nothing(role: str) -> list[str]:
    """No server's tools are given to a role."""
    return []


def tools(name: str, **more: object) -> set[str]:
    """Of the lead agent's tools those that a role has."""
    kind = research_kinds(settings(**more), LEAD, nothing)[name]
    return {tool for tool in LEAD if kind.allows(tool)}


def test_each_role_has_what_its_work_needs_and_no_more() -> None:
    assert tools("researcher") == {"web_search", "web_fetch", "read_file"}
    assert tools("coder") == {"bash", "read_file", "write_file", "present_files"}
    assert tools("background") == {"web_search"}
    for role in ("coordinator", "planner", "analyst", "reporter"):
        assert tools(role) == set()


def test_further_tools_are_given_by_name_and_pattern() -> None:
    given = tools("researcher", tools={"researcher": ["github_*", "nowhere"]})
    assert given == {"web_search", "web_fetch", "read_file", "github_issues", "github_code"}
    assert tools("analyst", tools={"analyst": ["x"]}) == {"x"}
    with pytest.raises(ValidationError, match="reporter"):
        settings(tools={"reporter": ["x"]})


def test_a_role_has_what_servers_are_to_add_to_it() -> None:
    kinds = research_kinds(settings(), LEAD, lambda role: ["papers_find"] if role == "analyst" else [])
    assert kinds["analyst"].tools == ("papers_find",)
    assert not kinds["researcher"].allows("papers_find")


def test_models_times_and_turns_are_those_of_the_settings() -> None:
    kinds = research_kinds(settings(models={"planner": "strong"}, seconds_per_step=90, max_turns=7), LEAD, nothing)
    assert (kinds["planner"].model, kinds["reporter"].model) == ("strong", INHERIT)
    assert {kind.timeout_seconds for kind in kinds.values()} == {90}
    assert kinds["researcher"].max_turns == 7


def test_only_those_who_carry_out_steps_read_of_their_surroundings() -> None:
    kinds = research_kinds(settings(), LEAD, nothing)
    assert {name for name, kind in kinds.items() if not kind.whole} == {"researcher", "analyst", "coder"}
    assert "Never ask back" in kinds["coordinator"].system_prompt
    asking = research_kinds(settings(clarification=True, max_clarification_rounds=2), LEAD, nothing)
    assert "At most 2 times" in asking["coordinator"].system_prompt
