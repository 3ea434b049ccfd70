"""WeCom's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.flow import tidiness
from tests.flow.platforms.base import SECONDS, Group, Person, Place, Said, Seen
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import FileSpec, Room
from tests.simulators.wecom.seen import Person as User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulators.wecom.client import WecomSimulator
    from tests.simulators.wecom.seen import SeenMessage


@dataclass
class Wecom:
    simulator: WecomSimulator
    account: str = "wecom"
    retry_after: float = 5.0
    keeps: bool = False
    _limited: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        robot = {"bot_id": self.simulator.bot_id, "secret": "$WECOM_SECRET", "bot_name": self.simulator.name}
        return {**robot, "url": self.simulator.url}

    @property
    def variables(self) -> Mapping[str, str]:
        return {"WECOM_SECRET": self.simulator.secret}

    def id(self, place: Place) -> str:
        return f"{self.account}:{_place(place).id}"

    async def connected(self) -> None:
        await self.simulator.wait_connected(timeout=SECONDS)

    async def closed(self) -> None:
        await self.simulator.wait_disconnected(SECONDS)
        await tidiness.all_closed(self.simulator.open_connections)

    async def say(
        self, text: str, person: Person, group: Group | None = None, *, mention: bool = True, thread: Said | None = None
    ) -> Said:
        if group is not None and not mention:
            return Said("")
        said = await self.simulator.says(text, _user(person), None if group is None else _room(group))
        return Said(said.msgid)

    async def answer(self, seen: Seen, text: str, person: Person) -> None:
        await self.simulator.says(text, _user(person), quote=seen.text)

    async def edit(self, said: Said, text: str, person: Person) -> None:
        raise AssertionError("WeCom tells robots of no edit")

    async def recall(self, said: Said, person: Person) -> None:
        raise AssertionError("WeCom tells robots of no recall")

    async def send_file(self, name: str, content: bytes, person: Person) -> Said:
        return Said((await self.simulator.sends("file", FileSpec(content, name), _user(person))).msgid)

    async def send_voice(self, words: str, person: Person) -> None:
        await self.simulator.speaks(words, _user(person))

    async def press(self, seen: Seen, label: str, person: Person, group: Group | None = None) -> None:
        await self.simulator.presses(label, _user(person), None if group is None else _room(group))

    async def seen(self, place: Place) -> list[Seen]:
        return [_seen(message) for message in await self.simulator.bot_messages(_place(place))]

    async def files(self, person: Person) -> list[tuple[str, str]]:
        messages = await self.simulator.bot_messages(_place(person))
        return [(message.file["name"], message.file["sha256"]) for message in messages if message.file]

    async def until(self, place: Place, fits: Callable[[Seen], bool]) -> Seen:
        return _seen(await self.simulator.wait_for_message(_place(place), lambda m: fits(_seen(m)), SECONDS))

    async def quiet(self, place: Place) -> None:
        await self.simulator.wait_idle(_place(place), timeout=SECONDS)

    async def limit(self, person: Person) -> None:
        await self.simulator.fail("aibot_respond_msg", faults.frequency())

    async def limited(self, person: Person) -> float:
        refused = await self.simulator.wait_for_record(lambda frame: frame.errcode == 846607)
        self._limited = refused.req_id
        return refused.arrived

    async def changed(self, person: Person, after: float) -> float:
        frames = await self.simulator.records("aibot_respond_msg")
        return min(frame.arrived for frame in frames if frame.arrived > after and frame.req_id == self._limited)

    async def cut(self) -> None:
        await self.simulator.close()

    async def silence(self, silent: bool) -> None:
        await self.simulator.configure(silent=silent)

    async def revoke(self) -> None:
        await self.simulator.configure(secret="another one")
        if (await self.simulator.status()).connected:
            await self.simulator.close()

    async def restore(self) -> None:
        await self.simulator.configure(secret=self.simulator.secret)


def _user(person: Person) -> User:
    return User(f"person{person.number}")


def _room(group: Group) -> Room:
    return Room(f"wrGROUP{group.number:06}", f"Group {group.number}")


def _place(place: Place) -> User | Room:
    return _user(place) if isinstance(place, Person) else _room(place)


def _seen(message: SeenMessage) -> Seen:
    return Seen(str(message.number), message.text, tuple(message.labels))
