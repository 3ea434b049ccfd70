"""The tables of memories: each owner's memory and settings, and the turns still to be learnt from. As in tables.py,
`doc` describes a column.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, Table, UniqueConstraint

from bot.store.sql import BigId, Instant, SafeText
from bot.store.tables import metadata

memories = Table(
    "memories",
    metadata,
    Column("owner", SafeText, primary_key=True, doc="the person in a DM, the conversation in a group"),
    Column("body", SafeText, nullable=False, doc="harness.memory.model.Memory as JSON"),
    Column("last_good", SafeText, nullable=True, doc="previous body"),
    Column("broken", SafeText, nullable=True, doc="body that could not be read, set aside"),
    Column("updated_at", Instant, nullable=False, doc="when body was written"),
)

agents_memories = Table(
    "agents_memories",
    metadata,
    Column("owner", SafeText, primary_key=True, doc="as in memories"),
    Column("agent", SafeText, primary_key=True, doc="agent that keeps this memory for itself"),
    Column("body", SafeText, nullable=False, doc="as in memories"),
    Column("last_good", SafeText, nullable=True, doc="as in memories"),
    Column("broken", SafeText, nullable=True, doc="as in memories"),
    Column("updated_at", Instant, nullable=False, doc="when body was written"),
)

memory_owners = Table(
    "memory_owners",
    metadata,
    Column("owner", SafeText, primary_key=True, doc="as in memories; also persons without a memory of their own"),
    Column("off", Boolean, nullable=False, doc="nothing of the owner's is recorded or passed to the agent"),
    Column("changed", Integer, nullable=False, doc="number of changes by people; each makes the agent reread it"),
    Column("forgotten_at", Instant, nullable=True, doc="nothing said before this time is learned any more"),
)

memory_lists = Table(
    "memory_lists",
    metadata,
    Column("conversation", SafeText, primary_key=True, doc="conversation in which /memory listed facts"),
    Column("owner", SafeText, nullable=False, doc="owner of the facts"),
    Column("facts", SafeText, nullable=False, doc="ids of the facts in the order of their numbers, JSON list"),
    Column("shown_at", Instant, nullable=False, doc="when they were listed"),
    Column("agent", SafeText, nullable=True, doc="agent in whose own memory they are; null: the shared one"),
    Index(None, "shown_at"),
)

memory_queue = Table(
    "memory_queue",
    metadata,
    Column("id", BigId, primary_key=True, doc="order in which the turns ended"),
    Column("run_id", SafeText, nullable=False, doc="run of the turn; unique"),
    Column("owner", SafeText, nullable=False, doc="owner of the memory to update"),
    Column("thread_id", SafeText, nullable=False, doc="thread of the turn"),
    Column("speaker", SafeText, nullable=False, doc="person id of the speaker it answered"),
    Column("conversation", SafeText, nullable=False, doc="conversation charged for the update"),
    Column("exchange", SafeText, nullable=False, doc="harness.memory.model.Exchange as JSON, without secrets"),
    Column("queued_at", Instant, nullable=False, doc="when the turn ended"),
    Column("due_at", Instant, nullable=False, doc="when to learn from it: after a quiet period or a failure"),
    Column("tries", Integer, nullable=False, doc="number of failed attempts"),
    Column("agent", SafeText, nullable=True, doc="agent whose own memory is updated; null: the shared one"),
    UniqueConstraint("run_id"),
    Index(None, "owner", "due_at"),
    Index(None, "thread_id", "speaker"),
    Index(None, "queued_at"),
    sqlite_autoincrement=True,
)
