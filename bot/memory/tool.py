"""`antler memory`: over the control socket while antler runs, else on the store itself.

Only `show` and `export` of one memory show its content; the list has hashed keys, sizes and dates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import do_there_or_here
from bot.memory.keeper import make_keeper
from bot.store.identity import folder_name
from bot.texts import DEFAULT, texts_for
from bot.texts.commands import unmarked
from bot.texts.memory_page import as_markdown
from harness.memory.store import MemoryUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.memory.keeper import MemoryKeeper
    from bot.settings import Settings
    from bot.store import Store
    from harness.memory.store import StoredMemory

    Answer = tuple[str, bool]
    """The output, and whether the request succeeded."""

KEY = 12
"""Characters of a hashed key that the list shows, and the minimum to identify one."""


class MemoryTool:
    def __init__(self, book: MemoryKeeper) -> None:
        self._book = book

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the control socket: {"do", "key"} to {"text", "done"}, and "data" for the list."""
        try:
            if request.get("do") == "list":
                known = sorted(await self._book.owners(), key=_key)
                return {"text": _table(known), "data": [_facts(stored) for stored in known], "done": True}
            text, done = await self._answer(str(request.get("do")), str(request.get("key", "")))
        except MemoryUnavailable as error:
            text, done = str(error), False
        return {"text": text, "done": done}

    async def _answer(self, do: str, key: str) -> Answer:
        if do not in ("show", "export", "forget"):
            return "the running antler has another version: restart it", False
        found = [stored for stored in await self._book.owners() if _is_key(key, stored)]
        if len(found) != 1:
            return f"{key} is the key of {len(found) or 'no'} {'memories' if found else 'memory'}", False
        owner, agent = found[0].owner, found[0].agent
        if do == "forget":
            gone = await self._book.forget_all(owner, agent)
            log_action(Action.MEMORY_FORGET, MACHINE, account=owner.partition(":")[0], person=owner, what="all")
            return f"forgotten: {gone.facts} facts, and {gone.turns} turns that had not been learned from yet", True
        memory = await self._book.show(owner, agent)
        log_action(Action.MEMORY_SHOW, MACHINE, account=owner.partition(":")[0], person=owner)
        if do == "export":
            return memory.to_json().rstrip(), True
        return unmarked(as_markdown(memory, _named(found[0]), texts_for(DEFAULT)).rstrip()), True


def run(
    settings: Settings, do: Literal["list", "show", "export", "forget"], key: str = "", *, as_json: bool = False
) -> int:
    """The command line: run it where the data is currently held and print the answer; returns the exit code."""
    return do_there_or_here(settings, "memory", {"do": do, "key": key}, _do_it_here, as_json=as_json)


async def _do_it_here(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    return await MemoryTool(make_keeper(settings, store)).do(request)


def _named(stored: StoredMemory) -> str:
    """`telegram:12345`, or `telegram:12345/support` for an agent's own memory."""
    return f"{stored.owner}/{stored.agent}" if stored.agent else stored.owner


def _key(stored: StoredMemory) -> str:
    """Its name in lists, which does not reveal its owner: `HASH`, `HASH/support`."""
    hashed = folder_name(stored.owner)[:KEY]
    return f"{hashed}/{stored.agent}" if stored.agent else hashed


def _is_key(key: str, stored: StoredMemory) -> bool:
    """Whether a key names it: a hashed key, its beginning, or the owner's id, followed by the agent of the memory."""
    if key == _named(stored):
        return True
    hashed, _, agent = key.lower().partition("/")
    return agent == stored.agent and len(hashed) >= KEY and folder_name(stored.owner).startswith(hashed)


def _facts(stored: StoredMemory) -> dict[str, Any]:
    """JSON data. agent: of an agent's own memory, "" for a shared one. size: bytes. updated_at: ISO 8601 or None."""
    at = stored.updated_at.isoformat(timespec="seconds") if stored.updated_at is not None else None
    return {"key": _key(stored), "agent": stored.agent, "size": stored.size, "updated_at": at}


def _table(known: list[StoredMemory]) -> str:
    if not known:
        return "no memories"
    width = max(len(_key(stored)) for stored in known)
    lines = [f"{'key':<{width}}  {'bytes':>8}  updated"]
    for stored in known:
        at = stored.updated_at.strftime("%Y-%m-%d %H:%M") if stored.updated_at is not None else "unknown"
        lines.append(f"{_key(stored):<{width}}  {stored.size:>8}  {at}")
    return "\n".join(lines)
