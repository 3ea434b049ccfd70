"""What must hold of a played gateway, however it was treated: P2 to P8 and P12 of the design. For gateway_play.py.

`of_a_process` is checked each time that one ends, `nobody_waits_for_another` while runs hang, `kept` when everything
works again and nothing is left to do.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from bot.delivery.budget import BURST
from bot.settings.busy_policies import Busy
from bot.store.rows import InboxState, RunState
from bot.store.runs import JOINED
from bot.texts import texts_for
from bot.texts.commands import written
from channels.message import OUTBOUND_MESSAGE, Address
from tests.bot.gateway_books import Books, admitted, command_of, read_books
from tests.bot.gateway_outcomes import one_outcome_each
from tests.bot.played_agent import ending_of, mark_of, said_in
from tests.delivery_world import RATE
from tests.memory_channel import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bot.gateway_play import Play

ANSWERED = (RunState.SUCCESS, RunState.LIMITED)
OWN_FAILURES = ("fail", "broken", "nothing")


def of_a_process(play: Play) -> None:
    """The agent was asked as agreed, and the platform was called no more often than it allows."""
    assert not play.agent.problems, play.agent.problems
    chats: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for method, chat, at in play.channel.made:
        if method != "typing":  # a sign of life is no message: it spends of what the account may, not of the chat's
            chats[chat].append((method, at))
    for chat, calls in chats.items():
        for first, (_, start) in enumerate(calls):
            for count, (_, at) in enumerate(calls[first:], 1):
                assert count <= BURST + RATE.per_chat_per_second * (at - start) + 1e-3, f"too many calls in {chat}"
        if chat.isalpha():
            _within_a_minute([at for _, at in calls])
    for chat, start, end in play.channel.limits:
        early = [call for call in chats[chat] if start < call[1] < end - 1e-3]
        assert not early, f"{chat} was limited until {end}: {early}"


def _within_a_minute(times: Sequence[float]) -> None:
    most = int(RATE.per_group_per_minute)
    for start, end in zip(times, times[most:], strict=False):
        assert end - start >= 60 - 1e-3, f"more than {most} calls a minute in a group"


async def nobody_waits_for_another(play: Play) -> None:
    """Conversations whose run hangs hold up no other."""
    books = await read_books(play)
    stuck = {key for key, count in play.agent.hanging.items() if count}
    chats = {key.removeprefix("memory:").partition("@")[0] for key in stuck}
    waiting = [row.id for row in books.inbox if row.chat not in chats and row.state != InboxState.DONE]
    assert not waiting, f"events {waiting} wait although only {sorted(stuck)} hang"
    left = {run.conversation for run in books.runs if not RunState(run.state).ended} - stuck
    assert not left, f"{left} wait although only {sorted(stuck)} hang"


async def kept(play: Play) -> None:
    """Everything that holds at the end."""
    books = await read_books(play)
    everything_arrived(play, books)
    strangers_are_not_heard(play)
    one_run_each(play, books)
    in_order(play, books)
    one_outcome_each(books)
    endings_have_a_cause(play, books)
    what_joined_was_heard(books)
    memory_is_true(play, books)
    commands_count(play, books)
    everything_is_shown(play, books)
    nothing_is_left(play)


def everything_arrived(play: Play, books: Books) -> None:
    assert not play.undelivered
    arrived = Counter(message.platform_message_id for _, message in books.messages)
    for message in play.said:
        count = arrived[message.platform_message_id]
        if admitted(message):
            assert count == (1 if message.mention else 0), message
        else:
            assert count <= 1, message
    undecided = [row.id for row in books.inbox if row.state != InboxState.DONE or not row.reason]
    assert not undecided, f"events {undecided} were not decided on"


def strangers_are_not_heard(play: Play) -> None:
    for _, start, _ in play.agent.told:
        heard = said_in("\n".join((start.run_input.text, start.run_input.quote, *start.run_input.background)))
        for number in heard:
            assert admitted(play.said[number]), f"a stranger's message {number} reached the agent"


def one_run_each(play: Play, books: Books) -> None:
    """No message is given to the agent twice, unless somebody asked for that."""
    runs_of: defaultdict[int, set[str]] = defaultdict(set)
    for _, start, _ in play.agent.told:
        for number in said_in(start.run_input.text):
            runs_of[number].add(start.ctx.run_id)
    for number, run_ids in runs_of.items():
        assert len(run_ids - books.again.keys()) <= 1, f"message {number} was given to the agent in {len(run_ids)} runs"


def in_order(play: Play, books: Books) -> None:
    """A conversation's runs begin in the order of their messages, those apart that somebody put before others."""
    begun: dict[str, dict[str, None]] = defaultdict(dict)
    for _, start, _ in play.agent.told:
        begun[start.ctx.conversation][start.ctx.run_id] = None
    for conversation, run_ids in begun.items():
        runs = [books.run[run_id] for run_id in run_ids]
        order = [min(run.inbox_ids) for run in runs if run.ahead is None]
        assert order == sorted(order), f"the messages of {conversation} were taken in the order {order}"


def endings_have_a_cause(play: Play, books: Books) -> None:
    """A run ends as the agent ended it, unless somebody stopped it or it was killed again and again."""
    busy, pressed = play.core.policy.turns.busy, bool(books.presses)
    for run in books.runs:
        ending = ending_of(run.input.text)
        outcome = f"{run.input} ended as {run.state}, {run.detail}"
        commands = books.commands_in(run.chat)
        causes = {
            "stopped": "/stop" in commands,
            "new_thread": "/new" in commands,
            "dropped": pressed or "/new" in commands or "/queue clear" in commands,
            "new_message": busy is Busy.INTERRUPT,
            "admin_message": busy is Busy.INTERRUPT,
            "rollback": busy is Busy.ROLLBACK,
            "admin_rollback": busy is Busy.ROLLBACK,
            "run_now": pressed,
            JOINED: busy is Busy.STEER,
        }
        if run.state in ANSWERED:
            assert run.state == (RunState.LIMITED if ending == "limited" else RunState.SUCCESS), outcome
            assert ending not in OWN_FAILURES, outcome
        elif run.state == RunState.INTERRUPTED:
            assert causes.get(run.detail), outcome
        else:
            assert run.state == RunState.ERROR, outcome
            assert ending in OWN_FAILURES or (run.detail == "dead letter" and play.kills > 2), outcome


def what_joined_was_heard(books: Books) -> None:
    """What was said to an answer at work is told in that answer, or that one says why there is none."""
    for run in books.runs:
        if run.detail != JOINED:
            continue
        said = said_in(run.input.text)
        for host in {books.answering(event_id).run_id for event_id in run.inbox_ids}:
            known = books.run[host]
            assert known.detail != JOINED, f"{run.input} is heard by a run that never began"
            assert (known.speaker, known.thread_id) == (run.speaker, run.thread_id), f"{run.input} is heard by {host}"
            body = books.replies[known.reply_key][0].body
            missing = [number for number, version in said.items() if f"to{number}v{version}x" not in body]
            assert known.state not in ANSWERED or not missing, f"{missing} of {run.input} are not in {body}"


def memory_is_true(play: Play, books: Books) -> None:
    """A run remembers the answers before it in its thread, and nothing that was taken back."""
    begun: set[str] = set()
    for _, start, remembered in play.agent.told:
        ctx, earlier = start.ctx, {books.run[run_id] for run_id in begun - {start.ctx.run_id}}
        mine = {run for run in earlier if run.thread_id == ctx.thread_id}
        for run in mine:
            forgotten = run.detail in ("rollback", "admin_rollback")
            repeated = any(books.again.get(other) == run.run_id for other in begun | {ctx.run_id})
            if forgotten or books.again.get(ctx.run_id) == run.run_id:
                assert run.run_id not in remembered, f"{ctx.run_id} remembers {run.input}, which was taken back"
            elif run.state in ANSWERED and not repeated:
                assert run.run_id in remembered, f"{ctx.run_id} forgot {run.input}"
        begun.add(ctx.run_id)


def commands_count(play: Play, books: Books) -> None:
    """/new and /models are obeyed from the next message on, and each thread is one owner's."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    threads: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    begun: Counter[str] = Counter()
    model: dict[str, str] = {}
    contexts = {run.run_id: run.context for run in books.runs}
    for context in contexts.values():
        owners[context.thread_id].add(context.owner)
    assert all(len(found) == 1 for found in owners.values()), f"a thread of several owners: {owners}"
    for row, message in books.messages:
        run, key = books.run_of.get(row.id), books.conversation_of(play, message)
        if command_of(row, message) == "/new" and row.reason == "/new":
            begun[key] += 1
        elif message.text in ("/models main", "/models other") and row.reason == "/models":
            model[key] = message.text.removeprefix("/models ")
        elif run is not None and books.opened_at_once(play, row, message, run):
            threads[key, begun[key]].add(run.thread_id)
            assert books.presses or contexts[run.run_id].model == model.get(key, "main"), f"event {row.id}: its model"
    assert all(len(found) == 1 for found in threads.values()), f"one thread became several: {threads}"
    different = list(itertools.chain.from_iterable(threads.values()))
    assert len(different) == len(set(different)), "a new thread is the old one"


def everything_is_shown(play: Play, books: Books) -> None:
    """Finals stand where they belong, whole and once."""
    channel, mode = play.channel, play.channel.mode
    shown = {bubble.message_id: bubble for bubbles in channel.chats.values() for bubble in bubbles}
    for key, rows in books.replies.items():
        chat = rows[0].chat
        assert rows[0].final, f"reply {key} was never finished"
        if rows[0].abandoned is not None:
            assert chat in channel.refused, f"reply {key} was given up: {rows[0].abandoned}"
            continue
        assert rows[0].delivered_at is not None, f"reply {key} was not delivered"
        body = OUTBOUND_MESSAGE.validate_json(rows[0].body)
        if mode == FULL and chat not in channel.refused:
            seen = [shown[row.message_id].part if row.message_id in shown else None for row in rows]
            place = Address(account=rows[0].account, chat=chat, kind=rows[0].chat_kind)
            wanted = channel.layout(written(body, partial(channel.command, address=place)))
            assert seen == list(wanted), f"reply {key} shows {seen}, not its final {body}"
    if mode == FULL:
        known = {row.message_id for row in books.outbox}
        assert not set(shown) - known, f"left open: {[shown[left] for left in set(shown) - known]}"
    answers_are_seen_once(play, books)


def answers_are_seen_once(play: Play, books: Books) -> None:
    """Each as often as it was given; where a send can neither be repeated nor looked up, a loss may cost a copy."""
    given: Counter[tuple[str, str]] = Counter()
    for run in books.runs:
        mark = mark_of(run.run_id, run.input.text)
        abandoned = books.replies[run.reply_key][0].abandoned is not None
        given[run.chat, mark] += int(run.state in ANSWERED and not abandoned)
    doubts = 0 if play.channel.mode.idempotent else play.kills + play.losses
    for (chat, mark), times in given.items():
        texts = play.channel.texts(chat)
        ends = sum(text.count(f"end{mark}x") for text in texts)
        fewest = times if doubts < 2 else 0
        assert fewest <= ends <= times + (doubts if times else 0), f"answer {mark} is seen {ends} times in {texts}"


def nothing_is_left(play: Play) -> None:
    core = play.core
    assert core.manager.idle
    assert core.manager.waiting == 0
    assert core.manager._ports.tally.total == 0
    assert core.runs.active == {}
    assert core.runs.waiting == 0
    assert len(core.actors) == 0
    assert [account.open_replies for account in core.delivery.snapshot()] == [0]
    assert not any(play.agent.at_work.values())
    assert not any(play.agent.hanging.values())
    texts = texts_for("en")
    if play.channel.mode == FULL:
        for text in itertools.chain.from_iterable(map(play.channel.texts, play.channel.chats)):
            for placeholder in (texts.working, texts.paused, texts.resumed, texts.queued_next):
                assert placeholder not in text or text.startswith("**Antler"), text  # what /status tells is past
