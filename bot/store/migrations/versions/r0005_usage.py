"""What a model call cost, and where and for whom it was made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    with op.batch_alter_table("usage", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.drop_index(op.f("ix_usage_thread_id"))
        batch.add_column(sa.Column("call", sa.Text(), nullable=True))
        batch.add_column(sa.Column("conversation", sa.Text(), nullable=True))
        batch.add_column(sa.Column("speaker", sa.Text(), nullable=True))
        batch.add_column(sa.Column("cost", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("currency", sa.Text(), nullable=True))
        batch.create_unique_constraint(op.f("uq_usage_call"), ["call"])
    for columns in (["thread_id", "run_id"], ["conversation", "at"], ["speaker", "at"], ["at"]):
        op.create_index(op.f(f"ix_usage_{'_'.join(columns)}"), "usage", columns)
    # Of runs that are still known; the others' tokens count for their thread as before.
    for column in ("conversation", "speaker"):
        known = f"(SELECT runs.{column} FROM runs WHERE runs.run_id = usage.run_id)"
        op.execute(sa.text(f"UPDATE usage SET {column} = {known}"))
