"""AccessStore: who may use the bot, per account: the config's lists merged with later grants.

It is queried for each event, so that a grant or a revocation counts from the next message on. Only committed changes
(editor.py) modify it. Until it has been read from the store nobody has access, and if it cannot be read antler does
not start: without the revocations, lists for everyone in the config would admit too many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.access.admission import ANYONE, AccessRules, AccountPolicy, ConfigKeys, SharedRules
from bot.settings.busy_policies import Busy, TurnRules
from bot.store.access import AccessState
from bot.store.identity import OWN_ACCOUNTS, chat_id, person_id
from bot.texts import language_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from bot.settings import Settings
    from bot.store.access import AccessRow, SubjectKind
    from bot.store.sessions import TokenRow
    from channels.message import Message

Subject = tuple["SubjectKind", str]

LET_IN = frozenset({AccessState.PAIRED, AccessState.ALLOWED, AccessState.ADMIN})


class AccessStore:
    """Access per account. configured: each account's policy according to the config alone; read at each query."""

    def __init__(self, configured: Mapping[str, AccountPolicy]) -> None:
        self._configured = configured
        self._rows: dict[Subject, AccessRow] | None = None
        self._waiting: dict[Subject, AccessRow] = {}
        self._merged: dict[str, tuple[AccountPolicy, AccountPolicy]] = {}
        self.on_admins: Callable[[str], None] = lambda account: None
        """Called with an account when its administrators have changed."""

    @property
    def accounts(self) -> tuple[str, ...]:
        return tuple(self._configured)

    def policy(self, account: str) -> AccountPolicy:
        """The account's current rules."""
        base = self._configured[account]
        if self._rows is None:
            return replace(base, access=AccessRules(operator=base.access.operator))
        if isinstance(base.access, SharedRules):
            return self._shared(base, base.access)
        known = self._merged.get(account)
        if known is None or known[0] is not base:
            known = self._merged[account] = (base, self._merge(base, self.rows(account)))
        return known[1]

    def _shared(self, base: AccountPolicy, rules: SharedRules) -> AccountPolicy:
        """The policy of one of the gateway's own accounts, which consults the other accounts' at each query."""
        known = self._merged.get(rules.own)
        if known is None or known[0] is not base:
            made = replace(base, access=replace(rules, elsewhere=self._rules_of))
            known = self._merged[rules.own] = (base, made)
        return known[1]

    def _rules_of(self, account: str) -> AccessRules | None:
        known = account in self._configured and account not in OWN_ACCOUNTS
        return self.policy(account).access if known else None

    def rows(self, account: str | None = None) -> list[AccessRow]:
        """Grants, requests and revocations, oldest first; of one account or of all."""
        rows = (self._rows or {}).values()
        return [row for row in rows if account is None or row.account == account]

    def row(self, kind: SubjectKind, subject: str) -> AccessRow | None:
        return (self._rows or {}).get((kind, subject))

    def pending(self, now: datetime, account: str | None = None) -> list[AccessRow]:
        """Requests of persons with a code that is still valid, oldest first."""
        persons = [row for row in self._waiting.values() if row.kind == "person" and not is_over(row, now)]
        return [row for row in persons if account is None or row.account == account]

    def is_refused(self, kind: SubjectKind, subject: str, now: datetime) -> bool:
        """Whether a request of the subject was refused recently, so that it is not asked about again yet."""
        row = self.row(kind, subject)
        return row is not None and row.state is AccessState.REFUSED and not is_over(row, now)

    def language(self, person: str) -> str:
        """The language for messages to a person that answer none of theirs."""
        row, account = self.row("person", person), person.partition(":")[0]
        return language_of(self.policy(account).locale, row.language if row is not None else None, "")

    def config_key(self, kind: SubjectKind, subject: str) -> str | None:
        """The config's key that lists a subject by its id, None if none does."""
        base = self._configured.get(subject.partition(":")[0])
        if base is None:
            return None
        rules, keys = base.access, base.keys
        if kind == "group":
            return keys.groups if subject in rules.groups else None
        if subject in rules.admins:
            return keys.admins
        return keys.allow if subject in rules.allow else None

    def rule(self, message: Message) -> str:
        """The rule that admits a message: a key of the config or a state of access, of its sender and, in a group, of
        the group, with how the bot was addressed."""
        address, person = message.address, person_id(message.account, message.sender.id)
        rules, keys = self.policy(message.account).access, self._configured[message.account].keys
        if rules.operator:
            return "terminal"
        if isinstance(rules, SharedRules) and person.partition(":")[0] == rules.own:
            return "signed in at this machine" if rules.is_admin(person) else "token"
        sender = self._own_rule("person", person, f"{keys.allow}: *" if ANYONE in rules.allow else "access.dm: open")
        if address.kind == "dm":
            return sender
        how = "mentioned" if message.mention else "thread goes on" if message.continues else f"answer: {rules.answer}"
        group = self._own_rule("group", chat_id(address), f"{keys.groups}: *")
        members = sender if rules.members == "listed" else "members: any"
        return f"{group}, {members}, {how}"

    def _own_rule(self, kind: SubjectKind, subject: str, otherwise: str) -> str:
        row = self.row(kind, subject)
        return self.config_key(kind, subject) or (str(row.state) if row and row.state in LET_IN else otherwise)

    def listed(self, account: str) -> list[tuple[SubjectKind, str, AccessState, str]]:
        """The config's entries of an account: kind, subject, state and key."""
        base = self._configured[account]
        rules, keys = base.access, base.keys
        found: list[tuple[SubjectKind, str, AccessState, str]] = []
        found += [("person", person, AccessState.ADMIN, keys.admins) for person in sorted(rules.admins)]
        found += [("person", person, AccessState.ALLOWED, keys.allow) for person in sorted(rules.allow - rules.admins)]
        found += [("group", group, AccessState.ALLOWED, keys.groups) for group in sorted(rules.groups)]
        return [entry for entry in found if entry[1].partition(":")[0] in (account, "*")]

    def has_admin(self, account: str) -> bool:
        return account in OWN_ACCOUNTS or self.policy(account).access.operator or bool(self.admins(account))

    def admins(self, account: str) -> list[str]:
        """The account's administrators, without persons of other accounts."""
        return sorted(person for person in self.policy(account).access.admins if person.startswith(f"{account}:"))

    # Committed changes.

    def load(self, rows: Iterable[AccessRow]) -> None:
        """Load all rows of the store; before that nobody has access."""
        self._rows = {}
        for row in rows:
            self.adopt(row)
        self._merged.clear()

    def adopt(self, row: AccessRow) -> None:
        """Apply a row that was written."""
        if self._rows is not None:
            # Moved to the end: a subject is as old as its newest row.
            subject = row.kind, row.subject
            known = self._rows.pop(subject, None)
            self._waiting.pop(subject, None)
            self._rows[subject] = row
            if row.state is AccessState.PENDING and row.code_hash is not None:
                self._waiting[subject] = row
            self._merged.pop(row.account, None)
            if AccessState.ADMIN in (row.state, known.state if known is not None else None):
                self.on_admins(row.account)

    def drop(self, row: AccessRow) -> None:
        """Apply the removal of a row, unless another has replaced it."""
        if self._rows is not None and self._rows.get((row.kind, row.subject)) == row:
            del self._rows[row.kind, row.subject]
            self._waiting.pop((row.kind, row.subject), None)
            self._merged.pop(row.account, None)
            if row.state is AccessState.ADMIN:
                self.on_admins(row.account)

    def _merge(self, base: AccountPolicy, rows: list[AccessRow]) -> AccountPolicy:
        rules = base.access
        persons = {row.subject for row in rows if row.kind == "person" and row.state in LET_IN}
        admins = {row.subject for row in rows if row.kind == "person" and row.state is AccessState.ADMIN}
        groups = {row.subject for row in rows if row.kind == "group" and row.state is AccessState.ALLOWED}
        # Subjects listed in the config keep their access: only an edit of the config removes it.
        blocked = {
            row.subject
            for row in rows
            if row.state is AccessState.BLOCKED and self.config_key(row.kind, row.subject) is None
        }
        access = replace(
            rules,
            allow=rules.allow | persons,
            admins=rules.admins | admins,
            groups=rules.groups | groups,
            blocked=rules.blocked | blocked,
        )
        return replace(base, access=access)


def is_over(row: AccessRow | TokenRow, now: datetime) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def policy_of(settings: Settings, account: str) -> AccountPolicy:
    """One account's policy according to the config alone."""
    access, talk = settings.access_for(account), settings.conversations_for(account)
    shared = SharedRules(own=account, admins_only=settings.sandbox.trusts_senders)
    return AccountPolicy(
        access=shared
        if account in OWN_ACCOUNTS
        else AccessRules(
            allow=frozenset(access.allow),
            admins=frozenset(access.admins),
            groups=frozenset(access.groups.allow),
            open_dm=access.dm == "open",
            pairing=access.dm == "pairing",
            members=access.groups.members,
            answer=access.groups.answer,
            group_control=talk.group_control,
            admins_only=settings.sandbox.trusts_senders,
        ),
        turns=TurnRules(Busy(talk.busy), talk.debounce_seconds, talk.join_seconds, talk.intermediate, talk.progress),
        group_scope=talk.group_scope,
        group_context=talk.group_context == "on",
        locale=settings.locale_for(account),
        keys=_keys(settings, account),
    )


def _keys(settings: Settings, account: str) -> ConfigKeys:
    own = settings.channels[account].access
    mine = own.model_fields_set if own is not None else set()
    grouped = own.groups.model_fields_set if own is not None and "groups" in mine else set()
    place = f"channels.{account}."
    return ConfigKeys(
        allow=("" if "allow" not in mine else place) + "access.allow",
        admins=("" if "admins" not in mine else place) + "access.admins",
        groups=("" if "allow" not in grouped else place) + "access.groups.allow",
    )
