"""ConversationPorts: the services that every conversation of a gateway uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.settings.busy_policies import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from bot.access.admission import Background
    from bot.agents.profiles import AgentChoices
    from bot.delivery import Delivery
    from bot.delivery.respond import Responder
    from bot.files.sandboxes import ThreadOwners
    from bot.files.uploads import Uploads
    from bot.knowledge.keeper import Knowledge
    from bot.runs.manager import RunManager
    from bot.runs.speaking import SpokenAnswers
    from bot.settings.sections import LimitSettings
    from bot.skills.service import SkillService
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from channels.base import Channel, Clock
    from harness.context import InputFile
    from harness.research.config import Style


@dataclass(frozen=True, slots=True)
class ConversationPorts:
    """The shared services. limits: the current ones. with_text: given a thread's id, a received file and the person who
    sent it, the file with its text, if it has any. timezone: the default of conversations. research: why research is
    unavailable, a key of Texts.research; "" if it is available. report_style: the default of researches.
    """

    store: RetryingStore
    runs: RunManager
    responder: Responder
    delivery: Delivery
    uploads: Uploads
    with_text: Callable[[str, InputFile, str], Awaitable[InputFile]]
    background: Background
    tasks: Tasks
    data_dir: Path
    limits: Callable[[], LimitSettings]
    channel: Callable[[str], Channel | None]
    agents: AgentChoices
    owners: ThreadOwners
    skills: SkillService
    knowledge: Knowledge
    timezone: Callable[[], str]
    research: Callable[[], str]
    report_style: Callable[[], Style]
    speaking: SpokenAnswers
    tally: Tally = field(default_factory=Tally)

    @property
    def clock(self) -> Clock:
        return self.store.clock
