"""What persons say to runs that work, as the agent asks for it: harness.ports.Steering. For gateway.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.context import RUN_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.runs.active import ActiveRun
    from harness.context import RunContext, RunInput


class RunSteering:
    """active: a run that this process works on, by its id. What a run has heard is in its row, so a resume knows it."""

    def __init__(self, active: Callable[[str], ActiveRun | None]) -> None:
        self._active = active

    async def said(self, ctx: RunContext) -> Sequence[RunInput]:
        """See the port."""
        active = self._active(ctx.run_id)
        if active is None:
            return ()
        await active.hear()
        return RUN_INPUT.validate_json(active.row.input).steered
