"""The parts from which the routers of the HTTP service are built, gathered once for each listener.

A router is a function `(parts: HttpParts) -> APIRouter` in a file of this room, and a line in `routers`. The caller is
a dependency: `caller: SignedIn`; so are scopes: `dependencies=[requires("operate")]` (auth.py). Conversations are
reached through `parts.web` (people in browsers) and `parts.api` (programs), which give a caller only their own
(talk.py). Errors: raise HttpProblem (errors.py). Streams: `Gatekeeper.stream`. docs/http.md describes what people see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fastapi import APIRouter

    from bot.access.editor import AccessEditor
    from bot.access.signin import SignIns
    from bot.agents.profiles import AgentChoices
    from bot.conversations.branching import Branching
    from bot.delivery import Delivery
    from bot.delivery.presented import Presented
    from bot.files.uploads import Uploads
    from bot.forgetting.service import Forgetting
    from bot.http.auth import Gatekeeper
    from bot.http.talk import Talk
    from bot.inbound.bus import MessageBus
    from bot.inbound.manager import ChannelManager
    from bot.knowledge.keeper import Knowledge
    from bot.memory.service import MemoryParts
    from bot.operations.health import HealthService
    from bot.operations.reload import Reloader
    from bot.operations.status import StatusPage
    from bot.operations.why import WhyPage
    from bot.redaction import Redactor
    from bot.runs.manager import RunManager
    from bot.schedule.service import ScheduleService
    from bot.settings import Settings
    from bot.skills.installing import Installs
    from bot.skills.service import SkillService
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from bot.usage.report import Spending
    from channels.base import Clock
    from harness.models.health import ModelHealth
    from harness.ports import Harness


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParts:
    """The gateway's parts for routers. settings: those in force when called. harness: the current agent, once it is
    built. is_ready: see health_router. platforms: of the accounts, by name."""

    settings: Callable[[], Settings]
    store: RetryingStore
    clock: Clock
    tasks: Tasks
    gatekeeper: Gatekeeper
    signins: SignIns
    web: Talk
    api: Talk
    is_ready: Callable[[], bool]
    platforms: Mapping[str, str]
    harness: Callable[[], Awaitable[Harness]]
    status: StatusPage
    health: HealthService
    why: WhyPage
    bus: MessageBus
    manager: ChannelManager
    runs: RunManager
    delivery: Delivery
    editor: AccessEditor
    agents: AgentChoices
    skills: SkillService
    installs: Installs
    spending: Spending
    memory: MemoryParts
    knowledge: Knowledge
    schedules: ScheduleService
    uploads: Uploads
    presented: Presented
    models: ModelHealth
    forgetting: Forgetting
    branching: Branching
    reloader: Reloader | None
    redact: Redactor


def routers(parts: HttpParts) -> list[APIRouter]:
    """All routers, in the order in which paths are matched."""
    from bot.http.api.langgraph import langgraph_router
    from bot.http.api.openai import openai_router
    from bot.http.api.responses import responses_router
    from bot.http.api.runs import Runs
    from bot.http.api.threads import Threads
    from bot.http.chats import chats_router
    from bot.http.health import health_router
    from bot.http.hooks import hooks_router
    from bot.http.metrics import Figures, metrics_router
    from bot.http.page.chat import chat_router
    from bot.http.page.view import Pages, frame_router, last_router
    from bot.http.panel.operating import now_router, people_router, system_router
    from bot.http.panel.reading import (
        agents_router,
        files_router,
        own_router,
        skills_router,
        threads_router,
        usage_router,
    )
    from bot.http.panel.sources import knowledge_router, research_router
    from bot.http.resources.routes import resource_routers
    from bot.http.server import docs_router
    from bot.http.signing import signing_router

    async def figures() -> Figures:
        return Figures(parts, await parts.status.stored())

    pages, threads = Pages(), Threads(parts)
    runs = Runs(parts, threads)
    parts.gatekeeper.upkeep["api threads"] = threads.tidy
    return [
        health_router(parts.is_ready),
        metrics_router(figures, parts.gatekeeper.settings),
        signing_router(parts, pages),
        chats_router(parts),
        *resource_routers(parts),
        hooks_router(parts),
        frame_router(pages),
        chat_router(parts, pages),
        *(
            page(parts, pages)
            for page in (
                *(now_router, people_router, system_router),
                *(threads_router, files_router, usage_router, agents_router, own_router, skills_router),
                *(research_router, knowledge_router),
            )
        ),
        langgraph_router(parts, threads, runs),
        openai_router(parts, threads, runs),
        responses_router(parts, threads, runs),
        docs_router(),
        last_router(pages),
    ]
