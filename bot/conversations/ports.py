"""What the composition root gives to every conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.conversations.queue import Tally
from bot.souls import AgentChoices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from bot.admission import Background
    from bot.delivery import Delivery
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs.manager import RunManager
    from bot.tasks import Tasks
    from bot.uploads import Uploads
    from channels.base import Channel, Clock
    from harness.context import InputFile


@dataclass(frozen=True, slots=True)
class ConversationPorts:
    """queue_limit: messages that may wait in one of them; queue_total: in all together.

    with_text: given a thread's id and a file that came, the file with its text, where it has one.
    """

    store: PatientStore
    runs: RunManager
    responder: Responder
    delivery: Delivery
    uploads: Uploads
    with_text: Callable[[str, InputFile], Awaitable[InputFile]]
    background: Background
    clock: Clock
    tasks: Tasks
    data_dir: Path
    default_model: str
    queue_limit: int
    queue_total: int
    channel: Callable[[str], Channel | None]
    tally: Tally = field(default_factory=Tally)
    agents: AgentChoices = field(default_factory=AgentChoices)
