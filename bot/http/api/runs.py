"""Runs of programs: begun by a message on the account `api`, so that they are ordinary runs; awaited and ended."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.http.api.content import Said, entry_of, invalid
from bot.http.api.threads import ACCOUNT, LOOK_SECONDS
from bot.http.errors import HttpProblem, not_found
from bot.store import conversations, programs, prompts, run_events, runs, usage
from bot.store.prompts import Decided
from bot.store.rows import InboxState, RunState, StopReason
from bot.texts import DEFAULT, texts_for
from channels.http.channel import posted_id
from channels.message import TurnOptions
from channels.supervision import within
from harness.events import FailureKind
from harness.files.spool import FOLDER as SPOOL
from harness.files.spool import Spool, SpoolSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bot.conversations.actor import Conversation
    from bot.http.api.content import SentFile
    from bot.http.api.threads import Threads
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.programs import ProgramThread, Sent
    from bot.store.prompts import ApprovalRow
    from bot.store.rows import RunRow
    from bot.store.usage import Totals
    from channels.message import Attachment
    from harness.context import HistoryEntry
    from harness.events import ReadyFile

LOOK_AGAIN_SECONDS = 10.0
"""Seconds between two reads of the store while a run is awaited; changes are announced, so only a defect needs one."""
CHUNK = 256 * 1024
MOST_BEFORE = 400_000
"""Limit on the characters of all messages with which a thread begins."""
BUSY = {"reject": "reject", "enqueue": "queue", "interrupt": "interrupt", "rollback": "rollback"}
STATUS = {
    RunState.PENDING: "pending",
    RunState.RUNNING: "running",
    RunState.WAITING: "interrupted",
    RunState.SUCCESS: "success",
    RunState.LIMITED: "success",
    RunState.ERROR: "error",
    RunState.TIMEOUT: "timeout",
    RunState.INTERRUPTED: "interrupted",
}
STATES = {
    "pending": (RunState.PENDING,),
    "running": (RunState.RUNNING,),
    "success": (RunState.SUCCESS, RunState.LIMITED),
    "error": (RunState.ERROR,),
    "timeout": (RunState.TIMEOUT,),
    "interrupted": (RunState.INTERRUPTED, RunState.WAITING),
}
REFUSED = {
    "busy": (409, "thread_busy", "the thread is busy with another run, and multitask_strategy is reject"),
    "queue full": (429, "queue_full", "too many messages wait in this thread; try again later"),
    "backlog full": (503, "overloaded", "too many messages wait in the whole service; try again later"),
    "flood": (429, "too_many_messages", "too many messages at once; wait a minute"),
    "files refused": (422, "files_refused", "none of the files was accepted: see the limits of uploads"),
    "not listened to": (422, "not_transcribed", "voice messages are not transcribed here"),
}
ALLOWING: Mapping[Any, Decided] = {
    True: Decided.ONCE,
    "allow": Decided.ONCE,
    "approve": Decided.ONCE,
    "accept": Decided.ONCE,
    "yes": Decided.ONCE,
    "once": Decided.ONCE,
    "chat": Decided.CHAT,
    False: Decided.DENY,
    "deny": Decided.DENY,
    "reject": Decided.DENY,
    "ignore": Decided.DENY,
    "no": Decided.DENY,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run has no answer. code: the kind of failure, or a name of the state."""

    code: str
    message: str


def problem_of(row: RunRow, detail: str | None) -> Problem | None:
    """The problem of a run; None for one that has an answer, or was only stopped."""
    texts = texts_for(DEFAULT)
    match row.state:
        case RunState.ERROR:
            with suppress(ValueError):
                kind = FailureKind(detail or "")
                return Problem(kind, texts.failures[kind].format(model=row.context.model, wait=""))
            return Problem(detail or "internal", texts.failures[FailureKind.INTERNAL].format(model="", wait=""))
        case RunState.TIMEOUT:
            return Problem("timeout", "the run took longer than limits.run_seconds allows")
        case RunState.LIMITED if detail:
            return Problem("budget", f"the budget {detail} is used up")
    return None


def message_of_program(said: Sequence[Said], known: frozenset[str]) -> tuple[Said, list[Said]]:
    """The person's newest message, and those before it. known: ids of messages that the thread holds already. Raises
    HttpProblem."""
    fresh = [each for each in said if not each.id or each.id not in known]
    if not fresh or fresh[-1].role != "user":
        raise invalid("the last message must be the user's", "messages")
    *before, last = fresh
    if not last.text.strip() and not last.files:
        raise invalid("the last message is empty", "messages")
    if sum(len(each.text) for each in before) > MOST_BEFORE:
        text = f"messages: those before the last one may have at most {MOST_BEFORE} characters in total"
        raise HttpProblem(413, "too_long", text, param="messages", type="invalid_request_error")
    return last, before


def said_before(said: Sequence[Said]) -> list[HistoryEntry]:
    """The earlier messages, as a thread begins with them."""
    entries = (entry_of(replace(each, id="")) for each in said if each.role != "tool")
    return [entry for entry in entries if entry is not None]


class Runs:
    def __init__(self, parts: HttpParts, threads: Threads) -> None:
        self._parts = parts
        self._store = parts.store
        self._threads = threads
        self.following = parts.runs.following
        self.following.accounts |= {ACCOUNT}
        self.spool = parts.settings().data_dir / SPOOL
        """The folder of the files of answers."""

    @property
    def epoch(self) -> int:
        """The number of this process; increases from one process to the next."""
        return self._store.epoch

    # Beginning.

    async def begin(
        self,
        caller: Caller,
        thread: ProgramThread,
        said: Sequence[Said],
        *,
        agent: str | None,
        strategy: str = "enqueue",
        metadata: Mapping[str, Any] | None = None,
        client_id: str = "",
        known: frozenset[str] = frozenset(),
    ) -> RunRow:
        """Post the last of these messages to a thread, and return its run once that is decided on. The messages before
        it begin the thread, where that is new. Raises HttpProblem."""
        last, before = message_of_program(said, known)
        await self._use(thread, agent)
        if before:
            await self._seed(thread, before)
        now, chat = self._parts.clock.now(), thread.key.partition(":")[2]
        await self._store.write(lambda tx: programs.touch(tx, thread.key, now))
        attachments = [await self._kept(caller, file) for file in last.files]
        note = json.dumps({"metadata": dict(metadata or {}), "strategy": strategy})
        turn = TurnOptions(busy=BUSY[strategy], note=note)  # type: ignore[arg-type]  # one of its words
        posted = await self._parts.api.post(
            caller, chat, last.text, client_id=client_id or uuid.uuid4().hex, attachments=attachments, turn=turn
        )
        return await self._opened(thread.key, chat, posted.message_id)

    async def was_sent(self, thread: ProgramThread, client_id: str) -> bool:
        """Whether the client's request with that id has put its message into the thread already."""
        chat = thread.key.partition(":")[2]
        message_id = posted_id(chat, client_id)
        return await self._store.read(lambda tx: programs.sent(tx, ACCOUNT, chat, message_id)) is not None

    async def _kept(self, caller: Caller, file: SentFile) -> Attachment:
        if file.upload_id:
            return await self._parts.api.attachment(caller, file.upload_id)

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(file.data), CHUNK):
                yield file.data[start : start + CHUNK]

        return await self._parts.api.upload(caller, file.name, file.mime_type, chunks())

    async def _use(self, thread: ProgramThread, agent: str | None) -> None:
        """Have this agent answer in the thread from now on, if another one does."""
        if agent is None or self._parts.agents.agent_of(await self._threads.record(thread)) == agent:
            return

        async def choose(actor: Conversation) -> None:
            await self._store.write(lambda tx: conversations.choose(tx, thread.key, "agent", agent))
            actor.forget_row()

        await self._parts.manager.in_order(thread.key, choose)

    async def _seed(self, thread: ProgramThread, before: Sequence[Said]) -> None:
        if await self._threads.newest_run(thread.key) is not None:
            raise invalid("this thread already has a history: send only the new message", "messages")
        harness, record = await self._parts.harness(), await self._threads.record(thread)
        if not await harness.views(record.thread_id):
            await harness.seed(record.thread_id, said_before(before))

    async def _opened(self, key: str, chat: str, message_id: str) -> RunRow:
        """The run that answers a message, as soon as it exists. Raises HttpProblem where there will be none."""
        with self.following.watch(key) as changed:
            while True:
                changed.clear()
                found = await self._store.read(lambda tx: programs.sent(tx, ACCOUNT, chat, message_id))
                if found is None:
                    raise HttpProblem(403, "not_allowed", "this person may no longer write here")
                if found.run_id is not None:
                    return await self.load(found.run_id)
                if found.state in (InboxState.DONE, InboxState.DEAD):
                    raise _refused(found)
                await within(LOOK_SECONDS, changed.wait())

    # Reading.

    async def load(self, run_id: str) -> RunRow:
        row = await self._store.read(lambda tx: runs.load(tx, run_id))
        if row is None:
            raise not_found("there is no such run")
        return row

    async def find(self, thread: ProgramThread, run_id: str) -> RunRow:
        """A run of that thread. Raises HttpProblem."""
        row = await self.load(_plain(run_id))
        if row.conversation != thread.key:
            raise not_found("there is no such run")
        return row

    async def of_thread(self, thread: ProgramThread, limit: int, offset: int, status: str | None) -> list[RunRow]:
        states = None if status is None else STATES.get(status, ())
        ids = await self._store.read(lambda tx: programs.runs_of(tx, thread.key, limit, offset, states))
        return [await self.load(run_id) for run_id in ids]

    async def problem(self, row: RunRow) -> Problem | None:
        if not row.state.ended:
            return None
        return problem_of(row, await self._store.read(lambda tx: runs.detail_of(tx, row.run_id)))

    async def tokens(self, row: RunRow) -> Totals:
        spent = await self._store.read(lambda tx: usage.spent(tx, run_id=row.run_id, thread_id=row.thread_id))
        return spent.totals

    async def events(self, row: RunRow) -> list[run_events.Event]:
        """The stored events of a run."""
        return await self._store.read(lambda tx: run_events.read(tx, row.run_id))

    async def files(self, row: RunRow) -> tuple[ReadyFile, ...]:
        """The files presented so far."""
        return await Spool(SpoolSettings(folder=self.spool)).files(row.run_id)

    async def as_json(self, thread: ProgramThread, rows: Sequence[RunRow]) -> list[dict[str, Any]]:
        """The runs as LangGraph's Run."""
        first = [row.inbox_ids[0] for row in rows if row.inbox_ids]
        noted = await self._store.read(lambda tx: programs.notes(tx, first))
        found = []
        for row in rows:
            note = json.loads(noted.get(row.inbox_ids[0], "") or "{}") if row.inbox_ids else {}
            problem = await self.problem(row)
            updated = row.ended_at or row.started_at or row.created_at
            found.append(
                {
                    "run_id": str(uuid.UUID(row.run_id)),
                    "thread_id": thread.name,
                    "assistant_id": row.context.agent,
                    "created_at": row.created_at.isoformat(),
                    "updated_at": updated.isoformat(),
                    "ended_at": None if row.ended_at is None else row.ended_at.isoformat(),
                    "status": "error" if problem is not None and row.state is RunState.LIMITED else STATUS[row.state],
                    "metadata": note.get("metadata", {}),
                    "multitask_strategy": note.get("strategy", "enqueue"),
                    "kwargs": {},
                    "cancel_reason": row.stop,
                }
            )
        return found

    # Waiting.

    async def settled(self, row: RunRow) -> RunRow:
        """The run as soon as it has ended, or waits for a person."""
        with self.following.watch(row.conversation) as changed:
            while True:
                changed.clear()
                row = await self.load(row.run_id)
                if row.state.ended or await self.waits(row):
                    return row
                await within(LOOK_AGAIN_SECONDS, changed.wait())

    async def waits(self, row: RunRow) -> list[ApprovalRow]:
        """The approvals for which it waits."""
        if row.state is not RunState.WAITING:
            return []
        return await self._store.read(lambda tx: prompts.open_approvals(tx, row.run_id))

    async def values(self, thread: ProgramThread, row: RunRow) -> dict[str, Any]:
        """The result of a settled run: the thread's state, with what it waits for, or why there is no answer."""
        values = await self._threads.values(thread)
        interrupts = await self._threads.approvals(row) if not row.state.ended else await self._threads.question(row)
        if interrupts:
            values["__interrupt__"] = interrupts
        if (problem := await self.problem(row)) is not None:
            values["__error__"] = {"error": problem.code, "message": problem.message}
        return values

    # Ending.

    async def cancel(self, row: RunRow, *, rewinds: bool = False) -> None:
        """End a run in any state; no-op for one that has ended."""
        reason = StopReason.ROLLBACK if rewinds else StopReason.STOPPED

        async def stop(actor: Conversation) -> None:
            if actor.is_active(row.run_id):
                await self._store.write(actor.stop_unit(reason))
                actor.stop_active(reason)
            for waiting in actor.line:
                if waiting.row.run_id == row.run_id:
                    await actor.drop(waiting, lambda texts: texts.dropped_by["author"])

        await self._parts.manager.in_order(row.conversation, stop)

    def cancel_soon(self, row: RunRow) -> None:
        """Begin `cancel` without waiting for it, for a caller that is gone by then."""
        self._parts.tasks.spawn(f"cancel:{row.run_id}", self.cancel(row))

    # Answering what a thread waits for.

    async def resume(
        self, caller: Caller, thread: ProgramThread, answer: Any, *, agent: str | None = None
    ) -> tuple[RunRow, bool]:
        """Answer what the thread waits for: decisions for its run, which continues, or words for a question, which
        begin the next run. Returns the run, and whether it continues. Raises HttpProblem."""
        last = await self._threads.newest_run(thread.key)
        working = await self._store.read(lambda tx: runs.active(tx, thread.key))
        if working is not None and (open_ := await self.waits(working)):
            for row, decision, reason in decisions_of(answer, open_):
                await self._decide(caller, row, decision, reason)
            return working, True
        asked = [] if last is None or working is not None else await self._threads.question(last)
        if not asked:
            raise HttpProblem(409, "nothing_waits", "nothing waits for an answer in this thread")
        text = _words(answer, asked[0])
        return await self.begin(caller, thread, [Said("user", text)], agent=agent), False

    async def _decide(self, caller: Caller, row: ApprovalRow, decision: Decided, reason: str) -> None:
        if decision.allows and row.admins_only and not caller.may("operate"):
            raise HttpProblem(403, "admins_only", "only an administrator, with the scope operate, can allow this call")
        if decision is Decided.CHAT and row.is_exact:
            decision = Decided.ONCE
        approvals = self._parts.runs.approvals
        decided = await approvals.decide(row.prompt_id, decision, caller.person, also=lambda tx: None, reason=reason)
        if not decided:
            raise HttpProblem(409, "too_late", "this was decided before, or has expired")


def decisions_of(answer: Any, open_: Sequence[ApprovalRow]) -> list[tuple[ApprovalRow, Decided, str]]:
    """The requests that an answer decides, and how: by id, in the order of `decisions`, or the only one. Raises
    HttpProblem."""
    by_id = {row.prompt_id: row for row in open_}
    if isinstance(answer, Mapping) and answer and set(map(str, answer)) <= by_id.keys():
        return [(by_id[str(key)], *_decision(each)) for key, each in answer.items()]
    if isinstance(answer, Mapping) and isinstance(each := answer.get("decisions"), list):
        answer = each
    if isinstance(answer, list) and len(answer) == len(open_):
        return [(row, *_decision(each)) for row, each in zip(open_, answer, strict=True)]
    if len(open_) > 1:
        raise invalid(f"{len(open_)} calls wait: answer each by its id", "command.resume")
    return [(open_[0], *_decision(answer))]


def _decision(answer: Any) -> tuple[Decided, str]:
    reason = ""
    if isinstance(answer, Mapping):
        reason = " ".join(str(answer.get("reason") or answer.get("message") or "").split())[:300]
        answer = answer.get("decision", answer.get("type"))
    if isinstance(answer, bool | str) and answer in ALLOWING:
        return ALLOWING[answer], reason
    raise invalid("answer once, chat or deny", "command.resume")


def _words(answer: Any, asked: Mapping[str, Any]) -> str:
    if isinstance(answer, Mapping):
        answer = answer.get(asked["id"], answer.get("text", answer.get("answer")))
    if not isinstance(answer, str) or not answer.strip():
        raise invalid("answer a question with text", "command.resume")
    return answer


def _refused(found: Sent) -> HttpProblem:
    status, code, text = REFUSED.get(found.reason or "", (403, "not_taken", "the message was not accepted"))
    headers = {"Retry-After": "30"} if status in (429, 503) else {}
    return HttpProblem(status, code, text, headers)


def _plain(run_id: str) -> str:
    try:
        return uuid.UUID(run_id).hex
    except ValueError:
        raise not_found("there is no such run") from None


def file_json(file: ReadyFile) -> dict[str, Any]:
    """A file of an answer, without the path of its copy on this machine."""
    told = asdict(file)
    del told["spooled"]
    return told
