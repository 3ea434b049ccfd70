"""Usage rows: older ones stay readable and find out who paid, and ids that change take them along."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from alembic import command
from alembic.config import Config
from sqlalchemy import inspect, text

from bot.store import Store, accounts, conversations, engines, usage
from bot.store.schema import STEPS, run_steps
from bot.store.usage import UsageRow
from tests.store.samples import NOW

if TYPE_CHECKING:
    from sqlalchemy import Connection


def paid(conversation: str, speaker: str, tokens: int) -> UsageRow:
    return UsageRow(
        call=uuid4().hex,
        run_id="r",
        thread_id="t",
        conversation=conversation,
        speaker=speaker,
        model="demo",
        input_tokens=tokens,
        output_tokens=0,
        cached_tokens=0,
        cost=1,
        currency="USD",
        at=NOW,
    )


async def tokens_of(store: Store, **wanted: Any) -> int:
    return (await store.read(lambda tx: usage.spent(tx, **wanted))).tokens


async def test_a_migrated_chat_keeps_its_usage(store: Store) -> None:
    for key in ("telegram:-1", "telegram:-1/5"):
        await store.write(partial(conversations.ensure, key=key, account="telegram", owner=key, now=NOW))
    rows = [paid("telegram:-1", "telegram:7", 1), paid("telegram:-1/5", "telegram:7", 2), paid("telegram:-10", "x", 4)]
    await store.write(lambda tx: usage.add(tx, rows))
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-1", "-100"))
    assert await tokens_of(store, conversation="telegram:-100") == 1
    assert await tokens_of(store, conversation="telegram:-100/5") == 2
    assert await tokens_of(store, conversation="telegram:-10") == 4
    assert await tokens_of(store, speaker="telegram:7") == 3


async def test_a_renamed_account_keeps_its_usage(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", NOW))
    rows = [paid("telegram:7", "telegram:7", 1), paid("telegram2:7", "telegram2:7", 2)]
    await store.write(lambda tx: usage.add(tx, rows))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "support"))
    assert await tokens_of(store, conversation="support:7", speaker="support:7") == 1
    assert await tokens_of(store, conversation="telegram2:7", speaker="telegram2:7") == 2


def upgrade(tx: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(STEPS.scripts))
    config.attributes["connection"] = tx
    command.upgrade(config, revision)


def insert(tx: Connection, table: str, **values: object) -> None:
    """A row as an older version may have left it; what is not named is empty."""
    empty = {
        column["name"]: 0 if "INT" in str(column["type"]) else False if "BOOL" in str(column["type"]) else ""
        for column in inspect(tx).get_columns(table)
        if not column["nullable"] and column["name"] != "id"
    }
    row = empty | values
    names = ", ".join(f'"{name}"' for name in row)
    tx.execute(text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"), row)


def test_rows_of_an_older_version_find_out_who_paid(url: str) -> None:
    engine = engines.writer_engine(engines.parse(url), foreign_keys=False)
    with engine.connect() as tx, tx.begin():
        upgrade(tx, "0004")
        insert(tx, "runs", seq=1, run_id="known", conversation="telegram:-1", speaker="telegram:7", inbox_ids="[]")
        insert(tx, "usage", run_id="known", thread_id="t", input_tokens=5)
        insert(tx, "usage", run_id="pruned", thread_id="t", input_tokens=7)
        run_steps(tx, STEPS)
        assert usage.spent(tx, thread_id="t").totals.input == 12
        assert usage.spent(tx, conversation="telegram:-1").totals == (5, 0, 0, 1)
        assert usage.spent(tx, speaker="telegram:7").totals == (5, 0, 0, 1)
        usage.add(tx, [paid("telegram:-1", "telegram:8", 1)])
        assert usage.spent(tx, conversation="telegram:-1").totals.calls == 2
        assert usage.spent(tx).costs == {"USD": 1}
    engine.dispose()
