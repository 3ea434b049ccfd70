"""Who may talk, and what counts as said to the bot: decided in memory, before anything is stored or fetched.

Closed by default, for persons and groups. Only immutable ids decide; names never do.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from bot.identity import chat_id, person_id

if TYPE_CHECKING:
    from channels.base import Clock
    from channels.message import Address, Message, Sender

ANYONE = "*"


@dataclass(frozen=True, slots=True)
class AccessRules:
    """One account's access settings, ready to ask. allow and admins hold persons, groups holds chats.

    operator: whoever can write here controls this machine anyway, as at its terminal.
    """

    allow: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    open_dm: bool = False
    members: Literal["any", "listed"] = "any"
    answer: Literal["mention", "always", "off"] = "mention"
    group_control: Literal["admins", "members"] = "admins"
    operator: bool = False

    def is_admin(self, person: str) -> bool:
        return self.operator or person in self.admins

    def is_listed(self, person: str) -> bool:
        return person in self.allow or person in self.admins or ANYONE in self.allow

    def may_speak(self, address: Address, sender: Sender) -> bool:
        """Whether this sender may use the bot there: a bot never, a channel or an anonymous admin only if listed."""
        if sender.kind == "bot":
            return False
        if self.operator:
            return True
        person = person_id(address.account, sender.id)
        if address.kind == "dm":
            return self.open_dm or self.is_listed(person)
        if chat_id(address) not in self.groups and ANYONE not in self.groups:
            return False
        if sender.kind == "channel" or address.kind == "channel":
            return person in self.allow or person in self.admins
        return self.members == "any" or self.is_listed(person)


class Verdict(StrEnum):
    """ADMIT: answer it. GREET: an unknown person in a DM, tell them their id. CONTEXT: said to others in an allowed
    group. DROP: no reply."""

    ADMIT = "admit"
    GREET = "greet"
    CONTEXT = "context"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Decision:
    """reason: one word or two for the decisions table."""

    verdict: Verdict
    reason: str


def decide(message: Message, rules: AccessRules, is_command: bool) -> Decision:
    """What becomes of a message. is_command: it names one of our commands, which in a group needs no mention."""
    address, sender = message.address, message.sender
    if not rules.may_speak(address, sender):
        if address.kind == "dm" and sender.kind == "user":
            return Decision(Verdict.GREET, "unknown person")
        return Decision(Verdict.DROP, _refusal(message, rules))
    if address.kind == "dm":
        return Decision(Verdict.ADMIT, "dm")
    if rules.answer == "off":
        return Decision(Verdict.DROP, "answers are off")
    if message.mention or is_command or rules.answer == "always":
        return Decision(Verdict.ADMIT, "group")
    return Decision(Verdict.CONTEXT, "not addressed")


def _refusal(message: Message, rules: AccessRules) -> str:
    if message.sender.kind == "bot":
        return "a bot"
    if chat_id(message.address) not in rules.groups:
        return "unknown group"
    return "not a listed member"


class Background:
    """What others said in allowed groups since the last answer: in memory only, bounded, oldest forgotten first."""

    MESSAGES = 50
    CHARACTERS = 8_000
    CONVERSATIONS = 2_000

    def __init__(self) -> None:
        self._rings: OrderedDict[str, deque[tuple[str, str]]] = OrderedDict()

    def add(self, conversation: str, message: Message) -> None:
        ring = self._rings.setdefault(conversation, deque(maxlen=self.MESSAGES))
        self._rings.move_to_end(conversation)
        name = " ".join(message.sender.display_name.split())
        line = f"{name}: {message.text}"[: self.CHARACTERS]
        if message.text and all(known != message.platform_message_id for known, _ in ring):
            ring.append((message.platform_message_id, line))
        while sum(len(line) for _, line in ring) > self.CHARACTERS:
            ring.popleft()
        if len(self._rings) > self.CONVERSATIONS:
            self._rings.popitem(last=False)

    def take(self, conversation: str) -> tuple[str, ...]:
        """The lines, oldest first; afterwards they are forgotten."""
        return tuple(line for _, line in self._rings.pop(conversation, ()))


class FloodGate:
    """A token bucket per person: BURST messages at once, then one each SECONDS. Forgets the longest silent person."""

    BURST = 30
    SECONDS = 1.0
    PERSONS = 10_000

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def passes(self, person: str) -> bool:
        now = self._clock.monotonic()
        tokens, then = self._buckets.get(person, (float(self.BURST), now))
        tokens = min(float(self.BURST), tokens + (now - then) / self.SECONDS)
        passes = tokens >= 1
        self._buckets[person] = (tokens - 1 if passes else tokens, now)
        self._buckets.move_to_end(person)
        if len(self._buckets) > self.PERSONS:
            self._buckets.popitem(last=False)
        return passes


class OncePer:
    """Lets each key through once in `seconds`; remembers a bounded number of keys."""

    def __init__(self, clock: Clock, seconds: float, keys: int = 10_000) -> None:
        self._clock = clock
        self._seconds = seconds
        self._keys = keys
        self._seen: OrderedDict[str, float] = OrderedDict()

    def first(self, key: str) -> bool:
        now = self._clock.monotonic()
        last = self._seen.get(key)
        if last is not None and now - last < self._seconds:
            return False
        self._seen[key] = now
        self._seen.move_to_end(key)
        if len(self._seen) > self._keys:
            self._seen.popitem(last=False)
        return True
