"""The part of Feishu's events and messages that the adapter reads, and their content: Markdown and files. Pure.

Names of validated fields are the platform's own; other fields are ignored. Source: its "message content" page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StrictStr

from channels.adapter import Raw, Several, or_else, told_place, told_poll, without_surrogates
from channels.message import Attachment, AttachmentKind
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_KEY = re.compile(r"@_user_[0-9]+|@_all")
_CLOSING = ",.;:!?)"
_AFTER_NAME = " \t,:;"
_FENCE = re.compile(r"`{3,}")
_STYLES = (("bold", "**"), ("italic", "*"), ("lineThrough", "~~"))
_LONGEST_CARD = 4000


def _clean(value: object) -> object:
    """Text that every store accepts: U+FFFD for each lone surrogate (JSON can carry them), no NUL."""
    if isinstance(value, str):
        value = value.replace("\0", "")
    return without_surrogates(value)


def _absent(value: object) -> object:
    """The value, with null treated like a missing field."""
    return "" if value is None else value


Text = Annotated[StrictStr, BeforeValidator(_clean), BeforeValidator(_absent)]
Name = Annotated[Text, or_else("")]
Milliseconds = Annotated[int, Field(ge=0), or_else(0)]


class _Raw(Raw):
    model_config = ConfigDict(populate_by_name=True)


class RawHeader(_Raw):
    event_id: Text
    event_type: Text
    create_time: Milliseconds = 0


class RawIds(_Raw):
    """A person's ids. open_id: the id for this app, immutable."""

    open_id: Text = ""
    union_id: Text = ""
    user_id: Text = ""


class RawSender(_Raw):
    sender_id: RawIds = RawIds()
    sender_type: Text = "user"


class RawMention(_Raw):
    """A mention. key: its placeholder in the text, such as @_user_1. id: ids in events, a bare open_id if fetched."""

    key: Text = ""
    id: Annotated[RawIds, BeforeValidator(lambda value: {"open_id": value} if isinstance(value, str) else value)] = (
        RawIds()
    )
    name: Name = ""


Mentions = Several[RawMention]


class RawMessage(_Raw):
    message_id: Annotated[Text, Field(min_length=1)]
    root_id: Text = ""
    parent_id: Name = ""
    thread_id: Text = ""
    create_time: Milliseconds = 0
    chat_id: Annotated[Text, Field(min_length=1)]
    chat_type: Name = ""
    message_type: Text
    content: Text
    mentions: Mentions = ()


class RawReceived(_Raw):
    """The body of im.message.receive_v1."""

    sender: RawSender
    message: RawMessage


class RawAction(_Raw):
    tag: Text = ""
    value: Any = None


class RawContext(_Raw):
    open_message_id: Annotated[Text, Field(min_length=1)]
    open_chat_id: Annotated[Text, Field(min_length=1)]


class RawPressed(_Raw):
    """The body of card.action.trigger."""

    operator: RawIds
    action: RawAction
    context: RawContext


class RawMembership(_Raw):
    """The body of im.chat.member.bot.added_v1 and deleted_v1."""

    chat_id: Annotated[Text, Field(min_length=1)]
    operator_id: RawIds = RawIds()
    name: Name = ""


class RawRecalled(_Raw):
    """The body of im.message.recalled_v1."""

    chat_id: Annotated[Text, Field(min_length=1)]
    message_id: Annotated[Text, Field(min_length=1)]


class RawItemSender(_Raw):
    id: Text = ""
    id_type: Text = ""
    sender_type: Text = ""


class RawBody(_Raw):
    content: Text = ""


class RawItem(_Raw):
    """A message as returned by GET im/v1/messages/:id; the children of a merged forward follow the forward itself."""

    message_id: Text = ""
    root_id: Text = ""
    parent_id: Text = ""
    thread_id: Text = ""
    upper_message_id: Text = ""
    chat_id: Text = ""
    msg_type: Text = ""
    deleted: bool = False
    sender: RawItemSender = RawItemSender()
    body: RawBody = RawBody()
    mentions: Mentions = ()


class RawEnvelope(_Raw):
    header: RawHeader
    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """The people that the keys in a text stand for; `own` are the bot's keys."""

    by_key: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()

    @staticmethod
    def of(mentions: Sequence[RawMention], bot: str) -> Names:
        """Read the names from a message's mentions. bot: its open_id. A mention of all does not mention the bot."""
        named = {mention.key: mention.name for mention in mentions if mention.key and mention.key != "@_all"}
        return Names(named, frozenset(mention.key for mention in mentions if bot and mention.id.open_id == bot))

    def name(self, key: str) -> str:
        return "@all" if key == "@_all" else f"@{' '.join(self.by_key.get(key, '').split()) or 'somebody'}"


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message. text: without the bot's own name. named: it contained the bot's name."""

    text: str
    files: tuple[Attachment, ...] = ()
    named: bool = False
    unread: str = ""


SHARED_PERSON = "share_user"
_UNREAD = {
    "sticker": "sticker",
    "share_chat": "shared_group",
    SHARED_PERSON: "shared_contact",
    "todo": "task",
    "vote": "poll",
    "hongbao": "red_packet",
    "folder": "folder",
    "calendar": "event",
    "share_calendar_event": "event",
    "general_calendar": "event",
    "video_chat": "video_call",
}
"""Types of messages that an agent cannot read -> kind in `channels.message.UNREAD`."""


def unread(kind: str) -> Content | None:
    """Content of an unreadable message that is answered because its sender waits; None for service messages."""
    return Content("", unread=_UNREAD[kind]) if kind in _UNREAD else None


def shared_person(raw: str) -> str:
    """The open_id of the person whose card was shared; "" if it has none."""
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return ""
    return _string(fields, "user_id") if isinstance(fields, dict) else ""


def read_content(kind: str, raw: str, names: Names, message_id: str) -> Content | None:
    """The content of a message of that type; None if it means nothing to an agent (a sticker, a shared card).

    Raises ValueError if it does not match the platform's documentation.
    """
    if kind == "merge_forward":
        return Content("[forwarded messages]")
    if kind not in _READERS and kind != "interactive":
        return None
    try:
        fields = json.loads(raw)
    except RecursionError as error:
        raise ValueError("its content is nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError("its content is not an object")
    if kind == "interactive":
        return Content(_card_text(fields))
    content: Content = _READERS[kind](fields, names, message_id)
    return content


def without_names(text: str, names: Names) -> str:
    """The text with names instead of keys and without the bot's own name, leaving no orphaned blank or comma."""
    kept, position = "", 0
    cut = False
    for found in _KEY.finditer(text):
        kept = _joined(kept, text[position : found.start()], cut)
        cut = found[0] in names.own
        if not cut:
            kept += names.name(found[0])
        position = found.end()
    return _joined(kept, text[position:], cut).strip(" ") if names.own else kept + text[position:]


def _joined(kept: str, piece: str, cut: bool) -> str:
    if cut and (not kept or kept.isspace()):
        return piece.lstrip(_AFTER_NAME)
    if cut and kept[-1:] in (" ", "\n") and piece[:1] == " ":
        piece = piece[1:]
    elif cut and kept[-1:] == " " and piece[:1] in _CLOSING and piece:
        kept = kept[:-1]
    return kept + piece


def _text(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    said = _string(fields, "text")
    return Content(without_names(said, names), named=_named(said, names))


def _post(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    post = _one_locale(fields)
    named = False
    lines: list[str] = []
    files: list[Attachment] = []
    for paragraph in _list(post.get("content")):
        said = ""
        for node in _list(paragraph):
            if not isinstance(node, dict):
                continue
            named = named or (node.get("tag") == "at" and str(node.get("user_id")) in names.own)
            said += _node(node)
            files += _node_files(node, message_id)
        lines.append(said)
    title = _string(post, "title").strip()
    body = without_names("\n".join(lines).strip("\n"), names)
    text = f"# {without_names(title, names)}\n\n{body}".rstrip() if title else body
    return Content(text, tuple(files), named or _named(title, names))


def _one_locale(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The post of one locale: received posts have one form; fetched ones may be keyed by locale, or wrapped."""
    if "content" in fields or "title" in fields:
        return fields
    inner = fields.get("post", fields)
    first: Any = next(iter(inner.values()), None) if isinstance(inner, dict) else None
    return first if isinstance(first, dict) else {}


def _node(node: Mapping[str, Any]) -> str:
    """One piece of a post as Markdown."""
    match node.get("tag"):
        case "text":
            return _styled(_string(node, "text"), node.get("style"))
        case "a":
            text, href = _string(node, "text"), _string(node, "href")
            return f"[{text}]({href})" if text and text != href else href
        case "at":
            return _string(node, "user_id") if _KEY.fullmatch(_string(node, "user_id")) else _other_name(node)
        case "emotion":
            return f":{_string(node, 'emoji_type')}:"
        case "code_block":
            return _code(_string(node, "text"), _string(node, "language"))
        case "hr":
            return "\n---\n"
        case "md":
            return _string(node, "text")
    return ""


def _other_name(node: Mapping[str, Any]) -> str:
    if _string(node, "user_id") == "all":
        return "@all"
    return f"@{_string(node, 'user_name') or 'somebody'}"


def _styled(text: str, style: object) -> str:
    if not isinstance(style, list) or not text.strip():
        return text
    marks = [mark for name, mark in _STYLES if name in style]
    inner = text.strip()
    start = text[: len(text) - len(text.lstrip())]
    end = text[len(text.rstrip()) :]
    return f"{start}{''.join(marks)}{inner}{''.join(reversed(marks))}{end}"


def _code(text: str, language: str) -> str:
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    word = language.split()[0].lower() if language.split() else ""
    return f"\n{fence}{word}\n{text.rstrip(chr(10))}\n{fence}\n"


def _node_files(node: Mapping[str, Any], message_id: str) -> Iterable[Attachment]:
    if node.get("tag") == "img":
        return _files(message_id, _string(node, "image_key"), "image", None)
    if node.get("tag") == "media":
        return _files(message_id, _string(node, "file_key"), "video", None)
    return ()


def _image(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    return Content("", _files(message_id, _string(fields, "image_key"), "image", None))


def _file(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    return Content("", _files(message_id, _string(fields, "file_key"), "file", _string(fields, "file_name")))


def _audio(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    return Content("", _files(message_id, _string(fields, "file_key"), "voice", None))


def _media(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    return Content("", _files(message_id, _string(fields, "file_key"), "video", _string(fields, "file_name")))


def _vote(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    topic, options = one_line(_string(fields, "topic")), map(str, _list(fields.get("options")))
    return Content(told_poll(topic, options)) if topic else Content("", unread=_UNREAD["vote"])


def _location(fields: Mapping[str, Any], names: Names, message_id: str) -> Content:
    name, latitude, longitude = (one_line(_string(fields, part)) for part in ("name", "latitude", "longitude"))
    return Content(told_place(name, latitude, longitude))


_READERS = {
    "text": _text,
    "post": _post,
    "image": _image,
    "file": _file,
    "audio": _audio,
    "media": _media,
    "location": _location,
    "vote": _vote,
}
_MIME_TYPES: dict[AttachmentKind, str] = {"voice": "audio/ogg", "video": "video/mp4"}


def _files(message_id: str, key: str, kind: AttachmentKind, name: str | None) -> tuple[Attachment, ...]:
    if not key:
        raise ValueError("its content has no file key")
    ref = json.dumps({"message_id": message_id, "key": key, "type": "image" if kind == "image" else "file"})
    return (Attachment(ref=ref, kind=kind, name=name or None, mime_type=_MIME_TYPES.get(kind)),)


def _card_text(card: Any) -> str:
    """The text of a card in reading order; what the platform returns of a card is lossy anyway."""
    words: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str) and key in ("text", "content", "title"):
                    words.append(inner)
                else:
                    walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(card)
    return "\n".join(word for word in words if word.strip())[:_LONGEST_CARD]


def _named(text: str, names: Names) -> bool:
    return any(found in names.own for found in _KEY.findall(text))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return sanitize(value) if isinstance(value, str) else ""
