"""Admins: tells an account's administrators what they need to know, each in private."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bot.store import conversations
from bot.store.identity import direct_address
from bot.texts import language_of, texts_for
from channels.message import Address, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.access.store import AccessStore
    from bot.delivery import Delivery
    from bot.store.retrying import RetryingStore
    from bot.texts.catalogue import Texts


class Admins:
    def __init__(self, book: AccessStore, store: RetryingStore, delivery: Delivery) -> None:
        self._book = book
        self._store = store
        self._delivery = delivery
        self._addresses: dict[str, Address] = {}

    async def tell(self, account: str, key: str, text: Callable[[Texts], str]) -> int:
        """Tell each admin of the account whom the bot may write to: who claimed it, or ever talked to it in private.

        key: of this piece of news; the same one again is no second message. Returns how many there are.
        """
        told = 0
        for admin in self._book.admins(account):
            address = await self._address(admin)
            if address is not None:
                message = self._message(account, admin, text)
                await self._store.until_available(partial(self._delivery.say, f"{key}:{admin}", address, None, message))
                told += 1
        return told

    async def tell_unrecorded(self, account: str, key: str, text: Callable[[Texts], str]) -> int:
        """Tell the administrators while the store takes nothing: one try for each whose chat is known already."""
        told = 0
        for admin in self._book.admins(account):
            if (address := self._addresses.get(admin)) is not None:
                message = self._message(account, admin, text)
                told += await self._delivery.send_unrecorded(f"{key}:{admin}", address, message)
        return told

    async def learn(self, account: str) -> None:
        """Look up where those of the account's admins are told of whom that is not known yet, for `tell_unrecorded`."""
        for admin in self._book.admins(account):
            if admin not in self._addresses:
                await self._address(admin)

    def _message(self, account: str, admin: str, text: Callable[[Texts], str]) -> OutboundMessage:
        return OutboundMessage(text=text(texts_for(self._language(account, admin))), final=True)

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

    def _language(self, account: str, admin: str) -> str:
        row = self._book.row("person", admin)
        return language_of(self._book.policy(account).locale, row.language if row is not None else None, "")
