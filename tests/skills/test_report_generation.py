"""build_report and check_report: what is in the Word file, and what an editor finds before it is built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.skills.running import LIBRARY, contents, require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

REPORT = """---
title: Revenue, first half of 2026
author: Antler, for the sales team
date: 2026-07-03
---

# Summary

Revenue was **276.8 k€**, 8 % more than planned[^vat]. The north brings 43 % (Figure 1).

> [!KEY] Overseas loses money.

# 1. Findings

## 1.1 By region

Revenue was 276.8 k€, 8 % more than planned [1]. Table 1 shows it, and [the page](https://example.org/a) more.

Table: Revenue by region
| Region | Revenue (k€) |
|---|---:|
| North | 120.4 |
| South & co. | 80.3 |

![The north brings 43 %](north.png)

## 1.2 What to do

1. Ask overseas:
   - for a plan
   - for dates
2. Decide.

```
SELECT a < b
```

# Sources

1. orders.xlsx, sheet Orders

[^vat]: Without VAT.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the report and its picture."""
    Image.new("RGB", (1600, 1200), "blue").save(tmp_path / "north.png")
    (tmp_path / "report.md").write_text(REPORT)
    return tmp_path


def check(folder: Path, text: str, *, fails: bool = False) -> str:
    (folder / "report.md").write_text(text)
    return script("report-generation/check_report", "report.md", folder=folder, fails=fails)


def test_a_word_file_has_all_of_the_report(folder: Path) -> None:
    said = script("report-generation/build_report", "report.md", "--output", "out/r.docx", folder=folder)
    assert "5 headings, 1 tables, 1 figures, 1 notes, 1 sources" in said
    word = contents(folder / "out" / "r.docx")
    assert word["title"] == "Revenue, first half of 2026"
    headings = [(style, text) for style, text in word["paragraphs"] if style.startswith("Heading")]
    assert headings[:3] == [("Heading 1", "Summary"), ("Heading 1", "1. Findings"), ("Heading 2", "1.1 By region")]
    texts = [text for _, text in word["paragraphs"]]
    assert "Revenue was 276.8 k€, 8 % more than planned1. The north brings 43 % (Figure 1)." in texts
    assert texts[(at := texts.index("–\tfor a plan")) : at + 3] == ["–\tfor a plan", "–\tfor dates", "2.\tDecide."]
    assert [text for style, text in word["paragraphs"] if style == "Caption"] == [
        "Table 1. Revenue by region",
        "Figure 1. The north brings 43 %",
    ]
    assert [["Key point. Overseas loses money."]] in word["tables"]
    assert [["Region", "Revenue (k€)"], ["North", "120.4"], ["South & co.", "80.3"]] in word["tables"]
    assert [["SELECT a < b"]] in word["tables"]
    assert word["pictures"] == 1
    assert "Page 2 of 2" in word["footer"]


def test_links_in_a_word_file_lead_somewhere(folder: Path) -> None:
    script("report-generation/build_report", "report.md", "--output", "r.docx", folder=folder)
    xml = contents(folder / "r.docx")["xml"]
    marks, links = (
        set(re.findall(r'w:bookmarkStart[^>]* w:name="([^"]+)"', xml)),
        re.findall(r'w:anchor="([^"]+)"', xml),
    )
    assert len(links) == 7, "five in the contents, a source, a note"
    assert set(links) <= marks
    numbers = re.findall(r'w:bookmarkStart w:id="(\d+)"', xml)
    assert len(numbers) == len(set(numbers))
    assert xml.count('fldCharType="begin"') == xml.count('fldCharType="end"') == 3, "contents, table, figure"
    assert 'descr="The north brings 43 %"' in xml


def test_one_page_of_html_needs_nothing_else(folder: Path) -> None:
    (folder / "report.md").write_text(
        REPORT.replace("Overseas loses", "<b onload=x>Overseas</b> [x](javascript:y) loses")
    )
    script("report-generation/build_report", "report.md", "--output", "r.html", folder=folder)
    page = (folder / "r.html").read_text()
    assert '<img alt="The north brings 43 %" src="data:image/png;base64,' in page
    assert "<code>SELECT a &lt; b</code>" in page
    assert '<a href="#source-1">[1]</a>' in page
    assert '<li id="source-1"' in page
    assert '<a href="#note-vat"><sup>1</sup></a>' in page
    assert not re.search(r'<b |href="javascript|<script|src="http|url\(', page)


def test_plain_markdown_becomes_a_pdf(folder: Path) -> None:
    script("report-generation/build_report", "report.md", "--output", "plain.md", folder=folder)
    text = (folder / "plain.md").read_text()
    assert text.startswith(
        "# Revenue, first half of 2026\n\nAntler, for the sales team · 2026-07-03\n\n---\n\n## Summary"
    )
    assert "more than planned (1). The north" in text
    assert "> **Key point.** Overseas loses money." in text
    assert "**Table 1.** Revenue by region\n\n| Region |" in text
    assert "![The north brings 43 %](north.png)\n\n**Figure 1.** The north brings 43 %" in text
    assert "1. Ask overseas:\n   - for a plan\n   - for dates\n2. Decide.\n\n```" in text
    said = script("document-conversion/convert", "to", "plain.md", "r.pdf", folder=folder)
    assert "1 tables, 1 pictures, 1 code blocks" in said
    assert "NOT taken over" not in said
    assert (folder / "r.pdf").read_bytes().startswith(b"%PDF-")


def test_a_good_report_passes(folder: Path) -> None:
    assert check(folder, REPORT).startswith("0 errors, 0 warnings")


ERRORS = [
    ("title: Revenue, first half of 2026\n", "", "no title"),
    ("for the sales team", "for «the team»", "author still says «the team»"),
    ("Overseas loses money.", "TODO", "still to be written: TODO"),
    ("(north.png)", "(gone.png)", "there is no picture gone.png"),
    ("(north.png)", "(https://example.org/a.png)", "pictures of the web are not fetched"),
    ("planned [1]", "planned [2]", "[2] is not in the list of sources"),
    ("[^vat]: Without VAT.", "", "the note [^vat] is not written"),
    ("| North | 120.4 |", "| North |", "row 2 has 1 cells, the head 2"),
    ("## 1.1", "#### 1.1", "a heading of level 4 follows one of level 1"),
    ("1. orders.xlsx, sheet Orders\n", "", "nothing stands below 'Sources'"),
]


@pytest.mark.parametrize(("part", "instead", "said"), ERRORS, ids=[said for _, _, said in ERRORS])
def test_what_is_not_finished_is_not_built(folder: Path, part: str, instead: str, said: str) -> None:
    assert said in check(folder, REPORT.replace(part, instead), fails=True)
    script("report-generation/build_report", "report.md", "--output", "r.docx", folder=folder, fails=True)
    assert not (folder / "r.docx").exists()


WARNINGS = [
    ("**276.8 k€**", "**286.8 k€**", "figures of the summary that the body lacks: 286.8"),
    ("(Figure 1)", "", "the text never speaks of Figure 1"),
    ("Table: Revenue by region\n", "", "no caption (Table: ... in the line above)"),
    (" [1]. Table", ". Table", "source 1 is cited nowhere"),
    ("Overseas loses", "Overseas currently loses", "'currently' is wrong as soon as"),
    ("Overseas loses", "Overseas " + "very " * 50 + "loses", "a sentence of 53 words"),
]


@pytest.mark.parametrize(("part", "instead", "said"), WARNINGS, ids=[said for _, _, said in WARNINGS])
def test_what_an_editor_would_mark(folder: Path, part: str, instead: str, said: str) -> None:
    assert said in check(folder, REPORT.replace(part, instead))


@pytest.mark.parametrize(
    "template", sorted((LIBRARY / "report-generation/assets/templates").iterdir()), ids=lambda t: t.stem
)
def test_a_template_is_complete_once_its_prompts_are_replaced(folder: Path, template: Path) -> None:
    text = template.read_text()
    assert "still to be written" in check(folder, text, fails=True)
    text = re.sub(r"^date:.*", "date: 2026-07-03", text, flags=re.MULTILINE)
    check(folder, re.sub(r"«[^»]*»", "Word", text))
