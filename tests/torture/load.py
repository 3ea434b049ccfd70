"""What people say to the tortured gateway: messages with unique markers, whose right answers are known beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulators.model.directives import parse
from tests.simulators.model.play import WORDS
from tests.simulators.model.scripts import Call, Say, Tokens
from tests.simulators.telegram.seen import Person, Room

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tests.simulators.telegram.client import TelegramSimulator

BOT_NAME = "antler_bot"
LONG_NUMBERS = 2600
"""Counted up to, some 12 000 characters: three messages of Telegram's."""
SCRIPTS = {
    "say": "!say Answer to {marker}.",
    "stream": "!say Begin {marker}:\n!tokens 20 15\n!say End {marker}.",
    "slow": "!say Begin {marker}:\n!tokens 40 50\n!say End {marker}.",
    "long": "!say Begin {marker}:\n!count {numbers}\n!say End {marker}.",
    "tool": '!tool note {{"marker": "{marker}"}}\n!say Noted {marker}.',
}
"""Kind -> what the message says; the model simulator obeys it (tests/simulators/model/directives.py)."""
COMMANDS = {"status": "/status", "stop": "/stop", "new": "/new {marker}"}
WEIGHTS = {"say": 30, "stream": 25, "tool": 20, "long": 8, "status": 5, "stop": 6, "new": 6}
REDELIVERED, REORDERED = 0.1, 0.1
"""Shares of updates that a disturbed platform delivers twice, or behind the next one's number."""


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation, with who speaks there."""

    room: Room
    people: tuple[Person, ...]

    @property
    def is_group(self) -> bool:
        return self.room.id < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message of a person. kind: a key of SCRIPTS or COMMANDS; must_stop: a /stop has to win over its answer;
    no_repeat: no model call of it may be made twice."""

    marker: str
    kind: str
    chat: int
    person: Person
    text: str
    message_id: int
    at: float
    must_stop: bool = False
    no_repeat: bool = False

    @property
    def is_command(self) -> bool:
        return self.kind in COMMANDS


@dataclass
class Load:
    """Talks on behalf of everybody. disorder: some updates come twice or out of order."""

    telegram: TelegramSimulator
    chance: random.Random
    places: tuple[Place, ...]
    asked: list[Asked] = field(default_factory=list)
    disorder: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def talk(self, pause: float, silence: asyncio.Event) -> None:
        """Say something every `pause` seconds or so, until there is to be silence."""
        while not silence.is_set():
            (kind,) = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            await self.say(kind, self.chance.choice(self.places))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(silence.wait(), self.chance.uniform(0.3, 1.7) * pause)

    async def say(
        self,
        kind: str,
        place: Place,
        *,
        person: Person | None = None,
        must_stop: bool = False,
        no_repeat: bool = False,
        update_id: int | None = None,
    ) -> Asked:
        """One message, of anybody there unless a person is named; returns when it waits at the platform."""
        marker = f"m{next(self._numbers):05d}"
        text = (SCRIPTS | COMMANDS)[kind].format(marker=marker, numbers=LONG_NUMBERS)
        typed = text
        if place.is_group:
            typed = f"{text.replace('/' + kind, f'/{kind}@{BOT_NAME}')}" if kind in COMMANDS else f"@{BOT_NAME} {text}"
        if update_id is None and self.disorder and self.chance.random() < REORDERED:
            first, second = await self.telegram.reserve_update_ids(2)
            await self.say("say", place, update_id=second)
            update_id = first
        at, person = time.monotonic(), person or self.chance.choice(place.people)
        said = await self.telegram.user_says(typed, user=person, chat=place.room, update_id=update_id)
        asked = Asked(
            marker=marker,
            kind=kind,
            chat=place.room.id,
            person=person,
            text=text,
            message_id=said.message_id,
            at=at,
            must_stop=must_stop,
            no_repeat=no_repeat,
        )
        self.asked.append(asked)
        if self.disorder and said.update_id is not None and self.chance.random() < REDELIVERED:
            await self.telegram.redeliver(said.update_id)
        return asked


def places(number: int) -> tuple[Place, ...]:
    """Four people in private and two groups. number: makes their ids differ from another world's."""
    people = tuple(Person(30_000 + 100 * number + n, f"Person{n}") for n in range(4))
    groups = tuple(Room(-1002000000000 - 10 * number - n, "supergroup", f"Group {n}") for n in range(2))
    return tuple(Place(person.dm(), (person,)) for person in people) + tuple(Place(g, people) for g in groups)


def squeezed(text: str) -> str:
    """Without white space, which Markdown and the borders of messages may change."""
    return "".join(text.split())


def expected(texts: Iterable[str]) -> str:
    """The answer to a turn of these messages, squeezed: what the model says behind its last round of tool calls."""
    script = parse("\n".join(texts))
    assert script is not None
    steps = script.round(sum(isinstance(step, Call) for step in script.steps))
    told = ""
    for step in steps:
        match step:
            case Say(text=text):
                told += text
            case Tokens(count=count):
                told += "".join(WORDS[index % len(WORDS)] for index in range(count))
            case _:
                raise AssertionError(f"no answer is known to {step}")
    return squeezed(told)


def final_words(asked: Asked) -> str:
    """The last words of the whole answer, squeezed; no draft shows them."""
    return expected([asked.text])[-len(f"Endm{'0' * 5}.") :]
