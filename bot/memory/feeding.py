"""Feeding: queues the text of a turn for the memory in the transaction that ends its run."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.runs.endings import NO_AFTERMATH, Aftermath
from bot.store import memories, run_events
from bot.store.memories import QueuedTurn
from bot.store.rows import RunState, StopReason
from bot.store.sql import to_json
from harness.config import SAME
from harness.events import Outcome
from harness.memory.model import EXCHANGE, LONGEST_SAID, Exchange, Said, is_tainted, own_words
from harness.memory.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.runs.endings import Ending
    from bot.store.rows import RunRow
    from channels.base import Clock
    from harness.context import RunContext
    from harness.memory.config import MemorySettings

OUTCOMES = {RunState.SUCCESS: Outcome.SUCCESS, RunState.LIMITED: Outcome.LIMITED}
TAKEN_BACK = frozenset({reason for reason in StopReason if reason.rewinds} | {StopReason.REVOKED})
"""Endings of turns from which nothing is learned: the agent forgot them too, or the person lost access."""
CUT = "\n[…]\n"
LONGEST_ANSWER = 1200
"""Characters of an answer that are used: what people agree to is at its ends, and processing costs time."""
_WORDS_END = re.compile(r"[\s\u3000-\u9fff\uff00-\uffef]")


class Feeding:
    """Queues turns. queued: called after the commit if there may be something to learn. memory_of: see AgentChoices."""

    def __init__(
        self,
        settings: MemorySettings,
        clock: Clock,
        queued: Callable[[], None],
        memory_of: Callable[[str], str | None] = lambda agent: "",
    ) -> None:
        self.settings = settings
        self._memory_of = memory_of
        self._clock = clock
        self._queued = queued

    def after(self, row: RunRow, ending: Ending, text: str) -> Aftermath:
        """The memory's part at the end of a run. text: the agent's text; it counts as an answer only if the ending
        says so."""
        context = row.context
        run_input, now = row.input.whole, self._clock.now()
        words = spoken(own_words(run_input.words))
        if not words or not self._is_of_interest(row, context, ending):
            return NO_AFTERMATH
        outcome = OUTCOMES.get(ending.state)
        said = [Said(role="person", text=words, name=context.speaker.display_name)]
        said += [Said(role="agent", text=spoken(ends(text)))] if outcome is not None and text.strip() else []

        def unit(tx: Connection) -> None:
            if is_unwanted(tx, context, row.created_at):
                return
            exchange = Exchange(
                owner=context.owner,
                thread_id=row.thread_id,
                run_id=row.run_id,
                speaker=row.speaker,
                is_group=context.is_group,
                locale=context.locale,
                tainted=is_tainted(run_input, run_events.tools_called(tx, row.run_id)),
                outcome=str(outcome or ""),
                at=now,
                said=tuple(said),
                timezone=context.timezone,
                model=context.model if self.settings.model == SAME else "",
            )
            memories.queue_turn(tx, self._turn(exchange, row, now), self._quiet)

        return Aftermath(unit, self._queued)

    def _is_of_interest(self, row: RunRow, context: RunContext, ending: Ending) -> bool:
        """Whether to learn from it. The text of a schedule is the agent's, and that in a chat's name is no person's."""
        worked = row.attempt > 0 and ending.detail not in TAKEN_BACK
        person = context.speaker.is_person and not context.schedule
        covered = self.settings.groups or not context.is_group
        return worked and person and covered and self._memory_of(context.agent) is not None

    @property
    def _quiet(self) -> timedelta:
        return timedelta(seconds=self.settings.debounce_seconds)

    def _turn(self, exchange: Exchange, row: RunRow, now: datetime) -> QueuedTurn:
        return QueuedTurn(
            run_id=row.run_id,
            owner=exchange.owner,
            thread_id=row.thread_id,
            speaker=row.speaker,
            conversation=row.conversation,
            exchange=to_json(EXCHANGE, exchange),
            queued_at=now,
            due_at=now + self._quiet,
            agent=self._memory_of(row.context.agent) or None,
        )


def is_unwanted(tx: Connection, context: RunContext, said_at: datetime) -> bool:
    """Whether a person turned the memory off, or had everything up to then forgotten."""
    state, speaker = memories.owner_states(tx, context.owner, context.speaker.id)
    return state.off or state.had_forgotten(said_at) or speaker.had_forgotten(said_at)


def spoken(text: str) -> str:
    """The text for the queue: without secrets, and only the two ends of a long one."""
    kept = without_secrets(text).strip()
    if len(kept) <= LONGEST_SAID:
        return kept
    half = (LONGEST_SAID - len(CUT)) // 2
    return kept[:half] + CUT + kept[-half:]


def ends(text: str) -> str:
    """The beginning and the end of a long answer, cut between words, so that no part of a secret is left."""
    if len(text) <= LONGEST_ANSWER:
        return text
    head, tail = text[: LONGEST_ANSWER * 2 // 3], text[-LONGEST_ANSWER // 3 :]
    cuts = [found.start() for found in _WORDS_END.finditer(head)]
    begins = _WORDS_END.search(tail)
    return head[: cuts[-1] if cuts else 0] + CUT + (tail[begins.end() :] if begins else "")
