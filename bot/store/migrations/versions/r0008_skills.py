"""The skills that a conversation has turned off."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("skills_off", sa.Text(), nullable=True))
