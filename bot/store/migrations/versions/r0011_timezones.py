"""The time zone that a conversation has chosen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("timezone", sa.Text(), nullable=True))
