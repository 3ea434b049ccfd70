"""The facts after a campaign: what was said and shown, and what the database and the model recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.store.tables import inbox, outbox, runs
from tests.torture.disturbed import recorded
from tests.torture.load import squeezed
from tests.torture.tools import effects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Row

    from tests.simulators.model.records import Record
    from tests.torture.ledger import Ledger
    from tests.torture.load import Asked, Load
    from tests.torture.platform import Bubble, Call, Promises
    from tests.torture.world import Life, TortureWorld

Chat = tuple[str, str]
"""An account and a chat's id there."""
Where = tuple[str, str, str]
"""A message: an account, a chat's id and the message's own id there."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the gateway: its messages as the chat shows them now, in the order of its parts.

    texts: of its messages, squeezed. settled: the gateway counts it as delivered or abandoned.
    """

    key: str
    account: str
    messages: tuple[Bubble, ...]
    settled: bool

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(squeezed(message.text) for message in self.messages)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one account; see gather. rows, runs: from the database, in order; chats: all messages of the bot
    that still exist.

    known_ids: messages in the outbox now; recorded: all that were ever in it. wall_ahead: seconds by which the wall
    clock is ahead of the monotonic one, which all other times here use. woken: the model key of each process that was
    frozen, and when it was resumed.
    """

    account: str
    promises: Promises
    asked: tuple[Asked, ...]
    lives: tuple[Life, ...]
    rows: list[Row[Any]]
    runs: list[Row[Any]]
    replies: dict[str, Reply]
    chats: dict[Chat, list[Bubble]]
    calls: list[Call]
    completions: list[Record]
    effects: list[tuple[str, str]]
    known_ids: frozenset[Where] = field(repr=False)
    recorded: frozenset[Where] = field(repr=False)
    wall_ahead: float
    woken: tuple[tuple[str, float], ...] = ()

    def stored_at(self, row: Row[Any]) -> float:
        """When a row of the inbox was received, in monotonic seconds."""
        return float(row.received_at.timestamp()) - self.wall_ahead

    def rows_of(self, asked: Asked) -> list[Row[Any]]:
        """The inbox rows of one message; more than one if it was accepted twice."""
        key = (asked.chat, asked.message_id)
        return [row for row in self.rows if (row.chat, row.platform_message_id) == key]

    def stale(self) -> list[tuple[Chat, Bubble]]:
        """Messages of the bot that the outbox does not know."""
        return [
            (chat, bubble)
            for chat, bubbles in self.chats.items()
            for bubble in bubbles
            if (*chat, bubble.message_id) not in self.known_ids
        ]


async def gather(world: TortureWorld, load: Load, ledger: Ledger) -> list[Facts]:
    """Query all sources; return the facts of each account. The gateway must have ended or be idle."""
    parts, rows, run_rows = ledger.rows(outbox), ledger.rows(inbox), ledger.rows(runs)
    completions, ran, written = await world.model.completions(), effects(world.control), recorded(world.control)
    found = []
    for account, platform in load.platforms.items():
        asked = tuple(asked for asked in load.asked if asked.account == account)
        spoken_in = {asked.chat for asked in asked}
        chats = {(account, p.chat): await platform.bubbles(p) for p in platform.places if p.chat in spoken_in}
        markers = {asked.marker for asked in asked}
        own = [_native(part, platform.native) for part in parts if part.account == account]
        found.append(
            Facts(
                account=account,
                promises=platform.promises,
                asked=asked,
                lives=tuple(world.lives),
                rows=[row for row in rows if row.account == account],
                runs=sorted((run for run in run_rows if run.account == account), key=lambda run: run.seq),
                replies=_replies(own, chats),
                chats=chats,
                calls=await platform.calls(),
                completions=[c for c in completions if _answers(c.last_user_text, markers)],
                effects=[effect for effect in ran if effect[0] in markers],
                recorded=frozenset((a, chat, platform.native(stored)) for a, chat, stored in written if a == account),
                known_ids=frozenset(part.where for part in own if part.where[2]),
                wall_ahead=time.time() - time.monotonic(),
                woken=tuple(world.woken),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A row of the outbox. where[2]: the id of its bubble, "" for none."""

    row: Row[Any]
    where: Where


def _native(row: Row[Any], native: Callable[[str], str]) -> _Part:
    message_id = "" if row.message_id is None else native(row.message_id)
    return _Part(row, (row.account, row.chat, message_id))


def _answers(text: str, markers: set[str]) -> bool:
    """Whether a request to the model is for one of these messages, and not for a summary of many."""
    return marker_of(text) in markers and "Messages to summarize:" not in text


def _replies(parts: list[_Part], chats: dict[Chat, list[Bubble]]) -> dict[str, Reply]:
    shown = {(*chat, bubble.message_id): bubble for chat, bubbles in chats.items() for bubble in bubbles}
    found: dict[str, list[_Part]] = {}
    for part in sorted(parts, key=lambda part: int(part.row.part)):
        found.setdefault(part.row.reply_key, []).append(part)
    return {
        key: Reply(
            key,
            own[0].row.account,
            tuple(shown[part.where] for part in own if part.where in shown),
            own[0].row.delivered_at is not None or own[0].row.abandoned is not None,
        )
        for key, own in found.items()
    }


def marker_of(text: str) -> str:
    """The first marker in a text, or ""."""
    position = text.find("m0")
    while position >= 0:
        if text[position + 1 : position + 6].isdigit():
            return text[position : position + 6]
        position = text.find("m0", position + 1)
    return ""
