"""Everything that users see: replies that grow in their chats, finals that always arrive, budgets that hold."""

from bot.delivery.account import AccountSnapshot
from bot.delivery.plan import idem_key
from bot.delivery.reply import Outcome, Reply
from bot.delivery.service import Delivery, DeliverySnapshot, OpenDraft

__all__ = [
    "AccountSnapshot",
    "Delivery",
    "DeliverySnapshot",
    "OpenDraft",
    "Outcome",
    "Reply",
    "idem_key",
]
