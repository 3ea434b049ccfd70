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
    Column("owner", SafeText, primary_key=True, doc="whose it is: the person in a DM, the conversation in a group"),
    Column("body", SafeText, nullable=False, doc="harness.memory.model.Memory as JSON"),
    Column("last_good", SafeText, nullable=True, doc="what body replaced"),
    Column("broken", SafeText, nullable=True, doc="a body that could not be read, set aside"),
    Column("updated_at", Instant, nullable=False, doc="when body was written"),
)

agents_memories = Table(
    "agents_memories",
    metadata,
    Column("owner", SafeText, primary_key=True, doc="as in memories"),
    Column("agent", SafeText, primary_key=True, doc="the agent that keeps it for itself"),
    Column("body", SafeText, nullable=False, doc="as in memories"),
    Column("last_good", SafeText, nullable=True, doc="as in memories"),
    Column("broken", SafeText, nullable=True, doc="as in memories"),
    Column("updated_at", Instant, nullable=False, doc="when body was written"),
)

memory_owners = Table(
    "memory_owners",
    metadata,
    Column("owner", SafeText, primary_key=True, doc="as in memories; a person also without a memory of their own"),
    Column("off", Boolean, nullable=False, doc="nothing of theirs is written or told to the agent"),
    Column("changed", Integer, nullable=False, doc="counts what persons changed in it, for the agent to be told again"),
    Column("forgotten_at", Instant, nullable=True, doc="of what was said before that nothing is learnt any more"),
)

memory_lists = Table(
    "memory_lists",
    metadata,
    Column("conversation", SafeText, primary_key=True, doc="where /memory listed facts"),
    Column("owner", SafeText, nullable=False, doc="whose facts they are"),
    Column("facts", SafeText, nullable=False, doc="their ids as a JSON list, in the order of their numbers"),
    Column("shown_at", Instant, nullable=False, doc="when"),
    Column("agent", SafeText, nullable=True, doc="in whose own memory they are; null: in the shared one"),
    Index(None, "shown_at"),
)

memory_queue = Table(
    "memory_queue",
    metadata,
    Column("id", BigId, primary_key=True, doc="the order in which the turns ended"),
    Column("run_id", SafeText, nullable=False, doc="the turn, once"),
    Column("owner", SafeText, nullable=False, doc="into whose memory it goes"),
    Column("thread_id", SafeText, nullable=False, doc="where it was said"),
    Column("speaker", SafeText, nullable=False, doc="person id of whom the turn answered"),
    Column("conversation", SafeText, nullable=False, doc="who pays for the update"),
    Column("exchange", SafeText, nullable=False, doc="harness.memory.model.Exchange as JSON, without secrets"),
    Column("queued_at", Instant, nullable=False, doc="when the turn ended"),
    Column("due_at", Instant, nullable=False, doc="when it is learnt from: after a quiet time, or after a failure"),
    Column("tries", Integer, nullable=False, doc="that failed"),
    Column("agent", SafeText, nullable=True, doc="into which agent's own memory; null: into the shared one"),
    UniqueConstraint("run_id"),
    Index(None, "owner", "due_at"),
    Index(None, "thread_id", "speaker"),
    Index(None, "queued_at"),
    sqlite_autoincrement=True,
)
