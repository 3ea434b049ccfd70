"""All parts that decide who may use the bot, put together; for the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.access.admins import Admins
from bot.access.book import AccessBook
from bot.access.desk import AccessDesk
from bot.access.doorkeeper import Doorkeeper
from bot.access.pairing import Claims
from bot.access.tool import AccessTool

if TYPE_CHECKING:
    from bot.delivery import Delivery
    from bot.delivery.respond import Responder
    from bot.inbound.connections import Connections
    from bot.settings import Settings
    from bot.store.retrying import PatientStore
    from channels.base import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessParts:
    book: AccessBook
    admins: Admins
    claims: Claims
    desk: AccessDesk
    door: Doorkeeper
    tool: AccessTool


def make_access(
    settings: Settings,
    connections: Connections,
    store: PatientStore,
    delivery: Delivery,
    responder: Responder,
    clock: Clock,
) -> AccessParts:
    """The book is empty until it is loaded: nobody is let in before."""
    channels = connections.channels
    book, claims = AccessBook(connections.policies), Claims(clock)
    admins = Admins(book, store, delivery)
    desk = AccessDesk(
        book,
        delivery,
        clock,
        can_edit=lambda account: account in channels and channels[account].capabilities.edits,
        names_group=settings.names_group,
    )
    return AccessParts(
        book=book,
        admins=admins,
        claims=claims,
        desk=desk,
        door=Doorkeeper(desk=desk, store=store, responder=responder, admins=admins, claims=claims, clock=clock),
        tool=AccessTool(desk, store, clock, claims),
    )
