"""Feishu's driver."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.flow.platforms.base import SECONDS, Group, Person, Place, Said, Seen
from tests.simulators.feishu import faults
from tests.simulators.feishu.seen import FileSpec
from tests.simulators.feishu.seen import Group as Room
from tests.simulators.feishu.seen import Person as User
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.feishu.seen import SeenMessage


@dataclass
class Feishu:
    simulator: FeishuSimulator
    account: str = "feishu"
    retry_after: float = 2.0
    keeps: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        app = {"app_id": self.simulator.app_id, "app_secret": "$FEISHU_SECRET"}
        return {**app, "domain": self.simulator.domain}

    @property
    def variables(self) -> Mapping[str, str]:
        return {"FEISHU_SECRET": self._secret}

    def __post_init__(self) -> None:
        self._secret = self.simulator.app_secret
        self._limited: str | None = None

    def id(self, place: Place) -> str:
        native = _room(place).id if isinstance(place, Group) else self.simulator.open_id(_user(place))
        return f"{self.account}:{native}"

    async def connected(self) -> None:
        await self.simulator.wait_connected(pings=1, timeout=SECONDS)

    async def closed(self) -> None:
        await self.simulator.wait_connected(0, timeout=SECONDS)

    async def say(
        self, text: str, person: Person, group: Group | None = None, *, mention: bool = True, thread: Said | None = None
    ) -> Said:
        if group is None:
            said = await self.simulator.user_says(text, user=_user(person))
        else:
            written = f"@{self.simulator.name} {text}" if mention else text
            root = None if thread is None else thread.id
            said = await self.simulator.group_says(written, chat=_room(group), user=_user(person), reply_to=root)
        return Said(said.message_id, said.thread_id)

    async def answer(self, seen: Seen, text: str, person: Person) -> None:
        await self.simulator.user_says(text, user=_user(person), reply_to=seen.id)

    async def edit(self, said: Said, text: str, person: Person) -> None:
        raise AssertionError("Feishu tells bots of no edit")

    async def recall(self, said: Said, person: Person) -> None:
        await self.simulator.recalls(said.id)

    async def send_file(self, name: str, content: bytes, person: Person) -> Said:
        return Said((await self.simulator.sends(FileSpec(name, content=content), user=_user(person))).message_id)

    async def send_voice(self, words: str, person: Person) -> None:
        recording = FileSpec("voice.opus", content=speech.ogg(words), kind="audio", duration=1000)
        await self.simulator.sends(recording, user=_user(person))

    async def press(self, seen: Seen, label: str, person: Person, group: Group | None = None) -> None:
        pressed = await self.simulator.press(seen.id, label, user=_user(person))
        await self.simulator.wait_acked(pressed.event_id)

    async def seen(self, place: Place) -> list[Seen]:
        return [_seen(message) for message in await self.simulator.bot_messages(_place(place))]

    async def files(self, person: Person) -> list[tuple[str, str]]:
        messages = await self.simulator.bot_messages(_place(person))
        files = [await self.simulator.upload(key) for message in messages for key in message.resources]
        return [(file["name"], hashlib.sha256(file["content"]).hexdigest()) for file in files]

    async def until(self, place: Place, fits: Callable[[Seen], bool]) -> Seen:
        return _seen(await self.simulator.wait_for_message(_place(place), lambda m: fits(_seen(m)), SECONDS))

    async def quiet(self, place: Place) -> None:
        await self.simulator.wait_idle(_place(place), timeout=SECONDS)

    async def limit(self, person: Person) -> None:
        await self.simulator.fail("cardkit.*", faults.rate_limited(int(self.retry_after)))

    async def limited(self, person: Person) -> float:
        refused = await self.simulator.wait_for_record(lambda call: call.outcome == "rate limited")
        self._limited = refused.card_id
        return refused.arrived

    async def changed(self, person: Person, after: float) -> float:
        calls = [call for call in await self.simulator.records() if call.card_id == self._limited]
        return min(call.arrived for call in calls if call.arrived > after)

    async def cut(self) -> None:
        await self.simulator.close_connections(None)
        await self.simulator.wait_connected(0)

    async def silence(self, silent: bool) -> None:
        await self.simulator.silence(silent)

    async def revoke(self) -> None:
        await self.simulator.configure(app_secret="another one")
        await self.simulator.expire_tokens()
        await self.simulator.close_connections(None)

    async def restore(self) -> None:
        await self.simulator.configure(app_secret=self._secret)


def _user(person: Person) -> User:
    return User(f"u_{person.number}", person.name)


def _room(group: Group) -> Room:
    return Room(f"oc_{group.number}", f"Group {group.number}", "topic" if group.topics else "group")


def _place(place: Place) -> User | Room:
    return _user(place) if isinstance(place, Person) else _room(place)


def _seen(message: SeenMessage) -> Seen:
    return Seen(message.message_id, message.text, tuple(message.labels), message.thread_id)
