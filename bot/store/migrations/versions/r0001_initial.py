"""The first schema.

Frozen: it says nothing of today's tables.py. Column meanings are described there.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _access()
    _accounts()
    _decisions()
    _effects()
    _inbox()
    _inbox_keys()
    _instance()
    _outbox()
    _prompts()
    _run_events()
    _runs()
    _usage()
    _threads()
    _conversations()


def _access() -> None:
    op.create_table(
        "access",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("code_hash", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("subject_kind", "subject_id", name=op.f("pk_access")),
    )
    op.create_index(op.f("ix_access_account_state"), "access", ["account", "state"])


def _accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("bot_id", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_accounts")),
        sa.UniqueConstraint("platform", "bot_id", name=op.f("uq_accounts_platform_bot_id")),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("inbox_id", BIG_ID, nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_decisions_decided_at"), "decisions", ["decided_at"])


def _effects() -> None:
    op.create_table(
        "effects",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "call_id", name=op.f("pk_effects")),
    )


def _inbox() -> None:
    op.create_table(
        "inbox",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=True),
        sa.Column("platform_message_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_inbox_account_chat_platform_message_id"), "inbox", ["account", "chat", "platform_message_id"]
    )
    op.create_index(op.f("ix_inbox_received_at"), "inbox", ["received_at"])
    op.create_index(op.f("ix_inbox_state_id"), "inbox", ["state", "id"])


def _inbox_keys() -> None:
    op.create_table(
        "inbox_keys",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("inbox_id", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("account", "key", name=op.f("pk_inbox_keys")),
    )
    op.create_index(op.f("ix_inbox_keys_inbox_id"), "inbox_keys", ["inbox_id"])


def _instance() -> None:
    op.create_table(
        "instance",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance")),
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("reply_key", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("idem_key", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=False),
        sa.Column("reply_to", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("desired_rev", sa.Integer(), nullable=False),
        sa.Column("sent_rev", sa.Integer(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("abandoned", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("reply_key", "part", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_account_chat_created_at"), "outbox", ["account", "chat", "created_at"])
    op.create_index(op.f("ix_outbox_delivered_at"), "outbox", ["delivered_at"])


def _prompts() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("who", sa.Text(), nullable=True),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("args_hash", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("answered_by", sa.Text(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("expired", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompts")),
    )
    op.create_index(op.f("ix_prompts_expires_at"), "prompts", ["expires_at"])


def _run_events() -> None:
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_run_events")),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", BIG_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=False),
        sa.Column("inbox_ids", sa.Text(), nullable=False),
        sa.Column("reply_key", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=False),
        sa.Column("reply_to", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("base_checkpoint_id", sa.Text(), nullable=True),
        sa.Column("head", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("model_calls", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_runs_run_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_runs_conversation_seq"), "runs", ["conversation", "seq"])
    op.create_index(op.f("ix_runs_ended_at"), "runs", ["ended_at"])
    op.create_index(op.f("ix_runs_state"), "runs", ["state"])
    op.create_index(
        "uq_runs_active",
        "runs",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("state IN ('running', 'waiting')"),
        postgresql_where=sa.text("state IN ('running', 'waiting')"),
    )


def _usage() -> None:
    op.create_table(
        "usage",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", BIG_ID, nullable=False),
        sa.Column("output_tokens", BIG_ID, nullable=False),
        sa.Column("cached_tokens", BIG_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_usage_thread_id"), "usage", ["thread_id"])


def _threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_threads")),
        sa.UniqueConstraint("thread_id", "owner", name=op.f("uq_threads_thread_id_owner")),
    )
    op.create_index(op.f("ix_threads_conversation"), "threads", ["conversation"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_id", "owner"],
            ["threads.thread_id", "threads.owner"],
            name=op.f("fk_conversations_thread_id_owner"),
            onupdate="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_conversations")),
    )
