"""Why a message was answered as it was, or not: its decisions for administrators, on the machine and in a chat.

It shows what was decided and by what, never what anyone said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.store import Store, decisions
from bot.texts import DEFAULT, texts_for
from bot.texts.commands import unmarked
from bot.texts.markdown import inline, plain
from channels.registry import message_of_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.store.decisions import MessageFacts, RunFacts
    from bot.store.retrying import RetryingStore
    from bot.texts.catalogue import Texts
    from channels.registry import LinkedMessage

RUN_ID = 32
"""Characters of a run's id."""
LONGEST_NUMBER = 18
"""Digits of an event's number that both databases accept."""

NAMES_NONE = "this names no message; these do:"
"""Replaces the first sentence of the chats' help on a terminal, where nobody replies to a message."""


class WhyPage:
    """Explains decisions. platforms: of the accounts, by name. zone: for the times shown."""

    def __init__(self, store: RetryingStore | Store, platforms: Mapping[str, str], zone: ZoneInfo) -> None:
        self._store = store
        self._platforms = platforms
        self._zone = zone

    async def of(self, subject: str, texts: Texts, *, to_admins: bool = True) -> str:
        """Markdown. subject: an event's number, a run's id, or the link to a message. to_admins: as in `of_message`."""
        find = self._finding(subject.strip())
        if find is None:
            return texts.why["usage"]
        return await self._store.read(lambda tx: self._page(tx, find(tx), texts, to_admins=to_admins))

    async def of_message(
        self, account: str, chat: str, message_id: str, texts: Texts, *, to_admins: bool = True
    ) -> str:
        """Markdown on a platform's message, a person's or the bot's. to_admins: name who gave the person access."""
        return await self._store.read(
            lambda tx: self._page(tx, decisions.event_of(tx, account, chat, message_id), texts, to_admins=to_admins)
        )

    async def of_quote(self, account: str, chat: str, quoted: str, texts: Texts) -> str:
        """Markdown on the message of a chat that was quoted, where the platform supplies only its words."""
        return await self._store.read(
            lambda tx: self._page(tx, decisions.event_of_quote(tx, account, chat, quoted), texts)
        )

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve a request of the control socket: {"subject": ...} to {"text": ..., "done": ...}."""
        texts = texts_for(DEFAULT)
        text = await self.of(str(request.get("subject", "")), texts)
        done = text not in (texts.why["unknown"], texts.why["usage"])
        if text == texts.why["usage"]:
            text = "\n\n".join((NAMES_NONE, *text.split("\n\n")[1:]))
        return {"text": _on_a_terminal(text), "done": done}

    def _finding(self, subject: str) -> Callable[[Connection], int | None] | None:
        """The lookup of an event by what identifies it; None where the subject identifies none."""
        number = subject.removeprefix("#")
        if number.isdecimal() and len(number) <= LONGEST_NUMBER:
            return lambda tx: int(number)
        if len(subject) == RUN_ID and subject.isalnum():
            return lambda tx: decisions.event_of_reply(tx, subject)
        linked = message_of_link(subject)
        return None if linked is None else lambda tx: self._linked(tx, linked)

    def _linked(self, tx: Connection, linked: LinkedMessage) -> int | None:
        for account, platform in self._platforms.items():
            if platform != linked.platform:
                continue
            if linked.chat:
                found = decisions.event_of(tx, account, linked.chat, linked.message_id)
            else:
                found = decisions.event_anywhere(tx, account, linked.message_id, linked.handle)
            if found is not None:
                return found
        return None

    def _page(self, tx: Connection, event_id: int | None, texts: Texts, *, to_admins: bool = True) -> str:
        event = decisions.event(tx, event_id) if event_id is not None else None
        if event is None:
            return texts.why["unknown"]
        run = decisions.run(tx, event.run_id) if event.run_id is not None else None
        place = f"{event.account}:{event.chat}" if event.chat is not None else event.account
        title = texts.why["event"].format(event=event.event_id, place=inline(place), time=self._time(event.received_at))
        lines = _without_run(event, texts) if run is None else self._with_run(tx, run, texts, to_admins=to_admins)
        return "\n".join([title, "", *(f"- {line}" for line in lines)])

    def _with_run(self, tx: Connection, run: RunFacts, texts: Texts, *, to_admins: bool) -> Iterator[str]:
        say = texts.why
        if run.rule:
            yield say["rule"].format(rule=inline(run.rule)) + (self._by(tx, run, texts) if to_admins else "")
        detail = say["detail"].format(detail=plain(run.detail)) if run.detail else ""
        yield say["run"].format(run=run.run_id, person=inline(run.speaker), state=run.state) + detail
        if run.place is not None:
            yield _queue(run, texts)
        if run.slot_wait is not None:
            yield say["slot"].format(wait=_seconds(run.slot_wait / 1000))
        yield from _of_model(run, texts)
        if run.tools:
            named = (tool if ok else say["failed_tool"].format(tool=tool) for tool, ok in run.tools.elements())
            yield say["tools"].format(tools=plain(", ".join(named)))
        for tool, decision, by, seconds in run.asked:
            about = {"tool": f"`{inline(tool)}`", "decision": decision, "by": inline(by or "") or say["nobody"]}
            key = "approval" if decision is not None else "approval_open"
            yield say[key].format(wait=texts.duration(seconds or 0), **about)
        yield from _of_end(run, texts)

    def _by(self, tx: Connection, run: RunFacts, texts: Texts) -> str:
        """Who decided on a person's access, where a decision admitted them."""
        known = decisions.let_in(tx, run.speaker)
        if known is None or known[0] not in run.rule.split(", "):
            return ""
        state, by, at = known
        return texts.why["decided_by"].format(state=state, by=plain(by), time=self._time(at) if at else "")

    def _time(self, at: datetime) -> str:
        return at.astimezone(self._zone).isoformat(" ", timespec="seconds")


def _without_run(event: MessageFacts, texts: Texts) -> Iterator[str]:
    if event.reason:
        yield texts.why["not_answered"].format(reason=plain(event.reason))
    else:
        yield texts.why["open"]


def _queue(run: RunFacts, texts: Texts) -> str:
    if run.started_at is None:
        return texts.why["not_begun"].format(count=run.place)
    began = _seconds((run.started_at - run.created_at).total_seconds())
    return texts.why["behind" if run.place else "first"].format(count=run.place, began=began)


def _of_model(run: RunFacts, texts: Texts) -> Iterator[str]:
    say = texts.why
    calls = ", ".join(f"{model} × {count}" for model, count in run.models.items())
    yield say["model"].format(model=inline(run.model), calls=plain(calls) or say["no_calls"])
    if run.retries:
        retries = ", ".join(f"{kind} × {count}" for kind, count in run.retries.items())
        yield say["retries"].format(retries=plain(retries))
    for model, instead_of in run.fallbacks:
        yield say["fallback"].format(model=inline(model), instead_of=inline(instead_of))
    if run.starts > 1:
        yield say["starts"].format(count=run.starts)


def _of_end(run: RunFacts, texts: Texts) -> Iterator[str]:
    say = texts.why
    if run.ended_at is None:
        return
    took = _seconds((run.ended_at - (run.started_at or run.created_at)).total_seconds())
    if run.first_words is not None:
        yield say["words"].format(wait=_seconds(run.first_words / 1000), took=took)
    else:
        yield say["ended"].format(took=took)
    if run.abandoned:
        yield say["abandoned"].format(reason=plain(run.abandoned))
    elif run.shown_at is None:
        yield say["not_shown"]
    else:
        yield say["shown"].format(wait=_seconds((run.shown_at - run.ended_at).total_seconds()))


def _seconds(seconds: float) -> str:
    return f"{max(0.0, seconds):.1f} s"


def _on_a_terminal(text: str) -> str:
    """The page for a terminal: without Markdown markup."""
    return unmarked(text).replace("**", "").replace("`", "").replace("\\", "")


def run(settings: Settings, subject: str) -> int:
    """The command line: print it; returns the exit code."""
    from bot.control.lock import do_there_or_here

    return do_there_or_here(settings, "why", {"subject": subject}, _do_it_here)


async def _do_it_here(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    return await why_page(settings, store).do(request)


def why_page(settings: Settings, store: RetryingStore | Store) -> WhyPage:
    platforms = {account: channel.type for account, channel in settings.channels.items()}
    return WhyPage(store, platforms, settings.zone)
