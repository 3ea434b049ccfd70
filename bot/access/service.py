"""AccessService: handles people and groups without access (yet), and the codes that they type.

Everything is bounded, however many strangers write: what is stored, answered and remembered.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from bot.access import pairing
from bot.access.admission import Budget, FloodGate, OncePer, Verdict
from bot.access.editor import clean_name, code_reply
from bot.access.pairing import Tries
from bot.store.access import AccessState
from bot.store.identity import chat_id, person_id
from bot.store.retrying import every
from bot.texts import language_of, texts_for
from channels.message import MembershipChanged, Message, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from bot.access.admins import Admins
    from bot.access.admission import Decision
    from bot.access.editor import AccessEditor, Change
    from bot.access.pairing import Claims
    from bot.commands import CommandLine
    from bot.delivery.respond import Responder
    from bot.store.access import AccessRow
    from bot.store.retrying import RetryingStore
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from channels.message import Address, Sender

log = logging.getLogger(__name__)

ONCE_A_DAY = 86_400.0
ONCE_AN_HOUR = 3600.0
ONCE_A_MINUTE = 60.0
TIDY_SECONDS = 15.0
CLAIM = "claim"
SHORT_LINE = 60
"""Maximum length of a line with a code and hardly anything else: "my code is ABCD-EFGH-JKLM"."""
TAKES_CODES = frozenset({CLAIM, "pair", "start"})
"""Commands with which people may send a code that makes them the administrator."""
Kind = Literal["direct messages", "groups", "buttons", "invitations"]
"""Kinds of events from strangers. Each has its own budget, so that groups cannot use up the budget for codes."""


class _Budgets:
    """Budgets for the strangers of one account: (at once, seconds for each further one)."""

    def __init__(self, clock: Clock) -> None:
        self.stored: dict[Kind, Budget] = {
            "direct messages": Budget(clock, 60, 10),
            "groups": Budget(clock, 20, 30),
            "buttons": Budget(clock, 30, 10),
            "invitations": Budget(clock, 30, 10),
        }
        self.codes = Budget(clock, 10, 30)
        self.requests = Budget(clock, 5, 600)
        self.told = Budget(clock, 20, 60)
        self.unclaimed = Budget(clock, 30, 10)
        self.groups = Budget(clock, 10, 600)
        self.claims = Tries(clock)


class AccessService:
    def __init__(
        self,
        *,
        editor: AccessEditor,
        store: RetryingStore,
        responder: Responder,
        admins: Admins,
        claims: Claims,
        clock: Clock,
    ) -> None:
        self._editor = editor
        self._book = editor.book
        self._store = store
        self._responder = responder
        self.admins = admins
        self._claims = claims
        self._clock = clock
        self._budgets = {account: _Budgets(clock) for account in editor.book.accounts}
        self._told = OncePer(clock, ONCE_A_DAY)
        self._met = OncePer(clock, ONCE_A_DAY)
        self._complained = OncePer(clock, ONCE_A_MINUTE)
        self._overrun = OncePer(clock, ONCE_AN_HOUR)
        self._unclaimed = FloodGate(clock, per_minute=6, burst=10)

    def turns_away(self, account: str, kind: Kind) -> bool:
        """Whether one more event of strangers exceeds the budget and is not even stored."""
        if self._budgets[account].stored[kind].take():
            return False
        if self._complained.first(f"{account}|{kind}"):
            log.warning("%s: strangers send too many %s, so some are not recorded", account, kind)
        return True

    def would_meet(self, address: Address) -> bool:
        """Whether an unknown group may still be told how to get access."""
        return not self._met.waits(chat_id(address))

    # Codes.

    def has_code(self, message: Message) -> bool:
        """Whether a message contains a currently valid code: it must be handled, whoever wrote it."""
        if message.address.kind != "dm":
            return bool(self._claims_shown_in(message) or self._shown_in(message))
        return self._claims.matches(message.account, pairing.offered(message.text))

    async def takes_code(self, event_id: int, message: Message, line: CommandLine | None, decision: Decision) -> bool:
        """Handle a message with a code outside the commands: a claim, or a code visible to others."""
        if message.address.kind != "dm":
            return await self._burn(event_id, message, decision)
        if message.sender.kind != "user":
            return False
        if self._book.has_admin(message.account):
            return line is None and await self._lets_in(event_id, message)
        if self._claims.matches(message.account, pairing.offered(message.text)):
            await self._claimed(event_id, message)
        elif _means_a_code(message, line, known=decision.verdict is Verdict.ADMIT):
            await self._wrong_code(event_id, message)
        else:
            return False
        return True

    async def _lets_in(self, event_id: int, message: Message) -> bool:
        """Handle a short line of an administrator with the code of a waiting person, without a command."""
        account, person = message.account, person_id(message.account, message.sender.id)
        if len(message.text) > SHORT_LINE or not self._book.policy(account).access.is_admin(person):
            return False
        found = [self._editor.applicant(code, account) for code in pairing.all_in(message.text)]
        applicant = next(filter(None, found), None)
        if applicant is None:
            return False
        change = self._editor.approval(applicant, person)
        name = applicant.name or applicant.subject
        text = self._texts(message).paired.format(name=name, person=applicant.subject)
        await self._responder.say(event_id, message, text, "paired", also=change.write)
        change.committed()
        return True

    async def _claimed(self, event_id: int, message: Message) -> None:
        self._claims.close(message.account)
        change = self._editor.claim(message, self._language(message))
        await self._responder.say(event_id, message, self._texts(message).claimed, "claimed", also=change.write)
        change.committed()

    async def _wrong_code(self, event_id: int, message: Message) -> None:
        """Answer a wrong code, with a limit. Codes are compared before this: strangers' wrong ones lock nobody out."""
        person, tries = person_id(message.account, message.sender.id), self._budgets[message.account].claims
        if tries.exhausted(person):
            self._responder.settle_soon(event_id, "too many wrong codes")
        else:
            tries.wrong(person)
            await self._responder.say(event_id, message, self._texts(message).code_refused, "wrong claim code")

    async def _burn(self, event_id: int, message: Message, decision: Decision) -> bool:
        """Revoke a code that was posted where others can read it."""
        ended, claims = self._shown_in(message), self._claims_shown_in(message)
        if not ended and not claims:
            return False
        for account in claims:
            self._claims.close(account)
            log.warning(
                "%s: its claim code was posted in a group and is void; antler pair --claim prints a new one", account
            )

        def write(tx: Connection) -> None:
            for change in ended:
                change.write(tx)

        reason = "a code in a group"
        if decision.verdict in (Verdict.ADMIT, Verdict.CONTEXT):
            await self._responder.say(event_id, message, self._texts(message).code_in_group, reason, also=write)
        else:
            await self._responder.settle([event_id], reason, write)
        for change in ended:
            change.committed()
        return True

    def _claims_shown_in(self, message: Message) -> list[str]:
        codes = list(pairing.all_in(message.text))
        return [account for account in self._book.accounts if self._claims.matches(account, codes)]

    def _shown_in(self, message: Message) -> list[Change]:
        """The endings of the waiting codes that a message contains."""
        waiting = self._book.pending(self._clock.now())
        if not waiting:
            return []
        codes = list(pairing.all_in(message.text))
        return [
            self._editor.ending(row)
            for row in waiting
            if any([pairing.same(pairing.digest(row.account, code), row.code_hash or "") for code in codes])
        ]

    # Strangers in a DM.

    async def greet(self, event_id: int, message: Message, decision: Decision) -> None:
        """Handle a private message of an unknown person, or of one whose access was revoked."""
        account, person, texts = message.account, person_id(message.account, message.sender.id), self._texts(message)
        rules = self._book.policy(account).access
        if person in rules.blocked:
            await self._once(event_id, message, texts.access_revoked, decision.reason)
        elif rules.pairing and self._claims.is_open(account):
            await self._unclaimed_hint(event_id, message, texts)
        elif rules.pairing:
            await self._pair(event_id, message, texts)
        else:
            await self._once(event_id, message, texts.unknown_sender.format(person=person), decision.reason)

    async def _unclaimed_hint(self, event_id: int, message: Message, texts: Texts) -> None:
        """Answer every line, since it may be the owner's; within the budget for floods of strangers."""
        person, reason = person_id(message.account, message.sender.id), "no administrator yet"
        if self._unclaimed.passes(person) and self._budgets[message.account].unclaimed.take():
            await self._responder.say(event_id, message, texts.unclaimed, reason)
        else:
            self._responder.settle_soon(event_id, reason)

    async def _pair(self, event_id: int, message: Message, texts: Texts) -> None:
        account, person, now = message.account, person_id(message.account, message.sender.id), self._clock.now()
        if any(row.subject == person for row in self._book.pending(now, account)):
            self._responder.settle_soon(event_id, "has a pairing code")
        elif self._book.is_refused("person", person, now):
            await self._once(event_id, message, texts.pairing_refused, "refused")
        elif not self._budgets[account].codes.take():
            self._responder.settle_soon(event_id, "too many pairing codes")
        else:
            code, change = self._editor.issue(message, self._language(message))
            life = texts.duration(pairing.PAIRING_LIFE.total_seconds())
            text = texts.pairing_code.format(code=pairing.shown(code), life=life)
            told = self._budgets[account].requests.take()
            asked = await self._asked(change, partial(_pairing_asked, change.row)) if told else change
            await self._responder.say(
                event_id, message, text, "pairing code", also=asked.write, reply_key=code_reply(change.row)
            )
            asked.committed()
            if not told:
                await self._too_many(change.row)

    async def _too_many(self, request: AccessRow) -> None:
        """Notify administrators now and then that there are more requests than they are asked about."""
        about = {"event": "pairing", "account": request.account, "person": request.subject}
        log.info(
            "%s asks for access; too many requests to notify the administrators of each", request.subject, extra=about
        )
        if self._overrun.first(request.account):
            key = f"requests:{request.account}:{int(self._clock.now().timestamp() // ONCE_AN_HOUR)}"
            await self.admins.tell(request.account, key, lambda texts: texts.requests_many)

    async def _asked(self, change: Change, text: Callable[[Texts], str]) -> Change:
        """The change that stores a request, combined with the questions to the administrators."""
        questions = await self.admins.questions(change.row, text)
        about = {"event": "pairing", "account": change.row.account, "person": change.row.subject}
        log.info("%s asks for access; administrators notified: %d", change.row.subject, len(questions), extra=about)

        def write(tx: Connection) -> None:
            change.write(tx)
            for asking in questions:
                asking.write(tx)

        def committed() -> None:
            change.committed()
            for asking in questions:
                asking.show()

        return replace(change, write=write, committed=committed)

    async def _once(self, event_id: int, message: Message, text: str, reason: str) -> None:
        """Answer once a day for each reason, as long as the account's budget for strangers lasts."""
        person = person_id(message.account, message.sender.id)
        if self._told.first(f"{reason}|{person}") and self._budgets[message.account].told.take():
            await self._responder.say(event_id, message, text, reason)
        else:
            self._responder.settle_soon(event_id, reason)

    # Unknown groups.

    async def introduce(self, event_id: int, message: Message, reason: str) -> None:
        """Handle a message to the bot in an unknown group: one answer a day, and a notice to the admins."""
        if self._meets(message.address):
            asked = await self._group_asks(message.address, message.sender, message.chat_title, joined=False)
            await self._responder.say(event_id, message, self._texts(message).group_unknown, reason, also=asked.write)
            asked.committed()
        else:
            self._responder.settle_soon(event_id, reason)

    async def joined(self, event_id: int, change: MembershipChanged) -> None:
        """Handle that the bot was added to a group or removed from one."""
        rules, group = self._book.policy(change.account).access, chat_id(change.address)
        log.info("%s %s", "joined" if change.present else "left", group)
        asking = self._book.row("group", group)
        if not change.present and asking is not None and asking.state is AccessState.PENDING:
            ending = self._editor.ending(asking)
            await self._responder.settle([event_id], "membership", ending.write)
            return ending.committed()
        unknown = change.address.kind == "group" and not rules.is_open(group) and group not in rules.blocked
        if not (change.present and unknown and rules.answer != "off" and self._meets(change.address)):
            return self._responder.settle_soon(event_id, "membership")
        locale = self._book.policy(change.account).locale
        text = texts_for(language_of(locale, change.sender.locale, change.chat_title)).group_unknown
        message = OutboundMessage(text=text, final=True)
        asked = await self._group_asks(change.address, change.sender, change.chat_title, joined=True)
        await self._responder.answer(
            event_id, change.address, None, message, reason="joined an unknown group", also=asked.write
        )
        asked.committed()

    def _meets(self, address: Address) -> bool:
        if self._book.is_refused("group", chat_id(address), self._clock.now()):
            return False
        return self._met.first(chat_id(address)) and self._budgets[address.account].groups.take()

    async def _group_asks(self, address: Address, sender: Sender, title: str, *, joined: bool) -> Change:
        group, person = chat_id(address), person_id(address.account, sender.id)

        def text(texts: Texts) -> str:
            sentence = texts.group_joined_admin if joined else texts.group_asked_admin
            name = clean_name(sender.display_name) or person
            return sentence.format(title=clean_name(title) or group, group=group, name=name, person=person)

        return await self._asked(self._editor.group_asks(address, title), text)

    # While the gateway serves.

    async def tidy(self) -> None:
        """End expired requests, and update their messages; runs until cancelled."""
        await self._clock.sleep(TIDY_SECONDS)
        await every(TIDY_SECONDS, self._clock, "removing expired pairings", self._end_over)

    async def _end_over(self) -> None:
        for change in self._editor.over():
            await self._store.write(change.write)
            change.committed()

    def _language(self, message: Message) -> str:
        return language_of(self._book.policy(message.account).locale, message.sender.locale, message.text)

    def _texts(self, message: Message) -> Texts:
        return texts_for(self._language(message))


def _pairing_asked(request: AccessRow, texts: Texts) -> str:
    life = texts.duration(pairing.PAIRING_LIFE.total_seconds())
    return texts.pairing_asked_admin.format(name=request.name or request.subject, person=request.subject, life=life)


def _means_a_code(message: Message, line: CommandLine | None, *, known: bool) -> bool:
    """Whether a line without a valid code was meant as one. known: its sender already talks to the agent."""
    if line is not None and line.name == CLAIM:
        return True
    if known:
        return line is None and pairing.looks_shown(message.text)
    typed = line.arguments if line is not None and line.name in TAKES_CODES else ""
    return pairing.read(typed) is not None or pairing.shows_one(message.text)
