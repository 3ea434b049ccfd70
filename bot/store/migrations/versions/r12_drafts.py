"""Drafts of what a worker's run reports, in an unlogged table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "12"
down_revision = "11"


def upgrade() -> None:
    on_postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "worker_drafts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_worker_drafts")),
        prefixes=["UNLOGGED"] if on_postgres else [],
    )
