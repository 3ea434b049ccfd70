"""AccessEditor: grants and revokes access of persons and groups, for chat commands, the control socket and, while
antler is stopped, `antler pair` and `antler access` themselves.

Its decisions are Changes: SQL for the caller's own unit, and the actions after its commit.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from bot.access import pairing
from bot.access.admission import OPERATOR, PROGRAMS
from bot.access.store import LET_IN, is_over
from bot.settings.sections import check_identity
from bot.store import access, outbox
from bot.store.access import AccessRow, AccessState
from bot.store.identity import OWN_ACCOUNTS, chat_id, person_id
from bot.texts import texts_for
from bot.texts.markdown import inline
from channels.message import Address, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.access.store import AccessStore
    from bot.delivery import Delivery
    from bot.store.access import SubjectKind
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from channels.message import Message


log = logging.getLogger(__name__)
NAME_LENGTH = 60
GROUP_LIFE = timedelta(days=1)
"""How long a group's request can be answered with its buttons."""
REFUSED_LIFE = timedelta(days=30)
"""How long after a refusal no administrator is asked about the same person or group again."""
ASKING = frozenset({AccessState.PENDING, AccessState.REFUSED})
Outcome = Literal["in", "out", "over"]
"""The outcome of a request: keys of Texts.request_over."""
RefusalKind = Literal[
    "no_id", "no_account", "operator", "no_person", "in_already", "in_config_already", "in_config", "out_already",
    "yourself", "program", "local",
]  # fmt: skip


class AccessRefused(Exception):
    """A refused change. kind: a key of Texts.access_problem. subject: an id. detail: the config's key, or the fault."""

    def __init__(self, kind: RefusalKind, subject: str, detail: str = "") -> None:
        super().__init__(f"{subject}: {kind} {detail}".rstrip())
        self.kind = kind
        self.subject = subject
        self.detail = detail


def problem(refused: AccessRefused, texts: Texts) -> str:
    """The text for people about a refused change."""
    subject = f"`{inline(refused.subject)}`"
    return texts.access_problem[refused.kind].format(subject=subject, detail=refused.detail)


@dataclass(frozen=True, slots=True)
class Post:
    """A message that belongs to a change."""

    key: str
    address: Address
    text: str

    @property
    def message(self) -> OutboundMessage:
        return OutboundMessage(text=self.text, final=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of access to `row`. write: run in a unit, possibly repeatedly. committed: called after the commit."""

    row: AccessRow
    write: Callable[[Connection], None]
    committed: Callable[[], None]


def code_reply(row: AccessRow) -> str:
    """The reply key of the message with a waiting person's code."""
    return f"pair:{row.code_hash}"


def request_key(request: str, admin: str) -> str:
    """The reply key of the question to an administrator about a request, which is named by its `code_hash`."""
    return f"request:{request}:{admin}"


def clean_name(name: str) -> str:
    """A stranger's name, safe to show: one short line without invisible characters and backquotes."""
    visible = "".join(c if c.isprintable() else " " for c in name.replace("`", "'"))
    return " ".join(visible.split())[:NAME_LENGTH]


def together(first: Change, others: Sequence[Change]) -> Change:
    def write(tx: Connection) -> None:
        for change in (*others, first):
            change.write(tx)

    def committed() -> None:
        for change in (*others, first):
            change.committed()

    return Change(first.row, write, committed)


class AccessEditor:
    """Edits access. can_edit: whether an account's platform can edit messages. names_group: whether an id (account,
    native id) is a group's, None if unknown. on_shut_out: called with the kind and id of a revoked subject."""

    def __init__(
        self,
        book: AccessStore,
        delivery: Delivery,
        clock: Clock,
        *,
        can_edit: Callable[[str], bool] = lambda account: True,
        names_group: Callable[[str, str], bool | None] = lambda account, native: None,
    ) -> None:
        self.book = book
        self._delivery = delivery
        self._clock = clock
        self._can_edit = can_edit
        self._names_group = names_group
        self.on_shut_out: Callable[[SubjectKind, str], None] = lambda kind, subject: None

    # Persons with a code.

    def issue(self, message: Message, language: str) -> tuple[str, Change]:
        """A code for a stranger, and the change that makes it valid; if too many wait, the oldest requests end."""
        code, person = pairing.new_code(), person_id(message.account, message.sender.id)
        now = self._clock.now()
        row = AccessRow(
            account=message.account,
            kind="person",
            subject=person,
            state=AccessState.PENDING,
            name=clean_name(message.sender.display_name),
            chat=message.address.chat,
            language=language,
            code_hash=pairing.digest(message.account, code),
            created_at=now,
            expires_at=now + pairing.PAIRING_LIFE,
        )
        waiting = self.book.pending(now, message.account)
        ended = waiting[: max(0, len(waiting) - pairing.WAITING + 1)]
        earlier = self.book.row("person", person)
        if earlier is not None and earlier not in ended:
            ended.append(earlier)
        return code, together(self._putting(row), [self.ending(old) for old in ended])

    def group_asks(self, address: Address, title: str) -> Change:
        """Request access for an unknown group."""
        now = self._clock.now()
        row = AccessRow(
            account=address.account,
            kind="group",
            subject=chat_id(address),
            state=AccessState.PENDING,
            name=clean_name(title),
            code_hash=secrets.token_hex(32),
            created_at=now,
            expires_at=now + GROUP_LIFE,
        )
        return self._putting(row)

    def answer(self, kind: SubjectKind, subject: str, request: str, by: str, *, let_in: bool) -> Change | None:
        """An administrator's decision on a request; None if it is no longer open. Like a code, it can be used only
        once."""
        asked = self.book.row(kind, subject)
        is_open = asked is not None and asked.state is AccessState.PENDING and not is_over(asked, self._clock.now())
        if asked is None or not is_open or asked.code_hash != request:
            return None
        self.book.adopt(replace(asked, code_hash=None))
        if let_in and kind == "person":
            return self.approval(asked, by)
        if let_in:
            return self._putting(self._decided(asked, AccessState.ALLOWED, by), asked=asked)
        refused = self._decided(asked, AccessState.REFUSED, by)
        refused = replace(refused, expires_at=self._clock.now() + REFUSED_LIFE)
        return self._putting(refused, self._code_message(asked, texts_for(asked.language).pairing_refused), asked)

    def applicant(self, code: str, account: str | None = None) -> AccessRow | None:
        """The request with that code, of one account or of any. The code is used up.

        Every waiting code is compared, so that the timing reveals nothing.
        """
        found = None
        for row in self.book.pending(self._clock.now(), account):
            if pairing.same(pairing.digest(row.account, code), row.code_hash or ""):
                found = row
        if found is not None:
            self.book.adopt(replace(found, code_hash=None))
        return found

    def approval(self, applicant: AccessRow, by: str) -> Change:
        """Grant an applicant access, and notify them."""
        row = self._decided(applicant, AccessState.PAIRED, by)
        texts = texts_for(applicant.language)
        posts = self._welcome(row) + self._code_message(applicant, texts.pairing_used)
        return self._putting(row, posts, applicant)

    def ending(self, applicant: AccessRow) -> Change:
        """End a request without access: it expired, or its code was displaced or shown in public."""
        posts = self._code_message(applicant, texts_for(applicant.language).pairing_over)
        told: list[Post] = []

        def write(tx: Connection) -> None:
            access.remove(tx, applicant, applicant.code_hash)
            told[:] = [*posts, *self._told(tx, applicant, "over", "")]
            self._post(tx, told)

        def committed() -> None:
            self.book.drop(applicant)
            self._posted(told)

        return Change(applicant, write, committed)

    def over(self) -> list[Change]:
        """The endings of expired requests and refusals."""
        now = self._clock.now()
        rows = [row for row in self.book.rows() if row.state in ASKING and is_over(row, now)]
        return [self.ending(row) for row in rows]

    def claim(self, message: Message, language: str) -> Change:
        """Make the sender the account's administrator."""
        now = self._clock.now()
        row = AccessRow(
            account=message.account,
            kind="person",
            subject=person_id(message.account, message.sender.id),
            state=AccessState.ADMIN,
            name=clean_name(message.sender.display_name),
            chat=message.address.chat,
            language=language,
            created_at=now,
            decided_at=now,
            decided_by="claim code",
        )
        return self._putting(row)

    # Persons and groups by their id.

    def allow(
        self,
        subject: str,
        by: str,
        *,
        kind: SubjectKind | None = None,
        admin: bool = False,
        name: str = "",
    ) -> Change:
        """Grant a person or a group access. kind: if the id does not show it. Raises AccessRefused."""
        account, kind = self._checked(subject, kind)
        if kind == "group" and admin:
            raise AccessRefused("no_person", subject)
        key, known = self.book.config_key(kind, subject), self.book.row(kind, subject)
        is_admin = self.book.policy(account).access.is_admin(subject)
        if key is not None and (is_admin or not admin):
            raise AccessRefused("in_config_already", subject, key)
        was_in = known is not None and known.state in LET_IN
        if is_admin or (was_in and not admin):
            raise AccessRefused("in_already", subject)
        state, now = AccessState.ADMIN if admin else AccessState.ALLOWED, self._clock.now()
        known = known or AccessRow(account=account, kind=kind, subject=subject, state=state, created_at=now)
        row = self._decided(replace(known, name=clean_name(name) or known.name), state, by)
        texts = texts_for(row.language)
        posts = self._code_message(known, texts.pairing_used)
        welcome = self._welcome(row) if kind == "person" and not was_in else []
        return self._putting(row, posts + welcome, known)

    def revoke(self, subject: str, by: str, *, kind: SubjectKind | None = None) -> Change:
        """Revoke the access of a person or a group, even where everyone else has access. Raises AccessRefused, among
        others for subjects listed in the config, which can only be removed there."""
        account, kind = self._checked(subject, kind)
        key, known = self.book.config_key(kind, subject), self.book.row(kind, subject)
        if key is not None:
            raise AccessRefused("in_config", subject, key)
        if subject == by:
            raise AccessRefused("yourself", subject)
        if known is not None and known.state is AccessState.BLOCKED:
            raise AccessRefused("out_already", subject)
        now = self._clock.now()
        was = known or AccessRow(account=account, kind=kind, subject=subject, state=AccessState.BLOCKED, created_at=now)
        row = self._decided(was, AccessState.BLOCKED, by)
        change = self._putting(row, self._code_message(was, texts_for(was.language).pairing_over), was)

        def committed() -> None:
            change.committed()
            self.on_shut_out(kind, subject)

        return replace(change, committed=committed)

    def moved(self, account: str, old_chat: str, new_chat: str) -> Change | None:
        """Transfer a group's access, or its revocation, to the chat's new id."""
        old, new = f"{account}:{old_chat}", f"{account}:{new_chat}"
        rules, known = self.book.policy(account).access, self.book.row("group", old)
        known = None if known is not None and known.state in ASKING else known
        if self.book.row("group", new) is not None or (known is None and old not in rules.groups):
            return None
        state = AccessState.BLOCKED if old in rules.blocked else AccessState.ALLOWED
        now = self._clock.now()
        name = known.name if known is not None else ""
        row = AccessRow(account=account, kind="group", subject=new, state=state, name=name, created_at=now)
        return self._putting(self._decided(row, state, f"moved from {old_chat}"))

    def _checked(self, subject: str, kind: SubjectKind | None) -> tuple[str, SubjectKind]:
        try:
            check_identity(subject)
        except ValueError as error:
            raise AccessRefused("no_id", subject, str(error)) from None
        account, _, native = subject.partition(":")
        if not native:
            raise AccessRefused("no_id", subject, "names everyone, which only the config can do")
        if account not in self.book.accounts:
            raise AccessRefused("no_account", subject, ", ".join(self.book.accounts))
        if self.book.policy(account).access.operator:
            raise AccessRefused("operator", subject)
        if account == PROGRAMS:
            raise AccessRefused("program", subject)
        if subject == OPERATOR:
            raise AccessRefused("local", subject)
        if account in OWN_ACCOUNTS:
            raise AccessRefused("no_id", subject, "is not a person: people sign in as who they are elsewhere")
        if kind is None and self.book.row("group", subject) is not None:
            kind = "group"
        if kind is None:
            kind = "group" if self._names_group(account, native) else "person"
        return account, kind

    def _decided(self, row: AccessRow, state: AccessState, by: str) -> AccessRow:
        now = self._clock.now()
        return replace(row, state=state, code_hash=None, expires_at=None, decided_at=now, decided_by=by)

    # Parts of a change.

    def _putting(self, row: AccessRow, posts: Sequence[Post] = (), asked: AccessRow | None = None) -> Change:
        """The change that stores a row. asked: the former row, perhaps a request that this decides."""
        told: list[Post] = []
        outcome: Outcome = "in" if row.state in LET_IN else "out"

        def write(tx: Connection) -> None:
            access.put(tx, row)
            told[:] = [*posts, *(self._told(tx, asked, outcome, row.decided_by or "") if asked is not None else ())]
            self._post(tx, told)

        def committed() -> None:
            self.book.adopt(row)
            self._posted(told)
            if row.state is not AccessState.PENDING:
                _log(row)

        return Change(row, write, committed)

    def _told(self, tx: Connection, request: AccessRow, outcome: Outcome, by: str) -> list[Post]:
        """The administrators' questions about a request, edited after its decision."""
        if request.code_hash is None or not self._can_edit(request.account):
            return []
        posts = []
        for admin in self.book.admins(request.account):
            key = request_key(request.code_hash, admin)
            if shown := outbox.load(tx, key):
                sentence = texts_for(self.book.language(admin)).request_over[outcome]
                text = sentence.format(name=request.name or request.subject, subject=request.subject, by=by)
                posts.append(Post(key, shown[0].address, text))
        return posts

    def _welcome(self, row: AccessRow) -> list[Post]:
        """The welcome message, if the person's chat is known."""
        if row.chat is None:
            return []
        address = Address(account=row.account, chat=row.chat)
        return [Post(f"access:{secrets.token_hex(8)}", address, texts_for(row.language).welcome)]

    def _code_message(self, row: AccessRow, text: str) -> list[Post]:
        """Replace the message with the code, in the chat and in our outbox."""
        if row.code_hash is None or row.chat is None or not self._can_edit(row.account):
            return []
        return [Post(code_reply(row), Address(account=row.account, chat=row.chat), text)]

    def _post(self, tx: Connection, posts: Sequence[Post]) -> None:
        for post in posts:
            self._delivery.finalize(tx, post.key, post.address, None, post.message)

    def _posted(self, posts: Sequence[Post]) -> None:
        for post in posts:
            self._delivery.finished(post.key, post.address, None, post.message)


def _log(row: AccessRow) -> None:
    """Log a decision on access; a new administrator is logged as a warning."""
    log.log(
        logging.WARNING if row.state is AccessState.ADMIN else logging.INFO,
        "access: %s is now %s, by %s",
        *(row.subject, row.state, row.decided_by),
        extra={
            "event": "access",
            "account": row.account,
            "person": row.subject,
            "state": str(row.state),
            "by": row.decided_by,
        },
    )
