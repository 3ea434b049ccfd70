"""A crowd on each of four platforms, and the records of its simulators in the terms of timeline.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.bench.timeline import Call, label
from tests.simulators.telegram.seen import Delivery
from tests.torture.on_feishu import OnFeishu
from tests.torture.on_slack import OnSlack
from tests.torture.on_telegram import OnTelegram
from tests.torture.on_wecom import OnWecom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.stage import Question

AnyPlatform = OnTelegram | OnSlack | OnFeishu | OnWecom


@dataclass(frozen=True)
class Crowd:
    """The people of one platform, each in a private chat. first: number of the first chat; the others follow, so that
    numbers are unique in a scenario. said: ids of the crowd's messages."""

    platform: AnyPlatform
    first: int
    said: set[str] = field(default_factory=set)

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each chat, by its id on the platform."""
        return {place.chat: self.first + n for n, place in enumerate(self.platform.places)}

    async def say_at_once(self, question: Question, round_number: int) -> None:
        """Let all write at the same moment, as far as one client can do that."""
        places, numbers = self.platform.places, self.numbers
        spoken = await asyncio.gather(
            *(
                self.platform.say(f"{question.text} {label(numbers[p.chat], round_number)}", p, p.people[0])
                for p in places
            )
        )
        self.said.update(one.message_id for one in spoken)

    async def count_showing(self, text: str) -> int:
        """Number of messages of the bot that show exactly this text."""
        return await self.platform.simulator.count_showing(text)

    async def deliveries(self) -> list[Delivery]:
        """Each message of the crowd: when it was written, and when it was first passed to the gateway."""
        numbers = self.numbers
        match self.platform:
            case OnTelegram(simulator=telegram):
                moments = [(str(u.chat_id), u.queued_at, u.delivered_at) for u in await telegram.deliveries()]
            case OnSlack(simulator=slack):
                # The bot's own messages cause events as well.
                heard = [envelope for envelope in await slack.envelopes() if envelope.ts in self.said]
                moments = [(e.channel or "", e.queued_at, _first(e.attempts)) for e in heard]
            case OnFeishu(simulator=feishu):
                moments = [(e.chat_id or "", e.queued_at, _first(e.attempts)) for e in await feishu.events()]
            case OnWecom(simulator=wecom):
                spoken = [(p, m) for p in self.platform.places for m in await wecom.messages(p.room) if m.author]
                # Passed on the moment it is written: nothing waits here.
                moments = [(place.chat, message.history[0].at, message.history[0].at) for place, message in spoken]
        known = [moment for moment in moments if moment[0] in numbers]
        return [Delivery(n, numbers[chat], queued, handed) for n, (chat, queued, handed) in enumerate(known)]

    async def shown(self) -> list[Call]:
        """All states of the bot's messages: one call per state of each message."""
        calls = []
        for place in self.platform.places:
            messages: list[Any] = [*await self.platform.simulator.bot_messages(place.room)]
            for number, message in enumerate(messages):
                looks = [(look.at, getattr(look, "shown", look.text)) for look in message.history]
                calls += [Call(at, self.numbers[place.chat], number, text.strip()) for at, text in looks]
        return calls


def _first(attempts: Sequence[dict[str, Any]]) -> float | None:
    return float(attempts[0]["at"]) if attempts else None
