"""Whatever people say and command, wherever, in whatever order, killed at any time: each memory is its owner's alone.

Each message has a canary of its own. A machine of hypothesis plays persons, chats, groups and accounts against the
real core; its model learns every word, and after each step every canary is hunted in memories, in what is queued, in
what the agent is told, in the chats with their files, and in the log. HYPOTHESIS_EXAMPLES plays longer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from bot.access.admission import AccessRules
from bot.store.identity import conversation_key, owner_of
from bot.store.memory_tables import memory_queue
from channels.message import Address, Sender
from harness.memory.config import MemorySettings
from tests.bot.core import core
from tests.bot.memory.learner import Learner
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.bot.core import Core

ACCOUNTS = ("memory", "other")
PEOPLE = ("1", "2")
GROUPS = ("g", "k")
CANARY = re.compile(r"canary\d+x")

Where = tuple[str, str, str | None]
"""Account, person, group. Few, so that what happens to one of them meets."""
wheres: st.SearchStrategy[Where] = st.sampled_from(
    [
        *(("memory", "1", None), ("memory", "1", "g"), ("memory", "2", None), ("memory", "2", "g")),
        *(("memory", "1", None), ("other", "1", None), ("memory", "1", "k")),
    ]
)
commands = st.sampled_from(
    [
        *("/memory", "/memory search canary", "/memory forget 1", "/memory forget 1 2", "/memory edit 1 {canary}"),
        *("/memory add {canary}", "/memory export", "/new", "/undo", "/retry"),
    ]
)


class Log(logging.Handler):
    """All that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("bot.", "harness.", "channels.")):
            self.lines.append(self.format(record))


class Isolation(RuleBasedStateMachine):
    """said: the canaries of each owner. lost: those of them that a person had forgotten, or that were said while the
    memory was off."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.said: defaultdict[str, set[str]] = defaultdict(set)
        self.lost: defaultdict[str, set[str]] = defaultdict(set)
        self.shown: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.off: set[str] = set()
        self.count = 0
        self.log = Log()
        self.stack = AsyncExitStack()

    @initialize(scope=st.sampled_from(["chat", "speaker"]))
    def begin(self, scope: str) -> None:
        self.scope: Any = scope
        self.learner = Learner(memories=lambda: self.world.memory)
        logging.getLogger().addHandler(self.log)
        self.world = self.do(self._open())

    async def _open(self) -> Core:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        persons = frozenset(f"{account}:{person}" for account in ACCOUNTS for person in PEOPLE)
        rules = AccessRules(
            allow=persons,
            admins=frozenset(f"{account}:1" for account in ACCOUNTS),
            groups=frozenset(f"{account}:{group}" for account in ACCOUNTS for group in GROUPS),
        )
        made = core(
            Path(folder),
            rules,
            accounts=ACCOUNTS,
            harness=self.learner,
            memory_settings=MemorySettings(max_facts=1000),
            group_scope=self.scope,
        )
        return await self.stack.enter_async_context(made)

    def teardown(self) -> None:
        logging.getLogger().removeHandler(self.log)
        self.do(self.stack.aclose())
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def owner(self, account: str, person: str, group: str | None) -> str:
        address = Address(account=account, chat=group or person, kind="group" if group else "dm")
        sender = Sender(id=person, display_name="Ann")
        return owner_of(address, sender, conversation_key(address, sender, self.scope))

    def canary(self, owner: str, place: tuple[str, str]) -> str:
        self.count += 1
        canary = f"canary{self.count}x"
        self.said[owner].add(canary)
        self.shown[place].add(canary)
        if owner in self.off:
            self.lost[owner].add(canary)
        return canary

    # Steps.

    @rule(where=wheres, mention=st.sampled_from([True, True, False]))
    def say(self, where: Where, mention: bool) -> None:
        (account, person, group), owner = where, self.owner(*where)
        text = f"my word is {self.canary(owner, (account, group or person))}"
        self.do(self._say(text, person, group, account=account, mention=mention or group is None))

    @rule(where=wheres, text=commands)
    def command(self, where: Where, text: str) -> None:
        (account, person, group), owner = where, self.owner(*where)
        if "{canary}" in text:
            text = text.format(canary=self.canary(owner, (account, group or person)))
        before = self.remembered(owner)
        self.do(self._say(text, person, group, account=account))
        if text.startswith("/memory forget") and self.remembered(owner) != before:
            self.lost[owner] |= self.said[owner] - self.remembered(owner)  # what was not learnt yet never will be

    @rule(where=wheres, off=st.booleans())
    def switch(self, where: Where, off: bool) -> None:
        (account, person, group), owner = where, self.owner(*where)
        if group is None or person == "1":
            self.off = self.off | {owner} if off else self.off - {owner}
            self.lost[owner] |= self.said[owner] - self.remembered(owner) if off else set()
        self.do(self._say("/memory off" if off else "/memory on", person, group, account=account))

    @rule(where=wheres)
    def forget_all(self, where: Where) -> None:
        (account, person, group), owner = where, self.owner(*where)
        self.do(self._say("/memory forget all", person, group, account=account))
        if group is not None and person != "1":
            return
        self.do(self.world.memory.forget_all(owner))  # as its button does
        self.lost[owner] |= self.said[owner]

    @rule(person=st.sampled_from(PEOPLE))
    def forget_me(self, person: str) -> None:
        self.do(self.world.memory.forget_everywhere(f"memory:{person}"))
        owner = f"memory:{person}"
        self.lost[owner] |= self.said[owner]

    @rule(where=wheres)
    def say_and_be_learnt_from(self, where: Where) -> None:
        self.say(where, mention=True)
        self.wait(31.0)

    @precondition(lambda self: self.learner.held is None)
    @rule(where=wheres, how=st.sampled_from(["forget", "off", "edit", "die"]))
    def meet_an_update(self, where: Where, how: str) -> None:
        """A command while the model is asked what there is to learn."""
        self.hold()
        self.say_and_be_learnt_from(where)
        if how == "forget":
            self.forget_all(where)
        elif how == "off":
            self.switch(where, off=True)
        elif how == "edit":
            self.command(where, "/memory edit 1 {canary}")
        else:
            self.die()
        if self.learner.held is not None:
            self.release()

    @rule(seconds=st.sampled_from([1.0, 31.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.do(self.world.clock.advance(seconds))

    @rule()
    def die(self) -> None:
        self.learner.held = None
        self.do(self.world.restart())

    @precondition(lambda self: self.learner.held is None)
    @rule()
    def hold(self) -> None:
        self.learner.held = asyncio.Event()

    @precondition(lambda self: self.learner.held is not None)
    @rule()
    def release(self) -> None:
        held, self.learner.held = self.learner.held, None
        assert held is not None
        held.set()
        self.do(self.world.clock.settle())

    async def _say(self, text: str, person: str, group: str | None, **more: Any) -> None:
        await self.world.receive(self.world.message(text, person, group, **more))
        await self.world.answered()

    # The hunt.

    def remembered(self, owner: str) -> set[str]:
        memory = self.world.kept.kept.get(owner)
        return set() if memory is None else set(CANARY.findall(memory.to_json()))

    @invariant()
    def memories_are_their_owners(self) -> None:
        if not hasattr(self, "world"):
            return
        for owner in self.world.kept.kept:
            assert self.remembered(owner) <= self.said[owner] - self.lost[owner], f"the memory of {owner}"
        for owner, exchange in self.do(self.world.store.read(_queued)):
            assert set(CANARY.findall(exchange)) <= self.said[owner] - self.lost[owner], f"the queue of {owner}"

    @invariant()
    def the_agent_is_told_nothing_of_others(self) -> None:
        for owner, told in getattr(self, "learner", Learner()).prompts:
            group = owner.partition("@")[0]
            here = {
                canary for each, canaries in self.said.items() if each.partition("@")[0] == group for canary in canaries
            }
            assert set(CANARY.findall(told)) <= here, f"what the agent was told for {owner}"
        for owner, memory in getattr(self, "learner", Learner()).known:
            assert set(CANARY.findall(memory)) <= self.said[owner], f"what the agent was told of {owner}"

    @invariant()
    def chats_show_nothing_of_others(self) -> None:
        if not hasattr(self, "world"):
            return
        for account, channel in self.world.channels.items():
            for chat, bubbles in channel.chats.items():
                shown = [bubble.part.text for bubble in bubbles]
                files = [bubble.part.file for bubble in bubbles if bubble.part.file is not None]
                shown += [file.path.read_text() for file in files if file.path.exists()]
                assert set(CANARY.findall("\n".join(shown))) <= self.shown[account, chat], (
                    f"the chat {chat} of {account}"
                )

    @invariant()
    def the_log_says_nothing(self) -> None:
        assert CANARY.findall("\n".join(self.log.lines)) == []
        self.log.lines.clear()


def _queued(tx: Any) -> list[tuple[str, str]]:
    return [tuple(row) for row in tx.execute(select(memory_queue.c.owner, memory_queue.c.exchange))]


def test_nobody_ever_sees_what_another_said() -> None:
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        run_state_machine_as_test(
            Isolation,
            settings=settings(
                max_examples=examples(5),
                stateful_step_count=15,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        logging.getLogger().setLevel(level)
