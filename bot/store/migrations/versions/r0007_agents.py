"""The agent that a conversation has chosen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("agent", sa.Text(), nullable=True))
