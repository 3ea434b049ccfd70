"""What a Slack message says to the agent: its words without the bot's name, and what hangs on it. Pure.

Called by inbound.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.errors import AttachmentFailed
from channels.message import Attachment, AttachmentKind
from channels.slack import mrkdwn, richtext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from channels.slack.schema import RawContent, RawFile

_ME = "\0"
"""Stands for the bot's mention until it is taken out; no text holds it otherwise."""
_AT_START = re.compile(rf"^\s*(?:{_ME}[ \t,:;]*)+")
_BEFORE_PUNCTUATION = re.compile(rf"(?<![ \t])[ \t]*+{_ME}(?=[,.;:!?)])")
_BETWEEN = re.compile(rf"(?<=\s){_ME}[ \t]?|[ \t]?{_ME}(?=\s|$)|{_ME}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_FILE = frozenset({"tombstone", "hidden_by_limit"})


@dataclass(frozen=True, slots=True)
class Person:
    """What Slack tells of somebody; the name is text from a stranger."""

    name: str
    locale: str | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """text: without the bot's name. named: the bot is mentioned."""

    text: str
    named: bool


def spoken(raw: RawContent, me: str, name: str, people: Mapping[str, Person]) -> Spoken:
    """What the message says; me, name: the bot's user id, and its name.

    At a message's beginning the name is a mention also where Slack made none of it (a pasted command).
    """

    def mention(user: str) -> str:
        user = user.partition("|")[0]
        return _ME if user == me else f"@{people[user].name if user in people else user}"

    text = richtext.markdown(raw.blocks, mention)
    if text is None:
        text = mrkdwn.readable(raw.text.replace(_ME, ""), mention)
    if _ME not in text and name:
        text = re.sub(rf"^\s*@{re.escape(name)}(?=[\s,:;]|$)", _ME, text, count=1, flags=re.IGNORECASE)
    named = _ME in text
    pieces = [_plain(_without_me(text)), *_shared(raw, mention), *_links(raw)]
    return Spoken("\n\n".join(piece for piece in pieces if piece), named)


def mentioned(raw: RawContent) -> set[str]:
    """The ids of all people who are named in it."""
    found: set[str] = set()

    def note(user: str) -> str:
        found.add(user.partition("|")[0])
        return ""

    if richtext.markdown(raw.blocks, note) is None:
        mrkdwn.readable(raw.text, note)
    return found


def read_attachments(raw: RawContent) -> tuple[Attachment, ...]:
    """The files that Slack keeps; what is elsewhere is in the text as a link."""
    return tuple(_attachment(file) for file in raw.files if file.mode != "external" and file.mode not in _NO_FILE)


def file_of(attachment: Attachment) -> tuple[str, str | None]:
    """A file's id and, if it was told, where its bytes are. Raises AttachmentFailed("gone") for a foreign reference."""
    try:
        fields = json.loads(attachment.ref)
        file_id, url = fields["id"], fields.get("url")
    except (ValueError, TypeError, KeyError, AttributeError):
        file_id = url = None
    if not isinstance(file_id, str) or not isinstance(url, str | None):
        raise AttachmentFailed("the attachment's reference is not one of Slack's", "gone")
    return file_id, url


def one_line(name: str) -> str:
    return " ".join(_plain(name).split())


def _without_me(text: str) -> str:
    """The text without the bot's mentions: no doubled blank where one was, no orphaned comma where the text begins."""
    text = _AT_START.sub("", text)
    return _BETWEEN.sub("", _BEFORE_PUNCTUATION.sub("", text)).strip(" ")


def _shared(raw: RawContent, mention: Callable[[str], str]) -> list[str]:
    """Messages that were shared into this one: somebody else's words, marked as such."""
    return [
        f"[forwarded from {one_line(shared.author_name or 'somebody')}]\n"
        + _plain(mrkdwn.readable(shared.text.replace(_ME, ""), mention)).replace(_ME, "")
        for shared in raw.attachments
        if (shared.is_share or shared.is_msg_unfurl) and shared.text
    ]


def _links(raw: RawContent) -> list[str]:
    return [
        mrkdwn.link(file.url_private, one_line(file.name or ""))
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
    """Text that every store takes: no lone surrogates, newlines as \\n."""
    return _SURROGATES.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")
