"""Minutes: transcripts of many kinds are numbered, notes are held against them, files are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

VTT = """WEBVTT

1
00:00:01.000 --> 00:00:04.000
<v Ann Berg>First the launch date.</v>

2
00:00:05.000 --> 00:00:09.500
<v Bo Li>The tests are red, so I would move it

3
00:00:09.500 --> 00:00:12.000
<v Bo Li>to the third of April.</v>

4
00:00:13.000 --> 00:00:16.000
<v Ann Berg>Then we agreed: the launch is on 3 April.</v>

5
00:00:17.000 --> 00:00:20.000
<v Cy Ortiz>I'll write to the customers by Friday.</v>

6
00:00:21.000 --> 00:00:24.000
<v Bo Li>I will ask finance who pays.</v>
"""
FIRST = (
    "1\n00:00:03,000 --> 00:00:05,000\nAnn: Good morning\n\n2\n00:00:04,000 --> 00:00:06,000\nAnn: Good morning all.\n"
)
KINDS = [
    pytest.param(
        "a.vtt", VTT, "L2 [00:00:05] Bo Li: The tests are red, so I would move it to the third of April.", id="vtt"
    ),
    pytest.param("a.srt", FIRST, "L1 [00:00:03] Ann: Good morning all.", id="srt-growing-captions"),
    pytest.param(
        "a.txt", "[00:01:05] 王芳：我们决定三月上线。\n", "L1 [00:01:05] 王芳: 我们决定三月上线。", id="chinese"
    ),
    pytest.param(
        "a.txt", "Ann Berg   0:03\nHello.\n\nBo Li   0:12\nBye.\n", "L2 [00:00:12] Bo Li: Bye.", id="headings"
    ),
    pytest.param("a.txt", "Ann: Hello.\nBo (10:02): Bye.\n", "L2 [00:10:02] Bo: Bye.", id="names"),
    pytest.param("a.md", "# Sync\n- Bo: tests\n- servers?\n- a plan: none\n", "L2 Bo: tests", id="raw-notes"),
]
NOTES: dict[str, Any] = {
    "title": "Launch sync",
    "date": "2026-03-11",
    "participants": ["Ann Berg", "Bo Li", "Cy Ortiz"],
    "summary": ["The launch moves to 3 April."],
    "decisions": [
        {
            "text": "Launch on 3 April",
            "by": "Ann Berg",
            "evidence": [{"line": "L3", "quote": "the launch is on 3 April"}],
        }
    ],
    "actions": [
        {
            "text": "Tell the customers; kindly, by mail, and with the reasons for which the date of the launch moves",
            "owner": "Cy Ortiz",
            "due": "2026-03-13",
            "due_said": "by Friday",
            "evidence": [{"line": "L4", "quote": "I'll write to the customers"}],
        },
        {"text": "Find a host", "owner": None, "due": None, "evidence": [{"line": "L5", "quote": "ask finance"}]},
    ],
    "questions": [{"text": "Who pays?", "evidence": [{"line": "L5", "quote": "who pays"}]}],
    "topics": [{"heading": "Launch", "points": ["Tests are red."]}],
}
ACTION = NOTES["actions"][0]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"evidence": []}, 'needs "evidence"'),
    ({"evidence": [{"line": "L44", "quote": "x"}]}, 'cites the line "L44", which the transcript does not have'),
    ({"evidence": [{"line": "L4", "quote": "call the customers"}]}, "the quote is not in L4"),
    ({"owner": "Zoe"}, '"Zoe" took no part'),
    ({"due": "13.3.2026"}, "has to be a day such as"),
    ({"due": "2026-03-10", "due_said": ""}, "before the meeting"),
    ({"due": "2026-03-12"}, "2026-03-12 is a Thursday"),
    ({"due_said": "tomorrow"}, "that is 2026-03-12"),
    ({"due_said": "下周五"}, "next week is 2026-03-16 to 2026-03-22"),
    ({"due_said": "in two weeks"}, "that is 2026-03-25"),
    ({"who": "x"}, '"who" is not known'),
]
"""What of a good action is replaced, and what is said of it."""
OPEN = """
import docx
document = docx.Document("out/minutes.docx")
for paragraph in document.paragraphs: print(paragraph.style.name, paragraph.text, sep="|")
for row in document.tables[0].rows: print("|".join(cell.text for cell in row.cells))
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench("meeting-notes", tmp_path)


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    bench.write("meeting.vtt", VTT)
    bench.good("parse", "meeting.vtt", "-o", "transcript.json")
    return bench


@pytest.mark.parametrize(("name", "text", "line"), KINDS)
def test_transcripts_of_many_kinds_are_numbered(bench: Bench, name: str, text: str, line: str) -> None:
    bench.write(name, text)
    bench.good("parse", name, "-o", "transcript.json")
    assert line in (bench.folder / "transcript.md").read_text().splitlines()


def test_a_word_document_is_a_transcript_too_and_others_are_refused(bench: Bench) -> None:
    bench.look(
        "import docx; d = docx.Document(); d.add_paragraph('Ann: Yes.'); d.add_paragraph('Bo: No.'); d.save('a.docx')"
    )
    assert "- Bo: 1 lines, 1 words" in bench.good("parse", "a.docx", "-o", "transcript.json")
    bench.write("b.docx", "no zip")
    bench.write("b.vtt", "no times")
    for name, reason in (
        ("b.docx", "save it as one in Word"),
        ("b.vtt", "no line such as"),
        ("b.mp3", ".mp3 is not read here"),
    ):
        assert reason in bench.bad("parse", name, "-o", "x.json")


def test_notes_are_held_against_what_was_said(recorded: Bench) -> None:
    actions = [{**ACTION, "text": f"{number}", **wrong} for number, (wrong, _) in enumerate(WRONG)]
    recorded.write("notes.json", json.dumps({**NOTES, "actions": actions}))
    lines = recorded.bad("check", "notes.json", "--transcript", "transcript.json").splitlines()
    for number, (_, reason) in enumerate(WRONG, 1):
        assert any(line.startswith(f"error: actions {number}: ") and reason in line for line in lines), (number, reason)


def test_what_was_promised_and_nobody_noted_is_named(recorded: Bench) -> None:
    recorded.write("notes.json", json.dumps({**NOTES, "actions": [{**ACTION, "owner": "Ann Berg"}], "questions": []}))
    out = recorded.good("check", "notes.json", "--transcript", "transcript.json")
    assert 'L5 sounds like a promise or a decision, and no item cites it: "I will ask finance who pays."' in out
    assert "Ann Berg says nothing in or just after L4" in out


def test_minutes_are_written_as_markdown_word_and_calendar(recorded: Bench) -> None:
    recorded.write("notes.json", json.dumps(NOTES))
    out = recorded.good("render", "notes.json", "--transcript", "transcript.json", "-o", "out/minutes")
    assert "1 of 2 actions have a date" in out
    text = (recorded.folder / "out" / "minutes.md").read_text()
    assert "1. Launch on 3 April (Ann Berg) _[L3 00:00:13]_" in text
    assert "| 2 | Find a host | unassigned | no date | L5 00:00:21 |" in text
    word = recorded.look(OPEN)
    assert "Heading 1|Decisions\nList Number|Launch on 3 April (Ann Berg)  [L3 00:00:13]" in word
    assert "Cy Ortiz|2026-03-13|L4 00:00:17" in word
    raw = (recorded.folder / "out" / "minutes.ics").read_bytes()
    assert max(map(len, raw.split(b"\r\n"))) <= 75
    event = raw.decode().replace("\r\n ", "").split("\r\n")
    shown = "kindly\\, by mail\\, and with the reasons for which the date of the launch moves"
    assert f"SUMMARY:Cy Ortiz: Tell the customers\\; {shown}" in event
    assert {"DTSTART;VALUE=DATE:20260313", "DTEND;VALUE=DATE:20260314", "TRIGGER:-PT15H"} <= set(event)


def test_nothing_is_written_while_something_is_wrong(recorded: Bench) -> None:
    recorded.write("notes.json", json.dumps({**NOTES, "date": "yesterday", "language": "zh"}))
    recorded.bad("render", "notes.json", "--transcript", "transcript.json", "-o", "out/minutes")
    assert not (recorded.folder / "out").exists()
    recorded.write("notes.json", json.dumps({**NOTES, "language": "zh"}))
    recorded.good("render", "notes.json", "-o", "out/minutes")
    assert "## 待办事项" in (recorded.folder / "out" / "minutes.md").read_text()
