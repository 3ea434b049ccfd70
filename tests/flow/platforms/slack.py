"""Slack's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.flow.platforms.base import SECONDS, Group, Person, Place, Said, Seen
from tests.simulators.slack import faults
from tests.simulators.slack.seen import FileSpec, Room
from tests.simulators.slack.seen import Person as User
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.slack.seen import SeenMessage

FAST = {"per_second": 100, "per_chat_per_second": 20, "edits_per_minute": 3000}
"""Tests talk faster than people."""


@dataclass
class Slack:
    simulator: SlackSimulator
    account: str = "slack"
    retry_after: float = 2.0
    keeps: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        tokens = {"bot_token": "$SLACK_BOT_TOKEN", "app_token": "$SLACK_APP_TOKEN"}
        return {**tokens, "base_url": self.simulator.api_url, "rate": dict(FAST)}

    @property
    def variables(self) -> Mapping[str, str]:
        return {"SLACK_BOT_TOKEN": self.simulator.bot_token, "SLACK_APP_TOKEN": self.simulator.app_token}

    def id(self, place: Place) -> str:
        if isinstance(place, Group):
            return f"{self.account}:{_room(place).id}"
        return f"{self.account}:{self.simulator.team_id}/{_user(place).id}"

    async def connected(self) -> None:
        await self.simulator.wait_connected(timeout=SECONDS)

    async def closed(self) -> None:
        await self.simulator.wait_connected(0, timeout=SECONDS)

    async def say(
        self, text: str, person: Person, group: Group | None = None, *, mention: bool = True, thread: Said | None = None
    ) -> Said:
        user = _user(person)
        if group is None:
            said = await self.simulator.user_says(text, user=user)
            return Said(said.ts)
        written = f"@{self.simulator.name} {text}" if mention else text
        root = thread.thread if thread is not None else None
        said = await self.simulator.channel_says(written, chat=_room(group), user=user, thread=root)
        return Said(said.ts, root or said.ts)

    async def answer(self, seen: Seen, text: str, person: Person) -> None:
        await self.simulator.user_says(text, user=_user(person), thread=seen.id)

    async def edit(self, said: Said, text: str, person: Person) -> None:
        await self.simulator.edits(said.id, text, chat=_user(person))

    async def recall(self, said: Said, person: Person) -> None:
        await self.simulator.deletes(said.id, chat=_user(person))

    async def send_file(self, name: str, content: bytes, person: Person) -> Said:
        return Said((await self.simulator.user_says(user=_user(person), files=[FileSpec(name, content=content)])).ts)

    async def send_voice(self, words: str, person: Person) -> None:
        clip = FileSpec("audio_message.m4a", content=speech.m4a(words), mime="audio/mp4", subtype="slack_audio")
        await self.simulator.user_says(user=_user(person), files=[clip])

    async def press(self, seen: Seen, label: str, person: Person, group: Group | None = None) -> None:
        place = _place(group or person)
        pressed = await self.simulator.press(seen.id, label, chat=place, user=_user(person))
        await self.simulator.wait_acked(pressed.envelope_id)

    async def seen(self, place: Place) -> list[Seen]:
        return [_seen(message) for message in await self.simulator.bot_messages(_place(place))]

    async def files(self, person: Person) -> list[tuple[str, str]]:
        messages = await self.simulator.bot_messages(_place(person))
        shown = [file for message in messages for file in message.files]
        return [(file["name"], (await self.simulator.file(file["id"]))["sha256"]) for file in shown]

    async def until(self, place: Place, fits: Callable[[Seen], bool]) -> Seen:
        return _seen(await self.simulator.wait_for_message(_place(place), lambda m: fits(_seen(m)), SECONDS))

    async def quiet(self, place: Place) -> None:
        await self.simulator.wait_idle(_place(place), timeout=SECONDS)

    async def limit(self, person: Person) -> None:
        await self.simulator.fail("chat.update", faults.ratelimited(int(self.retry_after)), chat=_user(person))

    async def limited(self, person: Person) -> float:
        channel = self.simulator.channel_id(_user(person))
        refused = await self.simulator.wait_for_record(lambda call: call.status == 429 and call.channel == channel)
        return refused.arrived

    async def changed(self, person: Person, after: float) -> float:
        calls = await self.simulator.records("chat.update", chat=_user(person))
        return min(call.arrived for call in calls if call.arrived > after)

    async def cut(self) -> None:
        await self.simulator.close_sockets(None)
        await self.simulator.wait_connected(0)

    async def silence(self, silent: bool) -> None:
        await self.simulator.silence(silent)

    async def revoke(self) -> None:
        await self.simulator.break_tokens(bot_error="token_revoked", app_error="token_revoked")
        await self.simulator.close_sockets(None)

    async def restore(self) -> None:
        await self.simulator.break_tokens()


def _user(person: Person) -> User:
    return User(f"U0{person.number:06}", person.name)


def _room(group: Group) -> Room:
    return Room(f"C0{group.number:06}", "channel", f"group-{group.number}")


def _place(place: Place) -> User | Room:
    return _user(place) if isinstance(place, Person) else _room(place)


def _seen(message: SeenMessage) -> Seen:
    labels = tuple(str(element["text"]["text"]) for element in message.elements)
    return Seen(message.ts, message.shown, labels, message.thread or "")
