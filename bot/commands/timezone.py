"""/timezone: where the conversation's times are; who may control it changes it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from bot.store import conversations
from bot.texts.markdown import inline
from bot.usage.days import zone_of
from harness.when import local, zone_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.commands.group import Answers, ButtonKind, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.texts.command_line import Call
    from channels.base import Clock

DEFAULT = "default"
"""What takes the choice back."""


class TimezoneCommands:
    """gateway: the zone of conversations that have chosen none."""

    def __init__(self, answers: Answers, clock: Clock, gateway: str) -> None:
        self._answers = answers
        self._clock = clock
        self._gateway = gateway
        self.commands: Mapping[str, CommandHandler] = {"timezone": self._timezone}
        self.buttons: Mapping[str, ButtonKind] = {}

    async def _timezone(self, conversation: Conversation, call: Call) -> None:
        row, wanted, words = await conversation.row(call.message), call.line.arguments.strip(), call.texts.timezone
        if not wanted:
            return await self._answers.say(call, self._told(words["shown"], zone_of(row, self._gateway)), "/timezone")
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        chosen = None if wanted.casefold() == DEFAULT else zone_name(wanted)
        if chosen is None and wanted.casefold() != DEFAULT:
            text = words["unknown"].format(name=inline(wanted[:60]), near=_near(wanted))
            return await self._answers.say(call, text, "/timezone")
        text = self._told(words["changed"], chosen or self._gateway)
        await self._answers.say(
            call, text, "/timezone", also=lambda tx: conversations.set_timezone(tx, conversation.key, chosen)
        )
        conversation.forget_row()

    def _told(self, sentence: str, zone: str) -> str:
        return sentence.format(zone=zone, time=local(self._clock.now(), zone))


def _near(wanted: str) -> str:
    """A zone whose name, or whose city, is spelled like that."""
    places = (zone for zone in sorted(available_timezones()) if "/" in zone and not zone.startswith("Etc/"))
    cities = {zone.rpartition("/")[2].casefold(): zone for zone in places}
    spelled = "_".join(wanted.split()).casefold().rpartition("/")[2]
    found = get_close_matches(spelled, cities, n=1)
    return cities[found[0]] if found else "Europe/Berlin"
