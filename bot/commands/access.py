"""/pair, /claim, /allow, /disallow and /access: who may use the bot. Only for administrators, in groups too."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.access import pairing
from bot.access.admins import REQUEST
from bot.access.editor import AccessRefused, clean_name, problem
from bot.access.pairing import Tries
from bot.access.signin import LINK_LIFE
from bot.access.tool import entries
from bot.commands.group import ButtonKind, CommandGroup
from bot.store import prompts
from bot.store.access import AccessState
from bot.store.identity import OWN_ACCOUNTS, chat_id
from bot.texts.markdown import inline
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bot.access.editor import AccessEditor, Change
    from bot.access.signin import SignIns
    from bot.access.tool import Entry
    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.store.access import AccessRow, SubjectKind
    from bot.store.rows import PromptRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call, Press

PROMPT_LIFE = timedelta(hours=1)
GROUP_PROMPT = "open group"
LET_IN = (AccessState.PAIRED, AccessState.ALLOWED, AccessState.ADMIN)
ALLOW, CANCEL = 0, 1
LISTED = 40
"""Maximum number of entries that /access shows; `antler access list` shows all."""


class SignInCommands(CommandGroup):
    """/web: a link that signs the sender in to the page, for everyone who may use the bot."""

    def __init__(self, answers: Answers, signins: SignIns) -> None:
        super().__init__(answers)
        self._signins = signins
        self.commands = {"web": self._web}

    async def _web(self, conversation: Conversation, call: Call) -> None:
        address, say = call.message.address, call.texts.sign_in
        if address.account in OWN_ACCOUNTS:
            # Otherwise a token with limited scopes could open a session with all of them.
            return await self._answers.say(call, say["here"], "/web on the page")
        if address.kind != "dm":
            return await self._answers.say(call, say["private"], "/web in a group")
        link = self._signins.link(call.person)
        if link is None:
            return await self._answers.say(call, say["off"], "no page")
        life = call.texts.duration(LINK_LIFE.total_seconds())
        await self._answers.say(call, say["link"].format(link=link, life=life), "/web")


class AccessCommands(CommandGroup):
    def __init__(self, answers: Answers, editor: AccessEditor) -> None:
        super().__init__(answers)
        self._editor = editor
        self._book = editor.book
        self._tries = Tries(answers.clock)
        self.commands = {
            "pair": self._pair,
            "claim": self._claim,
            "allow": self._allow,
            "disallow": self._disallow,
            "access": self._access,
        }
        self.buttons = {
            GROUP_PROMPT: ButtonKind(self._decided, self._open_to),
            REQUEST: ButtonKind(self._answered, self._may_answer),
        }

    async def _pair(self, conversation: Conversation, call: Call) -> None:
        texts = call.texts
        if call.message.address.kind != "dm":
            return await self._answers.say(call, texts.code_in_group, "a code in a group")
        if not call.is_admin:
            return await self._answers.say(call, texts.not_allowed, "not allowed")
        if not call.line.arguments:
            return await self._answers.say(call, texts.pair_usage, "/pair")
        if self._tries.exhausted(call.person):
            return await self._answers.say(call, texts.code_limit, "too many wrong codes")
        code = pairing.read(call.line.arguments)
        applicant = self._editor.applicant(code, call.message.account) if code is not None else None
        if applicant is None:
            self._tries.wrong(call.person)
            return await self._answers.say(call, texts.code_refused, "wrong pairing code")
        change = self._editor.approval(applicant, call.person)
        text = texts.paired.format(name=applicant.name or applicant.subject, person=applicant.subject)
        await self._make(call, change, text, "paired")

    async def _claim(self, conversation: Conversation, call: Call) -> None:
        """Refuse: a message with a valid code would have been handled by the access service."""
        in_group = call.message.address.kind != "dm"
        text = call.texts.code_in_group if in_group else call.texts.code_refused
        await self._answers.say(call, text, "nothing to claim")

    async def _allow(self, conversation: Conversation, call: Call) -> None:
        message, texts = call.message, call.texts
        if not call.is_admin:
            return await self._answers.say(call, texts.not_allowed, "not allowed")
        if message.address.kind != "group":
            return await self._answers.say(call, texts.allow_where, "/allow")
        group = chat_id(message.address)
        rules = self._book.policy(message.account).access
        if rules.is_open(group):
            return await self._answers.say(call, texts.group_is_open, "/allow")
        await conversation.row(message)  # so that this admin can be notified of groups from now on
        about = {"group": group, "name": clean_name(message.chat_title)}
        ask, labels = texts.group_ask[rules.members].format(group=group), (texts.group_allow, texts.group_cancel)
        await self._answers.ask(call, conversation, GROUP_PROMPT, about, ask, labels, "/allow", life=PROMPT_LIFE)

    async def _open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return prompt.who == press.person and press.is_admin

    async def _decided(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a button of /allow, which only the admin who typed the command may press."""
        texts = press.texts
        if not await self._open_to(conversation, prompt, press):
            await self._answers.nothing(press.event_id, "not allowed")
            return texts.not_yours
        asked, now = json.loads(prompt.options), self._clock.now()
        change, text = None, texts.group_cancelled
        if press.option == ALLOW:
            try:
                change = self._editor.allow(asked["group"], press.person, kind="group", name=asked["name"])
                text = texts.group_opened[self._book.policy(press.address.account).access.members]
            except AccessRefused as refused:
                text = problem(refused, texts)
        answered = OutboundMessage(text=text, final=True)
        answer = str(press.option)

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, answer, now)
            if change is not None:
                change.write(tx)

        await self._answers.change(press, answered, "group button", also)
        if change is not None:
            change.committed()
            return "" if press.typed else texts.request_answers["in"].format(name=asked["name"] or asked["group"])
        return "" if press.typed else text

    async def _may_answer(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        about = json.loads(prompt.options)
        row = self._book.row(about["kind"], about["subject"])
        return press.is_admin and row is not None and row.code_hash == about["request"]

    async def _answered(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a button of a request for access by a person or a group. The requests shown to all administrators are
        then updated with the decision."""
        if not press.is_admin:
            await self._answers.nothing(press.event_id, "not allowed")
            return press.texts.not_allowed
        about, let_in = json.loads(prompt.options), press.option == ALLOW
        change = self._editor.answer(about["kind"], about["subject"], about["request"], press.person, let_in=let_in)
        if change is None:
            await self._answers.nothing(press.event_id, "button too late")
            return _too_late(self._book.row(about["kind"], about["subject"]), press.texts)
        await self._answers.nothing(press.event_id, "let in" if let_in else "refused", also=change.write)
        change.committed()
        name = change.row.name or change.row.subject
        return press.texts.request_answers["in" if let_in else "out"].format(name=name)

    async def _disallow(self, conversation: Conversation, call: Call) -> None:
        if not call.is_admin:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        if call.message.address.kind != "group":
            return await self._answers.say(call, call.texts.allow_where, "/disallow")
        await self._change(call, "revoke", chat_id(call.message.address), "group")

    async def _access(self, conversation: Conversation, call: Call) -> None:
        """Handle /access (the list), /access allow ID and /access revoke ID."""
        verb, _, subject = call.line.arguments.partition(" ")
        subject = subject.strip().strip("`")
        if not call.is_admin:
            await self._answers.say(call, call.texts.not_allowed, "not allowed")
        elif call.message.address.kind != "dm":
            await self._answers.say(call, call.texts.access_in_private, "/access")
        elif verb in ("allow", "revoke") and subject:
            await self._change(call, verb, subject)
        else:
            await self._answers.say(call, self._list(call.message.account, call.texts), "/access")

    async def _change(self, call: Call, verb: str, subject: str, kind: SubjectKind | None = None) -> None:
        texts = call.texts
        if subject.partition(":")[0] != call.message.account:
            return await self._answers.say(call, texts.access_other_account.format(account=call.message.account), "")
        try:
            if verb == "allow":
                change, sentence = self._editor.allow(subject, call.person), texts.access_allowed
            else:
                change, sentence = self._editor.revoke(subject, call.person, kind=kind), texts.access_taken
        except AccessRefused as refused:
            return await self._answers.say(call, problem(refused, texts), "/access refused")
        if kind == "group":
            sentence = texts.group_closed
        await self._make(call, change, sentence.format(subject=subject), f"/access {verb}")

    async def _make(self, call: Call, change: Change, text: str, reason: str) -> None:
        await self._answers.say(call, text, reason, also=change.write)
        change.committed()

    def _list(self, account: str, texts: Texts) -> str:
        known = entries(self._book, self._clock.now(), account)
        lines = [_line(entry, texts) for entry in known[:LISTED]]
        if len(known) > LISTED:
            lines.append(texts.access_more.format(count=len(known) - LISTED))
        return "\n".join([texts.access_head, "", *lines, "", texts.access_hint])


def _too_late(row: AccessRow | None, texts: Texts) -> str:
    """The answer to a late press. On platforms that cannot change a card (WeCom), it is the reader's only notice."""
    if row is None or row.state not in (*LET_IN, AccessState.REFUSED):
        return texts.pressed["over"]
    answer = texts.request_answers["in" if row.state in LET_IN else "out"].format(name=row.name or row.subject)
    return texts.pressed["decided"].format(answer=answer)


def _line(entry: Entry, texts: Texts) -> str:
    name = f" {inline(entry.name)}" if entry.name else ""
    state = texts.access_state[entry.state]
    if entry.left is not None:
        state += f" ({texts.duration(entry.left)})"
    where = f" · `{entry.key}`" if entry.key else ""
    return f"- `{entry.subject}{name}` — {state}{where}"
