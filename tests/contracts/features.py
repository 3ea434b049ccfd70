"""The feature table of docs/channels.md, made of what each adapter says of itself: `python -m tests.contracts.features`
prints it, test_features.py compares it with the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from channels.base import ChannelPorts, Route
from channels.capabilities import TextUnit
from channels.registry import PLATFORMS, channel_class, config_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.base import Channel
    from channels.capabilities import Capabilities, Rate


@dataclass(frozen=True)
class Row:
    """A platform with settings that change what it can do. title: of its line in the table."""

    platform: str
    title: str
    settings: dict[str, Any] = field(default_factory=dict)


_TELEGRAM = {"token": "123456789:" + "A" * 35}
_SLACK = {"bot_token": "xoxb-0000000000-example", "app_token": "xapp-0-example-000000"}
ROWS = (
    Row("telegram", "Telegram", _TELEGRAM),
    Row("telegram", "Telegram, `streaming: draft`", {**_TELEGRAM, "streaming": "draft"}),
    Row("slack", "Slack", _SLACK),
    Row("slack", "Slack, `streaming: stream`", {**_SLACK, "streaming": "stream"}),
    Row("feishu", "Feishu / Lark", {"app_id": "cli_example0", "app_secret": "example"}),
    Row("wecom", "WeCom", {"bot_id": "example", "secret": "example"}),
    Row("console", "terminal"),
    Row("web", "the page, the API", {"uploads": "uploads"}),
)
COLUMNS = (
    "an answer grows by",
    "what was sent can change",
    "buttons",
    "files out / in",
    "typing shown",
    "longest message",
    "a send that is repeated",
    "a send whose answer was lost is found after a crash",
    "calls allowed",
)
UNITS = {
    TextUnit.UTF16: "UTF-16 units",
    TextUnit.CHARACTERS: "characters",
    TextUnit.UTF8_BYTES: "bytes",
    TextUnit.JSON_BYTES: "bytes as JSON",
}
_NO, _YES = "no", "yes"


def exists(platform: str) -> bool:
    """Whether there is an adapter at all; one that is there must load."""
    return find_spec(PLATFORMS[platform].channel.partition(":")[0]) is not None


def channel_of(row: Row) -> tuple[Channel, Any]:
    """The adapter as the gateway builds it, and its settings; nothing connects."""
    ports = ChannelPorts(publish=_nobody_listens, clock=SystemClock(), route=lambda url: Route())
    config = config_class(row.platform).model_validate(row.settings)
    return channel_class(row.platform)("example", config, ports), config


def table() -> str:
    """Markdown."""
    lines = [_line("", COLUMNS), _line("---", ["---"] * len(COLUMNS))]
    return "\n".join(lines + [_line(row.title, _cells(row)) for row in ROWS if exists(row.platform)])


def _line(first: str, cells: Sequence[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"


def _cells(row: Row) -> list[str]:
    channel, config = channel_of(row)
    caps = channel.capabilities
    received = getattr(config, "max_download_mb", None)
    return [
        _growth(caps),
        _YES if caps.edits else _NO,
        _YES if caps.buttons else "a numbered list, answered by the number",
        f"{_YES if caps.files else _NO} / {_NO if received is None else f'to {received:g} MiB'}",
        _YES if caps.typing else _NO,
        f"{caps.max_unit} {UNITS[caps.text_unit]}",
        "is the same message" if caps.idempotent_send else "may be a second one",
        "not needed" if caps.idempotent_send else _YES if caps.findable_after_crash else _NO,
        _calls(channel.rate),
    ]


def _growth(caps: Capabilities) -> str:
    edits = f"edits, at most every {caps.edit_interval_dm:g} s"
    if caps.edit_interval_dm != caps.edit_interval_group:
        edits += f" ({caps.edit_interval_group:g} s in groups)"
    if caps.preview_dm:
        return f"a live preview in direct messages, else {edits}"
    if not caps.append_only_stream:
        return edits if caps.edits else "nothing: it comes whole"
    ends = "" if caps.stream_ttl is None else f" of at most {caps.stream_ttl / 60:g} min"
    return f"a stream{ends}, then {'edits' if caps.edits else 'a further message'}"


def _calls(rate: Rate) -> str:
    limits = (
        (rate.per_second, "a second"),
        (rate.per_chat_per_second, "a second in a chat"),
        (rate.per_chat_per_minute, "a minute in a chat"),
        (rate.per_chat_per_hour, "an hour in a chat"),
        (rate.per_group_per_minute if _groups_are_stricter(rate) else math.inf, "a minute in a group"),
        (rate.edits_per_minute, "edits a minute"),
    )
    return ", ".join(f"{most:g} {where}" for most, where in limits if math.isfinite(most))


def _groups_are_stricter(rate: Rate) -> bool:
    return rate.per_group_per_minute < min(rate.per_chat_per_minute, 60 * rate.per_chat_per_second)


async def _nobody_listens(events: Sequence[object]) -> None:
    return None


if __name__ == "__main__":
    print(table())
