"""How often chats got another id, so that each process attributes the model calls again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "14"
down_revision = "13"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("moves", sa.Integer(), nullable=True))
