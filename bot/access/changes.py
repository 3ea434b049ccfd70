"""What a decision about access is made of; for desk.py and those who carry its decisions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bot.texts.markdown import inline
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.store.access import AccessRow
    from bot.texts.catalogue import Texts
    from channels.message import Address

NAME_LENGTH = 60

RefusalKind = Literal[
    "no_id", "no_account", "operator", "no_person", "in_already", "in_config_already", "in_config", "out_already",
    "yourself",
]  # fmt: skip


class AccessRefused(Exception):
    """kind: a key of Texts.access_problem. subject: what it is about. detail: the config's key, or what is wrong."""

    def __init__(self, kind: RefusalKind, subject: str, detail: str = "") -> None:
        super().__init__(f"{subject}: {kind} {detail}".rstrip())
        self.kind = kind
        self.subject = subject
        self.detail = detail


def problem(refused: AccessRefused, texts: Texts) -> str:
    """What a person is told about a refused change."""
    subject = f"`{inline(refused.subject)}`"
    return texts.access_problem[refused.kind].format(subject=subject, detail=refused.detail)


@dataclass(frozen=True, slots=True)
class Post:
    """A message that belongs to a change."""

    key: str
    address: Address
    text: str

    @property
    def message(self) -> OutboundMessage:
        return OutboundMessage(text=self.text, final=True)


@dataclass(frozen=True, slots=True)
class Change:
    """write: run in a unit, as often as it takes. committed: to be called after it. row: as it is from then on."""

    row: AccessRow
    write: Callable[[Connection], None]
    committed: Callable[[], None]


def code_reply(row: AccessRow) -> str:
    """The reply that shows a waiting person's code."""
    return f"pair:{row.code_hash}"


def clean_name(name: str) -> str:
    """A stranger's name for others to read: one line, short, nothing invisible, no way out of backquotes."""
    visible = "".join(c if c.isprintable() else " " for c in name.replace("`", "'"))
    return " ".join(visible.split())[:NAME_LENGTH]


def together(first: Change, others: Sequence[Change]) -> Change:
    def write(tx: Connection) -> None:
        for change in (*others, first):
            change.write(tx)

    def committed() -> None:
        for change in (*others, first):
            change.committed()

    return Change(first.row, write, committed)
