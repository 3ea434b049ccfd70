"""Telegram, for the torture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulators.telegram.seen import Person, Room
from tests.torture.platform import Bubble, Call, Place, Promises, Spoken, in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.telegram.client import TelegramSimulator

BOT_NAME = "antler_bot"
VISIBLE = frozenset({"sendmessage", "editmessagetext", "senddocument"})


@dataclass(frozen=True)
class OnTelegram:
    """See `platform.Platform`. adopts: `adopt_placeholders` is on."""

    simulator: TelegramSimulator
    places: Sequence[Place]
    adopts: bool = False
    account: str = "telegram"

    @classmethod
    def with_people(cls, simulator: TelegramSimulator, people: int, groups: int, *, adopts: bool = False) -> OnTelegram:
        """Create private chats, and groups with all these people. Ids differ from those in other bots' worlds."""
        number = simulator.bot_id % 1000
        persons = tuple(Person(30_000 + 100 * number + n, f"Person{n}") for n in range(people))
        rooms = tuple(Room(-1002000000000 - 10 * number - n, "supergroup", f"Group {n}") for n in range(groups))
        places = [_place(person.dm(), (person,)) for person in persons] + [_place(room, persons) for room in rooms]
        return cls(simulator, places, adopts)

    @property
    def promises(self) -> Promises:
        return Promises(at_once=True, finds_drafts=self.adopts)

    async def prepare(self) -> None:
        for place in self.places:
            await self.simulator.add_chat(place.room)

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        if not place.is_group:
            return text
        if not command:
            return f"@{BOT_NAME} {text}"
        name, space, rest = text.partition(" ")
        return f"{name}@{BOT_NAME}{space}{rest}"

    async def say(self, text: str, place: Place, person: Person, number: int | None = None) -> Spoken:
        said = await self.simulator.user_says(text, user=person, chat=place.room, update_id=number)
        return Spoken(str(said.message_id), again=said.update_id)

    async def reserve(self) -> tuple[int, int] | None:
        first, second = await self.simulator.reserve_update_ids(2)
        return first, second

    async def deliver_again(self, spoken: Spoken) -> None:
        await self.simulator.redeliver(spoken.again)

    async def bubbles(self, place: Place) -> list[Bubble]:
        return [
            Bubble.of(message, str(message.message_id), message.text, order=message.message_id)
            for message in await self.simulator.bot_messages(place.room)
        ]

    async def calls(self) -> list[Call]:
        return [
            Call.of(
                record,
                str(record.chat_id),
                None if record.message_id is None else str(record.message_id),
                accepted=record.status == 200,
            )
            for record in await self.simulator.records()
            if record.method.lower() in VISIBLE
        ]

    def native(self, message_id: str) -> str:
        return message_id

    async def is_ready(self, timeout: float) -> None:
        await self.simulator.wait_polled(timeout)

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        return await in_time(self.simulator.wait_idle(quiet=quiet, timeout=timeout))

    async def problems(self) -> list[str]:
        return []


def _place(room: Room, people: tuple[Person, ...]) -> Place:
    return Place(account="telegram", chat=str(room.id), is_group=room.id < 0, room=room, people=people)
