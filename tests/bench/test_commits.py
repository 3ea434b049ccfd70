"""The number of commits per plain message does not grow unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.commits import SQLITE, WORKER, measure, measure_workers
from tests.bench.figures import Outcome

if TYPE_CHECKING:
    from tests.simulators.postgres import PostgresServer

MOST_WITH_A_DRAFT, MOST_AT_ONCE = 7, 5
MOST_OF_A_WORKER, MOST_OF_A_WORKER_AT_ONCE = 10, 7
"""Also in docs/performance.md."""


async def test_a_plain_message_is_so_many_transactions() -> None:
    outcome = Outcome()
    await measure(outcome, SQLITE, 5)
    least = {kind: min(map(sum, zip(*found.values(), strict=True))) for kind, found in outcome.details.items()}
    # The minimum: on a busy machine, writes that are usually joined may arrive too late for that.
    assert 0 < least["sqlite"] <= MOST_WITH_A_DRAFT
    assert 0 < least["sqlite_at_once"] <= MOST_AT_ONCE


@pytest.mark.postgres
async def test_a_plain_message_of_a_worker_is_so_many_transactions(postgres: PostgresServer) -> None:
    outcome = Outcome()
    await measure_workers(outcome, 5, postgres)
    least = {kind: min(map(sum, zip(*found.values(), strict=True))) for kind, found in outcome.details.items()}
    assert 0 < least[WORKER] <= MOST_OF_A_WORKER
    assert 0 < least[f"{WORKER}_at_once"] <= MOST_OF_A_WORKER_AT_ONCE
