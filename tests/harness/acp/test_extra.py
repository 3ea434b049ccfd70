"""The Agent Client Protocol's package is an extra: where it is missing, that is said with the command that helps."""

from __future__ import annotations

import sys

import pytest

from bot.doctor.machine import wrong_packages
from harness.acp.config import AcpAgentSettings
from harness.agents import tools
from harness.agents.parts import ExtraSettings, Parts
from harness.errors import ToolSetupError
from harness.ports import MemoryEffectLog, MemoryRunLedger
from tests.clock import VirtualClock


async def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "acp" or each.startswith("harness.acp.")]:
        if name != "harness.acp.config":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "acp", None)
    parts = Parts(
        models=(),
        extras=ExtraSettings(acp_agents={"one": AcpAgentSettings(command="one")}),
        effects=MemoryEffectLog(),
        ledger=MemoryRunLedger(),
        clock=VirtualClock(),
        route=lambda name: (None, None),
    )
    with pytest.raises(ToolSetupError, match=r"acp_agents: acp is not installed; pip install 'antler\[acp\]'"):
        await tools.load_extras(parts)


def test_doctor_names_the_extra() -> None:
    (missing,) = wrong_packages(["no-such-package>=1; extra == 'acp'"], ["acp"])
    assert "antler[acp]" in missing.says
    assert not list(wrong_packages(["no-such-package>=1; extra == 'acp'"], ["models"]))
