"""Word documents as Markdown, and what of them Markdown cannot say. For pathways.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import mammoth
from from_web import html_as_markdown
from packages import package

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report

_BODY = "word/document.xml"
_LOSSES: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "comments": ("word/comments.xml", (b"<w:comment ",)),
    "inserted or deleted passages of change tracking": (_BODY, (b"<w:ins ", b"<w:del ")),
    "formulas": (_BODY, (b"<m:oMath>",)),
    "text boxes": (_BODY, (b"<w:txbxContent>",)),
    "embedded objects": (_BODY, (b"<o:OLEObject",)),
    "charts": (_BODY, (b'/drawingml/2006/chart"',)),
}
"""Where in the package each stands, and how it begins."""


def read(path: Path, report: Report, pictures: Path) -> str:
    """pictures: a folder for those of the document; made when there are any."""
    with package(path) as parts:
        names = set(parts.namelist())
        for name, (part, marks) in _LOSSES.items():
            content = parts.read(part) if part in names else b""
            report.lost[name] = sum(content.count(mark) for mark in marks)
        edges = (parts.read(each) for each in names if re.fullmatch(r"word/(?:header|footer)\d*\.xml", each))
        report.lost["headers and footers with text"] = sum(b"<w:t" in each for each in edges)

    def keep(image: Any) -> dict[str, str]:
        pictures.mkdir(parents=True, exist_ok=True)
        kind = image.content_type.partition("/")[2].replace("jpeg", "jpg").split("+")[0]
        target = pictures / f"picture-{len(list(pictures.iterdir())) + 1}.{kind}"
        with image.open() as source:
            target.write_bytes(source.read())
        return {"src": f"{pictures.name}/{target.name}"}

    with path.open("rb") as file:
        done = mammoth.convert_to_html(file, convert_image=mammoth.images.img_element(keep))
    odd = sorted({each.message for each in done.messages if each.type == "warning"})
    report.notes += [each for each in odd if "style" not in each.lower()][:5]
    return html_as_markdown(done.value)
