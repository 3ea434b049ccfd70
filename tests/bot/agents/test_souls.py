"""Which agent answers where, and a broken folder of agents, told before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bot.agents.profiles import AgentChoices, ModelChoice
from bot.settings import ConfigError, load
from bot.settings.summary import describe
from bot.store.rows import ConversationRow
from harness.agents.profiles import AgentDefinition, AgentSettings
from tests.bot.core import ANN, BOB, core
from tests.bot.settings_files import CHANNELS, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

DEFINITIONS = {
    "default": AgentDefinition(),
    "support": AgentDefinition("support", "You are Sam.", AgentSettings(description="For customers", model="other")),
}


def row(account: str = "telegram", agent: str | None = None, model: str | None = None) -> ConversationRow:
    return ConversationRow(
        key=f"{account}:1", account=account, owner=f"{account}:1", thread_id="t", model=model, title="", agent=agent
    )


def folder_of(config: Path, name: str, soul: str = "You are kind.", text: str = "") -> None:
    folder = config / "agents" / name
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text(soul)
    (folder / "config.yaml").write_text(text)


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(CHANNELS + text)
    return path


def test_the_conversations_own_choice_then_the_accounts() -> None:
    choices = AgentChoices(DEFINITIONS, {"helpdesk": "support"})
    assert choices.agent_of(row()) == "default"
    assert choices.agent_of(row("helpdesk")) == "support"
    assert choices.agent_of(row("helpdesk", agent="default")) == "default"
    assert choices.agent_of(row(agent="support")) == "support"
    assert choices.agent_of(row("helpdesk", agent="removed")) == "support"


def test_a_chats_model_then_its_agents() -> None:
    choices = AgentChoices(DEFINITIONS, models=[ModelChoice(name) for name in ("main", "other", "third")])
    assert choices.answering(row()) == ("main", "default")
    assert choices.answering(row(agent="support")) == ("other", "support")
    assert choices.answering(row(agent="support", model="third")) == ("third", "support")
    assert choices.answering(row(agent="support", model="removed")) == ("other", "support")
    assert choices.answering(None) == ("main", "default")


def test_agents_lie_beside_the_config_and_accounts_name_them(tmp_path: Path) -> None:
    folder_of(tmp_path, "support")
    folder_of(tmp_path, "sales")
    own = "conversations: {agent: sales}\n"
    settings = load(written(tmp_path, own), os.environ)
    assert {settings.agent_for(account) for account in settings.channels} == {"sales"}
    assert sorted(AgentChoices.of(settings).definitions) == ["default", "sales", "support"]
    assert f"agent     support ({tmp_path}/agents/support)" in describe(settings)


def test_an_account_whose_agent_is_gone_has_the_plain_one(tmp_path: Path) -> None:
    folder_of(tmp_path, "support")
    settings = load(written(tmp_path, "conversations: {agent: support}\n"), os.environ)
    choices = AgentChoices.of(settings)
    choices.adopt(settings, {"default": AgentDefinition()})  # taken out with the account, which works until a restart
    account = next(iter(settings.channels))
    assert choices.answering(row(account)) == (settings.models[0].name, "default")


def test_an_account_has_its_own(tmp_path: Path) -> None:
    folder_of(tmp_path, "support")
    path = tmp_path / "config.yaml"
    path.write_text(f'channels: {{telegram: {{token: "{TOKEN}", agent: support}}, console: {{}}}}\n')
    settings = load(path, os.environ)
    assert [settings.agent_for(account) for account in ("telegram", "console")] == ["support", "default"]
    path.write_text(f'channels: {{telegram: {{token: "{TOKEN}", agent: suport}}}}\n')
    with pytest.raises(ConfigError, match=r"channels\.telegram\.agent: unknown agent"):
        load(path, os.environ)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("conversations: {agent: suport}\n", "conversations.agent: unknown agent; known: default, support"),
        ("agents_dir: elsewhere\n", "agents_dir: is not a folder"),
    ],
)
def test_a_name_of_no_agent_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    folder_of(tmp_path, "support")
    with pytest.raises(ConfigError) as error:
        load(written(tmp_path, text), os.environ)
    assert problem in str(error.value)


def test_a_broken_folder_is_named_with_file_and_key(tmp_path: Path) -> None:
    folder_of(tmp_path, "support", text="{model: gpt-9, featurs: {}}")
    folder_of(tmp_path, "silent", soul="  ")
    with pytest.raises(ConfigError) as error:
        load(written(tmp_path, "conversations: {agent: support}\n"), os.environ)
    assert str(error.value).splitlines() == [
        f"{tmp_path}/agents/silent/SOUL.md: is missing or empty; it describes the agent",
        f"{tmp_path}/agents/support/config.yaml: featurs: unknown key",
    ]


async def test_only_who_may_control_a_group_switches_its_agent(tmp_path: Path) -> None:
    async with core(tmp_path, agents=AgentChoices(DEFINITIONS)) as gateway:
        await gateway.say("/agent support", BOB, chat="g")
        await gateway.say("who answers?", BOB, chat="g")
        await gateway.say("/agent support", ANN, chat="g")
        await gateway.say("and now?", BOB, chat="g")
    told = [(start.ctx.agent, start.ctx.model) for start in gateway.harness.starts]
    assert told == [("default", "main"), ("support", "other")]
