"""Indexes, and old calls summed up by day, to keep starts and upkeep fast after years."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "11"
down_revision = "10"


def upgrade() -> None:
    op.create_index(op.f("ix_inbox_account_id"), "inbox", ["account", "id"])
    op.create_index("ix_runs_thread_ended", "runs", ["thread_id", "ended_at"])
    op.create_index(op.f("ix_branches_made_at"), "branches", ["made_at"])
    op.add_column("usage", sa.Column("calls", sa.Integer(), nullable=True))
    whole = sa.text("calls IS NULL")
    op.create_index("ix_usage_whole", "usage", ["at"], sqlite_where=whole, postgresql_where=whole)
