"""The composition root: builds every part, then start, serve, drain, close. `serve` is what the command line calls."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import resource
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot import logs, signals, terminal
from bot.admission import AccessRules, Background
from bot.bus import MessageBus
from bot.clock import SystemClock
from bot.commands import Commands, ModelChoice
from bot.control import NO_CONSOLE, ControlServer, NotRunning
from bot.conversations import ConversationPorts
from bot.delivery import Delivery
from bot.lock import DataDirInUse, DataDirLock
from bot.manager import AccountPolicy, ChannelManager
from bot.patience import PatientStore
from bot.redaction import Redactor
from bot.respond import Responder
from bot.runs import RunLimits, RunManager
from bot.settings import ChannelSettings
from bot.status import StatusPage
from bot.store import Store, access, accounts, conversations, decisions, inbox, outbox, prompts, runs
from bot.store.effects import StoreEffectLog, StoreRunLedger
from bot.store.errors import StoreBusy, StoreError
from bot.tasks import Tasks
from bot.texts import LANGUAGES
from bot.uploads import MEGABYTE, UploadLimits, Uploads
from channels.base import ChannelPorts, Command, ConnectionState, Route
from channels.console.channel import ConsoleChannel
from channels.errors import Fatal
from channels.message import Address, OutboundMessage
from channels.registry import channel_class

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path
    from types import ModuleType

    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.store.rows import RunRow
    from channels.base import BotIdentity, Channel
    from harness.ports import Harness

log = logging.getLogger(__name__)

NO_CONFIG = (
    "antler: there is no config.yaml, so this is the terminal with the built-in demo model.\n"
    "For a real model and chats: cp config.yaml.example config.yaml, edit it, and start again."
)

OK, FAILURE, CONFIG_ERROR = 0, 1, 78
"""Exit codes; 78 is EX_CONFIG of sysexits.h: restarting without a change does not help."""

MAINTENANCE_SECONDS = 3600.0
INBOX_KEPT = timedelta(days=7)
"""Longer than any platform's redelivery (Feishu's ends after 7 hours, Telegram's after a day)."""
WARM_UP_AFTER = 1.0
"""Seconds that the import of the agent waits for channels to connect first."""
FENCE_CHECK_SECONDS = 2.0
CHANNEL_RESTART_SECONDS = 10.0
TAKE_OVER_SECONDS = 35.0
"""A little longer than the store's lease."""
TAKE_OVER_RETRY_SECONDS = 2.0


def serve(settings: Settings, config_path: Path | None) -> int:
    """`antler run`: serve until a signal, or until the terminal's input ends; returns the exit code."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold every secret
    redact = Redactor(settings.secrets())
    if config_path is None:
        print(NO_CONFIG, file=sys.stderr)
    # Between the lines of a conversation only what needs attention is shown.
    level = "warning" if _only_terminal(settings) and settings.log.level == "info" else settings.log.level
    logs.configure(level, settings.log.format, redact)
    try:
        with DataDirLock(settings.data_dir):
            return asyncio.run(_serve(settings, redact))
    except DataDirInUse as error:
        print(f"antler: {error}", file=sys.stderr)
        return CONFIG_ERROR
    except StoreError as error:
        print(f"antler: {redact(str(error))}", file=sys.stderr)
        return FAILURE


def console(settings: Settings) -> int:
    """`antler console`: a terminal on the running gateway, else on one of its own with the same data and models."""
    try:
        asyncio.run(terminal.talk(settings.data_dir))
    except NotRunning as error:
        if str(error) == NO_CONSOLE:
            print(f"antler: {error}", file=sys.stderr)
            return FAILURE
    else:
        return OK
    own = {"console": ChannelSettings.model_validate({"type": "console", "adapter": {}})}
    return serve(settings.model_copy(update={"channels": own}), settings.data_dir)


async def _serve(settings: Settings, redact: Redactor) -> int:
    clock = SystemClock()
    try:
        store = await _open_store(settings, clock)
    except StoreBusy as error:
        print(f"antler: {error}", file=sys.stderr)
        return CONFIG_ERROR
    try:
        return await Gateway(settings, store, clock, redact).run()
    finally:
        await store.close()


async def _open_store(settings: Settings, clock: SystemClock) -> Store:
    """A process that was killed keeps PostgreSQL's lease for a while, so a busy store is asked again until it ran out."""
    deadline = clock.monotonic() + TAKE_OVER_SECONDS
    while True:
        try:
            return await Store.open(settings.database_url, clock=clock)
        except StoreBusy as error:
            if clock.monotonic() > deadline:
                raise
            log.warning("waiting for the database: %s", error)
            await clock.sleep(TAKE_OVER_RETRY_SECONDS)


class Gateway:
    """All parts of one process."""

    def __init__(self, settings: Settings, store: Store, clock: SystemClock, redact: Redactor) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._tasks = Tasks("gateway")
        self._conversation_tasks = Tasks("conversation")
        self._stop = asyncio.Event()
        self._connected = asyncio.Event()
        self._exit_code = OK
        self._policies = {account: _policy(settings, account) for account in settings.channels}
        self._terminal: asyncio.Task[None] | None = None
        self._harness: asyncio.Future[Harness] = asyncio.get_running_loop().create_future()
        self.channels: dict[str, Channel] = {}

        patient = self._patient = PatientStore(store, clock)
        background = Background()
        self._delivery = Delivery(store, clock, redact, lease_valid=store.lease_valid, on_moved=self._chat_moved)
        self._responder = Responder(patient, self._delivery, clock)
        self._runs = RunManager(
            store=patient,
            delivery=self._delivery,
            harness=lambda: asyncio.shield(self._harness),
            clock=clock,
            limits=RunLimits(settings.limits.concurrent_runs, settings.limits.run_seconds),
            on_dead_letter=self._dead_letter,
        )
        self._status = StatusPage(
            version=version("antler"),
            store=patient,
            runs=self._runs,
            channels=self.channels,
            clock=clock,
            waiting=lambda: self._manager.waiting,
        )
        uploads = settings.uploads
        upload_limits = UploadLimits(int(uploads.max_file_mb * MEGABYTE), int(uploads.max_thread_mb * MEGABYTE))
        self._manager = ChannelManager(
            ports=ConversationPorts(
                store=patient,
                runs=self._runs,
                responder=self._responder,
                uploads=Uploads(upload_limits, clock),
                background=background,
                clock=clock,
                tasks=self._conversation_tasks,
                data_dir=settings.data_dir,
                default_model=settings.models[0].name,
                queue_limit=settings.limits.queued_per_conversation,
                channel=self.channels.get,
            ),
            delivery=self._delivery,
            commands=Commands(self._responder, self._status, _model_choices(settings), clock),
            policies=self._policies.__getitem__,
            let_in=self._let_in,
            channels=self.channels,
            background=background,
            clock=clock,
        )
        self._bus = MessageBus(store, self._manager.overhears)

    async def run(self) -> int:
        signals.on_stop(self._stop.set)
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._shut_down()
        return self._exit_code

    # Start: what is left from the last process first, then the platforms, then the heavy imports.

    async def _start(self) -> None:
        for account in self._settings.channels:
            await self._open(account)
        await self._delivery.start()
        self._tasks.spawn("manager", self._manager.serve(self._bus))
        self._tasks.spawn("control", self._control())
        await self._manager.recover()
        await self._bus.replay()
        for channel in self.channels.values():
            self._tasks.spawn(f"channel {channel.account}", self._receive(channel))
        self._tasks.spawn("harness", self._warm_up())
        self._tasks.spawn("maintenance", self._maintain())
        self._tasks.spawn("fence", self._watch_fence())

    async def _open(self, account: str) -> None:
        """Build an account's channel and its policy."""
        settings = self._settings.channels[account]
        ports = ChannelPorts(publish=self._bus.publish, clock=self._clock, route=self._router(account))
        channel = channel_class(settings.type)(account, settings.adapter, ports)
        self.channels[account] = channel
        self._delivery.register(channel)
        policy = self._policies[account]
        moved = await self._store.read(lambda tx: access.allowed_groups(tx, account))
        rules = replace(policy.access, operator=channel.capabilities.operator, groups=policy.access.groups | moved)
        self._policies[account] = replace(policy, access=rules)
        if isinstance(channel, ConsoleChannel):
            only = _only_terminal(self._settings)
            if only or terminal.is_interactive():
                self._terminal = terminal.attach_own(channel, owner=only)

    def _let_in(self, account: str, group: str) -> None:
        policy = self._policies[account]
        rules = replace(policy.access, groups=policy.access.groups | {group})
        self._policies[account] = replace(policy, access=rules)

    def _router(self, account: str) -> Callable[[str], Route]:
        def route(url: str) -> Route:
            proxy, ca_file = self._settings.account_route(account, url)
            return Route(proxy=proxy, ca_file=ca_file)

        return route

    async def _receive(self, channel: Channel) -> None:
        """One account's connection, until it ends for good. The others go on whatever happens here."""
        while True:
            try:
                await channel.run(lambda identity: self._hello(channel, identity))
                break
            except Fatal as error:
                return self._lost(channel, error)
            except Exception:
                # A bug in one adapter must not take the others down; it stays visible, and is tried again.
                log.exception("%s failed", channel.account)
                channel.health.state = ConnectionState.RETRYING
                channel.health.detail = "internal error, see the log"
                await self._clock.sleep(CHANNEL_RESTART_SECONDS)
        log.info("%s has ended", channel.account)
        await self._idle()
        self._stop.set()

    def _lost(self, channel: Channel, error: Fatal) -> None:
        channel.health.state = ConnectionState.STOPPED
        channel.health.detail = f"{error}; {error.hint}"
        log.error("%s is stopped: %s; %s", channel.account, error, error.hint)
        if all(other.health.state is ConnectionState.STOPPED for other in self.channels.values()):
            log.error("no account is left that could work")
            self._exit_code = FAILURE
            self._stop.set()

    async def _hello(self, channel: Channel, identity: BotIdentity) -> None:
        """The account's name and its bot belong together for ever; a mix-up would show one person's data to another."""
        now = self._clock.now()
        try:
            await self._patient.write(
                lambda tx: accounts.bind(tx, channel.account, identity.platform, identity.bot_id, now)
            )
        except accounts.AccountConflict as error:
            raise Fatal(str(error), _rename_hint(error)) from error
        log.info("%s is connected as @%s (%s)", channel.account, identity.username, identity.platform)
        self._connected.set()
        self._tasks.spawn(f"menu {channel.account}", self._publish_menu(channel))

    async def _publish_menu(self, channel: Channel) -> None:
        for language, texts in LANGUAGES.items():
            menu = [Command(name=name, description=text) for name, text in texts.command_menu.items()]
            await channel.publish_commands(menu, None if language == "en" else language)

    async def _warm_up(self) -> None:
        """Import and build the agent beside the running channels; runs that arrive earlier wait for it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connected.wait(), WARM_UP_AFTER)
        try:
            runner = await asyncio.to_thread(importlib.import_module, "harness.runner")
            self._harness.set_result(await self._make_harness(runner))
        except Exception as error:
            log.exception("the agent cannot be built")
            self._harness.set_exception(error)
            self._exit_code = FAILURE
            self._stop.set()

    async def _make_harness(self, runner: ModuleType) -> Harness:
        settings = self._settings
        harness: Harness = await runner.make_harness(
            models=settings.models,
            summarization=settings.summarization,
            llm=settings.llm,
            model_call_limit=settings.limits.model_calls,
            database=_checkpoints(settings),
            effects=StoreEffectLog(self._store),
            ledger=StoreRunLedger(self._store),
            clock=self._clock,
            route=settings.network_route,
        )
        return harness

    # While it serves.

    async def _control(self) -> None:
        consoles = [channel for channel in self.channels.values() if isinstance(channel, ConsoleChannel)]
        take_over = terminal.take_over(consoles[0], self._idle) if consoles else None
        async with ControlServer(self._settings.data_dir, self._status.machine, take_over):
            await asyncio.Event().wait()

    async def _maintain(self) -> None:
        """Forget what nothing needs any more, once an hour."""
        while True:
            now = self._clock.now()
            kept = now - timedelta(days=self._settings.data.keep_days)
            try:
                for prune in (inbox.prune, outbox.prune, decisions.prune, prompts.prune):
                    await self._prune(prune, now - INBOX_KEPT)
                await self._prune(runs.prune, kept)
            except StoreError as error:
                log.warning("old rows were not removed: %s", error)
            await self._clock.sleep(MAINTENANCE_SECONDS)

    async def _prune(self, prune: Callable[[Connection, datetime], int], before: datetime) -> None:
        """In portions, so that the writer serves others in between."""
        while await self._store.write(lambda tx: prune(tx, before)):
            pass

    async def _watch_fence(self) -> None:
        while not self._store.fenced:
            await self._clock.sleep(FENCE_CHECK_SECONDS)
        log.error("another process has taken over the database; this one stops")
        self._exit_code = FAILURE
        self._stop.set()

    def _chat_moved(self, account: str, old_chat: str, new_chat: str) -> None:
        self._tasks.spawn("migrate", self._manager.migrate(account, old_chat, new_chat))

    def _dead_letter(self, row: RunRow) -> None:
        log.error("dead letter: run %s in %s made no progress in three starts", row.run_id, row.conversation)
        self._tasks.spawn("dead letter", self._tell_admins(row))

    async def _tell_admins(self, row: RunRow) -> None:
        account = row.address.account
        for admin in self._policies[account].access.admins:
            known = await self._store.read(partial(conversations.direct, person=admin))
            if known is None:
                continue
            texts = LANGUAGES["en"]
            text = texts.gave_up_admin.format(conversation=row.conversation, run=row.run_id)
            chat = known.key.removeprefix(f"{account}:")
            address = Address(account=account, chat=chat, kind="dm")
            message = OutboundMessage(text=text, final=True)
            await self._delivery.say(f"dead:{row.run_id}:{admin}", address, None, message)

    # Stop.

    async def _idle(self) -> None:
        """Everything that was accepted is answered."""
        await self._bus.handled()
        await self._conversation_tasks.drain()
        await self._delivery.drained()

    async def _shut_down(self) -> None:
        """Runs pause and go on at the next start; what is final is still delivered, within the grace."""
        grace = self._settings.shutdown_grace_seconds
        began = self._clock.monotonic()
        self._runs.suspend()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._conversation_tasks.drain(), grace / 2)
        await self._tasks.cancel()
        await self._delivery.close(max(0.1, grace - (self._clock.monotonic() - began)))
        await self._conversation_tasks.cancel()
        for channel in self.channels.values():
            await channel.close()
        if self._terminal is not None:
            await self._terminal
        if self._harness.done() and not self._harness.exception():
            await self._harness.result().close()


def _policy(settings: Settings, account: str) -> AccountPolicy:
    access, talk = settings.access_for(account), settings.conversations_for(account)
    return AccountPolicy(
        access=AccessRules(
            allow=frozenset(access.allow),
            admins=frozenset(access.admins),
            groups=frozenset(access.groups.allow),
            open_dm=access.dm == "open",
            members=access.groups.members,
            answer=access.groups.answer,
            group_control=talk.group_control,
        ),
        group_scope=talk.group_scope,
        group_context=talk.group_context == "on",
        locale=settings.locale_for(account),
    )


def _model_choices(settings: Settings) -> list[ModelChoice]:
    return [ModelChoice(model.name, model.display_name or model.model or model.use) for model in settings.models]


def _checkpoints(settings: Settings) -> str:
    """LangGraph's savers keep a file of their own on SQLite, and share the database on PostgreSQL."""
    if settings.database.url is None:
        return str(settings.data_dir / "checkpoints.db")
    return settings.database.url.get_secret_value()


def _only_terminal(settings: Settings) -> bool:
    """Whether the terminal is the only account: then its end of input is the end of the process."""
    return {channel.type for channel in settings.channels.values()} == {"console"}


def _rename_hint(conflict: accounts.AccountConflict) -> str:
    if conflict.kind == "renamed":
        return f"to keep its conversations under the new name: antler account rename {conflict.known} {conflict.name}"
    return (
        f"give the new bot a name of its own in `channels`, or put the old one's conversations aside: "
        f"antler account rename {conflict.name} {conflict.name}-old"
    )
