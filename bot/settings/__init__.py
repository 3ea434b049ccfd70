"""The configuration: `load` reads it from all its sources; the rest of bot/ receives it as `Settings`."""

from bot.settings.load import load
from bot.settings.model import ChannelSettings, Settings
from bot.settings.problems import ConfigError, ConfigProblem
from bot.settings.sections import AccessSettings, ConversationSettings, GroupSettings

__all__ = [
    "AccessSettings",
    "ChannelSettings",
    "ConfigError",
    "ConfigProblem",
    "ConversationSettings",
    "GroupSettings",
    "Settings",
    "load",
]
