"""Approvals: put to people once, decided once and in time, allowed for a chat; on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.runs.approval_cards import prompt_of
from bot.runs.approvals import MOST_OF_A_CHAT, MOST_OF_A_RUN, WINDOW, StoreApprovals
from bot.store import Store, accounts, conversations, overview, prompts, runs
from bot.store.prompts import EVERYBODY, MOST_GRANTS, ApprovalRow, Decided
from bot.store.retrying import RetryingStore
from bot.store.rows import RunState
from harness.guardrails.approvals import Approval
from tests.bot.store.samples import LATER, NOW, OWNER, pruned, run_row

if TYPE_CHECKING:
    from sqlalchemy import Connection

ADMIN = "telegram:99"


def approval(number: int = 1, **changes: Any) -> ApprovalRow:
    """A request of run r that runs out a minute after NOW."""
    values: dict[str, Any] = {
        "prompt_id": f"a{number}",
        "run_id": "r",
        "call_id": f"r-1/call-{number}",
        "args_hash": f"hash{number}",
        "conversation": OWNER,
        "requester": OWNER,
        "tool": "send",
        "shown": "to: Ann",
        "why": "",
        "coverage": "tool:",
        "asked_at": NOW,
        "expires_at": LATER,
    }
    return ApprovalRow(**(values | changes))


def ask(tx: Connection, *rows: ApprovalRow) -> list[ApprovalRow]:
    return prompts.ask_approvals(tx, [(row, prompt_of(row)) for row in rows])


async def test_open_requests_of_one_person_are_found_among_many(store: Store) -> None:
    await store.write(lambda tx: ask(tx, approval(1), approval(2), approval(3, requester="telegram:8")))
    assert await store.read(lambda tx: overview.open_approvals(tx, NOW, 2)) == ["a1", "a2"]
    assert await store.read(lambda tx: overview.open_approvals(tx, NOW, 2, "telegram:8")) == ["a3"]


async def test_the_same_is_asked_once(store: Store) -> None:
    first, second = approval(1), approval(2)
    assert await store.write(lambda tx: ask(tx, first)) == [first]
    assert await store.write(lambda tx: ask(tx, first, second)) == [second]
    assert await store.read(lambda tx: prompts.open_approvals(tx, "r")) == [first, second]
    prompt = await store.read(lambda tx: prompts.load(tx, "a1"))
    assert prompt is not None
    assert (prompt.run_id, prompt.args_hash, prompt.expires_at) == ("r", "hash1", LATER)


@pytest.mark.parametrize("decision", [Decided.ONCE, Decided.DENY])
async def test_it_is_decided_once(store: Store, decision: Decided) -> None:
    await store.write(lambda tx: ask(tx, approval()))
    made = await store.write(lambda tx: prompts.decide(tx, "a1", decision, OWNER, NOW, reason="because"))
    assert made is not None
    assert (made.decision, made.decided_by, made.reason) == (decision, OWNER, "because")

    def again(tx: Connection) -> list[ApprovalRow | None]:
        return [prompts.decide(tx, "a1", other, ADMIN, NOW) for other in Decided]

    assert await store.write(again) == [None] * len(Decided)
    assert await store.write(lambda tx: prompts.expire_approvals(tx, "r", LATER)) == []
    assert await store.write(lambda tx: prompts.stop_approvals(tx, "r", NOW)) == []
    found = await store.read(lambda tx: prompts.decisions(tx, "r"))
    assert found == {("r-1/call-1", "hash1"): Approval(decision is Decided.ONCE, "because")}
    prompt = await store.read(lambda tx: prompts.load(tx, "a1"))
    assert prompt is not None
    assert prompt.answer == decision


async def test_nobody_decides_in_time(store: Store) -> None:
    await store.write(lambda tx: ask(tx, approval(1), approval(2, expires_at=LATER + timedelta(minutes=1))))
    assert await store.write(lambda tx: prompts.expire_approvals(tx, "r", LATER - timedelta(seconds=1))) == []
    assert await store.write(lambda tx: prompts.decide(tx, "a1", Decided.ONCE, OWNER, LATER)) is None
    assert await store.write(lambda tx: prompts.await_reason(tx, "a1", OWNER, LATER)) is None
    (late,) = await store.write(lambda tx: prompts.expire_approvals(tx, "r", LATER))
    assert (late.prompt_id, late.decision, late.decided_by) == ("a1", Decided.EXPIRED, None)
    assert [row.prompt_id for row in await store.read(lambda tx: prompts.open_approvals(tx, "r"))] == ["a2"]
    decided = await store.read(lambda tx: prompts.decisions(tx, "r"))
    assert decided == {("r-1/call-1", "hash1"): Approval(False)}


async def test_a_run_that_ends_denies_what_it_waits_for(store: Store) -> None:
    await store.write(lambda tx: ask(tx, approval(1), approval(2), approval(3, run_id="other")))
    await store.write(lambda tx: prompts.decide(tx, "a1", Decided.ONCE, OWNER, NOW))
    stopped = await store.write(lambda tx: prompts.stop_approvals(tx, "r", NOW))
    assert [(row.prompt_id, row.decision) for row in stopped] == [("a2", Decided.STOPPED)]
    assert [row.prompt_id for row in await store.read(lambda tx: prompts.open_approvals(tx, "other"))] == ["a3"]


async def test_a_reason_is_awaited_from_one_person(store: Store) -> None:
    await store.write(lambda tx: ask(tx, approval()))
    awaited = await store.write(lambda tx: prompts.await_reason(tx, "a1", ADMIN, NOW))
    assert awaited is not None
    assert awaited.reason_from == ADMIN


@pytest.mark.parametrize(("for_all", "person"), [(False, OWNER), (True, EVERYBODY)])
async def test_what_is_allowed_for_a_chat(store: Store, for_all: bool, person: str) -> None:
    await store.write(lambda tx: ask(tx, approval()))
    await store.write(lambda tx: prompts.decide(tx, "a1", Decided.CHAT, ADMIN, NOW, for_all=for_all))
    (grant,) = await store.read(lambda tx: prompts.grants(tx, OWNER))
    assert (grant.person, grant.tool, grant.granted_by) == (person, "send", ADMIN)

    async def may(who: str, conversation: str = OWNER, tool: str = "send", coverage: str = "tool:") -> bool:
        return await store.read(lambda tx: prompts.granted(tx, conversation, who, tool, coverage))

    assert await may(OWNER)
    assert await may("telegram:8") is for_all
    assert not await may(OWNER, conversation="telegram:8")
    assert not await may(OWNER, tool="sendmail")
    assert not await may(OWNER, coverage="tool:changed")
    assert await store.write(lambda tx: prompts.revoke_grants(tx, "telegram:8", [grant.id])) == 0
    assert await store.write(lambda tx: prompts.revoke_grants(tx, OWNER, [grant.id])) == 1
    assert not await may(OWNER)


async def test_a_chat_keeps_only_so_many(store: Store) -> None:
    count = MOST_GRANTS + 5

    def unit(tx: Connection) -> None:
        for number in range(count):
            ask(tx, approval(number, tool=f"tool{number}"))
            prompts.decide(tx, f"a{number}", Decided.CHAT, OWNER, NOW)

    await store.write(unit)
    kept = [grant.tool for grant in await store.read(lambda tx: prompts.grants(tx, OWNER))]
    assert kept == [f"tool{number}" for number in range(5, count)]


async def test_how_many_more_people_may_be_asked(store: Store) -> None:
    book = StoreApprovals(RetryingStore(store, store.clock))
    context = replace(run_row().context, run_id="r")
    now = store.clock.now()
    assert await book.room(context) == MOST_OF_A_RUN
    old = [approval(n, run_id="older", asked_at=now - WINDOW * 2) for n in range(MOST_OF_A_CHAT)]
    await store.write(lambda tx: ask(tx, *old))
    assert await book.room(context) == MOST_OF_A_RUN
    recent = [approval(100 + n, run_id="other", asked_at=now) for n in range(MOST_OF_A_CHAT - 3)]
    await store.write(lambda tx: ask(tx, *recent))
    assert await book.room(context) == 3
    own = [approval(200 + n, asked_at=now - WINDOW * 2) for n in range(MOST_OF_A_RUN - 1)]
    await store.write(lambda tx: ask(tx, *own))
    assert await book.room(context) == 1
    await store.write(lambda tx: ask(tx, approval(300), approval(301)))
    assert await book.room(context) == 0


async def test_a_run_that_waits_is_no_attempt_however_often_it_starts(store: Store) -> None:
    row = run_row()
    await store.write(lambda tx: runs.open(tx, row))
    for _ in range(5):
        started = await store.write(lambda tx: runs.start(tx, row.run_id, "head", NOW, store.epoch))
        assert (started.attempt, started.state) == (1, RunState.RUNNING)
        assert await store.write(lambda tx: runs.wait(tx, row.run_id))
        assert not await store.write(lambda tx: runs.wait(tx, row.run_id))
    active = await store.read(lambda tx: runs.active(tx, row.conversation))
    assert active is not None
    assert active.state is RunState.WAITING
    assert await store.write(lambda tx: runs.end(tx, row.run_id, RunState.SUCCESS, NOW))
    assert not await store.write(lambda tx: runs.wait(tx, row.run_id))


async def test_they_go_with_their_run_and_follow_a_chat_and_an_account(store: Store) -> None:
    group = "telegram:-5"
    row = run_row(conversation=group, owner=group)
    await store.write(lambda tx: runs.open(tx, row))
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1", NOW))
    one = approval(run_id=row.run_id, conversation=group)
    await store.write(lambda tx: ask(tx, one, approval(2, run_id=row.run_id, conversation="telegram:-7")))
    await store.write(lambda tx: [prompts.decide(tx, p, Decided.CHAT, OWNER, NOW) for p in ("a1", "a2")])
    await store.write(lambda tx: conversations.ensure(tx, group, "telegram", group, NOW))
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-5", "-7"))
    (grant,) = await store.read(lambda tx: prompts.grants(tx, "telegram:-7"))
    assert grant.person == OWNER
    await store.write(lambda tx: accounts.rename(tx, "telegram", "tg"))
    assert await store.read(lambda tx: prompts.granted(tx, "tg:-7", "tg:7", "send", "tool:"))
    moved = await store.read(lambda tx: prompts.load_approval(tx, "a1"))
    assert moved is not None
    assert (moved.conversation, moved.requester, moved.decided_by) == ("tg:-7", "tg:7", "tg:7")
    await store.write(lambda tx: runs.end(tx, row.run_id, RunState.SUCCESS, NOW))
    await pruned(store, runs, LATER)
    assert await store.read(lambda tx: prompts.load_approval(tx, "a1")) is None
