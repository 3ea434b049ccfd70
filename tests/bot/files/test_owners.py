"""Whose a thread is, and so whose skills its sandbox shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.files.sandboxes import MOST_OWNERS, Sandboxes, ThreadOwners
from bot.skills.service import SkillService
from bot.store.identity import folder_name, users_folder
from harness.skills.library import SkillLibrary
from sandbox.base import FileText
from sandbox.config import SandboxSettings
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from pathlib import Path

SKILL = "/mnt/skills/mine/x/SKILL.md"


def test_the_longest_silent_thread_is_forgotten() -> None:
    owners = ThreadOwners()
    owners.learn("first", "tg:1")
    for number in range(MOST_OWNERS - 1):
        owners.learn(f"t{number}", "tg:2")
    owners.learn("first", "tg:1")
    owners.learn("one more", "tg:3")
    assert [owners.of(thread) for thread in ("first", "t0", "t1", "one more")] == ["tg:1", None, "tg:2", "tg:3"]


async def test_a_thread_has_the_skills_of_its_owner_only(tmp_path: Path) -> None:
    for owner in ("tg:1", "tg:2"):
        folder = users_folder(tmp_path) / folder_name(owner) / "skills" / "x"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(owner)
    owners = ThreadOwners()
    service = SkillService(library=SkillLibrary(None, None, users_folder(tmp_path)), owner_of=owners.of)
    sandboxes = Sandboxes(SandboxSettings(use=USE), tmp_path, skills=service.folders)
    await sandboxes.start()
    owners.learn("one", "tg:1")
    owners.learn("two", "tg:2")
    seen = []
    for thread in ("one", "two", "nobody's"):
        async with sandboxes.borrow(thread) as sandbox:
            found = await sandbox.read_file(SKILL)
            seen.append(found.text if isinstance(found, FileText) else None)
    assert seen == ["tg:1", "tg:2", None]
    await sandboxes.shutdown(5)
