"""Changing skills on disk: versions, what was agreed to, going back, crashes in between, and several at once."""

from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.skills import editing
from harness.skills.archive import install
from harness.skills.document import SkillError
from harness.skills.editing import Changed, SkillHome, remove, standing, turn_on, write
from harness.skills.files import BROKEN, put
from harness.skills.history import Version
from harness.skills.library import SkillLibrary
from harness.skills.pins import PINS, load_pins
from harness.skills.verdict import Finding, Level, Verdict
from tests.harness.skills.packing import GOOD, pack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.skills.editing import Written
    from harness.skills.history import Action

FINE = Verdict(Level.ALLOW)
DOUBT = Verdict(Level.WARN, (Finding(Level.WARN, "network", "scripts/a.py", 3, "requests.get"),))
NOW = "2026-01-01T12:00:00+00:00"


@pytest.fixture
def home(tmp_path: Path) -> SkillHome:
    return SkillHome("custom", tmp_path / "custom", tmp_path / "history")


def text(body: str) -> dict[str, bytes]:
    return {"SKILL.md": GOOD.replace("Do it.", body).encode()}


def stamp(action: Action = "edit", **more: Any) -> Version:
    return Version(at=NOW, action=action, author="telegram:1", **more)


def change(home: SkillHome, files: Mapping[str, bytes], verdict: Verdict = FINE, **more: str) -> Written:
    base = standing(home, "tried").digest
    return write(home, "tried", files, base=base, change=stamp(**more), verdict=verdict)  # type: ignore[arg-type]


def offered(home: SkillHome) -> list[str]:
    library = SkillLibrary(None, home.folder, tell=lambda problem: None)
    return [skill.name for skill in library.of(None).skills]


def test_a_new_skill_is_readable_for_whoever_runs_commands(home: SkillHome) -> None:
    before = os.umask(0o077)
    try:
        made = change(home, text("One.") | {"scripts/deep/a.py": b"print(1)\n"}, action="create", reason="wanted")
    finally:
        os.umask(before)
    assert (made.version.number, made.before, made.pending) == (1, None, False)
    folder = home.folder / "tried"
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "scripts").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "scripts/deep/a.py").stat().st_mode) == 0o644
    assert offered(home) == ["tried"]
    (version,) = home.versions.versions("tried")
    assert (version.action, version.author, version.reason, version.at) == ("create", "telegram:1", "wanted", NOW)
    assert sorted(entry.name for entry in home.folder.iterdir()) == [PINS, "tried"]


def test_each_version_can_be_had_again(home: SkillHome) -> None:
    change(home, text("One."), action="create")
    change(home, text("Two."))
    gone = remove(home, "tried", base=standing(home, "tried").digest, change=stamp("delete"))
    assert offered(home) == []
    history = home.versions
    assert [each.action for each in history.versions("tried")] == ["create", "edit", "delete"]
    assert gone.before == 2
    assert history.files("tried", 1) == text("One.")
    assert history.files("tried", 3) is None
    back = history.files("tried", 2)
    assert back is not None
    change(home, back, action="rollback")
    assert standing(home, "tried").files == text("Two.")
    assert [each.number for each in history.versions("tried")] == [1, 2, 3, 4]


def test_what_was_there_by_hand_is_a_version_before_it_is_changed(home: SkillHome) -> None:
    home.folder.mkdir()
    put(home.folder, "tried", text("By hand."))
    made = change(home, text("Two."))
    assert made.before == 1
    first, second = home.versions.versions("tried")
    assert (first.action, first.author, second.base) == ("found", "", first.digest)
    assert home.versions.files("tried", 1) == text("By hand.")


def test_versions_are_bounded(home: SkillHome) -> None:
    home = replace(home, most_versions=3)
    for number in range(5):
        change(home, text(f"Number {number}."))
    numbers = [each.number for each in home.versions.versions("tried")]
    assert numbers == [3, 4, 5]
    assert len(list((home.history / "tried").glob("*.zip"))) == 3
    assert home.versions.files("tried", 1) is None


def test_a_damaged_version_is_not_believed(home: SkillHome) -> None:
    change(home, text("One."))
    change(home, text("Two."))
    (home.history / "tried" / "0001.zip").write_bytes((home.history / "tried" / "0002.zip").read_bytes())
    with pytest.raises(SkillError, match="version 1 of tried is damaged"):
        home.versions.files("tried", 1)


def test_a_change_of_what_changed_meanwhile_is_not_made(home: SkillHome) -> None:
    change(home, text("One."))
    base = standing(home, "tried").digest
    change(home, text("Two."))
    with pytest.raises(Changed):
        write(home, "tried", text("Three."), base=base, change=stamp(), verdict=FINE)
    with pytest.raises(Changed):
        remove(home, "tried", base=base, change=stamp("delete"))
    assert standing(home, "tried").files == text("Two.")


def test_what_is_doubtful_waits_and_what_is_bad_is_not_kept(home: SkillHome) -> None:
    made = change(home, text("One."), DOUBT, action="create")
    assert made.pending
    assert offered(home) == []
    digest = standing(home, "tried").digest
    assert not turn_on(home, "tried", "another", "telegram:9")
    assert turn_on(home, "tried", digest, "telegram:9")
    assert offered(home) == ["tried"]
    assert home.versions.versions("tried")[-1].approved_by == "telegram:9"
    bad = Verdict(Level.BLOCK, (Finding(Level.BLOCK, "destroys", "SKILL.md", 7, "rm -rf /"),))
    with pytest.raises(SkillError, match="destroys"):
        change(home, text("rm -rf /"), bad)
    assert standing(home, "tried").files == text("One.")


def test_back_to_what_was_agreed_to_waits_for_nobody(home: SkillHome) -> None:
    change(home, text("One."), DOUBT)
    turn_on(home, "tried", standing(home, "tried").digest, "telegram:9")
    assert change(home, text("Two."), DOUBT).pending
    assert offered(home) == []
    assert not change(home, text("One."), DOUBT, action="rollback").pending
    assert offered(home) == ["tried"]


@pytest.mark.parametrize("file", ["SKILL.md", "scripts/a.py", "references/new.md"])
def test_what_is_swapped_on_disk_waits(home: SkillHome, file: str) -> None:
    change(home, text("One.") | {"scripts/a.py": b"print(1)\n"})
    library = SkillLibrary(None, home.folder, tell=lambda problem: None)
    assert [skill.name for skill in library.of(None).skills] == ["tried"]
    path = home.folder / "tried" / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"more\n")
    view = library.of(None)
    assert view.skills == ()
    place, waiting = view.waiting["tried"]
    assert (place, "changed since it was approved" in str(waiting.reasons)) == ("custom", True)
    assert turn_on(home, "tried", waiting.digest, "telegram:9")
    assert [skill.name for skill in library.of(None).skills] == ["tried"]


def test_a_link_in_a_skill_that_was_agreed_to(home: SkillHome) -> None:
    change(home, text("One."))
    (home.folder / "tried" / "more.md").symlink_to("/etc/passwd")
    assert standing(home, "tried") == editing.Standing(None, BROKEN)
    assert offered(home) == []
    assert not turn_on(home, "tried", BROKEN, "telegram:9")
    change(home, text("Two."))
    assert offered(home) == ["tried"]


def test_without_a_readable_record_nothing_is_offered(home: SkillHome) -> None:
    change(home, text("One."))
    (home.folder / PINS).write_text("{")
    assert offered(home) == []


def test_a_name_cannot_lead_elsewhere(home: SkillHome) -> None:
    for name in ("../x", "/etc", "a/b", "", "A", "a" * 65):
        with pytest.raises(SkillError):
            standing(home, name)


def killed_at(home: SkillHome, step: int) -> int:
    """A process of its own changes the skill, and dies before its so-manieth look at the disk; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = 0

    def counting(event: str, args: object) -> None:
        nonlocal seen
        seen += event in ("os.rename", "os.mkdir", "shutil.rmtree", "open")
        if seen == step:
            os._exit(9)

    code = 1
    try:
        base = standing(home, "tried").digest
        sys.addaudithook(counting)
        write(home, "tried", text("Two."), base=base, change=stamp(), verdict=FINE)
        code = 0
    finally:
        os._exit(code)


def test_killed_at_any_step_it_is_what_it_was_or_what_it_should_be(home: SkillHome) -> None:
    change(home, text("One."))
    done = 0
    for step in range(1, 60):
        code = killed_at(home, step)
        assert code in (0, 9)
        assert standing(home, "tried").files in (text("One."), text("Two."))
        assert offered(home) == ["tried"]
        if standing(home, "tried").files == text("Two."):
            done += 1
            change(home, text("One."))
        if code == 0:
            break
    assert code == 0
    assert done > 1
    assert sorted(entry.name for entry in home.folder.iterdir()) == [PINS, "tried"]


def test_what_was_set_aside_comes_back(home: SkillHome) -> None:
    change(home, text("One."))
    (home.folder / "tried").rename(home.folder / ".old-tried-1234")
    put(home.folder, "other", text("Other."))
    assert not (home.folder / "tried").exists()  # it was deleted on purpose
    put(home.folder, "tried", text("One."))
    (home.folder / "tried").rename(home.folder / ".old-tried-1234")
    (home.folder / ".new-tried-5678").mkdir()
    (home.folder / ".new-tried-it-5678").mkdir()
    put(home.folder, "other", text("Another."))
    assert standing(home, "tried").files == text("One.")
    assert sorted(entry.name for entry in home.folder.iterdir()) == [PINS, "other", "tried"]


def test_several_at_once(home: SkillHome) -> None:
    def one(number: int) -> None:
        files = {"SKILL.md": GOOD.replace("tried", f"skill-{number}").encode()}
        write(home, f"skill-{number}", files, base="", change=stamp("create"), verdict=FINE)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(8)))
    assert len(offered(home)) == 8
    assert len(load_pins(home.folder)) == 8


COPY = "\u0441\u043e\u0440\u0443"
"""Cyrillic letters alone, which look like `copy`."""


def test_a_new_name_does_not_look_like_another_one(home: SkillHome, tmp_path: Path) -> None:
    file = pack(tmp_path / "a.skill", (f"{COPY}/SKILL.md", GOOD.replace("tried", COPY)), skill="")
    with pytest.raises(SkillError, match="looks like copy, which is the name of another skill"):
        install(file, home, built_in={"copy"}, at=NOW)
    install(file, home, built_in={"tried"}, at=NOW)
    own = GOOD.replace("tried", COPY)
    # What is there may be changed; what looks like it may not come beside it.
    base = standing(home, COPY).digest
    write(home, COPY, {"SKILL.md": f"{own}More.".encode()}, base=base, change=stamp("edit"), verdict=FINE)
    with pytest.raises(SkillError, match="copy looks like"):
        write(home, "copy", text("One."), base="", change=stamp("create"), verdict=FINE)


def test_only_so_many(home: SkillHome) -> None:
    home = replace(home, most_skills=1)
    change(home, text("One."))
    with pytest.raises(SkillError, match="already 1 skills"):
        write(home, "other", text("One."), base="", change=stamp("create"), verdict=FINE)


def test_installing(home: SkillHome, tmp_path: Path) -> None:
    file = pack(tmp_path / "a.skill", ("tried/scripts/a.py", "print(1)\n"))
    with pytest.raises(SkillError, match="built-in"):
        install(file, home, built_in={"tried"}, at=NOW)
    done = install(file, home, built_in={"other"}, at=NOW)
    assert (done.name, done.pending, done.replaced) == ("tried", False, False)
    assert done.digest == standing(home, "tried").digest
    assert offered(home) == ["tried"]
    with pytest.raises(SkillError, match="already exists"):
        install(file, home, built_in=(), at=NOW)
    network = pack(tmp_path / "b.skill", ("tried/scripts/a.py", "requests.get('https://a.b')\n"))
    again = install(network, home, built_in=(), at=NOW, replace=True)
    assert (again.pending, again.replaced) == (True, True)
    assert offered(home) == []
    evil = pack(tmp_path / "c.skill", ("tried/scripts/a.sh", "rm -rf /\n"), ("tried/b.png", b"\x7fELF" + bytes(99)))
    with pytest.raises(SkillError, match=r"destroys[^;]*; [^;]*program|program[^;]*;.*destroys"):
        install(evil, home, built_in=(), at=NOW, replace=True)
    assert [each.action for each in home.versions.versions("tried")] == ["install", "install"]


# Skills in folders of folders.


def nested(home: SkillHome) -> Path:
    """A skill that an operator put into a folder of folders."""
    folder = home.folder / "team" / "reports" / "tried"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(text("Theirs.")["SKILL.md"])
    return folder


def test_a_skill_is_changed_where_it_stands(home: SkillHome) -> None:
    folder = nested(home)
    change(home, text("Ours."))
    assert b"Ours." in (folder / "SKILL.md").read_bytes()
    assert sorted(entry.name for entry in home.folder.iterdir()) == [PINS, "team"]
    assert sorted(entry.name for entry in folder.parent.iterdir()) == ["tried"]
    assert offered(home) == ["tried"]
    (folder / "SKILL.md").write_bytes(text("Somebody's.")["SKILL.md"])
    assert offered(home) == [], "what was agreed to is known by its content, wherever it stands"


def test_its_versions_stay_while_others_change(home: SkillHome) -> None:
    nested(home)
    change(home, text("Ours."))
    write(home, "other", text("x"), base="", change=stamp("create"), verdict=FINE)
    assert [version.action for version in home.versions.versions("tried")] == ["found", "edit"]


def test_one_that_waits_is_turned_on_where_it_stands(home: SkillHome) -> None:
    nested(home)
    assert change(home, text("Ours."), DOUBT).pending
    library = SkillLibrary(None, home.folder, tell=lambda problem: None)
    view = library.of(None)
    assert view.forbids("/mnt/skills/custom/team/reports/tried/SKILL.md")
    (waiting,) = [waiting for _, waiting in view.waiting.values()]
    assert turn_on(home, "tried", waiting.digest, "telegram:1")
    assert offered(home) == ["tried"]
    assert not library.of(None).forbids("/mnt/skills/custom/team/reports/tried/SKILL.md")


def test_with_the_last_skill_its_folders_go(home: SkillHome) -> None:
    folder = nested(home)
    kept = folder.parents[1] / "README.md"
    kept.write_text("whose they are")
    remove(home, "tried", base=standing(home, "tried").digest, change=stamp("delete"))
    assert not folder.parent.exists()
    assert kept.exists()
    kept.unlink()
    nested(home)
    remove(home, "tried", base=standing(home, "tried").digest, change=stamp("delete"))
    assert sorted(entry.name for entry in home.folder.iterdir()) == []


def test_no_skill_takes_the_place_of_a_folder_of_skills(home: SkillHome) -> None:
    folder = nested(home)
    with pytest.raises(SkillError, match="team is the name of a folder with skills in it"):
        write(home, "team", text("x"), base="", change=stamp("create"), verdict=FINE)
    with pytest.raises(SkillError, match="team is the name of a folder with skills in it"):
        remove(home, "team", base="", change=stamp("delete"))
    assert (folder / "SKILL.md").exists()
