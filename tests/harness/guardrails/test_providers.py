"""A provider of the operator's own decides instead of the rules, and whatever goes wrong with it is a denial."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import tool

from harness.errors import GuardrailSetupError
from harness.guardrails.config import GuardrailSettings
from harness.guardrails.port import GuardRequest, Verdict
from harness.guardrails.rules import load_guardrails
from tests.harness.support import Bench, Script, answers, calls

SENT: list[str] = []
SEEN: list[GuardRequest] = []


@tool
async def send(name: str) -> str:
    """Send a letter."""
    SENT.append(name)
    return f"sent {name}"


class Deciding:
    """By the name of the letter."""

    async def evaluate(self, request: GuardRequest) -> Any:
        SEEN.append(request)
        match request.args.get("name"):
            case "raises":
                raise RuntimeError("a secret of the provider's")
            case "hangs":
                await asyncio.Event().wait()
            case "nothing":
                return None
            case "a dict":
                return {"decision": "allow"}
            case "another word":
                return Verdict("sure")  # type: ignore[arg-type]
            case "denied":
                return Verdict("deny", "Not that one.")
        return Verdict("allow")


class Failing:
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Undecided:
    """It has no method."""


NO_CLASS = 5


@pytest.fixture(autouse=True)
def _clean() -> None:
    SENT.clear()
    SEEN.clear()


def settings(name: str, **more: Any) -> GuardrailSettings:
    return GuardrailSettings(use=f"tests.harness.guardrails.test_providers:{name}", **more)


async def test_it_decides_and_knows_for_whom(bench: Bench, script: Script) -> None:
    bench.tools, bench.guardrails = [send], settings("Deciding")
    told = await answers(bench, script, calls(("send", {"name": "fine"}), ("send", {"name": "denied"})))
    assert (told[0], SENT) == ("sent fine", ["fine"])
    assert "rules deny it. Not that one." in told[1]
    assert (SEEN[0].tool, SEEN[0].speaker.id, SEEN[0].is_group) == ("send", "telegram:1", False)


@pytest.mark.parametrize("name", ["raises", "hangs", "nothing", "a dict", "another word"])
async def test_it_fails_closed(bench: Bench, script: Script, name: str) -> None:
    bench.tools, bench.guardrails = [send], settings("Deciding", provider_seconds=0.05)
    (told,) = await answers(bench, script, calls(("send", {"name": name})))
    assert SENT == []
    assert "calls that cannot be checked are not made" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Failing", "RuntimeError: no licence"),
        ("Undecided", "has no method evaluate"),
        ("Missing", "has no Missing"),
        ("NO_CLASS", "failed"),
    ],
)
def test_one_that_cannot_be_used_stops_the_start(name: str, says: str) -> None:
    with pytest.raises(GuardrailSetupError, match=says):
        load_guardrails(settings(name))
    with pytest.raises(GuardrailSetupError, match="cannot be imported"):
        load_guardrails(GuardrailSettings(use="no.such.module:Rules"))
