"""Decks: built from an outline, checked, drawn; wrong outlines are refused with every reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

CHART: dict[str, Any] = {
    "type": "column",
    "categories": ["Jul", "Aug"],
    "series": [{"name": "Solved", "values": [21, 34]}],
    "unit": "%",
}
HIGHLIGHTED = {**CHART, "highlight": "Aug"}
SLIDES: list[dict[str, Any]] = [
    {"layout": "title", "title": "Self-service cuts support costs", "subtitle": "Board, 12 October"},
    {"layout": "section", "title": "Where we stand"},
    {
        "layout": "bullets",
        "title": "Every third question needs no agent",
        "points": ["34 %", {"text": "a", "sub": ["b"]}],
    },
    {
        "layout": "two_columns",
        "title": "Extend the pilot or buy the suite",
        "left": {"heading": "Extend", "points": ["6 weeks"]},
        "right": {"heading": "Buy", "points": ["5 months"]},
    },
    {
        "layout": "table",
        "title": "Nights cost twice as much",
        "columns": ["Shift", "Cost"],
        "rows": [["Day", 4], ["Night", 9]],
    },
    {
        "layout": "chart",
        "title": "Solved cases rise",
        "chart": HIGHLIGHTED,
        "points": ["Launch: 3 July"],
        "source": "Tickets",
    },
    {
        "layout": "picture",
        "title": "The new page asks first",
        "picture": "page.png",
        "alt": "The help page",
        "caption": "July",
    },
    {"layout": "numbers", "title": "Two numbers to keep", "numbers": [{"value": "34 %", "label": "solved"}]},
    {"layout": "quote", "quote": "I had my answer at once.", "by": "A customer"},
    {"layout": "closing", "title": "Decide today: extend to nights", "points": ["Budget 40 000"]},
]
READ = """
import pptx
deck = pptx.Presentation("deck.pptx")
for slide in deck.slides:
    kinds = [shape.shape_type.name for shape in slide.shapes if not shape.is_placeholder]
    print(slide.shapes.title.text_frame.text, kinds, slide.notes_slide.notes_text_frame.text, sep="|")
chart = next(shape.chart for shape in deck.slides[5].shapes if shape.has_chart)
print(list(chart.plots[0].categories), list(chart.plots[0].series[0].values))
print([shape._element.xpath(".//p:cNvPr")[0].get("descr") for shape in deck.slides[6].shapes if shape.shape_type == 13])
"""
POOR = """
import pptx
from pptx.enum.text import MSO_AUTO_SIZE
from pptx.util import Inches, Pt
from pptx.dml.color import RGBColor
deck = pptx.Presentation()
slide = deck.slides.add_slide(deck.slide_layouts[1])
slide.shapes.title.text = "A title"
box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(0.5))
box.text_frame.word_wrap = True
box.text_frame.auto_size = MSO_AUTO_SIZE.NONE
run = box.text_frame.paragraphs[0].add_run()
run.text = "far too much text for such a small box " * 4
run.font.size, run.font.color.rgb = Pt(18), RGBColor(0xDD, 0xDD, 0xDD)
slide.shapes.add_picture("page.png", Inches(9), Inches(1))
deck.save("poor.pptx")
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    Image.new("RGB", (1000, 600), "#88aacc").save(tmp_path / "page.png")
    return Bench("ppt-generation", tmp_path)


def outline(slides: list[dict[str, Any]], **deck: Any) -> str:
    noted = [{"notes": f"Notes of {number}.", **slide} for number, slide in enumerate(slides, 1)]
    return json.dumps({"title": "Review", "language": "en-GB", **deck, "slides": noted})


def test_every_layout_is_built_and_passes_the_check(bench: Bench) -> None:
    bench.write("outline.json", outline(SLIDES, theme={"name": "forest", "accent2": "#7A3B10"}, footer="Internal"))
    assert "10 slides" in bench.good("build", "outline.json", "-o", "deck.pptx")
    *slides, chart, alternative = bench.look(READ).splitlines()
    assert [line.split("|")[0] for line in slides[:2]] == ["Self-service cuts support costs", "Where we stand"]
    assert [line.split("|")[2] for line in slides] == [f"Notes of {number}." for number in range(1, 11)]
    assert "TABLE" in slides[4]
    assert "“I had my answer at once.”" in slides[8]
    assert (chart, alternative) == ("['Jul', 'Aug'] [21.0, 34.0]", "['The help page']")
    assert "10 slides, 0 errors, 0 warnings." in bench.good("check", "deck.pptx")


def test_one_bar_is_set_apart(bench: Bench) -> None:
    bench.write("outline.json", outline([{"layout": "chart", "title": "August is best", "chart": HIGHLIGHTED}]))
    bench.good("build", "outline.json", "-o", "deck.pptx")
    bench.good("preview", "deck.pptx", "-o", "preview.png", "--slide", "1")
    with Image.open(bench.folder / "preview.png") as slide:
        colours = {colour for _, colour in slide.getcolors(1 << 24) or []}
    assert {(0x1F, 0x6F, 0xB2), (0xAC, 0xB2, 0xB8)} <= colours
    wrong = {**CHART, "highlight": "May"}
    bench.write("outline.json", outline([{"layout": "chart", "title": "x", "chart": wrong}]))
    assert '"highlight" is one of the categories' in bench.bad("build", "outline.json", "-o", "deck.pptx")


def test_slides_are_drawn_to_be_looked_at(bench: Bench) -> None:
    bench.write("outline.json", outline(SLIDES[:1] + SLIDES[4:6]))
    bench.good("build", "outline.json", "-o", "deck.pptx")
    bench.good("preview", "deck.pptx", "-o", "preview.png", "--columns", "3")
    with Image.open(bench.folder / "preview.png") as sheet:
        assert sheet.size[0] > 1500
        third = sheet.width // 3
        dark, _, chart = (sheet.crop((n * third, 40, (n + 1) * third, sheet.height - 20)) for n in range(3))
        assert sum(dark.resize((1, 1)).convert("L").tobytes()) < 100, "the title's ground"
        assert (0x1F, 0x6F, 0xB2) in {colour for _, colour in chart.getcolors(1 << 24) or []}, (
            "a bar in the theme's blue"
        )
    assert "no slide 9" in bench.bad("preview", "deck.pptx", "-o", "x.png", "--slide", "9")


def test_a_wrong_outline_is_refused_with_every_reason_and_nothing_is_written(bench: Bench) -> None:
    wrong: list[dict[str, Any]] = [
        {"layout": "bullets", "title": "Too many", "points": ["a", "b", "c", "d", "e", "f", "g"]},
        {"layout": "bullets", "title": "Too long", "points": ["word " * 30]},
        {"layout": "poem"},
        {"layout": "picture", "title": "No file", "picture": "none.png", "alt": "x"},
        {"layout": "table", "title": "Uneven", "columns": ["a", "b"], "rows": [["1"]]},
        {
            "layout": "chart",
            "title": "Pie",
            "chart": {**CHART, "type": "pie", "series": [{"name": "s", "values": [1, -1]}]},
        },
        {"layout": "quote", "quote": "Nobody said this"},
        {"layout": "bullets", "title": "x", "points": ["a"], "colour": "red"},
    ]
    bench.write("outline.json", outline(wrong, theme={"name": "slate", "text": "#CCCCCC"}))
    said = bench.bad("build", "outline.json", "-o", "deck.pptx")
    assert not (bench.folder / "deck.pptx").exists()
    for reason in (
        "slide 1: points: 7 are too many",
        "has 30 words",
        'slide 3: needs a "layout"',
        "none.png does not exist",
        "row 1 has 1 cells, the table 2 columns",
        "cannot show negative values",
        'slide 7: quote needs "by"',
        'bullets has no "colour"',
        "theme: the contrast of text is 1.6:1",
    ):
        assert reason in said


def test_text_that_does_not_fit_is_named_and_written_only_when_asked(bench: Bench) -> None:
    long = "a rather long title that goes on and on about everything that was ever said " * 3
    bench.write("outline.json", outline([{"layout": "bullets", "title": long, "points": ["a"]}]))
    assert "slide 1: the text that begins with" in bench.bad("build", "outline.json", "-o", "deck.pptx")
    bench.good("build", "outline.json", "-o", "deck.pptx", "--anyway")
    assert 'the text of "Title 1" is about' in bench.bad("check", "deck.pptx")


def test_the_check_finds_what_is_wrong_in_a_foreign_deck(bench: Bench) -> None:
    bench.look(POOR)
    found = json.loads(bench.bad("check", "poor.pptx", "--json"))
    texts = " ".join(each["text"] for each in found["findings"])
    for part in (
        "higher than its box",
        "a contrast of 1.4:1",
        "no alternative text",
        "over the edge",
        "is empty",
        "no speaker",
    ):
        assert part in texts
    bench.write("no.pptx", "not a deck")
    assert "cannot be opened as a .pptx" in bench.bad("check", "no.pptx")
