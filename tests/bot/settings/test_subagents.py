"""The section `subagents`: what may stand there, and what is told of a mistake in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bot.settings_files import CHANNELS, found

if TYPE_CHECKING:
    from pathlib import Path


def test_mistakes_are_named_with_their_place(tmp_path: Path) -> None:
    text = f"""\
    models: [{{name: main, model: gpt}}]
    subagents:
      max_concurent: 5
      per_run: 0
      types:
        researcher: {{description: looks up, system_prompt: Look things up., model: man}}
        bash: {{max_turns: 0, tool: [ls]}}
        general-purpose: {{model: main}}
    {CHANNELS}
    """
    assert found(tmp_path, text) == {
        "subagents.max_concurent": "3: unknown key; did you mean max_concurrent?",
        "subagents.per_run": "4: should be greater than 0",
        "subagents.types.researcher.model": "6: unknown model; did you mean main?",
        "subagents.types.bash.max_turns": "7: should be greater than or equal to 1",
        "subagents.types.bash.tool": "7: unknown key; did you mean tools?",
    }


def test_a_type_of_ones_own_has_to_be_described(tmp_path: Path) -> None:
    assert found(tmp_path, f"subagents: {{types: {{reader: {{}}}}}}\n{CHANNELS}") == {
        "subagents": "1: types.reader needs a description and a system_prompt"
    }


def test_tools_of_servers_are_added_to_agents_that_there_are(tmp_path: Path) -> None:
    text = f"""\
    subagents: {{types: {{reader: {{description: reads, system_prompt: Read.}}}}}}
    mcp_servers:
      papers:
        command: papers
        add_to_agents: [lead, general-purpose, researcher, readr]
        hints: {{"find_*": {{add_to_agents: [reader, coder, leed]}}}}
    {CHANNELS}
    """
    assert found(tmp_path, text) == {
        "mcp_servers.papers.add_to_agents[3]": "5: unknown agent; did you mean reader?",
        "mcp_servers.papers.hints.find_*.add_to_agents[2]": "6: unknown agent; did you mean lead?",
    }
