"""The accounts' connections: builds each channel, checks the identity of its bot, and keeps it receiving."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.access.admins import menu
from bot.access.store import policy_of
from bot.store import accounts, inbox
from bot.texts import DEFAULT, LANGUAGES
from bot.texts.commands import unmarked
from channels.base import About, ChannelPorts, ConnectionState, Health, Newest
from channels.errors import ChannelError, Fatal, TakenOver
from channels.registry import OWN, channel_class
from channels.supervision import Backoff, until_first

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bot.access.admission import AccountPolicy
    from bot.settings import Settings
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from channels.base import BotIdentity, Channel, ChatLink, Clock, Publish
    from channels.capabilities import Capabilities

    Load = Callable[[str], Callable[[str, Any, ChannelPorts], Channel]]

log = logging.getLogger(__name__)

RESTART_SECONDS = 10.0
FIRST_RETRY, LONGEST_RETRY = 60.0, 900.0
"""Seconds before a refused account is tried again; doubled each time, up to the second value."""
TRIED_AGAIN = "; retried every few minutes, or at once by antler reload"
TRIAL_SECONDS = 20.0
"""Seconds that a platform may take to accept or refuse an account's changed settings."""
NEWEST_SINCE = timedelta(days=7)
NEWEST_CHATS = 200
UNLOADABLE = "its adapter cannot be loaded (see the log): reinstall antler, or remove the account from `channels`"


class Unloadable(Fatal):
    """The account's adapter cannot be loaded by this process."""


class _Accepted(Fatal):
    """The platform has accepted an account during a trial."""


class Connections:
    """All configured accounts. channels (those that could be built) and policies (by the config alone; also of removed
    accounts, whose messages are still being answered) are read by others, changed only here.

    load: loads a channel class, by default from the registry.
    """

    def __init__(
        self,
        settings: Settings,
        store: RetryingStore,
        clock: Clock,
        tasks: Tasks,
        *,
        load: Load = channel_class,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._load = load
        self.channels: dict[str, Channel] = {}
        self.policies = {account: policy_of(settings, account) for account in settings.channels}
        self._failures: dict[str, Fatal] = {}
        """What stopped the accounts that only a restart or changed settings can bring back."""
        self._pauses = defaultdict[str, Backoff](lambda: Backoff(FIRST_RETRY, LONGEST_RETRY))
        self._asked = defaultdict[str, asyncio.Event](asyncio.Event)
        self._refused: dict[str, str] = {}
        """The reason of the latest refusal since the last hello, by account."""
        self._ports: tuple[Publish, Callable[[str], AccountPolicy]] | None = None
        self.replaced: set[str] = set()
        """Accounts whose channel is being replaced: failures of the old one do not matter."""

    @property
    def health(self) -> Mapping[str, Health]:
        """The state of every configured account, in the config's order."""
        return {account: self._health(account) for account in self._settings.channels}

    def _health(self, account: str) -> Health:
        if account in self.channels:
            return self.channels[account].health
        failed = self._failures.get(account)
        return Health() if failed is None else Health(state=ConnectionState.STOPPED, detail=reason(failed))

    async def open(self, publish: Publish, policy: Callable[[str], AccountPolicy]) -> None:
        """Build every account's channel; nothing connects yet. policy: returns an account's current rules."""
        self._ports = publish, policy
        for account in self._settings.channels:
            self.put(account, await self.make(account, self._settings))

    async def make(self, account: str, settings: Settings) -> Channel | Unloadable:
        """Build the account's channel from these settings, without connecting it."""
        if self._ports is None:
            raise RuntimeError("no account was opened")
        (publish, policy), own = self._ports, settings.channels[account]
        ports = ChannelPorts(
            publish=publish,
            clock=self._clock,
            route=partial(settings.account_route, account),
            newest=partial(self._newest, account, policy),
        )
        try:
            channel_of = await asyncio.to_thread(self._load, own.type)  # the import of an SDK takes long
            return channel_of(account, own.adapter, ports)
        except Exception as error:
            # A missing package or a bug in one adapter must not take the others down.
            log.exception("%s: its adapter cannot be loaded", account)
            # The text of other errors is withheld: it may hold anything, and was not written for a chat.
            return Unloadable(str(error) if isinstance(error, ImportError) else type(error).__name__, UNLOADABLE)

    def put(self, account: str, made: Channel | Unloadable) -> None:
        """Use it for the account from now on. The channel that it replaces must have been closed."""
        self.drop(account)
        if isinstance(made, Unloadable):
            self._failures[account] = made
        else:
            self.channels[account] = made
            self._set_policy(account)

    def drop(self, account: str) -> None:
        """Remove the account's channel."""
        self.channels.pop(account, None)
        self._failures.pop(account, None)
        self._refused.pop(account, None)

    async def try_out(self, account: str, channel: Channel) -> str:
        """Connect without receiving. Returns why the platform refuses it as this account's bot, "" if it accepts it."""

        async def accepted(identity: BotIdentity) -> None:
            await self._check(account, identity)
            raise _Accepted("trial connection", "")

        trial = asyncio.ensure_future(channel.run(accepted))
        patience = asyncio.ensure_future(self._clock.sleep(TRIAL_SECONDS))
        try:
            await asyncio.wait({trial, patience}, return_when=asyncio.FIRST_COMPLETED)
            if not trial.done():
                return f"no connection within {TRIAL_SECONDS:.0f} s: {channel.health.detail or 'no answer'}"
            await trial
        except _Accepted:
            return ""
        except Fatal as error:
            return f"{error}; {error.hint}"
        except Exception as error:
            log.exception("%s: its changed settings could not be tried", account)
            return f"unexpected: {type(error).__name__}; see the log"
        finally:
            patience.cancel()
            trial.cancel()
            await asyncio.wait({trial})
        return "its message source has ended"

    def adopt(self, settings: Settings) -> None:
        """Adopt the policies of changed settings; open connections use none of the other settings."""
        self._settings = settings
        for account in settings.channels:
            self.policies[account] = policy_of(settings, account)
            if account in self.channels:
                self._set_policy(account)

    def _set_policy(self, account: str) -> None:
        """Set the account's policy, completed by what only its channel knows."""
        rules = replace(self.policies[account].access, operator=self.channels[account].capabilities.operator)
        self.policies[account] = replace(self.policies[account], access=rules)

    async def receive(self, account: str, hello: Callable[[], None]) -> Fatal | None:
        """Keep one account receiving. Returns None when its source has ended, or the error that only a person can fix;
        it may be called again then, see `pause`. Never raises.

        hello: called at each accepted connection.
        """
        if account in self._failures:
            return self._failures[account]
        channel = self.channels[account]

        async def accepted(identity: BotIdentity) -> None:
            await self._check(account, identity)
            self._tasks.spawn(f"menu {account}", self._publish_menu(channel))
            self._pauses[account].reset()
            self._refused.pop(account, None)
            hello()

        while True:
            try:
                await channel.run(accepted)
                return None
            except Fatal as error:
                if isinstance(error, TakenOver) and account not in self.replaced:
                    self._failures[account] = error
                channel.health.state = ConnectionState.STOPPED
                channel.health.detail = why = reason(error) + ("" if account in self._failures else TRIED_AGAIN)
                if self._refused.get(account) != why and account not in self.replaced:
                    log.error("%s is stopped: %s", account, why)
                self._refused[account] = why
                return error
            except Exception:
                # A bug in one adapter must not take the others down; it stays visible, and the account is retried.
                log.exception("%s failed", account)
                channel.health.state = ConnectionState.RETRYING
                channel.health.detail = "internal error, see the log"
                await self._clock.sleep(RESTART_SECONDS)

    async def pause(self, account: str) -> bool:
        """Wait until a refused account is worth another attempt, as the operator may have fixed it at the platform.
        False if only a restart helps, or if an attempt would do harm."""
        if account in self._failures:
            return False
        self._asked[account].clear()
        await until_first(self._clock.sleep(self._pauses[account].next()), self._asked[account].wait())
        return True

    def expect(self, account: str) -> None:
        """Mark an account that is about to receive again as no longer stopped."""
        if account in self.channels:
            health = self.channels[account].health
            health.state, health.detail = ConnectionState.CONNECTING, ""

    def retry(self) -> None:
        """Retry the accounts waiting in `pause` at once."""
        for account in self.channels:
            self._asked[account].set()

    def capabilities(self, account: str) -> Capabilities | None:
        """The capabilities of the account's platform; None if its channel could not be built."""
        return self.channels[account].capabilities if account in self.channels else None

    def chat_link(self, account: str, text: str) -> ChatLink | None:
        """The link into a private chat with the account's bot, for that text; None if there is none."""
        return self.channels[account].chat_link(text) if account in self.channels else None

    def can_edit(self, account: str) -> bool:
        """Whether the account's platform can edit sent messages."""
        return account in self.channels and self.channels[account].capabilities.edits

    @property
    def all_stopped(self) -> bool:
        """Whether all accounts are stopped for good, apart from the gateway's own ones, which always work."""
        return self._failures.keys() >= self._settings.channels.keys() - OWN

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close()

    async def _check(self, account: str, identity: BotIdentity) -> None:
        """Ensure that an account keeps the same bot: a mix-up would show one person's data to another. Raises Fatal."""
        now = self._clock.now()
        try:
            await self._store.write(lambda tx: accounts.bind(tx, account, identity.platform, identity.bot_id, now))
        except accounts.AccountConflict as error:
            raise Fatal(str(error), _rename_hint(error)) from error
        log.info("%s is connected as @%s (%s)", account, identity.username, identity.platform)

    async def _publish_menu(self, channel: Channel) -> None:
        about: dict[str | None, About] = {}
        fixed = self.policies[channel.account].locale
        for language, texts in LANGUAGES.items():
            locale = None if language == DEFAULT else language
            await self._told(channel, "its menu", channel.publish_commands(menu(texts.command_menu), locale))
            say = texts.about
            told = About(
                description=unmarked(say["description"]),
                summary=say["summary"],
                greeting=say["greeting"],
                offer=say["offer"],
                outside=say["outside"],
                buttons=((say["button_start"], "/start"), (say["button_help"], "/help")),
            )
            about |= {None: told} if fixed == language else {locale: told} if fixed not in LANGUAGES else {}
        await self._told(channel, "its description", channel.describe(about))

    async def _told(self, channel: Channel, what: str, call: Awaitable[None]) -> None:
        """Make the call, but only log a ChannelError: the bot works without it."""
        try:
            await call
        except ChannelError as error:
            log.warning("%s: %s was not set: %s", channel.account, what, error)

    async def _newest(self, account: str, policy: Callable[[str], AccountPolicy]) -> Sequence[Newest]:
        """See ChannelPorts.newest."""
        since = self._clock.now() - NEWEST_SINCE
        messages = await self._store.read(lambda tx: inbox.newest_messages(tx, account, since))
        rules = policy(account).access
        return [
            Newest(
                chat=message.address.chat,
                topic=message.address.topic,
                kind=message.address.kind,
                message_id=message.platform_message_id,
                sent_at=message.sent_at,
            )
            for message in messages
            if rules.listens(message.address, message.sender)
        ][:NEWEST_CHATS]


def reason(error: Fatal) -> str:
    """Why an account is stopped and what to do about it, for operators."""
    return f"{error}; {error.hint}"


def _rename_hint(conflict: accounts.AccountConflict) -> str:
    if conflict.kind == "renamed":
        return f"to keep its conversations under the new name: antler account rename {conflict.known} {conflict.name}"
    return (
        f"give the new bot a different name in `channels`, or move the old one's conversations aside: "
        f"antler account rename {conflict.name} {conflict.name}-old"
    )
