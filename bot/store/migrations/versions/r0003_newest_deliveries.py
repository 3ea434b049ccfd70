"""What was delivered last is found without reading the whole outbox."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_index(
        "ix_outbox_newest",
        "outbox",
        ["account", "epoch", "delivered_at"],
        sqlite_where=sa.text("delivered_at IS NOT NULL"),
        postgresql_where=sa.text("delivered_at IS NOT NULL"),
    )
