"""The messages that people send to the gateway, with unique markers; the correct answers are known beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulators.model.directives import parse
from tests.simulators.model.play import WORDS
from tests.simulators.model.scripts import Call, Say, Tokens

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from tests.torture.platform import Place, Platform

LONG_NUMBERS, LONGER_NUMBERS = 2600, 6000
"""Last numbers of a count: about 12 000 characters, three Telegram messages; and 29 000, two messages anywhere."""
SCRIPTS = {
    "say": "!say Answer to {marker}.",
    "stream": "!say Begin {marker}:\n!tokens 20 15\n!say End {marker}.",
    "slow": "!say Begin {marker}:\n!tokens 40 50\n!say End {marker}.",
    "long": "!say Begin {marker}:\n!count {numbers}\n!say End {marker}.",
    "longer": "!say Begin {marker}:\n!count {more_numbers}\n!say End {marker}.",
    "tool": '!tool note {{"marker": "{marker}"}}\n!say Noted {marker}.',
    "bash": '!tool bash {{"command": "setsid sleep {nap} & echo {marker} >>acts; sleep 0.2"}}\n!say Ran {marker}.',
    "nap": '!tool bash {{"command": "echo {marker} >>acts; sleep {nap}", "timeout": 8}}\n!say Ran {marker}.',
    "file": (
        '!tool bash {{"command": "echo {marker} >>acts; echo {marker} >/mnt/user-data/outputs/{marker}.txt"}}\n'
        '!tool present_files {{"paths": ["/mnt/user-data/outputs/{marker}.txt"]}}\n!say Sent {marker}.'
    ),
    "skill": '!tool read_file {{"path": "/mnt/skills/custom/count-words/SKILL.md"}}\n!say Followed {marker}.',
    "learn": "!say Learnt {marker}.\nRemember that my number is {marker}.",
    "sign": '!tool sign {{"marker": "{marker}"}}\n!say Signed {marker}.',
    "abort": '!tool abort_again {{"marker": "{marker}"}}\n!say Survived {marker}.',
    "aborts": "".join(f'!tool abort {{{{"marker": "{{marker}}-{n}"}}}}\n' for n in range(9))
    + "!say Survived {marker}.",
    "delegate": (
        '!tools task {{"description": "one", "prompt": "!say one", "subagent_type": "general-purpose"}} '
        'task {{"description": "two", "prompt": "!tokens 5 30", "subagent_type": "general-purpose"}}\n'
        "!say Delegated {marker}."
    ),
}
"""Kind -> text of the message, which the model simulator obeys (tests/simulators/model/directives.py)."""
COMMANDS = {"status": "/status", "stop": "/stop", "new": "/new {marker}"}
ACTS_FILE = "acts"
"""A file in a thread's workspace that gets a line MARKER each time a command actually runs."""
WEIGHTS = {"say": 30, "stream": 25, "tool": 20, "long": 8, "status": 5, "stop": 6, "new": 6}
REDELIVERED, REORDERED = 0.1, 0.1
"""Shares of updates that a disturbed platform delivers twice, or after the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message of a person. kind: a key of SCRIPTS or COMMANDS; message_id, reached: see platform.Spoken.

    at, until: it was written between these (monotonic seconds). must_stop: a /stop has to prevent its answer;
    no_repeat: none of its model calls may be made twice.
    """

    marker: str
    kind: str
    account: str
    chat: str
    person: Any
    text: str
    message_id: str
    at: float
    until: float
    reached: bool = True
    must_stop: bool = False
    no_repeat: bool = False

    @property
    def is_command(self) -> bool:
        return self.kind in COMMANDS


@dataclass
class Load:
    """Writes messages for all people. platforms: by account. disorder: some events arrive twice or out of order.
    weights: of the kinds of message. nap: seconds that commands sleep in the background, and no other process.
    """

    platforms: Mapping[str, Platform]
    chance: random.Random
    asked: list[Asked] = field(default_factory=list)
    disorder: bool = False
    weights: Mapping[str, int] = field(default_factory=lambda: WEIGHTS)
    nap: str = "600"
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def places(self) -> list[Place]:
        """All places, in the order of the accounts."""
        return [place for platform in self.platforms.values() for place in platform.places]

    async def talk(self, pause: float, silence: asyncio.Event) -> None:
        """Say something about every `pause` seconds until `silence` is set."""
        while not silence.is_set():
            (kind,) = self.chance.choices(list(self.weights), list(self.weights.values()))
            await self.say(kind, self.chance.choice(self.places))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(silence.wait(), self.chance.uniform(0.3, 1.7) * pause)

    async def say(
        self,
        kind: str,
        place: Place,
        *,
        person: Any = None,
        must_stop: bool = False,
        no_repeat: bool = False,
        number: int | None = None,
    ) -> Asked:
        """Send one message, from a random person unless one is given; return once the platform has it."""
        platform = self.platforms[place.account]
        marker = f"m{next(self._numbers):05d}"
        words = {"marker": marker, "numbers": LONG_NUMBERS, "more_numbers": LONGER_NUMBERS, "nap": self.nap}
        text = (SCRIPTS | COMMANDS)[kind].format(**words)
        if number is None and self.disorder and self.chance.random() < REORDERED:
            reserved = await platform.reserve()
            if reserved is not None:
                number, later = reserved
                await self.say("say", place, number=later)
        at, person = time.monotonic(), person or self.chance.choice(place.people)
        typed = platform.typed(text, place, command=kind in COMMANDS)
        spoken = await platform.say(typed, place, person, number)
        asked = Asked(
            marker=marker,
            kind=kind,
            account=place.account,
            chat=place.chat,
            person=person,
            text=text,
            message_id=spoken.message_id,
            at=at,
            until=time.monotonic(),
            reached=spoken.reached,
            must_stop=must_stop,
            no_repeat=no_repeat,
        )
        self.asked.append(asked)
        if self.disorder and spoken.again is not None and self.chance.random() < REDELIVERED:
            await platform.deliver_again(spoken)
        return asked


def squeezed(text: str) -> str:
    """Remove white space, which Markdown and the splitting of messages may change."""
    return "".join(text.split())


def expected(texts: Iterable[str]) -> str:
    """The answer to a turn of these messages, squeezed: the model's text after its last round of tool calls."""
    script = parse("\n".join(texts))
    assert script is not None
    steps = script.round(sum(isinstance(step, Call) for step in script.steps))
    told = ""
    for step in steps:
        match step:
            case Say(text=text):
                told += text
            case Tokens(count=count):
                told += "".join(WORDS[index % len(WORDS)] for index in range(count))
            case _:
                raise AssertionError(f"no answer is known to {step}")
    return squeezed(told)


def final_words(asked: Asked) -> str:
    """The last words of the complete answer, squeezed, which no draft contains."""
    return expected([asked.text])[-len(f"Endm{'0' * 5}.") :]
