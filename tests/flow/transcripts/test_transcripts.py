"""What the chat shows over time is exactly what the files beside this one say.

After a wanted change: `python -m tests.flow.transcripts --update`, and read the difference.
"""

from __future__ import annotations

import pytest

from tests.flow.transcripts import records
from tests.flow.transcripts.records import RECORDS, Record

AGAIN = "python -m tests.flow.transcripts --update"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.scene.name}-{record.platform}")
def test_the_chat_shows_what_is_kept(record: Record) -> None:
    changes = record.changes(record.play())
    assert not changes, f"the chat shows something else; if that is wanted: {AGAIN}\n{changes}"


def test_every_file_belongs_to_a_scene() -> None:
    assert records.strangers() == []


def test_the_page_shows_the_files() -> None:
    assert records.DOCS.read_text() == records.page(), f"{records.DOCS.name} is older than the files: {AGAIN}"
