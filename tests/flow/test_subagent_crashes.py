"""kill -9 while the agent's subagents are at work: the run goes on, and nothing in a task happens twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.flow.sandboxed import bash, delegates, require_bubblewrap, running, until_gone, until_running
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World

require_bubblewrap()


async def test_after_a_kill_the_run_goes_on_and_nothing_in_a_task_happens_twice(world: World, mark: str) -> None:
    async with world:
        act = bash(f"echo acted >> ledger; sleep {mark}")
        await world.telegram.user_says(f"{delegates(act=act)}\n{bash('cat ledger')}", user=ALICE)
        await until_running(mark)
        await world.kill()
        await until_gone(mark, 10)
        await world.start()
        answer = await world.telegram.wait_for_text(ALICE, "Tool result")
        await world.telegram.wait_idle(ALICE)
        assert answer.text.count("acted") == 1
        requests = [json.dumps(record.body) for record in await world.model.completions()]
        assert any("This tool call was interrupted" in request for request in requests)
        assert running(mark) == []
