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
        _text("account", "the configured account's permanent id"),
        _text("chat", "the platform's chat id"),
        _text("topic", "the forum topic or thread inside the chat", null=True),
        _text("chat_kind", "dm, group or channel"),
    ]


instance = Table(
    "instance",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, doc="always 1: the single row"),
    _count("epoch", "grows by one with each process that takes over; only writes of the current epoch are accepted"),
    _text("owner", "the process that holds the lease, host:pid; empty after a clean stop"),
    _time("lease_until", "PostgreSQL: until then nobody else may take over, by the server's clock", null=True),
    _text(
        "works_with", "the oldest revision whose programs may still work on these tables; null: only this", null=True
    ),
)

accounts = Table(
    "accounts",
    metadata,
    Column("name", SafeText, primary_key=True, doc="the key in the config, permanent"),
    _text("platform", "the adapter's name"),
    _text("bot_id", "the platform's immutable id of the bot"),
    _time("first_seen", "its first connection"),
    _time("last_seen", "its newest connection"),
    Column("moves", Integer, nullable=True, doc="how often the platform gave one of its chats another id; null: never"),
    UniqueConstraint("platform", "bot_id"),
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", BigId, primary_key=True, doc="the order of arrival, never used twice"),
    _text("account", "who received it"),
    _text("chat", "where it was written; null for events without a chat", null=True),
    _text("platform_message_id", "only of messages, for edits of them", null=True),
    _text("event", "the InboundEvent as JSON"),
    _time("received_at", "our clock"),
    _text("state", "InboxState"),
    _text("reason", "why it is done or dead", null=True),
    _text("run_id", "the run that answers it", null=True),
    Index(None, "state", "id"),
    Index(None, "account", "chat", "platform_message_id"),
    Index(None, "account", "id"),
    Index(None, "received_at"),
    sqlite_autoincrement=True,
)

inbox_keys = Table(
    "inbox_keys",
    metadata,
    _text("account", "keys are the account's own"),
    _text("key", "one of the event's dedupe_keys"),
    Column("inbox_id", BigId, nullable=False, doc="the first event that had it"),
    PrimaryKeyConstraint("account", "key"),
    Index(None, "inbox_id"),
)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", SafeText, primary_key=True, doc="random UUID hex: LangGraph's thread_id, the folder's name"),
    _text("conversation", "where it was begun; empty from when it is to be deleted"),
    _text("owner", "whose it is; never changes"),
    _text("title", "from /new or made of its first exchange, else empty"),
    _time("created_at", "when it was begun"),
    _time("touched_at", "when something was asked in it, or a program wrote into it, last; null until then", null=True),
    _time("condensed_at", "when its steps of before were dropped; null: they are there", null=True),
    UniqueConstraint("thread_id", "owner"),
    Index("ix_threads_whole", "touched_at", sqlite_where=UNCONDENSED, postgresql_where=UNCONDENSED),
    Index(None, "conversation"),
    Index(None, "owner"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("key", SafeText, primary_key=True, doc="account:chat[/topic][@speaker]"),
    _text("account", "the account it belongs to"),
    _text("owner", "the person in a DM, the conversation in a group"),
    _text("thread_id", "its current thread"),
    _text("model", "chosen by /models, null for the default", null=True),
    _time("created_at", "its first message"),
    _text("agent", "chosen by /agent, null for the default", null=True),
    _text("skills_off", "names of the skills that are off there, JSON list; null for none", null=True),
    _text("timezone", "IANA name, chosen by /timezone; null for the gateway's", null=True),
    _text("progress", "off, short or full, chosen by /verbose; null for the account's", null=True),
    _text("research_style", "style of reports, chosen by /research style; null for the gateway's", null=True),
    _text("voice", "on or off, chosen by /voice; null for the gateway's", null=True),
    # A conversation can only reference a thread of its owner.
    ForeignKeyConstraint(["thread_id", "owner"], ["threads.thread_id", "threads.owner"], onupdate="CASCADE"),
)

runs = Table(
    "runs",
    metadata,
    Column("seq", BigId, primary_key=True, doc="the order in which runs were opened"),
    _text("run_id", "random UUID hex"),
    _text("thread_id", "the agent's history that it continues"),
    _text("conversation", "who waits for it"),
    _text("speaker", "person id of whom it answers"),
    Column("inbox_ids", Ids, nullable=False, doc="the messages that it answers, JSON list"),
    _text("reply_key", "its reply in the outbox"),
    *_address(),
    _text("reply_to", "the platform message that it answers", null=True),
    _text("state", "RunState"),
    _text("detail", "what is known of its end", null=True),
    Column("context", Json(RUN_CONTEXT, UNREADABLE_CONTEXT), nullable=False, doc="RunContext as JSON"),
    Column("input", Json(RUN_INPUT, UNREADABLE_INPUT), nullable=False, doc="RunInput as JSON"),
    _text("base_checkpoint_id", "the thread's newest checkpoint before the run", null=True),
    _text("head", "the thread's newest checkpoint when the run was last started", null=True),
    _count("attempt", "starts in a row without a new checkpoint and without a planned stop; 0 before the first"),
    _flag("suspended", "the last stop was planned"),
    _count("epoch", "the instance that started it last"),
    _count("model_calls", "over all attempts"),
    _time("created_at", "when it was opened"),
    _time("started_at", "its first start", null=True),
    _time("ended_at", "null while it is pending, running or waiting", null=True),
    _text("stop", "why it is being ended (StopReason), recorded before its work is stopped", null=True),
    Column("ahead", Integer, nullable=True, doc="of those that wait the greatest goes first; null: in its turn"),
    Column("deaths", Ids, nullable=False, doc="the instances that died while it was at work, JSON list"),
    _text("rule", "by which its first message was let in: keys of the config, states of access; empty: none"),
    Column("place", Integer, nullable=True, doc="how many runs of its conversation stood before it; null: not known"),
    Column("slot_wait", Integer, nullable=True, doc="milliseconds that it waited for a free slot at its last start"),
    Column("first_words", Integer, nullable=True, doc="milliseconds from its first start to its first words"),
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
    _text("run_id", "whose event it is"),
    _count("seq", "its place in the run"),
    _text("type", "the event's type"),
    _text("body", "the event as JSON, deltas folded to one row per message"),
    PrimaryKeyConstraint("run_id", "seq"),
)

effects = Table(
    "effects",
    metadata,
    _text("run_id", "the run of the tool call"),
    _text("call_id", "the model's id of the tool call"),
    _text("thread_id", "the run's thread"),
    _text("tool", "the tool's name"),
    _text("state", "started: it may have happened; done: it did"),
    _text("result", "JSON; empty until done"),
    _time("started_at", "when it was begun"),
    _time("done_at", "when its result was recorded", null=True),
    PrimaryKeyConstraint("run_id", "call_id"),
)

outbox = Table(
    "outbox",
    metadata,
    _text("reply_key", "the reply, derived from the event it answers"),
    _count("part", "which platform message of the reply, from 0"),
    _text("idem_key", "given to the platform with the send"),
    *_address(),
    _text("reply_to", "the platform message that it answers", null=True),
    _text("message_id", "null until a send was recorded", null=True),
    _text("body", "the reply's OutboundMessage as JSON on part 0, empty elsewhere"),
    _count("desired_rev", "counts what should be shown"),
    _count("sent_rev", "the newest revision that the platform took; behind desired_rev means work to do"),
    _flag("final", "the reply will not change any more"),
    _flag("numbered", "the platform refused its buttons, so that a typed number answers it"),
    _count("epoch", "the instance that intended the send"),
    _time("created_at", "when the intent was committed"),
    _time("delivered_at", "when the whole reply had been delivered", null=True),
    _text("abandoned", "why it is not delivered any more", null=True),
    _text("sent_after", "the newest message id known to the channel before the send; null if none was", null=True),
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
    Column("id", SafeText, primary_key=True, doc="part of Button.data, so at most some 40 bytes"),
    _text("kind", "what to do with the answer"),
    _text("conversation", "where it was asked"),
    _text("run_id", "the run that waits for it", null=True),
    _text("who", "the person who may answer, null for anyone allowed here", null=True),
    _text("options", "JSON"),
    _text("args_hash", "of what is approved, so that nothing else is", null=True),
    _text("message_id", "the platform message that shows the buttons", null=True),
    _time("expires_at", "no answer counts from then on"),
    _text("answer", "the option taken", null=True),
    _text("answered_by", "person id", null=True),
    _time("answered_at", "when", null=True),
    _flag("expired", "its expiry was reported"),
    Index(None, "expires_at"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("prompt_id", SafeText, primary_key=True, doc="of the prompt whose buttons answer it"),
    _text("run_id", "the run that waits for it"),
    _text("call_id", "the tool call within the run, as in effects"),
    _text("args_hash", "of the exact call: the decision counts for nothing else"),
    _text("conversation", "where it was asked"),
    _text("requester", "person id of whom the run answers"),
    _text("tool", "the tool's name"),
    _text("shown", "the arguments as people were shown them"),
    _text("why", "the rule's reason to ask, or empty"),
    _text("coverage", "what an answer covers: call:... or tool:... for the whole chat, once:... or admins:... alone"),
    _time("asked_at", "when it was put to people"),
    _time("expires_at", "denied from then on"),
    _text("reason_from", "the person whose next message is the reason of the denial", null=True),
    _text("decision", "once, chat, deny, expired or stopped; null while it is open", null=True),
    _text("reason", "of a denial, in the words of who denied it; else empty"),
    _text("decided_by", "person id; null where time or a stop decided", null=True),
    _time("decided_at", "when", null=True),
    UniqueConstraint("run_id", "call_id", "args_hash"),
    Index(None, "conversation", "asked_at"),
)

approval_grants = Table(
    "approval_grants",
    metadata,
    Column("id", BigId, primary_key=True, doc="the order in which they were given, never used twice"),
    _text("conversation", "where it counts"),
    _text("person", "for whose runs; empty: for everybody's there"),
    _text("tool", "the tool's name"),
    _text("coverage", "as of the approval that was answered for the whole chat"),
    _text("shown", "for the list: what was allowed"),
    _text("granted_by", "person id"),
    _time("granted_at", "when"),
    UniqueConstraint("conversation", "person", "tool", "coverage"),
    sqlite_autoincrement=True,
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", SafeText, primary_key=True, doc="derived from the tool call that made it, so that it is made once"),
    *_address(),
    _text("reply_to", "the platform message that asked for it, to find its topic again", null=True),
    _text("conversation", "where it was made"),
    _text("person", "person id of whom it belongs to, and for whom it runs"),
    _text("name", "untrusted text: what they were called then"),
    _text("language", "to answer in"),
    _text("text", "what to remind of, or to do"),
    _text("kind", "once or cron"),
    _text("spec", "the time in ISO 8601, or the cron expression"),
    _text("timezone", "IANA name: where the cron expression counts, and to tell times in"),
    _time("next_at", "when it is due; of one that has ended, when it was due last"),
    _time("created_at", "when it was made"),
    _time("last_fired_at", "when it was put into the inbox last", null=True),
    _text("state", "ScheduleState"),
    _time("ended_at", "null while it is active", null=True),
    Index(None, "state", "next_at"),
    Index(None, "person", "state"),
    Index(None, "account", "chat", "state"),
    Index(None, "ended_at"),
)

access = Table(
    "access",
    metadata,
    _text("account", "rights are given per account"),
    _text("subject_kind", "person or group"),
    _text("subject_id", "account:native id of the person, account:chat of the group"),
    _text("state", "AccessState"),
    _text("display_name", "untrusted text, for the admin who decides"),
    _text("code_hash", "of the pairing code while pending, of a group a name for its request", null=True),
    _time("created_at", "when it was first asked for"),
    _time("expires_at", "until when the code or the request is good, or the refusal holds", null=True),
    _time("decided_at", "when it was granted or blocked", null=True),
    _text("decided_by", "person id of the admin, or a word for the way", null=True),
    _text("chat", "where the person is told about it, null when that is not known", null=True),
    _text("language", "to tell it in, or empty"),
    PrimaryKeyConstraint("subject_kind", "subject_id"),
    Index(None, "account", "state"),
)

usage = Table(
    "usage",
    metadata,
    Column("id", BigId, primary_key=True, doc="the order of the model calls"),
    _text("run_id", "the run that paid"),
    _text("thread_id", "the run's thread"),
    _text("model", "the configured model's name"),
    Column("input_tokens", BigId, nullable=False, doc="as the provider counted them, cached ones included"),
    Column("output_tokens", BigId, nullable=False, doc="as the provider counted them"),
    Column("cached_tokens", BigId, nullable=False, doc="the part of input_tokens that came from a cache"),
    _time("at", "when the call was recorded"),
    _text("call", "names the call, so that it counts once"),
    _text("conversation", "where the run was asked for"),
    _text("speaker", "person id of whom it answered"),
    Column("cost", BigInteger, nullable=True, doc="in billionths of the currency; null where the model had no price"),
    _text("currency", "of the cost", null=True),
    Column("calls", Integer, nullable=True, doc="how many calls of one day the row sums up; null: one, as it was made"),
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
    Column("key", SafeText, primary_key=True, doc="of the conversation that it is"),
    _text("person", "person id of whose programs made it"),
    _text("name", "the id by which programs know it, a UUID"),
    _text("metadata", "the programs' own data about it, a JSON object"),
    _flag("temporary", "for one run: it is deleted a while after that has ended"),
    _time("created_at", "when it was made"),
    _time("updated_at", "when something was asked in it, or its metadata was changed, last"),
    Index(None, "person"),
)

branches = Table(
    "branches",
    metadata,
    Column("thread_id", SafeText, primary_key=True, doc="the branch's own thread"),
    _text("key", "its conversation"),
    _text("source_key", "the conversation that it was branched from"),
    _text("source_thread", "the thread that it continues"),
    _text("before", "the message of that thread before which it begins, else empty"),
    _text("through", "the run of that thread with whose end it begins, else empty"),
    _text("checkpoint", "the thread's newest checkpoint before that message, where it is known", null=True),
    _text("messages", "what it began with, as it is shown: JSON"),
    _text("lacks", "what could not be taken along: results, files, both with a comma, or empty"),
    _time("created_at", "when it was asked for"),
    _time("made_at", "when it was whole; null until then", null=True),
    Index(None, "key"),
    Index(None, "source_key"),
    Index(None, "made_at"),
)

deletions = Table(
    "deletions",
    metadata,
    Column("id", SafeText, primary_key=True, doc="made by who asked for it, so that it is asked for once"),
    _text("kind", "DeletionKind"),
    _text("subject", "the thread's id or the person's"),
    _text("account", "whose threads, or whose person, these are"),
    _text("asked_by", "person id, or a word for the way"),
    _time("asked_at", "what is younger stays"),
    _text("reply_key", "the reply that tells how it goes, null where nobody is told", null=True),
    _text("chat", "where that reply is", null=True),
    _text("topic", "as in the outbox", null=True),
    _text("chat_kind", "as in the outbox", null=True),
    _text("language", "to tell it in, or empty"),
    _text("counts", "what was deleted so far, JSON"),
    _time("done_at", "null until all of it is gone", null=True),
    Index(None, "done_at"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", SafeText, primary_key=True, doc="SHA-256 of the cookie's value, hex"),
    _text("person", "person id of who signed in"),
    _text("agent", "the browser as it called itself, untrusted; cut"),
    _time("created_at", "when they signed in"),
    _time("expires_at", "no request counts from then on"),
    Index(None, "person"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", SafeText, primary_key=True, doc="names it in lists; the first part of the token itself"),
    _text("digest", "SHA-256 of the token, hex"),
    _text("name", "what it was called by who made it"),
    _text("person", "person id as whom it acts"),
    _text("scopes", "what it is good for, JSON list"),
    _time("created_at", "when it was made"),
    _time("expires_at", "null: never", null=True),
    _time("used_at", "its newest use, to the hour", null=True),
    UniqueConstraint("digest"),
    Index(None, "person"),
)
