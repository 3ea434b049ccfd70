"""A gateway's core and its surroundings, played by a list of steps: people, the platform, the model, the disk, kills.

The platform keeps what the gateway has not acknowledged and sends it again, as platforms do. Each `do_` method is one
step; test_gateway_random.py draws them and gateway_promises.py checks what came of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bot.access.admission import AccessRules
from bot.store.errors import StoreError
from bot.texts.en import EN
from channels.errors import (
    AttachmentFailed,
    ChannelError,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
)
from channels.message import Address, Attachment, ButtonPressed, MessageEdited, Sender
from tests.bot.core import ANN, BOB, Core, GatedChannel
from tests.bot.gateway_books import ALSO
from tests.bot.played_agent import PlayedAgent
from tests.clock import VirtualClock
from tests.delivery_world import RATE, Tripwire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from bot.access.admission import AccountPolicy
    from channels.base import LiveReply, Part, Sink
    from channels.message import InboundEvent, Message, OutboundMessage
    from tests.memory_channel import Bubble, MemoryMode

T = TypeVar("T")
Step = tuple[Any, ...]

RULES = AccessRules(
    allow=frozenset({f"memory:{ANN}", f"memory:{BOB}", *(f"memory:9{number}" for number in range(5))}),
    admins=frozenset({f"memory:{ANN}"}),
    groups=frozenset({"memory:g", "memory:k"}),
    members="listed",
)
PROBE_SECONDS = 8.0
FAULTS: dict[str, ChannelError] = {
    "temporary": Temporary("connection refused"),
    "limited": RateLimited("slow down", 17.0),
    "unknown": OutcomeUnknown("read timed out"),
    "lost": OutcomeUnknown("read timed out, but applied"),
    "refused": Rejected("cannot parse entities"),
    "gone": MessageGone("message to edit not found"),
}
CHANGES = ("edit", "stream", "finish")


class PlayedChannel(GatedChannel):
    """connected: calls get through; delay: seconds that each takes. made: (method, chat, when) of each call.

    limits: (chat, from, until) of each 429. refused: chats in which something was not accepted.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connected = True
        self.delay = 0.0
        self.tripwire = Tripwire()
        self.made: list[tuple[str, str, float]] = []
        self.limits: list[tuple[str, float, float]] = []
        self.refused: set[str] = set()

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        call = partial(super().send, address, part, idem_key, reply_to, silent=silent)
        return await self._played("send", address, call)

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        await self._played("edit", address, partial(super().edit, address, message_id, part))

    async def delete(self, address: Address, message_id: str) -> None:
        await self._played("delete", address, partial(super().delete, address, message_id))

    async def find(self, address: Address, part: Part, probe: Any) -> str | None:
        return await self._played("find", address, partial(super().find, address, part, probe))

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        return await self._played("open_stream", address, partial(super().open_stream, address, idem_key, reply_to))

    async def grow(self, address: Address, bubble: Bubble, message: OutboundMessage, method: str) -> None:
        await self._played(method, address, partial(super().grow, address, bubble, message, method))

    async def typing(self, address: Address) -> None:
        self.made.append(("typing", address.chat, self.monotonic()))

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        if attachment.ref.startswith("slow"):
            await self._ports.clock.sleep(4)
        if not self.connected:
            raise Temporary("connection refused")
        if not attachment.ref.endswith("gone"):
            return await sink.write(b"x" * (attachment.size or 1))
        raise AttachmentFailed("no such file", "gone")

    async def _played(self, method: str, address: Address, call: Callable[[], Awaitable[T]]) -> T:
        await self.tripwire.step()
        self.made.append((method, address.chat, self.monotonic()))
        if self.delay:
            await self._ports.clock.sleep(self.delay / 2)
        if not self.connected:
            raise Temporary("connection refused")
        try:
            result = await call()
        except RateLimited as error:
            self.limits.append((address.chat, self.monotonic(), self.monotonic() + error.retry_after))
            raise
        except Rejected:
            self.refused.add(address.chat)
            raise
        if self.delay:
            await self._ports.clock.sleep(self.delay / 2)
        await self.tripwire.step()
        return result


@dataclass
class Play:
    """said: what each message was at first, by its number. undelivered: what the platform still has to send.

    losses: sends whose answer got lost. checks: made of each process, once it has ended.
    """

    core: Core
    agent: PlayedAgent
    said: list[Message] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    undelivered: list[InboundEvent] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    running: bool = True
    kills: int = 0
    losses: int = 0
    poller: asyncio.Task[None] | None = None
    checks: list[Callable[[Play], None]] = field(default_factory=list)

    @property
    def channel(self) -> PlayedChannel:
        channel = self.core.channel
        assert isinstance(channel, PlayedChannel)
        return channel

    @property
    def clock(self) -> VirtualClock:
        return self.core.clock

    async def play(self, steps: Sequence[Step]) -> None:
        for kind, *details in steps:
            if not self.running and kind not in ("say", "start", "wait"):
                continue
            await getattr(self, f"do_{kind}")(*details)
            await self.clock.settle()
            if self.core.tripwire.tripped.is_set():
                await self.do_kill()

    # The process.

    async def boot(self) -> None:
        """Start, as often as it takes: a kill may be waiting for the start itself."""
        self.running = False
        while not self.running:
            starting = asyncio.create_task(self.core.start())
            while not starting.done() and not self.core.tripwire.tripped.is_set():
                await self.clock.advance(0.1)
            if starting.done():
                await starting
                self.running = True
                self.poller = asyncio.create_task(self._poll())
            else:
                starting.cancel()
                await asyncio.wait({starting})
                await self._kill()

    async def do_kill(self, again: int = 0) -> None:
        """kill -9, and a new start, which is killed too at its step `again`."""
        await self._kill()
        self._arm(again)
        await self.boot()

    async def do_kill_at(self, step: int) -> None:
        """A kill at the step-th touch of the disk or the platform from now on."""
        self._arm(step)

    def _arm(self, step: int) -> None:
        self.core.tripwire = self.core.store.tripwire = self.channel.tripwire = Tripwire(step)

    async def do_stop(self) -> None:
        """A planned stop; `start` ends it. One that cannot write that it was planned is as good as a kill."""
        self.kills += self.core.store.down
        self._arm(0)
        await self._end_poller()
        await self.core.stop()
        self.running = False
        await self._ended()

    async def do_start(self) -> None:
        if not self.running:
            await self.boot()

    async def _kill(self) -> None:
        self.kills += 1
        await self._end_poller()
        await self.core.crash()
        self._arm(0)
        await self._ended()

    async def _ended(self) -> None:
        for check in self.checks:
            check(self)
        self.agent.lives += 1
        self.channel.made.clear()
        self.channel.limits.clear()

    async def _end_poller(self) -> None:
        if self.poller is not None:
            self.poller.cancel()
            await asyncio.wait({self.poller})
            self.poller = None

    async def _poll(self) -> None:
        """As an adapter does it: what is not committed is asked for again, a batch at a time, in order."""
        while True:
            if not self.undelivered:
                self.arrived.clear()
                quiet = asyncio.create_task(self.clock.sleep(20))
                waiting = asyncio.create_task(self.arrived.wait())
                try:
                    await asyncio.wait({quiet, waiting}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    quiet.cancel()
                    waiting.cancel()
            if not self.channel.connected:
                await self.clock.sleep(1)
                continue
            self.channel.health.last_sign = self.clock.monotonic()
            batch = self.undelivered[:100]
            try:
                await self.channel.receive(*batch)
            except StoreError:
                await self.clock.sleep(1)
            else:
                del self.undelivered[: len(batch)]

    # People.

    async def do_say(self, person: str, group: str | None, text: str, **more: Any) -> None:
        """text: what the agent does with it, or a command."""
        number = len(self.said)
        if text and not text.startswith("/") and text not in ALSO:
            text = f"say{number}v1x {text}"
        message = self.core.message(text, person, group, number=number, **more)
        self.said.append(message)
        self.versions[number] = 1
        self._send(message)

    async def do_command(self, person: str, group: str | None, text: str) -> None:
        await self.do_say(person, group, text)

    async def do_meet(self, person: str, group: str | None, lengthy: str, text: str) -> None:
        """A message meets the run of another one."""
        await self.do_say(person, group, lengthy)
        await self.do_wait(1.5)
        await self.do_say(person, group, text)

    async def do_mutter(self, person: str, group: str, text: str) -> None:
        """Something said to others."""
        await self.do_say(person, group, text, mention=False)

    async def do_files(self, person: str, group: str | None, text: str, refs: tuple[str, ...], size: int) -> None:
        files = tuple(Attachment(ref=ref, kind="file", name=f"{ref}.txt", size=size) for ref in refs)
        await self.do_say(person, group, text, attachments=files)

    async def do_bundle(self, person: str, group: str | None, texts: tuple[str, ...], gap: float) -> None:
        """Several messages of one bundle; with a gap of more than 0.8 s they are two turns."""
        bundle = f"bundle{len(self.said)}"
        for text in texts:
            await self.do_say(person, group, text, bundle=bundle)
            if gap:
                await self.do_wait(gap)

    async def do_edit(self, which: int, text: str) -> None:
        """Change a message that was said lately."""
        number = len(self.said) - 1 - which
        if number < 0 or self.said[number].text.startswith("/"):
            return
        self.versions[number] += 1
        now, old = self.clock.now(), self.said[number]
        new = replace(old, text=f"say{number}v{self.versions[number]}x {text}", dedupe_keys=(f"e{number}.{now}",))
        keys = (f"edit{number}.{self.versions[number]}",)
        self._send(MessageEdited(account="memory", dedupe_keys=keys, sent_at=now, received_at=now, message=new))

    async def do_press(self, person: str, which: int) -> None:
        """Press one of the buttons that stand in the chats, but none that lets strangers in: who may speak stays."""
        shown = [
            (chat, bubble.message_id, button.data)
            for chat, bubbles in sorted(self.channel.chats.items())
            for bubble in bubbles
            for row in bubble.part.buttons
            for button in row
            if button.label not in EN.request_buttons.values()
        ]
        if not shown:
            return
        chat, message_id, data = shown[which % len(shown)]
        now, number = self.clock.now(), next(self.core.numbers)
        self._send(
            ButtonPressed(
                account="memory",
                dedupe_keys=(f"press{number}",),
                sent_at=now,
                received_at=now,
                address=Address(account="memory", chat=chat, kind="group" if chat.isalpha() else "dm"),
                platform_message_id=message_id,
                sender=Sender(id=person, display_name="Ann"),
                data=data,
                callback_id=f"c{number}",
            )
        )

    async def do_again(self, which: int) -> None:
        """The platform delivers a message once more, long after it was acknowledged or right after."""
        if self.said:
            self._send(self.said[-1 - which % len(self.said)])

    async def do_swap(self, first: str, second: str, person: str, group: str | None) -> None:
        """Two messages arrive in the wrong order."""
        arriving = len(self.undelivered)
        await self.do_say(person, group, first)
        await self.do_say(person, group, second)
        if len(self.undelivered) == arriving + 2:
            self.undelivered[-2:] = reversed(self.undelivered[-2:])

    def _send(self, event: InboundEvent) -> None:
        self.undelivered.append(event)
        self.arrived.set()

    # The world.

    async def do_nothing(self) -> None:
        """What other steps shrink to."""

    async def do_wait(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def do_fault(self, method: str, fault: str) -> None:
        """The next call of a method goes wrong."""
        if fault == "gone" and method not in CHANGES:
            fault = "temporary"
        if fault in ("unknown", "lost") and method in ("send", "open_stream"):
            self.losses += 1
        self.channel.fail(method, FAULTS[fault], applied=fault == "lost")

    async def do_slow(self, seconds: float) -> None:
        self.channel.delay = seconds

    async def do_connection(self, there: bool) -> None:
        self.channel.connected = there

    async def do_disk(self, room: bool) -> None:
        self.core.store.down = not room

    async def do_release(self) -> None:
        self.agent.release()

    async def do_probe(self) -> None:
        """Somebody writes where nobody else does: whatever hangs elsewhere, it is taken up at once."""
        if self.core.store.down or not self.channel.connected or self.core.tripwire.at:
            return
        number = len(self.said)
        await self.do_say(f"9{number % 5}", None, "t:ok")
        await self.clock.advance(PROBE_SECONDS)
        asked = [start.run_input.text for _, start, _ in self.agent.told]
        assert any(text.startswith(f"say{number}v") for text in asked), f"message {number} waits for other chats"

    async def heal(self) -> None:
        """Everything works again, only the model still hangs where it hung."""
        if self.core.tripwire.tripped.is_set():
            await self.do_kill()
        self._arm(0)
        await self.do_start()
        self.core.store.down = False
        self.channel.connected, self.channel.delay = True, 0.0
        self.channel._faults.clear()

    async def close(self) -> None:
        await self._end_poller()
        if self.running:
            await self.core.crash()


def new_play(folder: Path, mode: MemoryMode, policy: AccountPolicy) -> Play:
    clock = VirtualClock()
    agent = PlayedAgent(clock=clock)
    core = Core(
        folder,
        policy,
        clock,
        agent,
        queue_limit=3,
        mode=mode,
        rate=RATE,
        channel_type=PlayedChannel,
    )
    return Play(core, agent)
