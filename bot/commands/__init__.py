"""What people type with a slash, and the buttons that it shows. One file per group of commands; make.py lists them."""

from bot.commands.make import make_commands
from bot.commands.table import Commands
from bot.texts.command_line import Call, CommandLine, Press, meant_for_us, parse

__all__ = ["Call", "CommandLine", "Commands", "Press", "make_commands", "meant_for_us", "parse"]
