"""What a plain message commits does not grow unnoticed."""

from __future__ import annotations

from tests.bench.commits import SQLITE, measure
from tests.bench.figures import Outcome

MOST_WITH_A_DRAFT, MOST_AT_ONCE = 7, 5
"""docs/performance.md names them."""


async def test_a_plain_message_is_so_many_transactions() -> None:
    outcome = Outcome()
    await measure(outcome, SQLITE, 5)
    least = {kind: min(map(sum, zip(*found.values(), strict=True))) for kind, found in outcome.details.items()}
    # The least: on a machine that is busy with other work what is joined in a moment may come too late for that.
    assert 0 < least["sqlite"] <= MOST_WITH_A_DRAFT
    assert 0 < least["sqlite_at_once"] <= MOST_AT_ONCE
