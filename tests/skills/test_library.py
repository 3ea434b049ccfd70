"""Every skill that ships: its SKILL.md is valid, what it names is there, its scripts explain themselves, and the
scanner that judges other people's skills finds nothing in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness.graph.calls import OWN_TOOLS
from harness.skills.config import SkillsSettings
from harness.skills.document import parse_bytes
from harness.skills.library import SkillLibrary
from harness.skills.prompt import skills_section
from harness.skills.scan import scan
from harness.skills.verdict import Level
from sandbox.policy import CHECKOUT
from tests.skills.running import LIBRARY, require_runtime, runtime_python
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

FIRST = {
    *("deep-research", "data-analysis", "chart-visualization", "report-generation"),
    *("ppt-generation", "meeting-notes", "document-conversion", "skill-creator"),
}
SKILLS = sorted(file.parent for file in LIBRARY.glob("*/SKILL.md"))
SCRIPTS = sorted(file for file in LIBRARY.glob("*/scripts/*.py") if '__name__ == "__main__"' in file.read_text())
WITHIN = re.compile(r"(?<![\w/.-])(?:/mnt/skills/public/[\w-]+/)?(?:references|scripts|assets)/[\w/.-]+\w")
WHOLE = re.compile(r"/mnt/skills/public/[\w-]+(?:/[\w/.-]*\w)?")

COMMAND = re.compile(r"python3 /mnt/skills/public/(\S+\.py)([^\n`]*)")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")

skills = table("skill", SKILLS)


def test_all_of_them_fit_into_the_prompt() -> None:
    """With the default settings none is left out of the list, and none tells less than its gist."""
    view = SkillLibrary(LIBRARY, None).of(None)
    assert {skill.name for skill in view.skills} == {skill.name for skill in SKILLS} >= FIRST
    assert not view.problems
    section = skills_section(view.skills, SkillsSettings().prompt_tokens, OWN_TOOLS)
    listed = [line for line in section.partition("/NAME/SKILL.md:\n")[2].splitlines() if line.startswith("- ")]
    assert [line.partition(":")[0] for line in listed] == [f"- {skill.name}" for skill in SKILLS]
    assert min(map(len, listed)) > 100


@skills
def test_its_document_is_valid_and_says_when_to_use_it(skill: Path) -> None:
    document = parse_bytes((skill / "SKILL.md").read_bytes(), skill.name, strict=True)
    assert document.license == "MIT"
    assert re.fullmatch(r"\d+\.\d+\.\d+", document.version)
    assert "Use it " in document.description
    assert len(re.findall("[\u4e00-\u9fff]", document.metadata["description-zh"])) >= 30
    assert document.body.count("\n") < 200, "what is longer belongs into references"


@skills
def test_what_it_names_is_there(skill: Path) -> None:
    for file in [skill / "SKILL.md", *skill.glob("references/*.md")]:
        text = file.read_text()
        for path in WITHIN.findall(text):
            found = LIBRARY / path.removeprefix("/mnt/skills/public/") if path.startswith("/") else skill / path
            assert found.exists(), f"{file.name} names {path}"
        for path in WHOLE.findall(text):
            assert (LIBRARY / path.removeprefix("/mnt/skills/public/")).exists(), f"{file.name} names {path}"


@skills
def test_every_reference_is_named_by_the_workflow(skill: Path) -> None:
    text = (skill / "SKILL.md").read_text()
    for file in skill.glob("references/*"):
        assert f"references/{file.name}" in text
    for file in skill.glob("scripts/*.py"):
        assert file not in SCRIPTS or file.name in text


def test_every_skill_is_in_the_page_for_people() -> None:
    page = (CHECKOUT / "docs" / "skill-library.md").read_text()
    listed = {
        name for line in page.splitlines() if line.startswith("| ") for name in line.split(" | ")[0][2:].split(", ")
    }
    assert listed - {"skill", "---"} == {skill.name for skill in SKILLS}


@skills
def test_the_scanner_has_nothing_against_it(skill: Path) -> None:
    verdict = scan(skill)
    assert verdict.level is Level.ALLOW, verdict


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script.parents[1].name}/{script.stem}")
def test_each_script_explains_itself(script: Path, tmp_path: Path) -> None:
    said = runtime_python(script, "--help", folder=tmp_path)
    assert said.startswith("usage: ")
    assert len(said.splitlines()) > 8, "with what it is for"


@skills
def test_its_commands_use_scripts_and_options_that_exist(skill: Path) -> None:
    """What a workflow prescribes is what its scripts take."""
    commands = COMMAND.findall((skill / "SKILL.md").read_text().replace("\\\n", " "))
    assert commands or not list(skill.glob("scripts/*.py"))
    for path, arguments in commands:
        source = "".join(file.read_text() for file in (LIBRARY / path).parent.glob("*.py"))
        for option in OPTION.findall(arguments):
            assert f'"{option}"' in source or 'f"--{name}"' in source, f"{path} has no {option}"
