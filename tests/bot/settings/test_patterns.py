"""The patterns of the settings are compiled by pydantic for every gateway: they must stay small."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bot.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTED_CLASS = re.compile(r"(\\[wWdDsS]|\[[^\]]*\\[wWdDsS][^\]]*\])\{\d+")
"""Its automaton has all of Unicode as often as it is counted: 12 MB for a name of 128 characters."""


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(found := schema.get("pattern"), str):
            yield found
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from patterns(part)


def test_lengths_are_limited_beside_the_pattern() -> None:
    found = list(patterns(Settings.model_json_schema()))
    assert found
    assert [pattern for pattern in found if COUNTED_CLASS.search(pattern)] == []
