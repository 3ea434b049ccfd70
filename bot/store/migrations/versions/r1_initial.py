"""The first schema.

Frozen: it does not follow tables.py, where the columns are described.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _instance()
    _accounts()
    _inbox()
    _inbox_keys()
    _threads()
    _conversations()
    _runs()
    _run_events()
    _effects()
    _outbox()
    _prompts()
    _approvals()
    _approval_grants()
    _schedules()
    _memories()
    _memory_owners()
    _memory_lists()
    _memory_queue()
    _access()
    _usage()
    _deletions()


def _instance() -> None:
    op.create_table(
        "instance",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance")),
    )


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


def _threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("touched_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_threads")),
        sa.UniqueConstraint("thread_id", "owner", name=op.f("uq_threads_thread_id_owner")),
    )
    op.create_index(op.f("ix_threads_conversation"), "threads", ["conversation"])
    op.create_index(op.f("ix_threads_owner"), "threads", ["owner"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("skills_off", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_conversations")),
        sa.ForeignKeyConstraint(
            ["thread_id", "owner"],
            ["threads.thread_id", "threads.owner"],
            name=op.f("fk_conversations_thread_id_owner"),
            onupdate="CASCADE",
        ),
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
        sa.Column("stop", sa.Text(), nullable=True),
        sa.Column("ahead", sa.Integer(), nullable=True),
        sa.Column("deaths", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=True),
        sa.Column("slot_wait", sa.Integer(), nullable=True),
        sa.Column("first_words", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_runs_run_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_runs_active",
        "runs",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("state IN ('running', 'waiting')"),
        postgresql_where=sa.text("state IN ('running', 'waiting')"),
    )
    op.create_index(op.f("ix_runs_conversation_seq"), "runs", ["conversation", "seq"])
    op.create_index(op.f("ix_runs_ended_at"), "runs", ["ended_at"])
    op.create_index(op.f("ix_runs_state"), "runs", ["state"])


def _run_events() -> None:
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_run_events")),
    )


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
        sa.Column("numbered", sa.Boolean(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("abandoned", sa.Text(), nullable=True),
        sa.Column("sent_after", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("reply_key", "part", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_account_chat_created_at"), "outbox", ["account", "chat", "created_at"])
    op.create_index(
        "ix_outbox_newest",
        "outbox",
        ["account", "epoch", "delivered_at"],
        sqlite_where=sa.text("delivered_at IS NOT NULL"),
        postgresql_where=sa.text("delivered_at IS NOT NULL"),
    )
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


def _approvals() -> None:
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
        sa.UniqueConstraint(
            "run_id",
            "call_id",
            "args_hash",
            name=op.f("uq_approvals_run_id_call_id_args_hash"),
        ),
    )
    op.create_index(op.f("ix_approvals_conversation_asked_at"), "approvals", ["conversation", "asked_at"])


def _approval_grants() -> None:
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


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=False),
        sa.Column("reply_to", sa.Text(), nullable=True),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_fired_at", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
    )
    op.create_index(op.f("ix_schedules_account_chat_state"), "schedules", ["account", "chat", "state"])
    op.create_index(op.f("ix_schedules_ended_at"), "schedules", ["ended_at"])
    op.create_index(op.f("ix_schedules_person_state"), "schedules", ["person", "state"])
    op.create_index(op.f("ix_schedules_state_next_at"), "schedules", ["state", "next_at"])


def _memories() -> None:
    op.create_table(
        "memories",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("last_good", sa.Text(), nullable=True),
        sa.Column("broken", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_memories")),
    )


def _memory_owners() -> None:
    op.create_table(
        "memory_owners",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("off", sa.Boolean(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("forgotten_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_memory_owners")),
    )


def _memory_lists() -> None:
    op.create_table(
        "memory_lists",
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("shown_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("conversation", name=op.f("pk_memory_lists")),
    )
    op.create_index(op.f("ix_memory_lists_shown_at"), "memory_lists", ["shown_at"])


def _memory_queue() -> None:
    op.create_table(
        "memory_queue",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_queue")),
        sa.UniqueConstraint("run_id", name=op.f("uq_memory_queue_run_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_memory_queue_owner_due_at"), "memory_queue", ["owner", "due_at"])
    op.create_index(op.f("ix_memory_queue_queued_at"), "memory_queue", ["queued_at"])
    op.create_index(op.f("ix_memory_queue_thread_id_speaker"), "memory_queue", ["thread_id", "speaker"])


def _access() -> None:
    op.create_table(
        "access",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("code_hash", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("chat", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("subject_kind", "subject_id", name=op.f("pk_access")),
    )
    op.create_index(op.f("ix_access_account_state"), "access", ["account", "state"])


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
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sa.UniqueConstraint("call", name=op.f("uq_usage_call")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_usage_at"), "usage", ["at"])
    op.create_index(op.f("ix_usage_conversation_at"), "usage", ["conversation", "at"])
    op.create_index(op.f("ix_usage_speaker_at"), "usage", ["speaker", "at"])
    op.create_index(op.f("ix_usage_thread_id_run_id"), "usage", ["thread_id", "run_id"])


def _deletions() -> None:
    op.create_table(
        "deletions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("reply_key", sa.Text(), nullable=True),
        sa.Column("chat", sa.Text(), nullable=True),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deletions")),
    )
    op.create_index(op.f("ix_deletions_done_at"), "deletions", ["done_at"])
