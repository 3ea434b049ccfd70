"""Slash commands and the buttons of their answers. table.py lists all groups."""

from bot.commands.table import Commands, make_commands
from bot.texts.command_line import Call, CommandLine, Press, asks_to_stop, meant_for_us, parse

__all__ = ["Call", "CommandLine", "Commands", "Press", "asks_to_stop", "make_commands", "meant_for_us", "parse"]
