"""The same gateway on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres


async def test_kill_in_mid_answer_loses_nothing(world: World, postgres: PostgresServer) -> None:
    world.settings = {"database": {"url": postgres.database().replace("+psycopg", "")}}
    async with world:
        await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, "The first half")
        await world.telegram.wait_idle(ALICE)  # that it was sent is recorded too
        await world.kill()
        await world.telegram.user_says("and while you were away")
        await world.model.release("half")

        await world.start()
        await world.telegram.wait_for_text(ALICE, "while you were away")
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        answer, _ = await world.telegram.bot_messages(ALICE)
        assert answer.text.endswith("and the second half.")
        assert (answer.message_id != draft.message_id, answer.silent) == (True, False)
