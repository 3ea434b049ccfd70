"""The processes that died while a run was at work."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("runs", sa.Column("deaths", sa.Text(), nullable=False, server_default="[]"))
