"""The static scanner: what it blocks, what it only notes, what it leaves alone, and that nothing makes it slow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.skills.files import LARGEST_FILE, MOST_FILES
from harness.skills.scan import scan
from harness.skills.scanning.imports import RUNTIME, UNTRUSTED
from harness.skills.verdict import Level
from tests.harness.skills.harmless_cases import HARMLESS, HARMLESS_BUT_NOTED
from tests.harness.skills.scan_cases import DOUBTFUL, HEAD, KEY, MALICIOUS, Case
from tests.properties import examples
from tests.tables import table

CASES = (*MALICIOUS, *DOUBTFUL, *HARMLESS_BUT_NOTED, *HARMLESS)
PUBLIC = sorted(path.parent for path in (Path(__file__).parents[3] / "skills" / "public").glob("*/SKILL.md"))


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return new_skill(tmp_path)


def new_skill(within: Path) -> Path:
    folder = within / "tried"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"{HEAD}Hello\n")
    return folder


def put(folder: Path, file: str, content: str | bytes) -> None:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@table(("number", "case"), enumerate(CASES))
def test_verdicts(tmp_path: Path, number: int, case: Case) -> None:
    skill = new_skill(tmp_path / str(number))
    put(skill, case.file, case.content)
    verdict = scan(skill)
    assert verdict.level is case.level, verdict.findings
    if case.rule:
        assert case.rule in {finding.rule for finding in verdict.findings}
        assert case.file in {finding.file for finding in verdict.findings}


def test_there_are_enough_cases_of_each_level() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(sum(case.level is level for case in CASES) >= 20 for level in Level)


@table("folder", PUBLIC)
def test_what_ships_is_not_blocked(folder: Path) -> None:
    verdict = scan(folder)
    assert verdict.level is not Level.BLOCK, verdict.reasons


def test_a_finding_says_where_and_shows_no_secret(skill: Path) -> None:
    put(skill, "references/a.md", f"one\ntwo\nthe key is {KEY} and more\n")
    (finding,) = scan(skill).findings
    assert (finding.file, finding.line, finding.rule) == ("references/a.md", 3, "secret")
    assert KEY not in finding.excerpt
    assert finding.excerpt.endswith("***")


def test_an_excerpt_has_no_signs_that_cannot_be_seen(skill: Path) -> None:
    put(skill, "a.md", "ok\u202eevil\x1b[31m\n")
    assert all(finding.excerpt.isprintable() for finding in scan(skill).findings)


@pytest.mark.parametrize("name", ["run", "a.zig", "a.nim", "a.unknown"])
def test_below_scripts_a_file_of_an_unknown_kind_is_doubtful(skill: Path, name: str) -> None:
    (skill / "scripts").mkdir(exist_ok=True)
    (skill / "scripts" / name).write_text("say hello\n")
    verdict = scan(skill)
    assert [each.rule for each in verdict.findings if each.file == f"scripts/{name}"] == ["unknown-script"]
    assert verdict.level is Level.WARN


@pytest.mark.parametrize(
    "line", ["import urllib3", "import asyncio", "from dns import resolver", "import xmlrpc.client"]
)
def test_libraries_that_reach_the_network_are_doubtful(skill: Path, line: str) -> None:
    (skill / "scripts").mkdir(exist_ok=True)
    (skill / "scripts" / "a.py").write_text(f"{line}\n")
    assert scan(skill).level is Level.WARN


def test_scripts_are_named(skill: Path) -> None:
    put(skill, "scripts/a.py", "print(1)\n")
    put(skill, "tool", "#!/usr/bin/env python3\nprint(1)\n")
    put(skill, "assets/a.csv", "1\n")
    assert scan(skill).scripts == ("scripts/a.py", "tool")


def test_links_pipes_and_rights(skill: Path) -> None:
    (skill / "link.md").symlink_to("/etc/passwd")
    (skill / "folder").symlink_to("/etc")
    os.mkfifo(skill / "pipe")
    put(skill, "one.md", "1")
    os.link(skill / "one.md", skill / "two.md")
    put(skill, "three.sh", "echo\n")
    (skill / "three.sh").chmod(0o4755)
    verdict = scan(skill)
    found = {(finding.rule, finding.file) for finding in verdict.findings}
    assert verdict.level is Level.BLOCK
    assert found >= {("link", "link.md"), ("link", "folder"), ("special-file", "pipe")}
    assert not any(finding.file == "two.md" for finding in verdict.findings), "installers make such links"
    assert ("set-id", "three.sh") in found


def test_a_folder_that_is_a_link_is_not_followed(skill: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(skill)
    assert scan(tmp_path / "other").level is Level.BLOCK


@pytest.mark.slow
def test_sizes_and_numbers(skill: Path) -> None:
    put(skill, "assets/a.csv", b"1" * (LARGEST_FILE + 1))
    assert ("too-large", "assets/a.csv") in {(each.rule, each.file) for each in scan(skill).findings}
    for number in range(MOST_FILES + 1):
        put(skill, f"references/{number}.md", "a")
    assert "too-many-files" in {finding.rule for finding in scan(skill).findings}


def test_depth_and_names(skill: Path) -> None:
    put(skill, "/".join("abcdefghijkl") + "/x.md", "a")
    put(skill, "a:b.md", "a")
    put(skill, "x\u202egnp.sh", "echo\n")
    (skill / os.fsdecode(b"\xff.md")).write_text("a")
    rules = [finding.rule for finding in scan(skill).findings]
    assert "too-deep" in rules
    assert rules.count("bad-name") == 3


def test_without_a_skill_file(tmp_path: Path) -> None:
    assert scan(tmp_path).reasons == ["no-skill-file in SKILL.md"]
    assert scan(tmp_path / "missing").level is Level.BLOCK


@pytest.mark.parametrize("piece", ["<", "curl $(", "- ", "rm -r ", "é", "0x41,", "A"])
def test_no_text_makes_it_slow(skill: Path, piece: str) -> None:
    put(skill, "a.md", piece * (200_000 // len(piece.encode())))
    put(skill, "b.sh", piece * (200_000 // len(piece.encode())))
    before = time.process_time()
    scan(skill)
    assert time.process_time() - before < 5


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_get_a_verdict(skill: Path, data: bytes) -> None:
    (skill / "a.md").write_bytes(data)
    for finding in scan(skill).findings:
        assert str(finding)
        assert "\n" not in str(finding)


def test_every_package_of_the_sandbox_is_known_to_be_harmless_or_not() -> None:
    lines = (Path(__file__).parents[3] / "constraints-sandbox.txt").read_text().splitlines()
    assert {line.partition("==")[0] for line in lines if not line.startswith("#")} == {*RUNTIME, *UNTRUSTED}


def test_a_module_of_the_skill_is_known_only_where_it_stands_beside_the_script(skill: Path) -> None:
    put(skill, "scripts/a.py", "import helper\nimport inner.deep\n")
    put(skill, "scripts/inner/deep.py", "")
    put(skill, "references/helper.py", "")
    assert [str(finding) for finding in scan(skill).findings] == ["unknown-import in scripts/a.py:1: helper"]
    put(skill, "scripts/helper.py", "")
    assert scan(skill).level is Level.ALLOW
