"""What travels between a terminal and the gateway: inputs one way, frames the other; all of it JSON-able."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003  pydantic reads the annotation
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a person entered. number: from 1, gapless within one terminal session; at: aware, UTC."""

    number: int
    text: str
    at: datetime
    type: Literal["line"] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Nothing more will be entered; what is still to be answered is awaited."""

    type: Literal["end"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The whole state of one message, new or changed. All texts are safe to print.

    text: Markdown. status: one plain line below it.
    file: the path of a copy for the person, None for a text. final: it will not grow any more.
    """

    message_id: str
    text: str = ""
    status: str = ""
    file: str | None = None
    final: bool = False
    type: Literal["shown"] = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A message is no more."""

    message_id: str
    type: Literal["removed"] = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typing:
    """An answer is being made."""

    type: Literal["typing"] = "typing"


Input = Line | End
Frame = Shown | Removed | Typing
INPUT: TypeAdapter[Line | End] = TypeAdapter(Annotated[Line | End, Field(discriminator="type")])
FRAME: TypeAdapter[Shown | Removed | Typing] = TypeAdapter(
    Annotated[Shown | Removed | Typing, Field(discriminator="type")]
)
