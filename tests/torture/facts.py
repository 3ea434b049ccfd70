"""Everything that is known after a campaign: what was said and shown, what the database and the model know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.store.tables import inbox, outbox, runs
from tests.torture.disturbed import recorded
from tests.torture.load import squeezed
from tests.torture.tools import effects

if TYPE_CHECKING:
    from sqlalchemy import Row

    from tests.simulators.model.records import Record
    from tests.simulators.telegram.seen import RecordedCall, SeenMessage
    from tests.torture.ledger import Ledger
    from tests.torture.load import Asked, Load
    from tests.torture.world import Life, TortureWorld

VISIBLE = frozenset({"sendmessage", "editmessagetext"})


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the gateway: its messages as the chat shows them now, in the order of its parts.

    texts: what its messages say, squeezed and joined. settled: the gateway counts it as delivered or given up.
    """

    key: str
    chat: int
    messages: tuple[SeenMessage, ...]
    settled: bool

    @property
    def text(self) -> str:
        return "".join(squeezed(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """See gather. rows, runs: of the database, in their order; chats: all messages of the bot that are still there.

    known_ids: (chat, message id) of what the outbox knows; recorded: of what was ever written into it.
    """

    asked: tuple[Asked, ...]
    lives: tuple[Life, ...]
    rows: list[Row[Any]]
    runs: list[Row[Any]]
    replies: dict[str, Reply]
    chats: dict[int, list[SeenMessage]]
    calls: list[RecordedCall]
    completions: list[Record]
    effects: list[tuple[str, str]]
    known_ids: frozenset[tuple[int, int]] = field(repr=False)
    recorded: frozenset[tuple[int, int]] = field(repr=False)

    def rows_of(self, asked: Asked) -> list[Row[Any]]:
        """The inbox rows of one message; more than one when it was taken twice."""
        key = (str(asked.chat), str(asked.message_id))
        return [row for row in self.rows if (row.chat, row.platform_message_id) == key]

    def stale(self) -> list[tuple[int, SeenMessage]]:
        """(chat, message) of those messages of the bot that it does not know."""
        return [
            (chat, message)
            for chat, messages in self.chats.items()
            for message in messages
            if (chat, message.message_id) not in self.known_ids
        ]


async def gather(world: TortureWorld, load: Load, ledger: Ledger) -> Facts:
    """Ask everybody. The gateway must not be running any more, or have nothing to do."""
    chats = {
        place.room.id: await world.telegram.bot_messages(place.room)
        for place in load.places
        if any(asked.chat == place.room.id for asked in load.asked)
    }
    parts = ledger.rows(outbox)
    markers = {asked.marker for asked in load.asked}
    return Facts(
        asked=tuple(load.asked),
        lives=tuple(world.lives),
        rows=ledger.rows(inbox),
        runs=sorted(ledger.rows(runs), key=lambda run: run.seq),
        replies=_replies(parts, chats),
        chats=chats,
        calls=[call for call in await world.telegram.records() if call.method.lower() in VISIBLE],
        completions=[c for c in await world.model.completions() if _answers(c.last_user_text, markers)],
        effects=effects(world.control),
        recorded=recorded(world.control),
        known_ids=frozenset((int(part.chat), int(part.message_id)) for part in parts if part.message_id is not None),
    )


def _answers(text: str, markers: set[str]) -> bool:
    """Whether a request of the model is for one of our messages, and not for a summary of many."""
    return marker_of(text) in markers and "Messages to summarize:" not in text


def _replies(parts: list[Row[Any]], chats: dict[int, list[SeenMessage]]) -> dict[str, Reply]:
    shown = {(chat, message.message_id): message for chat, messages in chats.items() for message in messages}
    found: dict[str, list[Row[Any]]] = {}
    for part in sorted(parts, key=lambda part: part.part):
        found.setdefault(part.reply_key, []).append(part)
    return {
        key: Reply(
            key,
            int(own[0].chat),
            tuple(
                shown[place]
                for part in own
                if part.message_id is not None and (place := (int(part.chat), int(part.message_id))) in shown
            ),
            own[0].delivered_at is not None or own[0].abandoned is not None,
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
