"""Who may talk, and which messages address the bot: decided in memory, before anything is stored or fetched.

Closed by default, for persons and groups. Only immutable ids count; names never do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from cachetools import LRUCache

from bot.settings.busy_policies import QUEUED, TurnRules
from bot.store.identity import HOOK, chat_id, person_id
from channels.message import Address, Sender
from harness.text.plain import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.commands import CommandLine
    from bot.store.identity import GroupScope
    from channels.base import Clock
    from channels.message import Message

ANYONE = "*"
PROGRAMS = "api"
"""The account of programs: nobody is an administrator in its chats."""
OPERATOR = "web:local"
"""The person who signed in with a link that only this machine's user could print: an administrator."""
LONGEST_NAME = 80
_NO_SIGNS = str.maketrans(":[]", "   ")


@dataclass(frozen=True, slots=True)
class AccessRules:
    """One account's rules. allow and admins hold persons, groups holds chats, blocked holds both.

    open_dm: everyone may write. pairing: a stranger gets a code. operator: everyone who can write here controls this
    machine anyway, as at its terminal. admins_only: all others are ignored, even if they were granted access.
    """

    allow: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    open_dm: bool = False
    pairing: bool = False
    members: Literal["any", "listed"] = "any"
    answer: Literal["mention", "always", "off"] = "mention"
    group_control: Literal["admins", "members"] = "admins"
    operator: bool = False
    admins_only: bool = False

    def is_admin(self, person: str) -> bool:
        return self.operator or (person in self.admins and person not in self.blocked)

    def may_control(self, address: Address, person: str) -> bool:
        """Whether the person may use /new and /models there."""
        return address.kind == "dm" or self.group_control == "members" or self.is_admin(person)

    def is_listed(self, person: str) -> bool:
        listed = person in self.allow or person in self.admins or ANYONE in self.allow
        return listed and person not in self.blocked

    def is_open(self, group: str) -> bool:
        """Whether a group (`account:chat`) may use the bot."""
        return (group in self.groups or ANYONE in self.groups) and group not in self.blocked

    def listens(self, address: Address, sender: Sender) -> bool:
        """Whether messages of that chat are for the bot at all: a DM of a person who may write, or an open group.

        sender: of any message in the chat.
        """
        if address.kind == "dm" or self.operator:
            return self.may_speak(address, sender)
        return self.is_open(chat_id(address))

    def may_speak(self, address: Address, sender: Sender) -> bool:
        """Whether this sender may use the bot there: a bot never, a channel or an anonymous admin only if listed."""
        if sender.kind == "bot":
            return False
        if self.operator:
            return True
        person = person_id(address.account, sender.id)
        if person in self.blocked or (self.admins_only and person not in self.admins):
            return False
        if address.kind == "dm":
            return self.open_dm or self.is_listed(person)
        if not self.is_open(chat_id(address)):
            return False
        if sender.id.startswith(HOOK):
            return True  # the config names its chat, so it need not be listed
        if sender.kind == "channel" or address.kind == "channel":
            return person in self.allow or person in self.admins
        return self.members == "any" or self.is_listed(person)


def _nobody(account: str) -> AccessRules | None:
    return None


@dataclass(frozen=True, slots=True)
class SharedRules(AccessRules):
    """Rules of one of the gateway's own accounts, `web` or `api`: people who may write on another account may write
    here.
    own: the account. Its own persons (`web:local`, those of programs) have no other account: the HTTP service has
    admitted them. elsewhere: returns another account's current rules; None if there is no such account.
    """

    own: str = ""
    elsewhere: Callable[[str], AccessRules | None] = _nobody

    def is_admin(self, person: str) -> bool:
        if self.own == PROGRAMS:
            return False  # a token's rights are its scopes, which do not apply in chats
        rules = self.elsewhere(person.partition(":")[0])
        return person == OPERATOR or (rules is not None and rules.is_admin(person))

    def is_listed(self, person: str) -> bool:
        account = person.partition(":")[0]
        rules = None if account == self.own else self.elsewhere(account)
        return account == self.own or (rules is not None and rules.is_listed(person))

    def may_speak(self, address: Address, sender: Sender) -> bool:
        person = person_id(address.account, sender.id)
        return address.kind == "dm" and self.admits(person)

    def admits(self, person: str) -> bool:
        """Whether the person may write in private on their own account."""
        account, _, native = person.partition(":")
        if person == OPERATOR:
            return True
        if account == self.own:
            return account == PROGRAMS and not self.admins_only
        rules = self.elsewhere(account)
        if rules is None:
            return False
        return rules.may_speak(Address(account=account, chat=native), Sender(id=native, display_name=""))


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """The config's keys of an account's lists, to show people where to edit."""

    allow: str = "access.allow"
    admins: str = "access.admins"
    groups: str = "access.groups.allow"


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """One account's rules. locale: "auto", "en" or "zh"."""

    access: AccessRules
    turns: TurnRules = QUEUED
    group_scope: GroupScope = "chat"
    group_context: bool = True
    locale: str = "auto"
    keys: ConfigKeys = ConfigKeys()


class Verdict(StrEnum):
    """The verdict on a message. ADMIT: answer it. GREET: an unknown person in a DM. INTRODUCE: an unknown group that
    addressed the bot. CONTEXT: addressed to others in an allowed group. DROP: no reply."""

    ADMIT = "admit"
    GREET = "greet"
    INTRODUCE = "introduce"
    CONTEXT = "context"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a message. reason: one or two words for the decisions table. command: the message's command to
    the bot. rules: those on which the decision is based."""

    verdict: Verdict
    reason: str
    command: CommandLine | None = None
    rules: AccessRules | None = None


def decide(message: Message, rules: AccessRules, is_command: bool, goes_on: bool = False) -> Decision:
    """Decide on a message. is_command: it is one of our commands, which needs no mention in a group.

    goes_on: it is in a thread in which a conversation with the bot has already begun, or in a bundle that is for it.
    """
    address = message.address
    if not rules.may_speak(address, message.sender):
        return _refusal(message, rules, message.mention or is_command)
    if address.kind == "dm":
        return Decision(Verdict.ADMIT, "dm")
    if rules.answer == "off":
        return Decision(Verdict.DROP, "answers are off")
    if message.mention or is_command or goes_on or rules.answer == "always":
        return Decision(Verdict.ADMIT, "group")
    return Decision(Verdict.CONTEXT, "not addressed")


def _refusal(message: Message, rules: AccessRules, addressed: bool) -> Decision:
    address, sender = message.address, message.sender
    if sender.kind == "bot":
        return Decision(Verdict.DROP, "a bot")
    if person_id(address.account, sender.id) in rules.blocked:
        return Decision(Verdict.GREET if address.kind == "dm" else Verdict.DROP, "access was revoked")
    if address.kind == "dm":
        return Decision(Verdict.GREET if sender.kind == "user" else Verdict.DROP, "unknown person")
    if chat_id(address) in rules.blocked:
        return Decision(Verdict.DROP, "closed group")
    if rules.is_open(chat_id(address)):
        return Decision(Verdict.DROP, "not a listed member")
    to_meet = address.kind == "group" and sender.kind == "user" and addressed and rules.answer != "off"
    return Decision(Verdict.INTRODUCE if to_meet else Verdict.DROP, "unknown group")


@dataclass(frozen=True, slots=True)
class _Line:
    message_id: str
    address: Address
    person: str
    text: str


def _name(text: str) -> str:
    """A name that cannot look like another line, or like the end of its own place."""
    return " ".join(readable(text).translate(_NO_SIGNS).split())[:LONGEST_NAME]


def _line(message: Message, longest: int) -> _Line:
    files = [f"[{file.kind}: {_name(file.name)}]" if file.name else f"[{file.kind}]" for file in message.attachments]
    said = " ".join([*files, message.text] if message.text else files)
    text = f"{_name(message.sender.display_name)}: {said}"[:longest]
    person = person_id(message.account, message.sender.id)
    return _Line(message.platform_message_id, message.address, person, text)


def _says_something(message: Message) -> bool:
    return bool(message.text or message.attachments)


class Background:
    """Messages between others in allowed groups since the last answer: in memory, bounded, oldest dropped first."""

    MESSAGES = 50
    CHARACTERS = 8_000
    CONVERSATIONS = 2_000

    def __init__(self) -> None:
        self._rings: LRUCache[str, deque[_Line]] = LRUCache(self.CONVERSATIONS)

    def add(self, conversation: str, message: Message) -> None:
        ring = self._rings.setdefault(conversation, deque(maxlen=self.MESSAGES))
        if _says_something(message) and all(line.message_id != message.platform_message_id for line in ring):
            ring.append(_line(message, self.CHARACTERS))
        self._shorten(ring)

    def edit(self, conversation: str, message: Message) -> bool:
        """Replace a message's text; returns whether it is known here."""
        ring = self._rings.get(conversation, deque())
        place = next((at for at, line in enumerate(ring) if line.message_id == message.platform_message_id), None)
        if place is None:
            return False
        if _says_something(message):
            ring[place] = _line(message, self.CHARACTERS)
            self._shorten(ring)
        else:
            del ring[place]
        return True

    def take(self, conversation: str) -> tuple[str, ...]:
        """Return and forget the lines, oldest first."""
        return tuple(line.text for line in self._rings.pop(conversation, ()))

    def _shorten(self, ring: deque[_Line]) -> None:
        while sum(len(line.text) for line in ring) > self.CHARACTERS:
            ring.popleft()

    def forget(self, person: str) -> None:
        """Drop everything said by that person."""
        self.drop(lambda address, speaker: speaker == person)

    def drop(self, whose: Callable[[Address, str], bool]) -> None:
        """Drop everything said by matching persons at matching addresses."""
        for ring in self._rings.values():
            kept = [line for line in ring if not whose(line.address, line.person)]
            ring.clear()
            ring.extend(kept)


class FloodGate:
    """A token bucket per person: `burst` messages at once, then `per_minute`. Drops the person silent the longest."""

    BURST = 30
    PER_MINUTE = 60.0
    PERSONS = 10_000

    def __init__(self, clock: Clock, per_minute: float = PER_MINUTE, burst: int = BURST) -> None:
        self.allow(per_minute, burst)
        self._clock = clock
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(self.PERSONS)

    def allow(self, per_minute: float, burst: int) -> None:
        """Replace the limits; previous use still counts."""
        self.per_minute = per_minute
        self._burst = float(burst)

    def passes(self, person: str) -> bool:
        tokens = self._tokens(person)
        self._buckets[person] = (tokens - (tokens >= 1), self._clock.monotonic())
        return tokens >= 1

    def would_pass(self, person: str) -> bool:
        """Whether a message passes now; does not count it."""
        return self._tokens(person) >= 1

    def _tokens(self, person: str) -> float:
        now = self._clock.monotonic()
        tokens, then = self._buckets.get(person, (self._burst, now))
        return min(self._burst, tokens + (now - then) * self.per_minute / 60)


class OncePer:
    """Lets each key pass once in `seconds`; remembers a bounded number of keys."""

    def __init__(self, clock: Clock, seconds: float, keys: int = 10_000) -> None:
        self._clock = clock
        self._seconds = seconds
        self._seen: LRUCache[str, float] = LRUCache(keys)

    def waits(self, key: str) -> bool:
        """Whether the key has passed and its time is not over."""
        last = self._seen.get(key)
        return last is not None and self._clock.monotonic() - last < self._seconds

    def first(self, key: str) -> bool:
        now = self._clock.monotonic()
        if self.waits(key):
            return False
        self._seen[key] = now
        return True


class Budget:
    """A token bucket for the cost of all strangers together: `burst` at once, then one every `seconds`."""

    def __init__(self, clock: Clock, burst: int, seconds: float) -> None:
        self._clock = clock
        self._burst = float(burst)
        self._seconds = seconds
        self._left = float(burst)
        self._since = clock.monotonic()

    def take(self) -> bool:
        """Take one token; returns whether one was left."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._since) / self._seconds)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
