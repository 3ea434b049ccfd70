"""Reload: a config that was edited holds without a restart, or says what of it needs one; watched by the gateway.

A config with a fault changes nothing: the process goes on as before and says so in the log and in `antler status`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.settings.live import change
from bot.settings.problems import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from bot.settings import Settings
    from bot.settings.live import Change
    from bot.settings.source import SettingsSource, Signature
    from channels.base import Clock

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Between two looks at the files. An edit counts when two looks see the same: editors write in steps."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one reading. applied, restart: keys that changed. problems: why nothing was applied, a line each."""

    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problems:
            return "the config was not taken over, what held before goes on:\n" + "\n".join(self.problems)
        said = [f"from now on hold: {', '.join(self.applied)}"] if self.applied else []
        said += [f"need a restart of antler: {', '.join(self.restart)}"] if self.restart else []
        return "; ".join(said) or "the config has not changed"


class Reloader:
    """current: the settings that hold. adopt: makes others hold. retry: called after each reading; what platforms
    refused may have been mended there."""

    def __init__(
        self,
        source: SettingsSource,
        current: Callable[[], Settings],
        adopt: Callable[[Change], Awaitable[Outcome]],
        clock: Clock,
        retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._current = current
        self._adopt = adopt
        self._clock = clock
        self._retry = retry
        self._one = asyncio.Lock()
        self.last = Outcome()

    async def serve(self) -> None:
        """Until cancelled: take over what is written to the files, and at a SIGHUP."""
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        known, seen = self._source.seen, await self._signature()
        while True:
            await self._pause(asked)
            now = await self._signature()
            if asked.is_set() or (now != known and now == seen):
                asked.clear()
                known = now
                await self.reload()
            seen = now

    async def reload(self) -> Outcome:
        """Read the config and make it hold, at once."""
        async with self._one:
            self.last = await self._reloaded()
        self._retry()
        level = logging.WARNING if self.last.problems or self.last.restart else logging.INFO
        log.log(level, "%s", self.last)
        return self.last

    async def operation(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For the control socket."""
        outcome = await self.reload()
        return {"ok": not outcome.problems, "text": str(outcome)}

    async def _reloaded(self) -> Outcome:
        try:
            settings = await asyncio.to_thread(self._source.read)
            return await self._adopt(change(self._current(), settings))
        except ConfigError as error:
            return Outcome(problems=tuple(str(problem) for problem in error.problems))
        except Exception as error:
            # Whatever it is (a bad model class, a provider of guardrails), the next edit has to be heard.
            log.exception("the config could not be taken over")
            return Outcome(problems=(f"unexpected: {type(error).__name__}; the log has more",))

    async def _signature(self) -> Signature:
        return await asyncio.to_thread(self._source.signature, self._current().agents_dir)

    async def _pause(self, asked: asyncio.Event) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(LOOK_SECONDS))
        waiting = asyncio.ensure_future(asked.wait())
        try:
            await asyncio.wait({sleeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
