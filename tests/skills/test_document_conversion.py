"""Conversions: what is kept, what is named as lost, what is refused; the results are opened again."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.skills.running import LIBRARY
from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXT = """# Report on *antlers*

Intro with **bold**, `code`, [a link](https://example.org) and a
second line. It costs $5.

## Numbers

1. first
2. second
   - inner

Another list:

1. one again

> A quote.

```python
def f(x):
    return x
```

| Name | Cases | Note |
|---|---:|---|
| Day | 12040 | fine |
| Night | 007 | =1+1 |

![A page](page.png)
"""
WORD = """
import docx
document = docx.Document("report.docx")
for each in document.paragraphs:
    number = each._p.pPr.numPr if each._p.pPr is not None else None
    print(each.style.name, each.text.replace("\\n", " "), number.numId.val if number is not None else "", sep="|")
print([[cell.text for cell in row.cells] for row in document.tables[0].rows], len(document.inline_shapes))
print([each.target_ref for each in document.part.rels.values() if each.is_external])
"""
LOSSY = """
import docx, openpyxl, zipfile
document = docx.Document()
document.add_heading("Contract", 1)
document.add_paragraph("Text.")
document.sections[0].header.paragraphs[0].text = "Secret"
document.save("plain.docx")
space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
comments = f'<w:comments xmlns:w="{space}"><w:comment w:id="1"/></w:comments>'
with zipfile.ZipFile("plain.docx") as old, zipfile.ZipFile("lossy.docx", "w") as new:
    for name in old.namelist(): new.writestr(name, old.read(name))
    new.writestr("word/comments.xml", comments)
book = openpyxl.Workbook()
book.active.append(["id", "sum"]); book.active.append(["007", "=1+1"])
book.active.merge_cells("A3:B3")
book.create_sheet("Second").append(["x"])
book.save("book.xlsx")
"""
ONE_PROCESS = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import convert
done = []
for arguments in json.loads(sys.argv[2]):
    sys.argv, said = ["convert.py", *arguments], io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = convert.main()
    done.append((code, said.getvalue()))
print(json.dumps(done))
"""
MARKDOWN = """
import sys
sys.path.insert(0, sys.argv[1])
import blocks
text = "![a](one.png)\\n![b](two words.png)\\n<!-- not this -->\\n"
text += "\\n3. three\\n   - *inner*\\n\\n| A |\\n|---|\\n| x<br>y |\\n"
for each in blocks.parse(text):
    cells = [[blocks.plain(cell) for cell in row] for row in each.rows]
    print(each.kind, each.target or blocks.plain(each.pieces) or cells, each.number, each.level, sep="|")
"""
PDF = """
import pypdf
for name in ("all", "part", "turned"):
    reader = pypdf.PdfReader(name + ".pdf")
    print(name, len(reader.pages), [page.rotation for page in reader.pages], len(reader.outline))
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    Image.new("RGB", (400, 200), "#88aacc").save(tmp_path / "page.png")
    made = Bench("document-conversion", tmp_path)
    made.write("report.md", TEXT)
    return made


def test_markdown_as_people_write_it(bench: Bench) -> None:
    read = bench.look(MARKDOWN, str(LIBRARY / "document-conversion" / "scripts")).splitlines()
    assert read == [
        "picture|one.png|0|0",
        "picture|two words.png|0|0",
        "item|three|3|0",
        "item|inner|0|1",
        "table|[['A'], ['x\\ny']]|0|0",
    ]


def convert(bench: Bench, *arguments: object) -> str:
    """One command, as its user runs it."""
    return bench.good("convert", *arguments)


def convert_all(bench: Bench, *commands: str) -> list[str]:
    """Several commands in one process, since loading the packages takes most of the time; all have to succeed."""
    done = outcomes(bench, commands)
    assert [code for code, _ in done] == [0] * len(commands), done
    return [said for _, said in done]


def outcomes(bench: Bench, commands: Sequence[str]) -> list[tuple[int, str]]:
    """How each ended, and what it printed."""
    scripts = str(LIBRARY / "document-conversion" / "scripts")
    given = json.dumps([command.split() for command in commands])
    done: list[tuple[int, str]] = [tuple(each) for each in json.loads(bench.look(ONE_PROCESS, scripts, given))]
    return done


def test_markdown_becomes_word_with_real_styles(bench: Bench) -> None:
    kept = "kept: 2 headings, 2 paragraphs, 4 list items, 1 tables, 1 pictures, 1 code blocks, 1 quotes"
    assert kept in convert(bench, "to", "report.md", "report.docx")
    *paragraphs, tables, links = bench.look(WORD).splitlines()
    styles = [line.split("|") for line in paragraphs]
    assert ["Heading 2", "Numbers", ""] in styles
    assert [style for style, text, _ in styles if text == "inner"] == ["List Bullet 2"]
    first, again = (number for _, text, number in styles if text in ("first", "one again"))
    assert first != again  # each list begins at 1
    assert tables == "[['Name', 'Cases', 'Note'], ['Day', '12040', 'fine'], ['Night', '007', '=1+1']] 1"
    assert links == "['https://example.org']"


def test_a_pdf_has_text_and_is_taken_apart_again(bench: Bench) -> None:
    _, compared, *_ = convert_all(
        bench,
        "to report.md report.pdf",
        "compare report.md report.pdf",
        "to report.pdf again.md",
        "pdf-pages report.pdf -o pages --dpi 40",
    )
    assert "1 different words are missing: python" in compared, "the language of the code block, which is no text"
    again = (bench.folder / "again.md").read_text()
    assert "# Report on antlers\n" in again
    assert "1. first\n2. second\n" in again
    with Image.open(bench.folder / "pages" / "report-1.png") as page:
        assert page.size == (331, 468)
        assert (0x88, 0xAA, 0xCC) in {colour for _, colour in page.convert("RGB").getcolors(1 << 20) or []}


def test_pages_are_merged_split_and_turned(bench: Bench) -> None:
    done = outcomes(
        bench,
        (
            "images-to-pdf page.png page.png -o two.pdf",
            "pdf-merge two.pdf two.pdf -o all.pdf",
            "pdf-split all.pdf -o part.pdf --pages 2-3",
            "pdf-rotate all.pdf -o turned.pdf --pages 4 --by 90",
            "info two.pdf",
            "to two.pdf two.txt",
            "pdf-split two.pdf -o x.pdf --pages 2-9",
        ),
    )
    assert [code for code, _ in done] == [0, 0, 0, 0, 0, 1, 1]
    assert bench.look(PDF).splitlines() == [
        "all 4 [0, 0, 0, 0] 2",
        "part 2 [0, 0] 0",
        "turned 4 [0, 0, 0, 90] 2",
    ]
    told, scanned, range_ = (said for _, said in done[4:])
    assert "2 pages have no text (1-2): scans or drawings" in told
    assert "there is no OCR here" in scanned
    assert "there are 1 to 2" in range_


def test_what_a_document_loses_is_named(bench: Bench) -> None:
    bench.look(LOSSY)
    word, book = convert_all(bench, "to lossy.docx lossy.md", "to book.xlsx book.csv")
    assert "NOT taken over: 1 comments, 1 headers and footers with text" in word
    assert "1 merged areas" in book
    assert "1 formulas have no stored value and are empty here" in book
    assert (bench.folder / "book-Sheet.csv").read_text("utf-8-sig").splitlines() == ["id,sum", "007,"]
    assert (bench.folder / "book-Second.csv").exists()


def test_tables_keep_codes_text_and_numbers(bench: Bench) -> None:
    (bench.folder / "list.csv").write_bytes("id;name;n;when\n007;=cmd();3,5;2026-03-12\n12;Zoë;4;\n".encode("utf-16"))
    first, *_ = convert_all(
        bench,
        "to list.csv list.xlsx --delimiter ;",
        "to list.csv list.xlsx --decimal-comma",
        "to list.xlsx list.json",
        "to report.md tables.csv",
    )
    assert "1 cells such as 3,5 stay text" in first
    assert json.loads((bench.folder / "list.json").read_text()) == [
        {"id": "007", "name": "=cmd()", "n": 3.5, "when": "2026-03-12"},
        {"id": 12, "name": "Zoë", "n": 4, "when": None},
    ]
    assert "Night,007,=1+1" in (bench.folder / "tables.csv").read_text("utf-8-sig")


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r"])
def test_a_table_in_an_older_encoding_keeps_its_letters(bench: Bench, encoding: str) -> None:
    (bench.folder / "cities.csv").write_bytes(
        "город,товар,цена\nМосква,договор поставки,5\nТула,письмо,7\n".encode(encoding)
    )
    convert(bench, "to", "cities.csv", "cities.json")
    assert json.loads((bench.folder / "cities.json").read_text())[1] == {
        "город": "Тула",
        "товар": "письмо",
        "цена": "7",
    }


def test_html_is_one_file_with_its_pictures(bench: Bench) -> None:
    convert(bench, "to", "report.md", "report.html", "--language", "de")
    page = (bench.folder / "report.html").read_text()
    assert '<html lang="de">' in page
    assert "<ol>\n<li>first\n</li>\n<li>second\n<ul>\n<li>inner\n</li></ul>\n</li></ol>" in page
    assert '<img alt="A page" src="data:image/png;base64,' in page
    bench.write("evil.html", "<h1>Hi</h1><script>x()</script><p>There</p>")
    assert "NOT taken over: 1 scripts" in convert(bench, "to", "evil.html", "evil.txt")
    assert (bench.folder / "evil.txt").read_text() == "Hi\n\nThere\n"


IMPOSSIBLE = [
    ("old.doc", b"x", "old.docx", "save it as .docx in Word"),
    ("locked.docx", b"\xd0\xcf\x11\xe0rest", "locked.pdf", "has a password"),
    ("report.md", None, "report.pptx", "it becomes .md, .docx, .html, .pdf, .txt, .xlsx, .csv, .json"),
    ("report.md", None, "report.md", "give the output a name of its own"),
    ("chinese.md", "# 标题\n\n正文\n".encode(), "chinese.pdf", "there is no font for them here"),
    ("broken.pdf", b"%PDF-1.7 broken", "broken.txt", "is no PDF that can be read"),
    ("none.md", None, "none.pdf", "does not exist"),
    ("photo.heic", b"x", "photo.png", "save or send it as JPEG"),
]
"""Source, its content (None: as it is), the wish, and what is said."""


def test_what_cannot_be_done_is_said_with_what_to_do(bench: Bench) -> None:
    for name, content, _, _ in IMPOSSIBLE:
        if content is not None:
            (bench.folder / name).write_bytes(content)
    done = outcomes(bench, [f"to {name} {target}" for name, _, target, _ in IMPOSSIBLE])
    for (name, _, target, reason), (code, said) in zip(IMPOSSIBLE, done, strict=True):
        assert (code, reason in said) == (1, True), (name, said)
        assert target == name or not (bench.folder / target).exists()


def test_pictures_change_their_format_and_size(bench: Bench) -> None:
    Image.new("RGBA", (800, 400), (255, 0, 0, 0)).save(bench.folder / "clear.png")
    said = convert(bench, "to", "clear.png", "clear.jpg", "--longest", "200")
    assert "see-through areas" in said
    with Image.open(bench.folder / "clear.jpg") as picture:
        assert picture.size == (200, 100)
        assert picture.getpixel((5, 5)) == (255, 255, 255)


def test_a_book_is_read_in_the_order_of_its_chapters(bench: Bench) -> None:
    opf = """<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="one.xhtml"/><item id="b"
    href="two.xhtml"/></manifest><spine><itemref idref="b"/><itemref idref="a"/></spine></package>"""
    container = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile
    full-path="OPS/book.opf"/></rootfiles></container>"""
    with zipfile.ZipFile(bench.folder / "book.epub", "w") as book:
        book.writestr("META-INF/container.xml", container)
        book.writestr("OPS/book.opf", opf)
        book.writestr("OPS/one.xhtml", "<html><body><h1>Last</h1></body></html>")
        book.writestr("OPS/two.xhtml", "<html><body><h1>First</h1></body></html>")
    convert(bench, "to", "book.epub", "book.md")
    assert (bench.folder / "book.md").read_text().split() == ["#", "First", "#", "Last"]
