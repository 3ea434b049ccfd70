"""The record of a request to the Bot API side."""

from dataclasses import dataclass, field
from typing import Any

from tests.simulators.journal import Call


@dataclass(kw_only=True)
class Record(Call):
    """See Call. description: of a refusal. message_id: of the message that the call made or changed."""

    bot_id: int | None
    query: dict[str, str]
    files: list[dict[str, Any]] = field(default_factory=list)
    chat_id: int | None = None
    description: str = ""
    message_id: int | None = None
