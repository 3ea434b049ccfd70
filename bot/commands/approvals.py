"""/approvals, and the buttons of approval requests: who may decide on a tool call, and what is allowed for a chat.

Only the person for whom the agent works, or an administrator, decides; no text of the agent or of a page is handled
here. The other buttons are those of a question asked by the agent: a pressed option becomes the person's next message.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act, said_by
from bot.control.actions import Action
from bot.delivery.buttons import CLARIFY, chosen, label, question
from bot.runs.approval_cards import APPROVAL, CHAT, DENY, HASH_SHOWN, ONCE, OPTIONS, STOP, WHY, asked
from bot.store import prompts
from bot.store.prompts import EVERYBODY, Decided
from bot.store.rows import StopReason
from bot.texts.markdown import inline
from channels.message import Button, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.store.prompts import ApprovalRow, GrantRow
    from bot.store.rows import PromptRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call, Press


GRANTS = "grants"
SHOWN = 8
"""Maximum number of grants that /approvals lists, each with its button."""
DECISIONS = {ONCE: Decided.ONCE, CHAT: Decided.CHAT, DENY: Decided.DENY}


class QuestionCommands(CommandGroup):
    """The buttons of the agent's questions; there are no commands."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.buttons = {CLARIFY: ButtonKind(self._pressed, self._is_open)}

    async def _is_open(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        """Whether nothing was said since the question: later, an answer would refer to something else."""
        last = None if conversation.busy else await conversation.last_run()
        in_range = press.option < len(json.loads(prompt.options))
        return (
            press.may_speak
            and _is_asked(prompt, press)
            and in_range
            and last is not None
            and last.run_id == prompt.run_id
        )

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        if not press.may_speak:
            await self._answers.nothing(press.event_id, "button refused")
            return press.texts.not_allowed
        if not _is_asked(prompt, press):
            await self._answers.nothing(press.event_id, "button refused")
            return press.texts.approval_answers["not_yours"]
        if not await self._is_open(conversation, prompt, press):
            await self._answers.without_buttons(press, "button too late")
            return press.texts.pressed["over"]
        option = json.loads(prompt.options)[press.option]
        # As for a typed answer, the opening of its run records that it answers the question.
        await conversation.hear(said_by(press, option, self._clock.now()))
        return "" if press.typed else f"☑ {label(option)} · {press.texts.working}"


class ApprovalCommands(CommandGroup):
    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.commands = {"approvals": self._approvals}
        self.buttons = {
            APPROVAL: ButtonKind(self._pressed, self._is_open),
            GRANTS: ButtonKind(self._pressed_in_list, self._may_take_back),
        }

    # Requests.

    async def _is_open(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        row = await conversation.approvals.find(prompt.id)
        return row is not None and row.decision is None and _may_decide(row, press)

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        option = OPTIONS[press.option] if press.option < len(OPTIONS) else ""
        if option == WHY and not press.at_home:
            option = DENY  # their next message would go to a conversation of their own
        return await self._choose(conversation, prompt.id, option, press)

    async def _choose(self, conversation: Conversation, prompt_id: str, option: str, press: Press | Call) -> str:
        """Carry out a decision; the message of the request shows it, wherever it was made."""
        row, answers = await conversation.approvals.find(prompt_id), press.texts.approval_answers
        if row is None or row.decision is not None or not option:
            await self._answers.nothing(press.event_id, "button too late")
            return await self._over(conversation, prompt_id, press)
        if not _may_decide(row, press):
            await self._answers.nothing(press.event_id, "button refused")
            return answers["not_yours"]
        if option in (ONCE, CHAT) and row.admins_only and not press.is_admin:
            await self._answers.nothing(press.event_id, "button refused")
            return answers["admins"]
        if option == STOP:
            stop = conversation.stop_unit(StopReason.STOPPED)
            stopped = conversation.is_active(row.run_id) and conversation.stop_active(StopReason.STOPPED)
            await self._answers.nothing(press.event_id, "button stop", stop if stopped else None)
            if stopped:
                log_act(Action.STOP, press, conversation, of=row.requester, run=row.run_id)
            return answers["stop"] if stopped else await self._over(conversation, prompt_id, press)
        if option == CHAT and row.is_exact:
            option = ONCE  # such a request has no CHAT button
        done = await self._decide(conversation, row, option, press)
        return answers[option] if done else await self._over(conversation, prompt_id, press)

    async def _over(self, conversation: Conversation, prompt_id: str, press: Press | Call) -> str:
        """The answer when the request can no longer be decided."""
        return await conversation.approvals.over(prompt_id, press.person, press.texts) or press.texts.pressed["over"]

    async def _decide(self, conversation: Conversation, row: ApprovalRow, option: str, press: Press | Call) -> bool:
        approvals, settled = conversation.approvals, self._answers.settled(press.event_id, f"button {option}")
        if option == WHY:
            return await approvals.await_reason(row.prompt_id, press.person, also=settled)
        return await approvals.decide(
            row.prompt_id, DECISIONS[option], press.person, for_all=press.is_admin, also=settled
        )

    async def _in_words(self, conversation: Conversation, call: Call, row: ApprovalRow, shown: str) -> None:
        """Show the open request without buttons, since the platform may have refused them, or decide it in words. These
        include the hash of the call, so that people can only allow the call that they have read."""
        word, _, code = call.line.arguments.lower().partition(" ")
        if word in (ONCE, DENY) and code == row.args_hash[:HASH_SHOWN]:
            return await self._answers.progress(call, await self._choose(conversation, row.prompt_id, word, call))
        text = f"{shown}\n\n{call.texts.approval_in_words.format(hash=row.args_hash[:HASH_SHOWN])}"
        await self._answers.say(call, text, "/approvals")

    # Grants of a chat.

    async def _approvals(self, conversation: Conversation, call: Call) -> None:
        run, request = conversation.active, conversation.approvals.blocking(conversation.active)
        if run is not None and request is not None and call.line.arguments.lower() != "clear":
            return await self._in_words(conversation, call, request, asked(request, run).text)
        grants = await conversation.approvals.grants(conversation.key)
        if call.line.arguments.lower() == "clear":
            theirs = [grant for grant in grants if _is_theirs(grant, call.person, is_admin=call.is_admin)]
            await conversation.approvals.revoke(conversation.key, [grant.id for grant in theirs])
            for grant in theirs:
                _log_revoked(grant, call, conversation)
            text = call.texts.approvals_taken_back.format(count=len(theirs)) if theirs else call.texts.approvals_none
            return await self._answers.say(call, text, "/approvals")
        message, prompt = self._list(conversation, grants, call.texts)
        await self._answers.show(call, message, "/approvals", also=lambda tx: prompts.create(tx, prompt))

    async def _may_take_back(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        grant = await self._chosen(conversation, prompt, press)
        return grant is not None and _is_theirs(grant, press.person, is_admin=press.is_admin)

    async def _pressed_in_list(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a press in the list, and show the updated list."""
        grant, done = await self._chosen(conversation, prompt, press), "over"
        if grant is not None:
            done = "taken_back" if _is_theirs(grant, press.person, is_admin=press.is_admin) else "not_yours"
        if grant is not None and done == "taken_back":
            await conversation.approvals.revoke(conversation.key, [grant.id])
            _log_revoked(grant, press, conversation)
        grants = await conversation.approvals.grants(conversation.key)
        message, fresh = self._list(conversation, grants, press.texts)
        await self._answers.change(press, message, f"button {done}", also=lambda tx: prompts.create(tx, fresh))
        return press.texts.approval_answers[done]

    async def _chosen(self, conversation: Conversation, prompt: PromptRow, press: Press) -> GrantRow | None:
        _, grant_id = chosen(prompt, press.option)
        grants = await conversation.approvals.grants(conversation.key)
        return next((grant for grant in grants if str(grant.id) == grant_id), None)

    def _list(
        self, conversation: Conversation, grants: Sequence[GrantRow], texts: Texts
    ) -> tuple[OutboundMessage, PromptRow]:
        shown = grants[-SHOWN:]
        lines = [texts.approvals_head if grants else texts.approvals_none]
        lines += [_line(number, grant, texts) for number, grant in enumerate(shown, 1)]
        lines += [texts.approvals_more.format(count=len(grants) - SHOWN)] if len(grants) > SHOWN else []
        options = [["revoke", str(grant.id)] for grant in shown]
        prompt = question(GRANTS, secrets.token_hex(8), conversation.key, options, self._clock.now())
        buttons = tuple(
            (Button(label=f"{index + 1} · {texts.button_take_back}", data=f"{prompt.id}:{index}"),)
            for index in range(len(shown))
        )
        return OutboundMessage(text="\n\n".join(lines), buttons=buttons, final=True), prompt


def _is_asked(prompt: PromptRow, press: Press) -> bool:
    return press.is_admin or prompt.who in (None, press.person)


def _may_decide(row: ApprovalRow, press: Press | Call) -> bool:
    return press.is_admin or press.person == row.requester


def _is_theirs(grant: GrantRow, person: str, *, is_admin: bool) -> bool:
    return is_admin or person in (grant.person, grant.granted_by)


def _log_revoked(grant: GrantRow, by: Call | Press, conversation: Conversation) -> None:
    of = grant.granted_by if grant.person == EVERYBODY else grant.person
    log_act(Action.GRANTS_REVOKE, by, conversation, of=of, what=grant.tool)


def _line(number: int, grant: GrantRow, texts: Texts) -> str:
    kind = grant.coverage.partition(":")[0]
    covered = inline(grant.shown) if kind == "call" else ""
    return texts.approvals_line.format(
        number=number,
        tool=grant.tool,
        covered=f": `{covered}`" if covered else f" ({texts.approval_coverage['tool'].format(tool=grant.tool)})",
        whose=texts.approvals_whose["all" if grant.person == EVERYBODY else "one"].format(person=grant.person),
    )
