"""The index: whose skills there are, what is skipped and why, and that a change on disk is seen at once."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from harness.skills import places
from harness.skills.editing import SkillHome, turn_on, write
from harness.skills.history import Version
from harness.skills.library import MOST_SKILLS, SkillLibrary, SkillView
from harness.skills.verdict import Finding, Level, Verdict
from tests.harness.skills.writing import front, put_skill

if TYPE_CHECKING:
    from pathlib import Path


class World:
    """A library, and what it said in the log."""

    def __init__(self, folder: Path) -> None:
        self.public, self.custom, self.users = (folder / name for name in ("public", "custom", "users"))
        self.told: list[str] = []
        self.library = SkillLibrary(self.public, self.custom, self.users, tell=self.told.append)

    def mine(self, owner: str) -> Path:
        return self.users / owner / "skills"

    def of(self, owner: str | None = None) -> SkillView:
        return self.library.of(owner)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def names(view: SkillView) -> list[str]:
    return [f"{skill.origin}/{skill.name}" for skill in view.skills]


def test_folders_may_be_missing_and_come_later(world: World) -> None:
    assert world.of("ann") == SkillView()
    put_skill(world.public, "tidy")
    put_skill(world.custom, "audit")
    put_skill(world.mine("ann"), "budget")
    assert names(world.of("ann")) == ["custom/audit", "mine/budget", "public/tidy"]
    assert names(world.of(None)) == names(world.of("bob")) == ["custom/audit", "public/tidy"]


def test_the_public_folder_may_be_looked_at_less_often_than_the_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.library = SkillLibrary(world.public, world.custom, world.users, pause=3600)
    put_skill(world.public, "tidy")
    assert names(world.of("ann")) == ["public/tidy"]
    put_skill(world.public, "late")
    put_skill(world.custom, "audit")
    put_skill(world.mine("ann"), "budget")
    assert names(world.of("ann")) == ["custom/audit", "mine/budget", "public/tidy"]
    put_skill(world.custom, "audit", "Something else.")
    assert [skill.document.description for skill in world.of().skills] == ["Something else.", "Use it for tests."]


def test_what_the_agent_is_told_of_one(world: World) -> None:
    put_skill(world.mine("ann"), "tidy", "Tidies.", body="1. Tidy.\n2. Look.")
    skill = world.of("ann").get("tidy")
    assert skill is not None
    assert skill.path == "/mnt/skills/mine/tidy/SKILL.md"
    assert skill.folder == world.mine("ann") / "tidy"
    assert skill.document.body == ""
    assert skill.read().body == "1. Tidy.\n2. Look."


def test_changes_on_disk_are_seen_and_nothing_else_is_read(world: World) -> None:
    files = {name: put_skill(world.public, name) for name in ("one", "two", "three")}
    first = world.of()
    assert world.of() is first
    put_skill(world.public, "two", "Something else.")
    second = world.of()
    assert [skill.document.description for skill in second.skills] == ["Use it for tests."] * 2 + ["Something else."]
    assert second.get("one") is first.get("one"), "it was not read again"
    os.utime(files["one"])
    assert world.of() is second, "the same content is the same skill"
    files["three"].unlink()
    shutil.rmtree(files["two"].parent)
    assert names(world.of()) == ["public/one"]


def test_a_change_that_keeps_size_and_time_is_seen(world: World) -> None:
    file = put_skill(world.public, "one", "Use it.")
    before = world.of()
    stat = file.stat()
    file.write_text(file.read_text().replace("Use it.", "Use IT."))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert world.of() != before


def test_a_broken_one_is_skipped_and_named_once(world: World) -> None:
    put_skill(world.public, "good")
    file = put_skill(world.custom, "bad", "")
    for _ in range(3):
        view = world.of("ann")
        world.of(None)
    assert names(view) == ["public/good"]
    assert [str(problem) for problem in view.problems] == ["custom/bad: SKILL.md: description: is empty"]
    assert world.told == ["custom/bad: SKILL.md: description: is empty"]
    file.write_text(front("other") + "x")
    assert world.of().skills
    assert world.told[1:] == ["custom/bad: SKILL.md: name: is other, but the folder is called bad"]
    put_skill(world.custom, "bad")
    assert names(world.of()) == ["custom/bad", "public/good"]
    assert len(world.told) == 2


def test_this_installations_own_wins_and_says_so(world: World) -> None:
    put_skill(world.public, "tidy", "Theirs.")
    put_skill(world.custom, "tidy", "Ours.")
    view = world.of()
    assert [skill.document.description for skill in view.skills] == ["Ours."]
    (problem,) = view.problems
    assert not problem.skipped
    assert world.told == ["custom/tidy: SKILL.md: name: replaces the public one of the same name"]


@pytest.mark.parametrize("place", ["public", "custom"])
def test_nobody_s_own_takes_the_name_of_a_shared_one(world: World, place: str) -> None:
    put_skill(world.public if place == "public" else world.custom, "tidy", "Shared.")
    put_skill(world.mine("ann"), "tidy", "Hers.")
    view = world.of("ann")
    assert [skill.document.description for skill in view.skills] == ["Shared."]
    (problem,) = view.problems
    assert problem.skipped
    assert f"has the name of a {place} skill" in str(problem)
    assert not world.of("bob").problems, "what is wrong with hers is not his to know"


def test_links_fifos_and_stray_files_are_no_skills(world: World, tmp_path: Path) -> None:
    outside = put_skill(tmp_path / "elsewhere", "secret").parent
    world.public.mkdir()
    (world.public / "secret").symlink_to(outside)
    (world.public / "linked").mkdir()
    (world.public / "linked" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (world.public / "fifo").mkdir()
    os.mkfifo(world.public / "fifo" / "SKILL.md")
    (world.public / "folder" / "SKILL.md").mkdir(parents=True)
    (world.public / "README.md").write_text("x")
    (world.public / ".hidden").mkdir()
    view = world.of()
    assert not view.skills
    assert {problem.name for problem in view.problems} == {"secret", "linked", "fifo", "folder"}


def test_whatever_a_folder_is_called_can_be_told(world: World) -> None:
    for number, name in enumerate((b"\xff\xfe", b"a\nb\x1b[2J", "\u202ecaf\u00e9".encode())):
        put_skill(world.custom, f"x{number}")
        os.rename(os.fsencode(world.custom / f"x{number}"), os.path.join(os.fsencode(world.custom), name))
    view = world.of()
    assert not view.skills
    assert len(view.problems) == 3
    for told in world.told:
        assert told.encode().decode().isprintable()
    (world.custom / ".antler-skills.json").write_text("no JSON")
    assert not world.of().waiting, "what can be no skill waits for nobody"


def test_there_is_an_end_to_how_many(world: World) -> None:
    for number in range(MOST_SKILLS + 1):
        put_skill(world.public, f"skill-{number:04}")
    view = world.of()
    assert len(view.skills) == MOST_SKILLS
    assert "holds 201 skills; those after the first 200 are left out" in str(view.problems[0])


def test_owners_are_kept_apart_and_forgotten_in_turn(world: World) -> None:
    for number in range(140):
        put_skill(world.mine(f"owner{number}"), "own", f"Number {number}.")
    for _ in range(2):
        for number in range(140):
            (skill,) = world.of(f"owner{number}").skills
            assert skill.document.description == f"Number {number}."


def test_folders_for_the_sandbox(world: World) -> None:
    assert world.library.folders("ann") == {}
    put_skill(world.public, "tidy")
    put_skill(world.mine("ann"), "own")
    assert world.library.folders("ann") == {"public": world.public, "mine": world.mine("ann")}
    assert world.library.folders("bob") == world.library.folders(None) == {"public": world.public}


def test_part_of_a_view(world: World) -> None:
    for name in ("a", "b", "c"):
        put_skill(world.public, name)
    view = world.of()
    assert view.only(None) is view
    assert view.without(()) is view
    assert names(view.only(("b", "z"))) == ["public/b"]
    assert names(view.without({"b"})) == ["public/a", "public/c"]
    assert view.without({"b"}).get("b") is None
    off = view.only(("a", "b")).without({"b"})
    paths = {name: f"/mnt/skills/public/{name}/SKILL.md" for name in ("a", "b", "c", "unknown")}
    assert [name for name, path in paths.items() if off.forbids(path)] == ["b", "c"]


def test_what_waits_for_an_administrator_is_not_there(world: World) -> None:
    put_skill(world.custom, "by-hand")
    home = SkillHome("custom", world.custom, world.users / "history")
    verdict = Verdict(Level.WARN, (Finding(Level.WARN, "odd", "SKILL.md", 5, "what it says"),))
    stamp = Version(at="2025-01-01T00:00:00+00:00", action="install")
    write(home, "sly", {"SKILL.md": (front("sly") + "1. Go.").encode()}, base="", change=stamp, verdict=verdict)
    view = world.of()
    assert names(view) == ["custom/by-hand"]
    assert world.told == ["custom/sly: waits for an administrator: odd in SKILL.md:5: what it says"]
    assert view.forbids("/mnt/skills/custom/sly/SKILL.md")
    assert not view.forbids("/mnt/skills/public/sly/SKILL.md"), "that would be another one"
    place, waiting = view.waiting["sly"]
    assert turn_on(home, "sly", waiting.digest, "telegram:1")
    assert place == "custom"
    assert names(world.of()) == ["custom/by-hand", "custom/sly"]
    assert not world.of().forbids("/mnt/skills/custom/sly/SKILL.md")
    (world.custom / "sly" / "script.sh").write_text("true\n")
    assert names(world.of()) == ["custom/by-hand"], "it holds more than was agreed to"


# Folders of folders.


def told(view: SkillView) -> set[str]:
    return set(map(str, view.problems))


def test_skills_stand_in_folders_of_folders(world: World) -> None:
    put_skill(world.custom, "tidy")
    put_skill(world.custom / "team" / "reporting", "weekly", "Weekly.")
    put_skill(world.custom / "团队", "报告生成")
    put_skill(world.mine("ann") / "home", "budget")
    view = world.of("ann")
    assert names(view) == ["mine/budget", "custom/tidy", "custom/weekly", "custom/报告生成"]
    assert not view.problems
    weekly = view.get("weekly")
    assert weekly is not None
    assert (weekly.place, weekly.shelf) == ("team/reporting/weekly", "custom/team/reporting")
    assert weekly.path == "/mnt/skills/custom/team/reporting/weekly/SKILL.md"
    assert weekly.folder == world.custom / "team/reporting/weekly"
    assert weekly.read().description == "Weekly."
    (world.custom / "team").rename(world.custom / "others")
    moved = world.of().get("weekly")
    assert moved is not None
    assert moved.place == "others/reporting/weekly"


def test_what_a_skill_holds_is_no_skill(world: World) -> None:
    put_skill(world.custom, "tidy")
    put_skill(world.custom / "tidy" / "references", "example")
    put_skill(world.custom, "broken", "")
    put_skill(world.custom / "broken" / "references", "other")
    misspelt = put_skill(world.custom, "lower")
    misspelt.rename(misspelt.with_name("skill.md"))
    put_skill(world.custom / "lower" / "references", "third")
    (world.custom / "forgotten" / "references").mkdir(parents=True)
    (world.custom / "forgotten" / "scripts").mkdir()
    view = world.of()
    assert names(view) == ["custom/tidy"]
    assert told(view) == {
        "custom/broken: SKILL.md: description: is empty",
        "custom/lower: SKILL.md: is missing",
        "custom/forgotten: SKILL.md: is missing",
    }


def test_of_two_with_one_name_the_one_nearer_to_the_top_counts_and_the_other_is_told(world: World) -> None:
    put_skill(world.custom / "b", "tidy", "Deeper.")
    put_skill(world.custom / "a" / "x", "tidy", "Deepest.")
    assert [skill.document.description for skill in world.of().skills] == ["Deeper."]
    put_skill(world.custom, "tidy", "At the top.")
    view = world.of()
    assert [skill.document.description for skill in view.skills] == ["At the top."]
    why = "has the same name as custom/tidy, which is used; rename one of them"
    assert told(view) == {f"custom/a/x/tidy: {why}", f"custom/b/tidy: {why}"}
    assert all(problem.skipped for problem in view.problems)
    shutil.rmtree(world.custom / "tidy")
    assert [skill.document.description for skill in world.of().skills] == ["Deeper."]


def test_links_lead_out_of_no_folder(world: World, tmp_path: Path) -> None:
    outside = put_skill(tmp_path / "elsewhere", "secret").parent
    put_skill(world.custom / "team", "tidy")
    (world.custom / "team" / "secret").symlink_to(outside)
    (world.custom / "all").symlink_to(outside.parent)
    view = world.of()
    assert names(view) == ["custom/tidy"]
    link = "SKILL.md: is below a link, and links are not followed"
    assert told(view) == {f"custom/all: {link}", f"custom/team/secret: {link}"}


@pytest.mark.parametrize("name", ["a b", "</skills>", "a\nb", "x" * 65])
def test_a_folder_whose_name_the_model_must_not_read_is_not_looked_into(world: World, name: str) -> None:
    put_skill(world.custom, "tidy")
    folder = world.custom / "odd"
    put_skill(folder, "other")
    folder.rename(world.custom / name.replace("/", "\u2044"))
    view = world.of()
    assert names(view) == ["custom/tidy"]
    assert any("a folder of skills is named with letters, digits, -, _ and . only" in each for each in told(view))
    assert all(each.isprintable() for each in told(view))


def test_how_deep_and_how_many_is_bounded(world: World) -> None:
    put_skill(world.custom / "a/b/c/d", "fits")
    put_skill(world.custom / "z/b/c/d/e", "deep")
    view = world.of()
    assert names(view) == ["custom/fits"]
    assert "custom/z/b/c/d/e: holds folders deeper than 5, which are not searched" in told(view)
    assert "custom/z: SKILL.md: is missing" in told(view)
    for number in range(places.MOST_FOLDERS):
        (world.custom / "many" / f"f{number}").mkdir(parents=True)
    view = world.of()
    assert names(view) == ["custom/fits"]
    more = f"holds more than {places.MOST_FOLDERS} folders that are not skills; those after them are left out"
    assert f"custom: {more}" in told(view)
