"""Alembic's entry point. Runs inside the transaction of the connection that schema.py (or a test) hands over."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    # SQLite supports DDL in a transaction too, provided that the driver does not interfere (sql.py).
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
