"""The messages between a terminal and the gateway: inputs one way, frames the other; all serializable to JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003  pydantic reads the annotation
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that a person entered. number: from 1, without gaps within one terminal session; at: timezone-aware UTC.
    locale: of the terminal's environment, "" if unset there. in_turn: it is answered before the next line is taken, and
    repeated before its answer.
    """

    number: int
    text: str
    at: datetime
    locale: str = ""
    in_turn: bool = False
    type: Literal["line"] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of the input; outstanding answers are awaited."""

    type: Literal["end"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The whole state of one message, new or changed. All texts are safe to print.

    text: Markdown. status: one plain line below it.
    file: the path of a copy for the person, None for a text. final: it will not grow any further.
    """

    message_id: str
    text: str = ""
    status: str = ""
    file: str | None = None
    final: bool = False
    type: Literal["shown"] = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A message was removed."""

    message_id: str
    type: Literal["removed"] = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A line was accepted, and the frames that follow answer it. Sent only for lines that are answered in turn."""

    number: int
    text: str
    type: Literal["entered"] = "entered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """The commands as (name, description) pairs in one language; locale "": for all others."""

    locale: str
    commands: tuple[tuple[str, str], ...]
    type: Literal["menu"] = "menu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typing:
    """An answer is being prepared."""

    type: Literal["typing"] = "typing"


Input = Line | End
Frame = Shown | Removed | Typing | Entered | Menu
INPUT: TypeAdapter[Line | End] = TypeAdapter(Annotated[Line | End, Field(discriminator="type")])
FRAME: TypeAdapter[Shown | Removed | Typing | Entered | Menu] = TypeAdapter(
    Annotated[Shown | Removed | Typing | Entered | Menu, Field(discriminator="type")]
)
