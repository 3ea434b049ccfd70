"""Messages of a request for approval in the chat, open and decided, with their buttons.

The harness provides the arguments escaped and shortened; here they only get a fence that they cannot close.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.delivery.buttons import question
from bot.texts import texts_for
from bot.texts.markdown import inline, plain
from channels.message import Button, OutboundMessage
from harness.text.plain import short_line

if TYPE_CHECKING:
    from bot.store.prompts import ApprovalRow
    from bot.store.rows import PromptRow, RunRow
    from bot.texts.catalogue import Texts

APPROVAL = "approval"
ONCE, CHAT, DENY, WHY, STOP = OPTIONS = ("once", "chat", "deny", "why", "stop")
WHY_SUFFIX = ":why"
HASH_SHOWN = 12
ABOUT = 60
_TICKS = re.compile(r"`+")


def prompt_of(row: ApprovalRow) -> PromptRow:
    """The question behind the buttons. Who may answer is decided elsewhere, since administrators may too."""
    options = [[option, row.run_id] for option in OPTIONS]
    life = row.expires_at - row.asked_at
    prompt = question(APPROVAL, row.prompt_id, row.conversation, options, row.asked_at, life=life)
    return replace(prompt, run_id=row.run_id, args_hash=row.args_hash)


def asked(row: ApprovalRow, run: RunRow) -> OutboundMessage:
    """The message of an open request."""
    texts, name = _about(run)
    kind = row.coverage.partition(":")[0]
    terms = (texts.approval_exact_terms[kind] if row.is_exact else texts.approval_terms).format(
        coverage="" if row.is_exact else texts.approval_coverage[kind].format(tool=row.tool),
        name=name,
        duration=texts.duration((row.expires_at - row.asked_at).total_seconds()),
        hash=row.args_hash[:HASH_SHOWN],
    )
    reason = texts.approval_reasons.get(row.why, row.why)
    why = [texts.approval_why.format(reason=plain(reason))] if reason else []
    head = texts.approval_asks.format(name=name, tool=row.tool)
    text = "\n\n".join([head, _fenced(row.shown), *why, terms])
    if row.reason_from is not None:
        chosen = texts.approval_awaits_reason
        return OutboundMessage(text=f"{text}\n\n{chosen}", buttons=(_buttons(row, texts, DENY),), final=True)
    allowing = (ONCE,) if row.is_exact else (ONCE, CHAT)
    buttons = (_buttons(row, texts, *allowing), _buttons(row, texts, DENY, WHY))
    return OutboundMessage(text=text, buttons=buttons, final=True)


def why_key(prompt_id: str) -> str:
    """The key of the reply that asks why a request is denied."""
    return prompt_id + WHY_SUFFIX


def request_of(reply_key: str) -> str:
    """The id of the request that a reply shows, or asks the reason of a denial for."""
    return reply_key.removesuffix(WHY_SUFFIX)


def why(row: ApprovalRow, run: RunRow) -> OutboundMessage:
    """The message that asks for the reason. An administrator who denies another person's call gets no reply field: it
    would open for that person."""
    texts, _ = _about(run)
    return OutboundMessage(text=texts.approval_write_why, asks_reply=row.reason_from == run.speaker, final=True)


def decided(row: ApprovalRow, run: RunRow) -> OutboundMessage:
    """The message of a decided request, without buttons."""
    texts, _ = _about(run)
    assert row.decision is not None
    head = texts.approval_decided[row.decision].format(tool=row.tool)
    reason = [texts.approval_reason.format(reason=plain(row.reason))] if row.reason else []
    return OutboundMessage(text="\n\n".join([head, _fenced(row.shown), *reason]), final=True)


def over(row: ApprovalRow, run: RunRow | None, reader: str, texts: Texts) -> str:
    """The decision in plain text, for a person who pressed a button too late."""
    assert row.decision is not None
    who = "you" if row.decided_by == reader else "person" if row.decided_by == row.requester else "admin"
    name = inline(run.context.speaker.display_name) if run is not None else ""
    return texts.approval_over[row.decision].format(by=texts.approval_by[who].format(name=name or "?"))


def first(row: ApprovalRow, texts: Texts, more: int, *, buttons: bool) -> OutboundMessage:
    """The notice of the requester's first message that is queued behind the decision. more: messages behind it.
    buttons: whether the platform has any; without them, numbers typed as answers belong to the request itself."""
    status = texts.queued_behind_approval.format(tool=row.tool, about=short_line(row.shown, ABOUT))
    status += texts.queued_behind_too.format(count=more) if more else ""
    return OutboundMessage(status=status, buttons=(_buttons(row, texts, ONCE, DENY, STOP),) if buttons else ())


def _about(run: RunRow) -> tuple[Texts, str]:
    context = run.context
    return texts_for(context.locale), inline(context.speaker.display_name) or "?"


def _buttons(row: ApprovalRow, texts: Texts, *options: str) -> tuple[Button, ...]:
    return tuple(
        Button(label=texts.approval_buttons[option], data=f"{row.prompt_id}:{OPTIONS.index(option)}")
        for option in options
    )


def _fenced(text: str) -> str:
    """The text as a code block that nothing within it can end."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text or ' '}\n{fence}"
