"""The platform's composer: turns typed text into escaped wire text and a rich_text block."""

import html
import re
from collections.abc import Mapping

from tests.simulators.slack.state import Json

_TOKENS = re.compile(
    r"(?P<fence>```\n?(?P<code>.*?)\n?```)"
    r"|(?P<inline>`(?P<inline_code>[^`\n]+)`)"
    r"|(?P<url>https?://[^\s<>|]+)"
    r"|(?<![\w@])@(?P<name>[\w.\-]+)"
    r"|(?<![\w#])#(?P<room>[\w\-]+)",
    re.DOTALL,
)
BROADCASTS = frozenset({"here", "channel", "everyone"})


def escape(text: str) -> str:
    """Escape the three characters that have a meaning on the wire."""
    return html.escape(text, quote=False)


def compose(typed: str, users: Mapping[str, str], rooms: Mapping[str, str]) -> tuple[str, list[Json]]:
    """Wire text and blocks. users, rooms: name (lower case) -> id, for @name and #room; unknown names stay text."""
    text: list[str] = []
    blocks = _RichText()
    end = 0
    for match in _TOKENS.finditer(typed):
        token = _token(match, users, rooms)
        if token is None:
            continue
        _plain(typed[end : match.start()], text, blocks)
        wire, element = token
        text.append(wire)
        if match["fence"]:
            blocks.preformatted(element)
        else:
            blocks.add(element)
        end = match.end()
    _plain(typed[end:], text, blocks)
    return "".join(text), blocks.finished()


def _token(match: re.Match[str], users: Mapping[str, str], rooms: Mapping[str, str]) -> tuple[str, Json] | None:
    if match["fence"]:
        return f"```{escape(match['code'])}```", {"type": "text", "text": match["code"]}
    if match["inline"]:
        code = match["inline_code"]
        return f"`{escape(code)}`", {"type": "text", "text": code, "style": {"code": True}}
    if match["url"]:
        return f"<{escape(match['url'])}>", {"type": "link", "url": match["url"]}
    if match["name"]:
        return _mention(match["name"], users)
    channel = rooms.get(match["room"].lower())
    return (f"<#{channel}|{match['room']}>", {"type": "channel", "channel_id": channel}) if channel else None


def _mention(name: str, users: Mapping[str, str]) -> tuple[str, Json] | None:
    if name in BROADCASTS:
        return f"<!{name}>", {"type": "broadcast", "range": name}
    user = users.get(name.lower())
    return (f"<@{user}>", {"type": "user", "user_id": user}) if user else None


def _plain(piece: str, text: list[str], blocks: "_RichText") -> None:
    if piece:
        text.append(escape(piece))
        blocks.add({"type": "text", "text": piece})


class _RichText:
    """Collects inline elements into sections between preformatted parts."""

    def __init__(self) -> None:
        self._parts: list[Json] = []

    def add(self, element: Json) -> None:
        if not self._parts or self._parts[-1]["type"] != "rich_text_section":
            self._parts.append({"type": "rich_text_section", "elements": []})
        self._parts[-1]["elements"].append(element)

    def preformatted(self, element: Json) -> None:
        self._parts.append({"type": "rich_text_preformatted", "elements": [element], "border": 0})

    def finished(self) -> list[Json]:
        return [{"type": "rich_text", "block_id": "b1", "elements": self._parts}] if self._parts else []
