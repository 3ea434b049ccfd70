"""Tool calls that a person has to allow, and what was allowed for a whole chat."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("prompt_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("args_hash", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("coverage", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("reason_from", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("prompt_id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("run_id", "call_id", "args_hash", name=op.f("uq_approvals_run_id_call_id_args_hash")),
    )
    op.create_index(op.f("ix_approvals_conversation_asked_at"), "approvals", ["conversation", "asked_at"])
    op.create_table(
        "approval_grants",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("coverage", sa.Text(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval_grants")),
        sa.UniqueConstraint(
            "conversation",
            "person",
            "tool",
            "coverage",
            name=op.f("uq_approval_grants_conversation_person_tool_coverage"),
        ),
        sqlite_autoincrement=True,
    )
