"""The content of a Slack message for the agent: its text without the bot's name, its files and links. Pure.

What people type arrives as rich text blocks, which become Markdown. Messages without such blocks use Slack's own markup
(mrkdwn), in which entities, links and mentions are made readable.
Sources: Block Kit reference, "Rich text block"; "Formatting text for app surfaces".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.errors import AttachmentFailed
from channels.message import Attachment, AttachmentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from channels.slack.schema import RawContent, RawFile

    Json = Mapping[str, Any]
    Mention = Callable[[str], str]
    """Returns the text to write for a person's id."""

_ME = "\0"
"""Placeholder for the bot's mention until it is removed; it does not occur in texts otherwise."""
_AT_START = re.compile(rf"^\s*(?:{_ME}[ \t,:;]*)+")
_BEFORE_PUNCTUATION = re.compile(rf"(?<![ \t])[ \t]*+{_ME}(?=[,.;:!?)])")
_BETWEEN = re.compile(rf"(?<=\s){_ME}[ \t]?|[ \t]?{_ME}(?=\s|$)|{_ME}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r"<([^<>\n]+)>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_MARKS = (("code", "`"), ("strike", "~~"), ("italic", "*"), ("bold", "**"))
"""Styles and their marks, innermost first."""
_NO_FILE = frozenset({"tombstone", "hidden_by_limit"})


@dataclass(frozen=True, slots=True)
class Person:
    """What Slack reports about a person; the name is untrusted text."""

    name: str
    locale: str | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """text: without the bot's name. named: the bot is mentioned."""

    text: str
    named: bool


def spoken(raw: RawContent, me: str, name: str, people: Mapping[str, Person]) -> Spoken:
    """The text of the message; me, name: the bot's user id and its name.

    At the beginning of a message the name is a mention even if Slack did not convert it (a pasted command).
    """

    def mention(user: str) -> str:
        user = user.partition("|")[0]
        return _ME if user == me else f"@{people[user].name if user in people else user}"

    # The fallback also applies if the blocks are of a new kind, or empty.
    text = rich_text(raw.blocks, mention) or readable(raw.text.replace(_ME, ""), mention)
    if _ME not in text and name:
        text = re.sub(rf"^\s*@{re.escape(name)}(?=[\s,:;]|$)", _ME, text, count=1, flags=re.IGNORECASE)
    named = _ME in text
    pieces = [_plain(_without_me(text)), *_shared(raw, mention), *_links(raw)]
    return Spoken("\n\n".join(piece for piece in pieces if piece), named)


def mentioned(raw: RawContent) -> set[str]:
    """The ids of all people mentioned in the message."""
    found: set[str] = set()

    def note(user: str) -> str:
        found.add(user.partition("|")[0])
        return ""

    if not rich_text(raw.blocks, note):
        readable(raw.text, note)
    return found


def read_attachments(raw: RawContent) -> tuple[Attachment, ...]:
    """The files stored by Slack; files stored elsewhere are in the text as links."""
    return tuple(_attachment(file) for file in raw.files if file.mode != "external" and file.mode not in _NO_FILE)


def file_of(attachment: Attachment) -> tuple[str, str | None]:
    """A file's id and its URL, if known. Raises AttachmentFailed("gone") for another platform's reference."""
    try:
        fields = json.loads(attachment.ref)
        file_id, url = fields["id"], fields.get("url")
    except (ValueError, TypeError, KeyError, AttributeError):
        file_id = url = None
    if not isinstance(file_id, str) or not isinstance(url, str | None):
        raise AttachmentFailed("the attachment's reference is not from Slack", "gone")
    return file_id, url


def one_line(name: str) -> str:
    return " ".join(_plain(name).split())


def _without_me(text: str) -> str:
    """The text without the bot's mentions, leaving no double blank and no orphaned comma at the beginning."""
    text = _AT_START.sub("", text)
    return _BETWEEN.sub("", _BEFORE_PUNCTUATION.sub("", text)).strip(" ")


def _shared(raw: RawContent, mention: Mention) -> list[str]:
    """Messages that were shared in this one: other people's text, marked as such."""
    return [
        f"[forwarded from {one_line(shared.author_name or 'somebody')}]\n"
        + _plain(readable(shared.text.replace(_ME, ""), mention)).replace(_ME, "")
        for shared in raw.attachments
        if (shared.is_share or shared.is_msg_unfurl) and shared.text
    ]


def _links(raw: RawContent) -> list[str]:
    return [
        link(file.url_private, one_line(file.name or ""))
        for file in raw.files
        if file.mode == "external" and file.url_private is not None
    ]


def _attachment(file: RawFile) -> Attachment:
    told = file.file_access != "check_file_info"
    url = (file.url_private_download or file.url_private) if told else None
    return Attachment(
        ref=json.dumps({"id": file.id, "url": url}),
        kind=_kind(file),
        name=None if file.name is None else file.name.replace("\0", ""),
        mime_type=file.mimetype,
        size=file.size,
    )


def _kind(file: RawFile) -> AttachmentKind:
    if file.subtype == "slack_audio":
        return "voice"
    match (file.mimetype or "").partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
    return "file"


def _plain(text: str) -> str:
    """Text that every store accepts: no lone surrogates, newlines as \\n."""
    return _SURROGATES.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")


def readable(text: str, mention: Mention) -> str:
    """Slack's own markup as a person reads it."""
    pieces, position = [], 0
    for found in _TOKEN.finditer(text):
        pieces += [_unescaped(text[position : found.start()]), _token(found[1], mention)]
        position = found.end()
    return "".join([*pieces, _unescaped(text[position:])])


def link(url: str, label: str) -> str:
    """A link as text: only the address if the label adds nothing."""
    if not label or label == url or url in (f"http://{label}", f"https://{label}", f"mailto:{label}", f"tel:{label}"):
        return url if "://" in url else label or url
    return f"{label} ({url})"


def _token(content: str, mention: Mention) -> str:
    target, _, label = content.partition("|")
    label = _unescaped(label)
    match target[:1]:
        case "@":
            return mention(target[1:])
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return _special(target[1:], label)
    return link(_unescaped(target), label)


def _special(target: str, label: str) -> str:
    """The text for <!here>, <!subteam^S1|@group>, <!date^…|as it was then>."""
    name, _, rest = target.partition("^")
    if name == "date":
        return label
    return label if label.startswith("@") else f"@{label or rest or name}"


def _unescaped(text: str) -> str:
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def rich_text(blocks: Sequence[Json], mention: Mention) -> str | None:
    """All rich text blocks as Markdown; None if there are none."""
    parts = [part for block in blocks if block.get("type") == "rich_text" for part in _objects(block.get("elements"))]
    if not any(block.get("type") == "rich_text" for block in blocks):
        return None
    text = ""
    for part in parts:
        shown = _part(part, mention)
        if text and shown and not text.endswith("\n") and (part.get("type") != "rich_text_section" or _is_block(text)):
            text += "\n"
        text += shown
    return text.strip("\n")


def _is_block(text: str) -> bool:
    """Whether the last line belongs to a list, quote or code block, after which a section needs a new line."""
    last = text[text.rfind("\n") + 1 :].lstrip()
    return last.startswith((">", "- ", "```")) or last.partition(". ")[0].isdigit()


def _part(part: Json, mention: Mention) -> str:
    elements = _objects(part.get("elements"))
    match part.get("type"):
        case "rich_text_section":
            return _inline(elements, mention)
        case "rich_text_quote":
            return "\n".join(f"> {line}" for line in _inline(elements, mention).strip("\n").split("\n"))
        case "rich_text_preformatted":
            code = "".join(_content(element) for element in elements).strip("\n")
            fence = "```" if "```" not in code else "````"
            return f"{fence}\n{code}\n{fence}"
        case "rich_text_list":
            return _list(part, elements, mention)
    return ""


def _list(part: Json, items: Sequence[Json], mention: Mention) -> str:
    indent = "    " * _count(part.get("indent"))
    first = _count(part.get("offset")) + 1
    ordered = part.get("style") == "ordered"
    lines = []
    for number, item in enumerate(items, first):
        mark = f"{number}." if ordered else "-"
        text = _inline(_objects(item.get("elements")), mention).strip("\n")
        lines.append(f"{indent}{mark} " + text.replace("\n", f"\n{indent}  "))
    return "\n".join(lines)


def _inline(elements: Iterable[Json], mention: Mention) -> str:
    return "".join(_element(element, mention) for element in elements)


def _element(element: Json, mention: Mention) -> str:
    match element.get("type"):
        case "text":
            return _styled(_content(element), element.get("style"))
        case "link":
            return link(_string(element, "url"), _string(element, "text"))
        case "user":
            return mention(_string(element, "user_id"))
        case "channel":
            return f"#{_string(element, 'channel_id')}"
        case "usergroup":
            return f"@{_string(element, 'usergroup_id')}"
        case "broadcast":
            return f"@{_string(element, 'range')}"
        case "emoji":
            return _emoji(element)
        case "date":
            return _string(element, "fallback")
    return _content(element)


def _content(element: Json) -> str:
    return _string(element, "text") or _string(element, "value") or _string(element, "url")


def _styled(text: str, style: object) -> str:
    """The text with marks around it; outer whitespace stays outside, or Markdown would not recognize the marks."""
    words = text.strip()
    if not isinstance(style, dict) or not words:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    for name, mark in _MARKS:
        if style.get(name) is True:
            words = f"{mark}{words}{mark}"
    return before + words + after


def _emoji(element: Json) -> str:
    points = _string(element, "unicode")
    try:
        return (
            "".join(chr(int(point, 16)) for point in points.split("-")) if points else f":{_string(element, 'name')}:"
        )
    except (ValueError, OverflowError):
        return f":{_string(element, 'name')}:"


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _string(element: Json, name: str) -> str:
    value = element.get(name)
    return value.replace("\0", "") if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1000 else 0
