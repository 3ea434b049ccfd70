"""What the composition root gives to every conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.conversations.queue import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bot.admission import Background
    from bot.delivery import Delivery
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs.manager import RunManager
    from bot.tasks import Tasks
    from bot.uploads import Uploads
    from channels.base import Channel, Clock


@dataclass(frozen=True, slots=True)
class ConversationPorts:
    """queue_limit: messages that may wait in one of them; queue_total: in all together."""

    store: PatientStore
    runs: RunManager
    responder: Responder
    delivery: Delivery
    uploads: Uploads
    background: Background
    clock: Clock
    tasks: Tasks
    data_dir: Path
    default_model: str
    queue_limit: int
    queue_total: int
    channel: Callable[[str], Channel | None]
    tally: Tally = field(default_factory=Tally)
