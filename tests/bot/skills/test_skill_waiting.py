"""`antler skills waiting` and `on`: owners' skills of which no administrator sees the chat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bot.settings import Settings
from bot.skills.folders import home_of
from bot.skills.tool import agree, list_waiting
from harness.skills.editing import standing, write
from harness.skills.history import Version
from harness.skills.library import SkillLibrary
from harness.skills.verdict import Finding, Level, Verdict
from tests.harness.skills.packing import GOOD

if TYPE_CHECKING:
    from pathlib import Path

    from harness.skills.library import Origin

DOUBT = Verdict(Level.WARN, (Finding(Level.WARN, "network", "scripts/a.py", 3, "requests.get"),))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"channels": {"console": {}}, "data_dir": tmp_path / "data"})


def put(settings: Settings, origin: Origin, owner: str = "") -> str:
    """A skill that waits; its digest."""
    home, stamp = home_of(settings, origin, owner), Version(at="2026-01-01T00:00:00+00:00", action="create")
    write(home, "tried", {"SKILL.md": f"{GOOD}\n{owner}\n".encode()}, base="", change=stamp, verdict=DOUBT)
    return standing(home, "tried").digest


def test_listed_and_agreed_to(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_waiting(settings) == 0
    assert capsys.readouterr().out == "no skill is waiting for an administrator\n"
    digest, shared = put(settings, "mine", "telegram:1"), put(settings, "custom")
    assert list_waiting(settings) == 0
    printed = capsys.readouterr().out
    assert f"tried {digest[:12]}  (" in printed
    assert f"tried {shared[:12]}  (shared, in " in printed
    assert "\n  network in scripts/a.py:3: requests.get\n" in printed
    list_waiting(settings, as_json=True)
    listed = {each["whose"]: each for each in json.loads(capsys.readouterr().out)}
    assert listed["shared"]["digest"] == shared
    assert [each["reasons"] for each in listed.values()] == [["network in scripts/a.py:3: requests.get"]] * 2
    for wrong in ("", digest[:6], "0" * 12):
        assert agree(settings, "tried", wrong) == 1
    assert agree(settings, "other", digest) == 1
    assert agree(settings, "tried", digest[:12]) == 0
    home = home_of(settings, "mine", "telegram:1")
    library = SkillLibrary(None, None, home.folder.parents[1], tell=lambda problem: None)
    assert [skill.name for skill in library.of(home.folder.parent.name).skills] == ["tried"]
    assert agree(settings, "tried", digest[:12]) == 1
    list_waiting(settings)
    assert digest[:12] not in capsys.readouterr().out
