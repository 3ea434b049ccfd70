"""Budgets: told at 80 %, the end at 100 %, anew at midnight; counted by the store, so restarts change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select

from bot.clock import SystemClock
from bot.settings.sections import BudgetsSettings
from bot.store import Store, runs, sql
from bot.store import usage as calls
from bot.store.retrying import RetryingStore
from bot.store.rows import RunState
from bot.store.tables import usage
from bot.texts.en import EN
from bot.usage.budgets import Payer, Scope
from bot.usage.meter import Meter
from bot.usage.report import make_spending
from harness.config import PriceSettings
from harness.events import FailureKind, Finished, Outcome, TextDelta, Usage
from harness.ports import Overdraft
from tests.bot.core import ANN, BOB, Core, core
from tests.bot.store.samples import run_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from bot.store.rows import RunRow
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller
    from tests.simulators.postgres import PostgresServer

PRICES = {"sim": PriceSettings(input=1000, output=0)}  # a thousandth for a token read
MIDNIGHT = " It resets in {}, at midnight (UTC)."


def used(tokens: int) -> Any:
    return lambda tell: tell(Usage, model="sim", input_tokens=tokens, output_tokens=0)


def answers(c: Core, tokens: int, text: str = "q") -> None:
    """For that message one call with so many tokens, and an answer."""
    c.harness.tells(text, used(tokens), lambda tell: tell.answer("done"))


async def asked(c: Core, person: str = BOB, text: str = "q", **more: Any) -> str:
    chat = more.get("chat") or person
    before = len(c.texts(chat))
    await c.say(text, person, **more)
    await c.answered()
    return "\n".join(c.texts(chat)[before:])


async def last_run(c: Core, conversation: str) -> RunRow:
    newest: list[RunRow] = await c.store.read(lambda tx: runs.recent(tx, conversation, 1))
    return newest[0]


def warning(scope: str, percent: int) -> str:
    return EN.budgets["warning"].format(percent=percent, budget=EN.budget_of[scope])


def refused(scope: str) -> str:
    return EN.budgets["refused"].format(budget=EN.budget_of[scope])


async def test_a_conversations_day(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"conversation_day": {"tokens": 100}}) as c:
        answers(c, 40)
        assert await asked(c) == "done"
        assert await asked(c) == f"done\n\n{warning('conversation_day', 80)}{MIDNIGHT.format('24 h')}"
        assert await asked(c) == "done", "most of it is told once a day"
        await c.clock.advance(12 * 3600)
        assert await asked(c) == refused("conversation_day") + MIDNIGHT.format("12 h")
        run = await last_run(c, f"memory:{BOB}")
        assert (run.state, run.attempt) == (RunState.LIMITED, 0)
        assert len(c.harness.starts) == 3, "the agent did not hear of it"
        assert await asked(c, BOB, chat="g") == "done", "another conversation"
        await c.clock.advance(12 * 3600)
        assert await asked(c) == "done"


async def test_a_persons_day_is_the_same_in_every_chat(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"speaker_day": {"tokens": 100}}) as c:
        answers(c, 60)
        assert await asked(c) == "done"
        assert warning("speaker_day", 120) in await asked(c, BOB, chat="g")
        assert refused("speaker_day") in await asked(c)
        assert await asked(c, ANN, chat="g") == "done", "another person"


async def test_the_day_of_all_together(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"gateway_day": {"tokens": 100}}) as c:
        answers(c, 90)
        assert warning("gateway_day", 90) in await asked(c)
        assert await asked(c, ANN) == "done", "told once"
        assert refused("gateway_day") in await asked(c)


async def test_money(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"speaker_day": {"money": 0.1, "tokens": 10**9}}, prices=PRICES) as c:
        answers(c, 85)
        assert warning("speaker_day", 85) in await asked(c)
        await asked(c)
        assert refused("speaker_day") in await asked(c)


async def test_it_is_counted_and_refused_after_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"conversation_day": {"tokens": 100}}) as c:
        answers(c, 85)
        assert warning("conversation_day", 85) in await asked(c)
        await c.restart()
        assert warning("conversation_day", 170) not in await asked(c), "told already"
        await c.restart()
        assert refused("conversation_day") in await asked(c)


async def test_a_refused_message_can_be_tried_again_the_next_day(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"conversation_day": {"tokens": 100}}) as c:
        answers(c, 100)
        await asked(c)
        assert refused("conversation_day") in await asked(c)
        assert refused("conversation_day") in await asked(c, text="/retry")
        await c.clock.advance(86_400)
        assert "done" in await asked(c, text="/retry")


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(99, None), (100, Overdraft("run.tokens", small=True)), (120, Overdraft("run.tokens", small=True)),
     (121, Overdraft("run.tokens", small=False))],
)  # fmt: skip
async def test_what_the_agent_is_told_before_each_call(tmp_path: Path, tokens: int, expected: Overdraft | None) -> None:
    async with core(tmp_path, budgets={"run": {"tokens": 100}, "conversation_day": {"tokens": 1000}}) as c:
        found: list[Overdraft | None] = []

        async def rounds(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            found.append(await c.spending.budgets.overdraft(tell.ctx))
            yield used(tokens)(tell)
            found.append(await c.spending.budgets.overdraft(tell.ctx))
            yield tell.answer("done")

        c.harness.scripts["q"] = rounds
        await asked(c)
        assert found == [None, expected]


async def test_a_run_that_was_stopped_says_by_which_budget(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"run": {"tokens": 100}, "speaker_day": {"tokens": 1000}}) as c:
        stop = EN.budgets["stopped"].format(budget=EN.budget_of["run"])

        def summed_up(tell: Teller) -> Finished:
            return tell(Finished, outcome=Outcome.LIMITED, text="So far.", message_id="a", budget="run.tokens")

        c.harness.tells("q", used(110), summed_up)
        assert await asked(c) == f"So far.\n\n{stop}"
        assert (await last_run(c, f"memory:{BOB}")).state is RunState.LIMITED

        def over(tell: Teller) -> Any:
            return replace(tell.failed(FailureKind.BUDGET), detail_for_log="run.tokens")

        c.harness.tells("q", lambda tell: tell(TextDelta, message_id="a", text="half"), used(500), over)
        said = await asked(c)
        assert said == f"half\n\n{EN.failures[FailureKind.BUDGET]}\n\n{EN.partial}\n\n{stop}"
        run = await last_run(c, f"memory:{BOB}")
        assert run.state is RunState.LIMITED
        assert not any(bubble.part.buttons for bubble in c.channel.chats[BOB]), "trying again would not help"


async def test_runs_that_end_together_tell_once(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"gateway_day": {"tokens": 100}}) as c:
        gate = c.harness.hold("never")

        async def together(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield used(45)(tell)
            await gate.wait()
            yield tell.answer("done")

        c.harness.scripts["q"] = together
        for person in (ANN, BOB):
            await c.say("q", person)
        await c.clock.settle()
        for person in (ANN, BOB):
            ctx = next(start.ctx for start in c.harness.starts if start.ctx.speaker.id == f"memory:{person}")
            assert await c.spending.budgets.overdraft(ctx) is None
        gate.set()
        await c.answered()
        assert sum(warning("gateway_day", 90) in text for text in (*c.texts(ANN), *c.texts(BOB))) == 1


async def test_usage_shows_the_budgets_and_administrators_all(tmp_path: Path) -> None:
    budgets = {"conversation_day": {"tokens": 1000}, "speaker_day": {"money": 2}, "gateway_day": {"tokens": 4000}}
    async with core(tmp_path, budgets=budgets, prices=PRICES) as c:
        answers(c, 500)
        await asked(c)
        line = EN.usage["budget"]
        mine = line.format(
            percent=50, budget=EN.budget_of["conversation_day"], spent="500", limit="1.00k",
            key="budgets.conversation_day.tokens",
        )  # fmt: skip
        money = line.format(
            percent=25, budget=EN.budget_of["speaker_day"], spent="0.5000 USD", limit="2.00 USD",
            key="budgets.speaker_day.money",
        )  # fmt: skip
        told = await asked(c, text="/usage")
        assert mine in told
        assert money in told
        assert "gateway_day" not in told
        assert "`budgets.gateway_day.tokens`" in await asked(c, ANN, text="/usage")
        assert "speaker_day" not in await asked(c, BOB, text="/usage", chat="g")


async def test_without_budgets_nothing_is_read(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert c.spending.budgets.none
        assert await c.spending.budgets.purses(Payer("c", "s", "r", "t"), list(Scope)) == []


async def test_a_summary_that_somebody_asks_for_is_paid_too(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"conversation_day": {"tokens": 100}}) as c:
        answers(c, 50)
        await asked(c)
        c.harness.summary = Usage(run_id="", seq=0, model="sim", input_tokens=40, output_tokens=10)
        assert EN.compact["nothing"] in await asked(c, text="/compact")
        payer = Payer(f"memory:{BOB}", f"memory:{BOB}")
        assert [purse.spent for purse in await c.spending.budgets.purses(payer)] == [100]
        assert refused("conversation_day") in await asked(c, text="/compact")
        assert len(c.harness.compacted) == 1


def of(tokens: int) -> Usage:
    return Usage(run_id="", seq=0, model="sim", input_tokens=tokens, output_tokens=0)


async def test_a_days_calls_are_summed_up_once(tmp_path: Path) -> None:
    limits = {
        "conversation_day": {"tokens": 10_000},
        "speaker_day": {"tokens": 10_000},
        "gateway_day": {"tokens": 10_000},
    }
    payer = Payer(f"memory:{BOB}", f"memory:{BOB}")

    async def spent(c: Core) -> list[int]:
        return [purse.spent for purse in await c.spending.budgets.purses(payer)]

    async with core(tmp_path, budgets=limits) as c:
        await c.spending.meter.charge(of(100), payer)
        assert await spent(c) == [100, 100, 100]
        await c.store.write(lambda tx: tx.execute(usage.update().values(input_tokens=7)))
        await c.spending.meter.charge(of(10), replace(payer, conversation="memory:g"))
        assert await spent(c) == [100, 110, 110], "what was counted is not read again"
        await c.restart()
        assert await spent(c) == [7, 17, 17]
        await c.clock.advance(24 * 3600)
        assert await spent(c) == [0, 0, 0]
        late = select(usage).order_by(usage.c.id.desc()).limit(1)
        row = (await c.store.read(lambda tx: tx.execute(late).one()))._mapping
        await c.store.write(lambda tx: tx.execute(usage.insert().values({**row, "id": None, "call": "late"})))
        assert await spent(c) == [0, 0, 0], "yesterday's, written today"


async def test_a_chat_that_moves_takes_along_what_it_has_spent(tmp_path: Path) -> None:
    async with core(tmp_path, budgets={"conversation_day": {"tokens": 100}}) as c:
        payer = Payer("memory:g", f"memory:{BOB}")
        answers(c, 70)
        assert await asked(c, BOB, chat="g") == "done"
        (before,) = await c.spending.budgets.purses(payer)
        await c.manager.migrate("memory", "g", "s")
        (after,) = await c.spending.budgets.purses(replace(payer, conversation="memory:s"))
        assert before.spent == after.spent == 70


@pytest.mark.postgres
async def test_a_call_that_another_worker_commits_late_counts(postgres: PostgresServer) -> None:
    """Its id was given before that of a call that has been counted already."""
    url, clock, payer = postgres.database(), SystemClock(), Payer("telegram:1", "telegram:1")
    opened = await Store.open(url, clock=clock)
    limits = BudgetsSettings.model_validate({"gateway_day": {"tokens": 100}})
    spending = make_spending(RetryingStore(opened, clock), clock, limits, {}, ZoneInfo("UTC"))

    async def spent() -> int:
        (account,) = await spending.budgets.purses(payer, (Scope.GATEWAY,))
        return account.spent

    assert await spent() == 0
    elsewhere = Meter(RetryingStore(opened, clock), clock, {}).open(run_row())
    elsewhere.add(of(40))
    engine = sql.writer_engine(sql.parse(url))
    with engine.connect() as tx:
        calls.add(tx, elsewhere.calls(run_row(), clock.now()))
        await spending.meter.charge(of(5), payer)
        assert await spent() == 5
        tx.commit()
    engine.dispose()
    assert [await spent(), await spent()] == [45, 45]
    await opened.close()
