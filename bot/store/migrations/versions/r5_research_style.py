"""The style of a conversation's research reports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("research_style", sa.Text(), nullable=True))
