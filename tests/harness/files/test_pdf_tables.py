"""Tables of a PDF as Markdown; with the real converter they are read in tests/flow/test_sandbox_documents.py."""

from __future__ import annotations

import pytest

from harness.files.pdf_tables import is_inside, markdown


def test_cells_stay_in_their_rows_and_columns() -> None:
    assert markdown([["Year", "Ships |\n big"], ["1911", None], ["1912"]]) == (
        "| Year | Ships \\| big |\n|---|---|\n| 1911 |  |\n| 1912 |  |"
    )


@pytest.mark.parametrize(("x", "inside"), [(5.0, True), (9.5, True), (10.5, False), (-3.0, False)])
def test_what_lies_mostly_in_a_box_is_inside(x: float, inside: bool) -> None:
    thing = {"x0": x - 1, "x1": x + 1, "top": 4.0, "bottom": 6.0}
    assert is_inside(thing, (0.0, 0.0, 10.0, 10.0)) is inside
    assert not is_inside(thing, (0.0, 0.0, 10.0, 4.0))
