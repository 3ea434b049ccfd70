"""What an operator may write, and what he is told when it is wrong; nothing of a token is repeated."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from channels import registry
from channels.slack.config import COMMANDS, EVENTS, SCOPES, SlackConfig, manifest
from tests.simulators.process import REPO_ROOT
from tests.simulators.slack.scopes import EVENT_SCOPES
from tests.tables import table

GOOD = {"bot_token": "xoxb-1234567890-abcDEF", "app_token": "xapp-1-A1234-5678-abcdef"}


def test_the_defaults() -> None:
    config = SlackConfig.model_validate(GOOD)
    assert (config.base_url, config.streaming, config.thread_follow) == ("https://slack.com/api/", "edits", True)
    assert "xoxb" not in repr(config)
    assert config.rate.edits_per_minute == 50


def test_a_token_is_taken_without_the_space_that_was_copied_with_it() -> None:
    config = SlackConfig.model_validate({**GOOD, "bot_token": " xoxb-1234567890-abcDEF\n"})
    assert config.bot_token.get_secret_value() == GOOD["bot_token"]


@table(
    ("settings", "said"),
    [
        ({"bot_token": GOOD["app_token"]}, "should be a bot token (xoxb-...): see OAuth & Permissions"),
        ({"bot_token": GOOD["app_token"]}, "this is an app-level token"),
        ({"app_token": GOOD["bot_token"]}, "this is a bot token"),
        ({"bot_token": "xoxp-1234567890-abc"}, "this is a user token"),
        ({"bot_token": "xoxe.xoxb-1-abcdefghij"}, "token rotation is on"),
        ({"bot_token": "secret-canary"}, "this is not one"),
        ({"bot_token": "xoxb-"}, "this is not one"),
        ({"base_url": "slack.com/api"}, "needs a scheme"),
        ({"base_url": "https://slack.com/api?x=1"}, "without query or fragment"),
        ({"streaming": "draft"}, "'edits' or 'stream'"),
        ({"max_download_mb": 0}, "greater than 0"),
        ({"token": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        SlackConfig.model_validate(GOOD | settings)
    assert said in str(raised.value)
    assert "abcdef" not in str(raised.value).lower()
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(("native", "group"), [("C012", True), ("G012", True), ("D012", False), ("T012/U34", False)])
def test_which_ids_are_groups(native: str, group: bool) -> None:
    assert registry.names_group("slack", native) is group


def test_the_manifest_asks_for_what_the_adapter_uses() -> None:
    content = yaml.safe_load(manifest("Antler"))
    scopes = content["oauth_config"]["scopes"]["bot"]
    assert scopes == [scope.name for scope in SCOPES]
    events = content["settings"]["event_subscriptions"]["bot_events"]
    assert events == list(EVENTS)
    assert {EVENT_SCOPES[event] for event in events if event in EVENT_SCOPES} <= set(scopes)
    assert content["settings"]["socket_mode_enabled"] is True
    assert content["features"]["app_home"]["messages_tab_read_only_enabled"] is False
    assert len(content["features"]["slash_commands"]) == len(COMMANDS)


def test_the_manifest_renames_what_slack_keeps_for_itself_and_cuts_what_is_too_long() -> None:
    content = yaml.safe_load(manifest("A" * 50, [("status", "d" * 200), ("new", "x")]))
    assert content["display_information"]["name"] == "A" * 35
    commands = content["features"]["slash_commands"]
    assert [command["command"] for command in commands] == ["/antler-status", "/new"]
    assert len(commands[0]["description"]) == 100


def test_the_setup_page_shows_the_manifest_as_it_is() -> None:
    page = (REPO_ROOT / "docs" / "setup-slack.md").read_text()
    assert f"```yaml\n{manifest('Antler')}```" in page
    assert all(f"| `{scope.name}` | {scope.purpose} |" in page for scope in SCOPES)
