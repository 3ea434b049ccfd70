"""The harness's port `Approvals` on the store: what was decided, and how many requests people may still be shown."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import prompts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.store.retrying import RetryingStore
    from harness.context import RunContext
    from harness.guardrails.approvals import Approval, CallKey

MOST_OF_A_RUN = 10
MOST_OF_A_CHAT = 20
"""Requests within WINDOW. A person who is asked again and again allows without reading."""
WINDOW = timedelta(minutes=10)


class StoreApprovals:
    """harness.guardrails.approvals.Approvals."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store

    async def decisions(self, run_id: str) -> Mapping[CallKey, Approval]:
        return await self._store.read(lambda tx: prompts.decisions(tx, run_id))

    async def granted(self, ctx: RunContext, tool: str, coverage: str) -> bool:
        return await self._store.read(lambda tx: prompts.granted(tx, ctx.conversation, ctx.speaker.id, tool, coverage))

    async def room(self, ctx: RunContext) -> int:
        since = self._store.clock.now() - WINDOW
        of_run, of_chat = await self._store.read(
            lambda tx: prompts.count_approvals(tx, ctx.run_id, ctx.conversation, since)
        )
        return max(0, min(MOST_OF_A_RUN - of_run, MOST_OF_A_CHAT - of_chat))
