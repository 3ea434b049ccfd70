"""Feishu, for the torture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulators.feishu.seen import Group, Person
from tests.torture.platform import Bubble, Call, Place, Promises, Spoken, in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.feishu.client import FeishuSimulator

VISIBLE = frozenset(
    {
        *("im.message.create", "im.message.reply", "im.message.update", "im.message.patch"),
        *("cardkit.card.update", "cardkit.card.batch_update", "cardkit.element.content"),
    }
)
REPEATED_AFTER = (0.3, 0.6, 1.2, 2.4, 4.8, 9.6)
"""Seconds. Feishu repeats after about 15 s, 5 min, 1 h and 6 h; here that time is compressed, and does not pass while
no process is connected (the simulator's own rule)."""


@dataclass(frozen=True)
class OnFeishu:
    """See `platform.Platform`."""

    simulator: FeishuSimulator
    places: Sequence[Place]
    account: str = "feishu"

    @classmethod
    def with_people(cls, simulator: FeishuSimulator, people: int, groups: int) -> OnFeishu:
        persons = tuple(Person(f"u_person{n}", f"Person{n}") for n in range(people))
        rooms = tuple(Group(f"oc_group{n}", f"Group {n}") for n in range(groups))
        return cls(
            simulator,
            [_place(simulator, person, (person,)) for person in persons]
            + [_place(simulator, room, persons) for room in rooms],
        )

    @property
    def promises(self) -> Promises:
        return Promises()

    async def prepare(self) -> None:
        await self.simulator.set_timing(retry_delays=REPEATED_AFTER)
        await self.simulator.set_limits(enforce=False)

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        return f"@{self.simulator.name} {text}" if place.is_group else text

    async def say(self, text: str, place: Place, person: Person, number: int | None = None) -> Spoken:
        said = await self.simulator.user_says(text, user=person, chat=place.room)
        return Spoken(said.message_id, again=said.event_id)

    async def reserve(self) -> tuple[int, int] | None:
        return None

    async def deliver_again(self, spoken: Spoken) -> None:
        await self.simulator.redeliver(spoken.again)

    async def bubbles(self, place: Place) -> list[Bubble]:
        messages = await self.simulator.bot_messages(place.room)
        return [Bubble.of(message, message.message_id, message.text, order) for order, message in enumerate(messages)]

    async def calls(self) -> list[Call]:
        return [
            Call.of(record, record.chat_id, record.message_id, accepted=record.code == 0)
            for record in await self.simulator.records()
            if record.method in VISIBLE
        ]

    def native(self, message_id: str) -> str:
        return message_id.partition("/")[0]

    async def is_ready(self, timeout: float) -> None:
        await self.simulator.wait_connected(pings=1, timeout=timeout)

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        return await in_time(self.simulator.wait_idle(quiet=quiet, timeout=timeout))

    async def problems(self) -> list[str]:
        return await self.simulator.problems()


def _place(simulator: FeishuSimulator, room: Group | Person, people: tuple[Person, ...]) -> Place:
    chat = simulator.chat_id(room)
    return Place(account="feishu", chat=chat, is_group=isinstance(room, Group), room=room, people=people)
