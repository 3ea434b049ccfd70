"""Raw envelope -> event of the port. Pure: it depends only on its arguments.

Sources: Events API "message", "app_mention", "member_joined_channel"; "Handling user interaction"; "Slash commands".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from channels.adapter import unparsed
from channels.message import Address, ButtonPressed, MembershipChanged, Message, MessageEdited, Quote, Sender, Unparsed
from channels.slack.config import COMMAND_PREFIX
from channels.slack.reading import Person, Spoken, one_line, read_attachments, spoken
from channels.slack.schema import (
    RawCallback,
    RawChange,
    RawCommand,
    RawContent,
    RawFile,
    RawInteraction,
    RawMembership,
    RawMessage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["events_api", "interactive", "slash_commands"]
Found = Message | MessageEdited | ButtonPressed | MembershipChanged | Unparsed

_SPOKEN = frozenset({None, "file_share", "thread_broadcast", "me_message"})
"""The message subtypes written by people; the rest are notices, other programs and deletions."""


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself: its workspace (id and name), its user there, and its name."""

    team: str
    user: str
    username: str
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """Results of lookups: people by user id, titles by channel id, Slack Connect files by id, and the first messages of
    threads by channel and ts of the message with which the bot enters it."""

    people: Mapping[str, Person]
    titles: Mapping[str, str]
    files: Mapping[str, RawFile] = field(default_factory=dict)
    roots: Mapping[tuple[str, str], RawContent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reader:
    """Converts the envelopes of one account into events."""

    account: str
    me: Me
    thread_follow: bool

    def read(self, kind: Kind, payload: Mapping[str, Any], known: Known, now: datetime) -> Found | None:
        """The event in an envelope; None if it is irrelevant, Unparsed if it cannot be read."""
        try:
            match kind:
                case "events_api":
                    return self._event(RawCallback.model_validate(payload), known, now)
                case "interactive":
                    return self._pressed(RawInteraction.model_validate(payload), known, now)
                case "slash_commands":
                    return self._command(RawCommand.model_validate(payload), known, now)
        except Exception as error:  # no payload may break receiving: set it aside, so that it is not sent again
            return self._unparsed(payload, error, now)

    def read_past(self, chat: str, message: Mapping[str, Any], known: Known, now: datetime) -> Found | None:
        """The event for a message from the history."""
        try:
            raw = RawMessage.model_validate({**message, "channel": chat})
            return self._message(raw, (_message_key(raw.channel, raw.ts),), self.me.team, known, now)
        except Exception as error:  # no payload may break receiving: set it aside, so that it is not read again
            return self._unparsed({**message, "channel": chat}, error, now)

    def _event(self, raw: RawCallback, known: Known, now: datetime) -> Found | None:
        if raw.authorizations and all(found.user_id not in (None, self.me.user) for found in raw.authorizations):
            return None  # the same app in another workspace
        event, key, subtype = raw.event, f"e:{raw.event_id}", raw.event.get("subtype")
        if not isinstance(subtype, str | None):
            raise ValueError("the subtype is not a string")
        match event.get("type"):
            case "message" if subtype == "message_changed":
                return self._edited(RawChange.model_validate(event), key, raw.team_id, known, now)
            case "message" if subtype == "message_deleted" and "previous_message" in event:
                gone = {**event, "message": event["previous_message"], "previous_message": None}
                return self._edited(RawChange.model_validate(gone), key, raw.team_id, known, now, recalled=True)
            case "message" if subtype not in _SPOKEN:
                return None
            case "message" | "app_mention":
                message = RawMessage.model_validate(event)
                keys = (key, _message_key(message.channel, message.ts))
                named = event["type"] == "app_mention"
                return self._message(message, keys, raw.team_id, known, now, named=named)
            case "member_joined_channel" | "member_left_channel" as change:
                return self._membership(RawMembership.model_validate(event), change, key, raw.team_id, known, now)
        return None

    def _message(
        self,
        raw: RawMessage,
        keys: tuple[str, ...],
        team: str,
        known: Known,
        now: datetime,
        *,
        named: bool = False,
    ) -> Message | None:
        """The event for a message. named: Slack itself reports a mention of the bot, however it is written."""
        if raw.subtype not in _SPOKEN or raw.bot_id is not None or raw.user in (None, self.me.user):
            return None
        return self._content(raw, raw.channel, keys, raw.ts, team, known, now, named=named)

    def _edited(
        self, raw: RawChange, key: str, team: str, known: Known, now: datetime, *, recalled: bool = False
    ) -> MessageEdited | None:
        new, old = raw.message, raw.previous_message
        if new.subtype not in _SPOKEN or new.bot_id is not None or new.user in (None, self.me.user):
            return None
        if old is not None and self._spoken(old, known) == self._spoken(new, known):
            return None  # a link preview was added, or a thread began
        keys = (key, _message_key(raw.channel, raw.ts))
        message = self._content(new, raw.channel, keys, raw.ts, team, known, now)
        if message is None:
            return None
        message = replace(message, text="", attachments=()) if recalled else message
        at = message.sent_at
        return MessageEdited(
            account=self.account, dedupe_keys=keys, sent_at=at, received_at=now, message=message, recalled=recalled
        )

    def _content(
        self,
        raw: RawContent,
        channel: str,
        keys: tuple[str, ...],
        at: str,
        team: str,
        known: Known,
        now: datetime,
        *,
        named: bool = False,
    ) -> Message | None:
        if raw.files:
            raw = raw.model_copy(update={"files": tuple(known.files.get(file.id, file) for file in raw.files)})
        said = self._spoken(raw, known)
        named = named or said.named
        attachments = read_attachments(raw)
        if not said.text and not attachments and not named:
            return None
        address, in_thread = self._address(channel, raw.ts, raw.thread_ts)
        answered = self.thread_follow and in_thread and raw.parent_user_id == self.me.user
        return Message(
            account=self.account,
            dedupe_keys=keys,
            sent_at=_time(at),
            received_at=now,
            address=address,
            platform_message_id=raw.ts,
            sender=self._sender(raw.user or "", raw.user_team or raw.team or team, known),
            text=_without_prefix(said.text),
            mention=named or answered or address.kind == "dm",
            reply_to=self._quote(known.roots.get((channel, raw.ts)), said, known),
            attachments=attachments,
            continues=self.thread_follow and in_thread and address.kind != "dm",
            chat_title=one_line(known.titles.get(channel, "")) if address.kind != "dm" else "",
        )

    def _quote(self, root: RawContent | None, said: Spoken, known: Known) -> Quote | None:
        """The thread's first message, as what the message replies to. A command is about the conversation."""
        if root is None or said.text.startswith(("/", "\uff0f")):
            return None
        author = known.people.get(root.user or "")
        return Quote(
            message_id=root.ts,
            text=self._spoken(root, known).text,
            author=one_line(author.name) if author is not None else "",
            from_bot=root.user == self.me.user,
            attachments=read_attachments(root),
        )

    def _spoken(self, raw: RawContent, known: Known) -> Spoken:
        return spoken(raw, self.me.user, self.me.username, known.people)

    def _address(self, channel: str, ts: str, thread_ts: str | None) -> tuple[Address, bool]:
        """The address of a message, and whether it is a reply in a thread.

        In a channel the thread is the conversation, including the message that begins it. A DM is one conversation, and
        each thread in it (including assistant threads) is another.
        """
        in_thread = thread_ts is not None and thread_ts != ts
        if is_dm(channel):
            return Address(account=self.account, chat=channel, topic=thread_ts if in_thread else None), in_thread
        return Address(account=self.account, chat=channel, topic=thread_ts or ts, kind="group"), in_thread

    def _sender(self, user: str, team: str, known: Known, name: str = "") -> Sender:
        person = known.people.get(user)
        return Sender(
            id=person_id(team or self.me.team, user),
            display_name=one_line(person.name if person is not None else name) or user,
            locale=person.locale if person is not None else None,
        )

    def _pressed(self, raw: RawInteraction, known: Known, now: datetime) -> ButtonPressed | None:
        action = next((action for action in raw.actions if action.type == "button"), None)
        place = raw.container
        if raw.type != "block_actions" or action is None or action.value is None or place is None:
            return None
        channel, ts = place.channel_id, place.message_ts
        if channel is None or ts is None or place.type != "message":
            return None
        team = raw.user.team_id or (raw.team.id if raw.team is not None else "")
        topic = place.thread_ts if place.thread_ts != ts else None
        return ButtonPressed(
            account=self.account,
            dedupe_keys=(f"b:{channel}:{ts}:{raw.user.id}:{action.action_ts}",),
            sent_at=_time(action.action_ts) if action.action_ts is not None else now,
            received_at=now,
            address=Address(account=self.account, chat=channel, topic=topic, kind="dm" if is_dm(channel) else "group"),
            platform_message_id=ts,
            sender=self._sender(raw.user.id, team, known, raw.user.name or raw.user.username),
            data=one_line(action.value),
            callback_id=raw.user.id,
        )

    def _command(self, raw: RawCommand, known: Known, now: datetime) -> Message:
        dm = is_dm(raw.channel_id)
        private = not dm and raw.thread_ts is None  # nobody else in the channel sees what was typed
        title = "" if dm else known.titles.get(raw.channel_id, raw.channel_name)
        return Message(
            account=self.account,
            dedupe_keys=(f"c:{raw.trigger_id}",),
            sent_at=now,  # Slack does not say when
            received_at=now,
            address=Address(
                account=self.account, chat=raw.channel_id, topic=raw.thread_ts, kind="dm" if dm else "group"
            ),
            platform_message_id=f"{raw.user_id}:{raw.trigger_id}" if private else raw.trigger_id,
            sender=self._sender(raw.user_id, raw.team_id, known, raw.user_name),
            text=_without_prefix(f"{raw.command} {raw.text}".strip()),
            mention=True,
            chat_title=one_line(title),
        )

    def _membership(
        self, raw: RawMembership, change: str, key: str, team: str, known: Known, now: datetime
    ) -> MembershipChanged | None:
        if raw.user != self.me.user:
            return None
        return MembershipChanged(
            account=self.account,
            dedupe_keys=(key,),
            sent_at=_time(raw.event_ts) if raw.event_ts is not None else now,
            received_at=now,
            address=Address(account=self.account, chat=raw.channel, kind="dm" if is_dm(raw.channel) else "group"),
            # No person is given if the bot was removed, or was added by an integration.
            sender=self._sender(raw.inviter or self.me.user, team, known),
            present=change == "member_joined_channel",
            chat_title=one_line(known.titles.get(raw.channel, "")),
        )

    def _unparsed(self, payload: Mapping[str, Any], error: Exception, now: datetime) -> Unparsed:
        return unparsed(self.account, payload, error, now, key=payload.get("event_id"))


def person_id(team: str, user: str) -> str:
    """A person's native id: user ids are only unique within a workspace (or an organisation)."""
    return f"{team}/{user}"


def is_dm(channel: str) -> bool:
    """Whether a chat is a DM (D...); channels are C... or G...."""
    return channel.startswith("D")


def _message_key(channel: str, ts: str) -> str:
    return f"m:{channel}:{ts}"


def _without_prefix(text: str) -> str:
    """The text with a command's own name: people also write the prefixed one, as Slack lists it, in a message."""
    name = text.removeprefix(f"/{COMMAND_PREFIX}")
    return text if name == text else f"/{name}"


def _time(ts: str) -> datetime:
    return datetime.fromtimestamp(float(ts), UTC)
