"""What is told of a document that was not converted: no folder of this machine."""

from __future__ import annotations

import pytest

from bot.conversion import without_folders


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/srv/antler/.sandbox-venv/bin/python3: No module named markitdown", "python3: No module named markitdown"),
        ("No such file: '/var/lib/antler/threads/x/a.docx'", "No such file: 'a.docx'"),
        (
            "/mnt/user-data/uploads/a.docx: File is not a zip file",
            "/mnt/user-data/uploads/a.docx: File is not a zip file",
        ),
        ("neither input/output nor 3 / 4", "neither input/output nor 3 / 4"),
    ],
)
def test_only_paths_of_the_sandbox_are_told_whole(said: str, told: str) -> None:
    assert without_folders(said) == told
