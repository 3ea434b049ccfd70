"""Prints as JSON what is in an Excel or Word file; run by running.py with the sandbox's Python, which can read them."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
import zipfile
from typing import Any


def workbook(path: str) -> dict[str, Any]:
    """Rows of each sheet as they are shown, with formulas, formats and charts."""
    openpyxl = importlib.import_module("openpyxl")
    shown, written = openpyxl.load_workbook(path, data_only=True), openpyxl.load_workbook(path)
    return {
        page.title: {
            "rows": [[str(cell) if hasattr(cell, "year") else cell for cell in row] for row in page.values],
            "formulas": [cell.value for row in written[page.title] for cell in row if cell.data_type == "f"],
            "formats": [cell.number_format for cell in next(page.iter_rows(min_row=2, max_row=2), ())],
            "charts": len(written[page.title]._charts),
            "frozen": page.freeze_panes,
        }
        for page in shown.worksheets
    }


def document(path: str) -> dict[str, Any]:
    """Paragraphs with their styles, tables, pictures, links inside, and the raw XML."""
    docx = importlib.import_module("docx")
    opened = docx.Document(path)
    return {
        "title": opened.core_properties.title,
        "paragraphs": [(paragraph.style.name, paragraph.text) for paragraph in opened.paragraphs],
        "tables": [[[cell.text for cell in row.cells] for row in table.rows] for table in opened.tables],
        "pictures": len(opened.inline_shapes),
        "xml": zipfile.ZipFile(path).read("word/document.xml").decode(),
        "footer": "".join(p.text for p in opened.sections[-1].footer.paragraphs),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # openpyxl tells of extensions that it does not read
    file = sys.argv[1]
    print(json.dumps(workbook(file) if file.endswith(".xlsx") else document(file)))
