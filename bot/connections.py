"""The accounts' connections: opens each channel, checks whose bot it is, and keeps it receiving."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.access.book import policy_of
from bot.store import accounts
from bot.texts import LANGUAGES
from channels.base import ChannelPorts, Command, ConnectionState, Route
from channels.errors import Fatal
from channels.registry import channel_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.patience import PatientStore
    from bot.settings import Settings
    from bot.tasks import Tasks
    from channels.base import BotIdentity, Channel, Clock, Publish

log = logging.getLogger(__name__)

RESTART_SECONDS = 10.0


class Connections:
    """All configured accounts. channels and policies (by the config alone) are read by others, changed only here."""

    def __init__(self, settings: Settings, store: PatientStore, clock: Clock, tasks: Tasks) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self.channels: dict[str, Channel] = {}
        self.policies = {account: policy_of(settings, account) for account in settings.channels}

    def open(self, publish: Publish) -> None:
        """Build every account's channel; nothing connects yet."""
        for account, settings in self._settings.channels.items():
            ports = ChannelPorts(publish=publish, clock=self._clock, route=self._router(account))
            channel = channel_class(settings.type)(account, settings.adapter, ports)
            self.channels[account] = channel
            policy = self.policies[account]
            rules = replace(policy.access, operator=channel.capabilities.operator)
            self.policies[account] = replace(policy, access=rules)

    async def receive(self, account: str, hello: Callable[[], None]) -> Fatal | None:
        """Keep one account receiving until its source has ended (None), or only a person can help. Never raises else.

        hello: called at each accepted connection.
        """
        channel = self.channels[account]

        async def accepted(identity: BotIdentity) -> None:
            await self._check(account, identity)
            self._tasks.spawn(f"menu {account}", self._publish_menu(channel))
            hello()

        while True:
            try:
                await channel.run(accepted)
                return None
            except Fatal as error:
                channel.health.state = ConnectionState.STOPPED
                channel.health.detail = f"{error}; {error.hint}"
                log.error("%s is stopped: %s; %s", account, error, error.hint)
                return error
            except Exception:
                # A bug in one adapter must not take the others down; it stays visible, and is tried again.
                log.exception("%s failed", account)
                channel.health.state = ConnectionState.RETRYING
                channel.health.detail = "internal error, see the log"
                await self._clock.sleep(RESTART_SECONDS)

    @property
    def all_stopped(self) -> bool:
        return all(channel.health.state is ConnectionState.STOPPED for channel in self.channels.values())

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close()

    async def _check(self, account: str, identity: BotIdentity) -> None:
        """An account's name and its bot belong together for ever; a mix-up would show one person's data to another."""
        now = self._clock.now()
        try:
            await self._store.write(lambda tx: accounts.bind(tx, account, identity.platform, identity.bot_id, now))
        except accounts.AccountConflict as error:
            raise Fatal(str(error), _rename_hint(error)) from error
        log.info("%s is connected as @%s (%s)", account, identity.username, identity.platform)

    async def _publish_menu(self, channel: Channel) -> None:
        for language, texts in LANGUAGES.items():
            menu = [Command(name=name, description=text) for name, text in texts.command_menu.items()]
            await channel.publish_commands(menu, None if language == "en" else language)

    def _router(self, account: str) -> Callable[[str], Route]:
        def route(url: str) -> Route:
            proxy, ca_file = self._settings.account_route(account, url)
            return Route(proxy=proxy, ca_file=ca_file)

        return route


def _rename_hint(conflict: accounts.AccountConflict) -> str:
    if conflict.kind == "renamed":
        return f"to keep its conversations under the new name: antler account rename {conflict.known} {conflict.name}"
    return (
        f"give the new bot a name of its own in `channels`, or put the old one's conversations aside: "
        f"antler account rename {conflict.name} {conflict.name}-old"
    )
