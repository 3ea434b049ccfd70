"""What does not work is known to status, `--check` and the administrators in a minute, and again when it is over."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.control.server import describe
from bot.operations.health import DEAF_AFTER, DISK_LOW, LATE_AFTER, SLOW_WRITE, HealthService, Part, Problem
from bot.operations.outages import GRACE, GRACE_AFTER_MANY, LOOK_SECONDS, MANY
from bot.store import Store
from bot.store.errors import StoreUnavailable
from bot.store.retrying import LONGEST_WAIT, RetryingStore
from channels.base import ConnectionState
from channels.errors import Fatal, RateLimited
from harness.config import ModelSettings
from harness.events import FailureKind
from harness.models.health import FAILURES_IN_A_ROW, ModelHealth
from tests.bot.core import ANN, BOB, RULES, core
from tests.clock import VirtualClock
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import Connection

    from bot.operations.health import Condition
    from tests.bot.core import Core

MINUTE = 60.0
BOTH = replace(
    RULES,
    allow=frozenset({"memory:1", "memory:2", "other:1", "other:2"}),
    admins=frozenset({"memory:1", "other:1"}),
)


@dataclass
class Watched:
    """A gateway whose administrators have talked to it on every account, and are told of outages."""

    core: Core

    def told(self, account: str, person: str = ANN) -> list[str]:
        """What somebody was told of outages."""
        return [text for text in self.core.channels[account].texts(person) if text.startswith(("⚠️", "✅"))]

    def ill(self) -> list[Condition]:
        return [each for each in self.core.health.conditions() if each.problem]

    async def check(self) -> bool:
        """What `antler status --check` exits by."""
        facts = await self.core.status.machine()
        assert json.loads(json.dumps(facts)) == facts
        healthy = facts["healthy"]
        assert isinstance(healthy, bool)
        assert healthy is ("NOT WELL" not in describe(facts))
        return healthy

    async def later(self, seconds: float = LOOK_SECONDS) -> None:
        await self.core.clock.advance(seconds)


@asynccontextmanager
async def watched(folder: Path, accounts: tuple[str, ...] = ("memory", "other")) -> AsyncIterator[Watched]:
    async with core(folder, BOTH, accounts=accounts) as c:
        for account in accounts:
            await c.say("hello", account=account)
        await c.answered()
        c.tasks.spawn("wires", _never_silent(c))
        c.tasks.spawn("outages", c.outages.serve())
        for account in accounts:
            c.outages.connected(account)
        c.tasks.spawn("admins", c.outages.know_admins())
        await c.clock.settle()
        made = Watched(c)
        assert await made.check()
        yield made


async def _never_silent(c: Core) -> None:
    while True:
        for channel in c.channels.values():
            channel.health.last_sign = c.clock.monotonic()
        await c.clock.sleep(30)


# Models.


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (FailureKind.AUTH, Problem.MODEL_AUTH),
        (FailureKind.QUOTA, Problem.MODEL_QUOTA),
        (FailureKind.NOT_FOUND, Problem.MODEL_UNKNOWN),
    ],
)
async def test_a_provider_that_refuses_is_told_at_once_and_once(
    tmp_path: Path, kind: FailureKind, problem: Problem
) -> None:
    async with watched(tmp_path) as w:
        w.core.models.failed("main", kind)
        assert not await w.check()
        assert [(each.part, each.name, each.problem) for each in w.ill()] == [(Part.MODEL, "main", problem)]
        await w.later()
        for _ in range(3):
            w.core.models.failed("main", kind)
            await w.later(MINUTE)
        for account in ("memory", "other"):
            (told,) = w.told(account)
            assert "the model `main`" in told
        w.core.models.succeeded("main")
        assert await w.check()
        await w.later(MINUTE)
        for account in ("memory", "other"):
            assert w.told(account)[1:] == ["✅ The model `main` is answering again, after 3 min."]
        assert w.told("memory", BOB) == []


async def test_other_failures_count_when_there_are_many_in_a_row(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        w.core.models.configure([ModelSettings(name="main", model="sim-1")])
        for _ in range(3):
            for _ in range(FAILURES_IN_A_ROW - 1):
                w.core.models.failed("main", FailureKind.UNAVAILABLE)
            assert await w.check()
            w.core.models.failed("main", FailureKind.CONTENT_FILTER)  # an answer of the provider's
        for _ in range(FAILURES_IN_A_ROW):
            w.core.models.failed("main", FailureKind.TIMEOUT)
        assert [each.problem for each in w.ill()] == [Problem.MODEL_FAILING]
        await w.later(GRACE - LOOK_SECONDS)
        assert w.told("memory") == [], "most pass before"
        w.core.models.failed("main", FailureKind.OVERLOADED)
        await w.later(2 * LOOK_SECONDS)
        (told,) = w.told("memory")
        assert told == "⚠️ The model `main (sim-1)` is not answering (overloaded, 6 failed calls in a row)."


async def test_administrators_read_the_providers_name_of_a_model_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path) as w:
        w.core.models.configure([ModelSettings(name="main", model="sim-1"), ModelSettings(name="other")])
        for name in ("main", "other"):
            w.core.models.failed(name, FailureKind.AUTH)
        await w.later()
        for name in ("main", "other"):
            w.core.models.succeeded(name)
        await w.later()
        first, second, third, fourth = sorted(w.told("memory"))
        assert "the model `main (sim-1)`" in first
        assert "the model `other`" in second
        assert third.startswith("✅ The model `main (sim-1)` is answering again, after")
        assert fourth.startswith("✅ The model `other` is answering again, after")
        assert "failing: model main (sim-1) (auth" in caplog.text


async def test_what_began_often_today_has_to_last_before_it_is_told_again(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        for _ in range(MANY + 3):
            w.core.models.failed("main", FailureKind.AUTH)
            await w.later()
            w.core.models.succeeded("main")
            await w.later()
        assert len(w.told("memory")) == 2 * MANY
        w.core.models.failed("main", FailureKind.AUTH)
        await w.later(GRACE_AFTER_MANY + LOOK_SECONDS)
        assert len(w.told("memory")) == 2 * MANY + 1


async def test_a_model_that_nobody_asks_keeps_its_state_and_says_how_old_that_is(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        w.core.models.failed("main", FailureKind.AUTH)
        w.core.models.succeeded("other")
        await w.later(12 * MINUTE)
        told = describe(await w.core.status.machine())
        assert "NOT WELL model main: model auth for 720 s (auth, 1 failed call in a row, last called 12 min ago" in told
        assert "  model other: works, last called 12 min ago" in told
        w.core.models.failed("main", FailureKind.AUTH)
        told = describe(await w.core.status.machine())
        assert "NOT WELL model main: model auth for 720 s (auth, 2 failed calls in a row)" in told


# Both directions of an account.


async def test_an_account_that_cannot_send_is_told_through_another(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        c.channel.fail("send", Fatal("invalid_auth", "set another token"))
        await c.say("hello again", BOB)
        await w.later()
        assert c.channel.health.state is ConnectionState.CONNECTED
        assert not await w.check()
        assert "NOT WELL sending memory: sending stopped for" in describe(await c.status.machine())
        assert w.told("memory") == []
        (told,) = w.told("other")
        assert told.startswith("⚠️ The account `memory` cannot send anything")
        await c.delivery.reconnect(c.channel)  # it sends again
        await w.later()
        assert await w.check()
        assert w.told("other")[1:] == []
        assert w.told("memory") == ["✅ The account `memory` can send again, after 10 s."]


async def test_an_answer_that_waits_to_be_sent_is_told(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        gates = [c.channel.hold("send"), c.channel.hold("edit"), c.channel.hold("preview")]
        await c.say("hello again", BOB)
        await w.later(LATE_AFTER - 5)
        assert await w.check()
        await w.later(MINUTE - LATE_AFTER + 5)
        assert not await w.check()
        assert [(each.part, each.name, each.problem) for each in w.ill()] == [(Part.SENDING, "memory", Problem.LATE)]
        (told,) = w.told("other")
        assert told.startswith("⚠️ On the account `memory`, an answer has been waiting to be sent for")
        for gate in gates:
            gate.set()
        await w.later()
        assert await w.check()
        assert w.told("memory")[0].startswith("✅ The account `memory` can send again")


async def test_a_pause_that_the_platform_asked_for_is_no_lateness(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        c.channel.fail("send", RateLimited("flood", 200.0))
        await c.say("hello again", BOB)
        await w.later(3 * MINUTE)
        assert await w.check()
        assert w.told("other") == []
        assert "  sending memory: limited by the platform for 20 s" in describe(await c.status.machine())
        gates = [c.channel.hold("send"), c.channel.hold("edit"), c.channel.hold("preview")]
        await w.later(20 + LATE_AFTER - 5)
        assert await w.check()
        await w.later(MINUTE - LATE_AFTER)
        assert [(each.part, each.name, each.problem) for each in w.ill()] == [(Part.SENDING, "memory", Problem.LATE)]
        assert w.told("other")[0].startswith("⚠️ On the account `memory`, an answer has been waiting to be sent for")
        for gate in gates:
            gate.set()
        await w.later()
        assert await w.check()
        assert "limited" not in describe(await c.status.machine())


async def test_a_lost_connection_is_told_when_it_lasts(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c, health = w.core, w.core.channels["other"].health
        for _ in range(3):
            health.state = ConnectionState.RETRYING
            await w.later(30)
            health.state = ConnectionState.CONNECTED
            await w.later()
        assert w.told("memory") == []
        health.state, health.detail = ConnectionState.RETRYING, "no route to api.other.example"
        assert not await w.check()
        await w.later(MINUTE)
        (told,) = w.told("memory")
        assert told.startswith("⚠️ The account `other` has been disconnected for")
        assert "api.other.example" in told.replace("\\", "")
        health.state = ConnectionState.CONNECTED
        await w.later()
        assert w.told("memory")[1:] + w.told("other") == ["✅ The account `other` is connected again, after 70 s."]
        assert (await c.status.machine())["healthy"] is True


async def test_where_nobody_can_be_told_it_waits(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        for account in ("memory", "other"):
            c.channels[account].health.state = ConnectionState.RETRYING
        c.models.failed("main", FailureKind.AUTH)
        await w.later(MINUTE)
        assert w.told("memory") + w.told("other") == []
        c.channels["other"].health.state = ConnectionState.CONNECTED
        await w.later()
        told = " ".join(w.told("other"))
        assert "the model `main`" in told
        assert "The account `memory` has been disconnected" in told
        assert "✅ The account `other` is connected again" in told


# The store and its disk.


async def test_a_store_that_takes_nothing_is_told_past_the_store(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        other_program = sqlite3.connect(tmp_path / "antler.db", isolation_level=None)
        other_program.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await Store.write(c.store, lambda tx: None)
        assert [each.problem for each in w.ill()] == [Problem.STORE_UNAVAILABLE]
        assert not await w.check()
        await w.later()
        for account in ("memory", "other"):
            (told,) = w.told(account)
            assert told.startswith("⚠️ The database cannot be written to (")
            assert "locked by another program" in told
        other_program.close()
        await c.store.write(lambda tx: None)
        await w.later()
        assert await w.check()
        assert w.told("memory")[1:] == ["✅ The database can be written to again, after 20 s."]


async def test_what_waits_is_told_though_other_writes_are_taken(tmp_path: Path) -> None:
    """As when another session holds a lock on one table."""
    locked = True

    def unit(tx: Connection) -> None:
        if locked:
            raise StoreUnavailable("the table is locked")

    async with watched(tmp_path) as w:
        c = w.core
        waiting = asyncio.create_task(c.parts.patient.write(unit))
        await w.later()
        await Store.write(c.store, lambda tx: None)
        (ill,) = w.ill()
        assert (ill.problem, ill.detail) == (Problem.STORE_UNAVAILABLE, "the table is locked")
        locked = False
        await c.clock.advance(LONGEST_WAIT)
        await waiting
        assert w.ill() == []


async def test_the_age_of_the_write_in_hand_is_known(tmp_path: Path) -> None:
    clock, began, goes_on = VirtualClock(), threading.Event(), threading.Event()

    def unit(tx: Connection) -> None:
        began.set()
        goes_on.wait(30)

    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    health = HealthService(
        connections=dict,
        sending=tuple,
        models=ModelHealth(),
        store=RetryingStore(store, clock),
        folder=tmp_path,
        clock=clock,
    )
    write = asyncio.create_task(store.write(unit))
    await asyncio.to_thread(began.wait, 30)

    def slow() -> list[float]:
        return [clock.monotonic() - c.since for c in health.conditions() if c.problem is Problem.STORE_SLOW]

    await clock.advance(SLOW_WRITE)
    assert slow() == []
    await clock.advance(1)
    assert slow() == [SLOW_WRITE + 1]
    goes_on.set()
    await write
    assert slow() == []
    await store.close()


async def test_a_disk_without_room_is_told(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        w.core.health._folder = Path("/proc")  # a file system without a free byte
        assert not await w.check()
        await w.later()
        assert w.told("memory") == ["⚠️ The disk that holds `data_dir` is almost full (0 MB free)."]
        w.core.health._folder = tmp_path
        assert await w.check()
        await w.later()
        assert w.told("memory")[1:] == ["✅ The disk that holds `data_dir` has free space again, after 20 s."]


# What an earlier process told.


@asynccontextmanager
async def restarted(w: Watched) -> AsyncIterator[None]:
    """The process ends, and the next one begins as `watched` does; what is done in between is done at its start."""
    c = w.core
    await c.crash()
    yield
    c.models = ModelHealth(c.clock.monotonic)
    await c.start()
    await c.clock.settle()  # until the accounts are connected, else they count as stopped
    c.tasks.spawn("wires", _never_silent(c))
    c.tasks.spawn("outages", c.outages.serve())
    for account in c.accounts:
        c.outages.connected(account)
    await c.clock.settle()


async def test_that_an_outage_is_over_is_told_by_the_next_process_too(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        c.models.failed("main", FailureKind.AUTH)
        await w.later()
        (told,) = w.told("memory")
        (kept,) = json.loads((tmp_path / "outages.json").read_text())
        assert kept | {"began": ""} == {
            "part": "model",
            "name": "main",
            "problems": ["model_auth"],
            "began": "",
            "number": 0,
            "on": f"{c.clock.now():%Y-%m-%d}",
        }
        async with restarted(w):
            await w.later(MINUTE)
        await w.later(5 * MINUTE)
        assert w.told("memory") == [told]  # nobody has asked the model since
        c.models.failed("main", FailureKind.AUTH)
        await w.later()
        assert w.told("memory") == [told]
        async with restarted(w):
            pass
        c.models.succeeded("main")
        await w.later()
        assert w.told("memory")[1:] == w.told("other")[1:] == ["✅ The model `main` is answering again, after 6 min."]
        async with restarted(w):
            pass
        c.models.succeeded("main")
        await w.later(MINUTE)
        assert len(w.told("memory")) == 2
        c.models.failed("main", FailureKind.AUTH)
        await w.later()
        assert len(w.told("memory")) == 3


async def test_an_account_that_could_not_send_is_believed_when_it_has_sent(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        c.channel.fail("send", Fatal("invalid_auth", "set another token"))
        await c.say("hello again", BOB)
        await w.later()
        c.channel.fail("send", *[Fatal("invalid_auth", "set another token")] * 3)
        async with restarted(w):
            pass
        await w.later(40)
        assert len(w.told("other")) == 1
        await w.later(2 * MINUTE)
        (over,) = w.told("other")[1:] + w.told("memory")
        assert over.startswith("✅ The account `memory` can send again, after ")


async def test_what_lasts_is_told_again_on_another_day(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        w.core.models.failed("main", FailureKind.AUTH)
        await w.later()
        for passed, told in ((MINUTE, 1), (86_400.0, 2)):
            async with restarted(w):
                await w.later(passed)
            w.core.models.failed("main", FailureKind.AUTH)
            await w.later()
            assert len(w.told("memory")) == told


@pytest.mark.parametrize("content", ["", "[", "{}", '[{"part": "lung"}]', "[1]", '[{"part": "disk", "name": ""}]'])
async def test_a_file_that_cannot_be_read_is_no_news(tmp_path: Path, content: str) -> None:
    (tmp_path / "outages.json").write_text(content)
    async with watched(tmp_path) as w:
        await w.later(MINUTE)
        assert w.told("memory") == []


# Who reads what.


async def test_status_tells_members_only_what_concerns_them(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        c = w.core
        c.channels["other"].health.state = ConnectionState.STOPPED
        c.channels["other"].health.detail = "the token of other was refused"
        c.channel.health.detail = "by way of proxy.example"
        c.models.failed("other", FailureKind.AUTH)
        for person in (ANN, BOB):
            await c.say("/status", person)
        await c.answered()
        admin, member = c.texts(ANN)[-1].replace("\\", ""), c.texts(BOB)[-1].replace("\\", "")
        for secret in ("the token of other was refused", "proxy.example", "the model `other`"):
            assert secret in admin
            assert secret not in member
        assert "other" not in member
        c.models.failed("main", FailureKind.AUTH)
        await c.say("/status", BOB)
        await c.answered()
        assert "Model: `main`, which cannot answer right now" in c.texts(BOB)[-1]


def test_the_docs_name_every_problem_with_its_threshold() -> None:
    told = (REPO_ROOT / "docs" / "reliability.md").read_text()
    table = told[told.index("| part | problem |") : told.index("These are the names")]
    assert set(re.findall(r"^\|[^|]*\| `(\w+)` \|", table, re.MULTILINE)) == set(Problem)
    assert {part for part in Part if f"| `{part}`" in table} == set(Part)
    seconds = {f"{DEAF_AFTER:.0f} s", f"{LATE_AFTER:.0f} s", f"{SLOW_WRITE:.0f} s", f"after {GRACE:.0f} s"}
    for threshold in (*seconds, f"{DISK_LOW // 1_000_000} MB", f"newest {FAILURES_IN_A_ROW} calls"):
        assert threshold in table
