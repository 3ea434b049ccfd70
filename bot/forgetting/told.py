"""What is told of a deletion: numbers, and never a word of what was deleted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store.forgetting import DeletionKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.texts.catalogue import Texts

KINDS = ("threads", "messages", "reminders", "facts")


def summary(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts in the order in which they are told; 0 where nothing was deleted."""
    return {kind: counts.get(kind, 0) for kind in KINDS}


def report(kind: DeletionKind, how: str, counts: Mapping[str, int], texts: Texts) -> str:
    """how: under_way, again or done."""
    say = texts.forgetting
    if how != "done":
        return say[how]
    if kind is DeletionKind.THREAD:
        return say["thread_done"]
    lines = [say[f"count_{name}"].format(count=count) for name, count in summary(counts).items() if count]
    return "\n".join([say["done"] if lines else say["nothing"], *lines, "", say["stays"]])
