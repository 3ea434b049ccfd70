"""Skills that make documents, from the request to the file in the chat, by the commands of their own SKILL.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.skills.archive import unpack
from tests.simulators.telegram.seen import FileSpec
from tests.skills.conversation import follow, present, run, tool, write
from tests.skills.running import require_runtime
from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

require_runtime()
pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = "python3 /mnt/skills/public"
WORKSPACE = "/mnt/user-data/workspace"
OUTPUTS = "/mnt/user-data/outputs"
TRANSCRIPT = """WEBVTT

00:00:01.000 --> 00:00:04.000
<v Ann Berg>Then we agreed: the launch is on 3 April.</v>

00:00:05.000 --> 00:00:08.000
<v Cy Ortiz>I'll write to the customers by Friday.</v>
"""
SLIDES: list[dict[str, Any]] = [
    {"layout": "title", "title": "Nights need one more agent", "notes": "We ask for a decision today."},
    {
        "layout": "chart",
        "title": "At night questions wait six times as long",
        "chart": {"type": "bar", "categories": ["Day", "Night"], "series": [{"name": "Waiting", "values": [5, 31]}]},
        "source": "Ticket system, September",
        "notes": "Median minutes.",
    },
    {"layout": "closing", "title": "Decide: one agent from 1 November", "points": ["40 000 a year"], "notes": "Ask."},
]
NOTES = {
    "title": "Launch sync",
    "date": "2026-03-11",
    "summary": ["The launch is on 3 April."],
    "decisions": [{"text": "Launch on 3 April", "evidence": [{"line": "L1", "quote": "the launch is on 3 April"}]}],
    "actions": [
        {
            "text": "Tell the customers the new date",
            "owner": "Cy Ortiz",
            "due": "2026-03-12",
            "due_said": "by Friday",
            "evidence": [{"line": "L2", "quote": "write to the customers"}],
        }
    ],
}
PAPER = "# Offer\n\n| Item | Price |\n|---|---|\n| Desk | 420 |\n| Chair | 180 |\n\nUntil May. <!-- draft -->\n"
SKILL = """\
---
name: supplier-mail
description: Mails to suppliers in our tone. Use it when someone asks for a mail or a reminder to a supplier.
license: MIT
version: 1.0.0
---

# Mails to suppliers

1. Ask for the order number if it is missing.
2. At most eight lines; the wish in the first one; a date for the answer.
3. Check: order number, date, no threat.
"""


async def test_a_deck_is_built_checked_looked_at_and_sent(gateway: World, person: Person, tmp_path: Path) -> None:
    scripts = f"{PUBLIC}/ppt-generation/scripts"
    crowded = [{**SLIDES[0], "title": "A title that says far too much " * 6}, *SLIDES[1:]]
    played = await follow(
        gateway,
        person,
        "ppt-generation",
        says="Three slides: nights need one more agent (wait 31 min, by day 5).",
        does=[
            tool("read_file", path="/mnt/skills/public/ppt-generation/references/outline.md"),
            write(f"{WORKSPACE}/outline.json", {"title": "Nights", "slides": crowded}),
            run(f"{scripts}/build.py outline.json -o {OUTPUTS}/nights.pptx"),
            write(f"{WORKSPACE}/outline.json", {"title": "Nights", "slides": SLIDES}),
            run(f"{scripts}/build.py outline.json -o {OUTPUTS}/nights.pptx"),
            run(f"{scripts}/check.py {OUTPUTS}/nights.pptx"),
            run(f"{scripts}/preview.py {OUTPUTS}/nights.pptx -o preview.png"),
            present("nights.pptx"),
        ],
        answers="Three slides that ask for one more agent at night.",
    )
    assert "slide 1: the text that begins with" in played.results[3]
    assert "[exit code 1]" in played.results[3]
    assert played.results[6] == "3 slides, 0 errors, 0 warnings."
    assert "preview.png: slides 1 to 3" in played.results[7]
    bench = Bench("ppt-generation", tmp_path)
    (tmp_path / "got.pptx").write_bytes(played.files["nights.pptx"])
    read = "import pptx; print([s.shapes.title.text_frame.text for s in pptx.Presentation('got.pptx').slides])"
    assert bench.look(read) == str([slide["title"] for slide in SLIDES])


async def test_a_transcript_comes_back_as_minutes_and_dates(gateway: World, person: Person) -> None:
    scripts = f"{PUBLIC}/meeting-notes/scripts"
    wrong = json.dumps(NOTES)
    right = {"old": '"due": "2026-03-12"', "new": '"due": "2026-03-13"'}
    check = run(f"{scripts}/check.py notes.json --transcript transcript.json")
    played = await follow(
        gateway,
        person,
        "meeting-notes",
        says="Minutes of this please, it was on 11 March 2026.",
        files=[FileSpec(name="sync.vtt", mime="text/vtt", content=TRANSCRIPT.encode())],
        does=[
            run(f"{scripts}/parse.py /mnt/user-data/uploads/*-sync.vtt -o transcript.json"),
            tool("read_file", path=f"{WORKSPACE}/transcript.md"),
            write(f"{WORKSPACE}/notes.json", wrong),
            check,
            tool("str_replace", path=f"{WORKSPACE}/notes.json", **right),
            check,
            run(f"{scripts}/render.py notes.json --transcript transcript.json -o {OUTPUTS}/minutes-2026-03-11"),
            present("minutes-2026-03-11.docx", "minutes-2026-03-11.ics"),
        ],
        answers="The launch is on 3 April. Cy Ortiz: tell the customers, until Friday 13 March.",
    )
    assert "L2 [00:00:05] Cy Ortiz: I'll write to the customers by Friday." in played.results[2]
    assert '"by Friday" was said: 2026-03-12 is a Thursday' in played.results[4]
    assert played.results[6] == "0 errors, 0 warnings."
    assert set(played.files) == {"minutes-2026-03-11.docx", "minutes-2026-03-11.ics"}
    event = played.files["minutes-2026-03-11.ics"].decode()
    assert "DTSTART;VALUE=DATE:20260313\r\n" in event
    assert "SUMMARY:Cy Ortiz: Tell the customers the new date\r\n" in event


async def test_a_file_comes_back_in_another_format_after_a_comparison(gateway: World, person: Person) -> None:
    convert = f"{PUBLIC}/document-conversion/scripts/convert.py"
    source = "/mnt/user-data/uploads/*-offer.md"
    played = await follow(
        gateway,
        person,
        "document-conversion",
        says="This as Word please, and the table as CSV.",
        files=[FileSpec(name="offer.md", mime="text/markdown", content=PAPER.encode())],
        does=[
            run(f"{convert} info {source}"),
            run(f"{convert} to {source} {OUTPUTS}/offer.docx"),
            run(f"{convert} to {source} {OUTPUTS}/offer.csv"),
            run(f"{convert} compare {source} {OUTPUTS}/offer.docx"),
            present("offer.docx", "offer.csv"),
        ],
        answers="Both are here; a comment in the file was left out.",
    )
    assert "becomes: .md, .docx, .html, .pdf" in played.results[1]
    assert "kept: 1 headings, 1 paragraphs, 1 tables" in played.results[2]
    assert "1 different words are missing: draft" in played.results[4]
    assert played.files["offer.csv"].decode("utf-8-sig").splitlines() == ["Item,Price", "Desk,420", "Chair,180"]
    assert played.files["offer.docx"].startswith(b"PK")


async def test_a_way_of_working_becomes_a_package_that_can_be_installed(
    gateway: World, person: Person, tmp_path: Path
) -> None:
    scripts = f"{PUBLIC}/skill-creator/scripts"
    skill = f"{WORKSPACE}/supplier-mail"
    played = await follow(
        gateway,
        person,
        "skill-creator",
        says="Always write mails to suppliers like this: short, order number, date. Make a skill of it.",
        does=[
            tool("read_file", path="/mnt/skills/public/skill-creator/references/writing.md"),
            run(f"{scripts}/scaffold.py supplier-mail -o {WORKSPACE} --description 'Mails to suppliers'"),
            run(f"{scripts}/validate.py {skill}"),
            tool("read_file", path=f"{skill}/SKILL.md"),
            write(f"{skill}/SKILL.md", SKILL),
            run(f"{scripts}/validate.py {skill}"),
            run(f"{scripts}/pack.py {skill} -o {OUTPUTS}"),
            present("supplier-mail.skill"),
        ],
        answers="It is ready, and works once it is installed: antler skills install supplier-mail.skill",
    )
    assert "still says [fill in]" in played.results[3]
    assert played.results[6] == "supplier-mail: 0 errors, 0 pieces of advice."
    (tmp_path / "got.skill").write_bytes(played.files["supplier-mail.skill"])
    assert unpack(tmp_path / "got.skill").document.description.startswith("Mails to suppliers in our tone.")


async def test_subtitles_come_back_in_another_language(gateway: World, person: Person) -> None:
    segments = f"{PUBLIC}/translation/scripts/segments.py"
    check = run(f"{segments} check tr --glossary glossary.json")
    played = await follow(
        gateway,
        person,
        "translation",
        says="These subtitles in German please.",
        files=[FileSpec(name="sync.vtt", mime="text/vtt", content=TRANSCRIPT.encode())],
        does=[
            run(f"{segments} extract /mnt/user-data/uploads/*-sync.vtt -o tr"),
            tool("read_file", path=f"{WORKSPACE}/tr/source-1.md"),
            write(
                f"{WORKSPACE}/glossary.json", {"keep": ["Ann Berg"], "terms": [{"source": "launch", "target": "Start"}]}
            ),
            write(f"{WORKSPACE}/tr/target-1.json", {"1": "<v Ann Berg>Dann ist der Launch am 3. April.</v>"}),
            check,
            write(
                f"{WORKSPACE}/tr/target-2.json",
                {"2": "<v Cy Ortiz>Ich schreibe den Kunden bis Freitag.</v>"},
            ),
            tool("str_replace", path=f"{WORKSPACE}/tr/target-1.json", old="Launch", new="Start"),
            check,
            run(f"{segments} build tr -o {OUTPUTS}/sync.de.vtt"),
            present("sync.de.vtt"),
        ],
        answers="Here they are, in German.",
    )
    assert "[1] <v Ann Berg>Then we agreed: the launch is on 3 April.</v>" in played.results[2]
    assert "1 segments have no translation: 2" in played.results[5]
    assert '"launch" is "Start" in the glossary' in played.results[5]
    assert played.results[8] == "0 errors, 0 warnings."
    lines = played.files["sync.de.vtt"].decode().splitlines()
    assert lines[3] == "<v Ann Berg>Dann ist der Start am 3. April.</v>"
    assert lines[2] == "00:00:01.000 --> 00:00:04.000"
