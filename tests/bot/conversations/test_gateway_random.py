"""Whatever people, the platform, the model, the disk and the operator do, in whatever order: the promises are kept.

HYPOTHESIS_EXAMPLES=2000 plays longer than the suite does.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.access.admission import AccountPolicy
from bot.settings.busy_policies import Busy, TurnRules
from tests.bot import gateway_promises as promises
from tests.bot.core import ANN, BOB, EVE
from tests.bot.gateway_play import FAULTS, RULES, Step, new_play
from tests.bot.played_agent import ENDINGS
from tests.memory_channel import APPEND_ONLY, FULL, NO_EDIT, NO_IDEMPOTENCY, RESUMED, MemoryMode
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_PAUSE = 120.0

people = st.sampled_from([ANN, ANN, ANN, ANN, BOB, BOB, EVE])
chats = st.sampled_from([None, None, None, None, "g", "g", "g", "k", "h"])
played = st.builds("{}:{}".format, st.text("tttssTTwwhh", max_size=4), st.sampled_from(ENDINGS))
lengthy = st.sampled_from(["sh:ok", "tsh:ok", "Tw:ok", "tswt:long", "h:fail", "sw:ok"])
commands = st.sampled_from(
    [
        *("/new", "/stop", "/status", "/models", "/models other", "/models main", "/queue", "/queue clear", "/retry"),
        *("/cancel", "/reset", "stop", "取消。"),
    ]
)
refs = st.lists(st.sampled_from(["a", "slow", "gone", "slow-gone"]), min_size=1, max_size=2).map(tuple)
methods = st.sampled_from(["send", "send", "edit", "edit", "find", "open_stream", "stream", "finish"])


def step(kind: str, *details: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(kind), *details)


says = step("say", people, chats, played)
meets = step("meet", people, chats, lengthy, played)
steps = st.one_of(
    st.just(("nothing",)),
    says,
    says,
    says,
    meets,
    meets,
    meets,
    step("command", people, chats, commands),
    step("mutter", people, st.sampled_from(["g", "h"]), played),
    step("files", people, chats, played | st.just(""), refs, st.sampled_from([1, 900, 1100])),
    step("bundle", people, chats, st.lists(played, min_size=2, max_size=3).map(tuple), st.sampled_from([0, 0.5, 1.0])),
    step("edit", st.integers(0, 3), played),
    step("press", people, st.integers(0, 5)),
    step("press", st.just(ANN), st.integers(0, 9)),
    step("again", st.integers(0, 5)),
    step("swap", played, played, people, chats),
    step("wait", st.sampled_from([0.1, 1.0, 1.0, 6.0, 6.0, 30.0, LONGEST_PAUSE])),
    step("fault", methods, st.sampled_from(sorted(FAULTS))),
    step("fault", methods, st.sampled_from(sorted(FAULTS))),
    step("slow", st.sampled_from([0.0, 0.0, 3.0])),
    step("connection", st.booleans()),
    step("disk", st.booleans()),
    step("release"),
    step("probe"),
    step("kill", st.sampled_from([0, 0, 1, 2, 5, 9])),
    step("kill_at", st.integers(1, 60)),
    step("kill_at", st.integers(1, 60)),
    step("stop"),
    step("start"),
)
plans = st.lists(steps, min_size=15, max_size=30)
policies = st.builds(
    AccountPolicy,
    access=st.builds(replace, st.just(RULES), pairing=st.booleans()),
    turns=st.builds(TurnRules, st.sampled_from(Busy), st.sampled_from([0.0, 0.0, 1.0]), st.sampled_from([0.0, 3.0])),
    group_scope=st.sampled_from(["chat", "speaker"]),
)


async def check(mode: MemoryMode, policy: AccountPolicy, plan: Sequence[Step]) -> None:
    before = asyncio.all_tasks()
    with tempfile.TemporaryDirectory() as folder:
        play = new_play(Path(folder), mode, policy)
        play.checks.append(promises.of_a_process)
        try:
            await play.boot()
            await play.play(plan)
            await play.heal()
            await play.clock.advance(600)
            await promises.nobody_waits_for_another(play)
            while any(play.agent.hanging.values()):
                play.agent.release()
                await play.clock.advance(60)
            await play.core.answered()
            await play.clock.advance(LONGEST_PAUSE)
            promises.of_a_process(play)
            await promises.kept(play)
        finally:
            await play.close()
        assert play.clock.sleeping == 0
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(FULL, id="full"),
        pytest.param(NO_EDIT, id="no-edit", marks=pytest.mark.slow),
        pytest.param(APPEND_ONLY, id="append-only", marks=pytest.mark.slow),
        pytest.param(RESUMED, id="resumed", marks=pytest.mark.slow),
        pytest.param(NO_IDEMPOTENCY, id="no-idempotency", marks=pytest.mark.slow),
    ],
)
@given(policy=policies, plan=plans)
@example(AccountPolicy(access=RULES), [("bundle", "1", None, (":ok", ":ok"), 0), ("say", "1", None, ":ok"), ("stop",)])
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
def test_promises_are_kept_whatever_happens(mode: MemoryMode, policy: AccountPolicy, plan: list[Step]) -> None:
    logging.disable()
    try:
        asyncio.run(check(mode, policy, plan))
    finally:
        logging.disable(logging.NOTSET)
