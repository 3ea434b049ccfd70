"""Every table and column. `doc` describes a column; migrations/ holds the same schema as frozen steps.

No column has a default supplied by the database: rows are complete when they are written, on both databases alike.
The only foreign key ties a thread to its owner; the other tables are pruned by age, one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from bot.store.sql import BigId, Ids, Instant, Json, SafeText
from harness.context import RUN_CONTEXT, RUN_INPUT, UNREADABLE_CONTEXT, UNREADABLE_INPUT

if TYPE_CHECKING:
    from datetime import datetime

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)
UNCONDENSED = text("condensed_at IS NULL")


def _text(name: str, doc: str, *, null: bool = False) -> Column[str]:
    return Column(name, SafeText, nullable=null, doc=doc)


def _time(name: str, doc: str, *, null: bool = False) -> Column[datetime]:
    return Column(name, Instant, nullable=null, doc=doc)


def _count(name: str, doc: str) -> Column[int]:
    return Column(name, Integer, nullable=False, doc=doc)


def _flag(name: str, doc: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, doc=doc)


def _address() -> list[Column[str]]:
    return [
        _text("account", "permanent id of the configured account"),
        _text("chat", "the platform's chat id"),
        _text("topic", "forum topic or thread inside the chat", null=True),
        _text("chat_kind", "dm, group or channel"),
    ]


instance = Table(
    "instance",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, doc="always 1: the single row"),
    _count("epoch", "incremented by each process that takes over; only writes of the current epoch are accepted"),
    _text("owner", "process that holds the lease, host:pid; empty after a clean stop"),
    _time("lease_until", "PostgreSQL: no other process may take over before then, by the server's clock", null=True),
    _text(
        "works_with", "oldest revision whose programs may still use these tables; null: only the current one", null=True
    ),
)

accounts = Table(
    "accounts",
    metadata,
    Column("name", SafeText, primary_key=True, doc="key in the config, permanent"),
    _text("platform", "name of the adapter"),
    _text("bot_id", "the platform's immutable id of the bot"),
    _time("first_seen", "first connection"),
    _time("last_seen", "latest connection"),
    Column("moves", Integer, nullable=True, doc="number of times a chat of the account got a new id; null: never"),
    UniqueConstraint("platform", "bot_id"),
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", BigId, primary_key=True, doc="order of arrival; never reused"),
    _text("account", "receiving account"),
    _text("chat", "chat of the event; null for events without a chat", null=True),
    _text("platform_message_id", "of messages only, to find them when they are edited", null=True),
    _text("event", "the InboundEvent as JSON"),
    _time("received_at", "by the gateway's clock"),
    _text("state", "InboxState"),
    _text("reason", "why the event is done or dead", null=True),
    _text("run_id", "run that answers the event", null=True),
    Index(None, "state", "id"),
    Index(None, "account", "chat", "platform_message_id"),
    Index(None, "account", "id"),
    Index(None, "received_at"),
    sqlite_autoincrement=True,
)

inbox_keys = Table(
    "inbox_keys",
    metadata,
    _text("account", "account that the key belongs to"),
    _text("key", "one of the event's dedupe_keys"),
    Column("inbox_id", BigId, nullable=False, doc="first event with this key"),
    PrimaryKeyConstraint("account", "key"),
    Index(None, "inbox_id"),
)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", SafeText, primary_key=True, doc="random UUID hex: LangGraph's thread_id, the folder's name"),
    _text("conversation", "conversation in which it was started; empty once it is to be deleted"),
    _text("owner", "owner; never changes"),
    _text("title", "from /new or generated from the first exchange, else empty"),
    _time("created_at", "time of creation"),
    _time("touched_at", "last request in it, or last write by a program; null: none yet", null=True),
    _time("condensed_at", "when its earlier steps were dropped; null: not dropped", null=True),
    UniqueConstraint("thread_id", "owner"),
    Index("ix_threads_whole", "touched_at", sqlite_where=UNCONDENSED, postgresql_where=UNCONDENSED),
    Index(None, "conversation"),
    Index(None, "owner"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("key", SafeText, primary_key=True, doc="account:chat[/topic][@speaker]"),
    _text("account", "account it belongs to"),
    _text("owner", "the person in a DM, the conversation in a group"),
    _text("thread_id", "current thread"),
    _text("model", "chosen with /models; null: the default", null=True),
    _time("created_at", "time of its first message"),
    _text("agent", "chosen with /agent; null: the default", null=True),
    _text("skills_off", "names of the skills that are off in it, JSON list; null: none", null=True),
    _text("timezone", "IANA name, chosen with /timezone; null: the gateway's", null=True),
    _text("progress", "off, short or full, chosen with /verbose; null: the account's", null=True),
    _text("research_style", "style of reports, chosen with /research style; null: the gateway's", null=True),
    _text("voice", "on or off, chosen with /voice; null: the gateway's", null=True),
    # A conversation can only reference a thread of its owner.
    ForeignKeyConstraint(["thread_id", "owner"], ["threads.thread_id", "threads.owner"], onupdate="CASCADE"),
)

runs = Table(
    "runs",
    metadata,
    Column("seq", BigId, primary_key=True, doc="order in which runs were opened"),
    _text("run_id", "random UUID hex"),
    _text("thread_id", "thread that it continues"),
    _text("conversation", "conversation that it answers"),
    _text("speaker", "person id of the speaker it answers"),
    Column("inbox_ids", Ids, nullable=False, doc="messages that it answers, JSON list"),
    _text("reply_key", "its reply in the outbox"),
    *_address(),
    _text("reply_to", "platform message that it answers", null=True),
    _text("state", "RunState"),
    _text("detail", "details of its end, if known", null=True),
    Column("context", Json(RUN_CONTEXT, UNREADABLE_CONTEXT), nullable=False, doc="RunContext as JSON"),
    Column("input", Json(RUN_INPUT, UNREADABLE_INPUT), nullable=False, doc="RunInput as JSON"),
    _text("base_checkpoint_id", "the thread's newest checkpoint before the run", null=True),
    _text("head", "the thread's newest checkpoint when the run was last started", null=True),
    _count("attempt", "consecutive starts without a new checkpoint or a planned stop; 0 before the first"),
    _flag("suspended", "whether the last stop was planned"),
    _count("epoch", "epoch of the instance that last started it"),
    _count("model_calls", "number over all attempts"),
    _time("created_at", "when it was opened"),
    _time("started_at", "first start", null=True),
    _time("ended_at", "null while pending, running or waiting", null=True),
    _text("stop", "why it is being ended (StopReason), recorded before its work is stopped", null=True),
    Column("ahead", Integer, nullable=True, doc="priority among waiting runs, the highest first; null: none"),
    Column("deaths", Ids, nullable=False, doc="instances that died while it was running, JSON list"),
    _text("rule", "rule that admitted its first message: config keys, access states; empty: none"),
    Column("place", Integer, nullable=True, doc="number of runs of its conversation ahead of it; null: unknown"),
    Column("slot_wait", Integer, nullable=True, doc="milliseconds it waited for a free slot at its last start"),
    Column("first_words", Integer, nullable=True, doc="milliseconds from its first start to its first text"),
    UniqueConstraint("run_id"),
    Index(None, "conversation", "seq"),
    Index("ix_runs_thread_ended", "thread_id", "ended_at"),
    Index(None, "state"),
    Index(None, "ended_at"),
    # Only one active run per conversation.
    Index(
        "uq_runs_active",
        "conversation",
        unique=True,
        sqlite_where=text("state IN ('running', 'waiting')"),
        postgresql_where=text("state IN ('running', 'waiting')"),
    ),
    sqlite_autoincrement=True,
)

run_events = Table(
    "run_events",
    metadata,
    _text("run_id", "run that the event belongs to"),
    _count("seq", "position in the run"),
    _text("type", "event type"),
    _text("body", "event as JSON, deltas folded into one row per message"),
    PrimaryKeyConstraint("run_id", "seq"),
)

effects = Table(
    "effects",
    metadata,
    _text("run_id", "run of the tool call"),
    _text("call_id", "the model's id of the tool call"),
    _text("thread_id", "thread of the run"),
    _text("tool", "name of the tool"),
    _text("state", "started: it may have happened; done: it did"),
    _text("result", "JSON; empty until done"),
    _time("started_at", "start of the call"),
    _time("done_at", "when its result was recorded", null=True),
    PrimaryKeyConstraint("run_id", "call_id"),
)

outbox = Table(
    "outbox",
    metadata,
    _text("reply_key", "key of the reply, derived from the event it answers"),
    _count("part", "number of the platform message in the reply, from 0"),
    _text("idem_key", "idempotency key passed to the platform"),
    *_address(),
    _text("reply_to", "platform message that it answers", null=True),
    _text("message_id", "null until a send is recorded", null=True),
    _text("body", "the reply's OutboundMessage as JSON on part 0, empty elsewhere"),
    _count("desired_rev", "revision that should be shown"),
    _count("sent_rev", "newest revision the platform accepted; if less than desired_rev, an update is due"),
    _flag("final", "whether the reply is complete and will not change"),
    _flag("numbered", "the platform refused the buttons: people answer by typing a number"),
    _count("epoch", "epoch of the instance that intended the send"),
    _time("created_at", "when the intent was committed"),
    _time("delivered_at", "when the whole reply was delivered", null=True),
    _text("abandoned", "why delivery was abandoned", null=True),
    _text("sent_after", "newest message id known to the channel before the send; null: none", null=True),
    PrimaryKeyConstraint("reply_key", "part"),
    Index(None, "delivered_at"),
    Index(None, "account", "chat", "created_at"),
    # For outbox.newest_ids, at each start.
    Index(
        "ix_outbox_newest",
        "account",
        "epoch",
        "delivered_at",
        sqlite_where=text("delivered_at IS NOT NULL"),
        postgresql_where=text("delivered_at IS NOT NULL"),
    ),
)

prompts = Table(
    "prompts",
    metadata,
    Column("id", SafeText, primary_key=True, doc="part of Button.data, so about 40 bytes at most"),
    _text("kind", "how the answer is handled"),
    _text("conversation", "conversation in which it was asked"),
    _text("run_id", "run that waits for the answer", null=True),
    _text("who", "person who may answer; null: anyone with access to the conversation", null=True),
    _text("options", "JSON"),
    _text("args_hash", "of the approved call, so that no other call is approved", null=True),
    _text("message_id", "platform message that shows the buttons", null=True),
    _time("expires_at", "answers are ignored from this time on"),
    _text("answer", "chosen option", null=True),
    _text("answered_by", "person id", null=True),
    _time("answered_at", "time of the answer", null=True),
    _flag("expired", "whether its expiry was reported"),
    Index(None, "expires_at"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("prompt_id", SafeText, primary_key=True, doc="prompt whose buttons decide it"),
    _text("run_id", "run that waits for it"),
    _text("call_id", "tool call within the run, as in effects"),
    _text("args_hash", "of the exact call: the decision applies to no other"),
    _text("conversation", "conversation in which it was asked"),
    _text("requester", "person id of the speaker the run answers"),
    _text("tool", "name of the tool"),
    _text("shown", "arguments as shown to people"),
    _text("why", "the rule's reason for asking, or empty"),
    _text("coverage", "scope of a decision: call:... or tool:... for the chat, once:... or admins:... for one call"),
    _time("asked_at", "when people were asked"),
    _time("expires_at", "denied from this time on"),
    _text("reason_from", "person whose next message is the reason for the denial", null=True),
    _text("decision", "once, chat, deny, expired or stopped; null while open", null=True),
    _text("reason", "reason for a denial, as its author wrote it; else empty"),
    _text("decided_by", "person id; null if it expired or was stopped", null=True),
    _time("decided_at", "time of the decision", null=True),
    UniqueConstraint("run_id", "call_id", "args_hash"),
    Index(None, "conversation", "asked_at"),
)

approval_grants = Table(
    "approval_grants",
    metadata,
    Column("id", BigId, primary_key=True, doc="order in which they were granted; never reused"),
    _text("conversation", "conversation in which it applies"),
    _text("person", "whose runs it covers; empty: everyone's in the conversation"),
    _text("tool", "name of the tool"),
    _text("coverage", "coverage of the approval that was granted for the whole chat"),
    _text("shown", "what was allowed, for the list"),
    _text("granted_by", "person id"),
    _time("granted_at", "time of the grant"),
    UniqueConstraint("conversation", "person", "tool", "coverage"),
    sqlite_autoincrement=True,
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", SafeText, primary_key=True, doc="derived from the tool call that created it, to create it once"),
    *_address(),
    _text("reply_to", "platform message that requested it, to find its topic again", null=True),
    _text("conversation", "conversation in which it was created"),
    _text("person", "person id of the owner, for whom it runs"),
    _text("name", "the person's name at that time, untrusted text"),
    _text("language", "language of the answer"),
    _text("text", "reminder or task"),
    _text("kind", "once or cron"),
    _text("spec", "time in ISO 8601, or cron expression"),
    _text("timezone", "IANA name, for the cron expression and for times shown"),
    _time("next_at", "next due time; after its end, the last one"),
    _time("created_at", "time of creation"),
    _time("last_fired_at", "when it was last added to the inbox", null=True),
    _text("state", "ScheduleState"),
    _time("ended_at", "null while active", null=True),
    Index(None, "state", "next_at"),
    Index(None, "person", "state"),
    Index(None, "account", "chat", "state"),
    Index(None, "ended_at"),
)

access = Table(
    "access",
    metadata,
    _text("account", "account to which access is granted"),
    _text("subject_kind", "person or group"),
    _text("subject_id", "account:native id of the person, account:chat of the group"),
    _text("state", "AccessState"),
    _text("display_name", "untrusted text, for the deciding admin"),
    _text("code_hash", "of the pairing code while pending; for a pending group, a name for the request", null=True),
    _time("created_at", "time of the first request"),
    _time("expires_at", "end of the code, the request or the refusal", null=True),
    _time("decided_at", "when access was granted or blocked", null=True),
    _text("decided_by", "person id of the admin, or a word for how it was decided", null=True),
    _text("chat", "chat in which the person is notified; null: unknown", null=True),
    _text("language", "language of the notification, or empty"),
    PrimaryKeyConstraint("subject_kind", "subject_id"),
    Index(None, "account", "state"),
)

usage = Table(
    "usage",
    metadata,
    Column("id", BigId, primary_key=True, doc="order of the model calls"),
    _text("run_id", "run that made the call"),
    _text("thread_id", "thread of the run"),
    _text("model", "name of the configured model"),
    Column("input_tokens", BigId, nullable=False, doc="as counted by the provider, including cached ones"),
    Column("output_tokens", BigId, nullable=False, doc="as counted by the provider"),
    Column("cached_tokens", BigId, nullable=False, doc="part of input_tokens that came from a cache"),
    _time("at", "when the call was recorded"),
    _text("call", "identifies the call, so that it is counted once"),
    _text("conversation", "conversation of the run"),
    _text("speaker", "person id of the speaker it answered"),
    Column("cost", BigInteger, nullable=True, doc="in billionths of the currency; null: the model had no price"),
    _text("currency", "currency of the cost", null=True),
    Column("calls", Integer, nullable=True, doc="number of calls of one day that the row sums up; null: a single call"),
    UniqueConstraint("call"),
    Index(None, "thread_id", "run_id"),
    Index(None, "conversation", "at"),
    Index(None, "speaker", "at"),
    Index(None, "at"),
    # For usage.fold.
    Index("ix_usage_whole", "at", sqlite_where=text("calls IS NULL"), postgresql_where=text("calls IS NULL")),
    sqlite_autoincrement=True,
)

program_threads = Table(
    "program_threads",
    metadata,
    Column("key", SafeText, primary_key=True, doc="key of its conversation"),
    _text("person", "person id of the owner of the programs that created it"),
    _text("name", "its id in the API, a UUID"),
    _text("metadata", "the programs' own data about it, a JSON object"),
    _flag("temporary", "for a single run: deleted some time after the run has ended"),
    _time("created_at", "time of creation"),
    _time("updated_at", "last request in it, or last change of its metadata"),
    Index(None, "person"),
)

branches = Table(
    "branches",
    metadata,
    Column("thread_id", SafeText, primary_key=True, doc="thread of the branch"),
    _text("key", "its conversation"),
    _text("source_key", "conversation that it was branched from"),
    _text("source_thread", "thread that it continues"),
    _text("before", "message of that thread before which it begins, else empty"),
    _text("through", "run of that thread after which it begins, else empty"),
    _text("checkpoint", "the thread's newest checkpoint before that message, if known", null=True),
    _text("messages", "messages it began with, as shown: JSON"),
    _text("lacks", "what could not be copied: results, files, both (separated by a comma), or empty"),
    _time("created_at", "time of the request"),
    _time("made_at", "when it was complete; null: not yet", null=True),
    Index(None, "key"),
    Index(None, "source_key"),
    Index(None, "made_at"),
)

deletions = Table(
    "deletions",
    metadata,
    Column("id", SafeText, primary_key=True, doc="chosen by the requester, so that a request is recorded once"),
    _text("kind", "DeletionKind"),
    _text("subject", "id of the thread or person"),
    _text("account", "account of the threads or the person"),
    _text("asked_by", "person id, or a word for how it was requested"),
    _time("asked_at", "time of the request; newer data is kept"),
    _text("reply_key", "reply that shows its progress; null: none", null=True),
    _text("chat", "chat of that reply", null=True),
    _text("topic", "as in the outbox", null=True),
    _text("chat_kind", "as in the outbox", null=True),
    _text("language", "language of that reply, or empty"),
    _text("counts", "what has been deleted so far, JSON"),
    _time("done_at", "null until everything is deleted", null=True),
    Index(None, "done_at"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", SafeText, primary_key=True, doc="SHA-256 of the cookie's value, hex"),
    _text("person", "person id of the signed-in user"),
    _text("agent", "the browser's User-Agent, untrusted, truncated"),
    _time("created_at", "time of sign-in"),
    _time("expires_at", "requests are refused from this time on"),
    Index(None, "person"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", SafeText, primary_key=True, doc="identifies it in lists; first part of the token itself"),
    _text("digest", "SHA-256 of the token, hex"),
    _text("name", "name given by its creator"),
    _text("person", "person id it acts as"),
    _text("scopes", "what it permits, JSON list"),
    _time("created_at", "time of creation"),
    _time("expires_at", "null: never", null=True),
    _time("used_at", "latest use, to the hour", null=True),
    UniqueConstraint("digest"),
    Index(None, "person"),
)
