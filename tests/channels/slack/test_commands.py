"""What the bot tells people to type exists in Slack: by its slash where the manifest has it, else behind a mention."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bot.texts.en import EN
from channels.message import Address, Message
from channels.slack.config import manifest
from channels.slack.inbound import Known, Me, Reader
from tests.contracts.features import ROWS, channel_of
from tests.tables import table

if TYPE_CHECKING:
    from channels.base import Channel

SLACK = next(row for row in ROWS if row.platform == "slack")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
READER = Reader("slack", Me(team="T1", user="U0BOT", username="antler"), thread_follow=True)
NAMES = (*EN.command_menu, *EN.admin_menu)
PLACES = {
    "DM": Address(account="slack", chat="D1"),
    "thread of a DM": Address(account="slack", chat="D1", topic="1.0"),
    "channel": Address(account="slack", chat="C1", kind="group"),
    "thread": Address(account="slack", chat="C1", topic="1.0", kind="group"),
}


def read(kind: Any, payload: dict[str, Any]) -> Message:
    event = READER.read(kind, payload, Known({}, {}), NOW)
    assert isinstance(event, Message)
    return event


def said(text: str, address: Address) -> Message:
    event = {"type": "message", "user": "U1", "ts": "2.0", "channel": address.chat, "text": text}
    if address.topic is not None:
        event["thread_ts"] = address.topic
    return read("events_api", {"event_id": "Ev1", "team_id": "T1", "event": event})


def called(command: str, **more: str) -> Message:
    payload = {"command": command, "user_id": "U1", "channel_id": "C1", "trigger_id": "1.2", **more}
    return read("slash_commands", payload)


@pytest.fixture(scope="module")
def slash_commands() -> set[str]:
    """Those of the manifest, which takes long to parse."""
    return {command["command"] for command in yaml.safe_load(manifest("Antler"))["features"]["slash_commands"]}


@pytest.fixture(scope="module")
def channel() -> Channel:
    """It reads every certificate that the system trusts, so one serves all rows."""
    return channel_of(SLACK)[0]


@table("place", PLACES)
@table("name", NAMES)
def test_a_command_as_it_is_written_in_a_sentence_works_where_it_stands(
    slash_commands: set[str], channel: Channel, name: str, place: str
) -> None:
    address = PLACES[place]
    typed = channel.command(name, address)
    if typed.startswith("/"):
        assert place == "DM", "Slack has no slash commands in threads"
        assert typed in slash_commands
        message = called(typed, text="x", channel_id="D1")
    else:
        message = said(f"{typed} x", address)
    assert (message.text, message.mention) == (f"/{name} x", True)


def test_only_what_stands_at_the_beginning_names_the_bot() -> None:
    channel = PLACES["channel"]
    assert said("@Antler, hi", channel).mention
    assert said("@Antler, hi", channel).text == "hi"
    assert not said("ask @antler", channel).mention
    assert not said("@antlers hi", channel).mention


def test_a_slash_command_acts_on_the_thread_that_its_payload_names() -> None:
    assert called("/new", thread_ts="1.0").address == PLACES["thread"]
    assert called("/new").address == PLACES["channel"]


def test_a_mention_by_type_is_one_without_an_element_for_it() -> None:
    blocks = [
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "what now?"}]}],
        }
    ]
    event = {"type": "app_mention", "user": "U1", "ts": "2.0", "channel": "C1", "text": "what now?", "blocks": blocks}
    message = read("events_api", {"event_id": "Ev1", "team_id": "T1", "event": event})
    assert (message.mention, message.text) == (True, "what now?")
