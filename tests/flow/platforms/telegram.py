"""Telegram's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.flow import tidiness
from tests.flow.platforms.base import SECONDS, Group, Person, Place, Said, Seen
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import FileSpec, Room
from tests.simulators.telegram.seen import Person as User
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.telegram.seen import SeenMessage

FAST = {"per_second": 100, "per_chat_per_second": 20, "per_group_per_minute": 1200}
"""Tests talk faster than people."""


@dataclass
class Telegram:
    simulator: TelegramSimulator
    account: str = "telegram"
    retry_after: float = 2.0
    keeps: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        token = f"${self._variable}"
        return {
            "type": "telegram",
            "token": token,
            "base_url": self.simulator.root,
            "poll_timeout": 2,
            "rate": dict(FAST),
        }

    @property
    def variables(self) -> Mapping[str, str]:
        return {self._variable: self.simulator.token}

    @property
    def _variable(self) -> str:
        return f"TOKEN_OF_{self.account.upper()}"

    def id(self, place: Place) -> str:
        return f"{self.account}:{_chat(place)}"

    async def connected(self) -> None:
        await self.simulator.wait_polled(SECONDS)

    async def closed(self) -> None:
        await tidiness.all_closed(self.simulator.open_connections)

    async def say(
        self, text: str, person: Person, group: Group | None = None, *, mention: bool = True, thread: Said | None = None
    ) -> Said:
        if group is None:
            said = await self.simulator.user_says(text, user=_user(person))
        else:
            written = f"@antler_bot {text}" if mention else text
            said = await self.simulator.group_says(written, chat=_room(group), user=_user(person))
        return Said(str(said.message_id))

    async def answer(self, seen: Seen, text: str, person: Person) -> None:
        await self.simulator.user_says(text, user=_user(person), reply_to=int(seen.id))

    async def edit(self, said: Said, text: str, person: Person) -> None:
        await self.simulator.edits(int(said.id), text, chat=_chat(person))

    async def recall(self, said: Said, person: Person) -> None:
        raise AssertionError("Telegram tells bots of no deletion")

    async def send_file(self, name: str, content: bytes, person: Person) -> Said:
        file = FileSpec(name=name, content=content)
        return Said(str((await self.simulator.user_says(user=_user(person), file=file)).message_id))

    async def send_voice(self, words: str, person: Person) -> None:
        recording = FileSpec("voice", content=speech.ogg(words), mime="audio/ogg")
        await self.simulator.user_says(user=_user(person), file=recording)

    async def press(self, seen: Seen, label: str, person: Person, group: Group | None = None) -> None:
        place = _chat(group or person)
        pressed = await self.simulator.press(int(seen.id), label, chat=place, user=_user(person))
        await self.simulator.wait_answered(pressed.callback_id)

    async def seen(self, place: Place) -> list[Seen]:
        return [_seen(message) for message in await self.simulator.bot_messages(_chat(place))]

    async def files(self, person: Person) -> list[tuple[str, str]]:
        messages = await self.simulator.bot_messages(_chat(person))
        return [(file["name"], file["sha256"]) for message in messages for file in message.files]

    async def until(self, place: Place, fits: Callable[[Seen], bool]) -> Seen:
        return _seen(await self.simulator.wait_for_message(_chat(place), lambda m: fits(_seen(m)), SECONDS))

    async def quiet(self, place: Place) -> None:
        await self.simulator.wait_idle(_chat(place), timeout=SECONDS)

    async def limit(self, person: Person) -> None:
        await self.simulator.fail("editMessageText", faults.flood(int(self.retry_after)), chat=_chat(person))

    async def limited(self, person: Person) -> float:
        chat = _chat(person)
        return (await self.simulator.wait_for_record(lambda call: call.status == 429 and call.chat_id == chat)).arrived

    async def changed(self, person: Person, after: float) -> float:
        calls = await self.simulator.records(chat=_chat(person))
        return min(call.arrived for call in calls if call.arrived > after)

    async def cut(self) -> None:
        await self.simulator.play_dead()
        await self.simulator.play_dead(False)

    async def silence(self, silent: bool) -> None:
        await self.simulator.play_dead(silent)

    async def revoke(self) -> None:
        await self.simulator.fail("*", faults.unauthorized(), times=1_000)
        await self.cut()

    async def restore(self) -> None:
        await self.simulator.clear_faults()


def _chat(place: Place) -> int:
    return 30_000 + place.number if isinstance(place, Person) else -1_001_000_100_000 - place.number


def _user(person: Person) -> User:
    return User(_chat(person), person.name)


def _room(group: Group) -> Room:
    return Room(_chat(group), "supergroup", f"Group {group.number}")


def _seen(message: SeenMessage) -> Seen:
    return Seen(str(message.message_id), message.text, tuple(str(button["text"]) for button in message.buttons))
