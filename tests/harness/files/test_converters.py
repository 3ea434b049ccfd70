"""Tables of a PDF, workbooks and mails as Markdown; with the real converter they are read in
tests/flow/test_sandbox_documents.py."""

from __future__ import annotations

import subprocess
from email import message_from_string, policy
from typing import TYPE_CHECKING

import pytest

from harness.files.converters import is_inside, mail_text, main, markdown
from harness.files.documents import CONVERTERS
from sandbox.policy import DEFAULT_FOLDER, complete
from tests.parts import missing

if TYPE_CHECKING:
    from pathlib import Path

WORKBOOK = """
import datetime, openpyxl
book = openpyxl.Workbook()
for row in (["Name", "Number", "Amount"], ["Cap", 4006381333931, 12345678.91], [], ["Belt|s", None, 0.1 + 0.2]):
    book.active.append(row)
book.active["B5"] = datetime.date(2026, 3, 1)
book.active["J9"] = ""
book.save("a.xlsx")
"""
MAIL = """\
Received: from mail.example.org by mx.example.org; Mon, 16 Nov 2026 10:00:00 +0100
From: =?utf-8?q?J=C3=BCrgen_M=C3=BCller?= <j@example.org>
To: ann@example.org
Date: Mon, 16 Nov 2026 10:00:00 +0100
Subject: =?utf-8?b?UHLDvGZ1bmcgZGVzIEdlcsOkdHM=?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Die Pr=FCfung ist am Montag.
--b
Content-Type: application/pdf
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="=?utf-8?q?Gr=C3=B6=C3=9Fe.pdf?="

JVBERi0xLjQKJeLjz9MK
--b--
"""


def test_the_cells_of_a_workbook_are_what_stands_in_them(tmp_path: Path) -> None:
    runtime = complete(DEFAULT_FOLDER)
    if runtime is None:
        missing("the runtime is not built: make sandbox-runtime")
    for args in (["-c", WORKBOOK], [str(CONVERTERS), "a.xlsx", "a.txt", "20"]):
        subprocess.run([runtime / "bin" / "python3", *args], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "a.txt").read_text() == (
        "## Sheet\n| Name | Number | Amount |\n|---|---|---|\n| Cap | 4006381333931 | 12345678.91 |\n"
        "| Belt\\|s |  | 0.3 |\n|  | 2026-03-01 |  |"
    )


def test_a_mail_is_its_subject_people_date_text_and_the_names_of_its_attachments(tmp_path: Path) -> None:
    (tmp_path / "a.EML").write_text(MAIL)
    assert main(str(tmp_path / "a.EML"), str(tmp_path / "a.txt"), 1) == 0
    assert (tmp_path / "a.txt").read_text() == (
        "# Prüfung des Geräts\n\n"
        "From: Jürgen Müller <j@example.org>\nTo: ann@example.org\nDate: Mon, 16 Nov 2026 10:00:00 +0100\n\n"
        "Die Prüfung ist am Montag.\n\nAttachments: Größe.pdf"
    )


@pytest.mark.parametrize("charset", ["no-such", "ascii"])
def test_a_mail_in_another_encoding_than_it_says_is_read(charset: str) -> None:
    mail = message_from_string(f"Content-Type: text/plain; charset={charset}\n\n", policy=policy.default)
    mail.set_payload("Grüße aus Köln".encode())
    assert "Grüße aus Köln" in mail_text(mail)


def test_a_mail_of_nothing_has_no_text() -> None:
    assert mail_text(message_from_string("", policy=policy.default)) == ""


def test_cells_stay_in_their_rows_and_columns() -> None:
    assert markdown([["Year", "Ships |\n big"], ["1911", None], ["1912"]]) == (
        "| Year | Ships \\| big |\n|---|---|\n| 1911 |  |\n| 1912 |  |"
    )


@pytest.mark.parametrize(("x", "inside"), [(5.0, True), (9.5, True), (10.5, False), (-3.0, False)])
def test_what_lies_mostly_in_a_box_is_inside(x: float, inside: bool) -> None:
    thing = {"x0": x - 1, "x1": x + 1, "top": 4.0, "bottom": 6.0}
    assert is_inside(thing, (0.0, 0.0, 10.0, 10.0)) is inside
    assert not is_inside(thing, (0.0, 0.0, 10.0, 4.0))
