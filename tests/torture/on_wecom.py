"""WeCom, for the torture. Nothing is redelivered, nothing can be edited, and pushed messages have no key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulators.wecom.seen import Person, Room
from tests.torture.platform import Bubble, Call, Place, Promises, Spoken, in_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.simulators.wecom.client import WecomSimulator
    from tests.simulators.wecom.seen import SeenFrame, SeenMessage

RESPOND, PUSH = "aibot_respond_msg", "aibot_send_msg"


@dataclass
class OnWecom:
    """See `platform.Platform`."""

    simulator: WecomSimulator
    places: Sequence[Place]
    account: str = "wecom"
    _subscriptions: int = field(default=0, init=False)

    @classmethod
    def with_people(cls, simulator: WecomSimulator, people: int, groups: int) -> OnWecom:
        persons = tuple(Person(f"person{n}") for n in range(people))
        rooms = tuple(Room(f"wrGROUP{n}", f"Group {n}") for n in range(groups))
        return cls(
            simulator,
            [_place(person, (person,)) for person in persons] + [_place(room, persons) for room in rooms],
        )

    @property
    def promises(self) -> Promises:
        return Promises(redelivers=False, edits=False, finds_drafts=False, finds_finals=False)

    async def prepare(self) -> None:
        await self.simulator.configure(limits={"per_minute": 100_000, "per_hour": 1_000_000})

    async def before_start(self) -> None:
        """Prepare for the start of a process: `is_ready` waits for its subscription, not for an older one."""
        self._subscriptions = (await self.simulator.status()).subscriptions

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        return text  # the simulator's client puts the bot's name before messages in a group

    async def say(self, text: str, place: Place, person: Person, number: int | None = None) -> Spoken:
        room = place.room if isinstance(place.room, Room) else None
        said = await self.simulator.says(text, person, room)
        return Spoken(f"{said.msgid}|{said.req_id}", reached=said.delivered, again=said.msgid)

    async def reserve(self) -> tuple[int, int] | None:
        return None

    async def deliver_again(self, spoken: Spoken) -> None:
        await self.simulator.redeliver(spoken.again)

    async def bubbles(self, place: Place) -> list[Bubble]:
        messages = await self.simulator.bot_messages(place.room)
        ids = told_apart(map(_id_of, messages))
        return [
            Bubble(
                message_id=message_id,
                text=message.text,
                order=message.number,
                posted_at=message.history[0].at,
                changed_at=message.history[-1].at,
                unfinished=message.state in ("streaming", "expired"),
            )
            for message_id, message in zip(ids, messages, strict=True)
        ]

    async def calls(self) -> list[Call]:
        frames = [frame for frame in await self.simulator.records() if frame.cmd in (RESPOND, PUSH)]
        made = _bubble_of(frames)
        return [
            Call(
                chat=frame.chat or "",
                message_id=made.get(frame.index, ""),
                arrived=frame.arrived,
                finished=frame.acked,
                applied=frame.applied,
                answered=frame.errcode == 0 and frame.acked is not None,
            )
            for frame in frames
        ]

    def native(self, message_id: str) -> str:
        return message_id

    async def is_ready(self, timeout: float) -> None:
        await self.simulator.wait_connected(times=self._subscriptions + 1, timeout=timeout)

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        # Streams of killed processes stay open; an open stream of a live process shows in the outbox.
        return await in_time(self.simulator.wait_idle(quiet=quiet, timeout=timeout, streams=True))

    async def problems(self) -> list[str]:
        return await self.simulator.problems()


def told_apart(ids: Iterable[str]) -> list[str]:
    """Make ids unique: of equal ones only the last is unchanged, the only one that the gateway can know."""
    listed = list(ids)
    left = Counter(listed)
    result = []
    for message_id in listed:
        left[message_id] -= 1
        result.append(f"{message_id}#{left[message_id]}" if left[message_id] else message_id)
    return result


def _id_of(message: SeenMessage) -> str:
    return message.stream_id or message.task_id or _in_req_id(message.req_id)


def _bubble_of(frames: Iterable[SeenFrame]) -> dict[int, str]:
    """The bubble that each applied frame created or changed: a push creates one, as does a stream's first frame."""
    makers: dict[tuple[str, str], list[int]] = {}
    for frame in frames:
        if frame.applied:
            stream = str((frame.body.get("stream") or {}).get("id", ""))
            # A pushed message is identified by its frame, which has its own req_id.
            makers.setdefault((stream or _in_req_id(frame.req_id), stream or frame.req_id), []).append(frame.index)
    names = told_apart(message_id for message_id, _ in makers)
    return {index: name for name, indices in zip(names, makers.values(), strict=True) for index in indices}


def _in_req_id(req_id: str) -> str:
    """The gateway's id of a pushed text, which is part of the frame's; the text has none of its own."""
    return req_id.removeprefix(f"{PUSH}_").partition("_")[0]


def _place(room: Person | Room, people: tuple[Person, ...]) -> Place:
    return Place(account="wecom", chat=room.id, is_group=isinstance(room, Room), room=room, people=people)
