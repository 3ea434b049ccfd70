"""Replies whose buttons the platform refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("outbox", sa.Column("numbered", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("outbox") as outbox:
        outbox.alter_column("numbered", server_default=None)
