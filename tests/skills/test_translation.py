"""Translations: the text leaves the file and comes back, everything else stays; what is wrong with it is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

WORD = """
import docx
from docx.shared import Pt
document = docx.Document()
document.add_heading("The offer", 1)
text = document.add_paragraph("It is ")
text.add_run("very").bold = True
text.add_run(" good")
text.add_run(".")
document.add_table(1, 2).rows[0].cells[0].text = "Price"
document.tables[0].rows[0].cells[1].text = "420"
document.sections[0].header.paragraphs[0].text = "Price"
document.save("offer.docx")
"""
READ_WORD = """
import docx
document = docx.Document("offer.de.docx")
for each in document.paragraphs: print([(run.text, run.bold) for run in each.runs], each.style.name)
print([cell.text for cell in document.tables[0].rows[0].cells], document.sections[0].header.paragraphs[0].text)
"""
SLIDES = """
import pptx
deck = pptx.Presentation()
slide = deck.slides.add_slide(deck.slide_layouts[1])
slide.shapes.title.text = "A title"
slide.placeholders[1].text_frame.text = "One\\vtwo"
slide.notes_slide.notes_text_frame.text = "Say it"
deck.save("deck.pptx")
"""
READ_SLIDES = """
import pptx
slide = pptx.Presentation("deck.de.pptx").slides[0]
print([repr(shape.text_frame.text) for shape in slide.placeholders], slide.notes_slide.notes_text_frame.text)
"""
SUBTITLES = (
    "WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.000\nGood morning.\n\nNOTE kept\n\n00:00:03.000 --> 00:00:04.000\nYes.\n"
)
MARKDOWN = "---\ntitle: x\n---\n# {}\n\n{}\n\n- [ ] {}\n\n```\ncode stays\n```\n\n{}\n|---|---|\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench("translation", tmp_path)


def segments(bench: Bench) -> dict[str, str]:
    """Sources by their numbers."""
    whole = json.loads((bench.folder / "tr" / "source.json").read_text())
    return {str(each["id"]): each["source"] for each in whole["segments"]}


def translated(bench: Bench, file: str, **targets: str) -> dict[str, str]:
    """Take a file apart and write the translations, s1="...". Gives the sources."""
    bench.good("segments", "extract", file, "-o", "tr")
    bench.write("tr/target-1.json", json.dumps({key[1:]: text for key, text in targets.items()}))
    return segments(bench)


def test_a_word_file_keeps_its_looks(bench: Bench) -> None:
    bench.look(WORD)
    found = translated(bench, "offer.docx", s1="Das Angebot", s2="Es ist <2>sehr</2> gut.", s3="Preis")
    assert found == {"1": "The offer", "2": "It is <2>very</2> good.", "3": "Price"}
    assert "3 segments in 4 places" in bench.good("segments", "build", "tr", "-o", "offer.de.docx")
    heading, text, table = bench.look(READ_WORD).splitlines()
    assert heading == "[('Das Angebot', None)] Heading 1"
    assert text == "[('Es ist ', None), ('sehr', True), (' gut.', None)] Normal"
    assert table == "['Preis', '420'] Preis"


def test_a_deck_is_translated_with_its_notes(bench: Bench) -> None:
    bench.look(SLIDES)
    found = translated(bench, "deck.pptx", s1="Ein Titel", s2="Eins\nzwei", s3="Sag es")
    assert found == {"1": "A title", "2": "One\ntwo", "3": "Say it"}
    bench.good("segments", "build", "tr", "-o", "deck.de.pptx")
    assert bench.look(READ_SLIDES) == "[\"'Ein Titel'\", \"'Eins\\\\x0bzwei'\"] Sag es"


def test_text_files_keep_what_is_no_text(bench: Bench) -> None:
    bench.write("a.vtt", SUBTITLES)
    assert translated(bench, "a.vtt", s1="Guten Morgen.", s2="Ja.") == {"1": "Good morning.", "2": "Yes."}
    bench.good("segments", "build", "tr", "-o", "b.vtt")
    assert (bench.folder / "b.vtt").read_text() == SUBTITLES.replace("Good morning", "Guten Morgen").replace(
        "Yes", "Ja"
    )
    bench.write("a.md", MARKDOWN.format("Heading", "A line that\ngoes on.", "item", "| A | B |"))
    done = {"s1": "Titel", "s2": "Eine Zeile.", "s3": "Punkt", "s4": "| C | D |"}
    assert list(translated(bench, "a.md", **done).values()) == ["Heading", "A line that goes on.", "item", "| A | B |"]
    bench.good("segments", "build", "tr", "-o", "b.md")
    assert (bench.folder / "b.md").read_text() == MARKDOWN.format("Titel", "Eine Zeile.", "Punkt", "| C | D |")
    bench.write("a.json", '{"a": {"b": "Save {n} files", "c": 3}, "d": ["Save {n} files", "%"]}')
    assert translated(bench, "a.json", s1="{n} Dateien sichern") == {"1": "Save {n} files"}
    bench.good("segments", "build", "tr", "-o", "b.json")
    saved = {"a": {"b": "{n} Dateien sichern", "c": 3}, "d": ["{n} Dateien sichern", "%"]}
    assert json.loads((bench.folder / "b.json").read_text()) == saved


WRONG = [
    ("Open {file} at https://a.org now.", "Öffne {datei} auf https://a.org jetzt.", "error", "lacks {file}"),
    ("The launch of Antler.", "Der Launch von Geweih.", "error", 'lacks "Antler", which is not translated'),
    ("The launch date is near.", "Der Launch ist nah.", "warning", '"launch" is "Markteinführung" in the glossary'),
    ("The launches are near the sea.", "Der Launch am Meer.", "", ""),
    ("It costs 1,234.50 today.", "Es kostet heute 1.234,50.", "", ""),
    (
        "It costs 1,234.50 today, sir.",
        "Es kostet heute 1.243,50, mein Herr.",
        "warning",
        "lacks 123450; has 124350 more",
    ),
    ("Is it good?", "Es ist gut.", "warning", 'ends otherwise than with "?"'),
    ("Is it?", "是吗？", "", ""),
    ("These words stay so.", "These words stay so.", "warning", "is the same as the source"),
    (
        "This is a sentence that says a lot of things, really.",
        "Satz, kurz, er.",
        "warning",
        "times as long as the source",
    ),
    ("Empty", " ", "error", "is empty"),
]
"""Source, translation, level and finding; "" where nothing is wrong."""


def test_what_is_wrong_with_a_translation_is_named(bench: Bench) -> None:
    bench.write("a.txt", "".join(f"{source}\n" for source, *_ in WRONG))
    translated(bench, "a.txt", **{f"s{number}": target for number, (_, target, *_) in enumerate(WRONG, 1)})
    terms = [{"source": "launch", "target": "Markteinführung", "forbidden": ["Launch"]}]
    bench.write("glossary.json", json.dumps({"keep": ["Antler"], "terms": terms}))
    lines = bench.bad("segments", "check", "tr", "--glossary", "glossary.json").splitlines()
    for number, (_, _, level, finding) in enumerate(WRONG, 1):
        said = [line for line in lines if f"segment {number}: " in line]
        assert any(line.startswith(level) and finding in line for line in said) if finding else not said, (number, said)


def test_nothing_is_built_from_half_a_translation(bench: Bench) -> None:
    bench.look(WORD)
    translated(bench, "offer.docx", s1="Das Angebot", s2="Es ist sehr gut.", s9="x")
    said = bench.bad("segments", "build", "tr", "-o", "offer.de.docx")
    assert "1 segments have no translation: 3" in said
    assert "segment 2: has the tags none, the source has <2> </2>" in said
    assert '"9" is no segment' in said
    assert not (bench.folder / "offer.de.docx").exists()
    bench.write("offer.pdf", "x")
    assert "convert it first" in bench.bad("segments", "extract", "offer.pdf", "-o", "x")
