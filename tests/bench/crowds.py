"""A crowd on each of four platforms, and what their simulators saw of it, in the terms of timeline.py."""

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
    """The people of one platform, each in a private chat. first: the number of the first chat; others follow, so that
    every chat of a scenario has its own. said: the ids of its messages."""

    platform: AnyPlatform
    first: int
    said: set[str] = field(default_factory=set)

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each chat, by its id on the platform."""
        return {place.chat: self.first + n for n, place in enumerate(self.platform.places)}

    async def say_at_once(self, question: Question, round_number: int) -> None:
        """All of them write in the same moment, as far as one client can do that."""
        places, numbers = self.platform.places, self.numbers
        spoken = await asyncio.gather(
            *(
                self.platform.say(f"{question.text} {label(numbers[p.chat], round_number)}", p, p.people[0])
                for p in places
            )
        )
        self.said.update(one.message_id for one in spoken)

    async def count_showing(self, text: str) -> int:
        """How many messages of the bot show exactly this text."""
        return await self.platform.simulator.count_showing(text)

    async def deliveries(self) -> list[Delivery]:
        """Each message of the crowd: when it was there, and when it was first handed to the gateway."""
        numbers = self.numbers
        match self.platform:
            case OnTelegram(simulator=telegram):
                moments = [(str(u.chat_id), u.queued_at, u.delivered_at) for u in await telegram.deliveries()]
            case OnSlack(simulator=slack):
                # There are events of what the bot itself wrote as well.
                heard = [envelope for envelope in await slack.envelopes() if envelope.ts in self.said]
                moments = [(e.channel or "", e.queued_at, _first(e.attempts)) for e in heard]
            case OnFeishu(simulator=feishu):
                moments = [(e.chat_id or "", e.queued_at, _first(e.attempts)) for e in await feishu.events()]
            case OnWecom(simulator=wecom):
                spoken = [(p, m) for p in self.platform.places for m in await wecom.messages(p.room) if m.author]
                # Handed over in the moment in which it is written: nothing waits here.
                moments = [(place.chat, message.history[0].at, message.history[0].at) for place, message in spoken]
        known = [moment for moment in moments if moment[0] in numbers]
        return [Delivery(n, numbers[chat], queued, handed) for n, (chat, queued, handed) in enumerate(known)]

    async def shown(self) -> list[Call]:
        """Everything that the bot's messages ever showed: one call for each look of each message."""
        calls = []
        for place in self.platform.places:
            messages: list[Any] = [*await self.platform.simulator.bot_messages(place.room)]
            for number, message in enumerate(messages):
                looks = [(look.at, getattr(look, "shown", look.text)) for look in message.history]
                calls += [Call(at, self.numbers[place.chat], number, text.strip()) for at, text in looks]
        return calls


def _first(attempts: Sequence[dict[str, Any]]) -> float | None:
    return float(attempts[0]["at"]) if attempts else None
