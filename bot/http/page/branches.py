"""Branches: chats that begin with another one up to one of its messages, and what they take over from it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Form, Request
from fastapi.responses import JSONResponse

from bot.access.admission import FloodGate
from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import HttpProblem, not_found, too_many
from bot.store import branches, conversations
from bot.store.branches import (
    MOST_A_DAY,
    MOST_OF_CHAT,
    BeingDeleted,
    Bound,
    BranchRow,
    Inherited,
    Place,
    TooManyBranches,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import APIRouter

    from bot.http.parts import HttpParts
    from channels.message import OutboundFile

MOST_TAKEN = 1000
"""Messages before the chosen one that are searched; older ones are not found."""
MOST_CHARACTERS = 2_000_000
"""Size of the copy that a branch begins with."""
PER_MINUTE, AT_ONCE = 6.0, 6
"""Requests for branches of one person."""
PORTION = 200
_COUNTED = " ("

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cut:
    """What a branch takes over. turn: the one before which it ends, or with which, as far as the agent knows one.
    edits: it ends before a person's message, which is to be rewritten."""

    entries: Sequence[Entry]
    turn: Place | None
    edits: bool


def add_branches(router: APIRouter, parts: HttpParts) -> None:
    making = _Making(parts)

    @router.post("/c/{chat}/branch", dependencies=[requires("threads")])
    async def branch(
        request: Request, caller: SignedIn, chat: str, message: Annotated[str, Form(max_length=64)]
    ) -> JSONResponse:
        """Create a chat that begins with this one, up to but without a message of the person, or with an answer."""
        made = await making.make(caller, chat, message)
        return JSONResponse({"chat": made, "address": f"{request.scope.get('root_path', '')}/c/{made}"}, 201)


class _Making:
    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._talk = parts.web
        self._asked = FloodGate(parts.clock, PER_MINUTE, AT_ONCE)

    async def make(self, caller: Caller, chat: str, message_id: str) -> str:
        """Create a branch and return the id of the new chat. Raises HttpProblem."""
        if not self._asked.passes(caller.person):
            raise _too_many(Bound.UNMADE)
        talk, store, now = self._talk, self._parts.store, self._parts.clock.now()
        key = talk.key(talk.require(caller, chat))
        source = await store.read(lambda tx: conversations.load(tx, key))
        entries = await self._entries(caller, chat)
        if source is None or all(entry["message_id"] != message_id for entry in entries):
            raise not_found("there is no such message")
        turns = await self._turns(key, chat, entries)
        cut = cut_at(entries, turns, message_id)
        if sum(len(entry["text"]) for entry in cut.entries) > MOST_CHARACTERS:
            text = f"a branch may begin with at most {MOST_CHARACTERS} characters: choose an earlier message"
            raise HttpProblem(413, "branch_too_long", text)
        known = await store.read(lambda tx: branches.relations(tx, key))
        thread_id, made = uuid.uuid4().hex, talk.new_chat(caller)
        row = BranchRow(
            thread_id=thread_id,
            key=talk.key(made),
            source_key=key,
            source_thread=source.thread_id if cut.turn is None else cut.turn.thread_id,
            before=cut.turn.input_id if cut.turn is not None and cut.edits else "",
            through=cut.turn.run_id if cut.turn is not None and not cut.edits else "",
            checkpoint=cut.turn.checkpoint if cut.turn is not None and cut.edits else None,
            messages=tuple([await self._taken(caller, chat, thread_id, entry, turns) for entry in cut.entries]),
            created_at=now,
        )
        try:
            await self._parts.branching.make(row, _title(source.title, len(known.children) + 2))
        except BeingDeleted:
            text = "the content of this chat is being deleted: try again when that has ended"
            raise HttpProblem(409, "being_deleted", text) from None
        except TooManyBranches as error:
            raise _too_many(error.bound) from None
        except Exception as error:  # of the history's database, the disk or a sandbox; it is logged at its origin
            raise HttpProblem(503, "not_branched", "the branch could not be created; try again") from error
        return made

    async def _entries(self, caller: Caller, chat: str) -> list[Entry]:
        """The chat's messages, oldest first."""
        found: list[Entry] = []
        before: datetime | None = None
        while len(found) < MOST_TAKEN:
            older = await self._talk.history(caller, chat, limit=PORTION, before=before)
            found[:0] = older
            if len(older) < PORTION:
                break
            before = datetime.fromisoformat(older[0]["at"])
        return found

    async def _turns(self, key: str, chat: str, entries: Sequence[Entry]) -> dict[str, Place]:
        """The turns of the messages, by their ids."""
        ids = [entry["message_id"] for entry in entries]
        store, account = self._parts.store, self._talk.account
        turns = await store.read(lambda tx: branches.places(tx, account, chat, ids))
        branch = await store.read(lambda tx: branches.load(tx, key))
        if branch is not None:
            for each in branch.messages:
                if each.run_id:
                    turns[each.entry["message_id"]] = Place(each.run_id, branch.thread_id, each.input_id, None)
        return turns

    async def _taken(
        self, caller: Caller, chat: str, thread_id: str, entry: Entry, turns: dict[str, Place]
    ) -> Inherited:
        """A message as the branch shows it: nothing in it waits for an answer any more."""
        message_id = entry["message_id"]
        turn, original = turns.get(message_id), ""
        file: OutboundFile | None = None
        told = {name: value for name, value in entry.items() if name != "inherited"}
        if told["author"] == "bot":
            told |= {"buttons": [], "status": "", "final": True, "asks_reply": False}
        if told.get("file") is not None:
            found = await self._talk.file(caller, chat, message_id)
            original = str(found.path)
            file = replace(found, path=self._parts.branching.folder_of(thread_id) / message_id)
        return Inherited(
            entry=told,
            run_id=turn.run_id if turn is not None else "",
            input_id=turn.input_id if turn is not None else "",
            file=file,
            original=original,
        )


def cut_at(entries: Sequence[Entry], turns: dict[str, Place], message_id: str) -> Cut:
    """What a branch from a message takes over. entries: the whole chat, oldest first. Raises HttpProblem while the
    answer is growing."""
    place = next(place for place, entry in enumerate(entries) if entry["message_id"] == message_id)

    def run_of(entry: Entry) -> str:
        turn = turns.get(entry["message_id"])
        return turn.run_id if turn is not None else ""

    chosen = entries[place]
    own = turns.get(message_id)
    if chosen["author"] == "person" and own is not None:
        # Earlier messages of the same turn are left out too: the agent heard all of them at once.
        while place and run_of(entries[place - 1]) == own.run_id:
            place -= 1
        return Cut(_complete(entries[:place]), own, edits=True)
    if chosen["author"] == "bot":
        place += 1
        while own is not None and place < len(entries) and run_of(entries[place]) == own.run_id:
            place += 1  # its files
    kept = _complete(entries[:place])
    last = next((entry for entry in reversed(kept) if run_of(entry)), None)
    return Cut(kept, None if last is None else turns[last["message_id"]], edits=False)


def _complete(entries: Sequence[Entry]) -> Sequence[Entry]:
    if any(entry["author"] == "bot" and not entry["final"] for entry in entries):
        raise HttpProblem(409, "growing", "wait until the answer is complete")
    return entries


def _too_many(bound: Bound) -> HttpProblem:
    if bound is Bound.CHAT:
        text = f"this chat has {MOST_OF_CHAT} branches, which is the limit: branch from one of them"
        return HttpProblem(409, "too_many_branches", text)
    if bound is Bound.DAY:
        text = f"at most {MOST_A_DAY} branches per person within a day: try again tomorrow"
        return HttpProblem(429, "branches_used_up", text, {"Retry-After": "3600"})
    return too_many("too many branches at once")


def _title(title: str, number: int) -> str:
    """A title derived from that of the source chat; "" where that has none, as the branch will get its own."""
    stem, mark, count = title.rpartition(_COUNTED)
    if mark and count.removesuffix(")").isdecimal():
        title = stem
    return f"{title}{_COUNTED}{number})" if title else ""
