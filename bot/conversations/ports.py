"""What the composition root gives to every conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.agents.profiles import AgentChoices
from bot.files.owners import ThreadOwners
from bot.settings.busy_policies import Tally
from bot.skills.service import SkillService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from bot.access.admission import Background
    from bot.delivery import Delivery
    from bot.delivery.respond import Responder
    from bot.files.uploads import Uploads
    from bot.runs.manager import RunManager
    from bot.settings.sections import LimitSettings
    from bot.store.retrying import PatientStore
    from bot.tasks import Tasks
    from channels.base import Channel, Clock
    from harness.context import InputFile


@dataclass(frozen=True, slots=True)
class ConversationPorts:
    """limits: as they are now. with_text: given a thread's id, a file that came and the person who sent it, the file
    with its text, where it has one. timezone: of conversations that have chosen none.
    """

    store: PatientStore
    runs: RunManager
    responder: Responder
    delivery: Delivery
    uploads: Uploads
    with_text: Callable[[str, InputFile, str], Awaitable[InputFile]]
    background: Background
    clock: Clock
    tasks: Tasks
    data_dir: Path
    limits: Callable[[], LimitSettings]
    channel: Callable[[str], Channel | None]
    tally: Tally = field(default_factory=Tally)
    agents: AgentChoices = field(default_factory=AgentChoices)
    owners: ThreadOwners = field(default_factory=ThreadOwners)
    skills: SkillService = field(default_factory=SkillService)
    timezone: str = "UTC"
