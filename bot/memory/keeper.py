"""MemoryKeeper: the only access to memories, serialized per owner; changes made by a person take precedence.

It implements the harness's port `Memories`, and serves commands, the updater (service.py), `antler memory` and /forget.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from cachetools import LRUCache

from bot.store import memories, runs
from bot.store.identity import folder_name, moved_key, users_folder
from bot.store.memories import StoreMemories
from harness.memory.injection import is_override
from harness.memory.merge import TOOLS_CONFIDENCE, merged, remembered
from harness.memory.model import LONGEST_FACT, SUMMARIES, Memory, Proposed, Summary, summaries, with_summaries
from harness.memory.redaction import has_secret
from harness.memory.store import FileMemoryStore, MemoryUnavailable, NotKept, Recalled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.store import Store
    from bot.store.memories import OwnerState
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from harness.context import RunContext
    from harness.memory.config import MemorySettings
    from harness.memory.model import Category, Changes, Fact
    from harness.memory.store import MemoryStore, StoredMemory


log = logging.getLogger(__name__)
BY_HAND = 1.0
"""The confidence of facts that a person wrote into the memory themselves."""
REMEMBERED = 4096
"""Maximum number of owners whose state is cached."""
MOST_OVERTAKEN = 20
"""Consecutive changes of a memory by other processes after which a change is abandoned."""

_WORD = re.compile(r"[\u3400-\u9fff]{2}|(?:(?![\u3400-\u9fff])[^\W_]){4,}")
_COMMON = """
about also always because been does from have here into like likes more much name named over person prefer prefers said
some than that their them then there they this user uses using very wants were when where which will with work works
用户 喜欢 使用 这个 一个
"""
_EVERYWHERE = frozenset(_COMMON.split())
"""Words too common to identify the fact that a text is about."""


def without_items(memory: Memory, items: Collection[str]) -> Memory:
    """The memory without these facts (ids) and summaries (names of model.SUMMARIES), and without summaries that seem to
    repeat the facts: those are rewritten from later turns."""
    gone = [fact for fact in memory.facts if fact.id in items]
    left = tuple(fact for fact in memory.facts if fact.id not in items)
    telling = _words(fact.content for fact in gone) - _words(fact.content for fact in left)
    names = [name for name in SUMMARIES if name in items]
    names += [name for name, known in summaries(memory).items() if telling & _words([known.summary])]
    return _without_summaries(memory.model_copy(update={"facts": left}), names)


def without_person(memory: Memory, person: str) -> Memory:
    """The memory without the facts based on one person's words, and without summaries, whose origin cannot be
    determined."""
    left = tuple(fact for fact in memory.facts if fact.said_by != person)
    return _without_summaries(memory.model_copy(update={"facts": left}), SUMMARIES)


def edited(memory: Memory, fact_id: str, text: str, person: str, now: datetime) -> tuple[Memory, Fact | None]:
    """The memory with another text of a fact, as a correction, and that fact; None if it is missing. Raises NotKept."""
    content = " ".join(text.split())
    if not content or len(content) > LONGEST_FACT:
        raise NotKept("It is empty or too long.")
    if has_secret(content) or is_override(content):
        raise NotKept("It contains a secret, or reads like a system instruction.")
    known = next((fact for fact in memory.facts if fact.id == fact_id), None)
    if known is None or known.content == content:
        return memory, known
    changes = {
        "content": content,
        "confidence": 1.0,
        "said_by": person,
        "source_error": known.content if known.said_by in ("", person) else None,
        "confirmed_at": now,
        "valid_until": None,
    }
    fact = known.model_copy(update=changes)
    facts = tuple(fact if each.id == fact_id else each for each in memory.facts)
    return memory.model_copy(update={"facts": facts}), fact


def after_person(changes: Changes, base: Memory, memory: Memory) -> Changes:
    """The remaining part of an update that was based on `base`, after a person changed that into `memory`: facts and
    summaries that they changed or forgot are not touched."""
    before, now = {fact.id: fact for fact in base.facts}, {fact.id: fact for fact in memory.facts}
    theirs = {known for known in before.keys() | now.keys() if before.get(known) != now.get(known)}
    if not theirs and summaries(base) == summaries(memory):
        return changes
    told, tells = summaries(base), summaries(memory)
    return replace(
        changes,
        summaries={name: text for name, text in changes.summaries.items() if told.get(name) == tells.get(name)},
        corrected=tuple(each for each in changes.corrected if each.fact_id not in theirs),
        confirmed=tuple(each for each in changes.confirmed if each.fact_id not in theirs),
        removed=tuple(fact_id for fact_id in changes.removed if fact_id not in theirs),
    )


def _without_summaries(memory: Memory, names: Collection[str]) -> Memory:
    return with_summaries(memory, dict.fromkeys(names, Summary())) if names else memory


def _words(texts: Iterable[str]) -> set[str]:
    return {word.casefold() for text in texts for word in _WORD.findall(text)} - _EVERYWHERE


class OwnerStates:
    """The owners' states; change them within the owner's lock. alone: no other process changes them, so they are
    cached."""

    def __init__(self, store: RetryingStore | Store, *, alone: bool) -> None:
        self._store = store
        self._alone = alone
        self._known: LRUCache[str, OwnerState] = LRUCache(REMEMBERED)

    async def of(self, owner: str) -> OwnerState:
        known = self._known.get(owner)
        if known is None:
            known = await self._store.read(lambda tx: memories.owner_state(tx, owner))
            self._note(owner, known)
        return known

    async def decide(
        self,
        owner: str,
        also: Callable[[Connection], int] | None = None,
        *,
        off: bool | None = None,
        forgets: bool = False,
    ) -> int:
        """Record that a person changed something, with `also` in the same transaction; returns the result of `also`.
        forgets: nothing said before is learned any more. off: the switch; None: unchanged."""
        forgotten_at = self._store.clock.now() if forgets else None

        def unit(tx: Connection) -> tuple[OwnerState, int]:
            count = also(tx) if also is not None else 0
            return memories.change_owner(tx, owner, off=off, forgotten_at=forgotten_at), count

        state, count = await self._store.write(unit)
        self._note(owner, state)
        return count

    def clear(self) -> None:
        """Clear the cache, after ids of owners have changed."""
        self._known.clear()

    def _note(self, owner: str, state: OwnerState) -> None:
        if self._alone:
            self._known[owner] = state


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten. facts: remembered ones. turns: not yet learned."""

    facts: int = 0
    turns: int = 0


class MemoryKeeper:
    """Keeps memories. kept: stores them. memory_of: the name of an agent's own memory, see AgentChoices; "" as `agent`
    is the one that agents share. An owner's decisions (on or off, what was forgotten) apply to all their memories.
    alone: no other process has a keeper of these memories; not so for gateways and workers. All methods raise
    MemoryUnavailable if the memory cannot be read or written."""

    def __init__(
        self,
        kept: MemoryStore,
        store: RetryingStore | Store,
        settings: MemorySettings,
        memory_of: Callable[[str], str | None] = lambda agent: "",
        *,
        alone: bool = True,
    ) -> None:
        self._kept = kept
        self._store = store
        self._clock = store.clock
        self.settings = settings
        self._memory_of = memory_of
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._states = OwnerStates(store, alone=alone)

    # For the agent.

    async def recalled(self, ctx: RunContext) -> Recalled:
        """See harness.memory.store.Memories."""
        state, agent = await self.state(ctx.owner), self._memory_of(ctx.agent) or ""
        covered = self.covers(is_group=ctx.is_group) and not state.off
        known = await self.show(ctx.owner, agent) if covered else Memory()
        return Recalled(memory=known, changed=state.changed, agent=agent)

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        """See harness.memory.store.Memories."""
        if not self.covers(is_group=ctx.is_group):
            raise NotKept("The operator has turned the memory off.")
        async with self._lock(ctx.owner):
            run = await self._store.read(lambda tx: runs.load(tx, ctx.run_id))
            await self._refuse_unwanted(ctx.owner, run)
            at = self._clock.now() if run is None else run.created_at  # the same if the call is repeated
            proposed = Proposed(
                content=content,
                category=category,
                confidence=TOOLS_CONFIDENCE,
                at=at,
                source=ctx.run_id,
                said_by=ctx.speaker.id if ctx.speaker.is_person else "",
            )
            agent = self._memory_of(ctx.agent) or ""
            fact = await self._keep(ctx.owner, agent, proposed)
            try:
                await self._refuse_unwanted(ctx.owner, run)
            except NotKept:  # decided in another process, which may have read the memory before the fact was written
                if fact.source == ctx.run_id:
                    await self._change(ctx.owner, agent, lambda memory: without_items(memory, [fact.id]), forgets=True)
                raise
        return fact

    async def _refuse_unwanted(self, owner: str, run: RunRow | None) -> None:
        """Raise NotKept if the person wants nothing of that run remembered."""
        state = await self.state(owner)
        if state.off:
            raise NotKept("The memory is turned off here. The person can turn it on with /memory on.")
        if run is not None and state.had_forgotten(run.created_at):
            raise NotKept("The person has just had something forgotten, so nothing from before that is remembered.")

    def covers(self, *, is_group: bool) -> bool:
        """Whether persons, or groups, have a memory at all."""
        return self.settings.enabled and (self.settings.groups or not is_group)

    # For people.

    async def show(self, owner: str, agent: str = "") -> Memory:
        """The memory, whether it is on or off."""
        return await self._kept.load(owner, agent)

    async def agents_with(self, owner: str) -> list[str]:
        """The agents whose own memory of that owner is not empty."""
        return [stored.agent for stored in await self._kept.owners(owner) if stored.agent]

    async def state(self, owner: str) -> OwnerState:
        """The owner's state: whether the memory is off, and other decisions of persons."""
        return await self._states.of(owner)

    async def forget(self, owner: str, items: Sequence[str], agent: str = "") -> None:
        """Forget these facts (ids) and summaries (names). Earlier turns that are not learned yet are dropped, too:
        they could bring them back."""
        async with self._lock(owner):
            await self._states.decide(owner, partial(memories.drop_turns_for, owner=owner), forgets=True)
            await self._change(owner, agent, lambda memory: without_items(memory, items), forgets=True)

    async def forget_all(self, owner: str, agent: str = "") -> Forgotten:
        """Forget everything in one memory of an owner, and the turns that are not learned yet."""
        async with self._lock(owner):
            turns = await self._states.decide(owner, partial(memories.drop_turns_for, owner=owner), forgets=True)
            known = await self._change(owner, agent, lambda _: Memory(), forgets=True)
        facts = len(known.facts)
        log.info("the memory %s was forgotten: %d facts, %d turns", hashed(owner, agent), facts, turns)
        return Forgotten(facts, turns)

    async def forget_person(self, group_owner: str, person: str, agent: str = "") -> Forgotten:
        """Forget a person (`account:native id`) in a group's memory: facts based on their words, their turns that are
        not learned yet, and the summaries, whose origin cannot be determined; these are rewritten from the words of
        the others."""
        async with self._lock(person):
            await self._states.decide(person, forgets=True)
        async with self._lock(group_owner):
            drop = partial(memories.drop_turns_of, owner=group_owner, speaker=person)
            turns = await self._states.decide(group_owner, drop)
            known = await self._change(group_owner, agent, lambda memory: without_person(memory, person), forgets=True)
        left = without_person(known, person)
        facts = len(known.facts) - len(left.facts)
        return Forgotten(facts, turns)

    async def forget_everywhere(self, person: str) -> int:
        """Forget all memories of the person, including those of agents, and the person in the memories of the account's
        groups; returns the number of facts."""
        account = person.partition(":")[0]
        facts = (await self.forget_all(person)).facts
        groups = {(owner, "") for owner in await self._store.read(lambda tx: memories.groups_of(tx, person))}
        spoke_in = {owner for owner, _ in groups}
        for stored in await self._kept.owners():
            owner, agent = stored.owner, stored.agent
            if owner == person:
                facts += (await self.forget_all(person, agent)).facts
            elif owner in spoke_in or (
                owner.startswith(f"{account}:") and _rests_on(await self._kept.load(owner, agent), person)
            ):
                groups.add((owner, agent))
        for owner, agent in sorted(groups):
            facts += (await self.forget_person(owner, person, agent)).facts
        return facts

    async def add(self, owner: str, key: str, text: str, person: str, agent: str = "") -> Fact:
        """Remember a text written by a person. key: identifies the event that requests it, which counts once. Raises
        NotKept."""
        proposed = Proposed(
            content=text,
            category="context",
            confidence=BY_HAND,
            at=self._clock.now(),
            source=key,
            said_by=person,
        )
        async with self._lock(owner):
            if (await self.state(owner)).off:
                raise NotKept("The memory is turned off.")
            fact = await self._keep(owner, agent, proposed)
            await self._states.decide(owner)
        return fact

    async def edit(self, owner: str, fact_id: str, text: str, person: str, agent: str = "") -> Fact | None:
        """Change a fact's text; returns None if it no longer exists. Raises NotKept. Concurrent learning from earlier
        turns does not change it back."""
        facts: list[Fact | None] = []

        def change(memory: Memory) -> Memory:
            changed, fact = edited(memory, fact_id, text, person, self._clock.now())
            facts.append(fact)
            return changed

        async with self._lock(owner):
            await self._change(owner, agent, change)
            if facts[-1] is not None:
                await self._states.decide(owner)
        return facts[-1]

    async def set_enabled(self, owner: str, enabled: bool) -> None:
        """Turn the memory on or off: while off, it is neither written nor given to the agent; its content stays."""
        async with self._lock(owner):
            if enabled:
                await self._states.decide(owner, off=False)
            else:
                drop = partial(memories.drop_turns_for, owner=owner)
                await self._states.decide(owner, drop, off=True, forgets=True)

    # For the updater.

    async def learn(self, owner: str, turns: Sequence[int], base: Memory, changes: Changes, agent: str = "") -> bool:
        """Merge what was learned from these queued turns into the memory, and remove them from the queue. base: the
        memory read by the updater. False if a person's change has dropped turns since: then nothing is kept."""
        async with self._lock(owner):
            left = await self._store.read(lambda tx: memories.count_turns(tx, owner, turns))
            if left < len(turns):
                return False
            now = self._clock.now()
            await self._change(
                owner, agent, lambda memory: merged(memory, after_person(changes, base, memory), self.settings, now)
            )
            await self._store.write(lambda tx: memories.drop_turns(tx, turns))
        return True

    # For operators, and for the gateway.

    async def owners(self) -> list[StoredMemory]:
        """Owners who have a memory, without its content."""
        return await self._kept.owners()

    async def move(self, old: str, new: str, agent: str = "") -> None:
        """Move a memory to the owner's new id, where it replaces an existing one."""
        async with self._lock(old), self._lock(new):
            memory = await self._kept.load(old, agent)
            if not memory.is_empty:
                await self._kept.save(new, memory, agent)
            await self._kept.delete(old, agent)
        self._states.clear()

    async def chat_moved(self, account: str, old_chat: str, new_chat: str) -> None:
        """Move the memories of a group whose id has changed."""
        for stored in await self._kept.owners():
            key = moved_key(stored.owner, account, old_chat, new_chat)
            if key is not None and key != stored.owner:
                await self.move(stored.owner, key, stored.agent)

    async def prune(self) -> int:
        """Forget memories not written to for `keep_days`; returns their number. This is no person's decision: waiting
        turns are still learned, and the owner's other memories stay."""
        if self.settings.keep_days is None:
            return 0
        before = self._clock.now() - timedelta(days=self.settings.keep_days)
        gone = 0
        for stored in await self._kept.owners():
            if stored.updated_at is not None and stored.updated_at < before:
                gone += await self._prune(stored.owner, stored.agent, before)
        return gone

    async def _prune(self, owner: str, agent: str, before: datetime) -> bool:
        """Forget one memory unless it has just been written to; returns whether it is gone."""
        async with self._lock(owner):
            known = await self._kept.load(owner, agent)
            if known.last_updated is not None and known.last_updated >= before:
                return False
            gone = await self._kept.replace(owner, known, Memory(), agent)
        if gone:
            log.info("the memory %s was forgotten: it had not been written to for long", hashed(owner, agent))
        return gone

    # Within the lock of an owner.

    def _lock(self, owner: str) -> asyncio.Lock:
        return self._locks.setdefault(owner, asyncio.Lock())

    async def _keep(self, owner: str, agent: str, proposed: Proposed) -> Fact:
        kept: list[Fact] = []

        def change(memory: Memory) -> Memory:
            changed, fact = remembered(memory, proposed, self.settings, self._clock.now())
            kept.append(fact)
            return changed

        await self._change(owner, agent, change)
        return kept[-1]

    async def _change(
        self, owner: str, agent: str, change: Callable[[Memory], Memory], *, forgets: bool = False
    ) -> Memory:
        """Write the memory as changed by `change`, if it differs; returns the former one. If another process was
        faster, `change` is called again on its result. forgets: what is gone must not stay in the last good copy
        either."""
        for _ in range(MOST_OVERTAKEN):
            known = await self._kept.load(owner, agent)
            changed = change(known)
            if changed == known and not forgets:
                return known
            changed = changed.model_copy(update={"last_updated": self._clock.now()})
            if await self._kept.replace(owner, known, changed, agent):
                if (
                    forgets and not changed.is_empty
                ):  # if this fails because of another change, the last good copy is already `changed`
                    await self._kept.replace(owner, changed, changed, agent)
                return known
        raise MemoryUnavailable("the memory cannot be changed: other processes keep changing it")


def hashed(owner: str, agent: str = "") -> str:
    """The name of a memory in logs, which does not reveal its owner."""
    return f"{folder_name(owner)}/{agent}" if agent else folder_name(owner)


def _rests_on(memory: Memory, person: str) -> bool:
    return any(fact.said_by == person for fact in memory.facts)


def make_keeper(settings: Settings, store: RetryingStore | Store) -> MemoryKeeper:
    """A keeper of the memories in the configured storage."""
    return MemoryKeeper(make_kept(settings, store), store, settings.memory)


def make_kept(settings: Settings, store: RetryingStore | Store) -> MemoryStore:
    """The configured storage of memories."""
    if settings.memories_in_database:
        return StoreMemories(store, store.clock)
    return FileMemoryStore(users_folder(settings.data_dir))


async def rename_owners(kept: MemoryStore, old: str, new: str) -> None:
    """Rename the owners of memories, and the persons on whose words facts are based, after an account was renamed.
    Raises MemoryUnavailable."""

    def renamed(identity: str) -> str:
        return f"{new}{identity.removeprefix(old)}" if identity.startswith(f"{old}:") else identity

    for stored in await kept.owners():
        if stored.owner.startswith(f"{old}:"):
            memory = await kept.load(stored.owner, stored.agent)
            facts = tuple(fact.model_copy(update={"said_by": renamed(fact.said_by)}) for fact in memory.facts)
            await kept.save(renamed(stored.owner), memory.model_copy(update={"facts": facts}), stored.agent)
            await kept.delete(stored.owner, stored.agent)
