"""Everything that users see: replies that grow in their chats, finals that always arrive, budgets that hold."""

from bot.delivery.plan import idem_key
from bot.delivery.reply import Outcome, Reply
from bot.delivery.service import Delivery

__all__ = ["Delivery", "Outcome", "Reply", "idem_key"]
