"""The state of one simulator process: its bots, clock, journal and the files that it serves."""

import base64
import itertools
import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulators.clock import Clock
from tests.simulators.control import ControlError
from tests.simulators.faults import FaultQueue
from tests.simulators.problems import Problems
from tests.simulators.signals import Signal
from tests.simulators.wecom.faults import Fault
from tests.simulators.wecom.journal import Journal

if TYPE_CHECKING:
    from tests.simulators.wecom.sockets import Socket
    from tests.simulators.wecom.state import Bot, Json, Served


@dataclass
class World:
    """All state. origin: the root of the HTTP side, http://host:port."""

    origin: str = ""
    clock: Clock = field(default_factory=Clock)
    journal: Journal = field(default_factory=Journal)
    faults: FaultQueue[Fault] = field(default_factory=FaultQueue)
    bots: "dict[str, Bot]" = field(default_factory=dict)
    served: "dict[str, Served]" = field(default_factory=dict)
    sockets: "set[Socket]" = field(default_factory=set)
    released: Signal = field(default_factory=Signal)
    problems: Problems = field(default_factory=Problems)
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def bot(self, bot_id: str) -> "Bot":
        """A registered bot. Raises ControlError."""
        if bot_id not in self.bots:
            raise ControlError(f"unknown bot {bot_id}")
        return self.bots[bot_id]

    def serve(self, served: "Served") -> "Json":
        """Serve a file at a URL; returns its description for a callback."""
        self.served[served.key] = served
        key = base64.b64encode(served.aes_key).decode().rstrip("=")
        return {"url": f"{self.origin}/media/{served.key}", "aeskey": key}


def new_key() -> bytes:
    """An AES-256 key."""
    return os.urandom(32)


def new_id(prefix: str) -> str:
    """An unguessable id."""
    return f"{prefix}{uuid.uuid4().hex}"
