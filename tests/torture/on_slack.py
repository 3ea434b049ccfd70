"""Slack, for the torture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulators.slack.seen import Person, Room
from tests.torture.platform import Bubble, Call, Place, Promises, Spoken, in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.slack.client import SlackSimulator

VISIBLE = frozenset({"chat.postMessage", "chat.update"})
REPEATED_AFTER = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds. Slack repeats at once, after one minute and after five; here that time is compressed, and events have more
tries, because processes die much more often."""


@dataclass(frozen=True)
class OnSlack:
    """See `platform.Platform`."""

    simulator: SlackSimulator
    places: Sequence[Place]
    account: str = "slack"

    @classmethod
    def with_people(cls, simulator: SlackSimulator, people: int, groups: int) -> OnSlack:
        persons = tuple(Person(f"U0PERSON{n}", f"Person {n}") for n in range(people))
        rooms = tuple(Room(f"C0GROUP{n}", "channel", f"group-{n}") for n in range(groups))
        return cls(
            simulator,
            [_place(simulator, person.dm(), (person,)) for person in persons]
            + [_place(simulator, room, persons) for room in rooms],
        )

    @property
    def promises(self) -> Promises:
        return Promises()

    async def prepare(self) -> None:
        for place in self.places:
            if place.is_group:
                await self.simulator.add_chat(place.room, people=place.people)
        await self.simulator.set_timing(retry_delays=REPEATED_AFTER)

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        # Slack's clients do not send a line that begins with a slash as a message.
        return f"@{self.simulator.name} {text}" if place.is_group or command else text

    async def say(self, text: str, place: Place, person: Person, number: int | None = None) -> Spoken:
        said = await self.simulator.user_says(text, user=person, chat=place.room)
        return Spoken(said.ts, again=said.event_ids[0])

    async def reserve(self) -> tuple[int, int] | None:
        return None

    async def deliver_again(self, spoken: Spoken) -> None:
        await self.simulator.redeliver(spoken.again)

    async def bubbles(self, place: Place) -> list[Bubble]:
        messages = sorted(await self.simulator.bot_messages(place.room), key=lambda message: message.ts)
        return [Bubble.of(message, message.ts, message.shown, order) for order, message in enumerate(messages)]

    async def calls(self) -> list[Call]:
        return [
            Call.of(record, record.channel, record.ts, accepted=record.status == 200)
            for record in await self.simulator.records()
            if record.method in VISIBLE
        ]

    def native(self, message_id: str) -> str:
        return message_id

    async def is_ready(self, timeout: float) -> None:
        await self.simulator.wait_connected(timeout=timeout)

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        return await in_time(self.simulator.wait_idle(quiet=quiet, timeout=timeout))

    async def problems(self) -> list[str]:
        return await self.simulator.problems()


def _place(simulator: SlackSimulator, room: Room, people: tuple[Person, ...]) -> Place:
    chat = simulator.channel_id(room)
    return Place(account="slack", chat=chat, is_group=room.kind != "im", room=room, people=people)
