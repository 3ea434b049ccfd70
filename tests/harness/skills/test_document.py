"""SKILL.md: what is taken from it, and how every kind of fault is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.skills.document import (
    LARGEST_FILE,
    LARGEST_FRONT_MATTER,
    MOST_LINES,
    SkillDocument,
    SkillError,
    parse_bytes,
    valid_name,
)
from tests.tables import table


def parse(text: str, folder_name: str, *, strict: bool = False) -> SkillDocument:
    return parse_bytes(text.encode("utf-8", "surrogatepass"), folder_name, strict=strict)


WHOLE = """\
---
name: tidy-notes
description: >
  Tidies notes. Use it when somebody
  asks for order.
license: MIT
version: 1.10
author: Ann
compatibility: python 3.11
allowed-tools: [read_file, bash]
metadata:
  audience: everybody
  tags: [notes, order]
---

# Workflow

1. Read `references/style.md`.
"""


def problems(text: str | bytes, folder: str = "tidy-notes", *, strict: bool = False) -> list[str]:
    with pytest.raises(SkillError) as caught:
        parse_bytes(text if isinstance(text, bytes) else text.encode(), folder, strict=strict)
    return [str(problem) for problem in caught.value.problems]


def skill(front: str, body: str = "Do it.") -> str:
    return f"---\n{front}\n---\n{body}\n"


def test_all_that_it_can_say() -> None:
    assert parse(WHOLE, "tidy-notes", strict=True) == SkillDocument(
        name="tidy-notes",
        description="Tidies notes. Use it when somebody asks for order.",
        license="MIT",
        version="1.10",
        author="Ann",
        compatibility="python 3.11",
        allowed_tools=("read_file", "bash"),
        metadata={"audience": "everybody", "tags": ["notes", "order"]},
        body="# Workflow\n\n1. Read `references/style.md`.",
    )


def test_files_of_other_systems() -> None:
    text = "\ufeff" + WHOLE.replace("\n", "\r\n")
    assert parse_bytes(text.encode(), "tidy-notes") == parse(WHOLE, "tidy-notes")


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Bash(git add:*) Grep", ("Read", "Bash(git add:*)", "Grep")),
        ("read_file bash", ("read_file", "bash")),
        ("[]", ()),
        ("\n  - bash\n  - bash\n  - read_file", ("bash", "read_file")),
    ],
)
def test_tools_as_a_list_or_as_text(written: str, tools: tuple[str, ...]) -> None:
    text = skill(f"name: a\ndescription: d\nallowed-tools: {written}")
    assert parse(text, "a").allowed_tools == tools


def test_unknown_keys_are_a_remark_at_load_and_refused_at_install() -> None:
    text = skill("name: a\ndescription: d\nmodel: big\nhooks: {}")
    assert parse(text, "a").unknown_keys == ("hooks", "model")
    assert problems(text, "a", strict=True) == ["SKILL.md: hooks: unknown key", "SKILL.md: model: unknown key"]


@table(
    ("text", "expected"),
    [
        ("", "SKILL.md: should begin with front matter between two lines of ---"),
        ("# Title\n", "SKILL.md: should begin with front matter between two lines of ---"),
        ("---\nname: a\n", "SKILL.md: has no --- at the end of its front matter"),
        (skill("- a\n- b"), "SKILL.md: has front matter that is not a list of `key: value`"),
        (skill(""), "SKILL.md: has front matter that is not a list of `key: value`"),
        (skill("name: tidy-notes"), "SKILL.md: description: is missing"),
        (skill("name: tidy-notes\ndescription: ''"), "SKILL.md: description: is empty"),
        (skill("description: d"), "SKILL.md: name: is missing"),
        (skill("name: tidy-notes\ndescription: [d]"), "SKILL.md: description: should be text"),
        (skill("name: tidy-notes\ndescription: d", ""), "SKILL.md: has no workflow below its front matter"),
        (skill(f"name: tidy-notes\ndescription: {'d' * 1025}"), "description: is longer than 1024 characters"),
        (skill("name: other\ndescription: d"), "SKILL.md: name: is other, but the folder is called tidy-notes"),
        (skill("name: tidy-notes\ndescription: d\nname: x"), "SKILL.md: name: occurs twice"),
        (skill("name: tidy-notes\ndescription: d\nallowed-tools:"), "allowed-tools: is empty; leave it out, or"),
        (skill("name: tidy-notes\ndescription: d\nallowed-tools: {a: b}"), "should be a list of tool names"),
        (skill("name: tidy-notes\ndescription: d\nallowed-tools: [[a]]"), "should be a list of tool names"),
        (skill("name: tidy-notes\ndescription: d\nmetadata: text"), "SKILL.md: metadata: should be a mapping"),
        (skill("name: tidy-notes\ndescription: d: e"), "SKILL.md: has front matter that is not valid YAML: mapping"),
        (skill("name: tidy-notes\ndescription: d", "x\n" * MOST_LINES), "has a workflow of 500 lines; fewer than 500"),
        (b"---\nname: \xff\n---\n", "SKILL.md: is not UTF-8 text"),
        (b"x" * (LARGEST_FILE + 1), "SKILL.md: is larger than 256 KB"),
    ],
)
def test_what_is_wrong_is_named(text: str | bytes, expected: str) -> None:
    assert any(expected in problem for problem in problems(text)), problems(text)


def test_every_problem_is_named_at_once() -> None:
    text = skill("name: Bad Name\nlicense: [x]\nmetadata: 3", "")
    assert [problem.split(": ")[1] for problem in problems(text)] == [
        "description",
        "license",
        "metadata",
        "name",
        "has no workflow below its front matter",
    ]


@table(
    "front",
    [
        "name: !!python/object/apply:os.system ['true']\ndescription: d",
        "name: tidy-notes\ndescription: !custom d",
        "name: tidy-notes\ndescription: &a d\nlicense: *a",
        "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]",
        "name: tidy-notes\ndescription: d\nmetadata: " + "[" * 500,
        "name: tidy-notes\ndescription: d\nmetadata: " + "{a: " * 9 + "b" + "}" * 9,
        "name: tidy-notes\ndescription: d\n...\nname: x",
        "? [a, b]\n: c",
        "description: d\x07",
        f"name: tidy-notes\ndescription: {'d' * LARGEST_FRONT_MATTER}",
    ],
)
def test_front_matter_that_wants_more_than_to_say_something(front: str) -> None:
    assert problems(skill(front))


@table("written", ["\\e[2J", "\\ud800", "\\u202e", "\\x7f", "\\0"])
@table("front", ['description: "{}"', 'description: d\nallowed-tools: ["{}"]', 'description: d\n"{}": x'])
def test_what_terminals_obey_and_stores_refuse_is_in_no_front_matter(front: str, written: str) -> None:
    with pytest.raises(SkillError, match="has a control character in line"):
        parse(skill(f"name: x\n{front.format(written)}"), "x")


@table("name", ["../../x", "/etc", "..", ".", "-a", "a-", "a--b", "A", "a_b", "a b", "", "a" * 65])
def test_names_that_no_skill_may_have(name: str) -> None:
    assert not valid_name(name)
    assert problems(skill(f"name: '{name}'\ndescription: d"), name)


@table(
    "name",
    [
        "pd\u0444",
        "e\u0301",
        "\u0301a",
        "\uff41bc",
        "报告_x",
        "报告\u200b",
        "\u0661",
        "Отчёт",
        "\U0001b170" * 51,
        "pdf\u115f",
        "pdf\ufe0f",
    ],
)
def test_names_that_look_like_others_or_can_be_written_otherwise_are_none(name: str) -> None:
    """A Cyrillic letter among Latin ones, a mark of its own, wide letters, unseen characters, other digits."""
    assert not valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "3d-model",
        "x" * 64,
        "tidy-notes-2",
        "é",
        "报告生成",
        "报告-pdf",
        "レポート生成",
        "보고서",
        "отчёт",
        "รายงาน",
    ],
)
def test_names_that_it_may_have(name: str) -> None:
    assert parse(skill(f"name: {name}\ndescription: d"), name).name == name


def assert_named(refused: SkillError) -> None:
    assert refused.problems
    assert all("\n" not in str(problem) for problem in refused.problems)


@given(st.binary(max_size=400), st.booleans())
def test_whatever_the_file_holds_there_is_a_document_or_a_reason(raw: bytes, fenced: bool) -> None:
    try:
        parse_bytes(b"---\n" + raw + b"\n---\nbody\n" if fenced else raw, "a")
    except SkillError as refused:
        assert_named(refused)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@,? \n\t", max_size=120))
def test_whatever_yaml_it_is(front: str) -> None:
    try:
        parse(skill(front), "a")
    except SkillError as refused:
        assert_named(refused)
