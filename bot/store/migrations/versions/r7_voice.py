"""Conversations in which answers are also spoken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("voice", sa.Text(), nullable=True))
