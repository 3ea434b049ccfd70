"""The messages of the soak's crowd, and the schedule of faults. Pure except for the calls to the simulator."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulators.telegram import faults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.telegram.faults import Fault

WAVE_EVERY, WAVE_LASTS = 150.0, 15.0
"""Seconds between the starts of two waves of faults, and duration of one."""

_QUESTIONS = (
    (60, "!tokens 20 10\n!say {mark}"),
    (20, "!tokens 60 25\n!say {mark}"),
    (10, "!long 2500\n!say {mark}"),
    (10, "!say What about {mark}?"),
)
"""Questions that are each answered even if two join (`conversations.join_seconds`): their scripts run together."""
_STUMBLES = ("!status 500 times=1 {mark}", "!status 429 retry-after=1 times=1 {mark}", "!reset after=0 times=1 {mark}")
"""Failures of the model that a second try overcomes."""
STUMBLING = 0.05

_MARK = re.compile(r"soak-\d{6}")


def mark(number: int) -> str:
    """The mark that the answer to the message of this number shows."""
    return f"soak-{number:06}"


def marks(texts: Iterable[str]) -> Counter[str]:
    """Number of texts that contain each mark."""
    return Counter(found for text in texts for found in set(_MARK.findall(text)))


class Talk:
    """A reproducible mixture of short, long and formatted answers."""

    def __init__(self, *, stumbling: bool, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._stumbling = stumbling

    def question(self, number: int) -> str:
        (question,) = self._random.choices([q for _, q in _QUESTIONS], [weight for weight, _ in _QUESTIONS])
        if self._stumbling and question.startswith("!") and self._random.random() < STUMBLING:
            question = f"{self._random.choice(_STUMBLES)}\n{question}"
        return question.format(mark=mark(number))


@dataclass(frozen=True)
class Wave:
    """Simultaneous faults of the platform: (method, fault, calls). silent: polls are not answered at all."""

    name: str
    strikes: tuple[tuple[str, Fault, int], ...] = ()
    silent: bool = False

    async def begin(self, telegram: TelegramSimulator) -> None:
        for method, fault, times in self.strikes:
            await telegram.fail(method, fault, times)
        if self.silent:
            await telegram.play_dead()

    async def end(self, telegram: TelegramSimulator) -> None:
        await telegram.clear_faults()
        if self.silent:
            await telegram.play_dead(False)


WAVES = (
    # First, so that the backlog after it sets the high-water mark of memory during the warm-up.
    Wave("silence", silent=True),
    Wave("429", (("sendMessage", faults.flood(3), 5), ("editMessageText", faults.flood(4), 12))),
    Wave("502", (("getUpdates", faults.bad_gateway(), 2), ("editMessageText", faults.bad_gateway(), 15))),
    Wave("slow", (("sendMessage", faults.slow(3.0), 8), ("editMessageText", faults.slow(2.0), 15))),
    Wave("resets", (("getUpdates", faults.reset(), 2), ("editMessageText", faults.reset(apply=True), 10))),
)
