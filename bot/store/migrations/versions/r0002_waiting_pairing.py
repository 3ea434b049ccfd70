"""Runs know why they are being ended and which of those that wait was put first; persons are let in by a code; a
message that is sent knows after which one it will stand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("runs", sa.Column("stop", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("ahead", sa.Integer(), nullable=True))
    op.add_column("outbox", sa.Column("sent_after", sa.Text(), nullable=True))
    op.add_column("access", sa.Column("chat", sa.Text(), nullable=True))
    op.add_column("access", sa.Column("language", sa.Text(), nullable=True))
    # Only groups have rows until now, and nobody writes to those by way of this table.
    op.execute(sa.text("UPDATE access SET language = 'en'"))
    with op.batch_alter_table("access") as access:
        access.alter_column("language", existing_type=sa.Text(), nullable=False)
        access.drop_column("attempts")
