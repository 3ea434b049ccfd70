"""Skills are begun, checked and packed; what the check accepts, Antler installs, and reads as the same."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.skills.archive import unpack
from harness.skills.document import SkillError, parse_bytes
from harness.skills.scan import scan_files
from harness.skills.verdict import Level
from tests.properties import examples
from tests.skills.running import LIBRARY
from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from types import ModuleType

WORKFLOW = "# Weekly report\n\nRun `scripts/sum.py`; read `references/fields.md` before.\n"
GOOD = "name: weekly-report\ndescription: Weekly sales report from a CSV file. Use it for Monday numbers, pipeline.\n"


def load(name: str) -> ModuleType:
    """A module of the skill's scripts, which import each other by their bare names."""
    folder = str(LIBRARY / "skill-creator" / "scripts")
    spec = spec_from_file_location(name, f"{folder}/{name}.py")
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    source = Path(folder, f"{name}.py").read_text()
    exec(compile(source, f"{folder}/{name}.py", "exec"), module.__dict__)  # by the loader it would leave bytecode there
    return module


@pytest.fixture(scope="module")
def checker() -> Any:
    names = ("frontmatter", "document")
    before = {name: sys.modules.get(name) for name in names}
    modules = {name: load(name) for name in names}
    yield modules["document"]
    for name, module in before.items():
        sys.modules.pop(name)
        if module is not None:
            sys.modules[name] = module


ACCEPTED = [
    pytest.param(GOOD, id="plain"),
    pytest.param(
        GOOD + "license: MIT\nversion: 1.10\nauthor: 'O''Neil'\ncompatibility: \"a \\\"b\\\"\"\n", id="quotes"
    ),
    pytest.param("name: weekly-report\ndescription: >-\n  Folded\n  text: with a colon\n\n  and more\n", id="folded"),
    pytest.param("name: weekly-report\ndescription: |\n  As\n    it\n  stands\n", id="literal"),
    pytest.param("name: weekly-report\ndescription: goes on\n  below it # said\n", id="plain-on-two-lines"),
    pytest.param("# a comment\nname:   weekly-report   # another\ndescription: x #y\n", id="comments"),
    pytest.param(GOOD + "allowed-tools: [bash, 'read_file',]\n", id="list-in-brackets"),
    pytest.param(GOOD + "allowed-tools:\n- bash\n- read_file\n", id="list-below"),
    pytest.param(GOOD + "allowed-tools:\n  - bash # why\n\n  - read_file\n", id="list-indented"),
    pytest.param(GOOD + "allowed-tools: bash, read_file bash\n", id="list-as-text"),
    pytest.param(GOOD + "allowed-tools: []\n", id="no-tools"),
    pytest.param(GOOD + "metadata:\n  category: sales\n  deep:\n    er: yes\n  tags: [a, b]\n", id="metadata"),
    pytest.param(GOOD + "metadata:\n", id="empty-metadata"),
    pytest.param(GOOD.replace("\n", "\r\n"), id="windows"),
    pytest.param("name: weekly-report\ndescription: 每周销售报告。用于周一数据\n", id="chinese"),
]
REFUSED = [
    pytest.param("name: weekly-report\n", id="no-description"),
    pytest.param("description: x\n", id="no-name"),
    pytest.param(GOOD.replace("weekly-report", "other"), id="other-folder"),
    pytest.param(GOOD.replace("weekly-report", "Weekly"), id="capital"),
    pytest.param(GOOD + "colour: red\n", id="unknown-key"),
    pytest.param(GOOD + "name: weekly-report\n", id="twice"),
    pytest.param(GOOD + "license: &a MIT\n", id="anchor"),
    pytest.param(GOOD + "license: *a\n", id="alias"),
    pytest.param(GOOD + "license: !!str MIT\n", id="tag"),
    pytest.param(GOOD + "license: [MIT]\n", id="list-for-text"),
    pytest.param(GOOD + "allowed-tools: ''\n", id="no-list"),
    pytest.param(GOOD + "metadata: text\n", id="text-for-mapping"),
    pytest.param(GOOD + "\tlicense: MIT\n", id="tab"),
    pytest.param(GOOD + "license: a: b\n", id="colon"),
    pytest.param(GOOD + "license: 'MIT\n", id="open-quote"),
    pytest.param(GOOD + "license: MIT\n   author: x\n", id="indented-key"),
    pytest.param(f"name: weekly-report\ndescription: {'x' * 1025}\n", id="too-long"),
    pytest.param(GOOD + f"license: {'x' * 501}\n", id="license-too-long"),
    pytest.param("- name\n- description\n", id="a-list"),
    pytest.param("just text\n", id="text"),
    pytest.param(GOOD + f"metadata:\n  a: {'x' * 17_000}\n", id="too-large"),
]
PIECES = st.sampled_from(
    [
        "name",
        "description",
        "license",
        "a",
        "x-y",
        ":",
        ": ",
        " ",
        "  ",
        "\n",
        "\n  ",
        "- ",
        "-",
        "#",
        " #",
        "'",
        '"',
        "[",
        "]",
        "|",
        ">",
        ">-",
        "metadata:\n  ",
        "allowed-tools: ",
        "\t",
        "\\",
        "?",
        "!",
        "&",
        "*",
        "{",
        "}",
        "1.10",
        "~",
        "...",
        "@",
        "%",
        "\u2028",
        "\x85",
        "\xa0",
        "\ufeff",
        "é",
    ]
) | st.just(",")


def whole(front: str, body: str = WORKFLOW) -> bytes:
    return f"---\n{front}---\n{body}".encode()


def assert_alike(checker: Any, raw: bytes) -> bool:
    """Whether the check accepts it; then Antler has to, and to read the same."""
    found = checker.parse(raw, "weekly-report")
    if found.problems:
        return False
    known = parse_bytes(raw, "weekly-report", strict=True)
    tools = found.values.get("allowed-tools")
    names = tools.replace(",", " ").split() if isinstance(tools, str) else tools
    for key in ("name", "description", "license", "version", "author", "compatibility"):
        assert found.text(key) == getattr(known, key)
    assert (names if names is None else tuple(dict.fromkeys(name.strip() for name in names))) == known.allowed_tools
    assert set(found.values.get("metadata") or {}) == set(known.metadata)
    assert found.body == known.body
    return True


@pytest.mark.parametrize("front", ACCEPTED)
def test_what_antler_accepts_the_check_accepts_and_reads_alike(checker: Any, front: str) -> None:
    assert assert_alike(checker, whole(front))


@pytest.mark.parametrize("front", REFUSED)
def test_what_antler_refuses_the_check_refuses(checker: Any, front: str) -> None:
    with pytest.raises(SkillError):
        parse_bytes(whole(front), "weekly-report", strict=True)
    assert checker.parse(whole(front), "weekly-report").problems


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"---\nname: a\n",
        b"# no front matter\n",
        whole(GOOD, ""),
        whole(GOOD, "x\n" * 500),
        b"\xff\xfe",
        b"x" * 300_000,
    ],
    ids=["empty", "no-end", "no-front", "no-body", "too-many-lines", "not-utf-8", "too-large"],
)
def test_files_that_are_no_skill_are_refused_by_both(checker: Any, raw: bytes) -> None:
    with pytest.raises(SkillError):
        parse_bytes(raw, "weekly-report", strict=True)
    assert checker.parse(raw, "weekly-report").problems


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=12).map("".join))
def test_nothing_passes_the_check_that_antler_refuses_or_reads_otherwise(checker: Any, extra: str) -> None:
    assert_alike(checker, whole(f"{GOOD}{extra}\n"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench("skill-creator", tmp_path)


def test_a_skill_is_begun_filled_in_packed_and_installable(bench: Bench) -> None:
    said = 'Sales: "weekly" report as PDF. Use it when someone wants Monday numbers or the pipeline.'
    wanted = ("weekly-report", "-o", ".", "--description", said, "--script", "sum", "--reference", "fields")
    bench.good("scaffold", *wanted)
    assert "is there already" in bench.bad("scaffold", *wanted)
    unfinished = bench.bad("validate", "weekly-report")
    assert "SKILL.md: line" in unfinished
    assert "scripts/sum.py: line 1 still says" in unfinished
    assert "Not packed" in bench.bad("pack", "weekly-report", "-o", "out")
    skill = bench.folder / "weekly-report"
    for path in [*skill.rglob("*.md"), *skill.rglob("*.py")]:
        path.write_text(path.read_text().replace("[fill in]", "Said."))
    assert "0 errors, 0 pieces of advice" in bench.good("validate", "weekly-report")
    bench.good("pack", "weekly-report", "-o", "out")
    first = (bench.folder / "out" / "weekly-report.skill").read_bytes()
    os.utime(skill / "SKILL.md", (1, 1))
    bench.good("pack", "weekly-report", "-o", "out")
    assert (bench.folder / "out" / "weekly-report.skill").read_bytes() == first
    unpacked = unpack(bench.folder / "out" / "weekly-report.skill")
    assert unpacked.document.description == said
    assert set(unpacked.files) == {"SKILL.md", "scripts/sum.py", "references/fields.md"}
    assert scan_files(unpacked.files).level is Level.ALLOW


def test_the_check_names_everything_that_would_be_refused(bench: Bench) -> None:
    skill = bench.folder / "weekly-report"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(whole("name: weekly-report\ndescription: Report.\n"))
    (skill / "scripts" / "broken.py").write_text("def f(:\n")
    (skill / "scripts" / "inner.zip").write_bytes(b"PK")
    (skill / "scripts" / "tool").write_bytes(b"\x7fELF\x02")
    (skill / ".env").write_text("x")
    (skill / "link.md").symlink_to("/etc/hostname")
    said = bench.bad("validate", "weekly-report")
    for part in (
        "scripts/broken.py: line 1 is no Python",
        "scripts/inner.zip is a package within the package",
        "scripts/tool is a compiled program",
        ".env is hidden",
        "link.md is a link",
        "scripts/sum.py is named and not there",
        "advice: description: 7 characters do not tell when to use it",
        "advice: scripts/tool: no workflow names it",
    ):
        assert part in said


def test_a_name_that_is_none_is_refused(bench: Bench) -> None:
    assert "such as weekly-report" in bench.bad("scaffold", "Weekly Report", "-o", ".")
    assert "has no SKILL.md" in bench.bad("validate", "nowhere")
