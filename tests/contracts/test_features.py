"""The page tells what the adapters say of themselves, of every platform that the registry knows."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from channels.capabilities import Capabilities
from channels.registry import PLATFORMS, config_class
from tests.contracts.features import ROWS, Row, channel_of, exists, table

PAGE = Path(__file__).parents[2] / "docs" / "channels.md"
BEGIN, END = "<!-- made by `python -m tests.contracts.features` -->\n", "\n<!-- end -->"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0] == table()


def test_every_platform_has_its_line() -> None:
    assert {row.platform for row in ROWS} | {"api"} == set(PLATFORMS), "the page's line is the API's as well"
    assert all(config_class(platform) for platform in PLATFORMS)


def test_each_platform_says_its_own_pace() -> None:
    required = {field.name for field in fields(Capabilities) if field.default is MISSING}
    assert {"edit_interval_dm", "edit_interval_group"} <= required
    paces = {
        row.title: (caps.edit_interval_dm, caps.edit_interval_group)
        for row in ROWS
        if exists(row.platform)
        for caps in (channel_of(row)[0].capabilities,)
    }
    assert paces["Slack"] == (1.2, 1.2), "chat.update: 50 a minute"
    assert paces["Slack, `streaming: stream`"] == (1.2, 0.6), "chat.appendStream: 100 a minute"


@pytest.mark.parametrize("row", [row for row in ROWS if exists(row.platform)], ids=lambda row: row.title)
def test_every_adapter_loads_and_is_built_without_connecting(row: Row) -> None:
    channel, _ = channel_of(row)
    assert channel.account == "example"
    assert channel.identity is None or row.platform in ("console", "web")
