"""What is no new turn: the new state of a message that waits, and the reason that a denial waits for. For actor.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store import inbox, runs
from bot.store.identity import person_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from bot.conversations.arrivals import Arrivals
    from bot.conversations.mailbox import Edited
    from bot.conversations.ports import ConversationPorts
    from bot.conversations.queue import WaitingLine
    from bot.delivery.respond import Responder
    from bot.runs.turns import Spoken
    from bot.store.rows import RunRow
    from channels.message import Message


async def gives_reason(ports: ConversationPorts, run_id: str, spoken: Spoken) -> bool:
    """Whether a message is what the running answer waits for: why something is denied. Then that is done.

    In doubt it is a request of its own, and the denial needs no reason any more: no message is ever lost as one.
    """
    message = spoken.message
    if spoken.schedule:
        return False
    settled, person = ports.responder.answered, person_id(message.account, message.sender.id)
    return await ports.runs.approvals.take_reason(
        run_id, person, message, also=lambda tx: settled(tx, [spoken.id], "reason of a denial")
    )


async def take_edit(edited: Edited, arrivals: Arrivals, line: WaitingLine, responder: Responder) -> None:
    """A message that still waits is replaced by its new state; one that is being answered is not run again."""
    if (arriving := arrivals.edit(edited.message)) is not None:
        return await responder.settle([edited.id], "edit taken over", _edit(*arriving))
    if (changed := await line.edit(edited.message)) is not None:
        return await responder.settle([edited.id], "edit taken over", _edit(*changed))
    await responder.settle([edited.id], "edited after its turn began")


def _edit(event_id: int, message: Message, run: RunRow | None = None) -> Callable[[Connection], None]:
    """The unit that stores a waiting message's new state, and its run's."""

    def unit(tx: Connection) -> None:
        inbox.replace_event(tx, event_id, message)
        if run is not None:
            runs.set_input(tx, run.run_id, run.input)

    return unit
