"""Values that the store's tests write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bot.store.rows import OutboxRow, PromptRow, RunRow, RunState
from bot.store.sql import to_json
from channels.message import OUTBOUND_MESSAGE, Address, Message, OutboundMessage, Sender
from harness.context import RunContext, RunInput, Speaker

if TYPE_CHECKING:
    from bot.store import Store

NOW = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
OWNER = "telegram:7"
DM = Address(account="telegram", chat="7")


def message(*keys: str, text: str = "hello", account: str = "telegram", chat: str = "7", number: str = "1") -> Message:
    """A direct message with these dedupe keys."""
    return Message(
        account=account,
        dedupe_keys=keys,
        sent_at=NOW,
        received_at=NOW,
        address=Address(account=account, chat=chat),
        platform_message_id=number,
        sender=Sender(id=chat, display_name="Ann"),
        text=text,
        mention=True,
    )


def run_row(*inbox_ids: int, conversation: str = OWNER, owner: str = OWNER, address: Address = DM) -> RunRow:
    """A pending run that answers these messages."""
    run_id = uuid4().hex
    context = RunContext(
        thread_id="thread",
        run_id=run_id,
        account=address.account,
        conversation=conversation,
        owner=owner,
        speaker=Speaker(id=OWNER, display_name="Ann"),
        is_group=owner == conversation,
        locale="en",
        model="demo",
    )
    return RunRow(
        run_id=run_id,
        thread_id="thread",
        conversation=conversation,
        speaker=OWNER,
        inbox_ids=inbox_ids,
        reply_key=f"reply-{run_id}",
        address=address,
        reply_to="1",
        state=RunState.PENDING,
        context=context,
        input=RunInput(message_id="m1", text="hello"),
        base_checkpoint_id=None,
        head=None,
        attempt=0,
        epoch=0,
        model_calls=0,
        created_at=NOW,
        started_at=None,
        ended_at=None,
    )


def outbox_row(reply_key: str = "reply", part: int = 0, **changes: Any) -> OutboxRow:
    """A draft's part that is about to be sent."""
    values: dict[str, Any] = {
        "reply_key": reply_key,
        "part": part,
        "idem_key": f"{reply_key}:{part}",
        "address": DM,
        "reply_to": None,
        "sent_after": None,
        "message_id": None,
        "body": body("") if part == 0 else "",
        "desired_rev": 1,
        "sent_rev": 0,
        "final": False,
        "created_at": NOW,
    }
    return OutboxRow(**(values | changes))


def body(text: str) -> str:
    """A reply's state as the outbox keeps it."""
    return to_json(OUTBOUND_MESSAGE, OutboundMessage(text=text, final=True))


def prompt_row(prompt_id: str = "p1", who: str | None = OWNER) -> PromptRow:
    """A question that runs out a minute after NOW."""
    return PromptRow(
        id=prompt_id,
        kind="model",
        conversation=OWNER,
        run_id=None,
        who=who,
        options="[]",
        args_hash=None,
        message_id=None,
        expires_at=LATER,
        answer=None,
        answered_by=None,
    )


async def pruned(store: Store, table: Any, before: datetime) -> int:
    """Have a table forget what is older, as upkeep does; how many rows or replies that were."""
    found = await store.read(lambda tx: table.old(tx, before, 100))
    await store.write(lambda tx: table.remove(tx, found))
    return len(found)
