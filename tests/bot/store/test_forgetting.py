"""The words of threads and persons leave every table, on both databases; what others need stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import Text, func, literal, select, update

from bot.store import Store, accounts, conversations, forgetting, inbox, outbox, personal, run_events, runs
from bot.store.forgetting import DeletionKind, DeletionRow, Whose
from bot.store.inbox import ADD_EVENTS
from bot.store.rows import InboxState, RunState
from bot.store.tables import inbox as inbox_table
from bot.store.tables import inbox_keys, metadata, threads
from bot.store.tables import runs as runs_table
from channels.message import Address, Attachment, Quote, Sender
from harness.context import InputFile, RunInput
from harness.ports import EffectKey
from tests.bot.store.samples import LATER, NOW, OWNER, body, message, outbox_row, pruned, run_row

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from bot.store.rows import RunRow

CANARY = "zebra-4711"
MUCH_LATER = LATER + timedelta(days=1)
ANN = Whose("telegram", "7", frozenset({"Ann"}))
GROUP = Address(account="telegram", chat="-5", kind="group")


def asked(**changes: Any) -> DeletionRow:
    values: dict[str, Any] = {
        "id": "d1",
        "kind": DeletionKind.PERSON,
        "subject": OWNER,
        "account": "telegram",
        "asked_by": OWNER,
        "asked_at": LATER,
    }
    return DeletionRow(**(values | changes))


async def begun(store: Store) -> str:
    row = await store.write(lambda tx: conversations.ensure(tx, OWNER, "telegram", OWNER, NOW))
    return row.thread_id


async def turn(store: Store, thread_id: str, text: str = CANARY, **changes: Any) -> RunRow:
    """A message, the run that answered it with all that belongs to one, and its reply."""
    (row,) = await store.add(ADD_EVENTS, [message(uuid4().hex, text=text)])
    assert row is not None
    file = InputFile(
        path=Path(f"/data/{CANARY}.txt"),
        name=f"{CANARY}.txt",
        mime_type="text/plain",
        size=12,
        sha256=CANARY,
        text_sha256=CANARY,
    )
    given = RunInput(message_id=f"m{row.id}", text=text, quote=text, background=(f"Bob: {text}",), files=(file,))
    run = replace(run_row(row.id), thread_id=thread_id, input=given, **changes)

    def unit(tx: Connection) -> None:
        runs.open(tx, run)
        runs.start(tx, run.run_id, None, NOW, 0)
        runs.end(tx, run.run_id, RunState.SUCCESS, NOW)
        outbox.intend(tx, [outbox_row(run.reply_key, body=body(text), address=run.address)])
        outbox.delivered(tx, run.reply_key, NOW)

    await store.write(unit)
    log = run_events.StoreEffectLog(store)  # type: ignore[arg-type]
    key = EffectKey(thread_id=thread_id, run_id=run.run_id, call_id="c1")
    await log.begin(key, "bash")
    await log.done(key, text)
    return run


def holding(tx: Connection) -> list[str]:
    """The tables that hold the canary."""
    # As tuples: a Row shows only the ends of a long text.
    rows = {table.name: [*map(tuple, tx.execute(select(table)))] for table in metadata.sorted_tables}
    return [name for name, values in rows.items() if CANARY in str(values)]


def holding_files(folder: Path) -> list[str]:
    files = [path for path in folder.iterdir() if path.is_file()]
    return [path.name for path in files if CANARY.encode() in path.read_bytes()]


async def test_a_thread_that_is_let_go_is_gone_on_with_no_more(store: Store) -> None:
    old = await begun(store)
    assert await store.write(lambda tx: forgetting.let_go(tx, OWNER, LATER, LATER)) == [old]
    now = await store.read(lambda tx: conversations.load(tx, OWNER))
    assert now is not None
    assert now.thread_id != old
    assert await store.write(lambda tx: forgetting.let_go(tx, OWNER, LATER, LATER)) == []
    assert await store.read(lambda tx: forgetting.let_go_of(tx, ANN)) == [old]
    assert await store.read(lambda tx: forgetting.place_of(tx, old)) is None
    listed = await store.read(lambda tx: conversations.threads_of(tx, now, 8))
    assert [thread.thread_id for thread in listed] == [now.thread_id]


async def test_only_the_one_that_is_meant_is_let_go(store: Store) -> None:
    old = await begun(store)
    await store.write(lambda tx: conversations.new_thread(tx, OWNER, "young", NOW))
    assert await store.write(lambda tx: forgetting.let_go(tx, OWNER, LATER, LATER, only=old)) == [old]
    now = await store.read(lambda tx: conversations.load(tx, OWNER))
    assert now is not None
    assert now.title == "young"


async def test_what_belongs_to_runs_loses_its_words_and_keeps_its_size(store: Store) -> None:
    thread = await begun(store)
    run = await turn(store, thread)
    assert await store.write(lambda tx: forgetting.blank_runs(tx, [run.run_id])) == 1
    assert await store.write(lambda tx: forgetting.blank_runs(tx, [run.run_id])) == 0
    left = await store.read(lambda tx: runs.load(tx, run.run_id))
    assert left is not None
    known = left.input
    assert (known.is_blank, known.files[0].size, left.model_calls) == (True, 12, 0)
    assert await store.read(holding) == []
    await store.write(lambda tx: forgetting.let_go(tx, OWNER, LATER, LATER))
    assert await store.write(lambda tx: forgetting.delete_thread(tx, thread))
    assert not await store.write(lambda tx: forgetting.delete_thread(tx, thread))


async def test_what_others_hold_of_a_person_goes_too(store: Store) -> None:
    thread = await begun(store)
    quoting = replace(
        message("q", chat="-5"),
        sender=Sender(id="8", display_name="Bob"),
        reply_to=Quote(
            message_id="1",
            text=CANARY,
            author="Ann",
            from_bot=False,
            attachments=(Attachment(ref="f", kind="file", name=CANARY),),
        ),
    )
    await store.add(ADD_EVENTS, [quoting, message("own", text=CANARY)])
    others = {"speaker": "telegram:8", "address": GROUP, "conversation": "telegram:-5"}
    run = await turn(store, thread, "mine", **others)
    given = RunInput(message_id="m", text="mine", background=(f"Ann: {CANARY}", "Eve: hello"), people=("Ann", "Eve"))
    given_json = given
    await store.write(
        lambda tx: tx.execute(update(runs_table).where(runs_table.c.run_id == run.run_id).values(input=given_json))
    )
    await store.write(lambda tx: inbox.settle(tx, [1, 2], InboxState.DONE))

    assert await store.write(lambda tx: personal.blank_others(tx, ANN, (), 0)) is not None
    last = await store.write(lambda tx: personal.blank_events(tx, ANN, LATER, 0))
    assert last is not None
    assert await store.write(lambda tx: personal.blank_events(tx, ANN, LATER, last)) is None

    assert await store.read(holding) == []
    left = await store.read(lambda tx: runs.load(tx, run.run_id))
    assert left is not None
    assert (left.input.background, left.input.people) == (("Eve: hello",), ("Eve",))
    assert "Eve: hello" not in str(await store.write(lambda tx: _met(tx, run.run_id)))


async def test_what_is_not_over_yet_is_known_to_hold_their_words(store: Store) -> None:
    async def under_way(met: Collection[str] = ()) -> bool:
        return await store.read(lambda tx: personal.under_way(tx, ANN, met, LATER))

    thread = await begun(store)
    assert not await under_way()
    quote = Quote(message_id="1", text=CANARY, author="Ann", from_bot=False)
    bob = replace(message("q", chat="-5"), sender=Sender(id="8", display_name="Bob"), reply_to=quote)
    (row,) = await store.add(ADD_EVENTS, [bob])
    assert row is not None
    assert await under_way()
    await store.write(lambda tx: inbox.settle(tx, [row.id], InboxState.DONE))
    assert not await under_way()
    given = RunInput(message_id="m", text="mine", background=(f"Ann: {CANARY}",))
    others: dict[str, Any] = {"speaker": "telegram:8", "address": GROUP, "conversation": "telegram:-5", "inbox_ids": ()}
    run = replace(run_row(row.id), thread_id=thread, input=given, **others)
    await store.write(lambda tx: runs.open(tx, run))
    assert await under_way()
    await store.write(lambda tx: runs.end(tx, run.run_id, RunState.SUCCESS, NOW))
    assert not await under_way({"-5"})
    assert await store.read(lambda tx: forgetting.is_group(tx, Whose("telegram", "-5")))
    assert not await store.read(lambda tx: forgetting.is_group(tx, ANN))


def _met(tx: Connection, run_id: str) -> RunInput:
    """In a chat where the person spoke, nothing that others said stays."""
    personal.blank_others(tx, ANN, {"-5"}, 0)
    left = runs.load(tx, run_id)
    assert left is not None
    return left.input


async def test_what_another_version_wrote_is_no_obstacle(store: Store) -> None:
    thread = await begun(store)
    run = await turn(store, thread)
    strange = f'{{"chat": "7", "words": "{CANARY}"}}'
    await store.add(ADD_EVENTS, [message("strange", text=CANARY)])

    def older(tx: Connection) -> None:
        tx.execute(update(runs_table).values(input=literal(strange, Text), context=literal(strange, Text)))
        tx.execute(update(inbox_table).values(event=strange, state=InboxState.DONE))

    await store.write(older)
    assert await store.read(lambda tx: personal.names_of(tx, ANN)) == set()
    await store.write(lambda tx: personal.blank_others(tx, Whose("telegram", "8"), (), 0))
    await store.write(lambda tx: personal.blank_events(tx, ANN, LATER, 0))
    assert await store.write(lambda tx: forgetting.blank_runs(tx, [run.run_id])) == 1
    assert await store.write(lambda tx: forgetting.blank_runs(tx, [run.run_id])) == 0
    assert await store.read(holding) == []
    assert await store.read(lambda tx: inbox.newest_messages(tx, "telegram", NOW)) == []
    assert await store.add(ADD_EVENTS, [message("strange", text=CANARY)]) == [None]  # it is known until its age
    assert await pruned(store, inbox, MUCH_LATER) == 2
    assert await store.read(lambda tx: tx.scalar(select(func.count()).select_from(inbox_keys))) == 0


async def test_what_nobody_has_decided_on_yet_is_left_alone(store: Store) -> None:
    await store.add(ADD_EVENTS, [message("waits", text=CANARY)])
    await store.write(lambda tx: personal.blank_events(tx, ANN, LATER, 0))
    assert await store.read(holding) == [inbox_table.name]


async def test_a_deletion_is_asked_for_once_and_goes_with_its_account_and_chat(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", NOW))
    row = asked(address=GROUP, reply_key="event:1", language="en")
    for _ in range(2):
        await store.write(lambda tx: forgetting.ask_deletion(tx, row))
    assert await store.read(forgetting.unfinished_deletions) == [row]
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-5", "-100"))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "support"))
    (moved,) = await store.read(forgetting.unfinished_deletions)
    assert (moved.subject, moved.asked_by, moved.account) == ("support:7", "support:7", "support")
    assert moved.address == replace(GROUP, account="support", chat="-100")
    for _ in range(2):
        await store.write(lambda tx: forgetting.count_deleted(tx, "d1", threads=1, facts=2))
    assert await store.read(lambda tx: forgetting.deleted_so_far(tx, "d1")) == {"threads": 2, "facts": 4}
    await store.write(lambda tx: forgetting.finish_deletion(tx, "d1", LATER))
    assert await store.read(forgetting.unfinished_deletions) == []
    assert await store.write(lambda tx: forgetting.prune_deletions(tx, LATER)) == 0
    assert await store.write(lambda tx: forgetting.prune_deletions(tx, MUCH_LATER)) == 1


async def test_a_thread_is_as_old_as_its_last_turn(store: Store) -> None:
    thread = await begun(store)
    assert await store.read(lambda tx: forgetting.untouched(tx, MUCH_LATER)) == []  # nothing was ever said in it
    await turn(store, thread, created_at=LATER)
    assert await store.read(lambda tx: forgetting.untouched(tx, LATER)) == []
    assert await store.read(lambda tx: forgetting.untouched(tx, MUCH_LATER)) == [(thread, OWNER)]
    assert await store.read(lambda tx: tx.scalar(select(threads.c.touched_at))) == LATER
    waiting = replace(run_row(), thread_id=thread)
    await store.write(lambda tx: runs.open(tx, waiting))
    assert not await store.read(lambda tx: forgetting.is_untouched(tx, thread, MUCH_LATER))


async def test_what_is_deleted_leaves_the_files(store: Store, tmp_path: Path) -> None:
    """Only SQLite's are ours to look into."""
    thread = await begun(store)
    found = [await turn(store, thread, f"{CANARY}{number} " * 40) for number in range(50)]
    await store.write(lambda tx: forgetting.blank_runs(tx, [run.run_id for run in found]))
    assert await store.scrub()
    assert holding_files(tmp_path) == []
