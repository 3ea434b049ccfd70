"""Runs ordered from workers, and what they have reported so far."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "9"
down_revision = "8"


def upgrade() -> None:
    op.create_table(
        "worker_runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("worker", sa.BigInteger(), nullable=True),
        sa.Column("deaths", sa.Integer(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("heard", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_worker_runs")),
    )
    op.create_index(op.f("ix_worker_runs_thread_id"), "worker_runs", ["thread_id"])
    op.create_index(op.f("ix_worker_runs_state"), "worker_runs", ["state"])
    op.create_table(
        "worker_events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "part", name=op.f("pk_worker_events")),
    )
