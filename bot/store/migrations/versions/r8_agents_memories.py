"""Memories that agents keep for themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    op.create_table(
        "agents_memories",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("last_good", sa.Text(), nullable=True),
        sa.Column("broken", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "agent", name=op.f("pk_agents_memories")),
    )
    for table in ("memory_lists", "memory_queue"):
        op.add_column(table, sa.Column("agent", sa.Text(), nullable=True))
