"""What a search gives, whoever was asked; the providers beside it and the tool web_search use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from harness.web.errors import WebError

LONGEST_ANSWER = 2_000_000
"""Bytes of a provider's answer."""


@dataclass(frozen=True, slots=True)
class Found:
    """One result, as the provider gave it."""

    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    """One of the providers, ready to be asked."""

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        """At most so many results, the best first. whose: the person's for whom it is, so that nobody's many searches
        hold up those of others. Raises WebError, whose text is for the model."""
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


BUSY = (
    "The search service gets too many requests now. Do not search again in this turn: answer with what you have, and "
    "say that you could not search."
)
DOWN = "The search service cannot be reached now. Answer with what you have, and say that you could not search."


def refused_key(key: str) -> WebError:
    """The provider does not accept us: only an operator can help."""
    return WebError(
        f"The search service refuses Antler's key. An operator has to look at {key}. Do not search again: answer with "
        "what you have, and say that you could not search."
    )


def results(answer: Any, *, snippet: str) -> list[Found]:
    """The list `results` of a JSON answer; what is not as it should be in it is left out. snippet: its key.

    Raises WebError when there is no such list.
    """
    listed = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise WebError("The search service gave an answer that cannot be understood. Answer with what you have.")
    return [
        Found(_text(each.get("title")), _text(each.get("url")), _text(each.get(snippet)))
        for each in listed
        if isinstance(each, dict)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
