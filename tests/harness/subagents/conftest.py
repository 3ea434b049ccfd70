"""The bench of the subagents' tests: they are switched on, there are files, and time passes only when it is turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.subagents.config import SubagentsSettings
from tests.harness.support import Bench, HeldClock, in_memory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "checkpoints.sqlite", clock=HeldClock(), subagents=SubagentsSettings())
    in_memory(bench)
    return bench
