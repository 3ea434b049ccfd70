"""How often a chat got another id, so that every process sums up again whose model calls are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "14"
down_revision = "13"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("moves", sa.Integer(), nullable=True))
