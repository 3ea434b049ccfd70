"""When the earlier steps of a thread were dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "13"
down_revision = "12"


def upgrade() -> None:
    op.add_column("threads", sa.Column("condensed_at", sa.BigInteger(), nullable=True))
    left = sa.text("condensed_at IS NULL")
    op.create_index("ix_threads_whole", "threads", ["touched_at"], sqlite_where=left, postgresql_where=left)
