"""The gateway's resources as JSON, below /api. Each route states the scope it needs; what belongs to others is not
found.

Scopes: read: see one's own; threads: change one's own memory, schedules and documents; runs: stop and decide one's own
runs; operate: see and control everything; admin: access to the bot, skills, documents for everyone, the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.params import Path as PathParameter
from pydantic import BaseModel, Field

from bot.http.auth import SignedIn, requires
from bot.http.chats import FILE, SENT_FILE, Body
from bot.http.errors import HttpProblem
from bot.http.page.view import language_of
from bot.http.resources.accounting import MOST_DAYS, Accounting, Usage
from bot.http.resources.acting import LONGEST_REASON, Access, Acting
from bot.http.resources.agents import Agent, Agents, Model, models_of
from bot.http.resources.belongings import Memories, MemoryFigures, OwnMemory, Schedule, Schedules
from bot.http.resources.capabilities import Installation, Installed, SkillList, Skills
from bot.http.resources.configuration import LONGEST, Applied, Checked, ConfigFile, Configuration
from bot.http.resources.knowledge import LONGEST_QUESTION, Answers, Collections, Document, Library, Place
from bot.http.resources.live import Health, Live, Now, Server, Turn
from bot.http.resources.requests import Answer, Approval, Pairing, Requests
from bot.http.resources.research import LONGEST_CHANGE, Deed, Researches, ResearchList, ResearchRecord
from bot.http.resources.transcripts import Threads, Transcript, Transcripts
from bot.store.access import SubjectKind
from bot.store.overview import By
from harness.knowledge.config import LONGEST_NAME
from harness.memory.model import LONGEST_FACT

if TYPE_CHECKING:
    from bot.http.parts import HttpParts

Id = Annotated[str, PathParameter(min_length=1, max_length=200)]
OfAgent = Annotated[str, Query(max_length=40, description="the agent whose own memory is meant; empty: the shared one")]
Identity = Annotated[str, PathParameter(min_length=1, max_length=300)]


class Decision(Body):
    decision: Answer
    reason: str = Field(default="", max_length=LONGEST_REASON)


class RequestAnswer(Body):
    let_in: bool


class Code(Body):
    code: str = Field(min_length=1, max_length=60)


class Allowed(Body):
    subject: str = Field(min_length=3, max_length=300)
    kind: SubjectKind | None = None
    admin: bool = False


class Text(Body):
    text: str = Field(min_length=1, max_length=LONGEST_FACT)


class Switch(Body):
    on: bool


class Source(Body):
    address: str = Field(min_length=8, max_length=2000)
    replace: bool = False


class Digest(Body):
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class ResearchDeed(Body):
    """A decision on a research. run_id: of the record that was seen. text: of a change or an answer."""

    do: Deed
    run_id: str = Field(min_length=1, max_length=200)
    text: str = Field(default="", max_length=LONGEST_CHANGE)


class NewDocument(Body):
    """A page to add. collection: "" for the usual one. everybody: for all who use the bot, by administrators."""

    address: str = Field(min_length=8, max_length=2000)
    collection: str = Field(default="", max_length=LONGEST_NAME)
    everybody: bool = False


class ConfigText(Body):
    text: str = Field(max_length=LONGEST)
    base: str = Field(max_length=64)


class Turns(BaseModel):
    """A list of turns. left_out: how many more there are."""

    turns: tuple[Turn, ...]
    left_out: int


class Became(BaseModel):
    """The outcome of a request."""

    done: str


def resource_routers(parts: HttpParts) -> list[APIRouter]:
    return [
        live_router(parts),
        access_router(parts),
        threads_router(parts),
        research_router(parts),
        own_router(parts),
        knowledge_router(parts),
        skills_router(parts),
        configuration_router(parts),
    ]


def live_router(parts: HttpParts) -> APIRouter:
    """Current activity and pending decisions."""
    router = APIRouter(prefix="/api", tags=["now"])
    live, requests, acting = Live(parts), Requests(parts), Acting(parts)

    @router.get("/health", dependencies=[requires("read")])
    async def health() -> Health:
        """Whether all is well."""
        return await live.health()

    @router.get("/now", dependencies=[requires("operate")])
    async def now(caller: SignedIn) -> Now:
        """Everything of this moment."""
        return await live.now(caller)

    @router.get("/turns", dependencies=[requires("read")])
    async def turns(caller: SignedIn, everybody: bool = False) -> Turns:
        """List answers in progress or waiting: one's own, or with `everybody` all."""
        _check_everybody(caller, everybody)
        found, left_out = await live.turns(caller, everybody=everybody)
        return Turns(turns=found, left_out=left_out)

    @router.post("/turns/{run_id}/stop", dependencies=[requires("runs")])
    async def stop(caller: SignedIn, run_id: Id) -> Became:
        """Stop an answer; a waiting one is dropped."""
        return Became(done=await acting.stop(caller, run_id))

    @router.post("/turns/{run_id}/run-now", dependencies=[requires("runs")])
    async def run_now(caller: SignedIn, run_id: Id) -> Became:
        """Stop what runs in its conversation, and let this one be the next."""
        return Became(done=await acting.run_now(caller, run_id))

    @router.post("/turns/{run_id}/drop", dependencies=[requires("runs")])
    async def drop(caller: SignedIn, run_id: Id) -> Became:
        """End a waiting turn."""
        return Became(done=await acting.drop(caller, run_id))

    @router.get("/approvals", dependencies=[requires("read")])
    async def approvals(caller: SignedIn) -> tuple[Approval, ...]:
        """List tool calls that wait for a decision: one's own, for operators all."""
        return await requests.approvals(caller)

    @router.post("/approvals/{approval}", dependencies=[requires("runs")])
    async def decide(caller: SignedIn, approval: Id, body: Decision) -> Became:
        """Allow a call once, allow it for its whole chat, or deny it; `over`: it was decided before."""
        return Became(done=await acting.decide(caller, approval, body.decision, body.reason))

    @router.get("/mcp", dependencies=[requires("operate")])
    async def servers() -> tuple[Server, ...]:
        """List servers of tools."""
        return live.servers()

    return router


def access_router(parts: HttpParts) -> APIRouter:
    """Who may use the bot."""
    router = APIRouter(prefix="/api", tags=["access"])
    requests, acting = Requests(parts), Acting(parts)

    @router.get("/pairings", dependencies=[requires("operate")])
    async def pairings() -> tuple[Pairing, ...]:
        """List people and groups that ask for access."""
        return requests.pairings()

    @router.post("/pairings/{request}", dependencies=[requires("admin")])
    async def answer(caller: SignedIn, request: Id, body: RequestAnswer) -> Access:
        """Give access, or refuse it for thirty days."""
        return await acting.answer_request(caller, request, let_in=body.let_in)

    @router.post("/pairings", dependencies=[requires("admin")])
    async def pair(caller: SignedIn, body: Code) -> Access:
        """Give access to the person who received a code."""
        return await acting.pair(caller, body.code)

    @router.get("/access", dependencies=[requires("operate")])
    async def access(account: Annotated[str | None, Query(max_length=40)] = None) -> list[Access]:
        """List all people and groups with a decision, as `antler access list` shows them."""
        return acting.access(account)

    @router.post("/access", dependencies=[requires("admin")])
    async def allow(caller: SignedIn, body: Allowed) -> Access:
        """Give access to a person or a group by id."""
        return await acting.allow(caller, body.subject, kind=body.kind, admin=body.admin)

    @router.delete("/access/{subject}", dependencies=[requires("admin")])
    async def revoke(caller: SignedIn, subject: Identity, kind: SubjectKind | None = None) -> Access:
        """Block a person or a group."""
        return await acting.revoke(caller, subject, kind=kind)

    return router


def threads_router(parts: HttpParts) -> APIRouter:
    """Messages, and their cost."""
    router = APIRouter(prefix="/api", tags=["threads"])
    transcripts, accounting = Transcripts(parts), Accounting(parts)

    @router.get("/transcripts", dependencies=[requires("read")])
    async def threads(
        caller: SignedIn,
        everybody: bool = False,
        skip: Annotated[int, Query(ge=0, le=100_000)] = 0,
        q: Annotated[str, Query(max_length=100)] = "",
    ) -> Threads:
        """List one's threads, most recently used first; `everybody` only where http.admins_read_threads allows it. q:
        only those whose title, or one message, has all of these words, and of them the newest."""
        _check_everybody(caller, everybody)
        if q.strip():
            return await transcripts.search(caller, q, everybody=everybody)
        return await transcripts.list(caller, everybody=everybody, skip=skip)

    @router.get("/transcripts/{thread_id}", dependencies=[requires("read")])
    async def transcript(caller: SignedIn, thread_id: Id) -> Transcript:
        """Show a thread with its tool calls, timings and cost."""
        return await transcripts.read(caller, thread_id)

    @router.get("/usage", dependencies=[requires("read")])
    async def usage(
        caller: SignedIn,
        by: By = "model",
        days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 30,
        everybody: bool = False,
    ) -> Usage:
        """Tokens and money of each day: one's own, or with `everybody` those of all."""
        _check_everybody(caller, everybody)
        return await accounting.usage(caller, by, days, everybody=everybody)

    return router


def research_router(parts: HttpParts) -> APIRouter:
    router = APIRouter(prefix="/api/research", tags=["research"])
    researches = Researches(parts)

    @router.get("", dependencies=[requires("read")])
    async def listed(
        caller: SignedIn, everybody: bool = False, skip: Annotated[int, Query(ge=0, le=100_000)] = 0
    ) -> ResearchList:
        """The newest research of each of one's newest 50 threads after `skip`; `everybody` only where
        http.admins_read_threads allows it."""
        _check_everybody(caller, everybody)
        return await researches.list(caller, everybody=everybody, skip=skip)

    @router.get("/{thread_id}", dependencies=[requires("read")])
    async def record(caller: SignedIn, thread_id: Id) -> ResearchRecord:
        """The newest research of a thread: question, plan, steps, sources, report."""
        return await researches.read(caller, thread_id)

    @router.post("/{thread_id}", dependencies=[requires("runs")])
    async def decide(caller: SignedIn, thread_id: Id, body: ResearchDeed) -> Became:
        """Start, change or stop a waiting plan, answer its question, stop running work, continue what was interrupted:
        in the research's own chat, in the caller's name. 409 where that is not possible now."""
        return Became(done=await researches.decide(caller, thread_id, body.do, body.run_id, body.text))

    @router.get("/{thread_id}/files/{name}", dependencies=[requires("read")], **FILE)
    async def file(caller: SignedIn, thread_id: Id, name: Id) -> Response:
        """A file of the report, if it is still kept; `report.md` and `record.json` at any time."""
        return await researches.file(caller, thread_id, name)

    return router


def knowledge_router(parts: HttpParts) -> APIRouter:
    """Documents, and what is found in them."""
    router = APIRouter(prefix="/api", tags=["knowledge"])
    collections = Collections(parts)

    @router.get("/knowledge", dependencies=[requires("read")])
    async def listed(request: Request, caller: SignedIn) -> Library:
        """One's own documents, and the collections for everyone; those of groups belong to their chats."""
        return await collections.list(caller, language_of(request))

    @router.get("/knowledge/search", dependencies=[requires("read")])
    async def ask(
        caller: SignedIn,
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUESTION)],
        collection: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
    ) -> Answers:
        """Find the passages that fit best, each with an address that opens its place. No model is called."""
        return await collections.ask(caller, q, collection)

    @router.get("/knowledge/passages/{passage}", dependencies=[requires("read")])
    async def place(caller: SignedIn, passage: Id) -> Place:
        """A passage with those before and after it."""
        return await collections.place(caller, passage)

    @router.post("/knowledge", dependencies=[requires("threads")])
    async def add_page(request: Request, caller: SignedIn, body: NewDocument) -> Document:
        """Read the page at an address, by the rules of `web_fetch`; it is read again each day."""
        given, language = body.model_dump(exclude={"address"}), language_of(request)
        return await collections.add_page(caller, body.address, **given, language=language)

    @router.put("/uploads/knowledge/{file_name}", dependencies=[requires("threads")], openapi_extra=SENT_FILE)
    async def add_file(
        caller: SignedIn,
        request: Request,
        file_name: Id,
        collection: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
        everybody: bool = False,
    ) -> Document:
        """Read a file, which is the body, replacing one of the same name in that collection. everybody: for all who use
        the bot, by administrators."""
        chunks, language = request.stream(), language_of(request)
        return await collections.add_file(
            caller, file_name, chunks, collection=collection, everybody=everybody, language=language
        )

    @router.delete("/knowledge/{document}", dependencies=[requires("threads")])
    async def remove(caller: SignedIn, document: Id) -> Document:
        """Remove a document."""
        return await collections.remove(caller, document)

    return router


def own_router(parts: HttpParts) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["own"])
    schedules, memories = Schedules(parts), Memories(parts)

    @router.get("/schedules", dependencies=[requires("read")])
    async def listed(caller: SignedIn, everybody: bool = False) -> tuple[Schedule, ...]:
        """List active schedules, the next one first."""
        _check_everybody(caller, everybody)
        return await schedules.list(caller, everybody=everybody)

    @router.delete("/schedules/{schedule_id}", dependencies=[requires("threads")])
    async def cancel(caller: SignedIn, schedule_id: Id) -> Schedule:
        """End a schedule."""
        return await schedules.cancel(caller, schedule_id)

    @router.get("/memory", dependencies=[requires("read")])
    async def memory(caller: SignedIn, agent: OfAgent = "") -> OwnMemory:
        """What is remembered about the caller: what agents share, or what one agent keeps for itself."""
        return await memories.own(caller, agent=agent)

    @router.post("/memory", dependencies=[requires("threads")])
    async def add(caller: SignedIn, body: Text, agent: OfAgent = "") -> OwnMemory:
        """Remember another fact."""
        await memories.add(caller, body.text, agent)
        return await memories.own(caller, agent=agent)

    @router.put("/memory/{item}", dependencies=[requires("threads")])
    async def edit(caller: SignedIn, item: Id, body: Text, agent: OfAgent = "") -> OwnMemory:
        """Change the text of a fact."""
        await memories.edit(caller, item, body.text, agent)
        return await memories.own(caller, agent=agent)

    @router.delete("/memory/{item}", dependencies=[requires("threads")])
    async def forget(caller: SignedIn, item: Id, agent: OfAgent = "") -> OwnMemory:
        """Forget a fact or a summary."""
        await memories.forget(caller, item, agent)
        return await memories.own(caller, agent=agent)

    @router.delete("/memory", dependencies=[requires("threads")])
    async def forget_all(caller: SignedIn, agent: OfAgent = "") -> OwnMemory:
        """Forget everything in that memory."""
        await memories.forget_all(caller, agent)
        return await memories.own(caller, agent=agent)

    @router.put("/memory", dependencies=[requires("threads")])
    async def switch(caller: SignedIn, body: Switch) -> OwnMemory:
        """Turn the memory on or off, for all agents."""
        await memories.switch(caller, on=body.on)
        return await memories.own(caller)

    @router.get("/memories", dependencies=[requires("operate")])
    async def figures() -> tuple[MemoryFigures, ...]:
        """The sizes of everyone's memories, without their content."""
        return await memories.figures()

    return router


def skills_router(parts: HttpParts) -> APIRouter:
    """The agent's skills, agents and models."""
    router = APIRouter(prefix="/api", tags=["skills"])
    skills, agents_had = Skills(parts), Agents(parts)

    @router.get("/skills", dependencies=[requires("read")])
    async def listed(caller: SignedIn) -> SkillList:
        """List the skills of the caller's chats; for operators also those that wait and problems."""
        return await skills.list(caller)

    @router.post("/skills/{name}/on", dependencies=[requires("admin")])
    async def agree(caller: SignedIn, name: Id, body: Digest) -> SkillList:
        """Turn on a waiting skill with exactly this content."""
        await skills.agree(caller, name, body.digest)
        return await skills.list(caller)

    @router.put("/uploads/skills/{file_name}", dependencies=[requires("admin")], openapi_extra=SENT_FILE)
    async def install(caller: SignedIn, request: Request, file_name: Id, replace: bool = False) -> Installed:
        """Install the skill of an archive (.skill, .zip) for everybody; the body is the archive."""
        return await skills.upload(caller, file_name, request.stream(), replace=replace)

    @router.post("/skills", dependencies=[requires("admin")])
    async def fetch(caller: SignedIn, body: Source) -> Installed:
        """Install the skill in an archive at an address, fetched by the rules of `web_fetch`."""
        return await skills.fetch(caller, body.address, replace=body.replace)

    @router.get("/skills/installs", dependencies=[requires("admin")])
    async def installs() -> tuple[Installation, ...]:
        """The progress of this process's installations, newest first."""
        return skills.installations()

    @router.put("/skills/{name}", dependencies=[requires("admin")])
    async def switch(caller: SignedIn, name: Id, body: Switch) -> SkillList:
        """Turn a shared skill on or off for everyone."""
        await skills.switch(caller, name, on=body.on)
        return await skills.list(caller)

    @router.delete("/skills/{name}", dependencies=[requires("admin")])
    async def remove(caller: SignedIn, name: Id) -> SkillList:
        """Remove one of this installation's own; its versions are kept."""
        await skills.remove(caller, name)
        return await skills.list(caller)

    @router.get("/agents", dependencies=[requires("read")])
    async def agents(caller: SignedIn) -> tuple[Agent, ...]:
        """List the agents that can be chosen, with what each has."""
        return await agents_had.list(caller)

    @router.get("/models", dependencies=[requires("read")])
    async def models() -> tuple[Model, ...]:
        """List the models that can be chosen, with their abilities and costs."""
        return models_of(parts)

    return router


def configuration_router(parts: HttpParts) -> APIRouter:
    """The config file, its secrets masked."""
    router = APIRouter(prefix="/api/configuration", tags=["configuration"])
    file = ConfigFile(parts)

    @router.get("", dependencies=[requires("admin")])
    async def read(caller: SignedIn) -> Configuration:
        """The current file."""
        return await file.read(caller)

    @router.post("/check", dependencies=[requires("admin")])
    async def check(body: ConfigText) -> Checked:
        """Check a changed text, and show its effects. Nothing is written."""
        return await file.check(body.text, body.base)

    @router.post("/apply", dependencies=[requires("admin")])
    async def apply(caller: SignedIn, body: ConfigText) -> Applied:
        """Write it and put it into force; only from a session opened by a link from this machine."""
        return await file.apply(caller, body.text, body.base)

    return router


def _check_everybody(caller: SignedIn, everybody: bool) -> None:
    if everybody and not caller.may("operate"):
        raise HttpProblem(403, "missing_scope", "everybody=true needs the scope operate", scopes=["operate"])
