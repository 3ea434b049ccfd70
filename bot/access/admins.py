"""Admins: notifies an account's administrators, each in private."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bot.access.editor import request_key
from bot.delivery.buttons import question, row_of
from bot.store import conversations, prompts
from bot.store.identity import conversation_key, direct_address
from bot.texts import texts_for
from bot.texts.commands import unmarked
from channels.base import Command
from channels.errors import ChannelError
from channels.message import Address, OutboundMessage, Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from bot.access.store import AccessStore
    from bot.delivery import Delivery
    from bot.store.access import AccessRow
    from bot.store.retrying import RetryingStore
    from bot.store.rows import PromptRow
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.base import Channel

log = logging.getLogger(__name__)
REQUEST = "request"
"""The prompt kind of the buttons of an access request: the first one approves, the second one refuses."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A question to one administrator. write: part of a unit, before `show`."""

    key: str
    address: Address
    message: OutboundMessage
    prompt: PromptRow
    delivery: Delivery

    def write(self, tx: Connection) -> None:
        prompts.ensure(tx, [self.prompt])
        self.delivery.finalize(tx, self.key, self.address, None, self.message)

    def show(self) -> None:
        self.delivery.finished(self.key, self.address, None, self.message)


class Admins:
    def __init__(self, book: AccessStore, store: RetryingStore, delivery: Delivery) -> None:
        self._book = book
        self._store = store
        self._delivery = delivery
        self._addresses: dict[str, Address] = {}

    async def tell(self, account: str, key: str, text: Callable[[Texts], str]) -> int:
        """Notify each admin of the account to whom the bot may write: those who claimed it or ever wrote in private.

        key: identifies the notice; repeating it sends no second message. Returns the number of notified admins.
        """
        told = 0
        for admin in self._book.admins(account):
            address = await self._address(admin)
            if address is not None:
                message = self._message(admin, text)
                await self._store.until_available(partial(self._delivery.say, f"{key}:{admin}", address, None, message))
                told += 1
        return told

    async def questions(self, request: AccessRow, text: Callable[[Texts], str]) -> list[Asking]:
        """The questions about an access request, one for each admin of the account to whom the bot may write."""
        assert request.code_hash is not None
        assert request.expires_at is not None
        life, found = request.expires_at - request.created_at, []
        options = {"kind": request.kind, "subject": request.subject, "request": request.code_hash}
        for admin in self._book.admins(request.account):
            address = await self._address(admin)
            if address is not None:
                key, texts = request_key(request.code_hash, admin), texts_for(self._book.language(admin))
                here = conversation_key(address, Sender(id="", display_name=""), "chat")
                prompt_id = hashlib.sha256(key.encode()).hexdigest()[:32]
                prompt = question(REQUEST, prompt_id, here, options, request.created_at, life=life, who=admin)
                labels = texts.request_buttons[f"{request.kind} in"], texts.request_buttons[f"{request.kind} out"]
                message = OutboundMessage(text=text(texts), buttons=(row_of(prompt_id, *labels),), final=True)
                found.append(Asking(key, address, message, prompt, self._delivery))
        return found

    async def tell_unrecorded(self, account: str, key: str, text: Callable[[Texts], str]) -> int:
        """Notify the administrators while the store is unavailable: one attempt for each whose chat is known."""
        told = 0
        for admin in self._book.admins(account):
            if (address := self._addresses.get(admin)) is not None:
                message = self._message(admin, text)
                told += await self._delivery.send_unrecorded(f"{key}:{admin}", address, message)
        return told

    async def learn(self, account: str) -> None:
        """Look up unknown addresses of the account's admins, for `tell_unrecorded`."""
        for admin in self._book.admins(account):
            if admin not in self._addresses:
                await self._address(admin)

    async def addresses(self, account: str) -> dict[str, Address]:
        """The known addresses for notices, by admin of the account."""
        found = {admin: await self._address(admin) for admin in self._book.admins(account)}
        return {admin: address for admin, address in found.items() if address is not None}

    def language(self, admin: str) -> str:
        return self._book.language(admin)

    def _message(self, admin: str, text: Callable[[Texts], str]) -> OutboundMessage:
        return OutboundMessage(text=text(texts_for(self._book.language(admin))), final=True)

    async def _address(self, admin: str) -> Address | None:
        found = await self._looked_up(admin)
        if found is None:
            self._addresses.pop(admin, None)
        else:
            self._addresses[admin] = found
        return found

    async def _looked_up(self, admin: str) -> Address | None:
        row = self._book.row("person", admin)
        if row is not None and row.chat is not None:
            return Address(account=row.account, chat=row.chat)
        known = await self._store.read(lambda tx: conversations.direct(tx, admin))
        return direct_address(known.key) if known is not None else None


class AdminMenus:
    """The command menus of the administrators' private chats, which include their own commands."""

    def __init__(
        self, admins: Admins, channels: Mapping[str, Channel], tasks: Tasks, has_page: Callable[[], bool]
    ) -> None:
        """has_page: whether there is a page now."""
        self._admins = admins
        self._channels = channels
        self._tasks = tasks
        self._has_page = has_page
        self._had_page = False
        self._shown: dict[str, dict[str, Address]] = {}

    def publish_soon(self, account: str) -> None:
        """Show the menus to the account's current administrators, and remove them from former ones."""
        if account in self._channels:
            self._tasks.spawn(f"admin menus {account}", self._publish(account, self._channels[account]))

    def adopt(self) -> None:
        """Show the menus again if changed settings added or removed the page."""
        if self._had_page != self._has_page():
            for account in self._shown:
                self.publish_soon(account)

    async def _publish(self, account: str, channel: Channel) -> None:
        before, now = self._shown.get(account, {}), await self._admins.addresses(account)
        self._shown[account], self._had_page = now, self._has_page()
        for admin, address in (before | now).items():
            texts = texts_for(self._admins.language(admin))
            more = admin_commands(texts, has_page=self._had_page) if admin in now else {}
            commands = {**texts.command_menu, **more}
            try:
                await channel.publish_commands(menu(commands), None, address)
            except ChannelError as error:
                log.warning("%s: no command menu for %s: %s", account, admin, error)


def admin_commands(texts: Texts, *, has_page: bool) -> dict[str, str]:
    """The additional commands of administrators: /web only if there is a page."""
    return {name: told for name, told in texts.admin_menu.items() if has_page or name != "web"}


def menu(commands: Mapping[str, str]) -> list[Command]:
    """Commands with their descriptions, in the form for a platform's menu."""
    return [Command(name=name, description=unmarked(text)) for name, text in commands.items()]
