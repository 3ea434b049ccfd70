"""Columns that are missing from databases of revision 1 that an early state of Antler created.

Revision 1 changed several times while it was the newest; from here on every change is a separate step. Existing columns
stay as they are, so that all of those databases become identical.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

MISSING = (
    ("conversations", "progress", sa.Text()),
    ("runs", "place", sa.Integer()),
    ("runs", "slot_wait", sa.Integer()),
    ("runs", "first_words", sa.Integer()),
)
UNKNOWN = {"call": "'unknown:' || id", "conversation": "''", "speaker": "''"}
"""Values for columns of usage in rows where nothing was recorded."""


def upgrade() -> None:
    for table, column, kind in MISSING:
        if column not in _nullable(table):
            op.add_column(table, sa.Column(column, kind, nullable=True))
    if "rule" not in _nullable("runs"):
        # SQLite keeps the default; no row is ever written without a value.
        op.add_column("runs", sa.Column("rule", sa.Text(), nullable=False, server_default=""))
        if op.get_bind().dialect.name != "sqlite":
            op.alter_column("runs", "rule", server_default=None)
    usage = _nullable("usage")
    if any(usage[column] for column in UNKNOWN):
        for column, value in UNKNOWN.items():
            op.execute(f"UPDATE usage SET {column} = {value} WHERE {column} IS NULL")
        with op.batch_alter_table("usage", table_kwargs={"sqlite_autoincrement": True}) as batch:
            for column in UNKNOWN:
                batch.alter_column(column, existing_type=sa.Text(), nullable=False)


def _nullable(table: str) -> dict[str, bool]:
    """The columns of a table, and whether they may be null."""
    return {column["name"]: column["nullable"] for column in sa.inspect(op.get_bind()).get_columns(table)}
